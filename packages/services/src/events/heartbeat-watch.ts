// Heartbeats as events: what they say of a worker, and the beats of workers that other schedulers of the same store hold, which are seen in
// their rows. Beats of the workers that are here are told by their sessions.

import { defaultSettings, readCondition, type StoreReader, type WorkerRow, workerTimings } from "@astraflow/engine";
import type { EventData, Worker } from "@astraflow/protocol";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { presentWorker } from "../presentation/worker-view.ts";
import type { VolatileEvents } from "./volatile-events.ts";

export type HeartbeatData = Omit<EventData<"worker.heartbeat">, "kind">;

export function heartbeatEventData(seen: Worker): HeartbeatData {
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

export interface HeartbeatWatchOptions {
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  readonly volatile: VolatileEvents;
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
  /** All workers are here: no row shows a beat that was not told. */
  readonly isAlone?: boolean;
}

export interface HeartbeatWatch {
  /** Looks at the tenant's workers at the pace of their heartbeats until the returned function is called, as often as it was entered. */
  watchTenant(tenant: string): () => void;
  /** A worker without a socket said that it lives; told if somebody listens. */
  reportSignOfLife(tenant: string, worker: string): void;
}

export const defaultHeartbeatMs = (tenant: string, dialect: string): number =>
  workerTimings(defaultSettings, tenant, dialect).heartbeatMs;

/** However often workers beat, all their rows are not read oftener than this. */
const pollMsMin = 1_000;

export function createHeartbeatWatch(options: HeartbeatWatchOptions): HeartbeatWatch {
  const { reader, environment, volatile, heartbeatMsOf = defaultHeartbeatMs } = options;
  const watched = new Map<string, { readers: number; end(): void }>();

  const publishHeartbeat = (row: WorkerRow, at: number): void =>
    volatile.publishHeartbeat({ tenant: row.tenant, worker: row.id, workerName: row.name, at }, () =>
      heartbeatEventData(presentWorker(row, { now: environment.clock.now(), heartbeatMsOf })),
    );
  const logFailureOf = (tenant: string) => (problem: unknown) =>
    environment.log({ level: "warn", event: "events.beats", tenant, problem: String(problem) });

  const startPolling = (tenant: string): (() => void) => {
    // Null before the first look: what was so before anybody listened is no news.
    let lastObserved: ReadonlyMap<string, ObservedHeartbeat> | null = null;
    let isPolling = false;
    let isStopped = false;
    const read = async (): Promise<void> => {
      const { items } = await reader.page({ page: "workers", tenant });
      if (isStopped) return;
      const before = lastObserved;
      const next = new Map<string, ObservedHeartbeat>();
      for (const row of items) {
        const seen = observeHeartbeat(row, before?.get(row.id), volatile.lastHeartbeatAt(tenant, row.id));
        next.set(row.id, seen);
        if (before !== null && seen.isNew) publishHeartbeat(row, seen.heartbeatAt);
      }
      lastObserved = next;
    };
    const poll = (): void => {
      if (isPolling) return;
      isPolling = true;
      void read()
        .catch(logFailureOf(tenant))
        .finally(() => {
          isPolling = false;
        });
    };
    poll();
    const endTimer = environment.timers.every(Math.max(pollMsMin, heartbeatMsOf(tenant, "v2")), poll);
    return () => {
      isStopped = true;
      endTimer();
    };
  };

  return {
    watchTenant(tenant) {
      if (options.isAlone === true) return () => undefined;
      const watching = watched.get(tenant) ?? { readers: 0, end: startPolling(tenant) };
      watching.readers += 1;
      watched.set(tenant, watching);
      return () => {
        watching.readers -= 1;
        if (watching.readers > 0) return;
        watching.end();
        watched.delete(tenant);
      };
    },
    reportSignOfLife(tenant, worker) {
      if (!volatile.hasHeartbeatListeners(tenant)) return;
      reader.page({ page: "worker", tenant, worker, limit: 1 }).then(({ worker: row }) => {
        const at = row === null ? null : readCondition(row.condition).beatAt;
        if (row !== null && at !== null && at > volatile.lastHeartbeatAt(tenant, worker)) publishHeartbeat(row, at);
      }, logFailureOf(tenant));
    },
  };
}

interface ObservedHeartbeat {
  readonly seenAt: number;
  readonly heartbeatAt: number;
  readonly isNew: boolean;
}

/** Whether its row shows a beat that nobody has told. A beat is a sign of life: where that has not moved the row need not be read further. */
function observeHeartbeat(row: WorkerRow, before: ObservedHeartbeat | undefined, publishedAt: number): ObservedHeartbeat {
  const { seenAt } = row;
  if (before?.seenAt === seenAt) return { ...before, isNew: false };
  if (publishedAt >= seenAt) return { seenAt, heartbeatAt: publishedAt, isNew: false };
  const beatAt = readCondition(row.condition).beatAt ?? Number.NEGATIVE_INFINITY;
  return {
    seenAt,
    heartbeatAt: beatAt,
    isNew: beatAt > publishedAt && beatAt > (before?.heartbeatAt ?? Number.NEGATIVE_INFINITY),
  };
}
