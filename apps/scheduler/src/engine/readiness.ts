// Whether this scheduler is ready for work: its store answers and its engine makes turns. An engine that hangs on its disk is not ready,
// although its process is alive.

import type { EngineHostGauge } from "./engine-start.ts";

/** The engine makes a turn every second even when it is idle; a few of them may be missed. */
export const stalledMs = 5_000;

export interface NotReadyReason {
  readonly code: "E.SHUTTING_DOWN" | "E.STORE.BUSY" | "E.STORE.DURABILITY";
  readonly reason: string;
}

export interface Readiness {
  /** Called periodically with the gauge of the engine. */
  update(gauge: EngineHostGauge): void;
  /** Why no work should be sent here now; null when ready. */
  notReadyReason(): NotReadyReason | null;
  /** From now on not ready, whatever the engine does. */
  markStopping(): void;
}

export function createReadiness(mono: () => number): Readiness {
  let turns = -1;
  let progressedAt = Number.NEGATIVE_INFINITY;
  let isStopping = false;
  let isStoreUnavailable = false;
  let isStoreUndurable = false;
  return {
    update(gauge) {
      isStoreUnavailable = gauge.isStoreUnavailable;
      isStoreUndurable = gauge.storeDurabilityProblem !== null;
      if (gauge.turns === turns) return;
      turns = gauge.turns;
      progressedAt = mono();
    },
    notReadyReason() {
      const silentMs = mono() - progressedAt;
      if (isStopping) return { code: "E.SHUTTING_DOWN", reason: "the scheduler is shutting down" };
      if (silentMs === Number.POSITIVE_INFINITY) return { code: "E.STORE.BUSY", reason: "the engine has not made a turn yet" };
      if (isStoreUndurable) return { code: "E.STORE.DURABILITY", reason: "the store is not durable; see the log" };
      if (isStoreUnavailable) return { code: "E.STORE.BUSY", reason: "the store is unavailable; work waits until it returns" };
      if (silentMs > stalledMs)
        return { code: "E.STORE.BUSY", reason: `the engine has not made a turn for ${Math.round(silentMs / 1_000)} s` };
      return null;
    },
    markStopping() {
      isStopping = true;
    },
  };
}
