// The event stream as an async iterator that reconnects with the id of the last event, so that nothing is missed or repeated.

import { type ErrorBody, type Route, type RouteInput, routes, type ServerEvent } from "@astraflow/protocol";
import { ApiFault, NoAnswer } from "./fault.ts";
import { type ApiConnection, backoffMs, sendWithRetries } from "./http.ts";
import { buildRequest } from "./methods.ts";

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
    yield* readSseMessages(response.body, watchdog.dataReceived);
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    throw cause instanceof ApiFault ? cause : new NoAnswer(connection.url, cause, silent.signal.aborted);
  } finally {
    watchdog.end();
  }
}

/** A half-open connection never reports that it is dead. */
function startSilenceWatchdog({ environment }: ApiConnection, silent: AbortController): { dataReceived(): void; end(): void } {
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
    dataReceived: () => {
      hasActivity = true;
    },
    end: () => ended.abort(),
  };
}

interface SseMessage {
  /** Of this message or the last before it that had one. */
  readonly id: string;
  readonly type: string;
  /** Null: only the cursor moved. */
  readonly data: string | null;
}

/** A line longer than this is no event of ours. */
const lineCharsMax = 64 * 1024 * 1024;

/** Messages in the order they come; ends with the stream, and frees it when the reader leaves early. */
async function* readSseMessages(body: ReadableStream<Uint8Array>, onActivity: () => void): AsyncGenerator<SseMessage, void> {
  const decoder = new TextDecoder();
  const parser = createSseParser();
  const reader = body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      onActivity();
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    // The stream may be broken already: nothing to do.
    const isGone = (): void => undefined;
    await reader.cancel().then(isGone, isGone);
  }
}

/** Lines end with CR, LF or both; an empty line ends a message; an incomplete message is dropped. */
export function createSseParser(): { push(text: string): SseMessage[] } {
  let rest = "";
  let id = "";
  let fields: { id?: string; type?: string; data?: string } = {};
  return {
    push(text) {
      const found: SseMessage[] = [];
      rest += text;
      // A CR at the very end may be the first half of CR LF.
      const isHalf = rest.endsWith("\r");
      const lines = (isHalf ? rest.slice(0, -1) : rest).split(/\r\n|\n|\r/);
      rest = (lines.pop() ?? "") + (isHalf ? "\r" : "");
      if (rest.length > lineCharsMax) throw new RangeError(`a line of the stream is longer than ${lineCharsMax} characters`);
      for (const line of lines) {
        if (line !== "") {
          readField(line, fields);
          continue;
        }
        if (fields.id !== undefined) id = fields.id;
        if (fields.data !== undefined || fields.id !== undefined)
          found.push({ id, type: fields.type ?? "message", data: fields.data ?? null });
        fields = {};
      }
      return found;
    },
  };
}

function readField(line: string, fields: { id?: string; type?: string; data?: string }): void {
  const colon = line.indexOf(":");
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "id" && !value.includes("\0")) fields.id = value;
  else if (name === "event") fields.type = value;
  else if (name === "data") fields.data = fields.data === undefined ? value : `${fields.data}\n${value}`;
}
