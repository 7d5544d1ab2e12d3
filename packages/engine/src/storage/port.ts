// All the engine asks of storage. Rows are plain data; the store keeps, orders and locks them, and decides nothing.
// The same port serves sqlite in one process, memory in the simulator and PostgreSQL with several schedulers.

import type { Fault } from "@astraflow/protocol";
import type {
  ChunkRow,
  ConcurrencyKeyRow,
  DocRow,
  LogEntry,
  Mail,
  Millis,
  Position,
  QueueName,
  RouteRow,
  Row,
  RowKey,
  RunId,
  RunPhase,
  RunRow,
  TaskId,
  TaskRow,
  Tenant,
  WorkerId,
  WorkerRow,
} from "./rows.ts";

export interface Store extends StoreReader {
  /** Checks schema, durability settings, clock and cluster id; raises this replica's epoch. */
  open(me: { replica: string; cluster: string }): Promise<{ epoch: number; lastTurn: number }>;
  begin(want: TurnRequest): Promise<TurnTransaction>;
  /** After "unknown": waits until the old transaction is over, then returns whether that turn was committed. */
  settle(turn: number): Promise<"committed" | "absent">;
  /** Hints may be lost, doubled, late or wrong; polling is the truth. */
  onHint(listener: (hint: StoreHint) => void): void;
  /**
   * Removes a little of what is old enough, in a transaction of its own and never during a turn of this handle on a store with one turn at
   * a time. What a turn holds is left for later. Doing it again, also after a crash, is harmless.
   */
  remove(slice: RemovalSlice): Promise<RemovalOutcome>;
  /**
   * Gives space that removed rows have left in the store's own file back to the disk, at most so many pages of it, and answers how many;
   * 0 when there is nothing worth it or a turn is under way. Absent where the store has no file of its own.
   */
  releaseSpace?(pagesMax: number): Promise<number>;
  close(): Promise<void>;
}

/**
 * What one call of `remove` looks at: rows of a tenant after a cursor, at most `limit` of them, counting what goes with them.
 * Ages are by the store's clock, so schedulers with different clocks agree.
 * `runs`: runs that ended at least `olderThanMs` ago, in id order, with tasks, output, dead letters and log entries; `before` excludes
 * newer runs. `log`: entries about anything but an existing run; those with an `audit.` fact stay for `auditOlderThanMs`, null for ever.
 * `keys`: idempotency keys. `workers`: workers that are lost or have left, hold nothing and wait for no answer, by the last time they were seen.
 */
export type RemovalSlice =
  | {
      readonly of: "runs";
      readonly tenant: Tenant;
      readonly after: RunId | "";
      readonly before?: RunId;
      readonly olderThanMs: Millis;
      readonly limit: number;
    }
  | {
      readonly of: "log";
      readonly tenant: Tenant;
      readonly after: string;
      readonly olderThanMs: Millis;
      readonly auditOlderThanMs: Millis | null;
      readonly limit: number;
    }
  | {
      readonly of: "keys" | "workers";
      readonly tenant: Tenant;
      readonly after: string;
      readonly olderThanMs: Millis;
      readonly limit: number;
    };

export interface RemovedCounts {
  readonly runs: number;
  readonly tasks: number;
  readonly chunks: number;
  readonly logEntries: number;
  readonly keys: number;
  readonly workers: number;
}

export interface RemovalOutcome {
  readonly removed: RemovedCounts;
  /** Where the next call continues; null at the end. The cursor of a log is a position as text. */
  readonly next: string | null;
}

/** Reads that take no part in a turn: read-only connections, never the writer's. */
export interface StoreReader {
  /** Facts after a cursor, complete and in order: anything read later has a higher position. */
  events(query: EventQuery): Promise<EventPage>;
  page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>>;
  close(): Promise<void>;
}

export interface TurnRequest {
  /** Locked in key order, repeats allowed; a row whose root another turn holds is "busy" and never waited for. */
  readonly rows: readonly RowKey[];
  /** Tasks at the head of a queue, by (band, rank), whose run no other turn holds. Their runs are locked. */
  readonly claims: readonly QueueClaim[];
  readonly lists: readonly TaskListQuery[];
  /** At most this many rows whose `due` has passed, oldest first, whose root no other turn holds. */
  readonly due: number;
  readonly mail: number;
  /** Roots in quarantine: neither claimed nor due. */
  readonly skip: readonly RowKey[];
}

export interface QueueClaim {
  readonly line: QueueName;
  readonly limit: number;
}

/**
 * `open`: tasks of a run that have not ended, in id order after `after`; the run is locked.
 * `held`: tasks leased to a worker, in id order. `line`: the head of a queue, by (band, rank).
 * The last two take no lock and include busy runs: a task of them is read with `row`, which locks its run, before it is changed.
 */
export type TaskListQuery =
  | { readonly of: "open"; readonly run: RunId; readonly after: TaskId | ""; readonly limit: number }
  | { readonly of: "held"; readonly worker: WorkerId; readonly limit: number }
  | { readonly of: "line"; readonly line: QueueName; readonly limit: number }
  /** Tasks of a run in any phase, in id order, `after` < id <= `last`; the run is locked. */
  | { readonly of: "range"; readonly run: RunId; readonly after: TaskId; readonly last: TaskId; readonly limit: number };

