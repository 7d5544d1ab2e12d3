// What events need to know besides the facts: names of nodes and workers, results and printed text. Immutable things are remembered, the rest
// is read when it is asked for.

import { nodeAt, type Reader, slotOf, stateOf, type TaskState } from "@astraflow/engine";
import { compilePlan, type Plan } from "@astraflow/graph";
import type { EventData, JsonObject, Workflow } from "@astraflow/protocol";
import { lastWords, viewNodes } from "../rest/runs/view-nodes.ts";
import { viewRun } from "../rest/view.ts";
import { viewWorker } from "../rest/workers/view-workers.ts";
import { heartbeatData } from "./beats.ts";
import type { Lookup, PrintedChunk } from "./words.ts";

/** A node as events name it; a middleware also names its host, a host its chain. */
export interface NodeName {
  readonly nodeId: string;
  readonly hostNodeId?: string;
  readonly chainIndex?: number;
  readonly middlewares?: readonly string[];
}

export interface RunName {
  readonly client: string;
  /** Null for a task that is no node of this run. */
  node(task: string): NodeName | null;
}

export interface LookupOptions {
  readonly reader: Reader;
  readonly tenant: string;
  readonly ackDeadlineMs: number;
  readonly heartbeatMsOf: (tenant: string, dialect: string) => number;
  readonly now: () => number;
}

/** Runs whose plan is kept at hand, and nodes of a snapshot. */
const lookupLimits = { runsMax: 256, snapshotNodesMax: 1_000, workerNamesMax: 10_000 } as const;

export function createLookup(options: LookupOptions): Lookup {
  const { reader, tenant } = options;
  // Promises, so that readers who come together ask once.
  const runs = new Map<string, Promise<RunName | null>>();
  const names = new Map<string, string>();

  const readNames = async (): Promise<void> => {
    const { items } = await reader.page({ page: "workers", tenant });
    names.clear();
    for (const worker of items.slice(0, lookupLimits.workerNamesMax)) names.set(worker.id, worker.name);
  };

  const nameOf = (id: string): string => names.get(id) ?? id.slice(tenant.length + 1);

  const readRun = async (id: string): Promise<RunName | null> => {
    const { detail } = await reader.page({ page: "run", tenant, run: id, tasksMax: 0 });
    return detail === null ? null : nameRun(detail.run.client, id, JSON.parse(detail.workflow) as Workflow);
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
      if (!names.has(id)) await readNames();
      return nameOf(id);
    },
    async worker(id) {
      const { worker } = await reader.page({ page: "worker", tenant, worker: id, limit: 1 });
      if (worker === null) return null;
      const seen = viewWorker(worker, { now: options.now(), heartbeatMsOf: options.heartbeatMsOf });
      return { kind: "worker.heartbeat", ...heartbeatData(seen) };
    },
    async ended(id) {
      const { task } = await reader.page({ page: "task", tenant, task: id });
      if (task === null) return null;
      const said = lastWords(task);
      if (task.result === null) return { said, result: null };
      const kept = stateOf(task).artifacts ?? [];
      if (kept.some(({ worker }) => !names.has(worker))) await readNames();
      const artifacts = kept.map((one) => artifactWords(one, nameOf(one.worker)));
      return { said, result: { content: JSON.parse(task.result) as JsonObject, artifacts } };
    },
    async chunks(task, fence, first, count) {
      const { items } = await reader.page({ page: "chunks", tenant, task, fence, fromChunk: first, limit: count });
      const printed: PrintedChunk[] = [];
      for (const row of items)
        for (const [at, chunk] of (JSON.parse(row.body) as PrintedChunk[]).entries())
          if (row.first + at >= first && row.first + at < first + count) printed.push(chunk);
      return printed;
    },
    async snapshot(id) {
      const { detail, head } = await reader.page({ page: "run", tenant, run: id, tasksMax: lookupLimits.snapshotNodesMax });
      if (detail === null) return null;
      await readNames();
      const isCut = detail.tasks.length >= lookupLimits.snapshotNodesMax;
      const cutAfter = isCut ? (detail.tasks.at(-1)?.id ?? null) : null;
      const nodes = viewNodes(detail, { workers: names, ackDeadlineMs: options.ackDeadlineMs }, cutAfter);
      const shown = nodes.slice(0, lookupLimits.snapshotNodesMax);
      return { kind: "run.snapshot", run: viewRun(detail.run), nodes: shown, asOf: head } as EventData<"run.snapshot"> & {
        asOf: number;
      };
    },
  };
}

/** Spelt as in the worker's own result: clients in the field read this event so. */
function artifactWords(artifact: NonNullable<TaskState["artifacts"]>[number], workerName: string): JsonObject {
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

function nameRun(client: string, id: string, workflow: Workflow): RunName {
  const plan = namesIn(compilePlan(workflow));
  return {
    client,
    node(task) {
      const slot = slotOf({ id: task, run: id });
      const node = nodeAt(plan, slot);
      if (node === null) return null;
      const idBeside = (ordinal: number) => nodeAt(plan, `${slot.slice(0, slot.lastIndexOf("/") + 1)}${ordinal}`)?.id ?? "";
      if (node.chain.length > 0) return { nodeId: node.id, middlewares: node.chain.map(idBeside) };
      if (node.host === null) return { nodeId: node.id };
      return { nodeId: node.id, hostNodeId: idBeside(node.host), chainIndex: node.chainIndex ?? 0 };
    },
  };
}

/** A plan with nothing but the names of its nodes: hundreds of them are kept, and a whole one may take many megabytes. */
function namesIn({ nodes }: Plan): Plan {
  const light = nodes.map(({ id, host, chain, chainIndex, container }) => ({
    id,
    host,
    chain,
    chainIndex,
    container: container === null ? null : { body: namesIn(container.body) },
  }));
  return { nodes: light as unknown as Plan["nodes"], starts: [] };
}
