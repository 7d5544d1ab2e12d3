// The stream of events: the tenant's log as readers see it, resumed by cursor and filtered. One tail per tenant feeds all its readers.

import type { StoreReader } from "@astraflow/engine";
import { type Fault, type FaultDetails, fault } from "@astraflow/protocol";
import {
  CursorExpired,
  defaultHeartbeatMs,
  EventLookup,
  type FactEvents,
  findSessionRuns,
  type HeartbeatWatch,
  LogTail,
  type ServicesOptions,
  type StreamEvent,
  type VolatileEvents,
} from "@astraflow/services";
import { type EventSink, EventStream } from "../requests/event-stream.ts";
import { eventStreamReply, invalidRequest, type RestCall, type RouteHandlers } from "../requests/rest-call.ts";
import type { StreamBudget } from "../requests/stream-budget.ts";
import { asksForWireFrames, type EventFilter, readEventFilter, readVolatileFilter } from "./event-filter.ts";
import { SessionSnapshotFeed, snapshotIndexMin } from "./session-snapshot-feed.ts";
import { feedVolatile, type VolatileFilter } from "./volatile-feed.ts";

type StreamedServices = "engineClient" | "reader" | "environment" | "ackDeadlineMs" | "heartbeatMsOf";

export interface EventRoutesOptions extends Pick<ServicesOptions, StreamedServices> {
  readonly volatile: VolatileEvents;
  readonly heartbeatWatch: HeartbeatWatch;
  readonly budget: StreamBudget;
  /** Called when this scheduler shuts down: each ends one stream. */
  readonly shutdownListeners?: Set<() => void>;
}

/** How often streams are read without a hint; stream-budget.ts bounds what waits for readers. */
export const eventLimits = {
  pollMs: 1_000,
  pauseMs: 20,
  streamsPerTenantMax: 1_000,
  /** There are many frames, and every reader gets each of them. */
  wireStreamsPerTenantMax: 20,
  silentFactsMax: 500,
  /** Tenants whose last stretch of the log (up to 8 MiB) is kept although nobody reads it. */
  idleTailsMax: 16,
} as const;

export function eventsHandlers(options: EventRoutesOptions) {
  const { reader, environment, volatile, budget, shutdownListeners = new Set() } = options;
  const tenantReaders = new TenantReaders(options);
  return {
    async streamEvents(call) {
      const { tenant } = call;
      const filter = readEventFilter(call);
      const volatileFilter = readVolatileFilter(call, filter);
      if (asksForWireFrames(call.query) && !call.identity.grants.includes("operate"))
        throw fault("E.AUTH.FORBIDDEN", 'topic "wire" needs the grant operate, which this token does not have');
      const requestedStart = readStartCursor(call);
      const why = budget.capacityFault(call.identity) ?? tenantReaders.capacityFault(tenant, volatileFilter);
      if (why !== null) throw why;
      const { tail, lookup } = await tenantReaders.openTail(tenant);
      // Without a cursor a reader starts at the newest event. The tail does not know it: without readers it has not moved.
      const head = await readLogHead(reader, tenant);
      const start = requestedStart ?? { position: head, eventIndex: null, wantsSnapshots: true };
      // After the position is known: what happens to these runs from there on is in their snapshots or follows them.
      const runIds = start.wantsSnapshots ? await findSnapshotRuns(call, filter, options) : [];
      const snapshots = new SessionSnapshotFeed({ lookup, tenant, filter, runIds, position: start.position });
      return eventStreamReply((sink) => {
        const source = { call, sink, tail, snapshots, environment, volatile, budget, shutdownListeners };
        const feed = { ...source, filter, volatileFilter, start, head };
        // Asked again now that the reader begins to read: many may have come at once.
        const capacityProblem = budget.capacityFault(call.identity) ?? tenantReaders.capacityFault(tenant, volatileFilter);
        const eventReader = new EventReader(feed);
        if (capacityProblem !== null) eventReader.stream.closeWithError(capacityProblem);
        else eventReader.start(tenantReaders.add(tenant, tail, volatileFilter));
        return () => eventReader.stream.stop();
      });
    },
  } satisfies RouteHandlers;
}

