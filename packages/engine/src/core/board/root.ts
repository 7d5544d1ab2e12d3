// Roots, the grain of locking and failure, and how a decision says that it lacks rows or must wait for another turn.

import type { TaskList } from "../../port.ts";
import { type Key, type RunId, runKey, type WorkerId } from "../../rows.ts";

/** Thrown by a read of something the turn has not loaded: the driver loads it, with all the others, and decides again from the start. */
export class RowsMissing extends Error {
  readonly rows: readonly Key[];
  readonly lists: readonly TaskList[];
  readonly addresses: readonly WorkerId[];
  constructor(rows: readonly Key[], lists: readonly TaskList[], addresses: readonly WorkerId[] = []) {
    super("rows not loaded yet");
    this.rows = rows;
    this.lists = lists;
    this.addresses = addresses;
  }
}

/** Thrown by a read of something another turn holds: the command waits for the next turn. */
export class RootBusy extends Error {
  readonly root: Key;
  constructor(root: Key) {
    super(`${root} is held by another turn`);
    this.root = root;
  }
}

/** A run's id, or the key of any other root: nearly all work is under runs, and their ids need no further spelling. */
export type Root = RunId | Key;

export const spellRoot = (root: Root): Key => (root.includes("/") ? (root as Key) : runKey(root));

/** Decides one thing that no command asked for (a timer, a grant) under its own mark; `root` is to blame when it throws. */
export type Attempt = (root: Root, work: () => void) => void;
