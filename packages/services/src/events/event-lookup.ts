// What events need to know besides the facts: names of nodes and workers, results and printed text. Immutable things are remembered, the rest
// is read when it is asked for.

import { nodeAt, readTaskState, type StoreReader, type TaskState, taskPathOf } from "@astraflow/engine";
import { compilePlan, type Plan } from "@astraflow/graph";
import type { EventData, JsonObject, Workflow } from "@astraflow/protocol";
import { lastReportOf, presentNodes } from "../presentation/node-view.ts";
import { presentRun } from "../presentation/run-view.ts";
import { presentWorker } from "../presentation/worker-view.ts";
import type { EventLookup, PrintedChunk } from "./fact-events.ts";
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

/** Runs whose plan is kept at hand, and nodes of a snapshot. */
const lookupLimits = { runsMax: 256, snapshotNodesMax: 1_000, workerNamesMax: 10_000 } as const;

export function createEventLookup(options: EventLookupOptions): EventLookup {
  const { reader, tenant } = options;
  // Promises, so that readers who come together ask once.
  const runs = new Map<string, Promise<RunNodeNames | null>>();
  const workerNames = new Map<string, string>();

  const readWorkerNames = async (): Promise<void> => {
    const { items } = await reader.page({ page: "workers", tenant });
    workerNames.clear();
    for (const worker of items.slice(0, lookupLimits.workerNamesMax)) workerNames.set(worker.id, worker.name);
  };

  const workerNameOf = (id: string): string => workerNames.get(id) ?? id.slice(tenant.length + 1);

  const readRun = async (id: string): Promise<RunNodeNames | null> => {
    const { detail } = await reader.page({ page: "run", tenant, run: id, tasksMax: 0 });
    return detail === null ? null : indexNodeNames(detail.run.client, id, JSON.parse(detail.workflow) as Workflow);
  };

  return {
    run(id) {
      const known = runs.get(id);
      if (known !== undefined) return known;
      const name = readRun(id);
      if (runs.size >= lookupLimits.runsMax) runs.delete(runs.keys().next().value as string);
      runs.set(id, name);
      // What could not be read, or is not there yet, is read anew by whoever asks next.
      const forget = () => runs.delete(id);
      name.then((found) => found ?? forget(), forget);
      return name;
    },
    async workerName(id) {
      if (!workerNames.has(id)) await readWorkerNames();
      return workerNameOf(id);
    },
    async workerHeartbeat(id) {
      const { worker } = await reader.page({ page: "worker", tenant, worker: id, limit: 1 });
      if (worker === null) return null;
      const seen = presentWorker(worker, { now: options.now(), heartbeatMsOf: options.heartbeatMsOf });
      return { kind: "worker.heartbeat", ...heartbeatEventData(seen) };
    },
    async endedTask(id) {
      const { task } = await reader.page({ page: "task", tenant, task: id });
      if (task === null) return null;
      const lastReport = lastReportOf(task);
      if (task.result === null) return { lastReport, result: null };
      const artifactsLeft = readTaskState(task).artifacts ?? [];
      if (artifactsLeft.some(({ worker }) => !workerNames.has(worker))) await readWorkerNames();
      const artifacts = artifactsLeft.map((one) => presentEventArtifact(one, workerNameOf(one.worker)));
      return { lastReport, result: { content: JSON.parse(task.result) as JsonObject, artifacts } };
    },
    async printedChunks(task, fence, first, count) {
      const { items } = await reader.page({ page: "chunks", tenant, task, fence, fromChunk: first, limit: count });
      const printed: PrintedChunk[] = [];
      for (const row of items)
        for (const [at, chunk] of (JSON.parse(row.body) as PrintedChunk[]).entries())
          if (row.first + at >= first && row.first + at < first + count) printed.push(chunk);
      return printed;
    },
    async runSnapshot(id) {
      const { detail, head } = await reader.page({ page: "run", tenant, run: id, tasksMax: lookupLimits.snapshotNodesMax });
      if (detail === null) return null;
      await readWorkerNames();
      const isCut = detail.tasks.length >= lookupLimits.snapshotNodesMax;
      const cutAfter = isCut ? (detail.tasks.at(-1)?.id ?? null) : null;
      const nodes = presentNodes(detail, { workers: workerNames, ackDeadlineMs: options.ackDeadlineMs }, cutAfter);
      const shown = nodes.slice(0, lookupLimits.snapshotNodesMax);
      return { kind: "run.snapshot", run: presentRun(detail.run), nodes: shown, asOf: head } as EventData<"run.snapshot"> & {
        asOf: number;
      };
    },
  };
}

/** Spelt as in the worker's own result: clients in the field read this event so. */
function presentEventArtifact(artifact: NonNullable<TaskState["artifacts"]>[number], workerName: string): JsonObject {
  const { resource, type, sizeBytes, inline, expiresAt, metadata } = artifact;
  return {
    resource_id: resource,
    worker_name: workerName,
    type,
    ...(sizeBytes !== undefined && { size_bytes: sizeBytes }),
    ...(inline !== undefined && { inline }),
    ...(expiresAt !== undefined && { expires_at: new Date(expiresAt).toISOString() }),
    ...(metadata !== undefined && { metadata: metadata as JsonObject }),
  };
}

function indexNodeNames(client: string, id: string, workflow: Workflow): RunNodeNames {
  const plan = stripPlan(compilePlan(workflow));
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

/** A plan with nothing but the names of its nodes: hundreds of them are kept, and a whole one may take many megabytes. */
function stripPlan({ nodes }: Plan): Plan {
  const light = nodes.map(({ id, host, chain, chainIndex, container }) => ({
    id,
    host,
    chain,
    chainIndex,
    container: container === null ? null : { body: stripPlan(container.body) },
  }));
  return { nodes: light as unknown as Plan["nodes"], starts: [] };
}
