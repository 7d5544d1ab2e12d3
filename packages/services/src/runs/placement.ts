// Why a node waits: the rules by which work is placed, applied to the rows as they are stored.

import {
  explainWaiting,
  type KeyHolder,
  nodeAt,
  type RunRow,
  readTaskState,
  type StoreReader,
  scopeOf,
  type TaskRow,
  taskPathOf,
  type WorkerRow,
} from "@astraflow/engine";
import type { Plan, PlanNode } from "@astraflow/graph";
import type { JsonObject, Placement } from "@astraflow/protocol";
import { isoTime } from "../presentation/fields.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";
import type { RunServices } from "./run-services.ts";

const placementLimits = {
  /** Workers whose load is read; for further ones only their rules are checked. */
  loadsMax: 50,
  heldMax: 1_000,
  /** Predecessors that are read, and how many at once. */
  beforeMax: 1_000,
  readsAtOnce: 50,
  /** Holders of a concurrency key that are named; further ones are only counted. */
  holdersMax: 5,
} as const;

export async function explainPlacement(
  { reader, environment, runReader }: RunServices,
  tenant: string,
  runId: string,
  nodeId: string,
): Promise<Placement> {
  const { run, task, node, plan, asOf } = await runReader.findBareNode(tenant, runId, nodeId);
  const slot = taskPathOf({ id: node.taskId, run: run.id });
  const planned = nodeAt(plan, slot) as PlanNode;
  const { items } = await reader.page({ page: "workers", tenant });
  const key = task === null ? null : await readConcurrencyKey(reader, tenant, task, items);
  const why = explainWaiting(run, task, planned, items, environment.clock.now(), {
    held: await readWorkerLoads(reader, tenant, items, planned.type),
    before: await readPredecessors(reader, plan, run, slot, planned),
    ...(key !== null && { key }),
  });
  return {
    runId: run.id,
    nodeId: node.nodeId,
    ...(task !== null && { taskId: task.id }),
    status: node.status,
    summary: why.summary,
    reasons: why.reasons.map(({ code, facts }) => ({ code, facts: presentFacts(facts, items) })),
    workers: why.workers.map(({ worker, name, code, facts }) => ({
      workerId: instanceIdOf(worker),
      workerName: name,
      code,
      facts: facts as JsonObject,
    })),
    fixes: [...why.fixes],
    asOf,
  };
}

/** Replaces worker ids by names and times by ISO texts; an unknown worker stays as it is. */
function presentFacts(facts: Readonly<Record<string, unknown>>, workers: readonly WorkerRow[]): JsonObject {
  const { worker } = facts;
  const shown = withIsoTimes(facts);
  if (typeof worker !== "string") return shown as JsonObject;
  const known = workers.find(({ id }) => id === worker || instanceIdOf(id) === worker);
  return { ...shown, worker: known?.name ?? worker } as JsonObject;
}

/** Facts that are times. */
const timeFields: ReadonlySet<string> = new Set(["since", "until", "runUntil"]);

function withIsoTimes(facts: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const shown = Object.entries(facts).map(([name, value]): [string, unknown] => {
    if (name === "holders") return [name, (value as readonly KeyHolder[]).map((one) => withIsoTimes({ ...one }))];
    return [name, timeFields.has(name) && typeof value === "number" ? isoTime(value) : value];
  });
  return Object.fromEntries(shown);
}

/** The nodes it waits for, each read by its id: a run may have more tasks than a page. */
async function readPredecessors(reader: StoreReader, plan: Plan, run: RunRow, slot: string, node: PlanNode) {
  const scope = scopeOf(slot);
  const found: { node: string; phase: string | null }[] = [];
  const before = node.before.slice(0, placementLimits.beforeMax);
  for (let from = 0; from < before.length; from += placementLimits.readsAtOnce) {
    const part = before.slice(from, from + placementLimits.readsAtOnce).map(async (ordinal) => {
      const at = scope === "" ? String(ordinal) : `${scope}/${ordinal}`;
      const { task } = await reader.page({ page: "task", tenant: run.tenant, task: `${run.id}.${at}` });
      return { node: nodeAt(plan, at)?.id ?? at, phase: task?.phase ?? null };
    });
    found.push(...(await Promise.all(part)));
  }
  return found;
}

/** Who holds the concurrency key that a task waits for; null if it waits for none. */
async function readConcurrencyKey(reader: StoreReader, tenant: string, task: TaskRow, workers: readonly WorkerRow[]) {
  if (task.phase !== "parked" || task.line === null || task.key === null) return null;
  const { key } = await reader.page({ page: "key", tenant, key: task.key.slice(tenant.length + 1) });
  if (key === null) return null;
  const named = key.holders.slice(0, placementLimits.holdersMax);
  const holders = await Promise.all(named.map((id) => readKeyHolder(reader, tenant, id, workers)));
  return { limit: key.limit, held: key.holders.length, holders: holders.filter((one) => one !== null) };
}

/** Null if it is gone between two reads. */
async function readKeyHolder(reader: StoreReader, tenant: string, id: string, workers: readonly WorkerRow[]) {
  const { task, run } = await reader.page({ page: "task", tenant, task: id });
  if (task === null || run === null) return null;
  const { detail } = await reader.page({ page: "run", tenant, run: run.id, tasksMax: 0 });
  const node = detail === null ? null : nodeAt(cachedPlanOf(detail.workflow), taskPathOf(task));
  const worker = workers.find((one) => one.id === task.worker);
  const holder: KeyHolder = {
    task: task.id,
    run: run.id,
    node: node?.id ?? taskPathOf(task),
    phase: task.phase,
    since: task.readyAt ?? task.grantedAt,
    worker: task.worker === null ? null : (worker?.name ?? instanceIdOf(task.worker)),
  };
  return holder;
}

/** How busy each worker is; a task that waits for a call of its chain takes no slot. */
async function readWorkerLoads(reader: StoreReader, tenant: string, workers: readonly WorkerRow[], nodeType: string) {
  const online = workers.filter((worker) => worker.phase === "online").slice(0, placementLimits.loadsMax);
  const { items: routes } = await reader.page({ page: "routes" });
  const types = new Map(routes.map((route) => [route.id, (JSON.parse(route.needs) as { nodeType?: string }).nodeType]));
  const loads = await Promise.all(
    online.map(async ({ id: worker }) => {
      const { held } = await reader.page({ page: "worker", tenant, worker, limit: placementLimits.heldMax });
      const busy = held.filter((task) => !waitsForChainCall(task));
      const busyOfType = busy.filter((task) => types.get(task.route) === nodeType).length;
      return [worker, { busy: busy.length, busyOfType }] as const;
    }),
  );
  return new Map(loads);
}

const waitsForChainCall = (task: TaskRow): boolean =>
  (readTaskState(task).calls ?? []).some((call) => call.fence === task.fence && call.answer === undefined);
