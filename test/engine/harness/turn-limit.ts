// A limit for engines that never pause: on a memory store they would keep the process busy for ever, and nothing could end their test.

import type { Store } from "@astraflow/engine";
import { overrideStore } from "./override-store.ts";

/** An engine that needs this many turns between two steps of its test is not busy; it is in a loop. */
export const turnsMax = 10_000;

export interface TurnLimit {
  /** The same store; it begins no turn beyond the limit. */
  readonly store: Store;
  /** The test takes its next step: the turns are counted anew. */
  restart(): void;
}

export function limitTurns(store: Store, onExceeded: (problem: Error) => void): TurnLimit {
  let turns = 0;
  const begin: Store["begin"] = (want) => {
    turns += 1;
    if (turns <= turnsMax) return store.begin(want);
    onExceeded(new Error(`the engine took ${turnsMax} turns in a row without a pause, and was halted`));
    return new Promise(() => undefined);
  };
  const restart = (): void => {
    turns = 0;
  };
  return { store: overrideStore(store, { begin }), restart };
}
