// Reads outside a turn, on a connection of their own that cannot write: pages and the log. May live in another thread or process
// than the writer. Every answer is one snapshot, so a page and the position it is true at belong together.

import {
  type ConcurrencyKeyRow,
  type EventPage,
  type EventQuery,
  type PageOf,
  type PageQuery,
  type Position,
  type RouteRow,
  runOf,
  type StoreReader,
  type TaskCount,
  type TaskRow,
  type Tenant,
  type WorkerCount,
  type WorkerRow,
} from "@astraflow/engine";
import { byCrew } from "../crew.ts";
import { type LogRow, pageOfLog, unpackFacts } from "../log.ts";
import { type PageFor, searchedMax } from "../paging.ts";
import { taskPhases, workerPhases } from "../row-shape.ts";
import { columnsByKind, rowOf } from "./columns.ts";
import { type Cells, Connection, openDatabase } from "./connection.ts";
import { isOpenSql } from "./desk.ts";
import { readChunks, readDocs, readLines, readNamedDocs } from "./doc-pages.ts";
import { eventsBackSql, eventsSql, readHistory, readHistoryBack } from "./histories.ts";
import { ownRun, readRun, readRuns, readTask, readTasks } from "./run-pages.ts";
import { numberOfSql } from "./words.ts";

const busyMs = 2_000;

/** Live runs by tenant and phase, then their tasks by range: what has ended long ago is never touched. */
export const depthSql = `SELECT tenant.id, task.phase, count(*) FROM tenant
  CROSS JOIN run INDEXED BY run_phase ON run.tenant = tenant.id AND run.phase IN (0, 1, 2) AND run.phase <> 3
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE ${isOpenSql} GROUP BY tenant.id, task.phase ORDER BY 1, 2`;

