// The committed state of the memory store: rows, the indexes the port needs, logs, clocks, mail, replicas.

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
import { compareDeadlines, compareQueuedTasks, compareText, type Deadline } from "../common/row-order.ts";
import type { RowKind, RowOfKind } from "../common/row-shape.ts";
import { SortedList, SortedLists } from "./sorted-list.ts";

export interface TenantState {
  position: Position;
  /** Only the planted bug hands positions out ahead of the commit. */
  sequence: Position;
  clock: number;
  floor: Position;
  /** The highest position that was removed with its run, or by its age. */
  removed: Position;
  readonly log: SortedList<LogRow>;
}

export interface ReplicaState {
  epoch: number;
  lastTurn: number;
  readonly turns: Set<number>;
}

const compareLogRows = (a: LogRow, b: LogRow) => a.first - b.first;
const compareChunks = (a: ChunkRow, b: ChunkRow) => a.fence - b.fence || a.first - b.first;

export class MemoryTables {
  readonly rows = new Map<RowKey, Row>();
  readonly replicas = new Map<string, ReplicaState>();
  readonly taskQueueClocks = new Map<QueueName, number>();
  mail: Mail[] = [];
  cluster: string | null = null;
  /** Rows looked at by claims, so that a test can see that a claim reads its own line only. */
  rowsRead = 0;
  readonly #taskQueues = new SortedLists<QueueName, Pick<TaskRow, "band" | "rank" | "id">>(compareQueuedTasks);
  readonly #deadlines = new SortedList<Deadline>(compareDeadlines);
  readonly #heldTasks = new SortedLists<WorkerId, TaskId>(compareText);
  readonly #tasks = new SortedLists<RunId, TaskId>(compareText);
  readonly #tenants = new Map<Tenant, TenantState>();
  readonly #chunks = new SortedLists<TaskId, ChunkRow>(compareChunks);

  put(row: Row): void {
    const key = keyOf(row);
    const before = this.rows.get(key);
    if (before !== undefined) this.#changeIndexes("remove", key, before);
    else if (row.kind === "task") this.#tasks.add(row.run, row.id);
    // A turn that changes a row in place would hide a missing put; frozen rows make it throw.
    if (row.kind === "key") Object.freeze(row.holders);
    this.rows.set(key, Object.freeze(row));
    this.#changeIndexes("add", key, row);
  }

  find<K extends RowKind>(kind: K, id: string): RowOfKind<K> | null {
    return (this.rows.get(`${kind}/${id}`) as RowOfKind<K> | undefined) ?? null;
  }

  all<K extends RowKind>(kind: K): RowOfKind<K>[] {
    return [...this.rows.values()].filter((row) => row.kind === kind) as RowOfKind<K>[];
  }

  drop(key: RowKey): void {
    const before = this.rows.get(key);
    if (before === undefined) return;
    this.#changeIndexes("remove", key, before);
    if (before.kind === "task") this.#tasks.remove(before.run, before.id);
    this.rows.delete(key);
  }

  /** What is there already stays as it is. */
  putChunk(chunk: ChunkRow): void {
    const [there] = this.#chunks.get(chunk.task)?.from(chunk) ?? [];
    if (there === undefined || compareChunks(there, chunk) !== 0) this.#chunks.add(chunk.task, Object.freeze({ ...chunk }));
  }

  /** The same message is stored once. */
  putMail(mail: Mail): void {
    const isSame = ({ replica, epoch, id }: Mail) => replica === mail.replica && epoch === mail.epoch && id === mail.id;
    if (!this.mail.some(isSame)) this.mail.push(mail);
  }

  /** By fence, then by number. */
  chunksOf(task: TaskId): Iterable<ChunkRow> {
    return this.#chunks.get(task) ?? [];
  }

  /** Answers how many rows of output went. */
  dropChunksOf(task: TaskId): number {
    const chunks = [...this.chunksOf(task)];
    for (const chunk of chunks) this.#chunks.remove(task, chunk);
    return chunks.length;
  }

  dropChunks(before: Millis): void {
    for (const task of this.#chunks.names())
      for (const chunk of [...this.chunksOf(task)]) if (chunk.at < before) this.#chunks.remove(task, chunk);
  }

  /** Lines somebody stands in, by name. */
  taskQueueNames(): QueueName[] {
    return this.#taskQueues.names().sort(compareText);
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
      state = { position: 0, sequence: 0, clock: 0, floor: 0, removed: 0, log: new SortedList<LogRow>(compareLogRows) };
      this.#tenants.set(tenant, state);
    }
    return state;
  }

  /** Those that have a log; the others were only asked about. */
  tenantNames(): Tenant[] {
    return [...this.#tenants].flatMap(([name, { position }]) => (position > 0 ? [name] : [])).sort(compareText);
  }

  #requireTask(id: TaskId): TaskRow {
    const row = this.find("task", id);
    if (row === null) throw new Error(`the memory store lists task ${id} but does not hold it`);
    return row;
  }

  #changeIndexes(change: "add" | "remove", key: RowKey, row: Row): void {
    if ("due" in row && row.due !== null) this.#deadlines[change]({ due: row.due, key });
    if (row.kind !== "task") return;
    if (row.line !== null) this.#taskQueues[change](row.line, row);
    if (row.phase === "leased" && row.worker !== null) this.#heldTasks[change](row.worker, row.id);
  }
}

/** The first `limit` entries that fit; nothing behind them is read. */
export function takeFirst<T>(items: Iterable<T>, limit: number, matches: (item: T) => boolean = () => true): T[] {
  const found: T[] = [];
  for (const item of items) {
    if (matches(item)) found.push(item);
    if (found.length >= limit) break;
  }
  return found;
}
