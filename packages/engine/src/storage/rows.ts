// The rows of the engine: plain data, one interface per table. Only what is here survives a crash.
// No behaviour lives here: the state machines are in core/rows, the tables in the stores.

export type Millis = number;
export type Tenant = string;
/** UUIDv7: time-ordered, so that new rows are stored together at the end of their table. */
export type RunId = string;
/** `<run id>.<slot>`: a task's id names its run, so the run can be locked before the task is read. The slot names the node: core/rows/slot.ts. */
export type TaskId = string;
/** `<tenant>/<instance id>`: two tenants may bring workers with one instance id and never meet. */
export type WorkerId = string;
/** Digest of what a task needs of a worker, its tenant included. */
export type RouteId = string;
export type Position = number;

/**
 * Where a task waits: a queue is read head first, by (band, rank). `r|<route>` for any matching worker, `r|<route>|<worker>` when pinned,
 * `k|<tenant>/<key>` while others hold a concurrency key. A task is in at most one queue.
 */
export type QueueName = string;

/** A row in one of these phases; the phase decides which fields it has. */
export type InPhase<R extends { readonly phase: string }, P> = R & { readonly phase: P };
/** The columns of a row, whatever its phase. */
export type RowColumns<R> = { readonly [K in keyof R & string]: R[K] };
type Null<K extends string> = { readonly [P in K]: null };

interface RunFields {
  readonly kind: "run";
  readonly id: RunId;
  readonly tenant: Tenant;
  /** Key of the immutable workflow row this run obeys. */
  readonly workflow: string;
  readonly client: string;
  readonly band: number;
  /** Task rows of this run that have not ended. Zero ends the run. */
  readonly open: number;
  readonly createdAt: Millis;
  /** Name of the workflow, for people. */
  readonly label: string;
  /** Id of the workflow this is a run of, as its author gave it. */
  readonly source: string;
  /** JSON text of its origin: who started it, which version, which run it repeats, labels. Never changes. */
  readonly about: string;
  /** JSON text of operator marks: nodes to skip, workers to prefer. Null while there are none. */
  readonly marks: string | null;
  /** JSON text: which worker last did work of which package for this run. Null before the first success. */
  readonly bindings: string | null;
}

interface LiveRunFields extends Null<"verdict" | "endedAt" | "error"> {
  /** JSON text of the fan-outs that are larger than a turn. Null when there is none. */
  readonly cursor: string | null;
  /** The run's own time limit, or "now" while a fan-out has more to do. */
  readonly due: Millis | null;
}

interface EndedRunFields extends Null<"cursor" | "due"> {
  /** Null when it ended before any of its tasks was granted. */
  readonly startedAt: Millis | null;
  readonly endedAt: Millis;
}

export type RunRow = RunFields &
  (
    | ({ readonly phase: "queued"; readonly startedAt: null } & LiveRunFields)
    | ({ readonly phase: "running"; readonly startedAt: Millis } & LiveRunFields)
    | {
        readonly phase: "ending";
        /** What the run will be, and the last task the sweep has passed. */
        readonly verdict: "failed" | "cancelled";
        readonly cursor: TaskId | null;
        readonly startedAt: Millis | null;
        readonly endedAt: null;
        readonly due: Millis;
        /** JSON text `{code, message, details?}`. */
        readonly error: string | null;
      }
    | ({ readonly phase: "succeeded" } & Null<"verdict" | "error"> & EndedRunFields)
    | ({
        readonly phase: "failed" | "cancelled";
        readonly verdict: "failed" | "cancelled";
        readonly error: string | null;
      } & EndedRunFields)
  );
export type RunPhase = RunRow["phase"];
/** A run whose tasks go on. */
export type LiveRun = InPhase<RunRow, "queued" | "running">;

interface TaskFields {
  readonly kind: "task";
  readonly id: TaskId;
  readonly run: RunId;
  readonly route: RouteId;
  readonly pin: WorkerId | null;
  readonly band: number;
  /** While `waiting`: predecessors that have not ended. Of an iteration: its nodes that are open. */
  readonly needs: number;
  /** Strictly increasing per task: reports under an older fence change nothing. */
  readonly fence: number;
  readonly attempt: number;
  /** Grants in a row without any report of the worker; counted before the dispatch is sent. */
  readonly deliveries: number;
  /** Attempts that the worker itself reported as failed, or that ran out of time. */
  readonly failures: number;
  readonly epoch: number;
  readonly acked: boolean;
  /** Concurrency key this task holds or waits for, `<tenant>/<key>`. */
  readonly key: string | null;
  /** JSON text. */
  readonly params: string | null;
  /** JSON text of what else is known: its progress, its calls, its iterations. Read by core/rows/task-state.ts alone. */
  readonly state: string | null;
}

