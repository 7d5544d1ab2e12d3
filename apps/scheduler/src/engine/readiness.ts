// Whether this scheduler is ready for work: its store answers and its engine makes turns. An engine that hangs on its disk is not ready,
// although its process is alive.

import type { Log } from "../platform/log.ts";
import { type EngineHost, gaugeIntervalMs } from "./engine-host.ts";
import type { EngineHostGauge } from "./engine-start.ts";

/** The engine makes a turn every second even when it is idle; a few of them may be missed. */
export const stalledMs = 5_000;

export interface NotReadyReason {
  readonly code: "E.SHUTTING_DOWN" | "E.STORE.BUSY" | "E.STORE.DURABILITY";
  readonly reason: string;
}

export class Readiness {
  readonly #now: () => number;
  #gauge: EngineHostGauge | null = null;
  #progressedAt = Number.NEGATIVE_INFINITY;
  #isStopping = false;

  /** `now`: monotonic, milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Called periodically with the gauge of the engine. */
  update(gauge: EngineHostGauge): void {
    if (gauge.turns !== this.#gauge?.turns) this.#progressedAt = this.#now();
    this.#gauge = gauge;
  }

  /** From now on not ready, whatever the engine does. */
  markStopping(): void {
    this.#isStopping = true;
  }

  /** Why no work should be sent here now; null when ready. */
  notReadyReason(): NotReadyReason | null {
    const silentMs = this.#now() - this.#progressedAt;
    if (this.#isStopping) return { code: "E.SHUTTING_DOWN", reason: "the scheduler is shutting down" };
    if (this.#gauge === null) return { code: "E.STORE.BUSY", reason: "the engine has not made a turn yet" };
    if (this.#gauge.storeDurabilityProblem !== null)
      return { code: "E.STORE.DURABILITY", reason: "the store is not durable; see the log" };
    if (this.#gauge.isDiskFull) return { code: "E.STORE.BUSY", reason: "the disk of the store is full; free some space" };
    if (this.#gauge.isStoreUnavailable)
      return { code: "E.STORE.BUSY", reason: "the store is unavailable; work waits until it returns" };
    if (silentMs <= stalledMs) return null;
    return { code: "E.STORE.BUSY", reason: `the engine has not made a turn for ${Math.round(silentMs / 1_000)} s` };
  }
}

/**
 * Reads the engine's gauge periodically: updates readiness, and logs when the store, as `store` names it, becomes unavailable, returns, or is
 * not durable. Returns the function that ends that.
 */
export function monitorEngine(host: Pick<EngineHost, "gauge">, readiness: Readiness, log: Log, store: string): () => void {
  readiness.update(host.gauge());
  const timer = setInterval(createEngineObserver(host, readiness, log, store), gaugeIntervalMs);
  return () => clearInterval(timer);
}

/** Reads the gauge once each time it is called. */
export function createEngineObserver(
  host: Pick<EngineHost, "gauge">,
  readiness: Readiness,
  log: Pick<Log, "warn" | "error">,
  store: string,
): () => void {
  let wasUnavailable = false;
  let wasUndurable = false;
  let wasFull = false;
  return () => {
    const gauge = host.gauge();
    readiness.update(gauge);
    if (gauge.isStoreUnavailable !== wasUnavailable) log.warn({ store }, wasUnavailable ? "store.back" : "store.away");
    wasUnavailable = gauge.isStoreUnavailable;
    const { storeDurabilityProblem: message } = gauge;
    if (message !== null && !wasUndurable) log.error({ store, message }, "store.weak");
    if (message === null && wasUndurable) log.warn({ store }, "store.trusted");
    wasUndurable = message !== null;
    if (gauge.isDiskFull && !wasFull)
      log.error({ store, message: "the disk of the store is full; free some space" }, "store.full");
    if (!gauge.isDiskFull && wasFull) log.warn({ store }, "store.room");
    wasFull = gauge.isDiskFull;
  };
}
