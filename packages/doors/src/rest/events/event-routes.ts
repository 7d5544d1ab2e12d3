// The stream of events: the tenant's log as readers see it, resumed by cursor, filtered, never ahead of the disk. What a fact says is
// ../events/words.ts; one tail per tenant feeds all its readers. What they get besides, and is in no log, is volatile-feed.ts.

import type { StoreReader } from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import {
  CursorExpired,
  createEventLookup,
  createLogTail,
  defaultHeartbeatMs,
  type EngineClient,
  type FactEvents,
  type HeartbeatWatch,
  type LogTail,
  type VolatileEvents,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { type EventSink, type EventStream, openEventStream } from "../requests/event-stream.ts";
import type { RestCall, RouteHandler } from "../requests/rest-call.ts";
import { asksForWireFrames, type EventFilter, readEventFilter, readVolatileFilter } from "./event-filter.ts";
import { feedVolatile, type VolatileFilter } from "./volatile-feed.ts";

export interface EventRoutesOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: DoorEnvironment;
  readonly ackDeadlineMs: number;
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
  readonly volatile: VolatileEvents;
  readonly heartbeatWatch: HeartbeatWatch;
  /** Called when this scheduler shuts down: each ends one stream. */
  readonly shutdownListeners?: Set<() => void>;
}

/** How often streams are read without a hint, and how many bytes may wait for a reader before it is paused. */
export const eventLimits = {
  pollMs: 1_000,
  feedBytesMax: 512 * 1024,
  pauseMs: 20,
  streamsPerTenantMax: 1_000,
  /** There are many frames, and every reader gets each of them. */
  wireStreamsPerTenantMax: 20,
  silentFactsMax: 500,
} as const;

export function eventsHandlers(options: EventRoutesOptions): Record<"streamEvents", RouteHandler> {
  const { engineClient, reader, environment, volatile, shutdownListeners = new Set() } = options;
  const tails = new Map<string, Promise<LogTail & { wake(): void }>>();
  const open = new Map<string, { readers: number; wires: number; endLooking(): void }>();
  engineClient.on("log", ({ tenant }) => void tails.get(tenant)?.then((tail) => tail.wake(), ignoreFailedTail));

  /** A tail that could not be opened is opened again by the next request. */
  const ignoreFailedTail = (): void => undefined;

  const openTail = (tenant: string): Promise<LogTail & { wake(): void }> => {
    const known = tails.get(tenant);
    if (known !== undefined) return known;
    const { ackDeadlineMs, heartbeatMsOf = defaultHeartbeatMs } = options;
    const lookup = createEventLookup({ reader, tenant, ackDeadlineMs, heartbeatMsOf, now: () => environment.clock.now() });
    const made = readLogHead(reader, tenant).then((head) => createLogTail({ tenant, reader, lookup, environment }, head));
    tails.set(tenant, made);
    made.catch(() => tails.delete(tenant));
    return made;
  };

  /** Log and workers are polled only while somebody reads: a timer without readers would keep a stopping scheduler alive. */
  const addReader = (tenant: string, tail: { wake(): void }, volatileFilter: VolatileFilter): (() => void) => {
    const stopHeartbeats = volatileFilter.heartbeat === null ? null : options.heartbeatWatch.watchTenant(tenant);
    const begin = () => environment.timers.every(eventLimits.pollMs, () => tail.wake());
    const readersOfTenant = open.get(tenant) ?? { readers: 0, wires: 0, endLooking: begin() };
    const wires = volatileFilter.frame === null ? 0 : 1;
    readersOfTenant.readers += 1;
    readersOfTenant.wires += wires;
    open.set(tenant, readersOfTenant);
    return () => {
      stopHeartbeats?.();
      readersOfTenant.readers -= 1;
      readersOfTenant.wires -= wires;
      if (readersOfTenant.readers > 0) return;
      readersOfTenant.endLooking();
      open.delete(tenant);
    };
  };

  /** Why there is no room for another reader; asked again when it begins to read: many may have come at once. */
  const capacityFault = (tenant: string, volatileFilter: VolatileFilter): Fault | null => {
    const { readers, wires } = open.get(tenant) ?? { readers: 0, wires: 0 };
    const { streamsPerTenantMax, wireStreamsPerTenantMax } = eventLimits;
    if (readers >= streamsPerTenantMax)
      return fault("E.OVERLOADED", `${streamsPerTenantMax} event streams are open already; try again later`);
    if (volatileFilter.frame === null || wires < wireStreamsPerTenantMax) return null;
    return fault("E.OVERLOADED", `${wireStreamsPerTenantMax} streams of frames are open already; try again later`);
  };

  return {
    async streamEvents(call) {
      const { tenant } = call.identity;
      const filter = readEventFilter(call.query);
      const volatileFilter = readVolatileFilter(call.query, filter, tenant);
      if (asksForWireFrames(call.query) && !call.identity.grants.includes("operate"))
        throw fault("E.AUTH.FORBIDDEN", 'topic "wire" needs the grant operate, which this token does not have');
      const requestedStart = readStartCursor(call);
      const capacityProblem = capacityFault(tenant, volatileFilter);
      if (capacityProblem !== null) throw capacityProblem;
      const tail = await openTail(tenant);
      // Without a cursor a reader starts at the newest event. The tail does not know it: without readers it has not moved.
      const head = await readLogHead(reader, tenant);
      const start = requestedStart ?? { position: head, place: null };
      return {
        body: "",
        media: "text/event-stream; charset=utf-8",
        headers: { "x-accel-buffering": "no" },
        stream: (sink) => {
          const capacityProblem = capacityFault(tenant, volatileFilter);
          if (capacityProblem !== null) return refuseStream(sink, environment, capacityProblem);
          return feedReader(
            { call, sink, tail, filter, volatileFilter, start, environment, head, shutdownListeners, volatile },
            addReader(tenant, tail, volatileFilter),
          );
        },
      };
    },
  };
}

