// What events need to know besides the facts: names of nodes and workers, results and printed text. What never changes is cached.

import { nodeAt, type RunRow, readTaskState, type StoreReader, type TaskState, taskPathOf } from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { type EventData, type JsonObject, LruMap, omitUndefined } from "@astraflow/protocol";
import { isoTime } from "../presentation/iso-time.ts";
import { lastReportOf, presentNodes } from "../presentation/node-view.ts";
import { type CompiledDefinition, compileDefinition } from "../presentation/plan-cache.ts";
import { presentRun } from "../presentation/run-view.ts";
import { presentWorker } from "../presentation/worker-view.ts";
import { heartbeatEventData } from "./heartbeat-watch.ts";

/** A node as events name it; a middleware also names its host, a host its chain. */
export interface NodeName {
  readonly nodeId: string;
  readonly hostNodeId?: string;
  readonly chainIndex?: number;
  readonly middlewares?: readonly string[];
}

export interface RunNodeNames {
  readonly client: string;
  /** Null for a task that is no node of this run. */
  node(task: string): NodeName | null;
}

export interface EventLookupOptions {
  readonly reader: StoreReader;
  readonly tenant: string;
  readonly ackDeadlineMs: number;
  readonly heartbeatMsOf: (tenant: string, dialect: string) => number;
  readonly now: () => number;
}

export interface EndedTaskResult {
  readonly lastReport: { readonly progress?: number; readonly message?: string };
  readonly result: Pick<EventData<"node.result.snapshot">, "content" | "artifacts"> | null;
}

export interface PrintedChunk {
  readonly channel: string;
  readonly text?: string;
  readonly data?: string;
  readonly mimeType?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** Runs and definitions whose names are kept at hand, and nodes of a snapshot. */
const lookupLimits = { runsMax: 256, definitionsMax: 256, snapshotNodesMax: 1_000, workerNamesMax: 10_000 } as const;

export class EventLookup {
  readonly #options: EventLookupOptions;
  // Promises, so that readers who come together ask once.
  readonly #runs = new LruMap<string, Promise<RunNodeNames | null>>({ entriesMax: lookupLimits.runsMax, touchOnGet: false });
  /** By the digest of the definition; many runs have the same. */
  readonly #definitions = new LruMap<string, CompiledDefinition>({ entriesMax: lookupLimits.definitionsMax });
  readonly #workerNames = new Map<string, string>();

  constructor(options: EventLookupOptions) {
    this.#options = options;
  }

  run(id: string): Promise<RunNodeNames | null> {
    const known = this.#runs.get(id);
    if (known !== undefined) return known;
    const names = this.#readRun(id);
    this.#runs.set(id, names);
    // What could not be read, or is not there yet, is read anew by whoever asks next.
    const forget = () => this.#runs.delete(id);
    names.then((found) => found ?? forget(), forget);
    return names;
  }

