// The scheduler's API as the commands use it: the typed client, whose errors become CliFailures that name the address or the fault.

import { setDefaultCACertificates } from "node:tls";
import { ApiFault, type Client, createClient as createApiClient, NoAnswer } from "@astraflow/client";
import { CliFailure, errorMessage, exitCodeForStatus, exitCodes } from "../output/cli-failure.ts";
import type { ApiEndpoint } from "./api-endpoint.ts";

export type { Client } from "@astraflow/client";

const requestTimeoutMs = 30_000;

interface CliClientOptions {
  readonly waitMs?: number;
  /** Called with one line per request, answered or not; the token is never in it. */
  readonly logRequest?: ((line: string) => void) | undefined;
}

export function createCliClient({ url, token, caCertificate }: ApiEndpoint, options: CliClientOptions = {}): Client {
  const { waitMs = requestTimeoutMs, logRequest } = options;
  // For the whole process, which talks only to this scheduler: fetch takes no CA of its own.
  if (caCertificate !== undefined) setDefaultCACertificates([caCertificate]);
  // A scheduler that is away is reported at once; commands that can wait for it do so themselves.
  const client = createApiClient({
    url,
    token,
    waitMs,
    retry: { busyMax: 3, lostMax: 0 },
    ...(logRequest !== undefined && { environment: { fetch: createLoggingFetch(logRequest) } }),
  });
  const translate = (cause: unknown): never => {
    throw toCliFailure(cause, url, waitMs);
  };
  const calls = Object.entries(client).map(([name, call]) => [
    name,
    typeof call !== "function" || name === "events"
      ? call
      : (...args: never[]) => (call as (...args: never[]) => Promise<unknown>)(...args).catch(translate),
  ]);
  return {
    ...(Object.fromEntries(calls) as Client),
    async *events(options) {
      try {
        yield* client.events(options);
      } catch (cause) {
        translate(cause);
      }
    },
  };
}

/** Logs method, path, status and time of each request; for a stream, the time to its headers. */
function createLoggingFetch(logRequest: (line: string) => void): (url: string, init: RequestInit) => Promise<Response> {
  return async (url, init) => {
    const startedAt = performance.now();
    const { pathname, search } = new URL(url);
    const end = (what: string): void =>
      logRequest(`${init.method ?? "GET"} ${pathname}${search} ${what} in ${Math.round(performance.now() - startedAt)} ms`);
    try {
      const response = await fetch(url, init);
      const requestId = response.headers.get("x-request-id");
      end(`${response.status}${requestId === null ? "" : ` (request ${requestId})`}`);
      return response;
    } catch (cause) {
      end("had no answer");
      throw cause;
    }
  };
}

/** An error of the client as a CliFailure; any other error unchanged. */
function toCliFailure(cause: unknown, url: string, waitMs: number): unknown {
  if (cause instanceof ApiFault) {
    // A scheduler refuses with an error body; this response comes from another program or a proxy.
    if (cause.code === `HTTP ${cause.status}`)
      return unreachable(
        `The server at ${url} is not an AstraFlow scheduler (${cause.code}). Check --url or ASTRA_URL, and any proxy in between.`,
        cause.code,
        `curl ${url}/readyz`,
      );
    const isTokenMissing = cause.status === 401 && cause.code !== "E.AUTH.CREDENTIALS";
    const next = isTokenMissing ? "ASTRA_TOKEN=… astra …, --token @FILE, or astra login" : null;
    return new CliFailure(exitCodeForStatus(cause.status), cause.toJSON(), next);
  }
  if (!(cause instanceof NoAnswer)) return cause;
  if (!cause.isLate) return noAnswerFailure(url, cause.cause);
  // It may be waiting for its store, so starting another one would be bad advice.
  return unreachable(
    `The scheduler at ${url} did not answer within ${waitMs / 1_000} s; it may be waiting for its store. Try again later.`,
    "TIMEOUT",
    `curl ${url}/readyz`,
  );
}

/** A scheduler that cannot be used: nothing was answered, or nothing that a scheduler would answer. */
const unreachable = (message: string, reason: string, suggestedCommand: string): CliFailure =>
  new CliFailure(exitCodes.unreachable, { error: "E.UNREACHABLE", message, details: { reason } }, suggestedCommand);

/** The codes of OpenSSL and Node for a certificate that cannot be verified. */
const certificateErrors = /CERT|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/;

function noAnswerFailure(url: string, cause: unknown): CliFailure {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const reason = inner instanceof Error && "code" in inner ? String(inner.code) : "";
  if (certificateErrors.test(reason))
    return unreachable(
      `The TLS certificate of ${url} could not be verified (${reason}). Pass its CA with --ca FILE or ASTRA_CA, and use the host name in the certificate.`,
      reason,
      "astra … --ca FILE",
    );
  const why = inner instanceof SyntaxError ? "the response is not JSON" : errorMessage(inner) || (inner as Error).name;
  // A TLS port closes a plain HTTP connection without a response.
  const hint = reason === "UND_ERR_SOCKET" && url.startsWith("http:") ? " If it uses TLS, its URL begins with https://." : "";
  return unreachable(
    `No scheduler answers at ${url} (${why}). Start one, or choose another with --url or ASTRA_URL.${hint}`,
    reason,
    "astra up",
  );
}
