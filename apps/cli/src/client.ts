// The scheduler's REST API as the commands use it. Every failure leaves as a CliFailure that names the address or the fault; what
// is done with the answers is the commands' business.

import { readFileSync } from "node:fs";
import { setDefaultCACertificates } from "node:tls";
import type {
  CommandRef,
  Run,
  RunEventList,
  RunList,
  RunRef,
  RunStartRequest,
  WorkerDetail,
  WorkerDiagnostics,
  WorkerList,
  Workflow,
} from "@astraflow/protocol";
import { CliFailure, exitCodeOf, exitCodes, type FailureBody, usageFailure } from "./failure.ts";

const defaultUrl = "http://127.0.0.1:8080";
/** A published word, not a secret: it opens only a scheduler that was started with --dev. */
const devToken = "dev-token";
const requestMsMax = 30_000;

export interface Connection {
  readonly url: string;
  readonly token: string;
  /** The one authority (PEM) that may have signed the scheduler's certificate; absent: those that this machine trusts. */
  readonly authority?: string;
}

export interface ConnectionWords {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  readonly ca?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export function readConnection({ url: given, token, ca, env }: ConnectionWords): Connection {
  const url = (given ?? env["ASTRA_URL"] ?? defaultUrl).replace(/\/+$/, "");
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    throw usageFailure(`"${url}" is no address of a scheduler; write it like ${defaultUrl}.`);
  const file = ca ?? env["ASTRA_CA"];
  const authority = file === undefined || file === "" ? {} : { authority: readAuthority(file) };
  return { url, token: readToken(token, env, parsed), ...authority };
}

function readAuthority(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw usageFailure(`The file of --ca cannot be read (${cause instanceof Error ? cause.message : String(cause)}).`);
  }
  if (!text.includes("-----BEGIN CERTIFICATE-----")) throw usageFailure(`${file} holds no certificate (PEM); --ca needs one.`);
  return text;
}

/** A command line is readable by everyone on the machine, so a secret is never taken from it: only a file, stdin or the environment. */
function readToken(word: string | undefined, env: ConnectionWords["env"], url: URL): string {
  if (word === "-") return firstLine(readFileSync(0, "utf8"));
  if (word?.startsWith("@")) return firstLine(readTokenFile(word.slice(1)));
  if (word !== undefined && word !== devToken) {
    throw usageFailure(
      "A token on the command line can be read by everyone on this machine; pass --token @FILE, --token - (stdin), or set ASTRA_TOKEN.",
    );
  }
  const isLoopback = /^(127(\.\d+){3}|localhost|\[::1\])$/.test(url.hostname);
  const token = word ?? env["ASTRA_TOKEN"] ?? (isLoopback ? devToken : "");
  return checkToken(token, "ASTRA_TOKEN");
}

function readTokenFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw usageFailure(`The token file cannot be read (${cause instanceof Error ? cause.message : String(cause)}).`);
  }
}

/** A token file of the scheduler holds one secret a line while one is being replaced; the first is the newest. */
function firstLine(text: string): string {
  const line = text.split("\n").find((one) => one.trim() !== "") ?? "";
  if (line === "") throw usageFailure("The token file is empty; write the secret into it.");
  return checkToken(line.trim(), "The token file");
}

/** No header can carry anything else, and what refuses it there repeats the secret in its words. */
function checkToken(token: string, where: string): string {
  if (/^[\x21-\x7e]*$/.test(token)) return token;
  throw usageFailure(`${where} holds something that cannot be a token: only printable ASCII without spaces is one.`);
}

export interface Client {
  readonly url: string;
  startRun(request: RunStartRequest, key: string): Promise<RunRef>;
  runs(query: { limit: number; cursor?: string; status?: string; clientId?: string }): Promise<RunList>;
  run(id: string): Promise<Run>;
  definition(id: string): Promise<Workflow>;
  events(id: string, cursor: string | null): Promise<RunEventList>;
  cancel(id: string): Promise<RunRef>;
  workers(query: { limit: number; cursor?: string }): Promise<WorkerList>;
  worker(instance: string): Promise<WorkerDetail>;
  diagnostics(instance: string): Promise<WorkerDiagnostics>;
  setDraining(instance: string, on: boolean): Promise<CommandRef>;
  kick(instance: string, reason: string | undefined): Promise<CommandRef>;
  probe(path: "/healthz" | "/readyz"): Promise<{ status: number; body: unknown }>;
}

