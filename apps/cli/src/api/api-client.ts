// The scheduler's API as the commands use it: the typed client, whose failures leave as a CliFailure that names the address or the fault.
// What is done with the answers is the commands' business.

import { setDefaultCACertificates } from "node:tls";
import { ApiFault, type Client, createClient as createApiClient, NoAnswer } from "@astraflow/client";
import { CliFailure, exitCodeForStatus, exitCodes } from "../output/cli-failure.ts";
import type { ApiEndpoint } from "./api-endpoint.ts";

export type { Client } from "@astraflow/client";

const requestTimeoutMs = 30_000;

export interface CliClientOptions {
  readonly waitMs?: number;
  /** Hears of every request that was answered or was not, in one line; never of the token. */
  readonly logRequest?: ((line: string) => void) | undefined;
}

export function createCliClient(
  connection: ApiEndpoint,
  { waitMs = requestTimeoutMs, logRequest }: CliClientOptions = {},
): Client {
  // For the whole process, which talks to this scheduler and nobody else: fetch takes no authority of its own.
  if (connection.caCertificate !== undefined) setDefaultCACertificates([connection.caCertificate]);
  // Nobody there is told at once; commands that can wait for a scheduler do so themselves, and say it.
  const client = createApiClient({
    url: connection.url,
    token: connection.token,
    waitMs,
    retry: { busyMax: 3, lostMax: 0 },
    ...(logRequest !== undefined && { environment: { fetch: createLoggingFetch(logRequest) } }),
  });
  const translate = (cause: unknown): never => {
    throw toCliFailure(cause, connection.url, waitMs);
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

/** Tells method, path, status and time of each request; of a stream the time to its head. */
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

/** What the client throws, as the CLI says it; anything else is what it was. */
function toCliFailure(cause: unknown, url: string, waitMs: number): unknown {
  if (cause instanceof ApiFault) {
    if (cause.code === `HTTP ${cause.status}`) return notASchedulerFailure(url, cause.code);
    const next =
      cause.status === 401 && cause.code !== "E.AUTH.CREDENTIALS" ? "ASTRA_TOKEN=… astra …, --token @FILE, or astra login" : null;
    return new CliFailure(exitCodeForStatus(cause.status), cause.toJSON(), next);
  }
  if (!(cause instanceof NoAnswer)) return cause;
  return cause.isLate ? timeoutFailure(url, waitMs) : unreachableFailure(url, cause.cause);
}

/** Somebody may well be there, and wait for a store that is away; starting another scheduler would be bad advice. */
function timeoutFailure(url: string, waitMs: number): CliFailure {
  const message = `The scheduler at ${url} did not answer within ${waitMs / 1_000} s; it may be waiting for its store. Try again later.`;
  return new CliFailure(
    exitCodes.unreachable,
    { error: "E.UNREACHABLE", message, details: { reason: "TIMEOUT" } },
    `curl ${url}/readyz`,
  );
}

/** A refusal of a scheduler has a body; this one is of another program, or of something on the way, and says nothing about what was asked. */
function notASchedulerFailure(url: string, reason: string): CliFailure {
  const message = `What answers at ${url} does not speak as a scheduler does (${reason}). Name another with --url or ASTRA_URL, or look at what stands in between.`;
  return new CliFailure(exitCodes.unreachable, { error: "E.UNREACHABLE", message, details: { reason } }, `curl ${url}/readyz`);
}

/** How OpenSSL and Node call a certificate that does not prove what it should. */
const certificateErrors = /CERT|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/;

function unreachableFailure(url: string, cause: unknown): CliFailure {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const reason = inner instanceof Error && "code" in inner ? String(inner.code) : "";
  if (certificateErrors.test(reason)) {
    const message = `What answers at ${url} could not prove that it is your scheduler (${reason}). Name its authority with --ca FILE or ASTRA_CA, and use the name that its certificate holds.`;
    return new CliFailure(exitCodes.unreachable, { error: "E.UNREACHABLE", message, details: { reason } }, "astra … --ca FILE");
  }
  const why =
    inner instanceof SyntaxError
      ? "what answers there does not speak JSON"
      : inner instanceof Error
        ? inner.message || inner.name
        : String(inner);
  // A TLS port hangs up on whoever speaks plain HTTP to it, without a word.
  const hint = reason === "UND_ERR_SOCKET" && url.startsWith("http:") ? " If it has TLS, its address begins with https://." : "";
  const message = `No scheduler answers at ${url} (${why}). Start one, or name another with --url or ASTRA_URL.${hint}`;
  return new CliFailure(exitCodes.unreachable, { error: "E.UNREACHABLE", message, details: { reason } }, "astra up");
}
