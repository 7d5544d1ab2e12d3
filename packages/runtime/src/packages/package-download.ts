// Downloads one file from an address that somebody else chose: https and public addresses only, or an allowed origin; bounded in bytes,
// time, slowness and redirects. Addresses are judged where the socket connects, so that a name cannot mean two things.

import { createHash } from "node:crypto";
import { lookup as systemLookup } from "node:dns";
import { open } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import type { LookupFunction } from "node:net";
import { classifyIpAddress, errorMessage, Fault, fault } from "@astraflow/protocol";
import type { InstallLimits } from "./install-settings.ts";

export interface DownloadOptions {
  readonly allowedOrigins: readonly string[];
  readonly limits: InstallLimits;
  /** Sent to allowed origins only, and never after a redirect to another one. */
  readonly authorization?: { readonly origin: string; readonly value: string };
  /** Bytes so far, and of how many where the server says so. */
  progress?(bytes: number, total: number | null): void;
  /** Resolves names; the system's where absent. */
  readonly lookup?: LookupFunction;
  readonly signal?: AbortSignal;
}

export interface DownloadedFile {
  readonly sha256: string;
  readonly bytes: number;
}

const refuse = (message: string, url?: URL) => fault("E.PKG.PERMISSION", message, url && { origin: url.origin });
const redirectStatuses = new Set([301, 302, 303, 307, 308]);
const windowMs = 1_000;

/** Writes the file, which must not exist, and syncs it. Throws E.PKG.PERMISSION for the address, E.PKG.INVALID for what came from it. */
export async function downloadFile(address: string, file: string, options: DownloadOptions): Promise<DownloadedFile> {
  const { limits } = options;
  const deadline = AbortSignal.timeout(limits.downloadMsMax);
  const signal = options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal]);
  let url = readAddress(address, options);
  try {
    for (let redirects = 0; ; redirects++) {
      const response = await requestUrl(url, options, signal);
      const status = response.statusCode ?? 0;
      if (!redirectStatuses.has(status)) return await saveBody(response, url, file, options, signal);
      response.destroy();
      if (redirects === limits.redirectsMax) throw refuse(`${url.origin} redirects more than ${limits.redirectsMax} times`, url);
      url = readAddress(new URL(response.headers.location ?? "", url).href, options);
    }
  } catch (thrown) {
    if (thrown instanceof Fault) throw thrown;
    if (deadline.aborted)
      throw fault("E.PKG.INVALID", `the download from ${url.origin} took longer than ${limits.downloadMsMax / 1_000} s`);
    throw fault("E.PKG.INVALID", `the download from ${url.origin} failed: ${errorMessage(thrown)}`, undefined, thrown);
  }
}

function readAddress(address: string, { allowedOrigins }: DownloadOptions): URL {
  const url = URL.parse(address);
  if (url === null) throw refuse("the address of the package is not a URL");
  if (url.protocol !== "https:" && url.protocol !== "http:") throw refuse(`packages are not fetched by ${url.protocol}`, url);
  if (url.username !== "" || url.password !== "") throw refuse(`the address at ${url.host} carries a user or a password`, url);
  if (allowedOrigins.includes(url.origin)) return url;
  if (url.protocol !== "https:") throw refuse(`${url.origin} is not https; allow the origin to fetch packages from it`, url);
  // The socket asks no resolver about an address.
  const kind = classifyIpAddress(url.hostname);
  if (kind !== null && kind !== "public")
    throw refuse(`${url.hostname} is a ${kind} address; allow the origin ${url.origin} to fetch packages from it`, url);
  return url;
}

function requestUrl(url: URL, options: DownloadOptions, signal: AbortSignal): Promise<http.IncomingMessage> {
  const isAllowed = options.allowedOrigins.includes(url.origin);
  const lookup = options.lookup ?? (systemLookup as LookupFunction);
  const { authorization } = options;
  return new Promise((resolve, reject) => {
    const request = (url.protocol === "https:" ? https : http).get(url, {
      agent: false,
      signal,
      lookup: isAllowed ? lookup : onlyPublic(lookup, url),
      headers: authorization?.origin === url.origin ? { authorization: authorization.value } : {},
    });
    request.setTimeout(options.limits.downloadIdleMsMax, () => request.destroy(new Error("nothing came for too long")));
    request.once("response", resolve);
    request.once("error", reject);
  });
}

/** One address that is not public refuses the name: the next question might be answered with that one. */
function onlyPublic(lookup: LookupFunction, url: URL): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, options, (problem, address, family) => {
      const addresses = typeof address === "string" ? [address] : (address ?? []).map((one) => one.address);
      const forbidden = addresses.find((one) => classifyIpAddress(one) !== "public");
      if (problem !== null || forbidden === undefined) return callback(problem, address, family);
      const kind = classifyIpAddress(forbidden) ?? "unreadable";
      callback(
        refuse(
          `${hostname} leads to ${forbidden}, a ${kind} address; allow the origin ${url.origin} to fetch packages from it`,
          url,
        ),
        "",
        0,
      );
    });
  };
}

async function saveBody(
  response: http.IncomingMessage,
  url: URL,
  file: string,
  { limits, progress }: DownloadOptions,
  signal: AbortSignal,
): Promise<DownloadedFile> {
  const { statusCode, headers } = response;
  const invalid = (message: string) => fault("E.PKG.INVALID", message);
  const tooLarge = () => invalid(`the file at ${url.origin} is larger than ${limits.downloadBytesMax} bytes`);
  try {
    if (statusCode !== 200) throw invalid(`${url.origin} answered ${statusCode} instead of the file`);
    if (headers["content-encoding"] !== undefined) throw invalid(`${url.origin} sent the file encoded, which was not asked for`);
    const total = headers["content-length"] === undefined ? null : Number(headers["content-length"]);
    if (total !== null && total > limits.downloadBytesMax) throw tooLarge();
    const hash = createHash("sha256");
    const pace = new Pace(limits, () =>
      response.destroy(invalid(`${url.origin} sends less than ${limits.downloadBytesPerSecondMin} bytes a second`)),
    );
    const handle = await open(file, "wx", 0o600);
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        signal.throwIfAborted();
        pace.add(chunk.length);
        if (pace.bytes > limits.downloadBytesMax) throw tooLarge();
        hash.update(chunk);
        await handle.writeFile(chunk);
        progress?.(pace.bytes, total);
      }
      await handle.sync();
    } finally {
      pace.stop();
      await handle.close();
    }
    if (total !== null && total !== pace.bytes) throw invalid(`${url.origin} announced ${total} bytes and sent ${pace.bytes}`);
    return { sha256: hash.digest("hex"), bytes: pace.bytes };
  } finally {
    response.destroy();
  }
}

/** Ends a download that is too slow, averaged since its begin after a window of grace. */
class Pace {
  bytes = 0;
  readonly #timer: NodeJS.Timeout;
  #windows = 0;

  constructor({ downloadBytesPerSecondMin, downloadIdleMsMax }: InstallLimits, tooSlow: () => void) {
    const graceWindows = Math.ceil(downloadIdleMsMax / windowMs);
    this.#timer = setInterval(() => {
      this.#windows++;
      const isTooSlow = this.bytes < (this.#windows * windowMs * downloadBytesPerSecondMin) / 1_000;
      if (this.#windows >= graceWindows && isTooSlow) tooSlow();
    }, windowMs);
  }

  add(bytes: number): void {
    this.bytes += bytes;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
