// Roots, the unit of locking and failure: which commit together, and the errors for rows that are not loaded or are locked by another turn.

import type { TaskListQuery } from "../../storage/port.ts";
import { type RowKey, type RunId, runKey, type WorkerId } from "../../storage/rows.ts";

/** An interruption of a decision, part of most turns: nobody reads its stack, and recording it took 3 % of a simulation's CPU. */
class DecisionInterrupted extends Error {
  constructor(message: string) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Thrown by a read of something the turn has not loaded: the driver loads it, with all the others, and decides again from the start. */
export class RowsMissing extends DecisionInterrupted {
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

/** Thrown by a read of a plan that takes long to compile: the driver compiles it in steps and decides again from the start. */
export class PlanMissing extends DecisionInterrupted {
  readonly workflow: string;
  readonly body: string;
  constructor(workflow: string, body: string) {
    super(`the plan of ${workflow} is not compiled yet`);
    this.workflow = workflow;
    this.body = body;
  }
}

/** Thrown by a read of something another turn has locked: the command waits for the next turn. */
export class RootBusy extends DecisionInterrupted {
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

/** Which roots must commit or fail together: all that one command changed, and all that a later command of the turn saw of them. */
export class RootGroups {
  /** Each root that is bound, pointing to another of its group. */
  readonly #links = new Map<RootRef, RootRef>();
  #touched: RootRef | null = null;

  /** The root of the present command's change set; null when it changed nothing. */
  get touched(): RootRef | null {
    return this.#touched;
  }

  /** Start of a command. */
  beginCommand(): void {
    this.#touched = null;
  }

  /** Roots that one command changes must commit or fail together: put them into one group. */
  touch(root: RootRef): void {
    if (this.#touched === null) this.#touched = root;
    else if (this.#touched !== root) this.#link(root, this.#touched);
  }

  /** The root that represents the whole group. */
  groupOf(root: RootRef): RootRef {
    if (this.#links.size === 0) return root;
    let at = root;
    for (let up = this.#links.get(at); up !== undefined; up = this.#links.get(at)) at = up;
    return at;
  }

  #link(a: RootRef, b: RootRef): void {
    const [x, y] = [this.groupOf(a), this.groupOf(b)];
    if (x !== y) this.#links.set(x, y);
  }
}
