// Wraps the store and detects what the engine only retries: that the store is unavailable or not durable, which makes this scheduler not
// ready, and that another process has taken over this replica's name, which must end it. Every call is passed on unchanged.

import type { CommitOutcome, Store, TurnTransaction } from "@astraflow/engine";
import { Fault } from "@astraflow/protocol";

export interface StoreMonitorOptions {
  /** Called once, with the fault of the store. */
  onReplaced(fault: Fault): void;
  /** Monotonic, milliseconds. */
  now(): number;
  /** Whether the disk of the store has space left. */
  hasRoom(): boolean;
}

/**
 * A durability problem lasts until a commit succeeds, or until none was refused for this long: a scheduler that is not ready gets no work,
 * so it commits nothing and would never notice that the problem is gone.
 */
export const durabilityProblemMs = 30_000;

export function monitorStore(inner: Store, { onReplaced, now, hasRoom }: StoreMonitorOptions) {
  let isUnavailable = false;
  let durabilityProblem: { readonly message: string; readonly until: number } | null = null;
  /** Until when the disk counts as full if nothing is written: a quota may leave room that this user cannot have. */
  let diskFullUntil: number | null = null;
  let isReplaced = false;
  const noteDurabilityProblem = (fault: Fault): boolean => {
    if (fault.code !== "E.STORE.DURABILITY") return false;
    durabilityProblem = { message: fault.message, until: now() + durabilityProblemMs };
    return true;
  };
  const noteFullDisk = ({ details }: Fault): void => {
    if (details?.["isDiskFull"] === true) diskFullUntil = now() + durabilityProblemMs;
  };
  const watchCommit = (tx: TurnTransaction): TurnTransaction => {
    const commit = tx.commit.bind(tx);
    // Patched on the transaction itself: its rows are read thousands of times, and a wrapper would cost each read.
    tx.commit = async (turn, units): Promise<CommitOutcome> => {
      const committed = await commit(turn, units);
      if (committed.outcome === "committed") durabilityProblem = diskFullUntil = null;
      else if (committed.outcome === "failed" && !noteDurabilityProblem(committed.fault)) noteFullDisk(committed.fault);
      return committed;
    };
    return tx;
  };
  const trackAvailability = async <T>(request: Promise<T>): Promise<T> => {
    try {
      const answer = await request;
      isUnavailable = false;
      return answer;
    } catch (cause) {
      const isWeak = cause instanceof Fault && noteDurabilityProblem(cause);
      isUnavailable = !isWeak;
      if (cause instanceof Fault && cause.code === "E.STORE.IN_USE" && !isReplaced) {
        isReplaced = true;
        onReplaced(cause);
      }
      throw cause;
    }
  };
  const store: Store = {
    // A name that is in use at the start is a refusal to start, not a replacement.
    open: (me) => inner.open(me),
    begin: (want) => trackAvailability(inner.begin(want)).then(watchCommit),
    settle: (turn) => trackAvailability(inner.settle(turn)),
    // A removal that fails is tried again later and delays nobody: it makes nobody unready.
    remove: (slice) => inner.remove(slice),
    ...(inner.releaseSpace !== undefined && { releaseSpace: inner.releaseSpace.bind(inner) }),
    events: (query) => inner.events(query),
    page: (query) => inner.page(query),
    onHint: (onHint) => inner.onHint(onHint),
    close: () => inner.close(),
  };
  return {
    store,
    /** Whether the last turn could not begin. */
    isUnavailable: () => isUnavailable,
    /** Whether commits fail because the disk is full; false again as soon as there is room. */
    isDiskFull(): boolean {
      if (diskFullUntil !== null && (now() >= diskFullUntil || hasRoom())) diskFullUntil = null;
      return diskFullUntil !== null;
    },
    /** Why commits are not durable, as the store reports it; null when they are. */
    durabilityProblem: () => (durabilityProblem !== null && now() < durabilityProblem.until ? durabilityProblem.message : null),
  };
}
