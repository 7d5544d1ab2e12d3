// One turn on PostgreSQL: one transaction on one lane. Here is what it has taken, what it was shown, and what it is asked for later;
// how it is written and what becomes of a commit that went wrong is store.ts's business.

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
import { keyOf, rootOf } from "@astraflow/engine";
import { taskListKey } from "../../common/task-list-key.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import type { PooledConnection } from "../connection/connection-pool.ts";
import type { LoadedRows } from "./commit-payload.ts";
import {
  claimedKeysOf,
  compareQueuedTasks,
  decodeAddresses,
  decodeMail,
  decodeTakenRows,
  decodeTaskLists,
  dueKeysOf,
  sortByDueTime,
  type TurnBeginReply,
} from "./turn-begin-reply.ts";
import { type BeginRequest, createBeginRequest } from "./turn-begin-request.ts";

/** What the turn hands to the store. */
export interface PostgresTurnHost {
  more(turn: PostgresTurn, request: BeginRequest): Promise<TurnBeginReply>;
  commit(turn: PostgresTurn, number: number, units: readonly ChangeSet[]): Promise<CommitOutcome>;
  abort(turn: PostgresTurn): Promise<void>;
}

export class PostgresTurn implements TurnTransaction, LoadedRows {
  readonly now: Millis;
  readonly nextDue: Millis | null;
  readonly claimed: ReadonlyMap<QueueName, readonly TaskRow[]>;
  readonly due: readonly Row[];
  readonly mail: readonly Mail[];
  readonly mailSeqs: readonly number[];
  readonly pooled: PooledConnection;
  readonly connection: PostgresConnection;
  readonly #host: PostgresTurnHost;
  readonly #taken = new Set<RowKey>();
  readonly #unlockedRoots = new Set<RowKey>();
  readonly #busy = new Set<RowKey>();
  readonly #loaded = new Map<RowKey, Row | null | "busy">();
  readonly #lists = new Map<string, readonly TaskRow[]>();
  readonly #addresses = new Map<WorkerId, WorkerRow | null>();
  #isOver = false;

  constructor(
    end: PostgresTurnHost,
    pooled: PooledConnection,
    connection: PostgresConnection,
    me: { replica: string; epoch: number },
    asked: BeginExchange,
  ) {
    this.#host = end;
    this.pooled = pooled;
    this.connection = connection;
    const { want, request, reply } = asked;
    if (reply.now === null) throw new Error("a turn began without an instant");
    this.now = reply.now;
    this.nextDue = reply.next;
    const mail = decodeMail(reply, me.replica, me.epoch);
    this.mail = mail.map((one) => one.mail);
    this.mailSeqs = mail.map((one) => one.seq);
    this.#applyReply(want.rows, request, reply);
    this.claimed = this.#groupClaimedTasks(want, reply);
    this.due = sortByDueTime(this.#loadedRows(dueKeysOf(reply)), this.now, want.due);
  }

  row(kind: Row["kind"], id: string): Row | null | "busy" | undefined {
    this.#assertOpen();
    return this.#loaded.get(`${kind}/${id}`);
  }

  tasks(list: TaskListQuery): readonly TaskRow[] | undefined {
    this.#assertOpen();
    return this.#lists.get(taskListKey(list));
  }

  peekWorker(worker: WorkerId): WorkerRow | null | undefined {
    this.#assertOpen();
    return this.#addresses.get(worker);
  }

  async loadMore(rows: readonly RowKey[], lists: readonly TaskListQuery[], addresses: readonly WorkerId[] = []): Promise<void> {
    this.#assertOpen();
    const newRows = rows.filter((key) => !this.#loaded.has(key));
    const newLists = lists.filter((list) => !this.#lists.has(taskListKey(list)));
    // A root that was found busy stays busy for this turn: its rows and lists are answered without asking.
    const isBusy = (root: RowKey) => this.#busy.has(root);
    const load = {
      rows: newRows.filter((key) => !isBusy(rootOf(key))),
      lists: newLists.filter((list) => !("run" in list) || !isBusy(`run/${list.run}`)),
      addresses: addresses.filter((worker) => !this.#addresses.has(worker)),
    };
    for (const list of newLists) if (!load.lists.includes(list)) this.#lists.set(taskListKey(list), []);
    if (load.rows.length + load.lists.length + load.addresses.length === 0) return this.#recordAnswers(newRows);
    const request = createBeginRequest(load, null, (root) => this.#taken.has(root));
    const reply = await this.#host.more(this, request);
    this.#applyReply(newRows, request, reply);
    for (const worker of load.addresses) this.#addresses.set(worker, null);
    for (const row of decodeAddresses(reply)) this.#addresses.set(row.id, row);
  }

  async commit(turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    this.#assertOpen();
    this.#isOver = true;
    return this.#host.commit(this, turn, units);
  }

  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.#host.abort(this);
  }

  hasTaken(root: RowKey): boolean {
    return this.#taken.has(root);
  }

  loadedRow(key: RowKey): Row | null | undefined {
    const known = this.#loaded.get(key);
    return known === "busy" ? undefined : known;
  }

  get hasUnlockedRoots(): boolean {
    return this.#unlockedRoots.size > 0;
  }

  isUnlockedRoot(root: RowKey): boolean {
    return this.#unlockedRoots.has(root);
  }

  #applyReply(rows: readonly RowKey[], request: BeginRequest, reply: TurnBeginReply): void {
    for (const root of reply.busy) this.#busy.add(root);
    for (const root of reply.loose) this.#unlockedRoots.add(root);
    for (const root of request.roots) {
      if (this.#busy.has(root)) this.#loaded.set(root, "busy");
      else {
        this.#taken.add(root);
        this.#loaded.set(root, null);
      }
    }
    for (const row of decodeTakenRows(reply)) {
      const key = keyOf(row);
      this.#loaded.set(key, row);
      this.#taken.add(rootOf(key));
    }
    this.#recordAnswers(rows);
    for (const [list, tasks] of decodeTaskLists(reply, request)) this.#lists.set(taskListKey(list), tasks);
  }

  /** Every row that was asked for has an answer now: busy, or absent when it did not come. */
  #recordAnswers(rows: readonly RowKey[]): void {
    for (const key of rows) if (!this.#loaded.has(key)) this.#loaded.set(key, this.#busy.has(rootOf(key)) ? "busy" : null);
  }

  #groupClaimedTasks(want: TurnRequest, reply: TurnBeginReply): Map<QueueName, TaskRow[]> {
    const claimed = new Map<QueueName, TaskRow[]>(want.claims.map(({ line }) => [line, []]));
    const tasks = this.#loadedRows(claimedKeysOf(reply)) as TaskRow[];
    for (const task of tasks.sort(compareQueuedTasks)) if (task.line !== null) claimed.get(task.line)?.push(task);
    return claimed;
  }

  #loadedRows(keys: readonly RowKey[]): Row[] {
    return keys.flatMap((key) => {
      const row = this.#loaded.get(key);
      return row === undefined || row === null || row === "busy" ? [] : [row];
    });
  }

  #assertOpen(): void {
    if (this.#isOver) throw new Error("this turn is over; begin another");
  }
}

/** What a turn asked for when it began, and what it was told. */
export interface BeginExchange {
  readonly want: TurnRequest;
  readonly request: BeginRequest;
  readonly reply: TurnBeginReply;
}