type OpenTaskFields = Null<"endedAt" | "result" | "error">;
type NotQueued = Null<"line" | "rank">;

interface Queued {
  readonly line: QueueName;
  /** Assigned by the store when the task enters a queue; null asks for one. */
  readonly rank: number | null;
  /** End of its time in queue. */
  readonly due: Millis | null;
}

/** No worker holds it; `grantedAt` is of its last attempt. */
interface NotHeld extends Null<"worker" | "boot"> {
  readonly grantedAt: Millis | null;
}

/** With the worker that held it last; null where none did. */
interface EndedTaskFields extends NotQueued, Null<"due"> {
  readonly worker: WorkerId | null;
  readonly boot: string | null;
  readonly readyAt: Millis | null;
  readonly grantedAt: Millis | null;
  readonly endedAt: Millis;
}

export type TaskRow = TaskFields &
  (
    | ({ readonly phase: "waiting" } & Null<"due" | "readyAt" | "grantedAt"> & NotQueued & NotHeld & OpenTaskFields)
    | ({ readonly phase: "ready"; readonly readyAt: Millis } & Queued & NotHeld & OpenTaskFields)
    /** Behind a concurrency key, or without a queue until its next attempt is due. */
    | ({ readonly phase: "parked"; readonly readyAt: Millis } & (Queued | (NotQueued & { readonly due: Millis })) &
        NotHeld &
        OpenTaskFields)
    | ({
        readonly phase: "leased";
        readonly worker: WorkerId;
        readonly boot: string;
        /** End of its attempt, or of the first of its calls. */
        readonly due: Millis | null;
        readonly readyAt: Millis;
        readonly grantedAt: Millis;
      } & NotQueued &
        OpenTaskFields)
    | ({
        readonly phase: "hosting";
        /** When its container or iteration goes on without any event. */
        readonly due: Millis | null;
        readonly readyAt: Millis;
      } & NotQueued &
        NotHeld &
        OpenTaskFields)
    | ({ readonly phase: "succeeded" | "skipped"; readonly result: string; readonly error: null } & EndedTaskFields)
    | ({ readonly phase: "failed"; readonly result: string | null; readonly error: string } & EndedTaskFields)
    | ({ readonly phase: "cancelled"; readonly result: null; readonly error: string | null } & EndedTaskFields)
  );

export type TaskRowPhase = TaskRow["phase"];
export type WaitingTask = InPhase<TaskRow, "waiting">;
export type ReadyTask = InPhase<TaskRow, "ready">;
/** A task that a worker holds: what an attempt is about. */
export type LeasedTask = InPhase<TaskRow, "leased">;
/** A task that other tasks carry out: a container, an iteration, or a host with middlewares. */
export type HostingTask = InPhase<TaskRow, "hosting">;
export type EndedTask = InPhase<TaskRow, "succeeded" | "failed" | "cancelled" | "skipped">;
export type OpenTask = InPhase<TaskRow, "waiting" | "parked" | "ready" | "leased" | "hosting">;

interface WorkerFields {
  readonly kind: "worker";
  readonly id: WorkerId;
  readonly tenant: Tenant;
  readonly name: string;
  readonly boot: string;
  /** Raised by every join: reports of an older connection are refused by it. */
  readonly epoch: number;
  /** Which scheduler holds its socket, and the epoch of that scheduler's process: where mail for this worker goes. */
  readonly replica: string;
  readonly replicaEpoch: number;
  readonly draining: boolean;
  readonly joinedAt: Millis;
  readonly seenAt: Millis;
  /** JSON text of what it announced: slots, packages, runtimes, pool, tags, host. */
  readonly about: string;
  /** JSON text of its condition: its last heartbeat, its session, its former boots. Read by core/rows/worker-condition.ts alone. */
  readonly condition: string;
}

/** `due` is the end of the boot's lease: every attempt of the worker lives as long as this. */
export type WorkerRow = WorkerFields &
  (
    | { readonly phase: "online" | "away"; readonly due: Millis }
    /** Null once all its attempts are taken back. A worker that left holds nothing, but tasks may wait for it. */
    | { readonly phase: "lost" | "left"; readonly due: Millis | null }
    /** Registered over REST only; it gets no tasks before its socket is up. */
    | { readonly phase: "enrolled"; readonly due: null }
  );
export type WorkerPhase = WorkerRow["phase"];

/** A concurrency key and its holders. Waiting tasks are in the queue `k|<id>`. */
export interface ConcurrencyKeyRow {
  readonly kind: "key";
  /** `<tenant>/<key>` */
  readonly id: string;
  readonly limit: number;
  readonly holders: readonly TaskId[];
  /** "Now" when a waiter could not be readied at once because its run was busy. */
  readonly due: Millis | null;
}