function refuseStream(sink: EventSink, environment: DoorEnvironment, why: Fault): () => void {
  const stream = openEventStream(sink, {
    environment,
    findObjection: () => null,
    overloadFault: () => why,
    onEnd: () => undefined,
  });
  stream.closeWithError(why);
  return () => stream.stop();
}

interface EventCursor {
  readonly position: number;
  /** Index of the last event seen of the next fact; null: none. */
  readonly place: number | null;
}

interface ReaderFeed {
  readonly call: RestCall;
  readonly sink: EventSink;
  readonly tail: LogTail;
  readonly filter: EventFilter;
  readonly volatileFilter: VolatileFilter;
  readonly start: EventCursor;
  readonly environment: DoorEnvironment;
  /** Position of the log when the reader connected: events up to there are marked as replayed. */
  readonly head: number;
  readonly shutdownListeners: Set<() => void>;
  readonly volatile: VolatileEvents;
}

/** Feeds one reader until it disconnects: first what it missed, as fast as it reads, then new events. */
function feedReader(options: ReaderFeed, ended: () => void): () => void {
  const { call, sink, tail, filter, volatileFilter, start, environment, head, shutdownListeners, volatile } = options;
  // A cursor ahead of the log belongs to another log, such as a store before it was restored.
  const isAheadOfLog = start.position > head;
  let { position, place: eventIndex } = isAheadOfLog ? { position: head, place: null } : start;
  let lastSentPosition = position;
  let isClosed = false;
  let isSending = false;
  let isRequested = false;
  let isPaused = false;
  let stopListening = (): void => undefined;
  let stopVolatile = (): void => undefined;
  const grant = volatileFilter.frame === null ? undefined : "operate";
  const stream = openEventStream(sink, {
    environment,
    findObjection: () => (call.isStillAdmitted(grant) ? null : fault("E.AUTH.INVALID_TOKEN", "the token is not valid any more")),
    overloadFault: () => fault("E.OVERLOADED", "this reader is too slow; reconnect with Last-Event-ID"),
    onEnd: () => {
      isClosed = true;
      shutdownListeners.delete(closeForShutdown);
      stopListening();
      stopVolatile();
      ended();
    },
  });
  const closeForShutdown = (): void =>
    stream.closeWithError(fault("E.SHUTTING_DOWN", "the scheduler is shutting down; reconnect with Last-Event-ID"));
  shutdownListeners.add(closeForShutdown);
  /** A slow reader is paused for a while; what was read for it is dropped, so that it takes no memory from others. */
  const pauseIfSlow = (): boolean => {
    if (sink.waitingBytes <= eventLimits.feedBytesMax) return false;
    isPaused = true;
    environment.timers.after(eventLimits.pauseMs, () => {
      isPaused = false;
      wakeUp();
    });
    return true;
  };
  const sendPending = async (): Promise<void> => {
    while (!isClosed) {
      if (pauseIfSlow()) return;
      isRequested = false;
      const facts = await tail.readAfter(position);
      for (const one of facts) {
        if (isClosed || pauseIfSlow()) return;
        if (sendFactEvents(stream, one, eventIndex, filter, one.position <= head)) lastSentPosition = one.position;
        position = one.position;
        eventIndex = null;
      }
      // A cursor moves now and then even if all events are filtered out, so that reconnecting is cheap.
      if (position - lastSentPosition >= eventLimits.silentFactsMax)
        stream.send({ id: formatEventId((lastSentPosition = position), eventIndex) });
      if (facts.length === 0 && !isRequested) return;
    }
  };
  const wakeUp = (): void => {
    isRequested = true;
    if (isSending || isClosed || isPaused) return;
    isSending = true;
    void sendPending()
      .catch((problem: unknown) => {
        if (!(problem instanceof CursorExpired))
          stream.closeWithError(fault("E.STORE.BUSY", "the event log cannot be read right now; reconnect"));
        else {
          // The reader is told that events are missing, and continues with the rest.
          position = problem.floor;
          stream.send({ id: String(problem.floor), type: "stream.error", data: JSON.stringify(cursorExpiredFault(problem)) });
          isRequested = true;
        }
      })
      .finally(() => {
        isSending = false;
        if (isRequested && !isClosed) wakeUp();
      });
  };
  // The reader has a cursor now, though there may be no event yet.
  if (isAheadOfLog)
    stream.send({ id: String(head), type: "stream.error", data: JSON.stringify(cursorAheadFault(start.position, head)) });
  else stream.send({ id: formatEventId(position, eventIndex) });
  stopListening = tail.subscribe(wakeUp);
  const { tenant } = call.identity;
  stopVolatile = feedVolatile({
    tenant,
    volatile,
    environment,
    sink,
    stream,
    filter: volatileFilter,
    isCaughtUp: () => position >= head,
  });
  wakeUp();
  return () => stream.stop();
}

