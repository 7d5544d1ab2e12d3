// Reads outside a turn, on a few connections of their own: pages and the log. May live in another process than the schedulers. Every
// answer is one statement and so one snapshot: a page and the position it is true at belong together.

import {
  type ChunkRow,
  type ConcurrencyKeyRow,
  type DocRow,
  docId,
  type EventPage,
  type EventQuery,
  type PageOf,
  type PageQuery,
  type RouteRow,
  type Row,
  type RunRow,
  runOf,
  type StoreReader,
  type TaskCount,
  type TaskRow,
  type WorkerCount,
  type WorkerRow,
} from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { byCrew } from "../crew.ts";
import { pageOfLog } from "../log.ts";
import { docCursor, type PageFor, searchedMax } from "../paging.ts";
import { chunkFields } from "../row-shape.ts";
import { type Address, readAddress } from "./address.ts";
import { type Kind, rowArray } from "./columns.ts";
import { boundedDepthSql, crewSql, depthSql, heldSql, keySql, tenantsSql, workerSql, workersSql } from "./crew-sql.ts";
import { chunksSql, docScanMax, docsInOrder, docsSearchSql, docsSql, docsWalkSql, linesSql, namedDocsSql } from "./doc-pages.ts";
import { Lanes } from "./lanes.ts";
import { awayFault, Link } from "./link.ts";
import { nameValue as text } from "./literal.ts";
import { eventsSql, logRows, subjectEventsSql } from "./log-pages.ts";
import { readVersion, refuseNewer } from "./migrations.ts";
import { type Cells, rowOf } from "./rows.ts";
import { fitsSql, isSearch, runRowSql, runsSql, scanMax, searchSql, taskRowSql, tasksSql, workflowSql } from "./run-pages.ts";
import { schema } from "./schema.ts";