  async workerName(id: string): Promise<string> {
    if (!this.#workerNames.has(id)) await this.#readWorkerNames();
    return this.#workerNameOf(id);
  }

  /** The worker as the stream shows it; null when it is unknown. */
  async workerHeartbeat(id: string): Promise<EventData<"worker.heartbeat"> | null> {
    const { reader, tenant, now, heartbeatMsOf } = this.#options;
    const { worker } = await reader.page({ page: "worker", tenant, worker: id, limit: 1 });
    if (worker === null) return null;
    return { kind: "worker.heartbeat", ...heartbeatEventData(presentWorker(worker, { now: now(), heartbeatMsOf })) };
  }

  /** A task that has ended: what it last said of itself, and its result where it has one. */
  async endedTask(id: string): Promise<EndedTaskResult | null> {
    const { reader, tenant } = this.#options;
    const { task } = await reader.page({ page: "task", tenant, task: id, withoutInputs: true });
    if (task === null) return null;
    const lastReport = lastReportOf(task);
    if (task.result === null) return { lastReport, result: null };
    const artifactsLeft = readTaskState(task).artifacts ?? [];
    if (artifactsLeft.some(({ worker }) => !this.#workerNames.has(worker))) await this.#readWorkerNames();
    const artifacts = artifactsLeft.map((one) => presentEventArtifact(one, this.#workerNameOf(one.worker)));
    return { lastReport, result: { content: JSON.parse(task.result) as JsonObject, artifacts } };
  }

  async printedChunks(task: string, fence: number, first: number, count: number): Promise<readonly PrintedChunk[]> {
    const { reader, tenant } = this.#options;
    const { items } = await reader.page({ page: "chunks", tenant, task, fence, fromChunk: first, limit: count });
    return items.flatMap((row) =>
      (JSON.parse(row.body) as PrintedChunk[]).filter((_, at) => row.first + at >= first && row.first + at < first + count),
    );
  }

  /** The run with its nodes as they are now, and the position at which that is true. */
  async runSnapshot(id: string): Promise<(EventData<"run.snapshot"> & { asOf: number }) | null> {
    const { reader, tenant, ackDeadlineMs } = this.#options;
    const { snapshotNodesMax } = lookupLimits;
    const query = { page: "run", tenant, run: id, tasksMax: snapshotNodesMax, withoutInputs: true } as const;
    const { detail, head } = await reader.page(query);
    const definition = detail === null ? null : await this.#definitionOf(detail.run);
    if (detail === null || definition === null) return null;
    await this.#readWorkerNames();
    const cutAfter = detail.tasks.length >= snapshotNodesMax ? (detail.tasks.at(-1)?.id ?? null) : null;
    const context = { workers: this.#workerNames, ackDeadlineMs };
    const nodes = presentNodes(detail, context, cutAfter, definition).slice(0, snapshotNodesMax);
    return { kind: "run.snapshot", run: presentRun(detail.run), nodes, asOf: head } as EventData<"run.snapshot"> & {
      asOf: number;
    };
  }

  async #readRun(id: string): Promise<RunNodeNames | null> {
    const { reader, tenant } = this.#options;
    const { detail } = await reader.page({ page: "run", tenant, run: id, tasksMax: 0, withoutInputs: true });
    const definition = detail === null ? null : await this.#definitionOf(detail.run);
    return detail === null || definition === null ? null : indexNodeNames(detail.run.client, id, definition.plan);
  }

  /** Null where the run was removed meanwhile. */
  async #definitionOf({ id, workflow }: RunRow): Promise<CompiledDefinition | null> {
    const known = this.#definitions.get(workflow);
    if (known !== undefined) return known;
    const { reader, tenant } = this.#options;
    const { detail } = await reader.page({ page: "run", tenant, run: id, tasksMax: 0 });
    if (detail === null) return null;
    const compiled = compileDefinition(detail.workflow);
    const light = { ...compiled, plan: stripPlan(compiled.plan) };
    this.#definitions.set(workflow, light);
    return light;
  }

  async #readWorkerNames(): Promise<void> {
    const { items } = await this.#options.reader.page({ page: "workers", tenant: this.#options.tenant });
    this.#workerNames.clear();
    for (const worker of items.slice(0, lookupLimits.workerNamesMax)) this.#workerNames.set(worker.id, worker.name);
  }

  #workerNameOf(id: string): string {
    return this.#workerNames.get(id) ?? id.slice(this.#options.tenant.length + 1);
  }
}

/** Spelt as in the worker's own result: clients in the field read this event so. */
function presentEventArtifact(artifact: NonNullable<TaskState["artifacts"]>[number], workerName: string): JsonObject {
  const { resource, type, sizeBytes, inline, expiresAt, metadata } = artifact;
  return {
    resource_id: resource,
    worker_name: workerName,
    type,
    ...omitUndefined({ size_bytes: sizeBytes, inline }),
    ...(expiresAt !== undefined && { expires_at: isoTime(expiresAt) }),
    ...(metadata !== undefined && { metadata: metadata as JsonObject }),
  };
}

function indexNodeNames(client: string, id: string, plan: Plan): RunNodeNames {
  return {
    client,
    node(task) {
      const slot = taskPathOf({ id: task, run: id });
      const node = nodeAt(plan, slot);
      if (node === null) return null;
      const siblingId = (ordinal: number) => nodeAt(plan, `${slot.slice(0, slot.lastIndexOf("/") + 1)}${ordinal}`)?.id ?? "";
      if (node.chain.length > 0) return { nodeId: node.id, middlewares: node.chain.map(siblingId) };
      if (node.host === null) return { nodeId: node.id };
      return { nodeId: node.id, hostNodeId: siblingId(node.host), chainIndex: node.chainIndex ?? 0 };
    },
  };
}

/** A plan with nothing but the names and places of its nodes: hundreds of them are kept, and a whole one may take many megabytes. */
function stripPlan({ nodes }: Plan): Plan {
  const light = nodes.map(({ id, ordinal, label, host, chain, chainIndex, container }) => ({
    id,
    ordinal,
    label,
    host,
    chain,
    chainIndex,
    container: container === null ? null : { subgraph: container.subgraph, body: stripPlan(container.body) },
  }));
  return { nodes: light as unknown as Plan["nodes"], starts: [] };
}
