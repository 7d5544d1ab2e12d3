// What the turns of all stores have in common: they end once, and those that load before they answer keep what was loaded.

import type { ChangeSet, CommitOutcome, Row, RowKey, TaskListQuery, TaskRow, WorkerId, WorkerRow } from "@astraflow/engine";

export abstract class OpenTurn {
  #isOver = false;

  async commit(turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    this.assertOpen();
    this.#isOver = true;
    return this.write(turn, units);
  }

  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.rollBack();
  }

  protected abstract write(turn: number, units: readonly ChangeSet[]): CommitOutcome | Promise<CommitOutcome>;
  protected abstract rollBack(): void | Promise<void>;

  protected assertOpen(): void {
    if (this.#isOver) throw new Error("this turn is over; begin another");
  }
}

/** A turn whose answers have been loaded. */
export abstract class LoadedTurn extends OpenTurn {
  protected readonly rows = new Map<RowKey, Row | null | "busy">();
  protected readonly lists = new Map<string, readonly TaskRow[]>();
  /** Workers that were looked at and not locked. */
  protected readonly addresses = new Map<WorkerId, WorkerRow | null>();

  row(kind: Row["kind"], id: string): Row | null | "busy" | undefined {
    this.assertOpen();
    return this.rows.get(`${kind}/${id}`);
  }

  tasks(list: TaskListQuery): readonly TaskRow[] | undefined {
    this.assertOpen();
    return this.lists.get(taskListKey(list));
  }

  peekWorker(worker: WorkerId): WorkerRow | null | undefined {
    this.assertOpen();
    return this.addresses.get(worker);
  }
}

/** Two lists that ask for the same have the same key, so that a turn answers both with one. */
export function taskListKey(list: TaskListQuery): string {
  switch (list.of) {
    case "open":
      return `open ${list.limit} ${list.run} ${list.after}`;
    case "held":
      return `held ${list.limit} ${list.worker}`;
    case "line":
      return `line ${list.limit} ${list.line}`;
    case "range":
      return `range ${list.limit} ${list.after} ${list.last}`;
  }
}
