// Rows of one turn: loaded on first read, changed in memory, written once at the end, rolled back with their command.

import type { TaskListQuery, TurnTransaction } from "../../storage/port.ts";
import {
  type ConcurrencyKeyRow,
  type DocRow,
  type IdempotencyRow,
  keyOf,
  type Millis,
  type QueueName,
  type RouteRow,
  type Row,
  type RowKey,
  type RunId,
  type RunRow,
  rootOf,
  runOf,
  splitKey,
  type TaskId,
  type TaskRow,
  type Tenant,
  type WorkerId,
  type WorkerRow,
  type WorkflowRow,
} from "../../storage/rows.ts";
import { InvariantBroken } from "../rows/invariant-broken.ts";
import { findMisfit } from "../rows/row-shapes.ts";
import { applyRunTransition, type RunTransition } from "../rows/run.ts";
import { applyTaskTransition, isEnded, type TaskTransition } from "../rows/task.ts";
import { applyWorkerTransition, type WorkerTransition } from "../rows/worker.ts";
import type { DeletedRow } from "./change-sets.ts";
import { checkLoaded, checkWrite } from "./invariants.ts";
import { RootBusy, RootGroups, type RootRef, RowsMissing } from "./root.ts";

/** What is used of the turn's transaction. */
export type TurnRows = Pick<TurnTransaction, "row" | "tasks" | "peekWorker" | "now">;

/** Base of UnitOfWork: rows only. */
export abstract class RowSet {
  readonly now: Millis;
  protected readonly rootGroups = new RootGroups();
  /** Everything written, in order of first writing. */
  protected readonly written: TrackedRow<Row>[] = [];
  protected readonly deletions: DeletedRow[] = [];
  readonly #tx: TurnRows;
  readonly #checksFences: boolean;
  /** Rows as this turn sees them. Runs and tasks are found by id, the few others by key. */
  readonly #runs = new Map<RunId, TrackedRow<RunRow>>();
  readonly #tasks = new Map<TaskId, TrackedRow<TaskRow>>();
  readonly #others = new Map<RowKey, TrackedRow<Row>>();
  readonly #undo: { tracked: TrackedRow<Row>; before: Row | null; wasWritten: boolean }[] = [];

  /** `checksFences` is false only for the mutant that forgets them. */
  constructor(tx: TurnRows, checksFences = true) {
    this.#tx = tx;
    this.#checksFences = checksFences;
    this.now = tx.now;
  }

  run(id: RunId): RunRow | null {
    let tracked = this.#runs.get(id);
    if (tracked === undefined) {
      tracked = { row: this.#load("run", id), root: id, isWritten: false, isInserted: false };
      this.#runs.set(id, tracked);
    }
    return this.#readTracked(tracked);
  }

  /** A run that other rows show to exist. */
  existingRun(id: RunId): RunRow {
    const run = this.run(id);
    if (run === null) throw new Error(`run ${id} does not exist`);
    return run;
  }

  /** For building change sets: unlike `run`, it ties no roots together. */
  protected tenantOfRun(id: RunId): Tenant {
    const row = this.#runs.get(id)?.row ?? this.#load("run", id);
    if (row === null) throw new InvariantBroken("change set has its root", `run ${id} of a task does not exist`);
    return row.tenant;
  }

  task(id: TaskId): TaskRow | null {
    let tracked = this.#tasks.get(id);
    if (tracked === undefined) {
      tracked = { row: this.#load("task", id), root: runOf(id), isWritten: false, isInserted: false };
      this.#tasks.set(id, tracked);
    }
    return this.#readTracked(tracked);
  }

  /** A task that other rows show to exist. */
  existingTask(id: TaskId): TaskRow {
    const task = this.task(id);
    if (task === null) throw new Error(`task ${id} does not exist`);
    return task;
  }

  worker(id: WorkerId): WorkerRow | null {
    return this.#other("worker", id);
  }
  concurrencyKey(id: string): ConcurrencyKeyRow | null {
    return this.#other("key", id);
  }
  route(id: string): RouteRow | null {
    return this.#other("route", id);
  }
  workflow(id: string): WorkflowRow | null {
    return this.#other("workflow", id);
  }
  doc(id: string): DocRow | null {
    return this.#other("doc", id);
  }
  idempotencyRecord(id: string): IdempotencyRow | null {
    return this.#other("ask", id);
  }

  #other<K extends Row["kind"]>(kind: K, id: string): RowOfKind<K> | null {
    const key: RowKey = `${kind}/${id}`;
    let tracked = this.#others.get(key) as TrackedRow<RowOfKind<K>> | undefined;
    if (tracked === undefined) {
      tracked = { row: this.#load(kind, id), root: rootOfKey(key), isWritten: false, isInserted: false };
      this.#others.set(key, tracked);
    }
    return this.#readTracked(tracked);
  }

  /** The store gives a row of the kind it is asked for; that the fields fit its phase is checked here. */
  #load<K extends Row["kind"]>(kind: K, id: string): RowOfKind<K> | null {
    const row = this.#tx.row(kind, id);
    if (row === undefined) throw new RowsMissing([`${kind}/${id}`], []);
    if (row === "busy") throw new RootBusy(rootOf(`${kind}/${id}`));
    if (row !== null) checkLoaded(row);
    return row as RowOfKind<K> | null;
  }

  /** The row may have been written in this turn: if that change set is refused, this command must not be stored without it. */
  #readTracked<R extends Row>(tracked: TrackedRow<R>): R | null {
    if (tracked.isWritten) this.rootGroups.touch(tracked.root);
    return tracked.row;
  }