/** Runs that a reader is shown before the first event: those of its client session, if its filter lets any event of them pass. */
async function findSnapshotRuns(
  { query, tenant }: RestCall,
  filter: EventFilter,
  { reader, environment }: EventRoutesOptions,
): Promise<readonly string[]> {
  const { clientSessionId: client, runId } = query;
  if (client === undefined) return [];
  const scope = { tenant, runId: runId ?? "", clientSessionId: client };
  if (!(["run.status", "run.snapshot"] as const).some((type) => filter({ type, scope, node: null }))) return [];
  const runIds = await findSessionRuns(reader, { tenant, client, now: environment.clock.now() });
  return runId === undefined ? runIds : runIds.filter((id) => id === runId);
}

interface TenantTail {
  readonly tail: LogTail;
  readonly lookup: EventLookup;
}

/** The open streams of each tenant, and the tail that feeds them. */
class TenantReaders {
  readonly #options: EventRoutesOptions;
  readonly #tails = new Map<string, Promise<TenantTail>>();
  readonly #open = new Map<string, { readers: number; wires: number; stopPolling(): void }>();

  constructor(options: EventRoutesOptions) {
    this.#options = options;
    // A tail that could not be opened is opened again by the next request.
    const ignoreFailedTail = (): void => undefined;
    options.engineClient.on(
      "log",
      ({ tenant }) => void this.#tails.get(tenant)?.then(({ tail }) => tail.wake(), ignoreFailedTail),
    );
  }

