// What is told and stands in no log: every heartbeat of a worker, and frames on the wire. Said once to whoever listens at that moment, never
// kept for who comes later. How much of it one reader gets is ../rest/volatile-feed.ts; where beats come from is beats.ts and the session door.

import type { EventData, EventType, ServerEvent } from "@astraflow/protocol";

/** A frame as it is told; how many were left out before it differs by reader. */
export type WireFrame = Omit<EventData<"wire.frame">, "kind" | "skipped">;

/** The newest heartbeat of one worker. */
export interface ToldBeat {
  /** Counts up with every beat of the tenant, so that a reader knows from which one on it has heard nothing. */
  readonly count: number;
  readonly workerName: string;
  /** When it was stored. */
  readonly at: number;
  /** The whole event as text: built when the first reader wants it, once for all of them. */
  readonly text: string;
}

/** What one reader wants, asked before anything is built, and its ears. */
export interface VolatileEar {
  /** Null: it hears none. */
  readonly beat: { wants(workerName: string): boolean; hear(beat: ToldBeat): void } | null;
  readonly frame: { wants(workerName: string, type: string): boolean; hear(frame: WireFrame): void } | null;
}

export interface VolatileEvents {
  hearsBeats(tenant: string): boolean;
  hearsFrames(tenant: string): boolean;
  beat(of: BeatOf, build: () => Omit<EventData<"worker.heartbeat">, "kind">): void;
  /** When the last beat of this worker that was told here was stored; before all times where none was. */
  beatAt(tenant: string, worker: string): number;
  /** The newest beat of each worker that has beaten after that count, the oldest of them first. */
  beatsAfter(tenant: string, count: number): Iterable<ToldBeat>;
  beatCount(tenant: string): number;
  frame(of: { readonly tenant: string; readonly workerName: string; readonly type: string }, build: () => WireFrame): void;
  /** The returned function ends that. */
  listen(tenant: string, ear: VolatileEar): () => void;
}

export interface BeatOf {
  readonly tenant: string;
  readonly worker: string;
  readonly workerName: string;
  readonly at: number;
}

/** Workers of a tenant whose newest beat is at hand for readers that are behind; more than a tenant has. */
const beatsKeptMax = 20_000;

/** Of one tenant, while somebody listens. */
interface Room {
  readonly ears: Set<VolatileEar>;
  /** By worker, in the order they came. */
  readonly beats: Map<string, ToldBeat>;
  count: number;
  beatEars: number;
  frameEars: number;
}

export function createVolatileEvents(): VolatileEvents {
  const rooms = new Map<string, Room>();
  const enter = (tenant: string, ear: VolatileEar): Room => {
    const room = rooms.get(tenant) ?? { ears: new Set(), beats: new Map(), count: 0, beatEars: 0, frameEars: 0 };
    rooms.set(tenant, room);
    room.ears.add(ear);
    if (ear.beat !== null) room.beatEars += 1;
    if (ear.frame !== null) room.frameEars += 1;
    return room;
  };
  return {
    hearsBeats: (tenant) => (rooms.get(tenant)?.beatEars ?? 0) > 0,
    hearsFrames: (tenant) => (rooms.get(tenant)?.frameEars ?? 0) > 0,
    beat(of, build) {
      const room = rooms.get(of.tenant);
      if (room === undefined || room.beatEars === 0) return;
      const beat = new Beat(of, ++room.count, build);
      // Entered anew, so that the order is that of the newest ones.
      room.beats.delete(of.worker);
      room.beats.set(of.worker, beat);
      if (room.beats.size > beatsKeptMax) room.beats.delete(room.beats.keys().next().value as string);
      for (const ear of room.ears) if (ear.beat?.wants(of.workerName) === true) ear.beat.hear(beat);
    },
    beatAt: (tenant, worker) => rooms.get(tenant)?.beats.get(worker)?.at ?? Number.NEGATIVE_INFINITY,
    *beatsAfter(tenant, count) {
      for (const beat of rooms.get(tenant)?.beats.values() ?? []) if (beat.count > count) yield beat;
    },
    beatCount: (tenant) => rooms.get(tenant)?.count ?? 0,
    frame({ tenant, workerName, type }, build) {
      const room = rooms.get(tenant);
      if (room === undefined || room.frameEars === 0) return;
      let frame: WireFrame | null = null;
      for (const ear of room.ears) if (ear.frame?.wants(workerName, type) === true) ear.frame.hear((frame ??= build()));
    },
    listen(tenant, ear) {
      const room = enter(tenant, ear);
      return () => {
        if (!room.ears.delete(ear)) return;
        if (ear.beat !== null) room.beatEars -= 1;
        if (ear.frame !== null) room.frameEars -= 1;
        // The beats that are at hand are for those who listened to them.
        if (room.beatEars === 0) room.beats.clear();
        if (room.ears.size === 0) rooms.delete(tenant);
      };
    },
  };
}

class Beat implements ToldBeat {
  readonly count: number;
  readonly workerName: string;
  readonly at: number;
  readonly #tenant: string;
  readonly #build: () => Omit<EventData<"worker.heartbeat">, "kind">;
  #text: string | null = null;

  constructor(of: BeatOf, count: number, build: () => Omit<EventData<"worker.heartbeat">, "kind">) {
    this.count = count;
    this.workerName = of.workerName;
    this.at = of.at;
    this.#tenant = of.tenant;
    this.#build = build;
  }

  get text(): string {
    this.#text ??= volatileText("worker.heartbeat", this.#build(), {
      occurredAt: new Date(this.at).toISOString(),
      scope: { tenant: this.#tenant, workerName: this.workerName },
    });
    return this.#text;
  }
}

/** An event without an id: no reader's cursor moves by it. */
export function volatileText<K extends EventType>(
  type: K,
  data: Omit<EventData<K>, "kind">,
  { occurredAt, scope }: Pick<ServerEvent, "occurredAt" | "scope">,
): string {
  return JSON.stringify({
    version: "v1",
    type,
    occurredAt,
    scope,
    meta: { volatile: true },
    data: { kind: type, ...data },
  });
}