/** Immutable: what a task needs, by digest. */
export interface RouteRow {
  readonly kind: "route";
  readonly id: RouteId;
  readonly tenant: Tenant;
  readonly needs: string;
}

/** Immutable: a workflow definition, by tenant and digest. */
export interface WorkflowRow {
  readonly kind: "workflow";
  /** `<tenant>/<digest>` */
  readonly id: string;
  readonly body: string;
}

/** What the first request under an Idempotency-Key was answered. `run` is read by core/operations/idempotency.ts alone. */
export interface IdempotencyRow {
  readonly kind: "ask";
  /** `<tenant>/<key>` */
  readonly id: string;
  readonly digest: string;
  readonly run: RunId;
  readonly at: Millis;
}

/**
 * A document: stored by name and changed by writers that know its revision. Workflows, users, grants, resources, dead letters,
 * sticky affinities. The store knows the names of documents, never their bodies.
 */
export interface DocRow {
  readonly kind: "doc";
  /** `<tenant>/<collection>/<name>`; a name may contain slashes, a tenant and a collection never do. */
  readonly id: string;
  readonly tenant: Tenant;
  readonly collection: string;
  /** Raised by every write, from 1: a writer names the revision it read. */
  readonly rev: number;
  readonly at: Millis;
  readonly due: Millis | null;
  /** Lists of a collection are read in this order, then by id. */
  readonly sort: string;
  /** Words a search finds it by, in lower case, separated by spaces. */
  readonly terms: string;
  /** JSON text. */
  readonly body: string;
}

export type Row = RunRow | TaskRow | WorkerRow | ConcurrencyKeyRow | RouteRow | WorkflowRow | IdempotencyRow | DocRow;
/** `<kind>/<id>`. */
export type RowKey = `${Row["kind"]}/${string}`;

export function keyOf(row: Row): RowKey {
  return `${row.kind}/${row.id}`;
}

/** Splits a key; an id may contain slashes, a kind never does. */
export function splitKey(key: RowKey): [kind: Row["kind"], id: string] {
  const slash = key.indexOf("/");
  return [key.slice(0, slash) as Row["kind"], key.slice(slash + 1)];
}

export const runKey = (id: RunId): RowKey => `run/${id}`;
export const taskKey = (id: TaskId): RowKey => `task/${id}`;
export const workerKey = (id: WorkerId): RowKey => `worker/${id}`;

/** The run a task belongs to, read from its id. */
export function runOf(task: TaskId): RunId {
  const dot = task.indexOf(".");
  return dot < 0 ? task : task.slice(0, dot);
}

export const docId = (tenant: Tenant, collection: string, name: string): string => `${tenant}/${collection}/${name}`;
export const docKey = (tenant: Tenant, collection: string, name: string): RowKey => `doc/${docId(tenant, collection, name)}`;

/** Collections whose documents belong to a run: their names begin with a task's id, and the run guards them. */
export const collectionsOwnedByRun: ReadonlySet<string> = new Set(["letter"]);

function rootOfDocument(key: RowKey): RowKey {
  const [, , collection = "", ...name] = key.split("/");
  return collectionsOwnedByRun.has(collection) ? runKey(runOf(name.join("/"))) : key;
}

/** The row whose lock guards this row: the run for its tasks, otherwise the row itself. */
export function rootOf(key: RowKey): RowKey {
  if (key.startsWith("task/")) return runKey(runOf(key.slice(5)));
  return key.startsWith("doc/") ? rootOfDocument(key) : key;
}

/**
 * What a task printed in one turn: one row, identified by its attempt and the number of its first chunk. Written once, read in order, removed by
 * age; the log only points here.
 */
export interface ChunkRow {
  readonly task: TaskId;
  readonly fence: number;
  /** Number of its first chunk within the attempt, from 0. */
  readonly first: number;
  readonly count: number;
  readonly at: Millis;
  /** Number of the first line that begins in it, and how many do. */
  readonly line: number;
  readonly lines: number;
  /** JSON text of the list of chunks: `{channel, index?, text? | data?, mimeType?, metadata?}`. */
  readonly body: string;
}

/** One fact of the log. `data` holds what a reader cannot derive; ids of bodies, not bodies. */
export interface Fact {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** All facts about one subject (a run, a worker) in one turn: one row in the log, as many positions as facts. */
export interface LogEntry {
  readonly tenant: Tenant;
  readonly subject: RowKey;
  readonly facts: readonly Fact[];
}

/** A message for the socket holder on another replica. */
export interface Mail {
  readonly replica: string;
  readonly epoch: number;
  readonly id: string;
  readonly body: string;
}
