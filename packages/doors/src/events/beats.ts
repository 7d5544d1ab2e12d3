// Heartbeats as events: what they say of a worker, and the beats of workers that other schedulers of the same store hold, which are seen in
// their rows. Beats of the workers that are here are told by their sessions.

import { defaultSettings, paceOf, type Reader, readCondition, type WorkerRow } from "@astraflow/engine";
import type { EventData, Worker } from "@astraflow/protocol";
import type { DoorEnvironment } from "../outside.ts";
import { viewWorker } from "../rest/workers/view-workers.ts";
import type { VolatileEvents } from "./volatile.ts";

export type HeartbeatData = Omit<EventData<"worker.heartbeat">, "kind">;

export function heartbeatData(seen: Worker): HeartbeatData {
  return {
    workerName: seen.id,
    at: seen.lastHeartbeatAt,
    queues: seen.queues,
    instanceId: seen.instanceId ?? "",
    hostname: seen.hostname ?? "",
    version: seen.version ?? "",
    connected: seen.connected ?? false,
    registered: seen.registered ?? false,
    ...(seen.heartbeat !== undefined && { heartbeat: seen.heartbeat as never }),
  };
}

export interface BeatWatchOptions {
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
  readonly volatile: VolatileEvents;
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
  /** All workers are here: no row shows a beat that was not told. */
  readonly isAlone?: boolean;
}

export interface BeatWatch {
  /** Looks at the tenant's workers at the pace of their heartbeats until the returned function is called, as often as it was entered. */
  enter(tenant: string): () => void;
  /** A worker without a socket said that it lives; told if somebody listens. */
  signed(tenant: string, worker: string): void;
}

export const usualHeartbeatMs = (tenant: string, dialect: string): number => paceOf(defaultSettings, tenant, dialect).heartbeatMs;

/** However often workers beat, all their rows are not read oftener than this. */
const lookMsMin = 1_000;

export function createBeatWatch(options: BeatWatchOptions): BeatWatch {
  const { reader, environment, volatile, heartbeatMsOf = usualHeartbeatMs } = options;
  const watched = new Map<string, { readers: number; end(): void }>();

  const tell = (row: WorkerRow, at: number): void =>
    volatile.beat({ tenant: row.tenant, worker: row.id, workerName: row.name, at }, () =>
      heartbeatData(viewWorker(row, { now: environment.clock.now(), heartbeatMsOf })),
    );
  const complain = (tenant: string) => (problem: unknown) =>
    environment.log({ level: "warn", event: "events.beats", tenant, problem: String(problem) });

  const watch = (tenant: string): (() => void) => {
    // Null before the first look: what was so before anybody listened is no news.
    let known: ReadonlyMap<string, Seen> | null = null;
    let isLooking = false;
    let isOver = false;
    const read = async (): Promise<void> => {
      const { items } = await reader.page({ page: "workers", tenant });
      if (isOver) return;
      const before = known;
      const next = new Map<string, Seen>();
      for (const row of items) {
        const seen = seenIn(row, before?.get(row.id), volatile.beatAt(tenant, row.id));
        next.set(row.id, seen);
        if (before !== null && seen.isNews) tell(row, seen.beatAt);
      }
      known = next;
    };
    const look = (): void => {
      if (isLooking) return;
      isLooking = true;
      void read()
        .catch(complain(tenant))
        .finally(() => {
          isLooking = false;
        });
    };
    look();
    const endTimer = environment.timers.every(Math.max(lookMsMin, heartbeatMsOf(tenant, "v2")), look);
    return () => {
      isOver = true;
      endTimer();
    };
  };

  return {
    enter(tenant) {
      if (options.isAlone === true) return () => undefined;
      const here = watched.get(tenant) ?? { readers: 0, end: watch(tenant) };
      here.readers += 1;
      watched.set(tenant, here);
      return () => {
        here.readers -= 1;
        if (here.readers > 0) return;
        here.end();
        watched.delete(tenant);
      };
    },
    signed(tenant, worker) {
      if (!volatile.hearsBeats(tenant)) return;
      reader.page({ page: "worker", tenant, worker, limit: 1 }).then(({ worker: row }) => {
        const at = row === null ? null : readCondition(row.condition).beatAt;
        if (row !== null && at !== null && at > volatile.beatAt(tenant, worker)) tell(row, at);
      }, complain(tenant));
    },
  };
}

interface Seen {
  readonly seenAt: number;
  readonly beatAt: number;
  readonly isNews: boolean;
}

/** Whether its row shows a beat that nobody has told. A beat is a sign of life: where that has not moved the row need not be read further. */
function seenIn(row: WorkerRow, before: Seen | undefined, toldAt: number): Seen {
  const { seenAt } = row;
  if (before?.seenAt === seenAt) return { ...before, isNews: false };
  if (toldAt >= seenAt) return { seenAt, beatAt: toldAt, isNews: false };
  const beatAt = readCondition(row.condition).beatAt ?? Number.NEGATIVE_INFINITY;
  return { seenAt, beatAt, isNews: beatAt > toldAt && beatAt > (before?.beatAt ?? Number.NEGATIVE_INFINITY) };
}