const cursorExpiredFault = ({ floor, head }: CursorExpired): Fault =>
  fault("E.CURSOR.EXPIRED", "events after this cursor have been deleted; reload the runs and continue from here", {
    floor,
    head,
  });

const cursorAheadFault = (cursor: number, head: number): Fault =>
  fault("E.CURSOR.EXPIRED", `cursor ${cursor} is ahead of the log, which is at ${head}; reload the runs and continue from here`, {
    head,
  });

/** Where the tenant's log is now. */
const readLogHead = async (reader: StoreReader, tenant: string): Promise<number> =>
  (await reader.events({ tenant, after: Number.MAX_SAFE_INTEGER, limit: 1 })).head;

/**
 * The last event that a reader gets of a fact has the fact's position as its id; earlier ones also have their index, because a reader may
 * disconnect in between.
 */
function sendFactEvents(
  stream: EventStream,
  { position, events }: FactEvents,
  seen: number | null,
  filter: EventFilter,
  isReplayed: boolean,
): boolean {
  const passing = [...events.entries()].filter(([eventIndex, event]) => (seen === null || eventIndex > seen) && filter(event));
  const last = passing.at(-1)?.[0];
  for (const [eventIndex, { type, occurredAt, scope, data }] of passing) {
    const id = eventIndex === last ? String(position) : `${position - 1}.${eventIndex}`;
    const body = { version: "v1", id, type, occurredAt, scope, ...(isReplayed && { replayed: true }), data };
    stream.send({ id, type, data: JSON.stringify(body) });
  }
  return passing.length > 0;
}

const formatEventId = (position: number, eventIndex: number | null): string =>
  eventIndex === null ? String(position) : `${position}.${eventIndex}`;

/** `Last-Event-ID`, or the query's `after` where a reader comes with the cursor of a page. */
function readStartCursor(call: RestCall): EventCursor | null {
  const header = call.header("last-event-id");
  const text = header || call.query["after"];
  if (text === undefined || text === "") return null;
  const parts = /^([0-9]{1,16})(?:\.([0-9]{1,6}))?$/.exec(text);
  const position = Number(parts?.[1]);
  if (parts !== null && Number.isSafeInteger(position))
    return { position, place: parts[2] === undefined ? null : Number(parts[2]) };
  const path = header ? "headers.Last-Event-ID" : "query.after";
  throw fault("E.REQUEST.INVALID", `${path} must be the id of an event of this stream, or a page's asOf`, { path });
}
