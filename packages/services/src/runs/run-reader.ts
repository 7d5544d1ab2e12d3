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
import { notFound } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { type NodeViewContext, presentDefinition, presentNodes, presentTasks } from "../presentation/node-view.ts";
import { cachedDefinitionOf, cachedPlanOf } from "../presentation/plan-cache.ts";
import { presentRun, presentRunEvent } from "../presentation/run-view.ts";
import { instanceIdOf, workerQueueOf } from "../presentation/worker-view.ts";
import { findWorkerIds, readWorkerNames } from "../workers/worker-reader.ts";
import {
  type ArtifactPage,
  type ArtifactQuery,
  artifactStatusesAt,
  artifactsOf,
  readArtifactStatuses,
  readArtifacts,
} from "./run-artifacts.ts";
import { nodeNotFound } from "./run-control.ts";
import { RunHistory } from "./run-history.ts";

const runLimits = {
  /** Nodes that one answer shows; more are read page by page. */
  nodesMax: 1_000,
  /** Artifacts of further nodes; still more are read page by page. */
  artifactsMax: 10_000,
  /** Tasks whose states are filled into a definition: all of its own nodes, unless there are very many iterations. */
  definitionTasksMax: 20_000,
} as const;

/** A run of the caller's tenant with its first tasks. */
export async function findRun(reader: StoreReader, tenant: string, run: string, tasksMax: number = runLimits.nodesMax) {
  const { detail, head } = await reader.page({ page: "run", tenant, run, tasksMax });
  if (detail === null) throw notFound("run", run);
  return { detail, head };
}

type ContextReader = (tasks: readonly TaskRow[]) => Promise<NodeViewContext>;

/** A run as it is or as it was, and how to read its tasks. */
interface OpenedRun extends Pick<RunDetail, "run" | "workflow"> {
  readonly asOf: number;
  readonly contextOf: ContextReader;
  readTask(id: string): Promise<TaskRow | null>;
  readTasks(after: string | undefined, limit: number): Promise<{ items: readonly TaskRow[]; next: string | null; asOf: number }>;
}

interface FoundNode {
  readonly task: TaskRow | null;
  readonly node: RunNodeStatus;
  readonly plan: Plan;
}

export type RunListQuery = Omit<Extract<PageQuery, { page: "runs" }>, "page" | "phase" | "workers"> & {
  /** Null: runs of every phase. */
  readonly phases: readonly (RunPhase | null)[];
  /** Instance id or name. */
  readonly worker?: string;
};

export class RunReader {
  readonly #reader: StoreReader;
  readonly #clock: ServiceContext["environment"]["clock"];
  readonly #ackDeadlineMs: number;
  /** One answer continues from what another has folded. */
  readonly #history: RunHistory;

  constructor({ reader, environment }: Pick<ServiceContext, "reader" | "environment">, ackDeadlineMs: number) {
    this.#reader = reader;
    this.#clock = environment.clock;
    this.#ackDeadlineMs = ackDeadlineMs;
    this.#history = new RunHistory(reader);
  }

