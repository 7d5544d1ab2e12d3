// Stands between engine and store and notices three things the engine only waits out: that the store is away, and that it does not
// promise to keep what it is given, which make this scheduler unready, and that another process has taken over this replica's name,
// which must end it. Passes every call on unchanged.

import type { CommitOutcome, Store, TurnTransaction } from "@astraflow/engine";
import { Fault } from "@astraflow/protocol";

export interface GuardedStore {
  readonly store: Store;
  /** Whether the last turn could not even begin. */
  isAway(): boolean;
  /** Why commits are refused to be trusted, in the store's own words; null when they are not. */
  weakness(): string | null;
}

export interface GuardEars {
  /** Called once, with the store's own words. */
  replaced(fault: Fault): void;
  /** Monotonic, milliseconds. */
  now(): number;
}

/**
 * A store that was too weak is so until a commit succeeds, or until nothing was refused for this long: a scheduler that gets no work
 * because it is unready commits nothing, and would never find out.
 */
export const weakMs = 30_000;

export function guardStore(inner: Store, { replaced, now }: GuardEars): GuardedStore {
  let isAway = false;
  let weakness: { readonly message: string; readonly until: number } | null = null;
  let isReplaced = false;
  const noticeWeakness = (fault: Fault): boolean => {
    if (fault.code !== "E.STORE.DURABILITY") return false;
    weakness = { message: fault.message, until: now() + weakMs };
    return true;
  };
  const watchCommit = (tx: TurnTransaction): TurnTransaction => {
    const commit = tx.commit.bind(tx);
    // Laid over the turn itself: its rows are read thousands of times, and a detour would be paid for each.
    tx.commit = async (turn, units): Promise<CommitOutcome> => {
      const committed = await commit(turn, units);
      if (committed.outcome === "committed") weakness = null;
      else if (committed.outcome === "failed") noticeWeakness(committed.fault);
      return committed;
    };
    return tx;
  };
  const watch = async <T>(asked: Promise<T>): Promise<T> => {
    try {
      const answer = await asked;
      isAway = false;
      return answer;
    } catch (cause) {
      const isWeak = cause instanceof Fault && noticeWeakness(cause);
      isAway = !isWeak;
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
      begin: (want) => watch(inner.begin(want)).then(watchCommit),
      settle: (turn) => watch(inner.settle(turn)),
      events: (query) => inner.events(query),
      page: (query) => inner.page(query),
      onHint: (hear) => inner.onHint(hear),
      close: () => inner.close(),
    },
    isAway: () => isAway,
    weakness: () => (weakness !== null && now() < weakness.until ? weakness.message : null),
  };
}
