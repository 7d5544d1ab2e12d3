// The event stream as an async iterator that reconnects with the id of the last event, so that nothing is missed or repeated.

import { type ErrorBody, type Route, type RouteInput, routes, type ServerEvent } from "@astraflow/protocol";
import { ApiFault, NoAnswer } from "./fault.ts";
import { type ApiConnection, backoffMs, sendWithRetries } from "./http.ts";
import { buildRequest } from "./methods.ts";
import { readSseMessages } from "./sse.ts";

export interface ClientEventsOptions extends RouteInput<"streamEvents"> {
  readonly signal?: AbortSignal | undefined;
  /** The stream is open, or it is lost and will be reopened. */
  readonly onState?: (state: "open" | "lost", why: ApiFault | NoAnswer | null) => void;
  /** Events are missing, as they are no longer stored: read again what was derived from them. Without this the iterator throws. */
  readonly onGap?: (fault: ApiFault) => void;
  /** The cursor has moved, with or without an event that passes the filter. */
  readonly onCursor?: (cursor: string) => void;
}

/** The scheduler sends something at least every 15 s; a connection that is silent for three times that is dead. */
const silenceMsMax = 45_000;

export async function* streamEvents(
  connection: ApiConnection,
  options: ClientEventsOptions = {},
): AsyncGenerator<ServerEvent, void> {
  const { signal, onState, onGap, onCursor, after, ...filter } = options;
  let cursor = after;
  for (let tries = 0; ; ) {
    let why: ApiFault | NoAnswer | null = null;
    try {
      for await (const message of openStream(connection, filter, cursor, signal, () => onState?.("open", null))) {
        tries = 0;
        if (message.type === "stream.error") why = readStreamError(message.data, onGap);
        else if (message.data !== null) yield JSON.parse(message.data) as ServerEvent;
        // After the event was consumed, not before: a caller that stops in between gets it again.
        if (message.id !== "" && message.id !== cursor) {
          cursor = message.id;
          onCursor?.(cursor);
        }
        if (why !== null) break;
      }
    } catch (cause) {
      if (signal?.aborted || !isTransient(cause)) throw cause;
      why = cause;
    }
    signal?.throwIfAborted();
    onState?.("lost", why);
    await connection.environment.pause(backoffMs(++tries, connection.environment), signal);
  }
}

const isTransient = (cause: unknown): cause is ApiFault | NoAnswer =>
  cause instanceof NoAnswer || (cause instanceof ApiFault && cause.isRetryable);

/** A gap is reported and the stream continues (null); any other refusal ends it. */
function readStreamError(data: string | null, onGap: ClientEventsOptions["onGap"]): ApiFault | null {
  const fault = new ApiFault(0, JSON.parse(data ?? "{}") as ErrorBody);
  if (fault.code !== "E.CURSOR.EXPIRED") {
    if (fault.isRetryable) return fault;
    throw fault;
  }
  if (onGap === undefined) throw fault;
  onGap(fault);
  return null;
}

async function* openStream(
  connection: ApiConnection,
  filter: RouteInput<"streamEvents">,
  cursor: string | undefined,
  signal: AbortSignal | undefined,
  onOpen: () => void,
) {
  const silent = new AbortController();
  const eitherSignal = AbortSignal.any([silent.signal, ...(signal === undefined ? [] : [signal])]);
  const request = buildRequest(routes.streamEvents as Route, filter, { signal: eitherSignal }, connection);
  const headers = { ...request.headers, ...(cursor !== undefined && { "last-event-id": cursor }) };
  // Each connection is one try: coming back is decided above, where the cursor is.
  const withoutRetries = { ...connection, retry: { busyMax: 0, lostMax: 0 } };
  const { response } = await sendWithRetries(withoutRetries, { ...request, headers });
  if (response.body === null) throw new NoAnswer(connection.url, new TypeError("the stream has no body"));
  // A page from another server ends at once; taken for a stream it would be reopened for ever.
  if (!/^text\/event-stream\b/.test(response.headers.get("content-type") ?? "")) {
    await response.body.cancel();
    throw new NoAnswer(connection.url, new TypeError("what answers there is no stream of events"));
  }
  onOpen();
  const watchdog = startSilenceWatchdog(connection, silent);
  try {
    yield* readSseMessages(response.body, watchdog.heard);
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    throw cause instanceof ApiFault ? cause : new NoAnswer(connection.url, cause, silent.signal.aborted);
  } finally {
    watchdog.end();
  }
}

/** A half-open connection never reports that it is dead. */
function startSilenceWatchdog({ environment }: ApiConnection, silent: AbortController): { heard(): void; end(): void } {
  const ended = new AbortController();
  let hasActivity = true;
  const watchdog = async (): Promise<void> => {
    while (hasActivity) {
      hasActivity = false;
      await environment.pause(silenceMsMax, ended.signal);
    }
  };
  watchdog().then(
    () => silent.abort(),
    () => undefined, // the stream has ended, and with it the watch
  );
  return {
    heard: () => {
      hasActivity = true;
    },
    end: () => ended.abort(),
  };
}
