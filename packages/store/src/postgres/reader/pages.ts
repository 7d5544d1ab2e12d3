// Pages that one statement answers: what is selected for each, and how its cells are read.

import { docId, runOf, type TaskCount, type WorkerCount } from "@astraflow/engine";
import { cutPage, type HeadlessPage, idOf, type PageFor, type PageName } from "../../common/page-filters.ts";
import { compareCounts } from "../../common/row-order.ts";
import { decodeChunk, type RowKind, type RowOfKind } from "../../common/row-shape.ts";
import { decodeRow, listOf, type ResultCells, rowArraySql } from "../sql/columns.ts";
import { isStorable, nameLiteral as text, textArrayLiteral, integerLiteral as whole } from "../sql/literals.ts";
import { schemaName } from "../sql/tables.ts";
import {
  boundedTaskCountsSql,
  chunksSql,
  heldByOwnWorkerSql,
  openTaskCountsSql,
  ownRunSql,
  routesSql,
  taskQueueDepthsSql,
  tasksSql,
} from "./queries.ts";

export interface PageStatement<P extends PageName> {
  /** Each finds one cell. */
  readonly selects: (query: PageFor<P>) => string[];
  readonly decode: (cells: readonly unknown[], query: PageFor<P>) => HeadlessPage<P>;
}

