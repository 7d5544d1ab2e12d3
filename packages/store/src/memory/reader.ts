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
import { hasEnded } from "../common/change-set-check.ts";
import { compareCounts } from "../common/compare-counts.ts";
import { cutLogPage } from "../common/log-rows.ts";
import {
  createDocumentFilter,
  createRunFilter,
  cutPage,
  documentIdRange,
  formatDocumentCursor,
  type HeadlessPage,
  hasHead,
  idOf,
  type PageFor,
  parseDocumentCursor,
  routeOfTaskQueue,
  routeQueuePrefix,
} from "../common/page-filters.ts";
import { compareText, takeFirst } from "./sorted-list.ts";
import type { MemoryTables } from "./tables.ts";

export function readEvents(tables: MemoryTables, query: EventQuery): EventPage {
  const tenant = tables.tenant(query.tenant);
  const { subject, before } = query;
  const rows = subject === undefined ? [...tenant.log] : [...tenant.log].filter((row) => row.subject === subject);
  const wanted = before === undefined ? rows : rows.filter((row) => row.first < before).reverse();
  return cutLogPage(wanted, query, tenant.position, tenant.floor);
}

export function readPage<Q extends PageQuery>(tables: MemoryTables, query: Q): PageOf<Q> {
  const page = readAnyPage(tables, query);
  return (hasHead(query) ? { ...page, head: tables.tenant(query.tenant).position } : page) as PageOf<Q>;
}

function readAnyPage(tables: MemoryTables, query: PageQuery): HeadlessPage {
  switch (query.page) {
    case "runs":
      return readRuns(tables, query);
    case "run": {
      const run = findOwnRun(tables, query.tenant, query.run);
      const detail = run === null ? null : readRunDetail(tables, run, query.tasksMax);
      return { detail };
    }
    case "tasks": {
      const run = findOwnRun(tables, query.tenant, query.run);
      const found = run === null ? [] : takeFirst(tables.tasksOf(run.id, query.after ?? ""), query.limit + 1);
      return cutPage(found, query.limit, idOf);
    }
    case "task": {
      const run = findOwnRun(tables, query.tenant, runOf(query.task));
      const task = run === null ? null : tables.task(query.task);
      return { run: task === null ? null : run, task };
    }
    case "docs":
      return readDocuments(tables, query);
    case "doc": {
      const rows = query.names.map((name) => tables.rows.get(docKey(query.tenant, query.collection, name)));
      const items = rows.map((row) => (row?.kind === "doc" ? row : null));
      return { items };
    }
    case "chunks":
      return { items: readChunks(tables, query) };
    case "lines":
      return { items: readTaskQueueDepths(tables, query) };
    case "workers": {
      const items = rowsOfKind(tables, "worker")
        .filter((worker) => worker.tenant === query.tenant)
        .sort((a, b) => compareText(a.id, b.id));
      return { items };
    }
    case "routes":
      return { items: rowsOfKind(tables, "route").sort((a, b) => compareText(a.id, b.id)) };
    case "worker": {
      const worker = tables.rows.get(`worker/${query.worker}`);
      if (worker?.kind !== "worker" || worker.tenant !== query.tenant) return { worker: null, held: [] };
      return { worker, held: [...tables.tasksHeldBy(worker.id)].slice(0, query.limit) };
    }
    case "tenants":
      return cutPage(
        tables.tenantNames().filter((name) => name > (query.after ?? "")),
        query.limit,
        (name) => name,
      );
    case "key": {
      const row = tables.rows.get(`key/${query.tenant}/${query.key}`);
      return { key: row?.kind === "key" ? row : null };
    }
    case "crew":
      return { items: countWorkers(tables) };
    case "depth":
      return { items: countOpenTasks(tables, query) };
  }
}

function findOwnRun(tables: MemoryTables, tenant: Tenant, id: string): RunRow | null {
  const run = tables.rows.get(runKey(id));
  return run?.kind === "run" && run.tenant === tenant ? run : null;
}

function readRuns(tables: MemoryTables, query: PageFor<"runs">): { items: RunRow[]; next: string | null } {
  const matches = createRunFilter(query, (run, workers) => {
    for (const { worker } of tables.tasksOf(run, "")) if (worker !== null && workers.includes(worker)) return true;
    return false;
  });
  const found = rowsOfKind(tables, "run")
    .filter((run) => run.tenant === query.tenant && (query.before === undefined || run.id < query.before) && matches(run))
    .sort((a, b) => compareText(b.id, a.id));
  return cutPage(found, query.limit, idOf);
}

