// Reading runs and their nodes, as they are now or as they were at a position of the log.

import {
  nodeAt,
  type PageOf,
  type PageQuery,
  type RunDetail,
  type RunPhase,
  type RunRow,
  readBindings,
  runKey,
  type StoreReader,
  type TaskRow,
  taskPathOf,
} from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { fault, type RunEventList, type RunNodeStatus } from "@astraflow/protocol";
import { type NodeViewContext, presentDefinition, presentNodes } from "../presentation/node-view.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";
import { isoTime, presentRun, presentRunEvent } from "../presentation/run-view.ts";
import { instanceIdOf, workerQueueOf } from "../presentation/worker-view.ts";
import { findWorkerIds, readWorkerNames } from "../workers/worker-finder.ts";
import { artifactStatusesAt, artifactsOf, readArtifactStatuses, readArtifacts } from "./run-artifacts.ts";
import { nodeNotFound, runNotFound } from "./run-faults.ts";
import type { RunServices } from "./run-services.ts";

const runLimits = {
  /** Nodes that one answer shows; more are read page by page. */
  nodesMax: 1_000,
  /** Artifacts of further nodes; still more are read page by page. */
  artifactsMax: 10_000,
  /** Tasks whose states are filled into a definition: all of its own nodes, unless there are very many iterations. */
  definitionTasksMax: 20_000,
} as const;

type RunReaderServices = Pick<RunServices, "reader" | "environment" | "ackDeadlineMs" | "history">;

/** A run of the caller's tenant with its first tasks. */
export async function findRun(
  reader: StoreReader,
  tenant: string,
  run: string,
  tasksMax: number = runLimits.nodesMax,
): Promise<{ detail: RunDetail; head: number }> {
  const { detail, head } = await reader.page({ page: "run", tenant, run, tasksMax });
  if (detail === null) throw runNotFound(run);
  return { detail, head };
}

/** Names of workers are read only if a task has a worker. */
async function readNodeContext(
  { reader, ackDeadlineMs }: Pick<RunServices, "reader" | "ackDeadlineMs">,
  tenant: string,
  tasks: readonly TaskRow[],
): Promise<NodeViewContext> {
  const hasWorker = tasks.some((task) => task.worker !== null);
  return { workers: hasWorker ? await readWorkerNames(reader, tenant) : new Map(), ackDeadlineMs };
}

/** The same with what became of the artifacts of these tasks. */
async function readArtifactContext(runs: RunReaderServices, tenant: string, tasks: readonly TaskRow[]): Promise<NodeViewContext> {
  return {
    ...(await readNodeContext(runs, tenant, tasks)),
    fateOf: await readArtifactStatuses(runs.reader, tenant, tasks, runs.environment.clock.now()),
  };
}

/** A run with its first nodes and their artifacts, as the API shows it. */
export async function readRun(runs: RunReaderServices, tenant: string, id: string) {
  const { nodesMax, artifactsMax } = runLimits;
  const { detail, head } = await findRun(runs.reader, tenant, id);
  const cutAfter = detail.tasks.length >= nodesMax ? (detail.tasks.at(-1)?.id ?? null) : null;
  const contextOf = (tasks: readonly TaskRow[]) => readArtifactContext(runs, tenant, tasks);
  const nodes = presentNodes(detail, await contextOf(detail.tasks), cutAfter);
  const beyond =
    cutAfter === null
      ? { items: [], next: null }
      : await readArtifacts(runs.reader, detail, contextOf, { after: cutAfter, limit: artifactsMax, isAll: true });
  const artifacts = [...nodes.flatMap(artifactsOf), ...beyond.items];
  return {
    ...presentRun(detail.run),
    ...(artifacts.length > 0 && { artifacts }),
    ...(beyond.next !== null && { artifactsNextCursor: beyond.next }),
    nodes,
    ...(cutAfter !== null && { nodesNextCursor: cutAfter }),
    asOf: head,
  };
}

