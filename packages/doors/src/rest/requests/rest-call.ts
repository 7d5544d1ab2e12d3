// What a handler sees of a request, and what it gives back: plain data, so that handlers know nothing of the HTTP library.

import { Fault, fault, type JsonValue, limits, type Permission, type Route, readJson } from "@astraflow/protocol";
import type { CallerIdentity } from "@astraflow/services";
import type { OpenStream } from "./event-stream.ts";

export interface RestCall {
  readonly requestId: string;
  readonly identity: CallerIdentity;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  header(name: string): string | undefined;
  readonly body: Buffer | null;
  /** The body as it comes in, of routes that take something else than JSON; `body` is null then. */
  readonly stream?: AsyncIterable<Buffer>;
  /** Where the request comes from; absent where there is no network. */
  readonly address?: string;
  /** Whether the caller's token would be let in now, and has this grant too, for answers that go on for hours. */
  isStillAdmitted(grant?: Permission): boolean;
}

export interface RestReply {
  /** An object becomes JSON; text leaves as it is, under `media`. Empty where a stream follows. */
  readonly body: object | string;
  /** The answer goes on after its head. */
  readonly stream?: OpenStream;
  /** The answer is these bytes, under `media`; opened only if somebody takes them. `body` is empty then. */
  readonly bytes?: () => AsyncIterable<Uint8Array>;
  readonly media?: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

export type RouteHandler = (call: RestCall) => RestReply | Promise<RestReply>;

export const restLimits = {
  /** `<tenant>/<instance>` of a worker in a path. */
  paramCharsMax: 1_100,
  headersMs: 10_000,
  requestMs: 60_000,
} as const;

/** The body as JSON within bounds, or the fault to answer. */
export function readJsonBody(call: RestCall): JsonValue {
  const media = call.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (media !== "application/json") throw fault("E.REQUEST.MEDIA", "send the body as application/json");
  if (call.body === null || call.body.length === 0) throw fault("E.REQUEST.INVALID", "the body is empty");
  const value = readJson(call.body, limits.json.request);
  if (value instanceof Fault) throw value;
  return value;
}

/** The query as the route's table allows it: known names, each once. A token in the address is refused like any unknown name. */
export function readQuery(route: Route, raw: Readonly<Record<string, unknown>>): Record<string, string> {
  const known = Object.keys(route.query ?? {});
  const query: Record<string, string> = {};
  for (const [name, value] of Object.entries(raw)) {
    if (!known.includes(name)) throw fault("E.REQUEST.INVALID", unknownParameterMessage(known), { path: "query" });
    if (typeof value !== "string")
      throw fault("E.REQUEST.INVALID", `query.${name} must be given once`, { path: `query.${name}` });
    if (value.length > limits.idCharsMax)
      throw fault("E.REQUEST.INVALID", `query.${name} may have ${limits.idCharsMax} characters`, { path: `query.${name}` });
    query[name] = readEnumValue(route, name, refuseControlCharacters(value, `query.${name}`));
  }
  return query;
}

/** A word that must be one of a few is one of them: another would find nothing, and seem to be an answer. */
function readEnumValue(route: Route, name: string, value: string): string {
  const { enum: allowedValues } = (route.query?.[name]?.schema ?? {}) as { readonly enum?: readonly string[] };
  if (allowedValues === undefined || allowedValues.includes(value)) return value;
  throw fault("E.REQUEST.INVALID", `query.${name} must be one of ${allowedValues.join(", ")}`, { path: `query.${name}` });
}

/** A whole number of the query, or what is usual where it is not given. */
export function readWholeNumber<U extends number | undefined>(
  query: Readonly<Record<string, string>>,
  name: string,
  fallback: U,
  max: number = Number.MAX_SAFE_INTEGER,
): number | U {
  const text = query[name];
  if (text === undefined) return fallback;
  const count = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(count) && count <= max) return count;
  throw fault("E.REQUEST.INVALID", `query.${name} must be a whole number from 0 to ${max}`, { path: `query.${name}` });
}

/** The words of the path. One that no id can be is refused here, before a store or a sentence meets it. */
export function readParams(params: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(params)) refuseControlCharacters(value, `params.${name}`);
  return params;
}

/** Not every store takes a NUL, and no terminal or log line should have to take the others. */
function refuseControlCharacters(value: string, path: string): string {
  if (/[\u0000-\u001f\u007f]/.test(value)) throw fault("E.REQUEST.INVALID", `${path} must have no control characters`, { path });
  return value;
}

/** The name itself is not repeated: it may be a secret that got into the address by mistake. */
const unknownParameterMessage = (known: readonly string[]): string =>
  known.length === 0 ? "this route takes no query parameters" : `this route takes no query parameters but ${known.join(", ")}`;

export function readPageLimit(query: Readonly<Record<string, string>>): number {
  const text = query["limit"];
  if (text === undefined) return limits.pageItemsDefault;
  const limit = /^[0-9]{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= limits.pageItemsMax) return limit;
  throw fault("E.REQUEST.INVALID", `query.limit must be a whole number from 1 to ${limits.pageItemsMax}`, {
    path: "query.limit",
  });
}

/** At most 64 printable ASCII characters; absent is null. */
export function readIdempotencyKey(call: RestCall): string | null {
  const key = call.header("idempotency-key");
  if (key === undefined) return null;
  if (key.length >= 1 && key.length <= limits.idempotencyKeyCharsMax && /^[\x21-\x7e]+$/.test(key)) return key;
  throw fault(
    "E.REQUEST.INVALID",
    `Idempotency-Key must be 1 to ${limits.idempotencyKeyCharsMax} printable ASCII characters without blanks`,
    {
      path: "headers.Idempotency-Key",
    },
  );
}

/** The body as a request of its schema; throws the fault of the schema. */
export const readRequest = <T>(call: RestCall, read: (value: JsonValue) => T | Fault): T =>
  throwIfFault(read(readJsonBody(call)));

/** The same where the body may be left out; then it counts as empty. */
export const readOptionalRequest = <T>(call: RestCall, read: (value: JsonValue) => T | Fault): T =>
  call.body === null || call.body.length === 0 ? throwIfFault(read({})) : readRequest(call, read);

function throwIfFault<T>(value: T | Fault): T {
  if (value instanceof Fault) throw value;
  return value;
}

/** The ETags that `If-Match` names. Null where it is absent or `*`: whatever there is. */
export function readIfMatch(call: RestCall): readonly string[] | null {
  const text = call.header("if-match")?.trim();
  if (text === undefined || text === "*") return null;
  const tags = text.split(",").map((tag) => tag.trim());
  if (text.length > 256 || !tags.every((tag) => /^(W\/)?"[\x21\x23-\x7e]*"$/.test(tag)))
    throw fault("E.REQUEST.INVALID", 'If-Match must be an ETag in quotes, such as "r3"', { path: "headers.If-Match" });
  return tags;
}
