// The stream of events: the tenant's log as readers see it, resumed by cursor, filtered, never ahead of the disk. What a fact says is
// ../events/words.ts; one tail per tenant feeds all its readers.

import { defaultSettings, paceOf, type Reader } from "@astraflow/engine";
import { eventData, type Fault, fault, limits } from "@astraflow/protocol";
import { createLookup } from "../events/lookup.ts";
import { createTail, Expired, type Tail, type Told } from "../events/tail.ts";
import type { Said } from "../events/words.ts";
import type { Link } from "../link.ts";
import type { Outside } from "../outside.ts";
import { type Call, type Handler, readCount } from "./call.ts";
import { type EventSink, type EventStream, openEventStream } from "./event-stream.ts";

export interface EventsOptions {
  readonly link: Link;
  readonly reader: Reader;
  readonly outside: Outside;
  readonly ackDeadlineMs: number;
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
  /** What is called when this scheduler goes away: each reader's last word. */
  readonly farewells?: Set<() => void>;
}

/** Streams are read again at least this often, whatever hints say; a reader is fed while fewer bytes than this wait for it. */
export const eventLimits = {
  lookMs: 1_000,
  feedBytesMax: 512 * 1024,
  pauseMs: 20,
  streamsPerTenantMax: 1_000,
  silentFactsMax: 500,
} as const;

export function eventsHandlers(options: EventsOptions): Record<"streamEvents", Handler> {
  const { link, reader, outside, farewells = new Set() } = options;
  const tails = new Map<string, Promise<Tail & { wake(): void }>>();
  const open = new Map<string, { readers: number; endLooking(): void }>();
  link.on("log", ({ tenant }) => void tails.get(tenant)?.then((tail) => tail.wake(), ignoreBroken));

  /** A tail that could not be made is made anew by whoever asks next. */
  const ignoreBroken = (): void => undefined;

  const tailOf = (tenant: string): Promise<Tail & { wake(): void }> => {
    const known = tails.get(tenant);
    if (known !== undefined) return known;
    const { ackDeadlineMs, heartbeatMsOf = defaultHeartbeatMs } = options;
    const lookup = createLookup({ reader, tenant, ackDeadlineMs, heartbeatMsOf, now: () => outside.clock.now() });
    const made = headOf(reader, tenant).then((head) => createTail({ tenant, reader, lookup, outside }, head));
    tails.set(tenant, made);
    made.catch(() => tails.delete(tenant));
    return made;
  };

  /** The log is looked at only while somebody reads: a timer without readers would keep a scheduler that stops from ending. */
  const enter = (tenant: string, tail: { wake(): void }): (() => void) => {
    const here = open.get(tenant) ?? { readers: 0, endLooking: outside.timers.every(eventLimits.lookMs, () => tail.wake()) };
    here.readers += 1;
    open.set(tenant, here);
    return () => {
      here.readers -= 1;
      if (here.readers > 0) return;
      here.endLooking();
      open.delete(tenant);
    };
  };

  return {
    async streamEvents(call) {
      const { tenant } = call.identity;
      const filter = readFilter(call.query);
      const asked = readStart(call);
      if ((open.get(tenant)?.readers ?? 0) >= eventLimits.streamsPerTenantMax)
        throw fault("E.OVERLOADED", `${eventLimits.streamsPerTenantMax} readers of events are here already; come back later`);
      const tail = await tailOf(tenant);
      // Without a cursor a reader starts at what is newest. The tail does not know: while nobody listened it has not moved.
      const head = await headOf(reader, tenant);
      const start = asked ?? { position: head, place: null };
      return {
        body: "",
        media: "text/event-stream; charset=utf-8",
        headers: { "x-accel-buffering": "no" },
        stream: (sink) => feed({ call, sink, tail, filter, start, outside, head, farewells }, enter(tenant, tail)),
      };
    },
  };
}

const defaultHeartbeatMs = (tenant: string, dialect: string): number => paceOf(defaultSettings, tenant, dialect).heartbeatMs;

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
  readonly start: Cursor;
  readonly outside: Outside;
  /** Of the log when the reader came: what it is told up to there is a replay. */
  readonly head: number;
  readonly farewells: Set<() => void>;
}

