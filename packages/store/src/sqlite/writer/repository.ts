// The cached reads of the one writer. After an unknown outcome the caches may be wrong: the repository is discarded with its connection.

import type { StatementSync } from "node:sqlite";
import type { Mail, Millis, Position, QueueName, Row, RunId, TaskId, TaskRow, Tenant, WorkerId } from "@astraflow/engine";
import type { Deadline } from "../../common/row-order.ts";
import { hasEnded, mapKinds, type RowKind } from "../../common/row-shape.ts";
import type { SqliteConnection } from "../file/connection.ts";
import { columnsByKind, decodeRow, isOpenSql, updateSql } from "../rows/columns.ts";
import { DeadlineIndex } from "../rows/deadline-index.ts";
import { InternedTexts, internedNumberSql } from "../rows/interned-texts.ts";
import { RowCache, type RowCacheLimits } from "../rows/row-cache.ts";
import { withLazyValues } from "../rows/task-values.ts";
import { countUnindexedRuns } from "../search/run-search.ts";
import { countUnindexedSql } from "../search/subject-history.ts";

export interface StoredTenant {
  readonly position: Position;
  readonly clock: number;
  readonly floor: Position;
  /** The highest position that was removed with its run, or by its age. */
  readonly removed: Position;
  /** Up to here the index of histories is complete; so many rows lie behind. */
  readonly indexed: Position;
  readonly unindexedRows: number;
}

