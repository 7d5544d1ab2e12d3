// One turn on sqlite. Nobody else writes: every root is free, every read goes through, and the transaction opens only at the commit.

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
import type { RowKind } from "../../common/row-shape.ts";
import { OpenTurn } from "../../common/turn.ts";
import { hasLargeValues } from "../rows/task-values.ts";
import type { SqliteRepository } from "./repository.ts";

/** What the turn hands to the store when it is over. */
export interface SqliteTurnHost {
  write(turn: SqliteTurn, number: number, units: readonly ChangeSet[]): CommitOutcome;
  rollBack(): void;
}

const dot = ".".charCodeAt(0);

export class SqliteTurn extends OpenTurn implements TurnTransaction {
  readonly replica: string;
  readonly epoch: number;
  readonly now: Millis;
  readonly nextDue: Millis | null;
  readonly claimed: ReadonlyMap<QueueName, readonly TaskRow[]>;
  readonly due: readonly Row[];
  readonly mail: readonly Mail[];
  readonly mailSeqs: readonly number[];
  readonly #repository: SqliteRepository;
  readonly #host: SqliteTurnHost;
  readonly #taken = new Set<RowKey>();
  /** Rows the turn named beforehand. Most are in the cache; the first that is not brings in all of them with one statement a kind. */
  #rowsToPreload: readonly RowKey[] | null;
  /** The run whose rows were read last: its tasks need no look at what is taken. */
  #lastRun = "/";
  readonly #requestedRows: readonly RowKey[];
  #requestedRoots: Set<RowKey> | null = null;
  /** Rows and gaps the cache may not hold on to until the turn is over. */
  readonly #found = new Map<RowKey, Row | null>();

  constructor(
    host: SqliteTurnHost,
    me: { repository: SqliteRepository; replica: string; epoch: number },
    now: Millis,
    want: TurnRequest,
  ) {
    super();
    const { repository, replica, epoch } = me;
    this.#repository = repository;
    this.#host = host;
    this.replica = replica;
    this.epoch = epoch;
    this.now = now;
    const skip = new Set(want.skip);
    this.#rowsToPreload = want.rows;
    this.#requestedRows = want.rows;
    this.claimed = this.#claim(want, skip);
    this.due = repository.findDueRows(now, want.due, ({ key }) => skip.size === 0 || !skip.has(rootOf(key)));
    for (const row of this.due) this.#taken.add(rootOf(keyOf(row)));
    this.nextDue = repository.deadlines.next(now);
    for (const list of want.lists) if ("run" in list) this.#taken.add(runKey(list.run));
    const mail = repository.findMail(replica, epoch, want.mail);
    this.mail = mail.map((one) => one.mail);
    this.mailSeqs = mail.map((one) => one.seq);
  }

  row(kind: RowKind, id: string): Row | null {
    this.assertOpen();
    this.#take(kind, id);
    return this.rowBeforeTurn(kind, id);
  }

  #take(kind: RowKind, id: string): void {
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
    this.assertOpen();
    if (list.of === "held") return this.#repository.heldBy(list.worker, list.limit);
    if (list.of === "line") return this.#repository.queueHead(list.line, list.limit, null);
    this.#taken.add(runKey(list.run));
    if (list.of === "range") return this.#repository.tasksBetween(list.run, list.after, list.last, list.limit);
    return this.#repository.openTasks(list.run, list.after, list.limit);
  }

  peekWorker(worker: WorkerId): WorkerRow | null {
    this.assertOpen();
    return this.rowBeforeTurn("worker", worker) as WorkerRow | null;
  }

  async loadMore(rows: readonly RowKey[], _lists: readonly TaskListQuery[]): Promise<void> {
    this.assertOpen();
    for (const key of rows) this.#take(...splitKey(key));
    this.#load(rows);
  }

  protected write(turn: number, units: readonly ChangeSet[]): CommitOutcome {
    return this.#host.write(this, turn, units);
  }

  protected rollBack(): void {
    this.#host.rollBack();
  }

  hasTaken(root: RowKey): boolean {
    if (this.#taken.has(root)) return true;
    // A store that is alone gives whatever was asked for, read or not.
    return this.#requestedRoots?.has(root) ?? (this.#requestedRoots = new Set(this.#requestedRows.map(rootOf))).has(root);
  }

  /** The image a row had before this turn. */
  rowBeforeTurn(kind: RowKind, id: string): Row | null {
    const cached = this.#repository.cache.get(kind, id);
    // A row with large values is another object each time it is presented: the turn keeps the one whose values it has read.
    if (cached !== undefined && (cached.kind !== "task" || !hasLargeValues(cached))) return cached;
    const wanted = this.#rowsToPreload;
    this.#rowsToPreload = null;
    if (wanted !== null) this.#load(wanted);
    const key: RowKey = `${kind}/${id}`;
    let found = this.#found.get(key);
    if (found === undefined) {
      found = this.#repository.find(kind, id);
      this.#found.set(key, found);
    }
    return found;
  }

  #load(keys: readonly RowKey[]): void {
    const wanted = new Map<RowKind, string[]>();
    for (const key of keys) {
      const slash = key.indexOf("/");
      const kind = key.slice(0, slash) as RowKind;
      const ids = wanted.get(kind);
      if (ids === undefined) wanted.set(kind, [key.slice(slash + 1)]);
      else ids.push(key.slice(slash + 1));
    }
    for (const [kind, rows] of this.#repository.preload(wanted))
      for (const [id, row] of rows) this.#found.set(`${kind}/${id}`, row);
  }

  #claim(want: TurnRequest, skip: ReadonlySet<RowKey>): Map<QueueName, TaskRow[]> {
    const claimed = new Map<QueueName, TaskRow[]>();
    for (const { line, limit } of want.claims) {
      const already = claimed.get(line) ?? [];
      const seen = new Set(already.map((task) => task.id));
      const matches = skip.size + seen.size === 0 ? null : (id: string) => !seen.has(id) && !skip.has(runKey(runOf(id)));
      const tasks = this.#repository.queueHead(line, limit, matches);
      for (const task of tasks) this.#taken.add(runKey(task.run));
      claimed.set(line, [...already, ...tasks]);
    }
    return claimed;
  }
}