/** Feeds one reader until it goes: what it missed first, as fast as it reads, then what comes. */
function feed({ call, sink, tail, filter, start, outside, head, farewells }: Feeding, ended: () => void): () => void {
  // A cursor ahead of the log is of another one, such as that of a store before it was restored.
  const isStrange = start.position > head;
  let { position, place } = isStrange ? { position: head, place: null } : start;
  let shown = position;
  let isOver = false;
  let isBusy = false;
  let isAsked = false;
  let isPaused = false;
  let endListening = (): void => undefined;
  const stream = openEventStream(sink, {
    outside,
    objection: () => (call.isStillAdmitted() ? null : fault("E.AUTH.INVALID_TOKEN", "the token is not valid any more")),
    overloaded: () => fault("E.OVERLOADED", "events came faster than they were read; come back with the last event's id"),
    ended: () => {
      isOver = true;
      farewells.delete(sayGoodbye);
      endListening();
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
    outside.timers.after(eventLimits.pauseMs, () => {
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
          stream.send({ id: String(problem.floor), type: "error", data: JSON.stringify(expired(problem)) });
          isAsked = true;
        }
      })
      .finally(() => {
        isBusy = false;
        if (isAsked && !isOver) look();
      });
  };
  // The reader has a cursor from now on, though nothing may have come yet.
  if (isStrange) stream.send({ id: String(head), type: "error", data: JSON.stringify(ahead(start.position, head)) });
  else stream.send({ id: spell(position, place) });
  endListening = tail.listen(look);
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
  const text = call.header("last-event-id") || call.query["after"];
  if (text === undefined || text === "") return null;
  const parts = /^([0-9]{1,16})(?:\.([0-9]{1,6}))?$/.exec(text);
  const position = Number(parts?.[1]);
  if (parts !== null && Number.isSafeInteger(position))
    return { position, place: parts[2] === undefined ? null : Number(parts[2]) };
  throw fault("E.REQUEST.INVALID", "Last-Event-ID must be the id of an event of this stream, or a page's asOf", {
    path: "headers.Last-Event-ID",
  });
}

type Filter = (event: Said) => boolean;

const words = [
  ...new Set(Object.keys(eventData).flatMap((type) => type.split(".").map((_, at, all) => all.slice(0, at + 1).join(".")))),
];

/** Whatever is named must fit; events that are about no run pass the filter of a client's session, as worker events do. */
function readFilter(query: Readonly<Record<string, string>>): Filter {
  const { clientSessionId, runId, nodeId, hostNodeId, middleware, workerName } = query;
  const chainIndex = readCount(query, "chainIndex", undefined);
  const topics = readTopics(query["topics"]);
  return ({ type, scope, node }) => {
    if (topics !== null && !topics.some((topic) => type === topic || type.startsWith(`${topic}.`))) return false;
    if (clientSessionId !== undefined && scope.runId !== undefined && scope.clientSessionId !== clientSessionId) return false;
    if (runId !== undefined && scope.runId !== runId) return false;
    if (workerName !== undefined && scope.workerName !== workerName) return false;
    if (nodeId !== undefined && node?.nodeId !== nodeId) return false;
    if (chainIndex !== undefined && node?.chainIndex !== chainIndex) return false;
    if (middleware !== undefined && node?.middlewares?.includes(middleware) !== true) return false;
    return hostNodeId === undefined || node?.hostNodeId === hostNodeId;
  };
}

function readTopics(text: string | undefined): readonly string[] | null {
  if (text === undefined || text === "" || text === "*") return null;
  const topics = text.split(",").slice(0, limits.pageItemsMax);
  const unknown = topics.find((topic) => !words.includes(topic));
  if (unknown === undefined) return topics;
  throw fault("E.REQUEST.INVALID", `query.topics must be some of ${words.join(", ")}, with commas between them`, {
    path: "query.topics",
  });
}
