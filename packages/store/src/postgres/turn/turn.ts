// One turn on PostgreSQL, a transaction on one connection: what it has locked and was shown. store.ts commits it.

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
} from "@astraflow/engine";
import { keyOf, rootOf, runKey } from "@astraflow/engine";
import { compareQueuedTasks } from "../../common/row-order.ts";
import { LoadedTurn, taskListKey } from "../../common/turn.ts";
import type { PostgresConnection } from "../connection/connection.ts";
import type { PooledConnection } from "../connection/connection-pool.ts";
import { decodeRow, listOf, type ResultCells } from "../sql/columns.ts";
import {
  type BeginRequest,
  claimedKeysOf,
  createBeginRequest,
  decodeMail,
  decodeTaskLists,
  dueKeysOf,
  rowFields,
  sortByDueTime,
  type TurnBeginReply,
} from "./turn-begin.ts";

/** Who speaks to the server, and under which epoch. */
export interface ReplicaEpoch {
  readonly replica: string;
  readonly epoch: number;
}

/** What the turn hands to the store. */
export interface PostgresTurnHost {
  more(turn: PostgresTurn, request: BeginRequest): Promise<TurnBeginReply>;
  write(turn: PostgresTurn, number: number, units: readonly ChangeSet[]): Promise<CommitOutcome>;
  rollBack(turn: PostgresTurn): Promise<void>;
}

/** Where a turn runs, what it asked for when it began, and what it was told. */
interface BegunTurn {
  readonly host: PostgresTurnHost;
  readonly pooled: PooledConnection;
  readonly connection: PostgresConnection;
  readonly replica: ReplicaEpoch;
  readonly want: TurnRequest;
  readonly request: BeginRequest;
  readonly reply: TurnBeginReply;
}

export class PostgresTurn extends LoadedTurn implements TurnTransaction {
  readonly now: Millis;
  readonly nextDue: Millis | null;
  readonly claimed: ReadonlyMap<QueueName, readonly TaskRow[]>;
  readonly due: readonly Row[];
  readonly mail: readonly Mail[];
  readonly mailSeqs: readonly number[];
  readonly pooled: PooledConnection;
  readonly connection: PostgresConnection;
  readonly #host: PostgresTurnHost;
  readonly taken = new Set<RowKey>();
  /** Roots that did not exist and could not be locked: somebody else may make them at this moment. */
  readonly unlockedRoots = new Set<RowKey>();
  readonly #busy = new Set<RowKey>();

  constructor({ host, pooled, connection, replica, want, request, reply }: BegunTurn) {
    super();
    this.#host = host;
    this.pooled = pooled;
    this.connection = connection;
    if (reply.now === null) throw new Error("a turn began without an instant");
    this.now = reply.now;
    this.nextDue = reply.next;
    const mail = decodeMail(reply, replica.replica, replica.epoch);
    this.mail = mail.map((one) => one.mail);
    this.mailSeqs = mail.map((one) => one.seq);
    this.#applyReply(want.rows, request, reply);
    this.claimed = this.#groupClaimedTasks(want, reply);
    this.due = sortByDueTime(this.#rowsOf(dueKeysOf(reply)), this.now, want.due);
  }

  async loadMore(rows: readonly RowKey[], lists: readonly TaskListQuery[], addresses: readonly WorkerId[] = []): Promise<void> {
    this.assertOpen();
    const newRows = rows.filter((key) => !this.rows.has(key));
    const newLists = lists.filter((list) => !this.lists.has(taskListKey(list)));
    // A root that was found busy stays busy for this turn: its rows and lists are answered without asking.
    const isBusy = (root: RowKey) => this.#busy.has(root);
    const load = {
      rows: newRows.filter((key) => !isBusy(rootOf(key))),
      lists: newLists.filter((list) => !("run" in list) || !isBusy(runKey(list.run))),
      addresses: addresses.filter((worker) => !this.addresses.has(worker)),
    };
    for (const list of newLists) if (!load.lists.includes(list)) this.lists.set(taskListKey(list), []);
    if (load.rows.length + load.lists.length + load.addresses.length === 0) return this.#recordAnswers(newRows);
    const request = createBeginRequest(load, {}, (root) => this.taken.has(root));
    const reply = await this.#host.more(this, request);
    this.#applyReply(newRows, request, reply);
    for (const worker of load.addresses) this.addresses.set(worker, null);
    for (const cells of listOf<ResultCells>(reply.address)) {
      const worker = decodeRow("worker", cells);
      this.addresses.set(worker.id, worker);
    }
  }

  protected write(turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    return this.#host.write(this, turn, units);
  }

  protected rollBack(): Promise<void> {
    return this.#host.rollBack(this);
  }

  /** The image before this turn; undefined when it was not loaded. */
  loadedRow(key: RowKey): Row | null | undefined {
    const known = this.rows.get(key);
    return known === "busy" ? undefined : known;
  }

  #applyReply(rows: readonly RowKey[], request: BeginRequest, reply: TurnBeginReply): void {
    for (const root of reply.busy) this.#busy.add(root);
    for (const root of reply.loose) this.unlockedRoots.add(root);
    for (const root of request.roots) {
      if (this.#busy.has(root)) this.rows.set(root, "busy");
      else {
        this.taken.add(root);
        this.rows.set(root, null);
      }
    }
    for (const [field, kind] of rowFields)
      for (const cells of listOf<ResultCells>(reply[field])) this.#takeRow(decodeRow(kind, cells));
    for (const [list, tasks] of decodeTaskLists(reply, request)) {
      this.lists.set(taskListKey(list), tasks);
      if ("run" in list) for (const task of tasks) this.#takeRow(task);
    }
    this.#recordAnswers(rows);
  }

  #takeRow(row: Row): void {
    const key = keyOf(row);
    this.rows.set(key, row);
    this.taken.add(rootOf(key));
  }

  /** Every row that was asked for has an answer now: busy, or absent when it did not come. */
  #recordAnswers(rows: readonly RowKey[]): void {
    for (const key of rows) if (!this.rows.has(key)) this.rows.set(key, this.#busy.has(rootOf(key)) ? "busy" : null);
  }

  #groupClaimedTasks(want: TurnRequest, reply: TurnBeginReply): Map<QueueName, TaskRow[]> {
    const claimed = new Map<QueueName, TaskRow[]>(want.claims.map(({ line }) => [line, []]));
    const tasks = this.#rowsOf(claimedKeysOf(reply)) as TaskRow[];
    for (const task of tasks.sort(compareQueuedTasks)) if (task.line !== null) claimed.get(task.line)?.push(task);
    return claimed;
  }

  #rowsOf(keys: readonly RowKey[]): Row[] {
    return keys.flatMap((key) => this.loadedRow(key) ?? []);
  }
}
