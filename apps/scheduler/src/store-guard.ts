// Stands between engine and store and notices two things the engine only waits out: that the store is away, which makes this
// scheduler unready, and that another process has taken over this replica's name, which must end it. Passes every call on unchanged.

import type { Store } from "@astraflow/engine";
import { Fault } from "@astraflow/protocol";

export interface GuardedStore {
  readonly store: Store;
  /** Whether the last turn could not even begin. */
  isAway(): boolean;
}

/** `replaced` is called once, with the store's own words. */
export function guardStore(inner: Store, replaced: (fault: Fault) => void): GuardedStore {
  let isAway = false;
  let isReplaced = false;
  const watch = async <T>(asked: Promise<T>): Promise<T> => {
    try {
      const answer = await asked;
      isAway = false;
      return answer;
    } catch (cause) {
      isAway = true;
      if (cause instanceof Fault && cause.code === "E.STORE.IN_USE" && !isReplaced) {
        isReplaced = true;
        replaced(cause);
      }
      throw cause;
    }
  };
  return {
    store: {
      // A name that is in use at the start is a refusal to start, not the end of something that ran.
      open: (me) => inner.open(me),
      begin: (want) => watch(inner.begin(want)),
      settle: (turn) => watch(inner.settle(turn)),
      events: (query) => inner.events(query),
      page: (query) => inner.page(query),
      onHint: (hear) => inner.onHint(hear),
      close: () => inner.close(),
    },
    isAway: () => isAway,
  };
}
