// The working copy of one turn: rows as loaded, the images that will be written, the facts and effects that will follow.
// A command that fails is undone to its mark, so one poisoned unit never takes its neighbours along. Nothing here talks to the store
// except by reading rows that the turn holds.

import type { Effect } from "../../effect.ts";
import type { TaskList, Tx, Unit } from "../../port.ts";
import {
  type AskRow,
  type ChunkRow,
  type DocRow,
  type Fact,
  type Key,
  type KeyRow,
  keyOf,
  type Line,
  type Mail,
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
  type Tenant,
  type WorkerId,
  type WorkerRow,
  type WorkflowRow,
  workerKey,
} from "../../rows.ts";
import type { Problem } from "../../world.ts";
import type { FloorMove } from "../crew/floor.ts";
import { Latencies } from "../crew/latencies.ts";
import { newsOf } from "../crew/news.ts";
import { isEnded } from "../rows/task.ts";
import { type Root, RootBusy, RowsMissing, spellRoot } from "./root.ts";
import { type Dropped, type Posted, type Printed, type Relied, type Told, unitsOf } from "./units.ts";

/** What the board asks of the turn's transaction. */
type Looks = Pick<Tx, "row" | "tasks" | "address" | "now">;

export interface Mark {
  readonly rows: number;
  readonly written: number;
  readonly facts: number;
  readonly effects: number;
  readonly moves: number;
  readonly fresh: number;
  readonly mail: number;
  readonly relied: number;
  readonly dropped: number;
  readonly chunks: number;
  readonly problems: number;
}

export class Board {
  readonly now: Millis;
  readonly effects: Effect[] = [];
  readonly moves: FloorMove[] = [];
  readonly problems: Problem[] = [];
  /** Tasks that became ready in this turn; the placer may grant them before they ever enter the store's line. */
  readonly fresh: TaskId[] = [];
  /** Slots freed (+) and used (-) in this turn, by worker. */
  readonly slots = new Map<WorkerId, number>();
  /** Workers whose seat this turn changes: the floor does not show it yet, so they get nothing before the next turn. */
  readonly changed = new Set<WorkerId>();
  /** Workers whose row was found to agree with their seat; all commands are decided by then, so it stays true for the turn. */
  readonly seated = new Set<WorkerId>();

  /** Attempts that began to wait for what they called in this turn, or went on: the floor does not show it yet. */
  readonly waits = new Map<TaskId, boolean>();

  /** Nodes reached in this turn. A command undone later leaves its own behind; all it does is to end the turn's fan-outs sooner. */
  reached = 0;

  /** How long results took from their grants. */
  readonly latencies = new Latencies();
  readonly #tx: Looks;
  /** Rows as this turn sees them. Runs and tasks are found by id, the few others by key. */
  readonly #runs = new Map<RunId, Seen<RunRow>>();
  readonly #tasks = new Map<TaskId, Seen<TaskRow>>();
  readonly #others = new Map<Key, Seen<Row>>();
  /** Everything written, in order of first writing. */
  readonly #written: Seen<Row>[] = [];
  readonly #undo: { seen: Seen<Row>; before: Row | null; wasWritten: boolean }[] = [];
  readonly #facts: Told[] = [];
  readonly #mail: Posted[] = [];
  readonly #relied: Relied[] = [];
  readonly #dropped: Dropped[] = [];
  readonly #chunks: Printed[] = [];
  /** Roots that must commit or fail together, each pointing to another of its group. */
  readonly #links = new Map<Root, Root>();
  #touched: Root | null = null;

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
    if (seen.isWritten) this.#touch(seen.root);
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
    for (const { row } of this.#written)
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
    for (const { row } of this.#written) if (row?.kind === "task" && row.line === line && !except.has(row.id)) return row;
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
    if (!seen.isWritten) this.#written.push(seen);
    seen.row = row;
    seen.isWritten = true;
    if (isBorn) seen.isBorn = true;
    this.#touch(seen.root);
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
    if (!seen.isWritten) this.#written.push(seen);
    // Whoever looks later in this turn finds nothing, and may write it anew.
    seen.row = null;
    seen.isWritten = true;
    this.#dropped.push({ root: seen.root, key });
    this.#touch(seen.root);
  }

  /** What a task printed, written with the unit of its run. */
  print(chunks: ChunkRow): void {
    this.#chunks.push({ root: runOf(chunks.task), chunks });
    this.#touch(runOf(chunks.task));
  }

  /** A fact about a run. */
  tell(run: RunRow, type: string, data: Fact["data"]): void {
    this.#facts.push({ tenant: run.tenant, subject: run.id, type, data });
    this.#touch(run.id);
  }

  /** A fact about anything else. */
  say(tenant: Tenant, subject: Key, type: string, data: Fact["data"]): void {
    this.#facts.push({ tenant, subject, type, data });
    this.#touch(subject);
    const news = newsOf(tenant, subject, type, data);
    if (news !== null) this.effect(news);
  }

  effect(effect: Effect): void {
    this.effects.push(effect);
  }

  /** A word for a socket that another scheduler holds. It is written with the unit of `root`, so it is sent if and only if that happened. */
  post(root: Root, mail: Mail): void {
    this.#mail.push({ root, mail });
    this.#touch(root);
  }

  /** The unit of `root` grants to this worker and is void if the worker is not what the floor says. */
  rely(root: Root, worker: WorkerId, epoch: number): void {
    this.#relied.push({ root, worker, epoch });
  }

  count(name: string, labels: Readonly<Record<string, string>>): void {
    this.effects.push({ type: "count", name, labels, values: [1] });
  }

  observe(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    this.effects.push({ type: "count", name, labels, values: [value] });
  }

  /** Something an operator should know though no caller hears of it; reported once the turn is on disk. */
  problem(problem: Problem): void {
    this.problems.push(problem);
  }

  move(move: FloorMove): void {
    this.moves.push(move);
    if (move.move === "hold") this.#count(move.worker, -1);
    if (move.move === "drop" && move.wasWaiting !== true) this.#count(move.worker, 1);
    if (move.move === "wait") this.#count(move.worker, move.isWaiting ? 1 : -1);
    this.#noteWait(move);
    if (move.move === "sit") this.changed.add(move.seat.worker);
    if (move.move === "rise" || move.move === "describe" || move.move === "drain") this.changed.add(move.worker);
    if (move.move === "beat" && !move.healthy) this.changed.add(move.worker);
  }

  #noteWait(move: FloorMove): void {
    if (move.move === "wait") this.waits.set(move.task, move.isWaiting);
    else if (move.move === "drop" && move.wasWaiting === true) this.waits.delete(move.task);
  }

