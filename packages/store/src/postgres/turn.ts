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
import { nameOf } from "../list-name.ts";
import {
  addressesOf,
  byStanding,
  claimedKeysOf,
  dueKeysOf,
  inOrderOfDue,
  listsOf,
  mailOf,
  type Reply,
  rowsOf,
} from "./answer.ts";
import type { Lane } from "./lanes.ts";
import type { Link } from "./link.ts";
import type { Knowledge } from "./payload.ts";
import { type Request, requestOf } from "./request.ts";

/** What the turn hands to the store. */
export interface TurnEnd {
  more(turn: PostgresTurn, request: Request): Promise<Reply>;
  commit(turn: PostgresTurn, number: number, units: readonly ChangeSet[]): Promise<CommitOutcome>;
  abort(turn: PostgresTurn): Promise<void>;
}

export class PostgresTurn implements TurnTransaction, Knowledge {
  readonly now: Millis;
  readonly nextDue: Millis | null;
  readonly claimed: ReadonlyMap<QueueName, readonly TaskRow[]>;
  readonly due: readonly Row[];
  readonly mail: readonly Mail[];
  readonly mailSeqs: readonly number[];
  readonly lane: Lane;
  readonly link: Link;
  readonly #end: TurnEnd;
  readonly #taken = new Set<RowKey>();
  readonly #loose = new Set<RowKey>();
  readonly #busy = new Set<RowKey>();
  readonly #loaded = new Map<RowKey, Row | null | "busy">();
  readonly #lists = new Map<string, readonly TaskRow[]>();
  readonly #addresses = new Map<WorkerId, WorkerRow | null>();
  #isOver = false;

  constructor(end: TurnEnd, lane: Lane, link: Link, me: { replica: string; epoch: number }, asked: Asked) {
    this.#end = end;
    this.lane = lane;
    this.link = link;
    const { want, request, reply } = asked;
    if (reply.now === null) throw new Error("a turn began without an instant");
    this.now = reply.now;
    this.nextDue = reply.next;
    const mail = mailOf(reply, me.replica, me.epoch);
    this.mail = mail.map((one) => one.mail);
    this.mailSeqs = mail.map((one) => one.seq);
    this.#absorb(want.rows, request, reply);
    this.claimed = this.#claimedOf(want, reply);
    this.due = inOrderOfDue(this.#rowsBy(dueKeysOf(reply)), this.now, want.due);
  }

  row(kind: Row["kind"], id: string): Row | null | "busy" | undefined {
    this.#assertOpen();
    return this.#loaded.get(`${kind}/${id}`);
  }

  tasks(list: TaskListQuery): readonly TaskRow[] | undefined {
    this.#assertOpen();
    return this.#lists.get(nameOf(list));
  }

  peekWorker(worker: WorkerId): WorkerRow | null | undefined {
    this.#assertOpen();
    return this.#addresses.get(worker);
  }

  async loadMore(rows: readonly RowKey[], lists: readonly TaskListQuery[], addresses: readonly WorkerId[] = []): Promise<void> {
    this.#assertOpen();
    const newRows = rows.filter((key) => !this.#loaded.has(key));
    const newLists = lists.filter((list) => !this.#lists.has(nameOf(list)));
    // A root that was found busy stays busy for this turn: its rows and lists are answered without asking.
    const isBusy = (root: RowKey) => this.#busy.has(root);
    const wish = {
      rows: newRows.filter((key) => !isBusy(rootOf(key))),
      lists: newLists.filter((list) => !("run" in list) || !isBusy(`run/${list.run}`)),
      addresses: addresses.filter((worker) => !this.#addresses.has(worker)),
    };
    for (const list of newLists) if (!wish.lists.includes(list)) this.#lists.set(nameOf(list), []);
    if (wish.rows.length + wish.lists.length + wish.addresses.length === 0) return this.#name(newRows);
    const request = requestOf(wish, null, (root) => this.#taken.has(root));
    const reply = await this.#end.more(this, request);
    this.#absorb(newRows, request, reply);
    for (const worker of wish.addresses) this.#addresses.set(worker, null);
    for (const row of addressesOf(reply)) this.#addresses.set(row.id, row);
  }

  async commit(turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    this.#assertOpen();
    this.#isOver = true;
    return this.#end.commit(this, turn, units);
  }

  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.#end.abort(this);
  }

  hasTaken(root: RowKey): boolean {
    return this.#taken.has(root);
  }

  imageOf(key: RowKey): Row | null | undefined {
    const known = this.#loaded.get(key);
    return known === "busy" ? undefined : known;
  }

  get hasLoose(): boolean {
    return this.#loose.size > 0;
  }

  isLoose(root: RowKey): boolean {
    return this.#loose.has(root);
  }

  #absorb(rows: readonly RowKey[], request: Request, reply: Reply): void {
    for (const root of reply.busy) this.#busy.add(root);
    for (const root of reply.loose) this.#loose.add(root);
    for (const root of request.roots) {
      if (this.#busy.has(root)) this.#loaded.set(root, "busy");
      else {
        this.#taken.add(root);
        this.#loaded.set(root, null);
      }
    }
    for (const row of rowsOf(reply)) {
      const key = keyOf(row);
      this.#loaded.set(key, row);
      this.#taken.add(rootOf(key));
    }
    this.#name(rows);
    for (const [list, tasks] of listsOf(reply, request)) this.#lists.set(nameOf(list), tasks);
  }

  /** Every row that was asked for has an answer now: busy, or absent when it did not come. */
  #name(rows: readonly RowKey[]): void {
    for (const key of rows) if (!this.#loaded.has(key)) this.#loaded.set(key, this.#busy.has(rootOf(key)) ? "busy" : null);
  }

  #claimedOf(want: TurnRequest, reply: Reply): Map<QueueName, TaskRow[]> {
    const claimed = new Map<QueueName, TaskRow[]>(want.claims.map(({ line }) => [line, []]));
    const tasks = this.#rowsBy(claimedKeysOf(reply)) as TaskRow[];
    for (const task of tasks.sort(byStanding)) if (task.line !== null) claimed.get(task.line)?.push(task);
    return claimed;
  }

  #rowsBy(keys: readonly RowKey[]): Row[] {
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
export interface Asked {
  readonly want: TurnRequest;
  readonly request: Request;
  readonly reply: Reply;
}
