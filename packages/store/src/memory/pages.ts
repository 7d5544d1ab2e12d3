// Reads outside a turn, over the committed state. They never see a turn that is still under way.

import {
  type ChunkRow,
  docKey,
  type EventPage,
  type EventQuery,
  type PageOf,
  type PageQuery,
  type QueueDepth,
  type Row,
  type RunDetail,
  type RunPhase,
  type RunRow,
  runKey,
  runOf,
  type TaskCount,
  type Tenant,
  type WorkerCount,
  type WorkerPhase,
} from "@astraflow/engine";
import { byCrew } from "../crew.ts";
import { pageOfLog } from "../log.ts";
import { docCursor, docFilter, docRange, linePrefix, type PageFor, readDocCursor, routeOfLine, runFilter } from "../paging.ts";
import { hasEnded } from "../unit-check.ts";
import { compareText, firstOf } from "./sorted-list.ts";
import type { Tables } from "./tables.ts";

export function readEvents(tables: Tables, query: EventQuery): EventPage {
  const tenant = tables.tenant(query.tenant);
  const { subject, before } = query;
  const rows = subject === undefined ? [...tenant.log] : [...tenant.log].filter((row) => row.subject === subject);
  const wanted = before === undefined ? rows : rows.filter((row) => row.first < before).reverse();
  return pageOfLog(wanted, query, tenant.position, tenant.floor);
}

export function readPage<Q extends PageQuery>(tables: Tables, query: Q): PageOf<Q> {
  return answer(tables, query) as PageOf<Q>;
}

function answer(tables: Tables, query: PageQuery): PageOf<PageQuery> {
  switch (query.page) {
    case "runs":
      return { ...runsOf(tables, query), head: tables.tenant(query.tenant).position };
    case "run": {
      const run = ownRun(tables, query.tenant, query.run);
      const detail = run === null ? null : detailOf(tables, run, query.tasksMax);
      return { detail, head: tables.tenant(query.tenant).position };
    }
    case "tasks": {
      const run = ownRun(tables, query.tenant, query.run);
      const found = run === null ? [] : firstOf(tables.tasksOf(run.id, query.after ?? ""), query.limit + 1);
      return { ...cut(found, query.limit), head: tables.tenant(query.tenant).position };
    }
    case "task": {
      const run = ownRun(tables, query.tenant, runOf(query.task));
      const task = run === null ? null : tables.task(query.task);
      return { run: task === null ? null : run, task, head: tables.tenant(query.tenant).position };
    }
    case "docs":
      return { ...docsOf(tables, query), head: tables.tenant(query.tenant).position };
    case "doc": {
      const rows = query.names.map((name) => tables.rows.get(docKey(query.tenant, query.collection, name)));
      const items = rows.map((row) => (row?.kind === "doc" ? row : null));
      return { items, head: tables.tenant(query.tenant).position };
    }
    case "chunks":
      return { items: chunksOf(tables, query), head: tables.tenant(query.tenant).position };
    case "lines":
      return { items: linesOf(tables, query), head: tables.tenant(query.tenant).position };
    case "workers": {
      const items = rowsOf(tables, "worker")
        .filter((worker) => worker.tenant === query.tenant)
        .sort((a, b) => compareText(a.id, b.id));
      return { items, head: tables.tenant(query.tenant).position };
    }
    case "routes":
      return { items: rowsOf(tables, "route").sort((a, b) => compareText(a.id, b.id)) };
    case "worker": {
      const worker = tables.rows.get(`worker/${query.worker}`);
      const { position: head } = tables.tenant(query.tenant);
      if (worker?.kind !== "worker" || worker.tenant !== query.tenant) return { worker: null, held: [], head };
      return { worker, held: [...tables.held(worker.id)].slice(0, query.limit), head };
    }
    case "tenants": {
      const found = tables.tenantNames().filter((name) => name > (query.after ?? ""));
      const items = found.slice(0, query.limit);
      return { items, next: found.length > items.length ? (items.at(-1) ?? null) : null };
    }
    case "key": {
      const row = tables.rows.get(`key/${query.tenant}/${query.key}`);
      return { key: row?.kind === "key" ? row : null, head: tables.tenant(query.tenant).position };
    }
    case "crew":
      return { items: crewOf(tables) };
    case "depth":
      return { items: depthOf(tables, query) };
  }
}

function ownRun(tables: Tables, tenant: Tenant, id: string): RunRow | null {
  const run = tables.rows.get(runKey(id));
  return run?.kind === "run" && run.tenant === tenant ? run : null;
}

function cut<T extends { readonly id: string }>(found: readonly T[], limit: number): { items: T[]; next: string | null } {
  const items = found.slice(0, limit);
  return { items, next: found.length > items.length ? (items.at(-1)?.id ?? null) : null };
}