export interface TurnTransaction {
  /** Store clock, one instant for the turn. Never below an instant already stored. */
  readonly now: Millis;
  /** Earliest `due` in the store that has not passed, so the driver knows when to wake. */
  readonly nextDue: Millis | null;
  /** In the order of `want.claims`, each by (band, rank). */
  readonly claimed: ReadonlyMap<QueueName, readonly TaskRow[]>;
  readonly due: readonly Row[];
  readonly mail: readonly Mail[];
  /** `undefined`: not loaded yet, use `loadMore`. Stores with one scheduler read through and never return it. */
  row(kind: Row["kind"], id: string): Row | null | "busy" | undefined;
  tasks(list: TaskListQuery): readonly TaskRow[] | undefined;
  /** A worker as it was last stored, without a lock: where its mail goes and what it should know. Nothing is written for it. */
  peekWorker(worker: WorkerId): WorkerRow | null | undefined;
  /** Loads rows that only the first round found to be needed; same locks, same instant. */
  loadMore(rows: readonly RowKey[], lists: readonly TaskListQuery[], addresses?: readonly WorkerId[]): Promise<void>;
  commit(turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome>;
  abort(): Promise<void>;
}

/** Everything one root (run, worker, concurrency key) changes in this turn; the grain of failure. */
export interface ChangeSet {
  /** Must be locked by this turn; the store refuses a change set that writes under a root it does not hold. */
  readonly roots: readonly RowKey[];
  /** Last images, each row once in a turn. */
  readonly puts: readonly Row[];
  /** Which of `puts` did not exist before: the store need not look. If one does exist, the change set is refused. */
  readonly inserted?: ReadonlySet<RowKey>;
  readonly deletes: readonly RowKey[];
  /** Tasks among `puts` that enter a queue: the store sets rank = max(tenant clock, queue clock) + cost. */
  readonly enqueued: readonly { readonly task: TaskId; readonly tenant: Tenant; readonly cost: number }[];
  /** The store assigns positions per tenant, without gaps, in commit order, as its last step. */
  readonly logEntries: readonly LogEntry[];
  readonly mail: readonly Mail[];
  /** What tasks of this change set printed. A row that exists already (same task, fence and first) is left as it is. */
  readonly chunks?: readonly ChunkRow[];
  /**
   * Workers this change set grants to. Each must be online, not draining, in that epoch and not locked by another turn when it is written;
   * otherwise nothing is written and the worker is named. Many turns may rely on one worker at once; a turn that changes it finds it busy.
   */
  readonly workerPreconditions?: readonly WorkerPrecondition[];
}

export interface WorkerPrecondition {
  readonly worker: WorkerId;
  readonly epoch: number;
}

export type CommitOutcome =
  | { readonly outcome: "committed"; readonly first: ReadonlyMap<Tenant, Position> }
  /** Nothing is written; without that change set the rest may be tried again. */
  | {
      readonly outcome: "failed";
      readonly unit?: number;
      /** Workers that are not what the turn relied on. */
      readonly changedWorkers?: readonly WorkerId[];
      readonly fault: Fault;
    }
  /** Call `settle` before anything is emitted or retried. */
  | { readonly outcome: "unknown" };

export type StoreHint =
  | { readonly type: "line"; readonly line: QueueName }
  | { readonly type: "mail" }
  | { readonly type: "log"; readonly tenant: Tenant };

export interface EventQuery {
  readonly tenant: Tenant;
  readonly after: Position;
  readonly subject?: RowKey;
  readonly limit: number;
  /** Newest first: the facts before this position. `after` is then where to stop. */
  readonly before?: Position;
  /** Only facts whose type begins with one of these. A page covers a bounded part of the log and may be short although more follows. */
  readonly types?: readonly string[];
}

export interface LoggedFact {
  readonly position: Position;
  readonly at: Millis;
  readonly subject: RowKey;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface EventPage {
  readonly items: readonly LoggedFact[];
  /** Cursor to go on from; equals the query's when nothing followed. */
  readonly next: Position;
  /** Highest position of the tenant at this instant. */
  readonly head: Position;
  /**
   * Up to this position entries have been removed; a cursor below it cannot be answered without a gap. Where one subject is asked for, or
   * the log is read backwards, entries that were removed with their run do not count: what is left is whole by itself.
   */
  readonly floor: Position;
}

export type PageQuery =
  | {
      readonly page: "runs";
      readonly tenant: Tenant;
      readonly before?: RunId;
      readonly limit: number;
      readonly phase?: RunPhase;
      readonly client?: string;
      /** Runs of which one of these workers has a task or had it last. */
      readonly workers?: readonly WorkerId[];
      /** Workflow id, and instants of creation: from, and before. */
      readonly source?: string;
      readonly since?: Millis;
      readonly until?: Millis;
      /** Words that must all be found (each may be the beginning of one) among the `runSearchTerms` of the run. */
      readonly search?: string;
    }
  /** Which of at most `limit` runs below `before`, newest first, have ended. */
  | { readonly page: "ended"; readonly tenant: Tenant; readonly before?: RunId; readonly limit: number }
  /** `withoutInputs`: the definition is empty and the parameters of tasks are null. Both may be megabytes that an answer does not show. */
  | {
      readonly page: "run";
      readonly tenant: Tenant;
      readonly run: RunId;
      readonly tasksMax?: number;
      readonly withoutInputs?: boolean;
    }
  /** Tasks of a run in id order, after one of them. */
  | { readonly page: "tasks"; readonly tenant: Tenant; readonly run: RunId; readonly after?: TaskId; readonly limit: number }
  | { readonly page: "task"; readonly tenant: Tenant; readonly task: TaskId; readonly withoutInputs?: boolean }
  /** Documents of a collection by (sort, id); `prefix` of their names; `search` as for runs. */
  | {
      readonly page: "docs";
      readonly tenant: Tenant;
      readonly collection: string;
      readonly prefix?: string;
      readonly search?: string;
      readonly order?: "asc" | "desc";
      /** `next` of the page before. */
      readonly after?: string;
      readonly limit: number;
    }
  | { readonly page: "doc"; readonly tenant: Tenant; readonly collection: string; readonly names: readonly string[] }
  /** What an attempt printed, from a chunk number or a line on. */
  | {
      readonly page: "chunks";
      readonly tenant: Tenant;
      readonly task: TaskId;
      readonly fence?: number;
      readonly fromChunk?: number;
      readonly fromLine?: number;
      readonly limit: number;
    }
  /** Each queue of ready tasks with the requirements of its route; counted up to `max` per queue. */
  | { readonly page: "lines"; readonly tenant: Tenant; readonly max: number }
  | { readonly page: "workers"; readonly tenant: Tenant }
  | { readonly page: "routes" }
  /** One worker with the attempts that are leased to it, in id order. */
  | { readonly page: "worker"; readonly tenant: Tenant; readonly worker: WorkerId; readonly limit: number }
  /** Tenants that have a log, by name: for maintenance across all of them. */
  | { readonly page: "tenants"; readonly after?: Tenant; readonly limit: number }
  /** A concurrency key and its holders. */
  | { readonly page: "key"; readonly tenant: Tenant; readonly key: string }
  /** How many workers there are, over all tenants. */
  | { readonly page: "crew" }
  /** Open tasks by tenant and phase. `max`: a tenant is counted up to so many tasks, those of queued runs first, so that it stays cheap. */
  | { readonly page: "depth"; readonly tenant?: Tenant; readonly max?: number };

export interface RunDetail {
  readonly run: RunRow;
  /** In id order, at most `tasksMax`; the rest by the page "tasks". */
  readonly tasks: readonly TaskRow[];
  readonly workflow: string;
}

export interface EndedRun {
  readonly id: RunId;
  readonly endedAt: Millis;
}

/** A queue of tasks that wait for a worker. */
export interface QueueDepth {
  readonly line: QueueName;
  readonly route: RouteRow | null;
  readonly tasks: number;
  readonly oldestReadyAt: Millis | null;
}

export interface TaskCount {
  readonly tenant: Tenant;
  readonly phase: TaskRow["phase"];
  readonly tasks: number;
}

export interface WorkerCount {
  readonly tenant: Tenant;
  readonly phase: WorkerRow["phase"];
  readonly draining: boolean;
  readonly workers: number;
}

/** What each page holds. Most name the position of their tenant's log at which they are true. */
interface PageResults {
  readonly runs: PageItems<RunRow> & NextPage<RunId>;
  readonly ended: { readonly runs: readonly EndedRun[]; readonly head: Position } & NextPage<RunId>;
  readonly run: { readonly detail: RunDetail | null; readonly head: Position };
  readonly tasks: PageItems<TaskRow> & NextPage<TaskId>;
  readonly task: { readonly run: RunRow | null; readonly task: TaskRow | null; readonly head: Position };
  readonly docs: PageItems<DocRow> & NextPage<string>;
  readonly doc: PageItems<DocRow | null>;
  readonly chunks: PageItems<ChunkRow>;
  readonly lines: PageItems<QueueDepth>;
  readonly workers: PageItems<WorkerRow>;
  readonly worker: { readonly worker: WorkerRow | null; readonly held: readonly TaskRow[]; readonly head: Position };
  readonly key: { readonly key: ConcurrencyKeyRow | null; readonly head: Position };
  readonly tenants: { readonly items: readonly Tenant[] } & NextPage<Tenant>;
  readonly routes: { readonly items: readonly RouteRow[] };
  readonly crew: { readonly items: readonly WorkerCount[] };
  readonly depth: { readonly items: readonly TaskCount[] };
}

interface PageItems<Item> {
  readonly items: readonly Item[];
  readonly head: Position;
}

/** Where the next page begins; null at the end. */
interface NextPage<Cursor> {
  readonly next: Cursor | null;
}

export type PageOf<Q extends PageQuery> = PageResults[Q["page"]];