export const pageStatements: { readonly [P in Exclude<PageName, "runs" | "docs">]: PageStatement<P> } = {
  run: {
    selects: ({ tenant, run, tasksMax, withoutInputs }) => [
      runSql(tenant, run),
      tasksSql({ tenant, run, limit: tasksMax, withoutInputs }),
      withoutInputs === true
        ? "SELECT NULL"
        : `SELECT w.body FROM ${schemaName}.run r JOIN ${schemaName}.workflow w ON w.id = r.workflow WHERE ${ownRunSql(tenant, run)}`,
    ],
    decode([cells, tasks, workflow]) {
      const run = decodeCell("run", cells);
      return { detail: run && { run, tasks: decodeRows("task", tasks), workflow: String(workflow ?? "") } };
    },
  },
  ended: {
    selects: ({ tenant, before, limit }) => [
      `SELECT json_agg(json_build_array(r.id, r."endedAt") ORDER BY r.id DESC) FROM (
         SELECT id, "endedAt" FROM ${schemaName}.run WHERE tenant = ${text(tenant)}
         ${before === undefined ? "" : `AND id < ${text(before)}`} ORDER BY id DESC LIMIT ${whole(limit + 1)}) r`,
    ],
    decode([cells], { limit }) {
      const { items, next } = cutPage(listOf<[string, number | null]>(cells), limit, ([id]) => id);
      return { runs: items.flatMap(([id, endedAt]) => (endedAt === null ? [] : [{ id, endedAt: Number(endedAt) }])), next };
    },
  },
  tasks: {
    selects: (query) => [tasksSql({ ...query, limit: Math.max(0, query.limit) + 1 })],
    decode: ([tasks], { limit }) => cutPage(decodeRows("task", tasks), Math.max(0, limit), idOf),
  },
  task: {
    selects: ({ tenant, task, withoutInputs }) => [
      runSql(tenant, runOf(task)),
      `SELECT ${rowArraySql("task", "t", withoutInputs === true ? "params" : undefined)} FROM ${schemaName}.task t WHERE t.id = ${text(task)}
        AND EXISTS (SELECT FROM ${schemaName}.run r WHERE ${ownRunSql(tenant, runOf(task))})`,
    ],
    decode: ([run, task]) => ({ run: task === null ? null : decodeCell("run", run), task: decodeCell("task", task) }),
  },
  doc: {
    selects({ tenant, collection, names }) {
      const ids = names.map((name) => docId(tenant, collection, name)).filter(isStorable);
      return [
        `SELECT json_agg(${rowArraySql("doc", "d")}) FROM ${schemaName}.doc d WHERE d.id = ANY (${textArrayLiteral(ids)}::text[])`,
      ];
    },
    decode([cells], { tenant, collection, names }) {
      const found = new Map(decodeRows("doc", cells).map((doc) => [doc.id, doc]));
      return { items: names.map((name) => found.get(docId(tenant, collection, name)) ?? null) };
    },
  },
  chunks: {
    selects: (query) => [chunksSql(query)],
    decode: ([chunks]) => ({ items: listOf<ResultCells>(chunks).map(decodeChunk) }),
  },
  lines: {
    selects: (query) => [taskQueueDepthsSql(query)],
    decode: ([depths]) => ({
      items: listOf<[string, ResultCells, number, number | null]>(depths).map(([line, route, tasks, oldestReadyAt]) => ({
        line,
        route: decodeRow("route", route),
        tasks,
        oldestReadyAt,
      })),
    }),
  },
  workers: {
    selects: ({ tenant }) => [
      `SELECT json_agg(${rowArraySql("worker", "t")} ORDER BY t.id) FROM ${schemaName}.worker t
       WHERE t.id > ${text(`${tenant}/`)} AND t.id < ${text(`${tenant}0`)} AND t.tenant = ${text(tenant)}`,
    ],
    decode: ([workers]) => ({ items: decodeRows("worker", workers) }),
  },
  routes: {
    selects: () => [routesSql],
    decode: ([routes]) => ({ items: decodeRows("route", routes) }),
  },
  worker: {
    selects: ({ tenant, worker, limit }) => [
      `SELECT ${rowArraySql("worker", "t")} FROM ${schemaName}.worker t WHERE t.id = ${text(worker)} AND t.tenant = ${text(tenant)}`,
      heldByOwnWorkerSql(tenant, worker, limit),
    ],
    decode: ([worker, held]) => ({ worker: decodeCell("worker", worker), held: decodeRows("task", held) }),
  },
  tenants: {
    selects: ({ after = "", limit }) => [
      `SELECT json_agg(n.id ORDER BY n.id) FROM (SELECT t.id FROM ${schemaName}.tenant t
       WHERE t.id > ${text(after)} AND t.position > 0 ORDER BY t.id LIMIT ${whole(limit + 1)}) n`,
    ],
    decode: ([names], { limit }) => cutPage(listOf<string>(names), limit, (name) => name),
  },
  key: {
    selects: ({ tenant, key }) => [
      `SELECT ${rowArraySql("key", "t")} FROM ${schemaName}.key t WHERE t.id = ${text(`${tenant}/${key}`)}`,
    ],
    decode: ([key]) => ({ key: decodeCell("key", key) }),
  },
  crew: {
    selects: () => [
      `SELECT json_agg(json_build_array(c.tenant, c.phase, c.draining, c.n)) FROM (
        SELECT tenant, phase, draining, count(*) AS n FROM ${schemaName}.worker GROUP BY tenant, phase, draining) c`,
    ],
    decode([counts]) {
      const crew = listOf<[string, WorkerCount["phase"], boolean, number]>(counts);
      return {
        items: crew.map(([tenant, phase, draining, workers]) => ({ tenant, phase, draining, workers })).sort(compareCounts),
      };
    },
  },
  depth: {
    selects({ tenant, max }) {
      const sql = tenant === undefined && max === undefined ? openTaskCountsSql : boundedTaskCountsSql(tenant, max);
      return [`SELECT json_agg(json_build_array(d.tenant, d.phase, d.n)) FROM (${sql}) d`];
    },
    decode([counts]) {
      const depths = listOf<[string, TaskCount["phase"], number]>(counts);
      return { items: depths.map(([tenant, phase, tasks]) => ({ tenant, phase, tasks })).sort(compareCounts) };
    },
  },
};

const runSql = (tenant: string, run: string): string =>
  `SELECT ${rowArraySql("run", "r")} FROM ${schemaName}.run r WHERE ${ownRunSql(tenant, run)}`;

const decodeCell = <K extends RowKind>(kind: K, cell: unknown): RowOfKind<K> | null =>
  cell === null ? null : decodeRow(kind, cell as ResultCells);

export const decodeRows = <K extends RowKind>(kind: K, cell: unknown): RowOfKind<K>[] =>
  listOf<ResultCells>(cell).map((cells) => decodeRow(kind, cells));