function runsOf(tables: Tables, query: PageFor<"runs">): { items: RunRow[]; next: string | null } {
  const fits = runFilter(query, (run, workers) => {
    for (const { worker } of tables.tasksOf(run, "")) if (worker !== null && workers.includes(worker)) return true;
    return false;
  });
  const found = rowsOf(tables, "run")
    .filter((run) => run.tenant === query.tenant && (query.before === undefined || run.id < query.before) && fits(run))
    .sort((a, b) => compareText(b.id, a.id));
  return cut(found, query.limit);
}

function detailOf(tables: Tables, run: RunRow, tasksMax = Number.POSITIVE_INFINITY): RunDetail {
  const workflow = tables.rows.get(`workflow/${run.workflow}`);
  const tasks = tasksMax > 0 ? firstOf(tables.tasksOf(run.id, ""), tasksMax) : [];
  return { run, tasks, workflow: workflow?.kind === "workflow" ? workflow.body : "" };
}

function docsOf(tables: Tables, query: PageFor<"docs">) {
  const { above, below } = docRange(query);
  const fits = docFilter(query);
  const sign = query.order === "desc" ? -1 : 1;
  const compare = (a: { sort: string; id: string }, b: { sort: string; id: string }) =>
    sign * (compareText(a.sort, b.sort) || compareText(a.id, b.id));
  const after = readDocCursor(query.after);
  const found = rowsOf(tables, "doc")
    .filter((doc) => doc.tenant === query.tenant && doc.collection === query.collection && doc.id >= above && doc.id < below)
    .filter((doc) => (fits?.(doc) ?? true) && (after === null || compare(doc, after) > 0))
    .sort(compare);
  const items = found.slice(0, query.limit);
  const last = items.at(-1);
  return { items, next: found.length > items.length && last !== undefined ? docCursor(last) : null };
}

function chunksOf(tables: Tables, query: PageFor<"chunks">): ChunkRow[] {
  if (ownRun(tables, query.tenant, runOf(query.task)) === null || query.limit <= 0) return [];
  const chunks = [...tables.chunksOf(query.task)];
  const fence = query.fence ?? chunks.at(-1)?.fence;
  const { fromChunk = 0, fromLine } = query;
  return firstOf(
    chunks,
    query.limit,
    (chunk) =>
      chunk.fence === fence &&
      chunk.first + chunk.count > fromChunk &&
      (fromLine === undefined || chunk.line + chunk.lines > fromLine),
  );
}

function linesOf(tables: Tables, query: PageFor<"lines">): QueueDepth[] {
  const depths: QueueDepth[] = [];
  for (const line of tables.lineNames().filter((name) => name.startsWith(linePrefix))) {
    const route = tables.rows.get(`route/${routeOfLine(line)}`);
    if (route?.kind !== "route" || route.tenant !== query.tenant) continue;
    const tasks = query.max > 0 ? firstOf(tables.line(line), query.max) : [];
    const readyAts = tasks.flatMap((task) => task.readyAt ?? []);
    const oldestReadyAt = readyAts.length === 0 ? null : Math.min(...readyAts);
    depths.push({ line, route, tasks: tasks.length, oldestReadyAt });
  }
  return depths;
}

function crewOf(tables: Tables): WorkerCount[] {
  const counts = new Map<string, { tenant: string; phase: WorkerPhase; draining: boolean; workers: number }>();
  for (const { tenant, phase, draining } of rowsOf(tables, "worker")) {
    const name = `${tenant}\n${phase}\n${draining}`;
    const count = counts.get(name) ?? { tenant, phase, draining, workers: 0 };
    count.workers++;
    counts.set(name, count);
  }
  return [...counts.values()].sort(byCrew);
}

const liveFirst: readonly string[] = ["queued", "running", "ending"] satisfies RunPhase[];

/** Tasks that have not ended, counted by tenant and phase; what has ended would make this cost grow with history. */
function depthOf(tables: Tables, { tenant, max }: PageFor<"depth">): TaskCount[] {
  const depths = new Map<string, { tenant: string; phase: TaskCount["phase"]; tasks: number }>();
  const counted = new Map<string, number>();
  const live = rowsOf(tables, "run").filter((run) => !hasEnded(run) && (tenant === undefined || run.tenant === tenant));
  live.sort((a, b) => liveFirst.indexOf(a.phase) - liveFirst.indexOf(b.phase) || compareText(a.id, b.id));
  for (const run of live)
    for (const task of tables.tasksOf(run.id, "")) {
      const before = counted.get(run.tenant) ?? 0;
      if (hasEnded(task) || before === max) continue;
      counted.set(run.tenant, before + 1);
      const name = `${run.tenant}\n${task.phase}`;
      const depth = depths.get(name) ?? { tenant: run.tenant, phase: task.phase, tasks: 0 };
      depth.tasks++;
      depths.set(name, depth);
    }
  return [...depths.values()].sort((a, b) => compareText(a.tenant, b.tenant) || compareText(a.phase, b.phase));
}

function rowsOf<K extends Row["kind"]>(tables: Tables, kind: K): Extract<Row, { kind: K }>[] {
  const found: Extract<Row, { kind: K }>[] = [];
  for (const row of tables.rows.values()) if (row.kind === kind) found.push(row as Extract<Row, { kind: K }>);
  return found;
}
