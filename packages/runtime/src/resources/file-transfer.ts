// Files between this worker and its scheduler's file store: sent in parts, received in stretches, continued after a break, compared by digest.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rm, stat } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import { errorMessage, Fault, fault, isFaultCode, isRecord } from "@astraflow/protocol";
import type { StoredFile } from "@astraflow/sdk";

/** Plain data: it may come from another thread. `path` is what is sent, or where the bytes go, which must not exist. */
export type FileTransfer =
  | {
      readonly type: "upload";
      readonly path: string;
      readonly workerName: string;
      readonly filename: string;
      readonly mimeType?: string;
    }
  | { readonly type: "download"; readonly path: string; readonly resourceId: string; readonly bytesMax: number };

export interface FileTransferPorts {
  /** Where the API is, such as http://127.0.0.1:8080, at each of the replicas, and the token for it; asked before every request. */
  endpoint(): { readonly origins: readonly [string, ...string[]]; readonly authorization: string } | Fault;
  /** Certificates for https; absent: the system's. */
  tls?(): https.RequestOptions;
  random(): number;
  after(ms: number, call: () => void): () => void;
}

export const fileTransferLimits = {
  partBytes: 8 * 1024 * 1024,
  /** A request that moves no byte for so long has failed. */
  idleMsMax: 30_000,
  /** Failures in a row, without a part or a byte in between, after which the transfer fails. */
  failuresMax: 8,
  pauseMsMin: 200,
  pauseMsMax: 5_000,
  /** Of an answer in JSON. */
  answerBytesMax: 1024 * 1024,
} as const;
export type FileTransferLimits = { readonly [Key in keyof typeof fileTransferLimits]: number };

/** Files that a handler has sent carry this; a worker fetches no others, whatever its token may read. */
const originKey = "workerFile";

interface Request {
  readonly method: "GET" | "POST" | "PUT";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: object;
  readonly file?: { readonly path: string; readonly start: number; readonly end: number };
}

interface UploadState {
  readonly uploadId: string;
  readonly totalParts: number;
  readonly chunkSize: number;
  readonly nextPart: number;
}

export const noFileTransferFault = (): Fault =>
  fault(
    "E.RUNNER.FAILURE",
    "this worker has no token for the scheduler's API, so it cannot transfer files; start it with a token",
  );

/** Another try may help: the connection broke, or the scheduler was busy or away. */
class TransferBroken extends Error {}

export class SchedulerFiles {
  readonly #ports: FileTransferPorts;
  readonly #limits: FileTransferLimits;
  /** Which of the replicas is asked: the next one once a connection has failed. */
  #replica = 0;

  constructor(ports: FileTransferPorts, limits: FileTransferLimits = fileTransferLimits) {
    this.#ports = ports;
    this.#limits = limits;
  }

  /** Throws a Fault where it is refused, or cannot be finished after several tries. */
  transfer(wanted: FileTransfer): Promise<StoredFile> {
    return wanted.type === "upload" ? this.#upload(wanted) : this.#download(wanted);
  }