/** One tenant's, up to a number of tasks: a million in queue cost no more than that. */
export const boundedDepthSql = `SELECT ?1, phase, count(*) FROM (
  SELECT task.phase AS phase FROM run INDEXED BY run_phase
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE run.tenant = ?1 AND run.phase IN (0, 1, 2) AND run.phase <> 3 AND ${isOpenSql} LIMIT ?2
) GROUP BY phase`;
const crewSql = "SELECT tenant, phase, draining, count(*) FROM worker GROUP BY tenant, phase, draining";
const tenantsSql = "SELECT id FROM tenant WHERE id > ? AND position > 0 ORDER BY id LIMIT ?";
const keySql = `SELECT ${columnsByKind.key.names} FROM key WHERE id = ?`;
export const heldSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE worker = ${numberOfSql} AND phase = 3 ORDER BY id LIMIT ?`;

export function openSqliteReader(options: { file: string; searchedRows?: number }): StoreReader {
  const db = openDatabase(options.file, { readOnly: true, busyMs });
  const connection = new Connection(db, { statements: 0, rows: 0, commits: 0, turns: 0 }, null);
  return new SqliteReader(connection, options.searchedRows ?? searchedMax);
}

class SqliteReader implements StoreReader {
  readonly #connection: Connection;
  readonly #searchedRows: number;

  constructor(connection: Connection, searchedRows: number) {
    this.#connection = connection;
    this.#searchedRows = searchedRows;
  }

  async events(query: EventQuery): Promise<EventPage> {
    return this.#snapshot(() => {
      const { position, floor, indexed } = this.#tenant(query.tenant);
      const rows = this.#logCells(query, indexed);
      return pageOfLog(logRows(query.tenant, rows), query, position, floor);
    });
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return this.#snapshot(() => this.#answer(query) as PageOf<Q>);
  }

  async close(): Promise<void> {
    this.#connection.db.close();
  }

  #logCells({ tenant, after, subject, before }: EventQuery, indexed: Position): Iterable<Cells> {
    if (before === undefined)
      return subject === undefined
        ? this.#connection.each(eventsSql, tenant, after)
        : readHistory(this.#connection, { tenant, after, subject }, indexed);
    return subject === undefined
      ? this.#connection.each(eventsBackSql, tenant, before)
      : readHistoryBack(this.#connection, { tenant, before, subject }, indexed);
  }

  #answer(query: PageQuery): PageOf<PageQuery> {
    switch (query.page) {
      case "runs":
        return { ...readRuns(this.#connection, query, this.#searchedRows), head: this.#tenant(query.tenant).position };
      case "run":
        return { detail: readRun(this.#connection, query), head: this.#tenant(query.tenant).position };
      case "tasks":
        return { ...readTasks(this.#connection, query), head: this.#tenant(query.tenant).position };
      case "task":
        return { ...readTask(this.#connection, query), head: this.#tenant(query.tenant).position };
      case "docs":
        return { ...readDocs(this.#connection, query, this.#searchedRows), head: this.#tenant(query.tenant).position };
      case "doc":
        return { items: readNamedDocs(this.#connection, query), head: this.#tenant(query.tenant).position };
      case "chunks": {
        const isTheirs = ownRun(this.#connection, query.tenant, runOf(query.task)) !== null;
        return { items: isTheirs ? readChunks(this.#connection, query) : [], head: this.#tenant(query.tenant).position };
      }
      case "lines":
        return { items: readLines(this.#connection, query), head: this.#tenant(query.tenant).position };
      case "workers": {
        const sql = `SELECT ${columnsByKind.worker.names} FROM worker WHERE id > ? AND id < ? AND tenant = ? ORDER BY id`;
        const cells = this.#connection.all(sql, `${query.tenant}/`, `${query.tenant}0`, query.tenant);
        return { items: cells.map((one) => rowOf("worker", one) as WorkerRow), head: this.#tenant(query.tenant).position };
      }
      case "routes": {
        const cells = this.#connection.all(`SELECT ${columnsByKind.route.names} FROM route ORDER BY id`);
        return { items: cells.map((one) => rowOf("route", one) as RouteRow) };
      }
      case "worker":
        return { ...this.#worker(query), head: this.#tenant(query.tenant).position };
      case "tenants": {
        const cells = this.#connection.all(tenantsSql, query.after ?? "", query.limit + 1);
        const items = cells.slice(0, query.limit).map(([id]) => String(id));
        return { items, next: cells.length > items.length ? (items.at(-1) ?? null) : null };
      }
      case "key": {
        const cells = this.#connection.get(keySql, `${query.tenant}/${query.key}`);
        return {
          key: cells === undefined ? null : (rowOf("key", cells) as ConcurrencyKeyRow),
          head: this.#tenant(query.tenant).position,
        };
      }
      case "crew":
        return { items: this.#connection.all(crewSql).map(crewCountOf).sort(byCrew) };
      case "depth":
        return { items: this.#depth(query).sort(byTenantAndPhase) };
    }
  }

  #worker(query: PageFor<"worker">): { worker: WorkerRow | null; held: TaskRow[] } {
    const sql = `SELECT ${columnsByKind.worker.names} FROM worker WHERE id = ? AND tenant = ?`;
    const cells = this.#connection.get(sql, query.worker, query.tenant);
    if (cells === undefined) return { worker: null, held: [] };
    const held = this.#connection.all(heldSql, query.worker, query.limit).map((one) => rowOf("task", one) as TaskRow);
    return { worker: rowOf("worker", cells) as WorkerRow, held };
  }

  #depth({ tenant, max }: PageFor<"depth">): TaskCount[] {
    if (tenant === undefined && max === undefined) return this.#connection.all(depthSql).map(depthOf);
    const tenants =
      tenant === undefined ? this.#connection.all("SELECT id FROM tenant").map((cells) => String(cells[0])) : [tenant];
    // SQLite takes a negative limit for none.
    return tenants.flatMap((one) => this.#connection.all(boundedDepthSql, one, max ?? -1).map(depthOf));
  }

  #tenant(tenant: Tenant): { position: Position; floor: Position; indexed: Position } {
    const cells = this.#connection.get("SELECT position, floor, indexed FROM tenant WHERE id = ?", tenant);
    return { position: Number(cells?.[0] ?? 0), floor: Number(cells?.[1] ?? 0), indexed: Number(cells?.[2] ?? 0) };
  }

  #snapshot<T>(read: () => T): T {
    const { db } = this.#connection;
    db.exec("BEGIN");
    try {
      return read();
    } finally {
      db.exec("COMMIT");
    }
  }
}

function* logRows(tenant: Tenant, rows: Iterable<Cells>): Generator<LogRow> {
  for (const [first, last, at, subject, facts] of rows)
    yield {
      tenant,
      first: Number(first),
      last: Number(last),
      at: Number(at),
      subject: String(subject) as LogRow["subject"],
      facts: unpackFacts(String(facts)),
    };
}

function depthOf(cells: Cells): TaskCount {
  const phase = taskPhases[Number(cells[1])];
  if (phase === undefined) throw new Error(`a task has phase ${String(cells[1])}`);
  return { tenant: String(cells[0]), phase, tasks: Number(cells[2]) };
}

function crewCountOf(cells: Cells): WorkerCount {
  const phase = workerPhases[Number(cells[1])];
  if (phase === undefined) throw new Error(`a worker has phase ${String(cells[1])}`);
  return { tenant: String(cells[0]), phase, draining: cells[2] === 1, workers: Number(cells[3]) };
}

function byTenantAndPhase(a: TaskCount, b: TaskCount): number {
  const [x, y] = [`${a.tenant}\n${a.phase}`, `${b.tenant}\n${b.phase}`];
  return x < y ? -1 : x > y ? 1 : 0;
}
