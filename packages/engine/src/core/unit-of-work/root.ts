// Roots, the unit of locking and failure, and the errors for rows that are not loaded or are locked by another turn.

import type { TaskListQuery } from "../../storage/port.ts";
import { type RowKey, type RunId, runKey, type WorkerId } from "../../storage/rows.ts";

/** Thrown by a read of something the turn has not loaded: the driver loads it, with all the others, and decides again from the start. */
export class RowsMissing extends Error {
  readonly rows: readonly RowKey[];
  readonly lists: readonly TaskListQuery[];
  readonly peekedWorkers: readonly WorkerId[];
  constructor(rows: readonly RowKey[], lists: readonly TaskListQuery[], addresses: readonly WorkerId[] = []) {
    super("rows not loaded yet");
    this.rows = rows;
    this.lists = lists;
    this.peekedWorkers = addresses;
  }
}

/** Thrown by a read of something another turn has locked: the command waits for the next turn. */
export class RootBusy extends Error {
  readonly root: RowKey;
  constructor(root: RowKey) {
    super(`${root} is held by another turn`);
    this.root = root;
  }
}

/** A run's id, or the key of any other root: nearly all work is under runs, and their ids need no further spelling. */
export type RootRef = RunId | RowKey;

export const rootKey = (root: RootRef): RowKey => (root.includes("/") ? (root as RowKey) : runKey(root));

/** Decides one thing that no command asked for (a timer, a grant) after its own savepoint; `root` is suspected when it throws. */
export type IsolateFailure = (root: RootRef, work: () => void) => void;
