// The stream of events: the tenant's log as readers see it, resumed by cursor, filtered, never ahead of the disk. What a fact says is
// ../events/words.ts; one tail per tenant feeds all its readers. What they get besides, and is in no log, is volatile-feed.ts.

import type { Reader } from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import { type BeatWatch, usualHeartbeatMs } from "../events/beats.ts";
import { createLookup } from "../events/lookup.ts";
import { createTail, Expired, type Tail, type Told } from "../events/tail.ts";
import type { VolatileEvents } from "../events/volatile.ts";
import type { EngineClient } from "../link.ts";
import type { DoorEnvironment } from "../outside.ts";
import type { Call, Handler } from "./call.ts";
import { type Filter, namesWire, readFilter, readWishes } from "./event-filter.ts";
import { type EventSink, type EventStream, openEventStream } from "./event-stream.ts";
import { feedVolatile, type VolatileWishes } from "./volatile-feed.ts";

export interface EventsOptions {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
  readonly ackDeadlineMs: number;
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
  readonly volatile: VolatileEvents;
  readonly beats: BeatWatch;
  /** What is called when this scheduler goes away: each reader's last word. */
  readonly farewells?: Set<() => void>;
}

/** Streams are read again at least this often, whatever hints say; a reader is fed while fewer bytes than this wait for it. */
export const eventLimits = {
  lookMs: 1_000,
  feedBytesMax: 512 * 1024,
  pauseMs: 20,
  streamsPerTenantMax: 1_000,
  /** Frames are many, and each reader is written each of them. */
  wireStreamsPerTenantMax: 20,
  silentFactsMax: 500,
} as const;

export function eventsHandlers(options: EventsOptions): Record<"streamEvents", Handler> {
  const { engineClient, reader, environment, volatile, farewells = new Set() } = options;
  const tails = new Map<string, Promise<Tail & { wake(): void }>>();
  const open = new Map<string, { readers: number; wires: number; endLooking(): void }>();
  engineClient.on("log", ({ tenant }) => void tails.get(tenant)?.then((tail) => tail.wake(), ignoreBroken));

  /** A tail that could not be made is made anew by whoever asks next. */
  const ignoreBroken = (): void => undefined;

  const tailOf = (tenant: string): Promise<Tail & { wake(): void }> => {
    const known = tails.get(tenant);
    if (known !== undefined) return known;
    const { ackDeadlineMs, heartbeatMsOf = usualHeartbeatMs } = options;
    const lookup = createLookup({ reader, tenant, ackDeadlineMs, heartbeatMsOf, now: () => environment.clock.now() });
    const made = headOf(reader, tenant).then((head) => createTail({ tenant, reader, lookup, environment }, head));
    tails.set(tenant, made);
    made.catch(() => tails.delete(tenant));
    return made;
  };

  /** Log and workers are looked at only while somebody reads: a timer without readers would keep a scheduler that stops from ending. */
  const enter = (tenant: string, tail: { wake(): void }, wishes: VolatileWishes): (() => void) => {
    const endBeats = wishes.beat === null ? null : options.beats.enter(tenant);
    const begin = () => environment.timers.every(eventLimits.lookMs, () => tail.wake());
    const here = open.get(tenant) ?? { readers: 0, wires: 0, endLooking: begin() };
    const wires = wishes.frame === null ? 0 : 1;
    here.readers += 1;
    here.wires += wires;
    open.set(tenant, here);
    return () => {
      endBeats?.();
      here.readers -= 1;
      here.wires -= wires;
      if (here.readers > 0) return;
      here.endLooking();
      open.delete(tenant);
    };
  };

  /** Why there is no room for another reader; asked again when it begins to read: many may have come at once. */
  const crowd = (tenant: string, wishes: VolatileWishes): Fault | null => {
    const { readers, wires } = open.get(tenant) ?? { readers: 0, wires: 0 };
    const { streamsPerTenantMax, wireStreamsPerTenantMax } = eventLimits;
    if (readers >= streamsPerTenantMax)
      return fault("E.OVERLOADED", `${streamsPerTenantMax} readers of events are here already; come back later`);
    if (wishes.frame === null || wires < wireStreamsPerTenantMax) return null;
    return fault("E.OVERLOADED", `${wireStreamsPerTenantMax} readers of frames are here already; come back later`);
  };

  return {
    async streamEvents(call) {
      const { tenant } = call.identity;
      const filter = readFilter(call.query);
      const wishes = readWishes(call.query, filter, tenant);
      if (namesWire(call.query) && !call.identity.grants.includes("operate"))
        throw fault("E.AUTH.FORBIDDEN", "the topic wire is for those who are granted operate; this token is not");
      const asked = readStart(call);
      const full = crowd(tenant, wishes);
      if (full !== null) throw full;
      const tail = await tailOf(tenant);
      // Without a cursor a reader starts at what is newest. The tail does not know: while nobody listened it has not moved.
      const head = await headOf(reader, tenant);
      const start = asked ?? { position: head, place: null };
      return {
        body: "",
        media: "text/event-stream; charset=utf-8",
        headers: { "x-accel-buffering": "no" },
        stream: (sink) => {
          const late = crowd(tenant, wishes);
          if (late !== null) return sendAway(sink, environment, late);
          return feed(
            { call, sink, tail, filter, wishes, start, environment, head, farewells, volatile },
            enter(tenant, tail, wishes),
          );
        },
      };
    },
  };
}

function sendAway(sink: EventSink, environment: DoorEnvironment, why: Fault): () => void {
  const stream = openEventStream(sink, { environment, objection: () => null, overloaded: () => why, ended: () => undefined });
  stream.refuse(why);
  return () => stream.stop();
}