const connections = 3;
const answerMsMax = 30_000;
/**
 * Every read has an index in the order it needs, whatever the planner knows of the table: without figures it would gather all that
 * follows a cursor to sort it. A forbidden scan that is done all the same counts as dear enough to be compiled, which takes longer than
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

const readText = beginText(readSettings);
const searchText = beginText(searchSettings);

function beginText(settings: Readonly<Record<string, string>>): string {
  const words = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
  return `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SELECT ${words.join(", ")}`;
}

export function openPostgresReader(options: { url: string; searchedRows?: number }): StoreReader {
  return new PostgresReader(readAddress(options.url), options.searchedRows ?? searchedMax);
}

class PostgresReader implements StoreReader {
  readonly #address: Address;
  readonly #lanes = new Lanes(connections, () => this.#connect());

  readonly #searchedRows: number;

  constructor(address: Address, searchedRows: number) {
    this.#searchedRows = searchedRows;
    this.#address = { ...address, config: { ...address.config, query_timeout: 2 * answerMsMax } };
  }

  async events(query: EventQuery): Promise<EventPage> {
    const sql = query.subject === undefined ? eventsSql(query) : subjectEventsSql(query, query.subject);
    const [tenant, rows] = (await this.#ask(`SELECT (${tenantSql(query.tenant)}), (SELECT json_agg(
      json_build_array(e.first, e.last, e.at, e.subject, e.facts) ORDER BY e.first ${query.before === undefined ? "ASC" : "DESC"}) FROM (${sql}) e)`)) as [
      Cells | null,
      Cells[] | null,
    ];
    return pageOfLog(logRows(query.tenant, rows ?? []), query, Number(tenant?.[0] ?? 0), Number(tenant?.[1] ?? 0));
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return (await this.#answer(query)) as PageOf<Q>;
  }

  async close(): Promise<void> {
    await this.#lanes.close();
  }

  async #answer(query: PageQuery): Promise<PageOf<PageQuery>> {
    switch (query.page) {
      case "runs":
        return await this.#runs(query);
      case "run": {
        const { tenant: whose, run: id, tasksMax: limit } = query;
        const tasksOf = { tenant: whose, run: id, ...(limit === undefined ? {} : { limit }) };
        const [tenant, run, tasks, workflow] = await this.#ask(
          `SELECT (${tenantSql(whose)}), (${runRowSql(whose, id)}), (${tasksSql(tasksOf)}), (${workflowSql(whose, id)})`,
        );
        const head = headOf(tenant);
        if (run === null) return { detail: null, head };
        const body = typeof workflow === "string" ? workflow : "";
        return { detail: { run: rowOf("run", run as Cells) as RunRow, tasks: rows("task", tasks), workflow: body }, head };
      }
      case "tasks": {
        const limit = Math.max(0, query.limit);
        const sql = tasksSql({ ...query, limit: limit + 1 });
        const [tenant, tasks] = await this.#ask(`SELECT (${tenantSql(query.tenant)}), (${sql})`);
        const found = rows("task", tasks);
        const items = found.slice(0, limit);
        return { items, next: found.length > limit ? (items.at(-1)?.id ?? null) : null, head: headOf(tenant) };
      }
      case "task": {
        const [whose, id] = [query.tenant, runOf(query.task)];
        const [tenant, run, task] = await this.#ask(
          `SELECT (${tenantSql(whose)}), (${runRowSql(whose, id)}), (${taskRowSql(whose, id, query.task)})`,
        );
        const head = headOf(tenant);
        if (run === null || task === null) return { run: null, task: null, head };
        return { run: rowOf("run", run as Cells) as RunRow, task: rowOf("task", task as Cells) as TaskRow, head };
      }
      case "docs":
        return await this.#docs(query);
      case "doc": {
        const [tenant, cells] = await this.#ask(`SELECT (${tenantSql(query.tenant)}), (${namedDocsSql(query)})`);
        const found = new Map(rows("doc", cells).map((doc) => [doc.id, doc]));
        const items = query.names.map((name) => found.get(docId(query.tenant, query.collection, name)) ?? null);
        return { items, head: headOf(tenant) };
      }
      case "chunks": {
        const [tenant, cells] = await this.#ask(`SELECT (${tenantSql(query.tenant)}), (${chunksSql(query)})`);
        return { items: ((cells ?? []) as Cells[]).map(chunkOf), head: headOf(tenant) };
      }
      case "lines": {
        const [tenant, cells] = await this.#ask(`SELECT (${tenantSql(query.tenant)}), (${linesSql(query)})`);
        const items = ((cells ?? []) as [string, Cells, number, number | null][]).map(([line, route, tasks, oldestReadyAt]) => ({
          line,
          route: rowOf("route", route) as RouteRow,
          tasks,
          oldestReadyAt,
        }));
        return { items, head: headOf(tenant) };
      }
      case "workers": {
        const [tenant, items] = await this.#ask(`SELECT (${tenantSql(query.tenant)}), (${workersSql(query.tenant)})`);
        return { items: rows("worker", items), head: headOf(tenant) };
      }
      case "routes": {
        const [items] = await this.#ask(`SELECT (${routesSql})`);
        return { items: rows("route", items) };
      }
      case "worker": {
        const { tenant: whose, worker: id, limit } = query;
        const [tenant, worker, held] = await this.#ask(
          `SELECT (${tenantSql(whose)}), (${workerSql(whose, id)}), (${heldSql(whose, id, limit)})`,
        );
        const row = worker === null ? null : (rowOf("worker", worker as Cells) as WorkerRow);
        return { worker: row, held: rows("task", held), head: headOf(tenant) };
      }
      case "tenants": {
        const [names] = await this.#ask(`SELECT (${tenantsSql(query.after ?? "", query.limit + 1)})`);
        const found = (names ?? []) as string[];
        const items = found.slice(0, query.limit);
        return { items, next: found.length > items.length ? (items.at(-1) ?? null) : null };
      }
      case "key": {
        const [tenant, key] = await this.#ask(`SELECT (${tenantSql(query.tenant)}), (${keySql(query.tenant, query.key)})`);
        return { key: key === null ? null : (rowOf("key", key as Cells) as ConcurrencyKeyRow), head: headOf(tenant) };
      }
      case "crew": {
        const [items] = await this.#ask(
          `SELECT (SELECT json_agg(json_build_array(c.tenant, c.phase, c.draining, c.n)) FROM (${crewSql}) c)`,
        );
        const counts = (items ?? []) as [string, WorkerCount["phase"], boolean, number][];
        const crew = counts.map(([tenant, phase, draining, workers]) => ({ tenant, phase, draining, workers }));
        return { items: crew.sort(byCrew) };
      }
      case "depth": {
        const isWhole = query.tenant === undefined && query.max === undefined;
        const sql = isWhole ? depthSql : boundedDepthSql(query.tenant, query.max);
        const [items] = await this.#ask(`SELECT (SELECT json_agg(json_build_array(d.tenant, d.phase, d.n)) FROM (${sql}) d)`);
        const depths = ((items ?? []) as [string, TaskCount["phase"], number][]).map(([tenant, phase, tasks]) => ({
          tenant,
          phase,
          tasks,
        }));
        return { items: depths.sort(byTenantAndPhase) };
      }
    }
  }

  async #runs(query: PageFor<"runs">): Promise<PageOf<PageFor<"runs">>> {
    const scannedMax = scanMax(query, this.#searchedRows);
    const walk = runsSql(query, scannedMax);
    const [tenant, cells, scanned] = await this.#ask(
      // The walk ends where the page is full; how far it went is asked, by walking again, only where it is not.
      `WITH f AS (SELECT * FROM (${walk}) s WHERE ${fitsSql(query)} ORDER BY id DESC LIMIT ${query.limit + 1})
       SELECT (${tenantSql(query.tenant)}), (SELECT json_agg(${rowArray("run", "f")} ORDER BY f.id DESC) FROM f),
         CASE WHEN (SELECT count(*) FROM f) <= ${query.limit}
           THEN (SELECT json_build_array(count(*), min(id)) FROM (${walk}) s) END`,
    );
    const found = rows("run", cells);
    const items = found.slice(0, query.limit);
    const head = headOf(tenant);
    if (found.length > query.limit) return { items, next: items.at(-1)?.id ?? null, head };
    const [count, lowest] = scanned as [number, string | null];
    if (count < scannedMax || lowest === null) return { items, next: null, head };
    if (!isSearch(query) || items.length === query.limit) return { items, next: lowest, head };
    const rest = await this.#search({ ...query, before: lowest, limit: query.limit - items.length });
    return { items: [...items, ...rest.items], next: rest.next, head };
  }

  /** What is not among the newest runs, by the index of words. The page is true at the position the newest were read at. */
  async #search(query: PageFor<"runs">): Promise<{ items: RunRow[]; next: string | null }> {
    const sql = `SELECT (SELECT json_agg(${rowArray("run", "f")} ORDER BY f.id DESC) FROM (${searchSql(query, query.limit + 1)}) f)`;
    const [cells] = await this.#ask(sql, searchText);
    const found = rows("run", cells);
    const items = found.slice(0, query.limit);
    return { items, next: found.length > query.limit ? (items.at(-1)?.id ?? null) : null };
  }

  async #docs(query: PageFor<"docs">): Promise<PageOf<PageFor<"docs">>> {
    const scannedMax = docScanMax(query, this.#searchedRows);
    const [tenant, cells, scanned, last] = await this.#ask(
      `WITH s AS (${docsWalkSql(query, scannedMax)}) SELECT (${tenantSql(query.tenant)}), ${docsSql(query)}`,
    );
    const found = rows("doc", cells);
    const walked = cutDocs(found, query.limit);
    const head = headOf(tenant);
    const [sort, id] = (last ?? []) as string[];
    if (walked.next !== null || Number(scanned) < scannedMax || sort === undefined || id === undefined)
      return { ...walked, head };
    const after = docCursor({ sort, id });
    const limit = query.limit - found.length;
    if (limit === 0) return { items: found, next: after, head };
    const sql = docsSearchSql({ ...query, after }, limit + 1);
    const [more] = await this.#ask(`SELECT (SELECT ${docsInOrder(query, "f")} FROM (${sql}) f)`, searchText);
    const rest = cutDocs(rows("doc", more), limit);
    return { items: [...found, ...rest.items], next: rest.next, head };
  }

  /** The one row of a statement. A connection that died while nobody used it is replaced without a word. */
  async #ask(sql: string, begin = readText): Promise<unknown[]> {
    const lane = await this.#lanes.take();
    try {
      for (let tries = 1; ; tries++) {
        const isFresh = lane.link === null || lane.link.lost !== null;
        const link = await this.#lanes.linkOf(lane);
        try {
          const [, , result] = await link.query(`${begin}; ${sql}; COMMIT`, 4);
          return result?.rows[0] ?? [];
        } catch (error) {
          link.cut();
          if (isFresh || tries > 1) throw awayFault(this.#address, error);
        }
      }
    } finally {
      this.#lanes.give(lane);
    }
  }

  async #connect(): Promise<Link> {
    const link = await Link.connect(this.#address, null);
    try {
      const version = await readVersion(link);
      refuseNewer(link.place, version);
      if (version === 0) throw fault("E.STORE.OPEN", `${link.place} holds no store yet; start a scheduler on it first`);
      return link;
    } catch (error) {
      link.cut();
      throw error instanceof Fault ? error : awayFault(this.#address, error);
    }
  }
}

