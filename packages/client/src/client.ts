// The client: every route of the scheduler's REST API as a typed method, and its events as an iterator. It only needs fetch, so it runs in
// browsers, in Node and in web workers.

import type { ServerEvent } from "@astraflow/protocol";
import { type ClientEventsOptions, streamEvents } from "./events.ts";
import { type ApiConnection, type ClientEnvironment, defaultEnvironment, type RetryLimits } from "./http.ts";
import { createRouteMethods, type RouteMethods } from "./methods.ts";

export interface ClientOptions {
  /** URL of the scheduler; in a browser the empty string means the origin of the page. */
  readonly url: string;
  /** Bearer token; a function is called before every request, so that a new token is used at once. */
  readonly token?: string | (() => string | null) | undefined;
  readonly waitMs?: number;
  readonly retry?: Partial<RetryLimits>;
  readonly environment?: Partial<ClientEnvironment>;
}

export interface Client extends RouteMethods {
  readonly url: string;
  /** The events from now on, or after `after`, until the caller stops. */
  events(options?: ClientEventsOptions): AsyncGenerator<ServerEvent, void>;
}

const clientDefaults = { waitMs: 30_000, retry: { busyMax: 4, lostMax: 2 } } as const;

export function createClient(options: ClientOptions): Client {
  const { token } = options;
  const connection: ApiConnection = {
    url: options.url.replace(/\/+$/, ""),
    token: typeof token === "function" ? token : () => token ?? null,
    waitMs: options.waitMs ?? clientDefaults.waitMs,
    retry: { ...clientDefaults.retry, ...options.retry },
    environment: { ...defaultEnvironment, ...options.environment },
  };
  return {
    ...createRouteMethods(connection),
    url: connection.url,
    events: (eventOptions) => streamEvents(connection, eventOptions),
  };
}
