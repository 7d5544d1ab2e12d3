// Reads outside a turn, on a connection of their own that cannot write: pages and the log. May live in another thread or process
// than the writer. Every answer is one snapshot, so a page and the position it is true at belong together.

import type {
  CrewCount,
  Depth,
  EventPage,
  EventQuery,
  PageOf,
  PageQuery,
  Position,
  Reader,
  RouteRow,
  RunPhase,
  RunRow,
  TaskRow,
  Tenant,
  WorkerRow,
} from "@astraflow/engine";
import { byCrew } from "../crew.ts";
import { type LogRow, pageOfLog, unpackFacts } from "../log.ts";
import { runPhases, taskPhases, workerPhases } from "../row-shape.ts";
import { columnsByKind, rowOf } from "./columns.ts";
import { type Cells, Connection, openDatabase } from "./connection.ts";
import { eventsSql, readHistory } from "./histories.ts";
import { numberOfSql } from "./words.ts";

/** A filter that no index serves looks at so many runs a page; the page may come short, and its cursor goes on from there. */
const runsScannedMax = 5_000;
const busyMs = 2_000;

/** Live runs by tenant and phase, then their tasks by range: what has ended long ago is never touched. */
export const depthSql = `SELECT tenant.id, task.phase, count(*) FROM tenant
  CROSS JOIN run INDEXED BY run_phase ON run.tenant = tenant.id AND run.phase IN (0, 1, 2) AND run.phase <> 3
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE task.phase < 4 GROUP BY tenant.id, task.phase ORDER BY 1, 2`;

/** One tenant's, up to a number of tasks: a million in queue cost no more than that. */
export const boundedDepthSql = `SELECT ?1, phase, count(*) FROM (
  SELECT task.phase AS phase FROM run INDEXED BY run_phase
  CROSS JOIN task ON task.id > run.id || '.' AND task.id < run.id || '/'
  WHERE run.tenant = ?1 AND run.phase IN (0, 1, 2) AND run.phase <> 3 AND task.phase < 4 LIMIT ?2
) GROUP BY phase`;
const crewSql = "SELECT tenant, phase, draining, count(*) FROM worker GROUP BY tenant, phase, draining";
export const heldSql = `SELECT ${columnsByKind.task.selected} FROM task WHERE worker = ${numberOfSql} AND phase = 3 ORDER BY id LIMIT ?`;

/** Most runs have succeeded, so those are found by walking; the index of the other phases stays small. */
export function runsSql(phase: RunPhase | undefined): string {
  const ofPhase = phase === undefined || phase === "succeeded" ? "" : ` AND phase = ${runPhases.indexOf(phase)} AND phase <> 3`;
  return `SELECT ${columnsByKind.run.names} FROM run WHERE tenant = ?${ofPhase} AND id < ? ORDER BY id DESC`;
}

export function openSqliteReader(options: { file: string }): Reader {
  const db = openDatabase(options.file, { readOnly: true, busyMs });
  return new SqliteReader(new Connection(db, { statements: 0, rows: 0, commits: 0, turns: 0 }, null));
}

class SqliteReader implements Reader {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async events(query: EventQuery): Promise<EventPage> {
    return this.#snapshot(() => {
      const { position, floor, indexed } = this.#tenant(query.tenant);
      const { tenant, after, subject } = query;
      const rows =
        subject === undefined
          ? this.#connection.each(eventsSql, tenant, after)
          : readHistory(this.#connection, { tenant, after, subject }, indexed);
      return pageOfLog(logRows(query.tenant, rows), query, position, floor);
    });
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return this.#snapshot(() => this.#answer(query) as PageOf<Q>);
  }

  async close(): Promise<void> {
    this.#connection.db.close();
  }

  #answer(query: PageQuery): PageOf<PageQuery> {
    switch (query.page) {
      case "runs":
        return { ...this.#runs(query), head: this.#tenant(query.tenant).position };
      case "run":
        return { detail: this.#run(query.tenant, query.run), head: this.#tenant(query.tenant).position };
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
      case "crew":
        return { items: this.#connection.all(crewSql).map(crewCountOf).sort(byCrew) };
      case "depth":
        return { items: this.#depth(query).sort(byTenantAndPhase) };
    }
  }

  #runs(query: Extract<PageQuery, { page: "runs" }>): { items: RunRow[]; next: string | null } {
    const items: RunRow[] = [];
    let scanned = 0;
    let last: string | null = null;
    // No id is as high as this: ids are made of printable text.
    for (const cells of this.#connection.each(runsSql(query.phase), query.tenant, query.before ?? "\u{10ffff}")) {
      if (items.length === query.limit || scanned === runsScannedMax) return { items, next: last };
      const run = rowOf("run", cells) as RunRow;
      scanned++;
      last = run.id;
      if (query.phase !== undefined && run.phase !== query.phase) continue;
      if (query.client === undefined || run.client === query.client) items.push(run);
    }
    return { items, next: null };
  }

  #run(tenant: Tenant, id: string): { run: RunRow; tasks: TaskRow[]; workflow: string } | null {
    const cells = this.#connection.get(`SELECT ${columnsByKind.run.names} FROM run WHERE id = ? AND tenant = ?`, id, tenant);
    if (cells === undefined) return null;
    const run = rowOf("run", cells) as RunRow;
    const sql = `SELECT ${columnsByKind.task.selected} FROM task WHERE id > ? AND id < ? ORDER BY id`;
    const tasks = this.#connection.all(sql, `${id}.`, `${id}/`).map((one) => rowOf("task", one) as TaskRow);
    const workflow = this.#connection.get("SELECT body FROM workflow WHERE id = ?", run.workflow);
    return { run, tasks, workflow: workflow === undefined ? "" : String(workflow[0]) };
  }

  #worker(query: Extract<PageQuery, { page: "worker" }>): { worker: WorkerRow | null; held: TaskRow[] } {
    const sql = `SELECT ${columnsByKind.worker.names} FROM worker WHERE id = ? AND tenant = ?`;
    const cells = this.#connection.get(sql, query.worker, query.tenant);
    if (cells === undefined) return { worker: null, held: [] };
    const held = this.#connection.all(heldSql, query.worker, query.limit).map((one) => rowOf("task", one) as TaskRow);
    return { worker: rowOf("worker", cells) as WorkerRow, held };
  }

  #depth({ tenant, max }: Extract<PageQuery, { page: "depth" }>): Depth[] {
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

function depthOf(cells: Cells): Depth {
  const phase = taskPhases[Number(cells[1])];
  if (phase === undefined) throw new Error(`a task has phase ${String(cells[1])}`);
  return { tenant: String(cells[0]), phase, tasks: Number(cells[2]) };
}

function crewCountOf(cells: Cells): CrewCount {
  const phase = workerPhases[Number(cells[1])];
  if (phase === undefined) throw new Error(`a worker has phase ${String(cells[1])}`);
  return { tenant: String(cells[0]), phase, draining: cells[2] === 1, workers: Number(cells[3]) };
}

function byTenantAndPhase(a: Depth, b: Depth): number {
  const [x, y] = [`${a.tenant}\n${a.phase}`, `${b.tenant}\n${b.phase}`];
  return x < y ? -1 : x > y ? 1 : 0;
}