/** The run as it was, with its first nodes and the artifacts they had by then. */
export async function readRunAt(runs: RunReaderServices, tenant: string, id: string, at: number) {
  const historical = await runs.history.readRunAt(tenant, id, at);
  const tasks = await runs.history.readTaskRows(historical, historical.ids.slice(0, runLimits.nodesMax));
  const cutAfter = historical.ids.length > runLimits.nodesMax ? (tasks.at(-1)?.id ?? null) : null;
  const { run, workflow } = historical;
  const context = { ...(await readNodeContext(runs, tenant, tasks)), fateOf: artifactStatusesAt(historical.fold) };
  const nodes = presentNodes({ run, workflow, tasks }, context, cutAfter);
  const artifacts = nodes.flatMap(artifactsOf);
  return {
    ...presentRun(run),
    ...(artifacts.length > 0 && { artifacts }),
    nodes,
    ...(cutAfter !== null && { nodesNextCursor: cutAfter }),
    at,
    asOf: at,
  };
}

/** The definition of a run with the states of its nodes; `isFinal`: they will not change any more. */
export async function readRunDefinition(runs: RunReaderServices, tenant: string, id: string) {
  const { detail, head } = await findRun(runs.reader, tenant, id, runLimits.definitionTasksMax);
  return {
    run: detail.run,
    isFinal: detail.run.endedAt !== null,
    show: async () => ({
      ...presentDefinition(detail, await readNodeContext(runs, tenant, detail.tasks)),
      asOf: head,
    }),
  };
}

export type RunListQuery = Omit<Extract<PageQuery, { page: "runs" }>, "page" | "phase" | "workers"> & {
  /** Null: runs of every phase. */
  readonly phases: readonly (RunPhase | null)[];
  /** Instance id or name. */
  readonly worker?: string;
};

/** Newest first. */
export async function listRuns(
  reader: StoreReader,
  { phases, worker, ...query }: RunListQuery,
): Promise<{ items: readonly RunRow[]; next: string | null; head: number }> {
  const workers = worker === undefined ? undefined : await findWorkerIds(reader, query.tenant, worker);
  const pages = await Promise.all(
    phases.map((phase) =>
      reader.page({
        page: "runs",
        ...query,
        ...(phase !== null && { phase }),
        ...(workers !== undefined && { workers }),
      }),
    ),
  );
  return mergePages(pages, query.limit);
}

type RunsPage = PageOf<{ page: "runs"; tenant: string; limit: number }>;

/**
 * Ids are ordered by time, so the newest first is the largest first. A page may end early with more to come: older runs of the other pages
 * are left for the next page, or those in between would never be shown. The page is true at the oldest of the heads.
 */
function mergePages(pages: readonly RunsPage[], limit: number): { items: readonly RunRow[]; next: string | null; head: number } {
  const [only] = pages;
  if (only !== undefined && pages.length === 1) return only;
  const head = Math.min(...pages.map((page) => page.head));
  const [reached = null] = pages.flatMap((page) => page.next ?? []).sort((a, b) => (a < b ? 1 : -1));
  const all = pages
    .flatMap((page) => page.items)
    .filter((run) => reached === null || run.id >= reached)
    .sort((a, b) => (a.id < b.id ? 1 : -1));
  if (all.length <= limit) return { items: all, next: reached, head };
  const items = all.slice(0, limit);
  return { items, next: items.at(-1)?.id ?? null, head };
}

export async function listRunEvents(
  reader: StoreReader,
  tenant: string,
  run: string,
  { after, limit }: { readonly after: number | null; readonly limit: number },
): Promise<RunEventList> {
  const page = await reader.events({ tenant, after: after ?? 0, subject: runKey(run), limit });
  // Facts prove that the run exists and is the caller's; only without any does it have to be looked up.
  if (page.items.length === 0) await findRun(reader, tenant, run);
  if (after !== null && after < page.floor)
    throw fault("E.CURSOR.EXPIRED", "events after this cursor have been deleted; read the run and continue from its asOf", {
      floor: page.floor,
      head: page.head,
    });
  return {
    items: page.items.map((entry) => presentRunEvent(entry, run)),
    nextCursor: String(page.next),
    asOf: page.head,
  };
}

interface TaskPageQuery {
  readonly cursor: string | undefined;
  readonly limit: number;
  readonly at: number | undefined;
}

/** A page of tasks as they are, or as they were. */
export async function readTaskPage(runs: RunReaderServices, tenant: string, id: string, { cursor, limit, at }: TaskPageQuery) {
  if (at === undefined) {
    const { detail, head } = await findRun(runs.reader, tenant, id, 0);
    const after = cursor === undefined ? {} : { after: cursor };
    const page = await runs.reader.page({ page: "tasks", tenant, run: id, limit, ...after });
    const context = await readArtifactContext(runs, tenant, page.items);
    return { ...page, context, workflow: detail.workflow, asOf: Math.min(head, page.head) };
  }
  const historical = await runs.history.readRunAt(tenant, id, at);
  const rest = cursor === undefined ? historical.ids : historical.ids.filter((task) => task > cursor);
  const items = await runs.history.readTaskRows(historical, rest.slice(0, limit));
  const context = { ...(await readNodeContext(runs, tenant, items)), fateOf: artifactStatusesAt(historical.fold) };
  const next = rest.length > limit ? (rest[limit - 1] ?? null) : null;
  return { items, next, context, workflow: historical.workflow, asOf: at };
}