  async #upload({ path, workerName, filename, mimeType }: Extract<FileTransfer, { type: "upload" }>): Promise<StoredFile> {
    const { size } = await stat(path);
    if (size === 0) throw fault("E.PARAMS.INVALID", `${filename} is empty; an empty file cannot be stored`);
    const sha256 = await digestFile(path);
    const tries = new TryCounter(this.#limits, this.#ports);
    // A repeated request returns the upload that the first one began.
    const key = createHash("sha256").update(`${sha256} ${path} ${this.#ports.random()}`).digest("hex");
    const begun = await tries.run(() =>
      this.#ask({
        method: "POST",
        path: "/api/v1/resources/uploads",
        headers: { "idempotency-key": key },
        json: {
          filename,
          sizeBytes: size,
          chunkSize: Math.min(this.#limits.partBytes, size),
          // Runs, with what they print and return, can be seen by all who may read in the tenant; so can the files they leave.
          visibility: "public",
          ...(mimeType !== undefined && { mimeType }),
          metadata: { [originKey]: { workerName } },
        },
      }),
    );
    let upload = begun as unknown as UploadState;
    const place = `/api/v1/resources/uploads/${encodeURIComponent(upload.uploadId)}`;
    while (upload.nextPart < upload.totalParts) {
      const { nextPart, chunkSize } = upload;
      const start = nextPart * chunkSize;
      const file = { path, start, end: Math.min(start + chunkSize, size) - 1 };
      let isBroken = false;
      const next = await tries.run(async () => {
        // After a break the scheduler knows which parts it has.
        if (isBroken) {
          const state = (await this.#ask({ method: "GET", path: place })) as unknown as UploadState;
          if (state.nextPart !== nextPart) return state;
        }
        isBroken = true;
        return this.#ask({ method: "PUT", path: `${place}/parts/${nextPart}`, file });
      });
      upload = { ...upload, nextPart: (next as unknown as UploadState).nextPart };
    }
    const resource = await tries.run(() => this.#ask({ method: "POST", path: `${place}/complete` }));
    const stored = readStoredFile(resource);
    if (stored.sha256 !== sha256)
      throw fault("E.RESOURCE.DIGEST", `the scheduler received other bytes of ${filename} than were sent; send it again`);
    return stored;
  }

  async #download({ path, resourceId, bytesMax }: Extract<FileTransfer, { type: "download" }>): Promise<StoredFile> {
    const place = `/api/v1/resources/${encodeURIComponent(resourceId)}`;
    const tries = new TryCounter(this.#limits, this.#ports);
    const about = await tries.run(() => this.#ask({ method: "GET", path: place }));
    const stored = readStoredFile(about);
    const { metadata } = about;
    if (!isRecord(metadata) || metadata[originKey] === undefined)
      throw fault("E.AUTH.FORBIDDEN", `file ${resourceId} was not left by a worker; a package gets it by a grant`);
    if (stored.sizeBytes > bytesMax)
      throw fault("E.RESOURCE.FULL", `file ${resourceId} has ${stored.sizeBytes} bytes; this worker can keep ${bytesMax}`);
    const target = await open(path, "wx", 0o600);
    try {
      let receivedBytes = 0;
      while (receivedBytes < stored.sizeBytes)
        await tries.run(async () => {
          const headers = { range: `bytes=${receivedBytes}-` };
          const response = await this.#send({ method: "GET", path: `${place}/download`, headers });
          if (response.statusCode !== 206) throw await this.#readRefusal(response);
          await this.#receive(response, async (bytes) => {
            if (receivedBytes + bytes.length > stored.sizeBytes) throw new TransferBroken("more bytes came than the file has");
            await target.write(bytes, 0, bytes.length, receivedBytes);
            receivedBytes += bytes.length;
            tries.reset();
          });
          if (receivedBytes < stored.sizeBytes) throw new TransferBroken("the connection ended before the file did");
        });
      await target.sync();
    } catch (failed) {
      await rm(path, { force: true });
      throw failed;
    } finally {
      await target.close();
    }
    if ((await digestFile(path)) === stored.sha256) return stored;
    await rm(path, { force: true });
    throw fault("E.RESOURCE.DIGEST", `the bytes of file ${resourceId} do not match its SHA-256; they were discarded`);
  }

