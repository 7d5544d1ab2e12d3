// The rows of one turn as it sees them: loaded when first looked at, changed in place, written once at its end, and put back where the
// command that changed them is undone. It reads what the turn holds and knows nothing of facts, effects or the floor.

import type { TaskList, Tx } from "../../port.ts";
import {
  type AskRow,
  type DocRow,
  type Key,
  type KeyRow,
  keyOf,
  type Line,
  type Millis,
  type RouteRow,
  type Row,
  type RunId,
  type RunRow,
  rootOf,
  runOf,
  splitKey,
  type TaskId,
  type TaskRow,
  type WorkerId,
  type WorkerRow,
  type WorkflowRow,
  workerKey,
} from "../../rows.ts";
import { isEnded } from "../rows/task.ts";
import { Bonds } from "./bonds.ts";
import { type Root, RootBusy, RowsMissing } from "./root.ts";
import type { Dropped } from "./units.ts";

/** What a sheet asks of the turn's transaction. */
export type Looks = Pick<Tx, "row" | "tasks" | "address" | "now">;

/** How far the rows were when a command began. */
export interface RowMark {
  readonly rows: number;
  readonly written: number;
  readonly dropped: number;
}

/** A sheet by itself does nothing for a turn; the board is one that also speaks. */
export abstract class Sheet {
  readonly now: Millis;
  protected readonly bonds = new Bonds();
  /** Everything written, in order of first writing. */
  protected readonly written: Seen<Row>[] = [];
  protected readonly dropped: Dropped[] = [];
  readonly #tx: Looks;
  /** Rows as this turn sees them. Runs and tasks are found by id, the few others by key. */
  readonly #runs = new Map<RunId, Seen<RunRow>>();
  readonly #tasks = new Map<TaskId, Seen<TaskRow>>();
  readonly #others = new Map<Key, Seen<Row>>();
  readonly #undo: { seen: Seen<Row>; before: Row | null; wasWritten: boolean }[] = [];

  constructor(tx: Looks) {
    this.#tx = tx;
    this.now = tx.now;
  }

  run(id: RunId): RunRow | null {
    let seen = this.#runs.get(id);
    if (seen === undefined) {
      seen = { row: this.#load("run", id) as RunRow | null, root: id, isWritten: false, isBorn: false };
      this.#runs.set(id, seen);
    }
    return this.#look(seen);
  }

  task(id: TaskId): TaskRow | null {
    let seen = this.#tasks.get(id);
    if (seen === undefined) {
      seen = { row: this.#load("task", id) as TaskRow | null, root: runOf(id), isWritten: false, isBorn: false };
      this.#tasks.set(id, seen);
    }
    return this.#look(seen);
  }

  worker(id: WorkerId): WorkerRow | null {
    return this.#other(workerKey(id)) as WorkerRow | null;
  }
  key(id: string): KeyRow | null {
    return this.#other(`key/${id}`) as KeyRow | null;
  }
  route(id: string): RouteRow | null {
    return this.#other(`route/${id}`) as RouteRow | null;
  }
  workflow(id: string): WorkflowRow | null {
    return this.#other(`workflow/${id}`) as WorkflowRow | null;
  }
  doc(id: string): DocRow | null {
    return this.#other(`doc/${id}`) as DocRow | null;
  }
  ask(id: string): AskRow | null {
    return this.#other(`ask/${id}`) as AskRow | null;
  }

  #other(key: Key): Row | null {
    let seen = this.#others.get(key);
    if (seen === undefined) {
      seen = { row: this.#load(...splitKey(key)), root: rootIn(key), isWritten: false, isBorn: false };
      this.#others.set(key, seen);
    }
    return this.#look(seen);
  }

  #load(kind: Row["kind"], id: string): Row | null {
    const row = this.#tx.row(kind, id);
    if (row === undefined) throw new RowsMissing([`${kind}/${id}`], []);
    if (row === "busy") throw new RootBusy(rootOf(`${kind}/${id}`));
    return row;
  }

  /** What this command sees was perhaps made in this turn: if that unit is refused, this one must not go alone. */
  #look<R extends Row>(seen: Seen<R>): R | null {
    if (seen.isWritten) this.bonds.touch(seen.root);
    return seen.row;
  }

