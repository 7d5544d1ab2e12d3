// One request over the network: built from the parameters of a node, sent to checked addresses, followed through redirects, limited in time.

import http from "node:http";
import https from "node:https";
import type { Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { HandlerContext } from "@astraflow/sdk";
import { chooseLookup } from "./addresses.ts";
import { readAuthorization } from "./authorization.ts";
import { failure } from "./failure.ts";

/** What the schemas of all nodes have in common; the scheduler has checked it and filled in the defaults. */
export interface RequestParams {
  readonly url: string;
  readonly method?: string;
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly text?: string;
  readonly form?: Readonly<Record<string, string | number | boolean>>;
  readonly auth?: "none" | "bearer" | "basic" | "raw";
  readonly redirects?: number;
}

export interface SentRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

export interface ReceivedResponse {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The bytes of the body, decompressed. */
  readonly stream: Readable;
  /** Of the last request, after redirects. */
  readonly url: URL;
  readonly redirects: number;
}

const redirectStatuses = new Set([301, 302, 303, 307, 308]);
/** They describe the connection, or decide where it leads; Node sets them. */
const ownHeaders = new Set(["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"]);
const decoders = { gzip: createGunzip, "x-gzip": createGunzip, deflate: createInflate, br: createBrotliDecompress };

/** For messages: a query may hold what is not for everybody. */
export const showUrl = (url: URL): string => `${url.origin}${url.pathname}`;

export function buildRequest(ctx: HandlerContext): SentRequest {
  const params = ctx.params as unknown as RequestParams;
  const url = readUrl(params.url);
  for (const [name, value] of Object.entries(params.query ?? {})) url.searchParams.append(name, String(value));
  const method = (params.method ?? "GET").toUpperCase();
  const { body, contentType } = readBody(params);
  const given = Object.entries(params.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value] as const);
  const refused = given.find(([name]) => ownHeaders.has(name) || name.startsWith("proxy-"));
  if (refused !== undefined)
    throw failure("E.PARAMS.INVALID", `headers must not set ${refused[0]}: the connection sets it itself`);
  const authorization = readAuthorization(ctx, params.auth ?? "none", url);
  const headers = {
    "user-agent": "astraflow-http/1.0",
    "accept-encoding": "gzip, deflate, br",
    ...(contentType !== undefined && { "content-type": contentType }),
    // A service that knows the header does a thing once, however many attempts the task has.
    ...(method !== "GET" && method !== "HEAD" && { "idempotency-key": ctx.idempotencyKey }),
    ...Object.fromEntries(given),
    ...(authorization !== undefined && { authorization }),
  };
  return { method, url, headers, ...(body !== undefined && { body }) };
}

function readUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null) throw failure("E.PARAMS.INVALID", `url is not an address: ${text.slice(0, 200)}`);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw failure("E.PARAMS.INVALID", `url must begin with http: or https:, not ${url.protocol}`);
  if (url.username !== "" || url.password !== "")
    throw failure("E.PARAMS.INVALID", "url must not hold a user name or password; grant the package a secret and set auth");
  return url;
}

function readBody({ json, text, form }: RequestParams): { body?: Buffer; contentType?: string } {
  const given = Object.entries({ json, text, form }).filter(([, value]) => value !== undefined && value !== null);
  if (given.length > 1)
    throw failure("E.PARAMS.INVALID", `a request has one body, but ${given.map(([name]) => name).join(" and ")} are set`);
  if (json !== undefined && json !== null) return { body: Buffer.from(JSON.stringify(json)), contentType: "application/json" };
  if (text !== undefined && text !== null) return { body: Buffer.from(text), contentType: "text/plain; charset=utf-8" };
  if (form === undefined || form === null) return {};
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(form)) fields.append(name, String(value));
  return { body: Buffer.from(fields.toString()), contentType: "application/x-www-form-urlencoded" };
}

/** Resolves with the head of the last response; whoever reads its body stops when `signal` does. */
export async function sendRequest(request: SentRequest, redirectsMax: number, signal: AbortSignal): Promise<ReceivedResponse> {
  let sent = request;
  for (let redirects = 0; ; redirects++) {
    const response = await exchange(sent, signal);
    const statusCode = response.statusCode ?? 0;
    const { location } = response.headers;
    if (!redirectStatuses.has(statusCode) || location === undefined || redirectsMax === 0) {
      const headers = Object.fromEntries(
        Object.entries(response.headers).map(([name, value]) => [name, [value].flat().join(", ")]),
      );
      return { statusCode, headers, stream: decode(response), url: sent.url, redirects };
    }
    response.destroy();
    if (redirects >= redirectsMax)
      throw failure("E.RUNNER.REFUSED", `${showUrl(request.url)} redirects more than ${redirectsMax} times`);
    sent = followRedirect(sent, statusCode, location);
  }
}

function followRedirect(sent: SentRequest, statusCode: number, location: string): SentRequest {
  const target = URL.parse(location, sent.url.href);
  if (target === null) throw failure("E.RUNNER.REFUSED", `${showUrl(sent.url)} redirects to what is no address`);
  const url = readUrl(target.href);
  // What was meant for one service is not for another.
  const isOther = url.origin !== sent.url.origin;
  const dropped = isOther ? ["authorization", "cookie", "idempotency-key"] : [];
  const becomesGet = statusCode === 303 || ((statusCode === 301 || statusCode === 302) && sent.method === "POST");
  if (becomesGet) dropped.push("content-type");
  const headers = Object.fromEntries(Object.entries(sent.headers).filter(([name]) => !dropped.includes(name)));
  if (becomesGet) return { method: sent.method === "HEAD" ? "HEAD" : "GET", url, headers };
  return { ...sent, url, headers };
}

function exchange({ method, url, headers, body }: SentRequest, signal: AbortSignal): Promise<http.IncomingMessage> {
  const lookup = chooseLookup(url);
  const { request } = url.protocol === "https:" ? https : http;
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { "content-length": body.length };
    // No agent: a connection that was kept open was checked for another request.
    const outgoing = request(url, { method, headers: { ...headers, ...length }, lookup, agent: false, signal });
    outgoing.once("response", resolve);
    outgoing.once("error", (cause) => reject(signal.aborted ? signal.reason : explainBreak(method, url, cause)));
    outgoing.end(body);
  });
}

export function explainBreak(method: string, url: URL, cause: unknown): Error {
  if (cause instanceof Error && "code" in cause && String(cause.code).startsWith("E.")) return cause;
  // Of a name with several addresses the errors of all attempts are in one.
  const causes = cause instanceof AggregateError ? cause.errors : [cause];
  const message = causes.map((one) => (one instanceof Error ? one.message : String(one))).join("; ");
  return failure("E.RUNNER.FAILURE", `${method} ${showUrl(url)} failed: ${message}`, cause);
}

function decode(response: http.IncomingMessage): Readable {
  const encoding = response.headers["content-encoding"]?.toLowerCase() ?? "identity";
  if (!Object.hasOwn(decoders, encoding)) return response;
  const decoded = decoders[encoding as keyof typeof decoders]();
  response.once("error", (problem) => decoded.destroy(problem));
  decoded.once("close", () => response.destroy());
  return response.pipe(decoded);
}
