// Reads outside a turn, on a few connections of their own: pages and the log. May live in another process than the schedulers. Every
// answer is one statement and so one snapshot: a page and the position it is true at belong together.

import {
  type ChunkRow,
  docId,
  type EventPage,
  type EventQuery,
  type PageOf,
  type PageQuery,
  type Row,
  type RunRow,
  runOf,
  type StoreReader,
  type TaskCount,
  type WorkerCount,
} from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { compareCounts } from "../../common/compare-counts.ts";
import { cutLogPage, decodeLogRows } from "../../common/log-rows.ts";
import { cutPage, formatDocumentCursor, idOf, type PageFor, searchScannedRowsMax } from "../../common/page-filters.ts";
import { chunkFields, type RowKind } from "../../common/row-shape.ts";
import { type PostgresAddress, parsePostgresUrl } from "../connection/address.ts";
import { PostgresConnection, unavailableFault } from "../connection/connection.ts";
import { ConnectionPool } from "../connection/connection-pool.ts";
import { readVersion, refuseNewer } from "../setup/migrations.ts";
import { rowArraySql } from "../sql/columns.ts";
import { nameLiteral as text } from "../sql/literals.ts";
import { decodeRow, type ResultCells } from "../sql/row-decoder.ts";
import { schemaName } from "../sql/tables.ts";
import {
  chunksSql,
  documentScanMax,
  documentsInOrderSql,
  foundDocumentsSql,
  namedDocumentsSql,
  searchDocumentsSql,
  taskQueueDepthsSql,
  walkDocumentsSql,
} from "./document-queries.ts";
import { logRowsSql, subjectLogRowsSql } from "./log-queries.ts";
import {
  isSearch,
  matchesSql,
  runRowSql,
  runScanMax,
  searchRunsSql,
  taskRowSql,
  tasksSql,
  walkRunsSql,
  workflowSql,
} from "./run-queries.ts";
import {
  boundedTaskCountsSql,
  heldByOwnWorkerSql,
  keySql,
  openTaskCountsSql,
  tenantsSql,
  workerCountsSql,
  workerSql,
  workersSql,
} from "./worker-queries.ts";

const readConnections = 3;
const answerMsMax = 30_000;
/**
 * Every read has an index in the order it needs, whatever the planner knows of the table: without figures it would gather all that
 * follows a cursor to sort it. A disabled scan that is used anyway has a cost high enough to trigger JIT compilation, which takes longer than
 * reading any page. The settings end with the transaction, so a pooler's session is left as it was.
 */
export const readSettings = {
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  jit: "off",
  statement_timeout: `${answerMsMax}`,
} as const;
/** An index of words can only be read whole and sorted then; an index in order would be walked to its end instead. */
export const searchSettings = { ...readSettings, enable_bitmapscan: "on", enable_indexscan: "off" } as const;

const readOnlyBeginSql = createBeginSql(readSettings);
const searchBeginSql = createBeginSql(searchSettings);

function createBeginSql(settings: Readonly<Record<string, string>>): string {
  const words = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
  return `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SELECT ${words.join(", ")}`;
}

export function openPostgresReader(options: { url: string; searchedRows?: number }): StoreReader {
  return new PostgresReader(parsePostgresUrl(options.url), options.searchedRows ?? searchScannedRowsMax);
}

class PostgresReader implements StoreReader {
  readonly #address: PostgresAddress;
  readonly #pool = new ConnectionPool(readConnections, () => this.#connect());

  readonly #searchedRows: number;

  constructor(address: PostgresAddress, searchedRows: number) {
    this.#searchedRows = searchedRows;
    this.#address = { ...address, config: { ...address.config, query_timeout: 2 * answerMsMax } };
  }

