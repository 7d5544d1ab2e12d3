// Whether this scheduler may be sent work: only while its store answers and its engine is known to be making turns. An engine that
// hangs on its disk is not ready although its process lives.

import type { EngineHostGauge } from "./engine-start.ts";

/** The engine looks at its store every second even when nothing happens; this many of those may be missed. */
export const stalledMs = 5_000;

export interface NotReadyReason {
  readonly code: "E.SHUTTING_DOWN" | "E.STORE.BUSY" | "E.STORE.DURABILITY";
  readonly reason: string;
}

export interface Readiness {
  /** Takes note of the engine's state; called on a beat of the caller's. */
  update(gauge: EngineHostGauge): void;
  /** Why no work should be sent here now; null when it may. */
  notReadyReason(): NotReadyReason | null;
  /** From now on: not ready, whatever the engine does. */
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
      if (isStoreUndurable)
        return { code: "E.STORE.DURABILITY", reason: "the store does not promise to keep what it is given; the log says why" };
      if (isStoreUnavailable) return { code: "E.STORE.BUSY", reason: "the store is away; everything waits until it is back" };
      if (silentMs > stalledMs)
        return { code: "E.STORE.BUSY", reason: `the engine has not made a turn for ${Math.round(silentMs / 1_000)} s` };
      return null;
    },
    markStopping() {
      isStopping = true;
    },
  };
}
