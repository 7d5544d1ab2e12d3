// The rows the engine keeps: plain data, one interface per table. What is here is what survives a crash; nothing else does.
// No behaviour lives here: the moves are in core/, the tables in the stores.

export type Millis = number;
export type Tenant = string;
/** UUIDv7: time-ordered, so that new rows land together at the end of their table. */
export type RunId = string;
/** `<run id>.<slot>`: a task's id names its run, so the run can be locked before the task is read. The slot says which node: core/rows/slot.ts. */
export type TaskId = string;
/** `<tenant>/<instance id>`: two tenants may bring workers with one instance id and never meet. */
export type WorkerId = string;
/** Digest of what a task needs of a worker, its tenant included. */
export type RouteId = string;
export type Position = number;

/**
 * Where a task waits: a line is read head first, by (band, rank). `r|<route>` for any fitting worker, `r|<route>|<worker>` when pinned,
 * `k|<tenant>/<key>` while a concurrency key is taken by others. A task stands in at most one line.
 */
export type QueueName = string;

export type RunPhase = "queued" | "running" | "ending" | "succeeded" | "failed" | "cancelled";
export type TaskRowPhase =
  | "waiting"
  | "parked"
  | "ready"
  | "leased"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "skipped"
  | "hosting";
/** `enrolled`: known by its word over REST alone; it gets nothing before its socket is up. */
export type WorkerPhase = "online" | "away" | "lost" | "enrolled";

export interface RunRow {
  readonly kind: "run";
  readonly id: RunId;
  readonly tenant: Tenant;
  readonly phase: RunPhase;
  /** Key of the immutable workflow row this run obeys. */
  readonly workflow: string;
  readonly client: string;
  readonly band: number;
  /** Task rows of this run that have not ended. Zero ends the run. */
  readonly open: number;
  /** While `ending`: what the run will be, and the last task the sweep has passed. */
  readonly verdict: "failed" | "cancelled" | null;
  readonly cursor: TaskId | null;
  readonly createdAt: Millis;
  readonly startedAt: Millis | null;
  readonly endedAt: Millis | null;
  /** The run's own time limit, or "now" while the sweep has more to do. */
  readonly due: Millis | null;
  /** JSON text `{code, message, details?}`. */
  readonly error: string | null;
  /** Name of the workflow, for people. */
  readonly label: string;
  /** Id of the workflow this is a run of, as its author gave it. */
  readonly source: string;
  /** JSON text of how it came to be: who, which version, of which run it is a repeat, labels. Never changes. */
  readonly about: string;
  /** JSON text of what an operator said while it ran: nodes to skip, workers to prefer. Null as long as nothing was said. */
  readonly marks: string | null;
  /** JSON text: which worker last did work of which package for this run. Null before the first success. */
  readonly bindings: string | null;
}

export interface TaskRow {
  readonly kind: "task";
  readonly id: TaskId;
  readonly run: RunId;
  readonly phase: TaskRowPhase;
  readonly route: RouteId;
  readonly pin: WorkerId | null;
  readonly line: QueueName | null;
  readonly band: number;
  /** Given by the store when the task enters a line; null asks for one. */
  readonly rank: number | null;
  /** Predecessors that have not ended, while `waiting`. */
  readonly needs: number;
  /** Strictly increasing per task: the word of any older fence changes nothing. */
  readonly fence: number;
  readonly attempt: number;
  /** Grants in a row that brought no word of the worker; counted before the dispatch leaves. */
  readonly deliveries: number;
  /** Attempts that the worker itself reported as failed, or that ran out of time. */
  readonly failures: number;
  readonly worker: WorkerId | null;
  readonly boot: string | null;
  readonly epoch: number;
  readonly acked: boolean;
  /** Concurrency key this task holds or waits for, `<tenant>/<key>`. */
  readonly key: string | null;
  /** parked: not before; ready and parked on a key: end of its time in queue; leased: end of its attempt. */
  readonly due: Millis | null;
  readonly readyAt: Millis | null;
  readonly grantedAt: Millis | null;
  readonly endedAt: Millis | null;
  /** JSON texts, each written once. */
  readonly params: string | null;
  readonly result: string | null;
  readonly error: string | null;
  /** JSON text of what is known besides: what it said of itself, what it waits for, whom it carries. Read by core/rows/state.ts alone. */
  readonly state: string | null;
}

export interface WorkerRow {
  readonly kind: "worker";
  readonly id: WorkerId;
  readonly tenant: Tenant;
  readonly name: string;
  readonly phase: WorkerPhase;
  readonly boot: string;
  /** Raised by every join: what an older connection still says fails against it. */
  readonly epoch: number;
  /** Which scheduler holds its socket, and in which of that scheduler's lives: where mail for this worker goes. */
  readonly replica: string;
  readonly replicaEpoch: number;
  readonly draining: boolean;
  readonly joinedAt: Millis;
  readonly seenAt: Millis;
  /** End of the boot's lease: every attempt of this worker lives as long as this. Null once nothing depends on it. */
  readonly due: Millis | null;
  /** JSON text of what it announced: slots, packages, runtimes, pool, tags, host. */
  readonly about: string;
  /** JSON text of how it is: its last words of itself, its session, its former boots. Read by core/crew/condition.ts alone. */
  readonly condition: string;
}

/** A concurrency key and who holds it. Waiters stand in the line `k|<id>`. */
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

/** The memory of an Idempotency-Key: which run it made, and for which request. */
export interface IdempotencyRow {
  readonly kind: "ask";
  /** `<tenant>/<key>` */
  readonly id: string;
  readonly digest: string;
  readonly run: RunId;
  readonly at: Millis;
}

/**
 * A document: what is kept by name and changed by whoever knows its revision. Workflows, people, grants, resources, letters of dead
 * tasks, sticky affinities. The store knows its names, never its body.
 */
export interface DocRow {
  readonly kind: "doc";
  /** `<tenant>/<collection>/<name>`; a name may hold slashes, a tenant and a collection never do. */
  readonly id: string;
  readonly tenant: Tenant;
  readonly collection: string;
  /** Raised by every write, from 1: whoever writes names the one it read. */
  readonly rev: number;
  readonly at: Millis;
  readonly due: Millis | null;
  /** Lists of a collection are read in this order, then by id. */
  readonly sort: string;
  /** Words a search finds it by, in lower case, blanks between them. */
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

/** A key taken apart; an id may hold slashes, a kind never does. */
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

/** The row whose lock stands for this row: a task is guarded by its run, everything else by itself. */
export function rootOf(key: RowKey): RowKey {
  if (key.startsWith("task/")) return runKey(runOf(key.slice(5)));
  return key.startsWith("doc/") ? rootOfDocument(key) : key;
}

/**
 * What a task printed in one turn: one row, known by its attempt and the number of its first chunk. Written once, read in order, removed by
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

/** One fact: a word of the log. `data` holds what a reader cannot derive; ids of bodies, not bodies. */
export interface Fact {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** All that one subject (a run, a worker) went through in one turn: one row in the log, as many positions as facts. */
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