  async events(query: EventQuery): Promise<EventPage> {
    const sql = query.subject === undefined ? logRowsSql(query) : subjectLogRowsSql(query, query.subject);
    const [tenant, rows] = (await this.#queryRow(`SELECT (${tenantSql(query.tenant)}), (SELECT json_agg(
      json_build_array(e.first, e.last, e.at, e.subject, e.facts) ORDER BY e.first ${query.before === undefined ? "ASC" : "DESC"}) FROM (${sql}) e)`)) as [
      ResultCells | null,
      ResultCells[] | null,
    ];
    return cutLogPage(decodeLogRows(query.tenant, rows ?? []), query, Number(tenant?.[0] ?? 0), Number(tenant?.[1] ?? 0));
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return (await this.#readPage(query)) as PageOf<Q>;
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  async #readPage(query: PageQuery): Promise<PageOf<PageQuery>> {
    switch (query.page) {
      case "runs":
        return await this.#readRuns(query);
      case "run": {
        const { tenant: whose, run: id, tasksMax: limit } = query;
        const tasksOf = { tenant: whose, run: id, ...(limit === undefined ? {} : { limit }) };
        const [tenant, run, tasks, workflow] = await this.#queryWithTenant(
          whose,
          runRowSql(whose, id),
          tasksSql(tasksOf),
          workflowSql(whose, id),
        );
        const head = headOf(tenant);
        if (run === null) return { detail: null, head };
        const body = typeof workflow === "string" ? workflow : "";
        return {
          detail: { run: decodeRow("run", run as ResultCells), tasks: decodeRows("task", tasks), workflow: body },
          head,
        };
      }
      case "tasks": {
        const limit = Math.max(0, query.limit);
        const sql = tasksSql({ ...query, limit: limit + 1 });
        const [tenant, tasks] = await this.#queryWithTenant(query.tenant, sql);
        return { ...cutPage(decodeRows("task", tasks), limit, idOf), head: headOf(tenant) };
      }
      case "task": {
        const [whose, id] = [query.tenant, runOf(query.task)];
        const [tenant, run, task] = await this.#queryWithTenant(whose, runRowSql(whose, id), taskRowSql(whose, id, query.task));
        const head = headOf(tenant);
        if (run === null || task === null) return { run: null, task: null, head };
        return {
          run: decodeRow("run", run as ResultCells),
          task: decodeRow("task", task as ResultCells),
          head,
        };
      }
      case "docs":
        return await this.#readDocuments(query);
      case "doc": {
        const [tenant, cells] = await this.#queryWithTenant(query.tenant, namedDocumentsSql(query));
        const found = new Map(decodeRows("doc", cells).map((doc) => [doc.id, doc]));
        const items = query.names.map((name) => found.get(docId(query.tenant, query.collection, name)) ?? null);
        return { items, head: headOf(tenant) };
      }
      case "chunks": {
        const [tenant, cells] = await this.#queryWithTenant(query.tenant, chunksSql(query));
        return { items: ((cells ?? []) as ResultCells[]).map(decodeChunk), head: headOf(tenant) };
      }
      case "lines": {
        const [tenant, cells] = await this.#queryWithTenant(query.tenant, taskQueueDepthsSql(query));
        const items = ((cells ?? []) as [string, ResultCells, number, number | null][]).map(
          ([line, route, tasks, oldestReadyAt]) => ({
            line,
            route: decodeRow("route", route),
            tasks,
            oldestReadyAt,
          }),
        );
        return { items, head: headOf(tenant) };
      }
      case "workers": {
        const [tenant, items] = await this.#queryWithTenant(query.tenant, workersSql(query.tenant));
        return { items: decodeRows("worker", items), head: headOf(tenant) };
      }
      case "routes": {
        const [items] = await this.#queryRow(`SELECT (${routesSql})`);
        return { items: decodeRows("route", items) };
      }
      case "worker": {
        const { tenant: whose, worker: id, limit } = query;
        const [tenant, worker, held] = await this.#queryWithTenant(
          whose,
          workerSql(whose, id),
          heldByOwnWorkerSql(whose, id, limit),
        );
        const row = worker === null ? null : decodeRow("worker", worker as ResultCells);
        return { worker: row, held: decodeRows("task", held), head: headOf(tenant) };
      }
      case "tenants": {
        const [names] = await this.#queryRow(`SELECT (${tenantsSql(query.after ?? "", query.limit + 1)})`);
        return cutPage((names ?? []) as string[], query.limit, (name) => name);
      }
      case "key": {
        const [tenant, key] = await this.#queryWithTenant(query.tenant, keySql(query.tenant, query.key));
        return { key: key === null ? null : decodeRow("key", key as ResultCells), head: headOf(tenant) };
      }
      case "crew": {
        const [items] = await this.#queryRow(
          `SELECT (SELECT json_agg(json_build_array(c.tenant, c.phase, c.draining, c.n)) FROM (${workerCountsSql}) c)`,
        );
        const counts = (items ?? []) as [string, WorkerCount["phase"], boolean, number][];
        const crew = counts.map(([tenant, phase, draining, workers]) => ({ tenant, phase, draining, workers }));
        return { items: crew.sort(compareCounts) };
      }
      case "depth": {
        const isWhole = query.tenant === undefined && query.max === undefined;
        const sql = isWhole ? openTaskCountsSql : boundedTaskCountsSql(query.tenant, query.max);
        const [items] = await this.#queryRow(
          `SELECT (SELECT json_agg(json_build_array(d.tenant, d.phase, d.n)) FROM (${sql}) d)`,
        );
        const depths = ((items ?? []) as [string, TaskCount["phase"], number][]).map(([tenant, phase, tasks]) => ({
          tenant,
          phase,
          tasks,
        }));
        return { items: depths.sort(compareCounts) };
      }
    }
  }

  async #readRuns(query: PageFor<"runs">): Promise<PageOf<PageFor<"runs">>> {
    const scannedMax = runScanMax(query, this.#searchedRows);
    const walk = walkRunsSql(query, scannedMax);
    const [tenant, cells, scanned] = await this.#queryRow(
      // The walk ends where the page is full; how far it went is asked, by walking again, only where it is not.
      `WITH f AS (SELECT * FROM (${walk}) s WHERE ${matchesSql(query)} ORDER BY id DESC LIMIT ${query.limit + 1})
       SELECT (${tenantSql(query.tenant)}), (SELECT json_agg(${rowArraySql("run", "f")} ORDER BY f.id DESC) FROM f),
         CASE WHEN (SELECT count(*) FROM f) <= ${query.limit}
           THEN (SELECT json_build_array(count(*), min(id)) FROM (${walk}) s) END`,
    );
    const found = decodeRows("run", cells);
    const items = found.slice(0, query.limit);
    const head = headOf(tenant);
    if (found.length > query.limit) return { items, next: items.at(-1)?.id ?? null, head };
    const [count, lowest] = scanned as [number, string | null];
    if (count < scannedMax || lowest === null) return { items, next: null, head };
    if (!isSearch(query) || items.length === query.limit) return { items, next: lowest, head };
    const rest = await this.#searchRuns({ ...query, before: lowest, limit: query.limit - items.length });
    return { items: [...items, ...rest.items], next: rest.next, head };
  }

  /** Runs that are not among the newest, found by the index of words. The page is true at the position the newest were read at. */
  async #searchRuns(query: PageFor<"runs">): Promise<{ items: RunRow[]; next: string | null }> {
    const sql = `SELECT (SELECT json_agg(${rowArraySql("run", "f")} ORDER BY f.id DESC) FROM (${searchRunsSql(query, query.limit + 1)}) f)`;
    const [cells] = await this.#queryRow(sql, searchBeginSql);
    return cutPage(decodeRows("run", cells), query.limit, idOf);
  }

  async #readDocuments(query: PageFor<"docs">): Promise<PageOf<PageFor<"docs">>> {
    const scannedMax = documentScanMax(query, this.#searchedRows);
    const [tenant, cells, scanned, last] = await this.#queryRow(
      `WITH s AS (${walkDocumentsSql(query, scannedMax)}) SELECT (${tenantSql(query.tenant)}), ${foundDocumentsSql(query)}`,
    );
    const found = decodeRows("doc", cells);
    const walked = cutPage(found, query.limit, formatDocumentCursor);
    const head = headOf(tenant);
    const [sort, id] = (last ?? []) as string[];
    if (walked.next !== null || Number(scanned) < scannedMax || sort === undefined || id === undefined)
      return { ...walked, head };
    const after = formatDocumentCursor({ sort, id });
    const limit = query.limit - found.length;
    if (limit === 0) return { items: found, next: after, head };
    const sql = searchDocumentsSql({ ...query, after }, limit + 1);
    const [more] = await this.#queryRow(`SELECT (SELECT ${documentsInOrderSql(query, "f")} FROM (${sql}) f)`, searchBeginSql);
    const rest = cutPage(decodeRows("doc", more), limit, formatDocumentCursor);
    return { items: [...found, ...rest.items], next: rest.next, head };
  }

  /** The tenant's position and floor, and what each of these selects finds. */
  #queryWithTenant(tenant: string, ...selects: readonly string[]): Promise<unknown[]> {
    return this.#queryRow(`SELECT ${[tenantSql(tenant), ...selects].map((sql) => `(${sql})`).join(", ")}`);
  }

  /** The one row of a statement. A connection that was lost while idle is replaced silently. */
  async #queryRow(sql: string, begin = readOnlyBeginSql): Promise<unknown[]> {
    const pooled = await this.#pool.acquire();
    try {
      for (let tries = 1; ; tries++) {
        const isFresh = pooled.connection === null || pooled.connection.lostError !== null;
        const connection = await this.#pool.connect(pooled);
        try {
          const [, , result] = await connection.query(`${begin}; ${sql}; COMMIT`, 4);
          return result?.rows[0] ?? [];
        } catch (error) {
          connection.destroy();
          if (isFresh || tries > 1) throw unavailableFault(this.#address, error);
        }
      }
    } finally {
      this.#pool.release(pooled);
    }
  }

  async #connect(): Promise<PostgresConnection> {
    const connection = await PostgresConnection.connect(this.#address, null);
    try {
      const version = await readVersion(connection);
      refuseNewer(connection.label, version);
      if (version === 0)
        throw fault("E.STORE.OPEN", `${connection.label} contains no AstraFlow tables yet; start a scheduler on it first`);
      return connection;
    } catch (error) {
      connection.destroy();
      throw error instanceof Fault ? error : unavailableFault(this.#address, error);
    }
  }
}

const headOf = (tenant: unknown): number => Number((tenant as ResultCells | null)?.[0] ?? 0);

const tenantSql = (tenant: string): string =>
  `SELECT json_build_array(position, floor) FROM ${schemaName}.tenant WHERE id = ${text(tenant)}`;

/** Asked once a second by every scheduler. The empty text lets the primary key serve it, in its order. */
export const routesSql = `SELECT json_agg(${rowArraySql("route", "t")}) FROM (SELECT * FROM ${schemaName}.route WHERE id >= '' ORDER BY id) t`;

function decodeRows<K extends RowKind>(kind: K, cells: unknown): Extract<Row, { kind: K }>[] {
  return ((cells ?? []) as ResultCells[]).map((one) => decodeRow(kind, one));
}

function decodeChunk(cells: ResultCells): ChunkRow {
  return Object.fromEntries(chunkFields.map((field, at) => [field, cells[at]])) as unknown as ChunkRow;
}
