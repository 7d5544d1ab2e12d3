// Reads outside a turn, on a connection of their own that cannot write: pages and the log. May live in another thread or process
// than the writer. Every answer is one snapshot, so a page and the position it is true at belong together.

import {
  type EventPage,
  type EventQuery,
  type PageOf,
  type PageQuery,
  type Position,
  runOf,
  type StoreReader,
  type TaskCount,
  type TaskRow,
  type Tenant,
  type WorkerCount,
  type WorkerRow,
} from "@astraflow/engine";
import { compareCounts } from "../../common/compare-counts.ts";
import { cutLogPage, decodeLogRows } from "../../common/log-rows.ts";
import { cutPage, type HeadlessPage, hasHead, type PageFor, searchScannedRowsMax } from "../../common/page-filters.ts";
import { taskPhases, workerPhases } from "../../common/row-shape.ts";
import { openDatabase, type SqliteCells, SqliteConnection } from "../file/connection.ts";
import { columnsByKind, decodeRow, isOpenSql } from "../rows/columns.ts";
import { internedNumberSql } from "../rows/interned-texts.ts";
import { logRowsBackwardsSql, logRowsSql, readSubjectHistory, readSubjectHistoryBackwards } from "../search/subject-history.ts";
import { readChunks, readDocuments, readNamedDocuments, readTaskQueueDepths } from "./document-pages.ts";
import { findOwnRun, readRun, readRuns, readTask, readTasks } from "./run-pages.ts";

const busyMs = 2_000;

/** Live runs by tenant and phase, then their tasks by range: what has ended long ago is never touched. */
export const openTaskCountsSql = `SELECT tenant.id, task.phase, count(*) FROM tenant
  CROSS JOIN run INDEXED BY run_phase ON run.tenant = tenant.id AND run.phase IN (0, 1, 2) AND run.phase <> 3
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE ${isOpenSql} GROUP BY tenant.id, task.phase ORDER BY 1, 2`;