/** Where a line is looked at; the claims of a turn and the looks without a lock share it. Covered by the index task_line. */
export const queueHeadSql = "SELECT id FROM task WHERE line = ? ORDER BY band, rank, id LIMIT ?";
const queueIteratorSql = "SELECT id FROM task WHERE line = ? ORDER BY band, rank, id";
export const heldTaskIdsSql = `SELECT id FROM task WHERE worker = ${internedNumberSql} AND phase = 3 ORDER BY id LIMIT ?`;
const tasksAfterSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id > ?1 AND id < ?2`;
export const openTasksSql = `${tasksAfterSql} AND ${isOpenSql} ORDER BY id LIMIT ?3`;
export const taskRangeSql = `${tasksAfterSql} AND id <= ?4 ORDER BY id LIMIT ?3`;
const cachedClocksMax = 100_000;
const updatesMax = 128;
/** Longer bodies are read when they are asked for: a document is seldom read twice, a definition is compiled once. */
const cachedBodyCharsMax = { doc: 4_096, workflow: 64 * 1024 };

export interface RepositoryLimits extends RowCacheLimits {
  /** How many rows of a tenant's log may be outside the index of histories. */
  readonly unindexedLogRowsMax: number;
  /** How many runs may be outside the index of words. */
  readonly unindexedRunsMax: number;
}

export class SqliteRepository {
  readonly connection: SqliteConnection;
  readonly cache: RowCache;
  readonly deadlines: DeadlineIndex;
  readonly internedTexts: InternedTexts;
  readonly limits: RepositoryLimits;
  readonly #tenants = new Map<Tenant, StoredTenant>();
  readonly #taskQueueClocks = new Map<QueueName, number>();
  /** By the columns that change: rows change in few ways. */
  readonly #updates = mapKinds(() => new Map<number, StatementSync>());
  /** Only this writer leaves mail here: once the box was seen empty, it stays empty until the next message. */
  isMailEmpty = false;
  /** Runs that are noted for the index of words. */
  unindexedRuns: number;
  /** Highest id of each table: ids are made in time order, so what lies above is absent, without asking. */
  readonly #highestIds = new Map<RowKind, string | null>();

  constructor(connection: SqliteConnection, limits: RepositoryLimits) {
    this.connection = connection;
    this.limits = limits;
    this.cache = new RowCache(limits);
    this.deadlines = new DeadlineIndex(connection);
    this.internedTexts = new InternedTexts(connection);
    this.unindexedRuns = countUnindexedRuns(connection);
  }

  find(kind: RowKind, id: string): Row | null {
    const cached = this.cache.get(kind, id);
    if (cached !== undefined) return this.#present(cached);
    if (this.#isAboveHighestId(kind, id)) return null;
    const { selected } = columnsByKind[kind];
    const cells = this.connection.get(`SELECT ${selected} FROM ${kind} WHERE id = ?`, id);
    return cells === undefined ? null : this.#cacheRow(kind, decodeRow(kind, cells));
  }

  /** Brings rows into the cache in one statement a kind, however many are missing. Answers what it had to ask for. */
  preload(wanted: ReadonlyMap<RowKind, readonly string[]>): Map<RowKind, Map<string, Row | null>> {
    const loaded = new Map<RowKind, Map<string, Row | null>>();
    for (const [kind, ids] of wanted) {
      const missing = ids.filter((id) => this.cache.get(kind, id) === undefined && !this.#isAboveHighestId(kind, id));
      if (missing.length < 2) continue;
      const { selected } = columnsByKind[kind];
      const rows = new Map<string, Row | null>(missing.map((id) => [id, null]));
      const sql = `SELECT ${selected} FROM ${kind} WHERE id IN (SELECT value FROM json_each(?))`;
      for (const cells of this.connection.all(sql, JSON.stringify(missing))) {
        const row = this.#cacheRow(kind, decodeRow(kind, cells));
        rows.set(row.id, row);
      }
      loaded.set(kind, rows);
    }
    return loaded;
  }

  /** The head of a line in (band, rank) order. `fits` is asked only when something is to be left out. */
  queueHead(line: QueueName, limit: number, matches: ((id: TaskId) => boolean) | null): TaskRow[] {
    if (limit <= 0) return [];
    if (matches === null) return this.#loadTasks(this.#readIds(queueHeadSql, line, limit));
    const ids: TaskId[] = [];
    for (const cells of this.connection.iterate(queueIteratorSql, line)) {
      if (matches(String(cells[0]))) ids.push(String(cells[0]));
      if (ids.length === limit) break;
    }
    return this.#loadTasks(ids);
  }

  heldBy(worker: WorkerId, limit: number): TaskRow[] {
    return this.#loadTasks(this.#readIds(heldTaskIdsSql, worker, Math.max(0, limit)));
  }

  openTasks(run: RunId, after: TaskId | "", limit: number): TaskRow[] {
    return this.#readTasks(openTasksSql, after === "" ? `${run}.` : after, `${run}/`, limit);
  }

  tasksBetween(run: RunId, after: TaskId, last: TaskId, limit: number): TaskRow[] {
    return this.#readTasks(taskRangeSql, after < `${run}.` ? `${run}.` : after, `${run}/`, limit, last);
  }

  findDueRows(now: Millis, limit: number, matches: (row: Deadline) => boolean): Row[] {
    return this.deadlines.findPassed(now, limit, matches).map(({ kind, id }) => this.#requireRow(kind, id));
  }

  findMail(replica: string, epoch: number, limit: number): { seq: number; mail: Mail }[] {
    if (limit <= 0 || this.isMailEmpty) return [];
    const sql = "SELECT seq, id, body FROM mail WHERE replica = ? AND epoch = ? ORDER BY seq LIMIT ?";
    const found = this.connection.all(sql, replica, epoch, limit);
    this.isMailEmpty = found.length === 0;
    return found.map(([seq, id, body]) => ({ seq: Number(seq), mail: { replica, epoch, id: String(id), body: String(body) } }));
  }

  tenant(tenant: Tenant): StoredTenant {
    let state = this.#tenants.get(tenant);
    if (state === undefined) {
      const cells = this.connection.get("SELECT position, clock, floor, removed, indexed FROM tenant WHERE id = ?", tenant);
      const numbers = (cells ?? [0, 0, 0, 0, 0]).map(Number) as [number, number, number, number, number];
      const [position, clock, floor, removed, indexed] = numbers;
      const [unindexedRows] = this.connection.get(countUnindexedSql, tenant, indexed) ?? [];
      state = { position, clock, floor, removed, indexed, unindexedRows: Number(unindexedRows ?? 0) };
      this.#tenants.set(tenant, state);
    }
    return state;
  }

  taskQueueClock(line: QueueName): number {
    let clock = this.#taskQueueClocks.get(line);
    if (clock === undefined) {
      const cells = this.connection.get("SELECT clock FROM line WHERE id = ?", line);
      clock = cells === undefined ? 0 : Number(cells[0]);
      this.setTaskQueueClock(line, clock);
    }
    return clock;
  }

  /** Names only the columns that change: it binds less, and leaves the indexes of other columns alone. */
  updateStatement(kind: RowKind, mask: number): StatementSync {
    const updates = this.#updates[kind];
    let statement = updates.get(mask);
    if (statement === undefined) {
      if (updates.size >= updatesMax) updates.clear();
      statement = this.connection.db.prepare(updateSql(kind, mask));
      updates.set(mask, statement);
    }
    return statement;
  }

  setTenant(tenant: Tenant, state: StoredTenant): void {
    this.#tenants.set(tenant, state);
  }

  setTaskQueueClock(line: QueueName, clock: number): void {
    if (this.#taskQueueClocks.size >= cachedClocksMax) this.#taskQueueClocks.clear();
    this.#taskQueueClocks.set(line, clock);
  }

  /** A committed image as the table has it, with the one it replaced. */
  noteWritten(before: Row | null, after: Row | null): void {
    this.deadlines.noteWritten(before, after);
    if (after !== null) {
      // What has ended is hardly ever read again; kept, it would push out what lives and grow the heap.
      if (hasEnded(after) || hasLongBody(after)) this.cache.delete(after.kind, after.id);
      else this.cache.set(after);
      if (before === null) this.#raiseHighestId(after.kind, after.id);
    } else if (before !== null) this.cache.delete(before.kind, before.id);
  }

  #readIds(sql: string, of: string, limit: number): TaskId[] {
    return this.connection.all(sql, of, limit).map(([id]) => String(id));
  }

  #readTasks(sql: string, after: TaskId, below: string, limit: number, ...rest: readonly TaskId[]): TaskRow[] {
    const found = this.connection.all(sql, after, below, Math.max(0, limit), ...rest);
    return found.map((cells) => this.#cacheRow("task", decodeRow("task", cells)) as TaskRow);
  }

  #cacheRow(kind: RowKind, row: Row): Row {
    const cached = this.cache.get(kind, row.id);
    if (cached !== undefined) return this.#present(cached);
    if (!hasLongBody(row)) this.cache.set(row);
    return this.#present(row);
  }

  /** A row of the cache or the table as a turn sees it. */
  #present(row: Row): Row {
    return row.kind === "task" ? withLazyValues(this.connection, row) : row;
  }

  #requireRow(kind: RowKind, id: string): Row {
    const row = this.find(kind, id);
    if (row === null) throw new Error(`${kind}/${id} is in an index but not in its table`);
    return row;
  }

  #loadTasks(ids: readonly TaskId[]): TaskRow[] {
    const loaded = this.preload(new Map([["task", ids]])).get("task");
    // A batch larger than the cache would push its own rows out again, so what was just loaded is looked at first.
    return ids.map((id) => (loaded?.get(id) ?? this.#requireRow("task", id)) as TaskRow);
  }

  #isAboveHighestId(kind: RowKind, id: string): boolean {
    if (kind !== "run" && kind !== "task") return false;
    let highest = this.#highestIds.get(kind);
    if (highest === undefined) {
      const cells = this.connection.get(`SELECT max(id) FROM ${kind}`);
      highest = typeof cells?.[0] === "string" ? asciiBound(cells[0]) : "";
      this.#highestIds.set(kind, highest);
    }
    return highest !== null && id > highest;
  }

  #raiseHighestId(kind: RowKind, id: string): void {
    const highest = this.#highestIds.get(kind);
    if (highest !== undefined && highest !== null && id > highest) this.#highestIds.set(kind, asciiBound(id));
  }
}

const hasLongBody = (row: Row): boolean =>
  (row.kind === "doc" || row.kind === "workflow") && row.body.length > cachedBodyCharsMax[row.kind];

/** JavaScript and SQLite order texts alike as long as the bound is plain ASCII; with any other, the table is asked. */
function asciiBound(id: string): string | null {
  for (let at = 0; at < id.length; at++) if (id.charCodeAt(at) > 0x7e) return null;
  return id;
}
