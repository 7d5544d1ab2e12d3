// Reads outside a turn, on a few connections of their own: pages and the log. May live in another process than the schedulers. Every
// answer is one statement and so one snapshot: a page and the position it is true at belong together.

import type {
  CrewCount,
  Depth,
  EventPage,
  EventQuery,
  Key,
  PageOf,
  PageQuery,
  Reader,
  Row,
  RunPhase,
  RunRow,
  WorkerRow,
} from "@astraflow/engine";
import { Fault, fault } from "@astraflow/protocol";
import { byCrew } from "../crew.ts";
import { type LogRow, pageOfLog, unpackFacts } from "../log.ts";
import { type Address, readAddress } from "./address.ts";
import { type Kind, rowArray } from "./columns.ts";
import { boundedDepthSql, crewSql, depthSql, heldSql, workerSql, workersSql } from "./crew-sql.ts";
import { Lanes } from "./lanes.ts";
import { awayFault, Link } from "./link.ts";
import { nameValue as text, wholeValue as whole } from "./literal.ts";
import { readVersion, refuseNewer } from "./migrations.ts";
import { type Cells, rowOf } from "./rows.ts";
import { schema } from "./schema.ts";

const connections = 3;
const answerMsMax = 30_000;
/** A filter that no index serves looks at so many runs a page; the page may come short, and its cursor goes on from there. */
const runsScannedMax = 5_000;

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
const readText = `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SELECT ${Object.entries(readSettings)
  .map(([name, value]) => `set_config('${name}', '${value}', true)`)
  .join(", ")}`;

export function openPostgresReader(options: { url: string }): Reader {
  return new PostgresReader(readAddress(options.url));
}

class PostgresReader implements Reader {
  readonly #address: Address;
  readonly #lanes = new Lanes(connections);

  constructor(address: Address) {
    this.#address = { ...address, config: { ...address.config, query_timeout: 2 * answerMsMax } };
  }