function readRunDetail(tables: MemoryTables, run: RunRow, tasksMax = Number.POSITIVE_INFINITY): RunDetail {
  const workflow = tables.rows.get(`workflow/${run.workflow}`);
  const tasks = tasksMax > 0 ? takeFirst(tables.tasksOf(run.id, ""), tasksMax) : [];
  return { run, tasks, workflow: workflow?.kind === "workflow" ? workflow.body : "" };
}

function readDocuments(tables: MemoryTables, query: PageFor<"docs">) {
  const { above, below } = documentIdRange(query);
  const matches = createDocumentFilter(query);
  const sign = query.order === "desc" ? -1 : 1;
  const compare = (a: { sort: string; id: string }, b: { sort: string; id: string }) =>
    sign * (compareText(a.sort, b.sort) || compareText(a.id, b.id));
  const after = parseDocumentCursor(query.after);
  const found = rowsOfKind(tables, "doc")
    .filter((doc) => doc.tenant === query.tenant && doc.collection === query.collection && doc.id >= above && doc.id < below)
    .filter((doc) => (matches?.(doc) ?? true) && (after === null || compare(doc, after) > 0))
    .sort(compare);
  return cutPage(found, query.limit, formatDocumentCursor);
}

function readChunks(tables: MemoryTables, query: PageFor<"chunks">): ChunkRow[] {
  if (findOwnRun(tables, query.tenant, runOf(query.task)) === null || query.limit <= 0) return [];
  const chunks = [...tables.chunksOf(query.task)];
  const fence = query.fence ?? chunks.at(-1)?.fence;
  const { fromChunk = 0, fromLine } = query;
  return takeFirst(
    chunks,
    query.limit,
    (chunk) =>
      chunk.fence === fence &&
      chunk.first + chunk.count > fromChunk &&
      (fromLine === undefined || chunk.line + chunk.lines > fromLine),
  );
}

function readTaskQueueDepths(tables: MemoryTables, query: PageFor<"lines">): QueueDepth[] {
  const depths: QueueDepth[] = [];
  for (const line of tables.taskQueueNames().filter((name) => name.startsWith(routeQueuePrefix))) {
    const route = tables.rows.get(`route/${routeOfTaskQueue(line)}`);
    if (route?.kind !== "route" || route.tenant !== query.tenant) continue;
    const tasks = query.max > 0 ? takeFirst(tables.tasksInQueue(line), query.max) : [];
    const readyAts = tasks.flatMap((task) => task.readyAt ?? []);
    const oldestReadyAt = readyAts.length === 0 ? null : Math.min(...readyAts);
    depths.push({ line, route, tasks: tasks.length, oldestReadyAt });
  }
  return depths;
}

function countWorkers(tables: MemoryTables): WorkerCount[] {
  const counts = new Map<string, { tenant: string; phase: WorkerPhase; draining: boolean; workers: number }>();
  for (const { tenant, phase, draining } of rowsOfKind(tables, "worker")) {
    const name = `${tenant}\n${phase}\n${draining}`;
    const count = counts.get(name) ?? { tenant, phase, draining, workers: 0 };
    count.workers++;
    counts.set(name, count);
  }
  return [...counts.values()].sort(compareCounts);
}

const openRunPhases: readonly string[] = ["queued", "running", "ending"] satisfies RunPhase[];

/** Tasks that have not ended, counted by tenant and phase; what has ended would make this cost grow with history. */
function countOpenTasks(tables: MemoryTables, { tenant, max }: PageFor<"depth">): TaskCount[] {
  const depths = new Map<string, { tenant: string; phase: TaskCount["phase"]; tasks: number }>();
  const counted = new Map<string, number>();
  const live = rowsOfKind(tables, "run").filter((run) => !hasEnded(run) && (tenant === undefined || run.tenant === tenant));
  live.sort((a, b) => openRunPhases.indexOf(a.phase) - openRunPhases.indexOf(b.phase) || compareText(a.id, b.id));
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

function rowsOfKind<K extends Row["kind"]>(tables: MemoryTables, kind: K): Extract<Row, { kind: K }>[] {
  const found: Extract<Row, { kind: K }>[] = [];
  for (const row of tables.rows.values()) if (row.kind === kind) found.push(row as Extract<Row, { kind: K }>);
  return found;
}
