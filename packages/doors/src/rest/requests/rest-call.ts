// One request as handlers see it, with the readers of its parts, and what they give back. Handlers know nothing of the HTTP library.

import type { IdempotencyKey } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import {
  Fault,
  fault,
  findParameterViolation,
  type JsonValue,
  limits,
  type Permission,
  type QueryParameter,
  type Route,
  type RouteName,
  readJson,
} from "@astraflow/protocol";
import { type CallerIdentity, encodeCursor } from "@astraflow/services";
import type { OpenStream } from "./event-stream.ts";

type Texts = Readonly<Record<string, string>>;

/** A request whose token was accepted. Its path and query are not checked yet. */
export interface AuthorizedRequest {
  readonly requestId: string;
  readonly identity: CallerIdentity;
  /** The bearer token; null where none was sent. */
  readonly token: string | null;
  readonly params: Texts;
  readonly query: Readonly<Record<string, unknown>>;
  /** By lowercase name. */
  header(name: string): string | undefined;
  readonly body: Buffer | null;
  /** The body as it comes in, of routes that take something else than JSON; `body` is null then. */
  readonly stream?: AsyncIterable<Buffer>;
  /** Where the request comes from; absent where there is no network. */
  readonly address?: string;
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
  readonly headers?: Texts;
}

export type RouteHandler = (call: RestCall) => RestReply | Promise<RestReply>;
export type RouteHandlers = { readonly [N in RouteName]?: RouteHandler };

export const restLimits = {
  /** `<tenant>/<instance>` of a worker in a path. */
  paramCharsMax: 1_100,
  headersMs: 10_000,
  /** For the body of a caller without a valid token. */
  strangerBodyMs: 10_000,
  requestMs: 60_000,
} as const;

/** Every reader throws E.REQUEST.INVALID, with the path of the value, where the value is none. */
export class RestCall {
  readonly requestId: string;
  readonly identity: CallerIdentity;
  readonly params: Texts;
  readonly query: Texts;
  readonly address: string;
  readonly stream: AsyncIterable<Buffer>;
  /** Whether the caller's token would be accepted now, and has this grant too, for answers that go on for hours. */
  readonly isStillAuthorized: (grant?: Permission) => boolean;
  readonly #request: AuthorizedRequest;
  readonly #route: Route;

  constructor(request: AuthorizedRequest, route: Route, isStillAuthorized: RestCall["isStillAuthorized"]) {
    this.#request = request;
    this.#route = route;
    this.requestId = request.requestId;
    this.identity = request.identity;
    this.params = request.params;
    for (const [name, value] of Object.entries(request.params)) refuseControlCharacters(`params.${name}`, value);
    this.query = readQuery(route, request.query);
    this.address = request.address ?? "";
    this.stream = request.stream ?? emptyBytes();
    this.isStillAuthorized = isStillAuthorized;
    // Headers that count are refused before anything else is looked at.
    if (route.headers?.["Idempotency-Key"] !== undefined) this.readIdempotencyKey();
    if (route.headers?.["If-Match"] !== undefined) this.#readEntityTags();
  }

  get tenant(): string {
    return this.identity.tenant;
  }

  /** A word of the path. */
  param(name: string): string {
    return this.params[name] ?? "";
  }

  header(name: string): string | undefined {
    return this.#request.header(name);
  }

  /** The media type of the body, without its parameters. */
  get media(): string | undefined {
    return this.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  }

  // ---- body

  /** The body as JSON within bounds. */
  readJson(): JsonValue {
    const { body } = this.#request;
    if (this.media !== "application/json") throw fault("E.REQUEST.MEDIA", "send the body as application/json");
    if (body === null || body.length === 0) throw fault("E.REQUEST.INVALID", "the body is empty");
    return throwIfFault(readJson(body, limits.json.request));
  }

  /** The body as a request of its schema. */
  readBody<T>(read: (value: JsonValue) => T | Fault): T {
    return throwIfFault(read(this.readJson()));
  }

  /** The same where the body may be left out; then it counts as empty. */
  readOptionalBody<T>(read: (value: JsonValue) => T | Fault): T {
    const { body } = this.#request;
    return body === null || body.length === 0 ? throwIfFault(read({})) : this.readBody(read);
  }

  // ---- headers

  /** At most 64 printable ASCII characters; absent is null. */
  readIdempotencyKey(): string | null {
    const key = this.header("idempotency-key");
    if (key === undefined) return null;
    if (key.length <= limits.idempotencyKeyCharsMax && /^[\x21-\x7e]+$/.test(key)) return key;
    const rule = `1 to ${limits.idempotencyKeyCharsMax} printable ASCII characters without blanks`;
    throw invalidRequest("headers.Idempotency-Key", `Idempotency-Key must be ${rule}`);
  }

