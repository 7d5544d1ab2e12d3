// Whether this scheduler may be sent work: only while its store answers and its engine is known to be making turns. An engine that
// hangs on its disk is not ready although its process lives.

import type { HostGauge } from "./engine-world.ts";

/** The engine looks at its store every second even when nothing happens; this many of those may be missed. */
export const stalledMs = 5_000;

export interface Unready {
  readonly code: "E.SHUTTING_DOWN" | "E.STORE.BUSY" | "E.STORE.DURABILITY";
  readonly reason: string;
}

export interface Readiness {
  /** Takes note of the engine's state; called on a beat of the caller's. */
  note(gauge: HostGauge): void;
  /** Why no work should be sent here now; null when it may. */
  unready(): Unready | null;
  /** From now on: not ready, whatever the engine does. */
  retire(): void;
}

export function createReadiness(mono: () => number): Readiness {
  let turns = -1;
  let movedAt = Number.NEGATIVE_INFINITY;
  let isRetired = false;
  let isStoreAway = false;
  let isStoreWeak = false;
  return {
    note(gauge) {
      isStoreAway = gauge.isStoreAway;
      isStoreWeak = gauge.storeWeakness !== null;
      if (gauge.turns === turns) return;
      turns = gauge.turns;
      movedAt = mono();
    },
    unready() {
      const silentMs = mono() - movedAt;
      if (isRetired) return { code: "E.SHUTTING_DOWN", reason: "the scheduler is shutting down" };
      if (silentMs === Number.POSITIVE_INFINITY) return { code: "E.STORE.BUSY", reason: "the engine has not made a turn yet" };
      if (isStoreWeak)
        return { code: "E.STORE.DURABILITY", reason: "the store does not promise to keep what it is given; the log says why" };
      if (isStoreAway) return { code: "E.STORE.BUSY", reason: "the store is away; everything waits until it is back" };
      if (silentMs > stalledMs)
        return { code: "E.STORE.BUSY", reason: `the engine has not made a turn for ${Math.round(silentMs / 1_000)} s` };
      return null;
    },
    retire() {
      isRetired = true;
    },
  };
}