  /** The body of a successful answer. */
  async #ask(request: Request): Promise<Readonly<Record<string, unknown>>> {
    const response = await this.#send(request);
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 299) throw await this.#readRefusal(response);
    const body = await this.#readJson(response);
    if (isRecord(body)) return body;
    throw new TransferBroken("the scheduler's answer is not an object");
  }

  async #send({ method, path, headers = {}, json, file }: Request): Promise<http.IncomingMessage> {
    const endpoint = this.#ports.endpoint();
    if (endpoint instanceof Fault) throw endpoint;
    const { origins, authorization } = endpoint;
    const origin = origins[this.#replica % origins.length] ?? origins[0];
    const url = new URL(path, origin);
    const body = json === undefined ? undefined : Buffer.from(JSON.stringify(json));
    const length = body?.length ?? (file === undefined ? 0 : file.end - file.start + 1);
    const type = json === undefined ? "application/octet-stream" : "application/json";
    const options = {
      method,
      agent: false,
      ...(url.protocol === "https:" && this.#ports.tls?.()),
      headers: {
        authorization,
        ...headers,
        ...(method !== "GET" && { "content-length": length }),
        ...(length > 0 && { "content-type": type }),
      },
    } as const;
    return new Promise((resolve, reject) => {
      const broken = (cause: unknown): void => {
        this.#replica++;
        reject(new TransferBroken(`${origin}: ${errorMessage(cause)}`, { cause }));
      };
      const request = (url.protocol === "https:" ? https : http).request(url, options);
      request.setTimeout(this.#limits.idleMsMax, () => request.destroy(new Error("nothing moved for too long")));
      request.once("response", resolve);
      request.once("error", broken);
      if (file === undefined) return void request.end(body);
      const source = createReadStream(file.path, { start: file.start, end: file.end });
      source.once("error", (cause) => {
        request.destroy();
        reject(cause);
      });
      source.pipe(request);
    });
  }

  async #receive(response: http.IncomingMessage, take: (bytes: Buffer) => Promise<void> | void): Promise<void> {
    try {
      for await (const bytes of response) await take(bytes as Buffer);
    } catch (cause) {
      if (cause instanceof Fault || cause instanceof TransferBroken) throw cause;
      throw new TransferBroken(errorMessage(cause), { cause });
    }
  }

  async #readJson(response: http.IncomingMessage): Promise<unknown> {
    const pieces: Buffer[] = [];
    let length = 0;
    await this.#receive(response, (bytes) => {
      length += bytes.length;
      if (length > this.#limits.answerBytesMax) throw new TransferBroken("the scheduler's answer is too long");
      pieces.push(bytes);
    });
    try {
      return JSON.parse(Buffer.concat(pieces).toString("utf8")) as unknown;
    } catch (cause) {
      throw new TransferBroken("the scheduler's answer is not JSON", { cause });
    }
  }

  async #readRefusal(response: http.IncomingMessage): Promise<Error> {
    const status = response.statusCode ?? 0;
    const body = await this.#readJson(response);
    const { error: code, message } = isRecord(body) ? body : {};
    const text = `the scheduler answered ${status}: ${typeof message === "string" ? message : "without a reason"}`;
    if (status >= 500 || status === 429 || status === 408) return new TransferBroken(text);
    return fault(typeof code === "string" && isFaultCode(code) ? code : "E.RUNNER.FAILURE", text);
  }
}

/** Tries again what broke, with growing pauses, until it broke too often without anything having moved. */
class TryCounter {
  readonly #limits: FileTransferLimits;
  readonly #ports: FileTransferPorts;
  #failures = 0;

  constructor(limits: FileTransferLimits, ports: FileTransferPorts) {
    this.#limits = limits;
    this.#ports = ports;
  }

  reset(): void {
    this.#failures = 0;
  }

  async run<T>(call: () => Promise<T>): Promise<T> {
    const { failuresMax, pauseMsMin, pauseMsMax } = this.#limits;
    for (;;) {
      try {
        const value = await call();
        this.reset();
        return value;
      } catch (thrown) {
        if (!(thrown instanceof TransferBroken)) throw thrown;
        this.#failures++;
        if (this.#failures >= failuresMax)
          throw fault(
            "E.RUNNER.FAILURE",
            `a file could not be transferred: ${this.#failures} tries in a row failed, the last one because ${thrown.message}`,
            undefined,
            thrown,
          );
        const ms = Math.min(pauseMsMax, pauseMsMin * 2 ** (this.#failures - 1));
        await new Promise<void>((resolve) => void this.#ports.after(ms * (0.5 + this.#ports.random() / 2), resolve));
      }
    }
  }
}

function readStoredFile(body: Readonly<Record<string, unknown>>): StoredFile {
  const { resourceId, filename, sizeBytes, sha256, mimeType } = body;
  if (
    typeof resourceId !== "string" ||
    typeof filename !== "string" ||
    typeof sizeBytes !== "number" ||
    typeof sha256 !== "string"
  )
    throw new TransferBroken("the scheduler's answer does not describe a file");
  return {
    resourceId,
    downloadUrl: `/api/v1/resources/${encodeURIComponent(resourceId)}/download`,
    filename,
    sizeBytes,
    sha256,
    ...(typeof mimeType === "string" && { mimeType }),
  };
}

async function digestFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const bytes of createReadStream(path)) hash.update(bytes as Buffer);
  return hash.digest("hex");
}