interface FoundNode {
  readonly task: TaskRow | null;
  readonly node: RunNodeStatus;
  readonly asOf: number;
}

/** One node with its artifacts, as it is or as it was. */
export async function readNode(
  runs: RunReaderServices,
  tenant: string,
  id: string,
  name: string,
  at: number | undefined,
): Promise<FoundNode> {
  if (at === undefined) {
    const { detail, head } = await findRun(runs.reader, tenant, id, 0);
    const found = await findNode(runs.reader, detail, name, (tasks) => readArtifactContext(runs, tenant, tasks));
    return { ...found, asOf: head };
  }
  const historical = await runs.history.readRunAt(tenant, id, at);
  const { id: taskId } = resolveTaskId(historical, name);
  const [task = null] = await runs.history.readTaskRows(historical, [taskId]);
  const tasks = task === null ? [] : [task];
  const context = { ...(await readNodeContext(runs, tenant, tasks)), fateOf: artifactStatusesAt(historical.fold) };
  const node = presentNodes({ ...historical, tasks }, context).find((one) => one.taskId === taskId);
  if (node === undefined) throw nodeNotFound(id, name);
  return { task, node, asOf: at };
}

/** A node without its artifacts. One that was not reached has no task. */
export const findBareNode = (runs: Pick<RunServices, "reader" | "ackDeadlineMs">, detail: RunDetail, name: string) =>
  findNode(runs.reader, detail, name, (tasks) => readNodeContext(runs, detail.run.tenant, tasks));

async function findNode(
  reader: StoreReader,
  detail: RunDetail,
  name: string,
  contextOf: (tasks: readonly TaskRow[]) => Promise<NodeViewContext>,
): Promise<{ task: TaskRow | null; node: RunNodeStatus; plan: Plan }> {
  const { run } = detail;
  const { id, plan } = resolveTaskId(detail, name);
  const { task } = await reader.page({ page: "task", tenant: run.tenant, task: id });
  const shown = { ...detail, tasks: task === null ? [] : [task] };
  const node = presentNodes(shown, await contextOf(shown.tasks)).find((one) => one.taskId === id);
  if (node === undefined) throw nodeNotFound(run.id, name);
  return { task, node, plan };
}

/** Which task a name means: a node by its id, or a task by its id or slot if a node runs more than once. */
function resolveTaskId({ run, workflow }: Pick<RunDetail, "run" | "workflow">, name: string): { id: string; plan: Plan } {
  const plan = cachedPlanOf(workflow);
  const top = plan.nodes.find((node) => node.id === name);
  const id = top !== undefined ? `${run.id}.${top.ordinal}` : name.startsWith(`${run.id}.`) ? name : `${run.id}.${name}`;
  if (nodeAt(plan, taskPathOf({ id, run: run.id })) === null) throw nodeNotFound(run.id, name);
  return { id, plan };
}

/** Which worker each package of a run is bound to. */
export async function listRunBindings(reader: StoreReader, tenant: string, id: string) {
  const { detail, head } = await findRun(reader, tenant, id, 0);
  const workers = await readWorkerNames(reader, tenant);
  const items = Object.entries(readBindings(detail.run)).map(([name, { worker, at }]) => ({
    package: name,
    workerId: instanceIdOf(worker),
    workerName: workers.get(worker) ?? instanceIdOf(worker),
    queue: workerQueueOf(worker),
    at: isoTime(at),
  }));
  return { items, asOf: head };
}

export async function listRunArtifacts(
  runs: RunReaderServices,
  tenant: string,
  id: string,
  query: Parameters<typeof readArtifacts>[3],
) {
  const { detail, head } = await findRun(runs.reader, tenant, id, 0);
  const { items, next } = await readArtifacts(runs.reader, detail, (tasks) => readArtifactContext(runs, tenant, tasks), query);
  return { items, nextCursor: next, asOf: head };
}
