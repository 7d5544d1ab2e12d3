// One turn on sqlite. The store is alone, so every root is free and every read goes through; the write transaction opens only at the
// commit, because nobody else writes between the two.

import type {
  ChangeSet,
  CommitOutcome,
  Mail,
  Millis,
  QueueName,
  Row,
  RowKey,
  TaskListQuery,
  TaskRow,
  TurnRequest,
  TurnTransaction,
  WorkerId,
  WorkerRow,
} from "@astraflow/engine";
import { keyOf, rootOf, runKey, runOf, splitKey } from "@astraflow/engine";
import type { Kind } from "./columns.ts";
import type { Desk } from "./desk.ts";

/** What the turn hands to the store when it is over. */
export interface TurnEnd {
  commit(turn: SqliteTurn, number: number, units: readonly ChangeSet[]): CommitOutcome;
  abort(turn: SqliteTurn): void;
}

const dot = ".".charCodeAt(0);

export class SqliteTurn implements TurnTransaction {
  readonly now: Millis;
  readonly nextDue: Millis | null;
  readonly claimed: ReadonlyMap<QueueName, readonly TaskRow[]>;
  readonly due: readonly Row[];
  readonly mail: readonly Mail[];
  readonly mailSeqs: readonly number[];
  readonly #desk: Desk;
  readonly #end: TurnEnd;
  readonly #taken = new Set<RowKey>();
  /** Rows the turn named beforehand. Most are in the cache; the first that is not brings in all of them with one statement a kind. */
  #wanted: readonly RowKey[] | null;
  /** The run whose rows were read last: its tasks need no look at what is taken. */
  #lastRun = "/";
  readonly #asked: readonly RowKey[];
  #named: Set<RowKey> | null = null;
  /** Rows and gaps the cache may not hold on to until the turn is over. */
  readonly #found = new Map<RowKey, Row | null>();
  #isOver = false;

  constructor(desk: Desk, end: TurnEnd, me: { replica: string; epoch: number }, now: Millis, want: TurnRequest) {
    this.#desk = desk;
    this.#end = end;
    this.now = now;
    const skip = new Set(want.skip);
    this.#wanted = want.rows;
    this.#asked = want.rows;
    this.claimed = this.#claim(want, skip);
    this.due = desk.due(now, want.due, ({ kind, id }) => skip.size === 0 || !skip.has(rootOf(`${kind}/${id}`)));
    for (const row of this.due) this.#taken.add(rootOf(keyOf(row)));
    this.nextDue = desk.deadlines.next(now);
    for (const list of want.lists) if ("run" in list) this.#taken.add(runKey(list.run));
    const mail = desk.mail(me.replica, me.epoch, want.mail);
    this.mail = mail.map((one) => one.mail);
    this.mailSeqs = mail.map((one) => one.seq);
  }

  row(kind: Kind, id: string): Row | null {
    this.#assertOpen();
    this.#take(kind, id);
    return this.#find(kind, id);
  }

  #take(kind: Kind, id: string): void {
    if (kind === "task") {
      if (id.startsWith(this.#lastRun) && id.charCodeAt(this.#lastRun.length) === dot) return;
      this.#lastRun = runOf(id);
      this.#taken.add(runKey(this.#lastRun));
      return;
    }
    if (kind === "run") this.#lastRun = id;
    this.#taken.add(kind === "doc" ? rootOf(`doc/${id}`) : `${kind}/${id}`);
  }

  tasks(list: TaskListQuery): readonly TaskRow[] {
    this.#assertOpen();
    if (list.of === "held") return this.#desk.heldBy(list.worker, list.limit);
    if (list.of === "line") return this.#desk.claim(list.line, list.limit, null);
    this.#taken.add(runKey(list.run));
    if (list.of === "range") return this.#desk.tasksBetween(list.run, list.after, list.last, list.limit);
    return this.#desk.openTasks(list.run, list.after, list.limit);
  }

  peekWorker(worker: WorkerId): WorkerRow | null {
    this.#assertOpen();
    return this.#find("worker", worker) as WorkerRow | null;
  }

  async loadMore(rows: readonly RowKey[], _lists: readonly TaskListQuery[]): Promise<void> {
    this.#assertOpen();
    for (const key of rows) this.#take(...splitKey(key));
    this.#load(rows);
  }

  async commit(turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    this.#assertOpen();
    this.#isOver = true;
    return this.#end.commit(this, turn, units);
  }

  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#end.abort(this);
  }

  hasTaken(root: RowKey): boolean {
    if (this.#taken.has(root)) return true;
    // A store that is alone gives whatever was asked for, read or not.
    return this.#named?.has(root) ?? (this.#named = new Set(this.#asked.map(rootOf))).has(root);
  }

  /** The image a row had before this turn. */
  before(kind: Kind, id: string): Row | null {
    return this.#find(kind, id);
  }

  #find(kind: Kind, id: string): Row | null {
    const cached = this.#desk.cache.get(kind, id);
    if (cached !== undefined) return cached;
    this.#loadWanted();
    const key: RowKey = `${kind}/${id}`;
    let found = this.#found.get(key);
    if (found === undefined) {
      found = this.#desk.find(kind, id);
      this.#found.set(key, found);
    }
    return found;
  }

  #loadWanted(): void {
    const wanted = this.#wanted;
    if (wanted === null) return;
    this.#wanted = null;
    this.#load(wanted);
  }

  #load(keys: readonly RowKey[]): void {
    const wanted = new Map<Kind, string[]>();
    for (const key of keys) {
      const slash = key.indexOf("/");
      const kind = key.slice(0, slash) as Kind;
      const ids = wanted.get(kind);
      if (ids === undefined) wanted.set(kind, [key.slice(slash + 1)]);
      else ids.push(key.slice(slash + 1));
    }
    for (const [kind, rows] of this.#desk.preload(wanted)) for (const [id, row] of rows) this.#found.set(`${kind}/${id}`, row);
  }

  #claim(want: TurnRequest, skip: ReadonlySet<RowKey>): Map<QueueName, TaskRow[]> {
    const claimed = new Map<QueueName, TaskRow[]>();
    for (const { line, limit } of want.claims) {
      const already = claimed.get(line) ?? [];
      const seen = new Set(already.map((task) => task.id));
      const fits = skip.size + seen.size === 0 ? null : (id: string) => !seen.has(id) && !skip.has(runKey(runOf(id)));
      const tasks = this.#desk.claim(line, limit, fits);
      for (const task of tasks) this.#taken.add(runKey(task.run));
      claimed.set(line, [...already, ...tasks]);
    }
    return claimed;
  }

  #assertOpen(): void {
    if (this.#isOver) throw new Error("this turn is over; begin another");
  }
}