  /** The caller's key with a digest of the user, the action, its target and the body. Null if the request has no key. */
  idempotencyKeyFor(type: string, request: object | null, digest: (text: string) => string): IdempotencyKey | null {
    const key = this.readIdempotencyKey();
    return key === null ? null : { key, digest: digest(canonicalJson([this.identity.user, type, this.params, request])) };
  }

  /** Refuses, with the fault, if `If-Match` names other revisions than that of what is stored. `*` matches whatever there is. */
  readRevisionCheck<T>(etagOf: (stored: T) => string, staleFault: (stored: T) => Fault): (stored: T) => void {
    const tags = this.#readEntityTags();
    return (stored) => {
      if (tags !== null && !tags.includes(etagOf(stored))) throw staleFault(stored);
    };
  }

  /** Null where any will do. */
  #readEntityTags(): readonly string[] | null {
    const text = this.header("if-match");
    const schema = this.#route.headers?.["If-Match"];
    if (text === undefined || schema === undefined) return null;
    if (findParameterViolation(schema, text) !== undefined)
      throw invalidRequest("headers.If-Match", 'If-Match must be an ETag in quotes, such as "r3"');
    return text.trim() === "*" ? null : text.split(",").map((tag) => tag.trim());
  }

  // ---- query

  readPageLimit(): number {
    return this.number("limit") ?? Number(this.#route.query?.["limit"]?.default ?? limits.pageItemsDefault);
  }

  /** Undefined where it is not given. Like the others, it was compared with the table before. */
  number(name: string): number | undefined {
    const text = this.query[name];
    return text === undefined ? undefined : Number(text);
  }

  boolean(name: string): boolean | undefined {
    const text = this.query[name];
    return text === undefined ? undefined : text === "true";
  }

  /** A date or a time, in ms. */
  time(name: string): number | undefined {
    const text = this.query[name];
    if (text === undefined) return undefined;
    const at = Date.parse(text);
    if (Number.isFinite(at)) return at;
    throw invalidRequest(`query.${name}`, `query.${name} must be a date or a time such as 2026-01-31T12:00:00Z`);
  }
}

export const invalidRequest = (path: string, message: string): Fault => fault("E.REQUEST.INVALID", message, { path });

export function throwIfFault<T>(value: T | Fault): T {
  if (value instanceof Fault) throw value;
  return value;
}

/** A whole number of up to 16 digits; null where the text is none. */
export function parseCount(text: string): number | null {
  const count = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(count) ? count : null;
}

/** The query as the route's table allows it: known names, each once. A token in the address is refused like any unknown name. */
function readQuery(route: Route, raw: Readonly<Record<string, unknown>>): Texts {
  const known = route.query ?? {};
  const query: Record<string, string> = {};
  for (const [name, value] of Object.entries(raw)) {
    const path = `query.${name}`;
    if (!Object.hasOwn(known, name)) throw invalidRequest("query", unknownParameterMessage(Object.keys(known)));
    if (typeof value !== "string") throw invalidRequest(path, `${path} must be given once`);
    refuseControlCharacters(path, value);
    // As the table declares it: a value that is none would find nothing, and seem to be an answer.
    const { schema, rule } = known[name] as QueryParameter;
    const expected = findParameterViolation(schema, value);
    if (expected !== undefined) throw invalidRequest(path, `${path} ${rule ?? expected}`);
    query[name] = value;
  }
  return query;
}

/** Not every store takes a NUL, and no terminal or log line should have to take the others. */
function refuseControlCharacters(path: string, value: string): void {
  if (/[\u0000-\u001f\u007f]/.test(value)) throw invalidRequest(path, `${path} must have no control characters`);
}

/** The name itself is not repeated: it may be a secret that got into the address by mistake. */
const unknownParameterMessage = (known: readonly string[]): string =>
  known.length === 0 ? "this route takes no query parameters" : `this route takes no query parameters but ${known.join(", ")}`;

// ---- answers

export async function* emptyBytes(): AsyncGenerator<Buffer> {
  // For a request or an answer without a body.
}

export const noContent: RestReply = { body: "", status: 204 };

/** An answer that goes on with server-sent events. */
export const eventStreamReply = (stream: OpenStream): RestReply => ({
  body: "",
  media: "text/event-stream; charset=utf-8",
  headers: { "x-accel-buffering": "no" },
  stream,
});

/** Marks the answer to a repeated request. */
export const replayedHeader = (isRepeated: boolean): Record<string, string> =>
  isRepeated ? { "idempotent-replayed": "true" } : {};

/** A page of a list: its items as `present` shows them. */
export const pageReply = <T>(
  { items, next, head }: { readonly items: readonly T[]; readonly next: string | null; readonly head: number },
  present: (item: T) => object,
): RestReply => ({ body: { items: items.map((item) => present(item)), nextCursor: encodeCursor(next), asOf: head } });