  #count(worker: WorkerId, by: number): void {
    this.slots.set(worker, (this.slots.get(worker) ?? 0) + by);
  }

  /** Roots that one command changes must commit or fail together: remember that they belong to one unit. */
  #touch(root: Root): void {
    if (this.#touched === null) this.#touched = root;
    else if (this.#touched !== root) this.#link(root, this.#touched);
  }

  #find(root: Root): Root {
    if (this.#links.size === 0) return root;
    let at = root;
    for (let up = this.#links.get(at); up !== undefined; up = this.#links.get(at)) at = up;
    return at;
  }

  #link(a: Root, b: Root): void {
    const [x, y] = [this.#find(a), this.#find(b)];
    if (x !== y) this.#links.set(x, y);
  }

  /** Start of a command. */
  mark(): Mark {
    this.#touched = null;
    return {
      rows: this.#undo.length,
      written: this.#written.length,
      facts: this.#facts.length,
      effects: this.effects.length,
      moves: this.moves.length,
      fresh: this.fresh.length,
      mail: this.#mail.length,
      relied: this.#relied.length,
      dropped: this.#dropped.length,
      chunks: this.#chunks.length,
      problems: this.problems.length,
    };
  }

  /** As if the command had never come. */
  undo(mark: Mark): void {
    while (this.#undo.length > mark.rows) {
      const { seen, before, wasWritten } = this.#undo.pop() as { seen: Seen<Row>; before: Row | null; wasWritten: boolean };
      seen.row = before;
      seen.isWritten = wasWritten;
      if (!wasWritten) this.#forget(seen);
    }
    const undone = this.moves.slice(mark.moves);
    for (const move of undone) {
      if (move.move === "hold") this.#count(move.worker, 1);
      if (move.move === "drop" && move.wasWaiting !== true) this.#count(move.worker, -1);
      if (move.move === "wait") this.#count(move.worker, move.isWaiting ? -1 : 1);
    }
    this.#written.length = mark.written;
    this.#facts.length = mark.facts;
    this.effects.length = mark.effects;
    this.moves.length = mark.moves;
    if (undone.some((move) => move.move === "wait" || (move.move === "drop" && move.wasWaiting === true))) {
      this.waits.clear();
      for (const move of this.moves) this.#noteWait(move);
    }
    this.fresh.length = mark.fresh;
    this.#mail.length = mark.mail;
    this.#relied.length = mark.relied;
    this.#dropped.length = mark.dropped;
    this.#chunks.length = mark.chunks;
    this.problems.length = mark.problems;
  }

  /** A row written without having been read is unknown again, not absent. */
  #forget(seen: Seen<Row>): void {
    if (!seen.isBorn && seen.row !== null) return;
    for (const rows of [this.#tasks, this.#runs, this.#others] as Map<string, Seen<Row>>[])
      for (const [name, one] of rows) if (one === seen) rows.delete(name);
  }

  /** The root whose unit the present command belongs to; null when it changed nothing. */
  get touched(): Root | null {
    return this.#touched;
  }

  /** Which unit of `units()` holds this root, for tracing a refused unit back to its commands. */
  unitOf(root: Root): Key {
    return spellRoot(this.#find(root));
  }

  /** How many facts this turn adds to each tenant's log. */
  factsByTenant(): Map<Tenant, number> {
    const counts = new Map<Tenant, number>();
    for (const { tenant } of this.#facts) counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
    return counts;
  }

  /** Earliest deadline this turn writes. */
  earliestDue(): Millis | null {
    let least: Millis | null = null;
    for (const { row } of this.#written)
      if (row !== null && "due" in row && row.due !== null && (least === null || row.due < least)) least = row.due;
    return least;
  }

  units(): { units: Unit[]; roots: Key[] } {
    return unitsOf(
      this.#written,
      { facts: this.#facts, mail: this.#mail, relied: this.#relied, dropped: this.#gone(), chunks: this.#chunks },
      (root) => this.#find(root),
      (run) => this.#tenantOf(run),
    );
  }

  /** What was dropped and not written again, each once. */
  #gone(): Dropped[] {
    const gone = new Map<Key, Dropped>();
    for (const one of this.#dropped) if (this.#others.get(one.key)?.row === null) gone.set(one.key, one);
    return [...gone.values()];
  }

  #tenantOf(run: RunId): Tenant {
    const row = this.run(run);
    if (row === null) throw new Error(`task of run ${run}, which does not exist`);
    return row.tenant;
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