  /**
   * Tasks of a run that have not ended, as they stand on this board: the store's, with this turn's changes laid over. `last` is how far
   * the store was read, null when to its end: what this turn has ended makes the list shorter and says nothing about the rest.
   */
  openTasks(run: RunId, after: TaskId | "", limit: number): { tasks: TaskRow[]; last: TaskId | null } {
    return this.#openAmong({ of: "open", run, after, limit });
  }

  /** The same of a stretch of ids, `after` < id <= `end`: its cost is that of the stretch, whatever else the run has. */
  openTasksIn(run: RunId, after: TaskId, end: TaskId, limit: number): { tasks: TaskRow[]; last: TaskId | null } {
    return this.#openAmong({ of: "range", run, after, last: end, limit });
  }

  #openAmong(list: Extract<TaskList, { of: "open" | "range" }>): { tasks: TaskRow[]; last: TaskId | null } {
    const { run, after, limit } = list;
    const loaded = this.#list(list);
    const last = loaded.length < limit ? null : (loaded.at(-1)?.id ?? null);
    const end = last ?? (list.of === "range" ? list.last : null);
    const found = new Map<TaskId, TaskRow>();
    for (const task of loaded) found.set(task.id, task);
    for (const { row } of this.written)
      if (row?.kind === "task" && row.run === run && row.id > after && (end === null || row.id <= end)) found.set(row.id, row);
    const tasks = [...found.values()].filter((task) => !isEnded(task));
    return { tasks: tasks.sort((a, b) => (a.id < b.id ? -1 : 1)), last };
  }

  /** Ids of tasks leased to a worker. A look without locks: whoever changes one reads it first. */
  heldBy(worker: WorkerId, limit: number): TaskId[] {
    return this.#list({ of: "held", worker, limit }).map((task) => task.id);
  }

  /** Ids of tasks at the heads of these lines, at most so many. A look without locks, like `heldBy`. */
  waitingIn(lines: readonly Line[], limit: number): TaskId[] {
    const lists = lines.map((line): TaskList => ({ of: "line", line, limit }));
    const missing = lists.filter((list) => this.#tx.tasks(list) === undefined);
    if (missing.length > 0) throw new RowsMissing([], missing);
    return lists.flatMap((list) => this.#list(list).map((task) => task.id)).slice(0, limit);
  }

  /** The task at the head of a line; null when nobody waits there. */
  headOf(line: Line, except: ReadonlySet<TaskId>): TaskRow | null {
    const limit = 64;
    const loaded = this.#list({ of: "line", line, limit });
    for (const seen of loaded) {
      const task = except.has(seen.id) ? null : this.task(seen.id);
      if (task !== null && task.line === line) return task;
    }
    // All that were looked at have left in this turn; there may be more behind them.
    if (loaded.length === limit) throw new RootBusy(`key/${line.slice(2)}`);
    for (const { row } of this.written) if (row?.kind === "task" && row.line === line && !except.has(row.id)) return row;
    return null;
  }

  /** Where a worker's mail goes; null when there is no such worker. */
  address(worker: WorkerId): WorkerRow | null {
    const row = this.#tx.address(worker);
    if (row === undefined) throw new RowsMissing([], [], [worker]);
    return row;
  }

  needAddresses(workers: Iterable<WorkerId>): void {
    const missing = [...workers].filter((worker) => this.#tx.address(worker) === undefined);
    if (missing.length > 0) throw new RowsMissing([], [], missing);
  }

  /** Asks for many rows at once, so that a store that is far away is asked once and not once a row. */
  need(keys: readonly Key[]): void {
    const missing = keys.filter((key) => this.#tx.row(...splitKey(key)) === undefined);
    if (missing.length > 0) throw new RowsMissing(missing, []);
  }

  #list(list: TaskList): readonly TaskRow[] {
    const loaded = this.#tx.tasks(list);
    if (loaded === undefined) throw new RowsMissing([], [list]);
    return loaded;
  }

  /** The last image of a row; written once at the end of the turn, however often it changes. */
  put(row: Row): void {
    this.#write(row, false);
  }

  /** A row that did not exist before this turn, as the caller knows without looking. */
  bear(row: Row): void {
    this.#write(row, true);
  }

  #write(row: Row, isBorn: boolean): void {
    const seen = this.#seenOf(row);
    this.#undo.push({ seen, before: seen.row, wasWritten: seen.isWritten });
    if (!seen.isWritten) this.written.push(seen);
    seen.row = row;
    seen.isWritten = true;
    if (isBorn) seen.isBorn = true;
    this.bonds.touch(seen.root);
  }

  #seenOf(row: Row): Seen<Row> {
    const rows = (row.kind === "task" ? this.#tasks : row.kind === "run" ? this.#runs : this.#others) as Map<string, Seen<Row>>;
    const name = row.kind === "task" || row.kind === "run" ? row.id : keyOf(row);
    let seen = rows.get(name);
    if (seen === undefined) {
      const root = row.kind === "task" ? row.run : row.kind === "run" ? row.id : rootIn(name as Key);
      seen = { row: null, root, isWritten: false, isBorn: false };
      rows.set(name, seen);
    }
    return seen;
  }

  /** A row that is no more; one that never was is no fault. */
  drop(key: Key): void {
    const row = this.#other(key);
    const seen = this.#others.get(key);
    if (row === null || seen === undefined) return;
    this.#undo.push({ seen, before: row, wasWritten: seen.isWritten });
    if (!seen.isWritten) this.written.push(seen);
    // Whoever looks later in this turn finds nothing, and may write it anew.
    seen.row = null;
    seen.isWritten = true;
    this.dropped.push({ root: seen.root, key });
    this.bonds.touch(seen.root);
  }

  /** Earliest deadline this turn writes. */
  earliestDue(): Millis | null {
    let least: Millis | null = null;
    for (const { row } of this.written)
      if (row !== null && "due" in row && row.due !== null && (least === null || row.due < least)) least = row.due;
    return least;
  }

  /** What was dropped and not written again, each once. */
  protected gone(): Dropped[] {
    const gone = new Map<Key, Dropped>();
    for (const one of this.dropped) if (this.#others.get(one.key)?.row === null) gone.set(one.key, one);
    return [...gone.values()];
  }

  protected rowsChanged(): number {
    return this.#undo.length;
  }

  /** Rows as they were at the mark. */
  protected undoRows(mark: RowMark): void {
    while (this.#undo.length > mark.rows) {
      const { seen, before, wasWritten } = this.#undo.pop() as { seen: Seen<Row>; before: Row | null; wasWritten: boolean };
      seen.row = before;
      seen.isWritten = wasWritten;
      if (!wasWritten) this.#forget(seen);
    }
    this.written.length = mark.written;
    this.dropped.length = mark.dropped;
  }

  /** A row written without having been read is unknown again, not absent. */
  #forget(seen: Seen<Row>): void {
    if (!seen.isBorn && seen.row !== null) return;
    for (const rows of [this.#tasks, this.#runs, this.#others] as Map<string, Seen<Row>>[])
      for (const [name, one] of rows) if (one === seen) rows.delete(name);
  }
}

/** The root of a row that is neither run nor task, spelled as the board spells roots. */
function rootIn(key: Key): Root {
  const root = key.startsWith("doc/") ? rootOf(key) : key;
  return root.startsWith("run/") ? root.slice(4) : root;
}

/** One row on the board: its present image, and whether this turn writes it. */
interface Seen<R extends Row> {
  row: R | null;
  readonly root: Root;
  isWritten: boolean;
  isBorn: boolean;
}