interface Request {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly key?: string;
}

export function createClient(connection: Connection, waitMs = requestMsMax): Client {
  // For the whole process, which talks to this scheduler and nobody else: fetch takes no authority of its own.
  if (connection.authority !== undefined) setDefaultCACertificates([connection.authority]);
  const send = (request: Request) => exchange(connection, request, waitMs);
  const ask = async <T>(request: Request): Promise<T> => {
    const { status, body } = await send(request);
    if (status >= 200 && status < 300) return body as T;
    throw refusal(status, body, connection);
  };
  const run = (id: string) => `/api/v1/runs/${encodeURIComponent(id)}`;
  const worker = (instance: string) => `/api/v1/workers/${encodeURIComponent(instance)}`;
  return {
    url: connection.url,
    startRun: (body, key) => ask({ method: "POST", path: "/api/v1/runs", body, key }),
    runs: (query) => ask({ method: "GET", path: "/api/v1/runs", query }),
    run: (id) => ask({ method: "GET", path: run(id) }),
    definition: (id) => ask({ method: "GET", path: `${run(id)}/definition` }),
    events: (id, cursor) => ask({ method: "GET", path: `${run(id)}/events`, query: { limit: 200, cursor: cursor ?? undefined } }),
    cancel: (id) => ask({ method: "POST", path: `${run(id)}/cancel` }),
    workers: (query) => ask({ method: "GET", path: "/api/v1/workers", query }),
    worker: (instance) => ask({ method: "GET", path: worker(instance) }),
    diagnostics: (instance) => ask({ method: "GET", path: `${worker(instance)}/diagnostics` }),
    setDraining: (instance, on) => ask({ method: "POST", path: `${worker(instance)}/${on ? "drain" : "undrain"}` }),
    kick: (instance, reason) => ask({ method: "POST", path: `${worker(instance)}/kick`, body: { reason } }),
    probe: (path) => send({ method: "GET", path }),
  };
}

async function exchange(connection: Connection, request: Request, waitMs: number): Promise<{ status: number; body: unknown }> {
  const url = new URL(connection.url + request.path);
  for (const [name, value] of Object.entries(request.query ?? {}))
    if (value !== undefined) url.searchParams.set(name, String(value));
  const headers: Record<string, string> = { accept: "application/json", authorization: `Bearer ${connection.token}` };
  if (request.body !== undefined) headers["content-type"] = "application/json";
  if (request.key !== undefined) headers["idempotency-key"] = request.key;
  try {
    const response = await fetch(url, {
      method: request.method,
      headers,
      signal: AbortSignal.timeout(waitMs),
      ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  } catch (cause) {
    throw cause instanceof Error && cause.name === "TimeoutError"
      ? late(connection.url, waitMs)
      : unreachable(connection.url, cause);
  }
}

/** Somebody may well be there, and wait for a store that is away; starting another scheduler would be bad advice. */
function late(url: string, waitMs: number): CliFailure {
  const message = `The scheduler at ${url} did not answer within ${waitMs / 1_000} s; it may be waiting for its store. Try again later.`;
  return new CliFailure(
    exitCodes.unreachable,
    { error: "E.UNREACHABLE", message, details: { reason: "TIMEOUT" } },
    `curl ${url}/readyz`,
  );
}

/** How OpenSSL and Node call a certificate that does not prove what it should. */
const distrusts = /CERT|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/;

function unreachable(url: string, cause: unknown): CliFailure {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const reason = inner instanceof Error && "code" in inner ? String(inner.code) : "";
  if (distrusts.test(reason)) {
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

function refusal(status: number, body: unknown, connection: Connection): CliFailure {
  const isBody = typeof body === "object" && body !== null && "error" in body && "message" in body;
  const failure = isBody
    ? (body as FailureBody)
    : { error: `HTTP ${status}`, message: `${connection.url} answered ${status} without saying why.` };
  const next = status === 401 ? "ASTRA_TOKEN=… astra …, or --token @FILE" : null;
  return new CliFailure(exitCodeOf(status), failure, next);
}