  openTail(tenant: string): Promise<TenantTail> {
    const known = this.#tails.get(tenant);
    if (known !== undefined) return known;
    const { reader, environment, ackDeadlineMs, heartbeatMsOf = defaultHeartbeatMs } = this.#options;
    const lookup = new EventLookup({ reader, tenant, ackDeadlineMs, heartbeatMsOf, now: () => environment.clock.now() });
    const made = readLogHead(reader, tenant).then((head) => ({
      tail: new LogTail({ tenant, reader, lookup, environment }, head),
      lookup,
    }));
    this.#tails.set(tenant, made);
    made.catch(() => this.#tails.delete(tenant));
    return made;
  }

  /** Log and workers are polled only while somebody reads: a timer without readers would keep a stopping scheduler alive. */
  add(tenant: string, tail: LogTail, { heartbeat, frame }: VolatileFilter): () => void {
    const { environment, heartbeatWatch } = this.#options;
    const stopHeartbeats = heartbeat === null ? null : heartbeatWatch.watchTenant(tenant);
    const startPolling = () => environment.timers.every(eventLimits.pollMs, () => tail.wake());
    const open = this.#open.get(tenant) ?? { readers: 0, wires: 0, stopPolling: startPolling() };
    const wires = frame === null ? 0 : 1;
    open.readers += 1;
    open.wires += wires;
    this.#open.set(tenant, open);
    return () => {
      stopHeartbeats?.();
      open.readers -= 1;
      open.wires -= wires;
      if (open.readers > 0) return;
      open.stopPolling();
      this.#open.delete(tenant);
      if (this.#tails.size - this.#open.size > eventLimits.idleTailsMax) this.#tails.delete(tenant);
    };
  }

  /** Why there is no room for another reader; null where there is. */
  capacityFault(tenant: string, { frame }: VolatileFilter): Fault | null {
    const { readers, wires } = this.#open.get(tenant) ?? { readers: 0, wires: 0 };
    const { streamsPerTenantMax, wireStreamsPerTenantMax } = eventLimits;
    if (readers >= streamsPerTenantMax)
      return fault("E.OVERLOADED", `${streamsPerTenantMax} event streams are open already; try again later`);
    if (frame === null || wires < wireStreamsPerTenantMax) return null;
    return fault("E.OVERLOADED", `${wireStreamsPerTenantMax} streams of frames are open already; try again later`);
  }
}

interface EventCursor {
  readonly position: number;
  /** Index of the last event seen of the next fact; null: none. */
  readonly eventIndex: number | null;
  /** The reader has no position yet, or was cut off among its snapshots. */
  readonly wantsSnapshots: boolean;
}

interface ReaderFeed extends Required<Pick<EventRoutesOptions, "environment" | "volatile" | "budget" | "shutdownListeners">> {
  readonly call: RestCall;
  readonly sink: EventSink;
  readonly tail: LogTail;
  readonly snapshots: SessionSnapshotFeed;
  readonly filter: EventFilter;
  readonly volatileFilter: VolatileFilter;
  readonly start: EventCursor;
  /** Position of the log when the reader connected: events up to there are marked as replayed. */
  readonly head: number;
}

/** Feeds one reader until it disconnects: first snapshots and what it missed, as fast as it reads, then new events. */
class EventReader {
  readonly stream: EventStream;
  readonly #feed: ReaderFeed;
  readonly #onEnd: (() => void)[] = [];
  #position = 0;
  #eventIndex: number | null = null;
  #lastSentPosition = 0;
  #isSending = false;
  #isRequested = false;
  #isPaused = false;

  constructor(feed: ReaderFeed) {
    const { call, sink, environment, budget, volatileFilter } = feed;
    const grant = volatileFilter.frame === null ? undefined : "operate";
    this.#feed = feed;
    this.stream = new EventStream(sink, {
      environment,
      budget,
      reader: call.identity,
      isAuthorized: () => call.isStillAuthorized(grant),
      onEnd: () => {
        for (const end of this.#onEnd) end();
      },
    });
  }

  start(onEnd: () => void): void {
    const { call, start, head, tail, snapshots, shutdownListeners, volatileFilter } = this.#feed;
    const { stream } = this;
    const closeForShutdown = (): void =>
      stream.closeWithError(fault("E.SHUTTING_DOWN", "the scheduler is shutting down; reconnect with Last-Event-ID"));
    shutdownListeners.add(closeForShutdown);
    this.#onEnd.push(() => shutdownListeners.delete(closeForShutdown), onEnd);
    // A cursor ahead of the log belongs to another log, such as a store before it was restored.
    const isAheadOfLog = start.position > head;
    this.#position = Math.min(start.position, head);
    this.#eventIndex = isAheadOfLog ? null : start.eventIndex;
    this.#lastSentPosition = this.#position;
    // The reader has a cursor now, though there may be no event yet.
    const ahead = `cursor ${start.position} is ahead of the log, which is at ${head}; reload the runs and continue from here`;
    if (isAheadOfLog) this.#sendGap(head, ahead, { head });
    else if (snapshots.isDone) this.#sendCursor();
    this.#onEnd.push(tail.subscribe(() => this.#wakeUp()));
    const isCaughtUp = (): boolean => snapshots.isDone && this.#position >= head;
    this.#onEnd.push(feedVolatile({ ...this.#feed, tenant: call.tenant, stream, filter: volatileFilter, isCaughtUp }));
    this.#wakeUp();
  }

  #wakeUp(): void {
    this.#isRequested = true;
    if (this.#isSending || this.#isPaused || !this.stream.isOpen) return;
    this.#isSending = true;
    void this.#sendPending()
      .catch((problem: unknown) => this.#handleReadProblem(problem))
      .finally(() => {
        this.#isSending = false;
        if (this.#isRequested && this.stream.isOpen) this.#wakeUp();
      });
  }

  async #sendPending(): Promise<void> {
    const { tail, snapshots, filter, head } = this.#feed;
    while (this.stream.isOpen && !snapshots.isDone) {
      if (this.#pauseIfSlow()) return;
      await snapshots.sendNext(this.stream);
      if (snapshots.isDone) this.#sendCursor();
    }
    while (this.stream.isOpen) {
      if (this.#pauseIfSlow()) return;
      this.#isRequested = false;
      const facts = await tail.readAfter(this.#position);
      for (const one of facts) {
        if (!this.stream.isOpen || this.#pauseIfSlow()) return;
        const isNew = (event: StreamEvent): boolean => filter(event) && !snapshots.includes(one.position, event);
        const isSent = sendFactEvents(this.stream, one, this.#eventIndex, isNew, one.position <= head);
        if (isSent) this.#lastSentPosition = one.position;
        this.#position = one.position;
        this.#eventIndex = null;
      }
      // A cursor moves now and then even if all events are filtered out, so that reconnecting is cheap.
      if (this.#position - this.#lastSentPosition >= eventLimits.silentFactsMax) this.#sendCursor();
      if (facts.length === 0 && !this.#isRequested) return;
    }
  }

  #sendCursor(): void {
    this.#lastSentPosition = this.#position;
    const index = this.#eventIndex === null ? "" : `.${this.#eventIndex}`;
    this.stream.send({ id: `${this.#position}${index}` });
  }

  /** A slow reader is paused for a while; what was read for it is dropped, so that it takes no memory from others. */
  #pauseIfSlow(): boolean {
    const { sink, environment, budget } = this.#feed;
    if (sink.waitingBytes <= budget.feedBytesMax) return false;
    this.#isPaused = true;
    environment.timers.after(eventLimits.pauseMs, () => {
      this.#isPaused = false;
      this.#wakeUp();
    });
    return true;
  }

  /** Where events are missing the reader is told, and continues with the rest. */
  #handleReadProblem(problem: unknown): void {
    if (!(problem instanceof CursorExpired))
      return this.stream.closeWithError(fault("E.STORE.BUSY", "the event log cannot be read right now; reconnect"));
    this.#position = problem.floor;
    const { floor, head } = problem;
    this.#sendGap(floor, "events after this cursor have been deleted; reload the runs and continue from here", { floor, head });
    this.#isRequested = true;
  }

  #sendGap(position: number, message: string, details: FaultDetails): void {
    const data = JSON.stringify(fault("E.CURSOR.EXPIRED", message, details));
    this.stream.send({ id: position, type: "stream.error", data });
  }
}

/** Where the tenant's log is now. */
const readLogHead = async (reader: StoreReader, tenant: string): Promise<number> =>
  (await reader.events({ tenant, after: Number.MAX_SAFE_INTEGER, limit: 1 })).head;

/** The last event of a fact has the fact's position as its id; earlier ones also an index, as a reader may disconnect in between. */
function sendFactEvents(
  stream: EventStream,
  { position, events }: FactEvents,
  seen: number | null,
  filter: (event: StreamEvent) => boolean,
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

/** `Last-Event-ID`, or the query's `after` where a reader comes with the cursor of a page. */
function readStartCursor(call: RestCall): EventCursor | null {
  const header = call.header("last-event-id");
  const text = header || call.query["after"];
  if (text === undefined || text === "") return null;
  const parts = /^([0-9]{1,16})(?:\.([0-9]{1,6}))?$/.exec(text);
  const position = Number(parts?.[1]);
  if (parts !== null && Number.isSafeInteger(position)) {
    const eventIndex = parts[2] === undefined ? null : Number(parts[2]);
    const wantsSnapshots = eventIndex !== null && eventIndex >= snapshotIndexMin;
    return wantsSnapshots
      ? { position: position + 1, eventIndex: null, wantsSnapshots }
      : { position, eventIndex, wantsSnapshots };
  }
  const path = header ? "headers.Last-Event-ID" : "query.after";
  throw invalidRequest(path, `${path} must be the id of an event of this stream, or a page's asOf`);
}