  async events(query: EventQuery): Promise<EventPage> {
    const sql = query.subject === undefined ? eventsSql(query) : subjectEventsSql(query, query.subject);
    const [tenant, rows] = (await this.#ask(`SELECT (${tenantSql(query.tenant)}), (SELECT json_agg(
      json_build_array(e.first, e.last, e.at, e.subject, e.facts) ORDER BY e.first) FROM (${sql}) e)`)) as [
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
        const [tenant, run, tasks, workflow] = await this.#ask(runSql(query.tenant, query.run));
        const detail =
          run === null
            ? null
            : {
                run: rowOf("run", run as Cells) as RunRow,
                tasks: rows("task", tasks),
                workflow: typeof workflow === "string" ? workflow : "",
              };
        return { detail, head: headOf(tenant) };
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
      case "crew": {
        const [items] = await this.#ask(
          `SELECT (SELECT json_agg(json_build_array(c.tenant, c.phase, c.draining, c.n)) FROM (${crewSql}) c)`,
        );
        const counts = (items ?? []) as [string, CrewCount["phase"], boolean, number][];
        const crew = counts.map(([tenant, phase, draining, workers]) => ({ tenant, phase, draining, workers }));
        return { items: crew.sort(byCrew) };
      }
      case "depth": {
        const isWhole = query.tenant === undefined && query.max === undefined;
        const sql = isWhole ? depthSql : boundedDepthSql(query.tenant, query.max);
        const [items] = await this.#ask(`SELECT (SELECT json_agg(json_build_array(d.tenant, d.phase, d.n)) FROM (${sql}) d)`);
        const depths = ((items ?? []) as [string, Depth["phase"], number][]).map(([tenant, phase, tasks]) => ({
          tenant,
          phase,
          tasks,
        }));
        return { items: depths.sort(byTenantAndPhase) };
      }
    }
  }

  async #runs(query: Extract<PageQuery, { page: "runs" }>): Promise<PageOf<Extract<PageQuery, { page: "runs" }>>> {
    const [tenant, items, scanned] = await this.#ask(
      `WITH s AS (${runsSql(query)}) SELECT (${tenantSql(query.tenant)}),
         (SELECT json_agg(${rowArray("run", "f")}) FROM (SELECT * FROM s WHERE ${fitsSql(query)} ORDER BY id DESC LIMIT ${query.limit + 1}) f),
         (SELECT json_build_array(count(*), min(id)) FROM s)`,
    );
    const found = rows("run", items).sort((a, b) => (a.id < b.id ? 1 : -1));
    const [count, lowest] = scanned as [number, string | null];
    const shown = found.slice(0, query.limit);
    const isMore = found.length > query.limit;
    return {
      items: shown,
      next: isMore ? (shown.at(-1)?.id ?? null) : count === scanMax(query) ? lowest : null,
      head: headOf(tenant),
    };
  }

  /** The one row of a statement. A connection that died while nobody used it is replaced without a word. */
  async #ask(sql: string): Promise<unknown[]> {
    const lane = await this.#lanes.take();
    try {
      for (let tries = 1; ; tries++) {
        const isFresh = lane.link === null || lane.link.lost !== null;
        if (lane.link === null || lane.link.lost !== null) lane.link = await this.#connect();
        try {
          const [, , result] = await lane.link.query(`${readText}; ${sql}; COMMIT`, 4);
          return result?.rows[0] ?? [];
        } catch (error) {
          lane.link.cut();
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

/** From the row that holds the cursor on: it may have more facts behind it. */
export function eventsSql({ tenant, after, limit }: EventQuery): string {
  return `SELECT first, last, at, subject, facts FROM ${schema}.event WHERE tenant = ${text(tenant)} AND first >= coalesce((
    SELECT max(first) FROM ${schema}.event WHERE tenant = ${text(tenant)} AND first <= ${whole(after)}), 0) ORDER BY first LIMIT ${whole(limit + 1)}`;
}

/** The empty text keeps the planner from walking the tenant's whole log: a subject's rows are few. */
export function subjectEventsSql({ tenant, after, limit }: EventQuery, subject: Key): string {
  return `SELECT first, last, at, subject, facts FROM ${schema}.event WHERE subject = ${text(subject)} AND tenant || '' = ${text(tenant)}
    AND first >= coalesce((SELECT max(first) FROM ${schema}.event WHERE subject = ${text(subject)} AND first <= ${whole(after)}), 0)
    ORDER BY first LIMIT ${whole(limit + 1)}`;
}

const hasFilter = (query: { phase?: RunPhase; client?: string }) => query.client !== undefined || query.phase === "succeeded";
const scanMax = (query: { phase?: RunPhase; client?: string; limit: number }) =>
  hasFilter(query) ? Math.max(runsScannedMax, query.limit + 1) : query.limit + 1;

/** Most runs have succeeded, so those are found by walking; the index of the other phases stays small. */
export function runsSql(query: Extract<PageQuery, { page: "runs" }>): string {
  const before = query.before === undefined ? "" : ` AND id < ${text(query.before)}`;
  const ofPhase =
    query.phase === undefined || query.phase === "succeeded" ? "" : ` AND phase = '${query.phase}' AND phase <> 'succeeded'`;
  return `SELECT * FROM ${schema}.run WHERE tenant = ${text(query.tenant)}${ofPhase}${before} ORDER BY id DESC LIMIT ${scanMax(query)}`;
}

function fitsSql(query: Extract<PageQuery, { page: "runs" }>): string {
  const tests = [
    ...(query.phase === "succeeded" ? ["phase = 'succeeded'"] : []),
    ...(query.client === undefined ? [] : [`client = ${text(query.client)}`]),
  ];
  return tests.length === 0 ? "true" : tests.join(" AND ");
}

function runSql(tenant: string, run: string): string {
  const isTheirs = `r.id = ${text(run)} AND r.tenant = ${text(tenant)}`;
  return `SELECT (${tenantSql(tenant)}), (SELECT ${rowArray("run", "r")} FROM ${schema}.run r WHERE ${isTheirs}),
    (SELECT json_agg(${rowArray("task", "t")} ORDER BY t.id) FROM ${schema}.task t
      WHERE t.id > ${text(`${run}.`)} AND t.id < ${text(`${run}/`)} AND EXISTS (SELECT FROM ${schema}.run r WHERE ${isTheirs})),
    (SELECT w.body FROM ${schema}.run r JOIN ${schema}.workflow w ON w.id = r.workflow WHERE ${isTheirs})`;
}

/** Asked once a second by every scheduler. The empty text lets the primary key serve it, in its order. */
export const routesSql = `SELECT json_agg(${rowArray("route", "t")}) FROM (SELECT * FROM ${schema}.route WHERE id >= '' ORDER BY id) t`;

function rows<K extends Kind>(kind: K, cells: unknown): Extract<Row, { kind: K }>[] {
  return ((cells ?? []) as Cells[]).map((one) => rowOf(kind, one) as Extract<Row, { kind: K }>);
}

function* logRows(tenant: string, cells: readonly Cells[]): Generator<LogRow> {
  for (const [first, last, at, subject, facts] of cells)
    yield {
      tenant,
      first: Number(first),
      last: Number(last),
      at: Number(at),
      subject: String(subject) as LogRow["subject"],
      facts: unpackFacts(String(facts)),
    };
}

function byTenantAndPhase(a: Depth, b: Depth): number {
  const [x, y] = [`${a.tenant}\n${a.phase}`, `${b.tenant}\n${b.phase}`];
  return x < y ? -1 : x > y ? 1 : 0;
}
