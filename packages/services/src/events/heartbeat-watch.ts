// Heartbeats as events, and those of workers that other schedulers of the same store hold, which are seen in their rows.

import { readCondition, type StoreReader, type WorkerRow } from "@astraflow/engine";
import type { Worker } from "@astraflow/protocol";
import { withoutOverlap } from "../environment/concurrency.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { defaultHeartbeatMs, presentWorker } from "../presentation/worker-view.ts";
import type { HeartbeatData, VolatileEvents } from "./volatile-events.ts";

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

/** However often workers beat, all their rows are not read oftener than this. */
const pollMsMin = 1_000;

export class HeartbeatWatch {
  readonly #options: HeartbeatWatchOptions;
  readonly #heartbeatMsOf: (tenant: string, dialect: string) => number;
  readonly #watched = new Map<string, { readers: number; stop(): void }>();

  constructor(options: HeartbeatWatchOptions) {
    this.#options = options;
    this.#heartbeatMsOf = options.heartbeatMsOf ?? defaultHeartbeatMs;
  }

  /** Looks at the tenant's workers at the pace of their heartbeats until the returned function is called, as often as it was entered. */
  watchTenant(tenant: string): () => void {
    if (this.#options.isAlone === true) return () => undefined;
    const watching = this.#watched.get(tenant) ?? { readers: 0, stop: this.#startPolling(tenant) };
    watching.readers += 1;
    this.#watched.set(tenant, watching);
    return () => {
      watching.readers -= 1;
      if (watching.readers > 0) return;
      watching.stop();
      this.#watched.delete(tenant);
    };
  }

  /** A worker without a socket said that it lives; told if somebody listens. */
  reportSignOfLife(tenant: string, worker: string): void {
    const { reader, volatile } = this.#options;
    if (!volatile.hasHeartbeatListeners(tenant)) return;
    reader.page({ page: "worker", tenant, worker, limit: 1 }).then(
      ({ worker: row }) => {
        const at = row === null ? null : readCondition(row.condition).beatAt;
        if (row !== null && at !== null && at > volatile.lastHeartbeatAt(tenant, worker)) this.#publish(row, at);
      },
      (problem: unknown) => this.#logFailure(tenant, problem),
    );
  }

  #startPolling(tenant: string): () => void {
    const { reader, environment, volatile } = this.#options;
    // Null before the first look: what was so before anybody listened is no news.
    let lastObserved: ReadonlyMap<string, ObservedHeartbeat> | null = null;
    let isStopped = false;
    const read = async (): Promise<void> => {
      const { items } = await reader.page({ page: "workers", tenant });
      if (isStopped) return;
      const before = lastObserved;
      const next = new Map<string, ObservedHeartbeat>();
      for (const row of items) {
        const seen = observeHeartbeat(row, before?.get(row.id), volatile.lastHeartbeatAt(tenant, row.id));
        next.set(row.id, seen);
        if (before !== null && seen.isNew) this.#publish(row, seen.heartbeatAt);
      }
      lastObserved = next;
    };
    const poll = withoutOverlap(() => read().catch((problem: unknown) => this.#logFailure(tenant, problem)));
    poll();
    const endTimer = environment.timers.every(Math.max(pollMsMin, this.#heartbeatMsOf(tenant, "v2")), poll);
    return () => {
      isStopped = true;
      endTimer();
    };
  }

  #publish(row: WorkerRow, at: number): void {
    const { environment, volatile } = this.#options;
    volatile.publishHeartbeat({ tenant: row.tenant, worker: row.id, workerName: row.name, at }, () =>
      heartbeatEventData(presentWorker(row, { now: environment.clock.now(), heartbeatMsOf: this.#heartbeatMsOf })),
    );
  }

  #logFailure(tenant: string, problem: unknown): void {
    this.#options.environment.log({ level: "warn", event: "events.beats", tenant, problem: String(problem) });
  }
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
  const isNew = beatAt > publishedAt && beatAt > (before?.heartbeatAt ?? Number.NEGATIVE_INFINITY);
  return { seenAt, heartbeatAt: beatAt, isNew };
}