const headOf = (tenant: unknown): number => Number((tenant as Cells | null)?.[0] ?? 0);

const tenantSql = (tenant: string): string =>
  `SELECT json_build_array(position, floor) FROM ${schema}.tenant WHERE id = ${text(tenant)}`;

/** Asked once a second by every scheduler. The empty text lets the primary key serve it, in its order. */
export const routesSql = `SELECT json_agg(${rowArray("route", "t")}) FROM (SELECT * FROM ${schema}.route WHERE id >= '' ORDER BY id) t`;

function rows<K extends Kind>(kind: K, cells: unknown): Extract<Row, { kind: K }>[] {
  return ((cells ?? []) as Cells[]).map((one) => rowOf(kind, one) as Extract<Row, { kind: K }>);
}

function cutDocs(found: readonly DocRow[], limit: number): { items: DocRow[]; next: string | null } {
  const items = found.slice(0, limit);
  const last = items.at(-1);
  return { items, next: found.length > limit && last !== undefined ? docCursor(last) : null };
}

function chunkOf(cells: Cells): ChunkRow {
  return Object.fromEntries(chunkFields.map((field, at) => [field, cells[at]])) as unknown as ChunkRow;
}

function byTenantAndPhase(a: TaskCount, b: TaskCount): number {
  const [x, y] = [`${a.tenant}\n${a.phase}`, `${b.tenant}\n${b.phase}`];
  return x < y ? -1 : x > y ? 1 : 0;
}
