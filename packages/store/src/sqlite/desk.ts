// What the one writer knows and can look up: rows through the cache, lines, lists, deadlines, clocks of tenants and lines. Reads
// only; what a commit writes is in commit.ts, and it tells the desk afterwards. After a commit whose outcome is not known nothing
// remembered may be believed: the desk is thrown away with its connection.

import type { Mail, Millis, Position, QueueName, Row, RunId, TaskId, TaskRow, Tenant, WorkerId } from "@astraflow/engine";
import { openPhases, taskPhases } from "../row-shape.ts";
import { hasEnded } from "../unit-check.ts";
import { columnsByKind, type Kind, rowOf } from "./columns.ts";
import type { Connection } from "./connection.ts";
import { Deadlines, type DueId } from "./deadlines.ts";
import { countTailSql } from "./histories.ts";
import { RowCache } from "./row-cache.ts";
import { RowStatements } from "./row-statements.ts";
import { countFresh } from "./search.ts";
import { numberOfSql, Words } from "./words.ts";

export interface TenantState {
  readonly position: Position;
  readonly clock: number;
  readonly floor: Position;
  /** Up to here the index of histories is complete; so many rows lie behind. */
  readonly indexed: Position;
  readonly tailRows: number;
}

/** Tasks that have not ended. */
export const isOpenSql = `task.phase IN (${openPhases.map((phase) => taskPhases.indexOf(phase)).join(", ")})`;

/** Where a line is looked at; the claims of a turn and the looks without a lock share it. Covered by the index task_line. */
export const lineSql = "SELECT id FROM task WHERE line = ? ORDER BY band, rank, id LIMIT ?";
const lineEachSql = "SELECT id FROM task WHERE line = ? ORDER BY band, rank, id";
export const heldSql = `SELECT id FROM task WHERE worker = ${numberOfSql} AND phase = 3 ORDER BY id LIMIT ?`;
export const openSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id > ? AND id < ? AND ${isOpenSql} ORDER BY id LIMIT ?`;
export const rangeSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id > ? AND id <= ? AND id < ? ORDER BY id LIMIT ?`;
const clocksMax = 100_000;
/** Documents with longer bodies are read when they are asked for: the cache counts rows, not bytes. */
const cachedBodyMax = 4_096;

export class Desk {
  readonly connection: Connection;
  readonly cache: RowCache;
  readonly deadlines: Deadlines;
  readonly statements: RowStatements;
  readonly words: Words;
  readonly #tenants = new Map<Tenant, TenantState>();
  readonly #lines = new Map<QueueName, number>();
  /** Only this writer leaves mail here: once the box was seen empty, it stays so until the next letter. */
  #isMailEmpty = false;
  #freshRuns: number | null = null;
  /** Highest id of each table: ids are made in time order, so what lies above is absent, without asking. */
  readonly #highest = new Map<Kind, string | null>();

  constructor(connection: Connection, cacheRows: number) {
    this.connection = connection;
    this.cache = new RowCache(cacheRows);
    this.deadlines = new Deadlines(connection);
    this.statements = new RowStatements(connection);
    this.words = new Words(connection);
  }

