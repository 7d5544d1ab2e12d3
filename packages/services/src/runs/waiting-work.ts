// What waits and why: the rules by which work is placed, applied to one node and to the queues of ready tasks.

import {
  explainWaiting,
  firstFailedRule,
  type KeyHolder,
  nodeAt,
  type QueueDepth,
  type RunRow,
  readTaskState,
  type StoreReader,
  scopeOf,
  type TaskRequirements,
  type TaskRow,
  taskPathOf,
  toCandidate,
  type WorkerRow,
} from "@astraflow/engine";
import type { Plan, PlanNode } from "@astraflow/graph";
import type { JsonObject, Placement, QueueList } from "@astraflow/protocol";
import { isoTime } from "../presentation/iso-time.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";
import { readWorkerDescription } from "../presentation/worker-description.ts";
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

export async function explainPlacement(runs: RunServices, tenant: string, runId: string, nodeId: string): Promise<Placement> {
  const { reader, environment, runReader } = runs;
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
    label: node?.label ?? taskPathOf(task),
    workflow: run.label,
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

/** Tasks of a queue that are counted: with so many, more workers are needed whatever the exact number. */
const queueTasksMax = 10_000;

async function readQueues(reader: StoreReader, tenant: string) {
  const [{ items: queues, head }, { items: workers }] = await Promise.all([
    reader.page({ page: "lines", tenant, max: queueTasksMax }),
    reader.page({ page: "workers", tenant }),
  ]);
  return { queues, workers, head };
}

export async function listQueues(reader: StoreReader, tenant: string, now: number): Promise<QueueList> {
  const { queues, workers, head } = await readQueues(reader, tenant);
  return { items: queues.flatMap((queue) => presentQueue(queue, workers, now)), asOf: head };
}

/** Tasks that wait for or run in a pool or of a package, as KEDA reads them. */
export async function readQueueMetric(
  reader: StoreReader,
  tenant: string,
  { pool, packageName }: { readonly pool: string | undefined; readonly packageName: string | undefined },
) {
  const { queues, workers, head } = await readQueues(reader, tenant);
  const isWanted = (needs: TaskRequirements) =>
    (pool === undefined || (needs.pool ?? "default") === pool) &&
    (packageName === undefined || needs.packageName === packageName);
  const queued = queues
    .filter(({ route }) => route !== null && isWanted(JSON.parse(route.needs) as TaskRequirements))
    .reduce((sum, queue) => sum + queue.tasks, 0);
  const matching = workers.filter((worker) => {
    const about = readWorkerDescription(worker);
    const hasPackage = (about.packages ?? []).some(({ name }) => name === packageName);
    return worker.phase === "online" && (pool === undefined || about.pool === pool) && (packageName === undefined || hasPackage);
  });
  const running = await countHeldAttempts(reader, tenant, matching);
  const slots = matching.reduce((sum, worker) => sum + (readWorkerDescription(worker).slots ?? 0), 0);
  return { value: queued + running, queued, running, slots, asOf: head };
}

async function countHeldAttempts(reader: StoreReader, tenant: string, workers: readonly WorkerRow[]): Promise<number> {
  const counts = await Promise.all(
    workers.map(async ({ id: worker }) => (await reader.page({ page: "worker", tenant, worker, limit: 1_000 })).held.length),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

function presentQueue({ line, route, tasks, oldestReadyAt }: QueueDepth, workers: readonly WorkerRow[], now: number) {
  if (route === null) return [];
  const needs = JSON.parse(route.needs) as TaskRequirements;
  const pin = line.split("|")[2] ?? null;
  const blocked: Record<string, number> = {};
  let fitting = 0;
  for (const row of workers) {
    const { code } = firstFailedRule(needs, toCandidate(row, {}), pin);
    if (code === "fits") fitting += 1;
    else blocked[code] = (blocked[code] ?? 0) + 1;
  }
  const shown: QueueList["items"][number] = {
    queue: line,
    waiting: tasks,
    isPartial: tasks >= queueTasksMax,
    ...(oldestReadyAt !== null && { oldestWaitMs: Math.max(0, Math.round(now - oldestReadyAt)) }),
    needs: {
      package: needs.packageName,
      version: needs.packageVersion,
      nodeType: needs.nodeType,
      ...(needs.pool !== null && { pool: needs.pool }),
      ...(Object.keys(needs.tags).length > 0 && { tags: { ...needs.tags } }),
      ...(pin !== null && { worker: instanceIdOf(pin) }),
    },
    workers: { fitting, blocked },
  };
  return [shown];
}
