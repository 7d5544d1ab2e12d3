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
import type { LogRow } from "../log.ts";
import { compareText, SortedList } from "./sorted-list.ts";

interface Standing {
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

const byStanding = (a: Standing, b: Standing) => a.band - b.band || a.rank - b.rank || compareText(a.id, b.id);
const byDue = (a: Deadline, b: Deadline) => a.due - b.due || compareText(a.key, b.key);
const byFirst = (a: LogRow, b: LogRow) => a.first - b.first;
const byAttempt = (a: ChunkRow, b: ChunkRow) => a.fence - b.fence || a.first - b.first;

export class Tables {
  readonly rows = new Map<RowKey, Row>();
  readonly replicas = new Map<string, ReplicaState>();
  readonly lineClocks = new Map<QueueName, number>();
  readonly mail: Mail[] = [];
  cluster: string | null = null;
  /** Rows looked at by claims, so that a test can see that a claim reads its own line only. */
  rowsRead = 0;
  readonly #lines = new Map<QueueName, SortedList<Standing>>();
  readonly #due = new SortedList<Deadline>(byDue);
  readonly #held = new Map<WorkerId, SortedList<TaskId>>();
  readonly #tasks = new Map<RunId, SortedList<TaskId>>();
  readonly #tenants = new Map<Tenant, TenantState>();
  readonly #chunks = new Map<TaskId, SortedList<ChunkRow>>();

  put(row: Row): void {
    const key = keyOf(row);
    const before = this.rows.get(key);
    if (before !== undefined) this.#unlist(key, before);
    else if (row.kind === "task") listOf(this.#tasks, row.run, compareText).add(row.id);
    // A turn that changes a row in place would hide a missing put; frozen rows make it throw.
    if (row.kind === "key") Object.freeze(row.holders);
    this.rows.set(key, Object.freeze(row));
    this.#list(key, row);
  }

  drop(key: RowKey): void {
    const before = this.rows.get(key);
    if (before === undefined) return;
    this.#unlist(key, before);
    if (before.kind === "task") removeFrom(this.#tasks, before.run, before.id);
    this.rows.delete(key);
  }

  /** What is there already stays as it is. */
  putChunk(chunk: ChunkRow): void {
    const chunks = listOf(this.#chunks, chunk.task, byAttempt);
    const [there] = chunks.from(chunk);
    if (there === undefined || byAttempt(there, chunk) !== 0) chunks.add(Object.freeze({ ...chunk }));
  }

  /** By fence, then by number. */
  chunksOf(task: TaskId): Iterable<ChunkRow> {
    return this.#chunks.get(task) ?? [];
  }

  dropChunks(before: Millis): void {
    for (const chunks of [...this.#chunks.values()])
      for (const chunk of [...chunks]) if (chunk.at < before) removeFrom(this.#chunks, chunk.task, chunk);
  }

  /** Lines somebody stands in, by name. */
  lineNames(): QueueName[] {
    return [...this.#lines.keys()].sort(compareText);
  }

  task(id: TaskId): TaskRow | null {
    const row = this.rows.get(`task/${id}`);
    return row?.kind === "task" ? row : null;
  }

  *line(line: QueueName): Generator<TaskRow> {
    for (const { id } of this.#lines.get(line) ?? []) {
      this.rowsRead++;
      yield this.#mustTask(id);
    }
  }

  *held(worker: WorkerId): Generator<TaskRow> {
    for (const id of this.#held.get(worker) ?? []) yield this.#mustTask(id);
  }

  /** Tasks of a run in id order, after `after`. */
  *tasksOf(run: RunId, after: TaskId | ""): Generator<TaskRow> {
    for (const id of this.#tasks.get(run)?.from(after) ?? []) if (id !== after) yield this.#mustTask(id);
  }

  *dueBy(now: Millis): Generator<Row> {
    for (const { due, key } of this.#due) {
      if (due > now) return;
      const row = this.rows.get(key);
      if (row !== undefined) yield row;
    }
  }

  dueAfter(now: Millis): Millis | null {
    for (const { due } of this.#due.from({ due: now + Number.MIN_VALUE, key: "run/" })) if (due > now) return due;
    return null;
  }

  tenant(tenant: Tenant): TenantState {
    let state = this.#tenants.get(tenant);
    if (state === undefined) {
      state = { position: 0, sequence: 0, clock: 0, floor: 0, log: new SortedList<LogRow>(byFirst) };
      this.#tenants.set(tenant, state);
    }
    return state;
  }

  /** Those that have a log; the others were only asked about. */
  tenantNames(): Tenant[] {
    return [...this.#tenants].flatMap(([name, { position }]) => (position > 0 ? [name] : [])).sort(compareText);
  }

  #mustTask(id: TaskId): TaskRow {
    const row = this.task(id);
    if (row === null) throw new Error(`the memory store lists task ${id} but does not hold it`);
    return row;
  }

  #list(key: RowKey, row: Row): void {
    if ("due" in row && row.due !== null) this.#due.add({ due: row.due, key });
    if (row.kind !== "task") return;
    if (row.line !== null) listOf(this.#lines, row.line, byStanding).add({ band: row.band, rank: row.rank ?? 0, id: row.id });
    if (row.phase === "leased" && row.worker !== null) listOf(this.#held, row.worker, compareText).add(row.id);
  }

  #unlist(key: RowKey, row: Row): void {
    if ("due" in row && row.due !== null) this.#due.remove({ due: row.due, key });
    if (row.kind !== "task") return;
    if (row.line !== null) removeFrom(this.#lines, row.line, { band: row.band, rank: row.rank ?? 0, id: row.id });
    if (row.phase === "leased" && row.worker !== null) removeFrom(this.#held, row.worker, row.id);
  }
}

function listOf<T>(lists: Map<string, SortedList<T>>, name: string, compare: (a: T, b: T) => number): SortedList<T> {
  let list = lists.get(name);
  if (list === undefined) {
    list = new SortedList<T>(compare);
    lists.set(name, list);
  }
  return list;
}

function removeFrom<T>(lists: Map<string, SortedList<T>>, name: string, item: T): void {
  const list = lists.get(name);
  if (list === undefined) throw new Error(`the memory store has no list ${name}`);
  list.remove(item);
  if (list.size === 0) lists.delete(name);
}
