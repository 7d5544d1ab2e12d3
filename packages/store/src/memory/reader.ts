// Reads outside a turn, over the committed state. They never see a turn that is still under way.

import {
  type ChunkRow,
  type DocRow,
  docId,
  type EventPage,
  type EventQuery,
  type PageOf,
  type PageQuery,
  type QueueDepth,
  type RunDetail,
  type RunPhase,
  type RunRow,
  runOf,
  type TaskCount,
  type Tenant,
  type WorkerCount,
} from "@astraflow/engine";
import { cutLogPage } from "../common/log-rows.ts";
import {
  type CutPage,
  createDocumentFilter,
  createRunFilter,
  cutPage,
  type DocumentPosition,
  documentIdRange,
  formatDocumentCursor,
  hasHead,
  idOf,
  type PageFor,
  type PageReaders,
  parseDocumentCursor,
  readHeadlessPage,
  routeOfTaskQueue,
  routeQueuePrefix,
} from "../common/page-filters.ts";
import { compareCounts, compareIds, compareText, countKey } from "../common/row-order.ts";
import { hasEnded } from "../common/row-shape.ts";
import { type MemoryTables, takeFirst } from "./tables.ts";

export function readEvents(tables: MemoryTables, query: EventQuery): EventPage {
  const tenant = tables.tenant(query.tenant);
  const { subject, before } = query;
  const rows = [...tenant.log].filter((row) => subject === undefined || row.subject === subject);
  const wanted = before === undefined ? rows : rows.filter((row) => row.first < before).reverse();
  const { position: head, floor, removed } = tenant;
  return cutLogPage(wanted, query, { head, floor, removed });
}

export function readPage<Q extends PageQuery>(tables: MemoryTables, query: Q): PageOf<Q> {
  const page = readHeadlessPage(pageReaders, query, tables);
  return (hasHead(query) ? { ...page, head: tables.tenant(query.tenant).position } : page) as PageOf<Q>;
}

const pageReaders: PageReaders<[MemoryTables]> = {
  runs: readRuns,
  ended: readEndedRuns,
  run: ({ tenant, run: id, tasksMax, withoutInputs }, tables) => {
    const run = findOwnRun(tables, tenant, id);
    const detail = run === null ? null : readRunDetail(tables, run, tasksMax);
    if (detail === null || withoutInputs !== true) return { detail };
    return { detail: { ...detail, tasks: detail.tasks.map((task) => ({ ...task, params: null })), workflow: "" } };
  },
  tasks: ({ tenant, run: id, after = "", limit }, tables) => {
    const run = findOwnRun(tables, tenant, id);
    return cutPage(run === null ? [] : takeFirst(tables.tasksOf(run.id, after), limit + 1), limit, idOf);
  },
  task: ({ tenant, task: id, withoutInputs }, tables) => {
    const run = findOwnRun(tables, tenant, runOf(id));
    const task = run === null ? null : tables.find("task", id);
    return { run: task === null ? null : run, task: task !== null && withoutInputs === true ? { ...task, params: null } : task };
  },
  docs: readDocuments,
  doc: ({ tenant, collection, names }, tables) => ({
    items: names.map((name) => tables.find("doc", docId(tenant, collection, name))),
  }),
  chunks: (query, tables) => ({ items: readChunks(query, tables) }),
  lines: (query, tables) => ({ items: readTaskQueueDepths(query, tables) }),
  workers: ({ tenant }, tables) => ({
    items: tables
      .all("worker")
      .filter((worker) => worker.tenant === tenant)
      .sort(compareIds),
  }),
  routes: (_query, tables) => ({ items: tables.all("route").sort(compareIds) }),
  worker: ({ tenant, worker: id, limit }, tables) => {
    const worker = tables.find("worker", id);
    if (worker?.tenant !== tenant) return { worker: null, held: [] };
    return { worker, held: [...tables.tasksHeldBy(id)].slice(0, limit) };
  },
  tenants({ after = "", limit }, tables) {
    const names = tables.tenantNames().filter((name) => name > after);
    return cutPage(names, limit, (name) => name);
  },
  key: ({ tenant, key }, tables) => ({ key: tables.find("key", `${tenant}/${key}`) }),
  crew: (_query, tables) => ({ items: countWorkers(tables) }),
  depth: (query, tables) => ({ items: countOpenTasks(query, tables) }),
};

function findOwnRun(tables: MemoryTables, tenant: Tenant, id: string): RunRow | null {
  const run = tables.find("run", id);
  return run?.tenant === tenant ? run : null;
}