interface Cursor {
  readonly position: number;
  /** Of the events of the next fact, the last one that was seen; null: none. */
  readonly place: number | null;
}

interface Feeding {
  readonly call: Call;
  readonly sink: EventSink;
  readonly tail: Tail;
  readonly filter: Filter;
  readonly wishes: VolatileWishes;
  readonly start: Cursor;
  readonly environment: DoorEnvironment;
  /** Of the log when the reader came: what it is told up to there is a replay. */
  readonly head: number;
  readonly farewells: Set<() => void>;
  readonly volatile: VolatileEvents;
}

/** Feeds one reader until it goes: what it missed first, as fast as it reads, then what comes. */
function feed(feeding: Feeding, ended: () => void): () => void {
  const { call, sink, tail, filter, wishes, start, environment, head, farewells, volatile } = feeding;
  // A cursor ahead of the log is of another one, such as that of a store before it was restored.
  const isStrange = start.position > head;
  let { position, place } = isStrange ? { position: head, place: null } : start;
  let shown = position;
  let isOver = false;
  let isBusy = false;
  let isAsked = false;
  let isPaused = false;
  let endListening = (): void => undefined;
  let endVolatile = (): void => undefined;
  const grant = wishes.frame === null ? undefined : "operate";
  const stream = openEventStream(sink, {
    environment,
    objection: () => (call.isStillAdmitted(grant) ? null : fault("E.AUTH.INVALID_TOKEN", "the token is not valid any more")),
    overloaded: () => fault("E.OVERLOADED", "events came faster than they were read; come back with the last event's id"),
    ended: () => {
      isOver = true;
      farewells.delete(sayGoodbye);
      endListening();
      endVolatile();
      ended();
    },
  });
  const sayGoodbye = (): void =>
    stream.refuse(fault("E.SHUTTING_DOWN", "this scheduler is going away; come back to its successor with the last event's id"));
  farewells.add(sayGoodbye);
  /** A reader that has enough to take is left alone for a while. What was read for it is let go: others would have to pay for its keep. */
  const pause = (): boolean => {
    if (sink.waitingBytes <= eventLimits.feedBytesMax) return false;
    isPaused = true;
    environment.timers.after(eventLimits.pauseMs, () => {
      isPaused = false;
      look();
    });
    return true;
  };
  const pump = async (): Promise<void> => {
    while (!isOver) {
      if (pause()) return;
      isAsked = false;
      const told = await tail.after(position);
      for (const one of told) {
        if (isOver || pause()) return;
        if (send(stream, one, place, filter, one.position <= head)) shown = one.position;
        position = one.position;
        place = null;
      }
      // A cursor that only filtered events have passed moves now and then too, so that coming back is cheap.
      if (position - shown >= eventLimits.silentFactsMax) stream.send({ id: spell((shown = position), place) });
      if (told.length === 0 && !isAsked) return;
    }
  };
  const look = (): void => {
    isAsked = true;
    if (isBusy || isOver || isPaused) return;
    isBusy = true;
    void pump()
      .catch((problem: unknown) => {
        if (!(problem instanceof Expired)) stream.refuse(fault("E.STORE.BUSY", "the log cannot be read now; come back"));
        else {
          // The reader learns that something is missing, and goes on with what there is.
          position = problem.floor;
          stream.send({ id: String(problem.floor), type: "stream.error", data: JSON.stringify(expired(problem)) });
          isAsked = true;
        }
      })
      .finally(() => {
        isBusy = false;
        if (isAsked && !isOver) look();
      });
  };
  // The reader has a cursor from now on, though nothing may have come yet.
  if (isStrange) stream.send({ id: String(head), type: "stream.error", data: JSON.stringify(ahead(start.position, head)) });
  else stream.send({ id: spell(position, place) });
  endListening = tail.listen(look);
  const { tenant } = call.identity;
  endVolatile = feedVolatile({ tenant, volatile, environment, sink, stream, wishes, isCaughtUp: () => position >= head });
  look();
  return () => stream.stop();
}

const expired = ({ floor, head }: Expired): Fault =>
  fault("E.CURSOR.EXPIRED", "the facts after this cursor are no longer kept; read the runs anew and go on from here", {
    floor,
    head,
  });

const ahead = (cursor: number, head: number): Fault =>
  fault("E.CURSOR.EXPIRED", `cursor ${cursor} is ahead of the log, which is at ${head}; read the runs anew and go on from here`, {
    head,
  });

/** Where the tenant's log is now. */
const headOf = async (reader: Reader, tenant: string): Promise<number> =>
  (await reader.events({ tenant, after: Number.MAX_SAFE_INTEGER, limit: 1 })).head;

/**
 * The last event that a reader gets of a fact has the fact's position for its id, those before it also their place: a reader may be cut off
 * in between.
 */
function send(
  stream: EventStream,
  { position, events }: Told,
  seen: number | null,
  filter: Filter,
  isReplayed: boolean,
): boolean {
  const passing = [...events.entries()].filter(([place, event]) => (seen === null || place > seen) && filter(event));
  const last = passing.at(-1)?.[0];
  for (const [place, { type, occurredAt, scope, data }] of passing) {
    const id = place === last ? String(position) : `${position - 1}.${place}`;
    const body = { version: "v1", id, type, occurredAt, scope, ...(isReplayed && { replayed: true }), data };
    stream.send({ id, type, data: JSON.stringify(body) });
  }
  return passing.length > 0;
}

const spell = (position: number, place: number | null): string => (place === null ? String(position) : `${position}.${place}`);

/** `Last-Event-ID`, or the query's `after` where a reader comes with the cursor of a page. */
function readStart(call: Call): Cursor | null {
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
