// The committed state of the memory store: rows, the indexes the port needs, logs, clocks, mail, replicas. Plain and synchronous;
// locks, turns and failures are in turn.ts and cluster.ts.

import type {
  ChunkRow,
  Mail,
  Millis,
  Position,
  QueueName,
  Row,
  RowKey,
  RunId,
  TaskId,
  TaskRow,
  Tenant,
  WorkerId,
} from "@astraflow/engine";
import { keyOf } from "@astraflow/engine";
import type { LogRow } from "../common/log-rows.ts";
import { compareText, SortedList } from "./sorted-list.ts";

interface QueuedTask {
  readonly band: number;
  readonly rank: number;
  readonly id: TaskId;
}

interface Deadline {
  readonly due: Millis;
  readonly key: RowKey;
}

export interface TenantState {
  position: Position;
  /** Only the planted bug hands positions out ahead of the commit. */
  sequence: Position;
  clock: number;
  floor: Position;
  readonly log: SortedList<LogRow>;
}

export interface ReplicaState {
  epoch: number;
  lastTurn: number;
  readonly turns: Set<number>;
}

const compareQueuedTasks = (a: QueuedTask, b: QueuedTask) => a.band - b.band || a.rank - b.rank || compareText(a.id, b.id);
const compareDeadlines = (a: Deadline, b: Deadline) => a.due - b.due || compareText(a.key, b.key);
const compareLogRows = (a: LogRow, b: LogRow) => a.first - b.first;
const compareChunks = (a: ChunkRow, b: ChunkRow) => a.fence - b.fence || a.first - b.first;

export class MemoryTables {
  readonly rows = new Map<RowKey, Row>();
  readonly replicas = new Map<string, ReplicaState>();
  readonly taskQueueClocks = new Map<QueueName, number>();
  readonly mail: Mail[] = [];
  cluster: string | null = null;
  /** Rows looked at by claims, so that a test can see that a claim reads its own line only. */
  rowsRead = 0;
  readonly #taskQueues = new Map<QueueName, SortedList<QueuedTask>>();
  readonly #deadlines = new SortedList<Deadline>(compareDeadlines);
  readonly #heldTasks = new Map<WorkerId, SortedList<TaskId>>();
  readonly #tasks = new Map<RunId, SortedList<TaskId>>();
  readonly #tenants = new Map<Tenant, TenantState>();
  readonly #chunks = new Map<TaskId, SortedList<ChunkRow>>();

  put(row: Row): void {
    const key = keyOf(row);
    const before = this.rows.get(key);
    if (before !== undefined) this.#removeFromIndexes(key, before);
    else if (row.kind === "task") getOrCreateList(this.#tasks, row.run, compareText).add(row.id);
    // A turn that changes a row in place would hide a missing put; frozen rows make it throw.
    if (row.kind === "key") Object.freeze(row.holders);
    this.rows.set(key, Object.freeze(row));
    this.#addToIndexes(key, row);
  }

  drop(key: RowKey): void {
    const before = this.rows.get(key);
    if (before === undefined) return;
    this.#removeFromIndexes(key, before);
    if (before.kind === "task") removeFromList(this.#tasks, before.run, before.id);
    this.rows.delete(key);
  }

  /** What is there already stays as it is. */
  putChunk(chunk: ChunkRow): void {
    const chunks = getOrCreateList(this.#chunks, chunk.task, compareChunks);
    const [there] = chunks.from(chunk);
    if (there === undefined || compareChunks(there, chunk) !== 0) chunks.add(Object.freeze({ ...chunk }));
  }

  /** By fence, then by number. */
  chunksOf(task: TaskId): Iterable<ChunkRow> {
    return this.#chunks.get(task) ?? [];
  }

  dropChunks(before: Millis): void {
    for (const chunks of [...this.#chunks.values()])
      for (const chunk of [...chunks]) if (chunk.at < before) removeFromList(this.#chunks, chunk.task, chunk);
  }

  /** Lines somebody stands in, by name. */
  taskQueueNames(): QueueName[] {
    return [...this.#taskQueues.keys()].sort(compareText);
  }

  task(id: TaskId): TaskRow | null {
    const row = this.rows.get(`task/${id}`);
    return row?.kind === "task" ? row : null;
  }

  *tasksInQueue(line: QueueName): Generator<TaskRow> {
    for (const { id } of this.#taskQueues.get(line) ?? []) {
      this.rowsRead++;
      yield this.#requireTask(id);
    }
  }

  *tasksHeldBy(worker: WorkerId): Generator<TaskRow> {
    for (const id of this.#heldTasks.get(worker) ?? []) yield this.#requireTask(id);
  }

  /** Tasks of a run in id order, after `after`. */
  *tasksOf(run: RunId, after: TaskId | ""): Generator<TaskRow> {
    for (const id of this.#tasks.get(run)?.from(after) ?? []) if (id !== after) yield this.#requireTask(id);
  }

  *rowsDueBy(now: Millis): Generator<Row> {
    for (const { due, key } of this.#deadlines) {
      if (due > now) return;
      const row = this.rows.get(key);
      if (row !== undefined) yield row;
    }
  }

  nextDueAfter(now: Millis): Millis | null {
    for (const { due } of this.#deadlines.from({ due: now + Number.MIN_VALUE, key: "run/" })) if (due > now) return due;
    return null;
  }

  tenant(tenant: Tenant): TenantState {
    let state = this.#tenants.get(tenant);
    if (state === undefined) {
      state = { position: 0, sequence: 0, clock: 0, floor: 0, log: new SortedList<LogRow>(compareLogRows) };
      this.#tenants.set(tenant, state);
    }
    return state;
  }

  /** Those that have a log; the others were only asked about. */
  tenantNames(): Tenant[] {
    return [...this.#tenants].flatMap(([name, { position }]) => (position > 0 ? [name] : [])).sort(compareText);
  }

  #requireTask(id: TaskId): TaskRow {
    const row = this.task(id);
    if (row === null) throw new Error(`the memory store lists task ${id} but does not hold it`);
    return row;
  }

  #addToIndexes(key: RowKey, row: Row): void {
    if ("due" in row && row.due !== null) this.#deadlines.add({ due: row.due, key });
    if (row.kind !== "task") return;
    if (row.line !== null)
      getOrCreateList(this.#taskQueues, row.line, compareQueuedTasks).add({ band: row.band, rank: row.rank ?? 0, id: row.id });
    if (row.phase === "leased" && row.worker !== null) getOrCreateList(this.#heldTasks, row.worker, compareText).add(row.id);
  }

  #removeFromIndexes(key: RowKey, row: Row): void {
    if ("due" in row && row.due !== null) this.#deadlines.remove({ due: row.due, key });
    if (row.kind !== "task") return;
    if (row.line !== null) removeFromList(this.#taskQueues, row.line, { band: row.band, rank: row.rank ?? 0, id: row.id });
    if (row.phase === "leased" && row.worker !== null) removeFromList(this.#heldTasks, row.worker, row.id);
  }
}

function getOrCreateList<T>(lists: Map<string, SortedList<T>>, name: string, compare: (a: T, b: T) => number): SortedList<T> {
  let list = lists.get(name);
  if (list === undefined) {
    list = new SortedList<T>(compare);
    lists.set(name, list);
  }
  return list;
}

function removeFromList<T>(lists: Map<string, SortedList<T>>, name: string, item: T): void {
  const list = lists.get(name);
  if (list === undefined) throw new Error(`the memory store has no list ${name}`);
  list.remove(item);
  if (list.size === 0) lists.delete(name);
}
