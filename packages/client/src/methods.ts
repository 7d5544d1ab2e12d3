// One method for every route, generated from the route table and typed by it; and lists page by page as one sequence.

import { type RawBody, type Route, type RouteAnswer, type RouteInput, type RouteName, routes } from "@astraflow/protocol";
import { NoAnswer } from "./fault.ts";
import { type ApiConnection, type ClientRequest, type ClientResponse, sendWithRetries } from "./http.ts";

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Idempotency-Key; generated if the route takes one and none is set. */
  readonly key?: string | undefined;
  /** Further headers, such as If-Match or Range. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** An input without required fields may be omitted. */
type MethodArguments<I> = Record<never, never> extends I ? [input?: I, options?: CallOptions] : [input: I, options?: CallOptions];
export type RouteMethods = { readonly [N in RouteName]: (...input: MethodArguments<RouteInput<N>>) => Promise<RouteAnswer<N>> };

type CallInput = Readonly<Record<string, unknown>>;

export function createRouteMethods(connection: ApiConnection): RouteMethods {
  const rows = Object.entries(routes as Record<string, Route>);
  const call =
    (route: Route) =>
    async (input: CallInput = {}, options: CallOptions = {}): Promise<unknown> => {
      const response = await sendWithRetries(connection, buildRequest(route, input, options, connection));
      return readResponse(route, response, connection);
    };
  return Object.fromEntries(rows.map(([name, route]) => [name, call(route)])) as unknown as RouteMethods;
}

/** The request of a route, ready for fetch. */
export function buildRequest(
  route: Route,
  input: CallInput,
  options: CallOptions,
  { environment }: Pick<ApiConnection, "environment">,
): ClientRequest & { readonly headers: Record<string, string> } {
  const takesKey = route.headers !== undefined && "Idempotency-Key" in route.headers;
  // One key for all tries of a call, so that a repeat has no second effect.
  const key = takesKey ? { "idempotency-key": options.key ?? environment.newIdempotencyKey() } : {};
  const { body } = input;
  const isJson = route.takes === undefined;
  return {
    method: route.method,
    path: buildPath(route, input) + buildQuery(route, input),
    headers: {
      accept: route.media ?? "application/json",
      ...(body !== undefined && isJson && { "content-type": "application/json" }),
      ...(body instanceof Uint8Array && { "content-type": "application/octet-stream" }),
      ...key,
      ...options.headers,
    },
    ...(body !== undefined && { body: isJson ? JSON.stringify(body) : (body as RawBody) }),
    isRepeatable: takesKey || route.method === "GET" || route.method === "PUT" || route.method === "DELETE",
    signal: options.signal,
    isStream: isStream(route),
  };
}

function buildPath(route: Route, input: CallInput): string {
  return route.path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = input[name];
    // An empty segment would be another path, and so another route.
    if (value === undefined || value === null || value === "")
      throw new TypeError(`${route.method} ${route.path} needs ${name}; it is empty`);
    return encodeURIComponent(String(value));
  });
}

function buildQuery(route: Route, input: CallInput): string {
  const query = new URLSearchParams();
  for (const name of Object.keys(route.query ?? {})) {
    const value = input[name];
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}

const isStream = (route: Route): boolean => route.response === undefined && route.media !== undefined;

function readResponse(route: Route, { response, text }: ClientResponse, connection: ApiConnection): unknown {
  if (isStream(route)) return response;
  if (route.response === undefined || text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new NoAnswer(connection.url, cause);
  }
}

interface ItemPage<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

/** Every item of a list: `allItems((cursor) => client.listRuns({ cursor }))`. Lists that can be followed end where the cursor stands still. */
export async function* allItems<T>(read: (cursor: string | undefined) => Promise<ItemPage<T>>): AsyncGenerator<T, void> {
  for (let cursor: string | undefined; ; ) {
    const page = await read(cursor);
    yield* page.items;
    if (page.nextCursor === null || page.nextCursor === cursor) return;
    cursor = page.nextCursor;
  }
}