  /** A run with its first nodes and their artifacts, as the API shows it. */
  async read(tenant: string, id: string) {
    const { detail, head } = await findRun(this.#reader, tenant, id);
    const cutAfter = detail.tasks.length >= runLimits.nodesMax ? (detail.tasks.at(-1)?.id ?? null) : null;
    const contextOf: ContextReader = (tasks) => this.#readArtifactContext(tenant, tasks);
    const nodes = presentNodes(detail, await contextOf(detail.tasks), cutAfter);
    const query = { after: cutAfter ?? "", limit: runLimits.artifactsMax, isAll: true };
    const beyond = cutAfter === null ? nothingBeyond : await readArtifacts(this.#reader, detail, contextOf, query);
    return { ...presentWholeRun(detail.run, nodes, cutAfter, beyond), asOf: head };
  }

  /** The run as it was, with its first nodes and the artifacts they had by then. */
  async readAt(tenant: string, id: string, at: number) {
    const historical = await this.#history.readRunAt(tenant, id, at);
    const tasks = await this.#history.readTaskRows(historical, historical.ids.slice(0, runLimits.nodesMax));
    const cutAfter = historical.ids.length > runLimits.nodesMax ? (tasks.at(-1)?.id ?? null) : null;
    const { run, workflow, fold } = historical;
    const context = { ...(await this.#readNodeContext(tenant, tasks)), fateOf: artifactStatusesAt(fold) };
    const nodes = presentNodes({ run, workflow, tasks }, context, cutAfter);
    return { ...presentWholeRun(run, nodes, cutAfter, nothingBeyond), at, asOf: at };
  }

  /** The definition of a run with the states of its nodes; `isFinal`: they will not change any more. */
  async readDefinition(tenant: string, id: string) {
    const { detail, head } = await findRun(this.#reader, tenant, id, runLimits.definitionTasksMax);
    const show = async () => ({
      ...presentDefinition(detail, await this.#readNodeContext(tenant, detail.tasks)),
      asOf: head,
    });
    return { run: detail.run, isFinal: detail.run.endedAt !== null, show };
  }

  /** Newest first. */
  async list({ phases, worker, ...query }: RunListQuery) {
    const workers = worker === undefined ? {} : { workers: await findWorkerIds(this.#reader, query.tenant, worker) };
    const pages = await Promise.all(
      phases.map((phase) => this.#reader.page({ page: "runs", ...query, ...workers, ...(phase !== null && { phase }) })),
    );
    return mergePages(pages, query.limit);
  }

  async listEvents(
    tenant: string,
    run: string,
    { after, limit }: { readonly after: number | null; readonly limit: number },
  ): Promise<RunEventList> {
    const { items, next, floor, head } = await this.#reader.events({ tenant, after: after ?? 0, subject: runKey(run), limit });
    // Facts prove that the run exists and is the caller's; only without any does it have to be looked up.
    if (items.length === 0) await findRun(this.#reader, tenant, run);
    if (after !== null && after < floor)
      throw fault("E.CURSOR.EXPIRED", "events after this cursor have been deleted; read the run and continue from its asOf", {
        floor,
        head,
      });
    return { items: items.map((entry) => presentRunEvent(entry, run)), nextCursor: String(next), asOf: head };
  }

  /** A page of nodes as they are, or as they were; those that were not reached are left out. */
  async listNodes(
    tenant: string,
    id: string,
    { cursor, limit, at }: { readonly cursor: string | undefined; readonly limit: number; readonly at: number | undefined },
  ) {
    const opened = await this.#open(tenant, id, at);
    const { items, next, asOf } = await opened.readTasks(cursor, limit);
    const nodes = presentTasks(cachedDefinitionOf(opened.workflow), items, await opened.contextOf(items));
    return { nodes, next, asOf };
  }

  /** One node with its artifacts, as it is or as it was. */
  async readNode(tenant: string, id: string, name: string, at: number | undefined): Promise<FoundNode & { asOf: number }> {
    const opened = await this.#open(tenant, id, at);
    return { ...(await findNode(opened, name)), asOf: opened.asOf };
  }

  /** A node without its artifacts. One that was not reached has no task. */
  async findBareNode(tenant: string, id: string, name: string): Promise<FoundNode & { run: RunRow; asOf: number }> {
    const opened = await this.#open(tenant, id, undefined);
    const contextOf: ContextReader = (tasks) => this.#readNodeContext(tenant, tasks);
    return { ...(await findNode({ ...opened, contextOf }, name)), run: opened.run, asOf: opened.asOf };
  }

  /** Which worker each package of a run is bound to. */
  async listBindings(tenant: string, id: string) {
    const { detail, head } = await findRun(this.#reader, tenant, id, 0);
    const workers = await readWorkerNames(this.#reader, tenant);
    const items = Object.entries(readBindings(detail.run)).map(([name, { worker, at }]) => ({
      package: name,
      workerId: instanceIdOf(worker),
      workerName: workers.get(worker) ?? instanceIdOf(worker),
      queue: workerQueueOf(worker),
      at: isoTime(at),
    }));
    return { items, asOf: head };
  }

  async listArtifacts(tenant: string, id: string, query: ArtifactQuery) {
    const { asOf, contextOf, ...run } = await this.#open(tenant, id, undefined);
    const { items, next } = await readArtifacts(this.#reader, run, contextOf, query);
    return { items, nextCursor: next, asOf };
  }

  /** The run as it is, or as it was at a position of the log. */
  async #open(tenant: string, id: string, at: number | undefined): Promise<OpenedRun> {
    const reader = this.#reader;
    if (at === undefined) {
      const { detail, head } = await findRun(reader, tenant, id, 0);
      return {
        ...detail,
        asOf: head,
        contextOf: (tasks) => this.#readArtifactContext(tenant, tasks),
        readTask: async (task) => (await reader.page({ page: "task", tenant, task })).task,
        async readTasks(after, limit) {
          const query = { page: "tasks", tenant, run: id, limit } as const;
          const page = await reader.page({ ...query, ...(after !== undefined && { after }) });
          return { ...page, asOf: Math.min(head, page.head) };
        },
      };
    }
    const history = this.#history;
    const historical = await history.readRunAt(tenant, id, at);
    const fateOf = artifactStatusesAt(historical.fold);
    return {
      ...historical,
      asOf: at,
      contextOf: async (tasks) => ({ ...(await this.#readNodeContext(tenant, tasks)), fateOf }),
      readTask: async (task) => (await history.readTaskRows(historical, [task]))[0] ?? null,
      async readTasks(after, limit) {
        const rest = after === undefined ? historical.ids : historical.ids.filter((task) => task > after);
        const items = await history.readTaskRows(historical, rest.slice(0, limit));
        return { items, next: rest.length > limit ? (rest[limit - 1] ?? null) : null, asOf: at };
      },
    };
  }

  /** Names of workers are read only if a task has a worker. */
  async #readNodeContext(tenant: string, tasks: readonly TaskRow[]): Promise<NodeViewContext> {
    const hasWorker = tasks.some((task) => task.worker !== null);
    const workers = hasWorker ? await readWorkerNames(this.#reader, tenant) : new Map<string, string>();
    return { workers, ackDeadlineMs: this.#ackDeadlineMs };
  }

  /** The same with what became of the artifacts of these tasks. */
  async #readArtifactContext(tenant: string, tasks: readonly TaskRow[]): Promise<NodeViewContext> {
    const context = await this.#readNodeContext(tenant, tasks);
    return { ...context, fateOf: await readArtifactStatuses(this.#reader, tenant, tasks, this.#clock.now()) };
  }
}

const nothingBeyond: ArtifactPage = { items: [], next: null };

/** `cutAfter`: the last task whose node is among these; `beyond`: artifacts of the nodes after it. */
function presentWholeRun(run: RunRow, nodes: RunNodeStatus[], cutAfter: string | null, beyond: ArtifactPage) {
  const artifacts = [...nodes.flatMap(artifactsOf), ...beyond.items];
  return {
    ...presentRun(run),
    ...(artifacts.length > 0 && { artifacts }),
    ...(beyond.next !== null && { artifactsNextCursor: beyond.next }),
    nodes,
    ...(cutAfter !== null && { nodesNextCursor: cutAfter }),
  };
}

type RunsPage = PageOf<{ page: "runs"; tenant: string; limit: number }>;

/**
 * Ids are ordered by time, so the newest first is the largest first. A page may end early with more to come: older runs of the other pages
 * are left for the next page, or those in between would never be shown. The page is true at the oldest of the heads.
 */
function mergePages(pages: readonly RunsPage[], limit: number): Pick<RunsPage, "items" | "next" | "head"> {
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

async function findNode({ run, workflow, contextOf, readTask }: OpenedRun, name: string): Promise<FoundNode> {
  const { id, plan } = resolveTaskId({ run, workflow }, name);
  const task = await readTask(id);
  const tasks = task === null ? [] : [task];
  const node = presentNodes({ run, workflow, tasks }, await contextOf(tasks)).find((one) => one.taskId === id);
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