function readRuns(query: PageFor<"runs">, tables: MemoryTables): CutPage<RunRow> {
  const matches = createRunFilter(query, (run, workers) =>
    [...tables.tasksOf(run, "")].some(({ worker }) => worker !== null && workers.includes(worker)),
  );
  const found = tables
    .all("run")
    .filter((run) => run.tenant === query.tenant && (query.before === undefined || run.id < query.before) && matches(run))
    .sort((a, b) => compareIds(b, a));
  return cutPage(found, query.limit, idOf);
}

function readEndedRuns({ tenant, before, limit }: PageFor<"ended">, tables: MemoryTables) {
  const own = tables.all("run").filter((run) => run.tenant === tenant && (before === undefined || run.id < before));
  const { items, next } = cutPage(
    own.sort((a, b) => compareIds(b, a)),
    limit,
    idOf,
  );
  return { runs: items.flatMap(({ id, endedAt }) => (endedAt === null ? [] : [{ id, endedAt }])), next };
}

function readRunDetail(tables: MemoryTables, run: RunRow, tasksMax = Number.POSITIVE_INFINITY): RunDetail {
  const tasks = tasksMax > 0 ? takeFirst(tables.tasksOf(run.id, ""), tasksMax) : [];
  return { run, tasks, workflow: tables.find("workflow", run.workflow)?.body ?? "" };
}

function readDocuments(query: PageFor<"docs">, tables: MemoryTables): CutPage<DocRow> {
  const { above, below } = documentIdRange(query);
  const matches = createDocumentFilter(query);
  const sign = query.order === "desc" ? -1 : 1;
  const compare = (a: DocumentPosition, b: DocumentPosition) => sign * (compareText(a.sort, b.sort) || compareText(a.id, b.id));
  const after = parseDocumentCursor(query.after);
  const found = tables
    .all("doc")
    .filter((doc) => doc.tenant === query.tenant && doc.collection === query.collection && doc.id >= above && doc.id < below)
    .filter((doc) => (matches?.(doc) ?? true) && (after === null || compare(doc, after) > 0))
    .sort(compare);
  return cutPage(found, query.limit, formatDocumentCursor);
}

function readChunks(query: PageFor<"chunks">, tables: MemoryTables): ChunkRow[] {
  if (findOwnRun(tables, query.tenant, runOf(query.task)) === null || query.limit <= 0) return [];
  const chunks = [...tables.chunksOf(query.task)];
  const { fence = chunks.at(-1)?.fence, fromChunk = 0, fromLine = Number.NEGATIVE_INFINITY } = query;
  return chunks
    .filter((chunk) => chunk.fence === fence && chunk.first + chunk.count > fromChunk && chunk.line + chunk.lines > fromLine)
    .slice(0, query.limit);
}

function readTaskQueueDepths(query: PageFor<"lines">, tables: MemoryTables): QueueDepth[] {
  const depths: QueueDepth[] = [];
  for (const line of tables.taskQueueNames().filter((name) => name.startsWith(routeQueuePrefix))) {
    const route = tables.find("route", routeOfTaskQueue(line));
    if (route?.tenant !== query.tenant) continue;
    const tasks = query.max > 0 ? takeFirst(tables.tasksInQueue(line), query.max) : [];
    const readyAts = tasks.flatMap((task) => task.readyAt ?? []);
    depths.push({ line, route, tasks: tasks.length, oldestReadyAt: readyAts.length === 0 ? null : Math.min(...readyAts) });
  }
  return depths;
}

function countWorkers(tables: MemoryTables): WorkerCount[] {
  return [...Map.groupBy(tables.all("worker"), countKey).values()]
    .flatMap((workers) =>
      workers.slice(0, 1).map(({ tenant, phase, draining }) => ({ tenant, phase, draining, workers: workers.length })),
    )
    .sort(compareCounts);
}

const openRunPhases: readonly string[] = ["queued", "running", "ending"] satisfies RunPhase[];

/** Tasks that have not ended, counted by tenant and phase; what has ended would make this cost grow with history. */
function countOpenTasks({ tenant, max }: PageFor<"depth">, tables: MemoryTables): TaskCount[] {
  const live = tables.all("run").filter((run) => !hasEnded(run) && (tenant === undefined || run.tenant === tenant));
  live.sort((a, b) => openRunPhases.indexOf(a.phase) - openRunPhases.indexOf(b.phase) || compareIds(a, b));
  const counts: TaskCount[] = [];
  for (const [owner, runs] of Map.groupBy(live, (run) => run.tenant)) {
    const open = runs.flatMap((run) => [...tables.tasksOf(run.id, "")]).filter((task) => !hasEnded(task));
    for (const [phase, tasks] of Map.groupBy(open.slice(0, max), (task) => task.phase))
      counts.push({ tenant: owner, phase, tasks: tasks.length });
  }
  return counts.sort(compareCounts);
}
