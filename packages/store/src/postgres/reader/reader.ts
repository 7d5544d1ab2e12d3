// Reads outside a turn, on a few connections of their own. Every answer is one statement and so one snapshot: page and position belong together.

import type { EventPage, EventQuery, PageOf, PageQuery, StoreReader } from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { cutLogPage, decodeLogRows } from "../../common/log-rows.ts";
import { cutPage, formatDocumentCursor, hasHead, idOf, type PageFor, searchScannedRowsMax } from "../../common/page-filters.ts";
import { type PostgresAddress, PostgresConnection, parsePostgresUrl, unavailableFault } from "../connection/connection.ts";
import { ConnectionPool } from "../connection/connection-pool.ts";
import { readVersion, refuseNewer } from "../setup/replica-registration.ts";
import { type ResultCells, rowArraySql } from "../sql/columns.ts";
import { nameLiteral as text } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";
import { decodeRows, type PageStatement, pageStatements } from "./pages.ts";
import {
  documentScanMax,
  documentsInOrderSql,
  foundDocumentsSql,
  isSearch,
  logRowsSql,
  matchesSql,
  runScanMax,
  searchDocumentsSql,
  searchRunsSql,
  walkDocumentsSql,
  walkRunsSql,
} from "./queries.ts";

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

export class PostgresReader implements StoreReader {
  readonly #address: PostgresAddress;
  readonly #pool = new ConnectionPool(readConnections, () => this.#connect());
  readonly #searchedRows: number;

  constructor({ url, searchedRows = searchScannedRowsMax }: { url: string; searchedRows?: number }) {
    this.#searchedRows = searchedRows;
    const address = parsePostgresUrl(url);
    this.#address = { ...address, config: { ...address.config, query_timeout: 2 * answerMsMax } };
  }

  async events(query: EventQuery): Promise<EventPage> {
    const way = query.before === undefined ? "ASC" : "DESC";
    const rows = `SELECT json_agg(json_build_array(e.first, e.last, e.at, e.subject, e.facts) ORDER BY e.first ${way}) FROM (${logRowsSql(query)}) e`;
    const [tenant, cells] = await this.#queryRow(selectSql([tenantSql(query.tenant), rows]));
    const [head, floor, removed] = ((tenant ?? [0, 0, 0]) as unknown[]).map(Number) as [number, number, number];
    return cutLogPage(decodeLogRows(query.tenant, (cells ?? []) as ResultCells[]), query, { head, floor, removed });
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return (await this.#readPage(query)) as PageOf<Q>;
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  async #readPage(query: PageQuery): Promise<object> {
    if (query.page === "runs") return await this.#readRuns(query);
    if (query.page === "docs") return await this.#readDocuments(query);
    const { selects, decode } = pageStatements[query.page] as PageStatement<(typeof query)["page"]>;
    if (!hasHead(query)) return decode(await this.#queryRow(selectSql(selects(query))), query);
    const [tenant, ...cells] = await this.#queryRow(selectSql([tenantSql(query.tenant), ...selects(query)]));
    return { ...decode(cells, query), head: headOf(tenant) };
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
    // The page is true at the position the newest were read at.
    const limit = query.limit - items.length;
    const sql = searchRunsSql({ ...query, before: lowest }, limit + 1);
    const [more] = await this.#queryRow(
      `SELECT (SELECT json_agg(${rowArraySql("run", "f")} ORDER BY f.id DESC) FROM (${sql}) f)`,
      searchBeginSql,
    );
    const rest = cutPage(decodeRows("run", more), limit, idOf);
    return { items: [...items, ...rest.items], next: rest.next, head };
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

  /** The one row of a statement. */
  async #queryRow(sql: string, begin = readOnlyBeginSql): Promise<unknown[]> {
    const pooled = await this.#pool.acquire();
    try {
      const [, , result] = await this.#pool.work(pooled, (connection) => connection.query(`${begin}; ${sql}; COMMIT`, 4));
      return result?.rows[0] ?? [];
    } catch (error) {
      throw error instanceof Fault ? error : unavailableFault(this.#address, error);
    } finally {
      this.#pool.release(pooled);
    }
  }

  #connect(): Promise<PostgresConnection> {
    return PostgresConnection.connect(this.#address, async (connection) => {
      const version = await readVersion(connection);
      refuseNewer(connection.label, version);
      if (version === 0)
        throw fault("E.STORE.OPEN", `${connection.label} contains no AstraFlow tables yet; start a scheduler on it first`);
    });
  }
}

const headOf = (tenant: unknown): number => Number((tenant as ResultCells | null)?.[0] ?? 0);

const tenantSql = (tenant: string): string =>
  `SELECT json_build_array(position, floor, removed) FROM ${schemaName}.tenant WHERE id = ${text(tenant)}`;

/** One row with what each of these selects finds. */
const selectSql = (selects: readonly string[]): string => `SELECT ${selects.map((sql) => `(${sql})`).join(", ")}`;
