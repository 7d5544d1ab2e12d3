// Reading workers: found by instance id or name, listed, diagnosed, and counted for an autoscaler.

import {
  type EngineGauge,
  firstFailedRule,
  readCondition,
  requirementsOf,
  type StoreReader,
  toCandidate,
  type WorkerId,
  type WorkerRow,
} from "@astraflow/engine";
import type { PlanNode } from "@astraflow/graph";
import { omitUndefined, type Scaling, type Worker, type WorkerDiagnostics } from "@astraflow/protocol";
import type { CatalogueCache } from "../catalogue/catalogue.ts";
import { notFound } from "../documents/documents.ts";
import { decodeIdCursor, encodeIdCursor, type OptionalTexts } from "../documents/page-cursors.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { readWorkerDescription } from "../presentation/worker-description.ts";
import {
  defaultHeartbeatMs,
  drainReasonsOf,
  workerStatusOf,
  isSaturated,
  presentDiagnostics,
  presentWorker,
  type WorkerViewContext,
} from "../presentation/worker-view.ts";

export interface WorkerContext extends ServiceContext {
  /** The engine's own numbers; null while it cannot be asked. */
  readonly gauge: () => EngineGauge | null;
  /** How often a worker is expected to send a heartbeat; the engine's defaults if absent. */
  readonly heartbeatMsOf?: (tenant: string, dialect: string) => number;
  /** Where it is known whether manifests conflict; without it no worker shows conflicts. */
  readonly catalogues?: CatalogueCache;
}

const workerViewContext = ({ gauge, environment, heartbeatMsOf }: WorkerContext): WorkerViewContext => ({
  // Times in rows are the store's.
  now: gauge()?.now ?? environment.clock.now(),
  heartbeatMsOf: heartbeatMsOf ?? defaultHeartbeatMs,
});

/** With the manifests that conflict in the tenant. */
async function viewContextWithConflicts(workers: WorkerContext, tenant: string): Promise<WorkerViewContext> {
  const conflicts = await workers.catalogues?.findConflicts(tenant);
  return { ...workerViewContext(workers), ...omitUndefined({ conflicts }) };
}

/** One worker as the API shows it. */
export async function readWorker(workers: WorkerContext, tenant: string, idOrName: string): Promise<Worker & { asOf: number }> {
  const { worker, head } = await findWorker(workers.reader, tenant, idOrName, 0);
  return { ...presentWorker(worker, await viewContextWithConflicts(workers, tenant)), asOf: head };
}

/** A worker by its instance id or its name, with at most `limit` of the tasks it holds. Of several of one name, one that is online. */
export async function findWorker(reader: StoreReader, tenant: string, idOrName: string, limit: number) {
  const exact = await reader.page({ page: "worker", tenant, worker: `${tenant}/${idOrName}`, limit });
  if (exact.worker !== null) return { ...exact, worker: exact.worker };
  const { items } = await reader.page({ page: "workers", tenant });
  const named = preferOnline(items.filter(({ name }) => name === idOrName));
  const found = named === undefined ? null : await reader.page({ page: "worker", tenant, worker: named.id, limit });
  if (found === null || found.worker === null) throw notFound("worker", idOrName);
  return { ...found, worker: found.worker };
}

export const preferOnline = (workers: readonly WorkerRow[]): WorkerRow | undefined =>
  workers.find(({ phase }) => phase === "online") ?? workers[0];

/** Names of the tenant's workers by their id. */
export async function readWorkerNames(reader: StoreReader, tenant: string): Promise<ReadonlyMap<string, string>> {
  const { items } = await reader.page({ page: "workers", tenant });
  return new Map(items.map(({ id, name }) => [id, name]));
}

/** How many workers of the tenant could take a node now. */
export async function fittingWorkerCounter(reader: StoreReader, tenant: string): Promise<(node: PlanNode) => number> {
  const { items } = await reader.page({ page: "workers", tenant });
  const candidates = items.map((row) => toCandidate(row, {}));
  return (node) => {
    const needs = requirementsOf(tenant, node);
    return candidates.filter((one) => firstFailedRule(needs, one, null).code === "fits").length;
  };
}

/** Workers with the same name that are considered when runs are searched by worker. */
const sameNameMax = 100;

/** The worker with this instance id, though it may be unknown by now, and all that have it as their name. */
export async function findWorkerIds(reader: StoreReader, tenant: string, idOrName: string): Promise<WorkerId[]> {
  const { items } = await reader.page({ page: "workers", tenant });
  const named = items.filter(({ name }) => name === idOrName).slice(0, sameNameMax);
  return [...new Set([`${tenant}/${idOrName}`, ...named.map(({ id }) => id)])];
}

const diagnosticsLimits = {
  /** Attempts listed in one answer. */
  attemptsMax: 200,
  /** Runs read for the names of their nodes: each may be large. */
  runsMax: 8,
} as const;