/** One tenant's, up to a number of tasks: a million in queue cost no more than that. */
export const boundedTaskCountsSql = `SELECT ?1, phase, count(*) FROM (
  SELECT task.phase AS phase FROM run INDEXED BY run_phase
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE run.tenant = ?1 AND run.phase IN (0, 1, 2) AND run.phase <> 3 AND ${isOpenSql} LIMIT ?2
) GROUP BY phase`;
const workerCountsSql = "SELECT tenant, phase, draining, count(*) FROM worker GROUP BY tenant, phase, draining";
const tenantsSql = "SELECT id FROM tenant WHERE id > ? AND position > 0 ORDER BY id LIMIT ?";
const keySql = `SELECT ${columnsByKind.key.names} FROM key WHERE id = ?`;
export const heldTasksSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE worker = ${internedNumberSql} AND phase = 3 ORDER BY id LIMIT ?`;

export function openSqliteReader(options: { file: string; searchedRows?: number }): StoreReader {
  const db = openDatabase(options.file, { readOnly: true, busyMs });
  const connection = new SqliteConnection(db, { statements: 0, rows: 0, commits: 0, turns: 0 }, null);
  return new SqliteReader(connection, options.searchedRows ?? searchScannedRowsMax);
}

class SqliteReader implements StoreReader {
  readonly #connection: SqliteConnection;
  readonly #searchedRows: number;

  constructor(connection: SqliteConnection, searchedRows: number) {
    this.#connection = connection;
    this.#searchedRows = searchedRows;
  }

  async events(query: EventQuery): Promise<EventPage> {
    return this.#inSnapshot(() => {
      const { position, floor, indexed } = this.#readTenant(query.tenant);
      const rows = this.#readLogCells(query, indexed);
      return cutLogPage(decodeLogRows(query.tenant, rows), query, position, floor);
    });
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return this.#inSnapshot(() => {
      const page = this.#readPage(query);
      return (hasHead(query) ? { ...page, head: this.#readTenant(query.tenant).position } : page) as PageOf<Q>;
    });
  }

  async close(): Promise<void> {
    this.#connection.db.close();
  }

  #readLogCells({ tenant, after, subject, before }: EventQuery, indexed: Position): Iterable<SqliteCells> {
    if (before === undefined)
      return subject === undefined
        ? this.#connection.iterate(logRowsSql, tenant, after)
        : readSubjectHistory(this.#connection, { tenant, after, subject }, indexed);
    return subject === undefined
      ? this.#connection.iterate(logRowsBackwardsSql, tenant, before)
      : readSubjectHistoryBackwards(this.#connection, { tenant, before, subject }, indexed);
  }

  #readPage(query: PageQuery): HeadlessPage {
    switch (query.page) {
      case "runs":
        return readRuns(this.#connection, query, this.#searchedRows);
      case "run":
        return { detail: readRun(this.#connection, query) };
      case "tasks":
        return readTasks(this.#connection, query);
      case "task":
        return readTask(this.#connection, query);
      case "docs":
        return readDocuments(this.#connection, query, this.#searchedRows);
      case "doc":
        return { items: readNamedDocuments(this.#connection, query) };
      case "chunks": {
        const isTheirs = findOwnRun(this.#connection, query.tenant, runOf(query.task)) !== null;
        return { items: isTheirs ? readChunks(this.#connection, query) : [] };
      }
      case "lines":
        return { items: readTaskQueueDepths(this.#connection, query) };
      case "workers": {
        const sql = `SELECT ${columnsByKind.worker.names} FROM worker WHERE id > ? AND id < ? AND tenant = ? ORDER BY id`;
        const cells = this.#connection.all(sql, `${query.tenant}/`, `${query.tenant}0`, query.tenant);
        return {
          items: cells.map((one) => decodeRow("worker", one)),
        };
      }
      case "routes": {
        const cells = this.#connection.all(`SELECT ${columnsByKind.route.names} FROM route ORDER BY id`);
        return { items: cells.map((one) => decodeRow("route", one)) };
      }
      case "worker":
        return this.#readWorker(query);
      case "tenants": {
        const found = this.#connection.all(tenantsSql, query.after ?? "", query.limit + 1).map(([id]) => String(id));
        return cutPage(found, query.limit, (name) => name);
      }
      case "key": {
        const cells = this.#connection.get(keySql, `${query.tenant}/${query.key}`);
        return {
          key: cells === undefined ? null : decodeRow("key", cells),
        };
      }
      case "crew":
        return { items: this.#connection.all(workerCountsSql).map(decodeWorkerCount).sort(compareCounts) };
      case "depth":
        return { items: this.#countOpenTasks(query).sort(compareCounts) };
    }
  }

  #readWorker(query: PageFor<"worker">): { worker: WorkerRow | null; held: TaskRow[] } {
    const sql = `SELECT ${columnsByKind.worker.names} FROM worker WHERE id = ? AND tenant = ?`;
    const cells = this.#connection.get(sql, query.worker, query.tenant);
    if (cells === undefined) return { worker: null, held: [] };
    const held = this.#connection.all(heldTasksSql, query.worker, query.limit).map((one) => decodeRow("task", one));
    return { worker: decodeRow("worker", cells), held };
  }

  #countOpenTasks({ tenant, max }: PageFor<"depth">): TaskCount[] {
    if (tenant === undefined && max === undefined) return this.#connection.all(openTaskCountsSql).map(decodeTaskCount);
    const tenants =
      tenant === undefined ? this.#connection.all("SELECT id FROM tenant").map((cells) => String(cells[0])) : [tenant];
    // SQLite takes a negative limit for none.
    return tenants.flatMap((one) => this.#connection.all(boundedTaskCountsSql, one, max ?? -1).map(decodeTaskCount));
  }

  #readTenant(tenant: Tenant): { position: Position; floor: Position; indexed: Position } {
    const cells = this.#connection.get("SELECT position, floor, indexed FROM tenant WHERE id = ?", tenant);
    return { position: Number(cells?.[0] ?? 0), floor: Number(cells?.[1] ?? 0), indexed: Number(cells?.[2] ?? 0) };
  }

  #inSnapshot<T>(read: () => T): T {
    const { db } = this.#connection;
    db.exec("BEGIN");
    try {
      return read();
    } finally {
      db.exec("COMMIT");
    }
  }
}

function decodeTaskCount(cells: SqliteCells): TaskCount {
  const phase = taskPhases[Number(cells[1])];
  if (phase === undefined) throw new Error(`a task has phase ${String(cells[1])}`);
  return { tenant: String(cells[0]), phase, tasks: Number(cells[2]) };
}

function decodeWorkerCount(cells: SqliteCells): WorkerCount {
  const phase = workerPhases[Number(cells[1])];
  if (phase === undefined) throw new Error(`a worker has phase ${String(cells[1])}`);
  return { tenant: String(cells[0]), phase, draining: cells[2] === 1, workers: Number(cells[3]) };
}