  /**
   * Open tasks of a run as this turn sees them: those of the store, with this turn's changes. `last` is how far the store was read, null
   * when to its end: tasks that this turn has ended make the list shorter, which does not mean that there are no more.
   */
  openTasks(run: RunId, after: TaskId | "", limit: number): { tasks: TaskRow[]; last: TaskId | null } {
    return this.#openAmong({ of: "open", run, after, limit });
  }

  /** The same for a range of ids, `after` < id <= `end`: it costs as much as the range, however large the run is. */
  openTasksIn(run: RunId, after: TaskId, end: TaskId, limit: number): { tasks: TaskRow[]; last: TaskId | null } {
    return this.#openAmong({ of: "range", run, after, last: end, limit });
  }

  #openAmong(list: Extract<TaskListQuery, { of: "open" | "range" }>): { tasks: TaskRow[]; last: TaskId | null } {
    const { run, after, limit } = list;
    const loaded = this.#loadedTasks(list);
    const last = loaded.length < limit ? null : (loaded.at(-1)?.id ?? null);
    const end = last ?? (list.of === "range" ? list.last : null);
    const found = new Map<TaskId, TaskRow>();
    for (const task of loaded) {
      checkLoaded(task);
      found.set(task.id, task);
    }
    for (const { row } of this.written)
      if (row?.kind === "task" && row.run === run && row.id > after && (end === null || row.id <= end)) found.set(row.id, row);
    const tasks = [...found.values()].filter((task) => !isEnded(task));
    return { tasks: tasks.sort((a, b) => (a.id < b.id ? -1 : 1)), last };
  }

  /** Ids of tasks leased to a worker. Not locked: each is read again before it is changed. A damaged one must not stop the worker's others. */
  tasksHeldBy(worker: WorkerId, limit: number): TaskId[] {
    const tasks = this.#loadedTasks({ of: "held", worker, limit });
    return tasks.filter((task) => findMisfit(task) === null).map((task) => task.id);
  }

  /** Ids of tasks at the heads of these queues, at most `limit`. Not locked, like `tasksHeldBy`. */
  tasksQueuedIn(queues: readonly QueueName[], limit: number): TaskId[] {
    const lists = queues.map((queue): TaskListQuery => ({ of: "line", line: queue, limit }));
    const missing = lists.filter((list) => this.#tx.tasks(list) === undefined);
    if (missing.length > 0) throw new RowsMissing([], missing);
    return lists.flatMap((list) => this.#loadedTasks(list).map((task) => task.id)).slice(0, limit);
  }

  /** The task at the head of a queue; null when it is empty. */
  queueHead(queue: QueueName, except: ReadonlySet<TaskId>): TaskRow | null {
    const limit = 64;
    const loaded = this.#loadedTasks({ of: "line", line: queue, limit });
    for (const seen of loaded) {
      // A damaged one keeps its place; those behind it go on.
      const task = except.has(seen.id) || findMisfit(seen) !== null ? null : this.task(seen.id);
      if (task !== null && task.line === queue) return task;
    }
    // All tasks that were loaded have left the queue in this turn; there may be more behind them.
    if (loaded.length === limit) throw new RootBusy(`key/${queue.slice(2)}`);
    for (const { row } of this.written) if (row?.kind === "task" && row.line === queue && !except.has(row.id)) return row;
    return null;
  }

  /** Where a worker's mail goes; null when there is no such worker. */
  peekWorker(worker: WorkerId): WorkerRow | null {
    const row = this.#tx.peekWorker(worker);
    if (row === undefined) throw new RowsMissing([], [], [worker]);
    return row;
  }

  requirePeekedWorkers(workers: Iterable<WorkerId>): void {
    const missing = [...workers].filter((worker) => this.#tx.peekWorker(worker) === undefined);
    if (missing.length > 0) throw new RowsMissing([], [], missing);
  }

  /** Requires many rows at once, so that a remote store is asked once and not once per row. */
  requireRows(keys: readonly RowKey[]): void {
    const missing = keys.filter((key) => this.#tx.row(...splitKey(key)) === undefined);
    if (missing.length > 0) throw new RowsMissing(missing, []);
  }

  #loadedTasks(list: TaskListQuery): readonly TaskRow[] {
    const loaded = this.#tx.tasks(list);
    if (loaded === undefined) throw new RowsMissing([], [list]);
    return loaded;
  }

  /**
   * The last image of a row; written once at the end of the turn, however often it changes. A run or a task is read before it is changed:
   * one that was not read, or not found, is new.
   */
  put(row: Row): void {
    const tracked = this.#trackedRow(row);
    this.#write(tracked, row, tracked.row === null && !tracked.isWritten && (row.kind === "task" || row.kind === "run"));
  }

  /** A row that did not exist before this turn, as the caller knows without looking. */
  insert(row: Row): void {
    this.#write(this.#trackedRow(row), row, true);
  }

  /** Writes the task after a move and returns it; the same for runs and workers. */
  moveTask<R extends TaskRow, E extends TaskTransition>(task: R, event: E) {
    const moved = applyTaskTransition(task, event, this.now);
    this.put(moved);
    return moved;
  }
  moveRun<R extends RunRow, E extends RunTransition>(run: R, event: E) {
    const moved = applyRunTransition(run, event, this.now);
    this.put(moved);
    return moved;
  }
  moveWorker<R extends WorkerRow, E extends WorkerTransition>(worker: R, event: E) {
    const moved = applyWorkerTransition(worker, event, this.now);
    this.put(moved);
    return moved;
  }

  #write(tracked: TrackedRow<Row>, row: Row, isBorn: boolean): void {
    checkWrite(tracked.row, row, this.#checksFences);
    this.#undo.push({ tracked, before: tracked.row, wasWritten: tracked.isWritten });
    if (!tracked.isWritten) this.written.push(tracked);
    tracked.row = row;
    tracked.isWritten = true;
    if (isBorn) tracked.isInserted = true;
    this.rootGroups.touch(tracked.root);
  }

  #trackedRow(row: Row): TrackedRow<Row> {
    const rows = (row.kind === "task" ? this.#tasks : row.kind === "run" ? this.#runs : this.#others) as Map<
      string,
      TrackedRow<Row>
    >;
    const name = row.kind === "task" || row.kind === "run" ? row.id : keyOf(row);
    let tracked = rows.get(name);
    if (tracked === undefined) {
      const root = row.kind === "task" ? row.run : row.kind === "run" ? row.id : rootOfKey(name as RowKey);
      tracked = { row: null, root, isWritten: false, isInserted: false };
      rows.set(name, tracked);
    }
    return tracked;
  }

  /** A row that is no more; one that never was is no fault. */
  delete(key: RowKey): void {
    const row = this.#other(...splitKey(key));
    const tracked = this.#others.get(key);
    if (row === null || tracked === undefined) return;
    this.#undo.push({ tracked, before: row, wasWritten: tracked.isWritten });
    if (!tracked.isWritten) this.written.push(tracked);
    // Later reads in this turn find nothing, and may write it anew.
    tracked.row = null;
    tracked.isWritten = true;
    this.deletions.push({ root: tracked.root, key });
    this.rootGroups.touch(tracked.root);
  }

  /** Earliest deadline this turn writes. */
  earliestDue(): Millis | null {
    let least: Millis | null = null;
    for (const { row } of this.written)
      if (row !== null && "due" in row && row.due !== null && (least === null || row.due < least)) least = row.due;
    return least;
  }

  /** What was dropped and not written again, each once. */
  protected deletedRows(): DeletedRow[] {
    const deleted = new Map<RowKey, DeletedRow>();
    for (const one of this.deletions) if (this.#others.get(one.key)?.row === null) deleted.set(one.key, one);
    return [...deleted.values()];
  }

  protected undoStepCount(): number {
    return this.#undo.length;
  }

  /** Restores the rows as they were after so many writes. */
  protected undoWrites(steps: number): void {
    for (const { tracked, before, wasWritten } of this.#undo.splice(steps).reverse()) {
      tracked.row = before;
      tracked.isWritten = wasWritten;
      if (!wasWritten) this.#forget(tracked);
    }
  }

  /** A row written without having been read is unknown again, not absent. */
  #forget(tracked: TrackedRow<Row>): void {
    if (!tracked.isInserted && tracked.row !== null) return;
    for (const rows of [this.#tasks, this.#runs, this.#others] as Map<string, TrackedRow<Row>>[])
      for (const [name, one] of rows) if (one === tracked) rows.delete(name);
  }
}

/** The earliest of these instants; null: there is none. */
export const earliestOf = (times: readonly (Millis | null)[]): Millis | null =>
  times.reduce((least, at) => (at !== null && (least === null || at < least) ? at : least), null);

/** The root of a row that is neither run nor task, as a RootRef. */
function rootOfKey(key: RowKey): RootRef {
  const root = key.startsWith("doc/") ? rootOf(key) : key;
  return root.startsWith("run/") ? root.slice(4) : root;
}

type RowOfKind<K extends Row["kind"]> = Extract<Row, { kind: K }>;

/** One row of the turn: its present image, and whether this turn writes it. */
interface TrackedRow<R extends Row> {
  row: R | null;
  readonly root: RootRef;
  isWritten: boolean;
  isInserted: boolean;
}