  find(kind: Kind, id: string): Row | null {
    const cached = this.cache.get(kind, id);
    if (cached !== undefined) return cached;
    if (this.#isAboveAll(kind, id)) return null;
    const { selected } = columnsByKind[kind];
    const cells = this.connection.get(`SELECT ${selected} FROM ${kind} WHERE id = ?`, id);
    return cells === undefined ? null : this.#keep(kind, rowOf(kind, cells));
  }

  findTask(id: TaskId): TaskRow | null {
    return this.find("task", id) as TaskRow | null;
  }

  /** Brings rows into the cache in one statement a kind, however many are missing. Answers what it had to ask for. */
  preload(wanted: ReadonlyMap<Kind, readonly string[]>): Map<Kind, Map<string, Row | null>> {
    const loaded = new Map<Kind, Map<string, Row | null>>();
    for (const [kind, ids] of wanted) {
      const missing = ids.filter((id) => this.cache.get(kind, id) === undefined && !this.#isAboveAll(kind, id));
      if (missing.length < 2) continue;
      const { selected } = columnsByKind[kind];
      const rows = new Map<string, Row | null>(missing.map((id) => [id, null]));
      const sql = `SELECT ${selected} FROM ${kind} WHERE id IN (SELECT value FROM json_each(?))`;
      for (const cells of this.connection.all(sql, JSON.stringify(missing))) {
        const row = this.#keep(kind, rowOf(kind, cells));
        rows.set(row.id, row);
      }
      loaded.set(kind, rows);
    }
    return loaded;
  }

  /** The head of a line in (band, rank) order. `fits` is asked only when something is to be left out. */
  claim(line: QueueName, limit: number, fits: ((id: TaskId) => boolean) | null): TaskRow[] {
    if (limit <= 0) return [];
    if (fits === null) return this.#tasksBy(this.connection.all(lineSql, line, limit).map((cells) => String(cells[0])));
    const ids: TaskId[] = [];
    for (const cells of this.connection.each(lineEachSql, line)) {
      if (fits(String(cells[0]))) ids.push(String(cells[0]));
      if (ids.length === limit) break;
    }
    return this.#tasksBy(ids);
  }

  heldBy(worker: WorkerId, limit: number): TaskRow[] {
    return this.#tasksBy(this.connection.all(heldSql, worker, Math.max(0, limit)).map((cells) => String(cells[0])));
  }

  openTasks(run: RunId, after: TaskId | "", limit: number): TaskRow[] {
    const from = after === "" ? `${run}.` : after;
    return this.connection
      .all(openSql, from, `${run}/`, Math.max(0, limit))
      .map((cells) => this.#keep("task", rowOf("task", cells)) as TaskRow);
  }

  tasksBetween(run: RunId, after: TaskId, last: TaskId, limit: number): TaskRow[] {
    const from = after < `${run}.` ? `${run}.` : after;
    return this.connection
      .all(rangeSql, from, last, `${run}/`, Math.max(0, limit))
      .map((cells) => this.#keep("task", rowOf("task", cells)) as TaskRow);
  }

  due(now: Millis, limit: number, fits: (id: DueId) => boolean): Row[] {
    return this.deadlines.passed(now, limit, fits).map(({ kind, id }) => this.#must(kind, id));
  }

  mail(replica: string, epoch: number, limit: number): { seq: number; mail: Mail }[] {
    if (limit <= 0 || this.#isMailEmpty) return [];
    const sql = "SELECT seq, id, body FROM mail WHERE replica = ? AND epoch = ? ORDER BY seq LIMIT ?";
    const found = this.connection.all(sql, replica, epoch, limit);
    this.#isMailEmpty = found.length === 0;
    return found.map((cells) => ({
      seq: Number(cells[0]),
      mail: { replica, epoch, id: String(cells[1]), body: String(cells[2]) },
    }));
  }

  tenant(tenant: Tenant): TenantState {
    let state = this.#tenants.get(tenant);
    if (state === undefined) {
      const cells = this.connection.get("SELECT position, clock, floor, indexed FROM tenant WHERE id = ?", tenant);
      const [position, clock, floor, indexed] = (cells ?? [0, 0, 0, 0]).map(Number) as [number, number, number, number];
      state = { position, clock, floor, indexed, tailRows: Number(this.connection.get(countTailSql, tenant, indexed)?.[0] ?? 0) };
      this.#tenants.set(tenant, state);
    }
    return state;
  }

  lineClock(line: QueueName): number {
    let clock = this.#lines.get(line);
    if (clock === undefined) {
      const cells = this.connection.get("SELECT clock FROM line WHERE id = ?", line);
      clock = cells === undefined ? 0 : Number(cells[0]);
      this.setLineClock(line, clock);
    }
    return clock;
  }

  /** Runs that are noted for the index of words. */
  get freshRuns(): number {
    this.#freshRuns ??= countFresh(this.connection);
    return this.#freshRuns;
  }

  setFreshRuns(runs: number): void {
    this.#freshRuns = runs;
  }

  expectMail(): void {
    this.#isMailEmpty = false;
  }

  setTenant(tenant: Tenant, state: TenantState): void {
    this.#tenants.set(tenant, state);
  }

  setLineClock(line: QueueName, clock: number): void {
    if (this.#lines.size >= clocksMax) this.#lines.clear();
    this.#lines.set(line, clock);
  }

  /** A committed image, with the one it replaced. */
  noteWritten(before: Row | null, after: Row | null): void {
    this.deadlines.note(before, after);
    if (after !== null) {
      // What has ended is hardly ever read again; kept, it would push out what lives and grow the heap.
      if (hasEnded(after) || isLong(after)) this.cache.delete(after.kind, after.id);
      else this.cache.set(after);
      if (before === null) this.#raise(after.kind, after.id);
    } else if (before !== null) this.cache.delete(before.kind, before.id);
  }

  #keep(kind: Kind, row: Row): Row {
    const cached = this.cache.get(kind, row.id);
    if (cached !== undefined) return cached;
    if (!isLong(row)) this.cache.set(row);
    return row;
  }

  #must(kind: Kind, id: string): Row {
    const row = this.find(kind, id);
    if (row === null) throw new Error(`${kind}/${id} is in an index but not in its table`);
    return row;
  }

  #tasksBy(ids: readonly TaskId[]): TaskRow[] {
    const loaded = this.preload(new Map([["task", ids]])).get("task");
    // A batch larger than the cache would push its own rows out again, so what was just loaded is looked at first.
    return ids.map((id) => (loaded?.get(id) ?? this.#must("task", id)) as TaskRow);
  }

  #isAboveAll(kind: Kind, id: string): boolean {
    if (kind !== "run" && kind !== "task") return false;
    let highest = this.#highest.get(kind);
    if (highest === undefined) {
      const cells = this.connection.get(`SELECT max(id) FROM ${kind}`);
      highest = typeof cells?.[0] === "string" ? boundOf(cells[0]) : "";
      this.#highest.set(kind, highest);
    }
    return highest !== null && id > highest;
  }

  #raise(kind: Kind, id: string): void {
    const highest = this.#highest.get(kind);
    if (highest !== undefined && highest !== null && id > highest) this.#highest.set(kind, boundOf(id));
  }
}

const isLong = (row: Row): boolean => row.kind === "doc" && row.body.length > cachedBodyMax;

/** JavaScript and SQLite order texts alike as long as the bound is plain ASCII; with any other, the table is asked. */
function boundOf(id: string): string | null {
  for (let at = 0; at < id.length; at++) if (id.charCodeAt(at) > 0x7e) return null;
  return id;
}