/** Everything known about one worker. */
export async function readDiagnostics(workers: WorkerContext, tenant: string, idOrName: string): Promise<WorkerDiagnostics> {
  const { reader } = workers;
  const { attemptsMax, runsMax } = diagnosticsLimits;
  const { worker, held, head } = await findWorker(reader, tenant, idOrName, attemptsMax + 1);
  const shown = held.slice(0, attemptsMax);
  const runIds = [...new Set(shown.map((task) => task.run))].slice(0, runsMax);
  const pages = await Promise.all(runIds.map((run) => reader.page({ page: "run", tenant, run })));
  const runs = new Map(pages.flatMap(({ detail }) => (detail === null ? [] : [[detail.run.id, detail] as const])));
  const parts = { worker, held: shown, hasMoreAttempts: held.length > attemptsMax, runs, head };
  return presentDiagnostics(parts, await viewContextWithConflicts(workers, tenant));
}

/** All that are given must match. */
export interface WorkerFilter extends OptionalTexts<"queue" | "packageName" | "packageVersion" | "packageStatus"> {
  readonly connected?: boolean | undefined;
  readonly registered?: boolean | undefined;
  readonly healthy?: boolean | undefined;
  readonly heartbeatAgeSecondsMax?: number | undefined;
  readonly inflightMax?: number | undefined;
  readonly latencyMsMax?: number | undefined;
}

export async function listWorkers(
  workers: WorkerContext,
  tenant: string,
  { limit, cursor, filter }: { limit: number; cursor: string | undefined; filter: WorkerFilter },
) {
  const after = decodeIdCursor("workers", cursor);
  const { items, head } = await workers.reader.page({ page: "workers", tenant });
  const context = await viewContextWithConflicts(workers, tenant);
  const found = items
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .filter(({ id }) => after === undefined || id > `${tenant}/${after}`)
    .map((worker) => presentWorker(worker, context))
    .filter((worker) => matchesWorkerFilter(worker, filter, context.now));
  const shown = found.slice(0, limit);
  const last = found.length > limit ? (shown.at(-1)?.instanceId ?? null) : null;
  return { items: shown, nextCursor: encodeIdCursor("workers", last), asOf: head };
}

export function matchesWorkerFilter(worker: Worker, filter: WorkerFilter, now: number): boolean {
  const { queue, connected, registered, healthy, heartbeatAgeSecondsMax, inflightMax, latencyMsMax } = filter;
  const { heartbeat } = worker;
  if (queue !== undefined && !worker.queues.includes(queue)) return false;
  if (connected !== undefined && (worker.connected ?? false) !== connected) return false;
  if (registered !== undefined && (worker.registered ?? false) !== registered) return false;
  if (healthy !== undefined && (heartbeat?.healthy ?? false) !== healthy) return false;
  const ageMs = now - Date.parse(worker.lastHeartbeatAt);
  if (heartbeatAgeSecondsMax !== undefined && ageMs > heartbeatAgeSecondsMax * 1_000) return false;
  if (inflightMax !== undefined && (heartbeat?.metrics?.inflight ?? 0) > inflightMax) return false;
  if (latencyMsMax !== undefined && (heartbeat?.metrics?.latencyMs ?? 0) > latencyMsMax) return false;
  return hasPackage(worker, filter);
}

function hasPackage({ packages = [] }: Worker, { packageName, packageVersion, packageStatus }: WorkerFilter): boolean {
  if (packageName === undefined && packageVersion === undefined && packageStatus === undefined) return true;
  return packages.some(
    ({ name, version, status }) =>
      (packageName === undefined || name === packageName) &&
      (packageVersion === undefined || version === packageVersion) &&
      (packageStatus === undefined || status === packageStatus),
  );
}

/** Open tasks of a tenant that are counted: with so many, more workers are needed whatever the exact number. */
export const countedTasksMax = 10_000;

export async function readScaling(reader: StoreReader, tenant: string): Promise<Scaling> {
  const [depth, { items, head }] = await Promise.all([
    reader.page({ page: "depth", tenant, max: countedTasksMax }),
    reader.page({ page: "workers", tenant }),
  ]);
  const tasksIn = (phase: "ready" | "leased"): number => depth.items.find((one) => one.phase === phase)?.tasks ?? 0;
  const queued = tasksIn("ready");
  const running = tasksIn("leased");
  const isPartial = depth.items.reduce((sum, one) => sum + one.tasks, 0) >= countedTasksMax;
  const workers = { online: 0, away: 0, lost: 0, left: 0, saturated: 0, draining: 0 };
  let slots = 0;
  for (const worker of items) {
    const condition = readCondition(worker.condition);
    const isDraining = drainReasonsOf(worker, condition).length > 0;
    const status = workerStatusOf(worker, condition);
    if (status !== "enrolled") workers[status] += 1;
    if (worker.phase !== "online") continue;
    if (isSaturated(worker, condition)) workers.saturated += 1;
    if (isDraining) workers.draining += 1;
    else if (condition.healthy) slots += readWorkerDescription(worker).slots ?? 0;
  }
  const free = Math.max(0, slots - running);
  return { queued, running, isPartial, slots, free, workers, wantedSlots: queued + running, asOf: head };
}
