// Workers, what is known of one of them, and commands to them, as the API shows them. Pure.

import {
  defaultSettings,
  isGone,
  livenessAfter,
  nodeAt,
  type RunDetail,
  readCondition,
  redactCommand,
  type TaskRow,
  taskPathOf,
  type WorkerCommandRecord,
  type WorkerCondition,
  type WorkerDescription,
  type WorkerRow,
  workerTimings,
} from "@astraflow/engine";
import {
  type CommandDetail,
  type CommandRef,
  type JsonObject,
  omitUndefined,
  type Worker,
  type WorkerAttemptSummary,
  type WorkerDiagnostics,
  type WorkerHandler,
} from "@astraflow/protocol";
import { isoTime } from "./iso-time.ts";
import type { ManifestConflicts } from "./manifest-conflicts.ts";
import { cachedPlanOf } from "./plan-cache.ts";
import { isAckPending } from "./run-view.ts";
import { readWorkerDescription } from "./worker-description.ts";

/** What is true now and stands in no row. */
export interface WorkerViewContext {
  /** The store's time. */
  readonly now: number;
  /** How often a worker of this tenant and dialect is expected to be heard. */
  heartbeatMsOf(tenant: string, dialect: string): number;
  /** Package versions of which workers announced different manifests; absent where nobody has looked. */
  readonly conflicts?: ManifestConflicts;
}

/** The engine's default. */
export const defaultHeartbeatMs = (tenant: string, dialect: string): number =>
  workerTimings(defaultSettings, tenant, dialect).heartbeatMs;

export const instanceIdOf = (worker: string): string => worker.slice(worker.indexOf("/") + 1);
/** A worker's own channel: what is bound to the worker goes there. */
export const workerQueueOf = (worker: string): string => `worker.${instanceIdOf(worker)}`;

/** Why it gets nothing new; both may hold, and lifting one does not lift the other. */
export function drainReasonsOf(worker: WorkerRow, condition: WorkerCondition): ("operator" | "strain")[] {
  const isStrained = condition.strain !== null && worker.phase === "online";
  return [...(worker.draining ? (["operator"] as const) : []), ...(isStrained ? (["strain"] as const) : [])];
}

export const isSaturated = (worker: WorkerRow, condition: WorkerCondition): boolean =>
  worker.phase === "online" && condition.saturatedAt !== null;

/** While its lease lasts it may come back, and the engine waits for it; that it has left is shown at once. */
export const workerStatusOf = (worker: WorkerRow, { hasLeft }: WorkerCondition): WorkerRow["phase"] =>
  worker.phase === "away" && hasLeft === true ? "left" : worker.phase;

export function presentWorker(worker: WorkerRow, context: WorkerViewContext): Worker {
  const about = readWorkerDescription(worker);
  const condition = readCondition(worker.condition);
  const drains = drainReasonsOf(worker, condition);
  return {
    id: worker.name,
    instanceId: instanceIdOf(worker.id),
    bootId: worker.boot,
    tenant: worker.tenant,
    lastHeartbeatAt: isoTime(lastSeenAt(worker, condition)),
    queues: [workerQueueOf(worker.id)],
    status: workerStatusOf(worker, condition),
    ...(worker.phase === "online" && { liveness: livenessOf(worker, context).level }),
    connected: worker.phase === "online",
    registered: !isGone(worker),
    draining: drains.length > 0,
    ...(drains.length > 0 && { drainedBy: drains }),
    ...(drains.includes("strain") && condition.strain !== null && { strain: condition.strain }),
    saturated: isSaturated(worker, condition),
    ...(isSaturated(worker, condition) && { saturatedSince: isoTime(condition.saturatedAt ?? 0) }),
    // One that is known over REST alone may have said neither.
    ...(about.hostname !== undefined && about.hostname !== "" && { hostname: about.hostname }),
    ...(about.version !== undefined && about.version !== "" && { version: about.version }),
    ...(about.packages !== undefined && { packages: presentPackages(about.packages, context.conflicts) }),
    ...(about.payloadTypes !== undefined && { payloadTypes: [...about.payloadTypes] }),
    ...(about.slots !== undefined && {
      capabilities: {
        concurrency: {
          maxParallel: about.slots,
          ...omitUndefined({ perNodeLimits: about.perNodeLimits }),
        },
        runtimes: [...(about.runtimes ?? [])],
        features: [...(about.features ?? [])],
        ...omitUndefined({ pool: about.pool, tags: about.tags }),
      },
    }),
    ...(condition.beatAt !== null && { heartbeat: presentHeartbeat(condition) }),
  };
}

/** Which manifest it announced is shown where other workers announced another for the same version. */
function presentPackages(packages: WorkerDescription["packages"], conflicts: ManifestConflicts | undefined) {
  return packages.map(({ manifest, ...one }) => {
    const holders = manifest === undefined ? undefined : conflicts?.get(`${one.name}/${one.version}`);
    if (manifest === undefined || holders === undefined) return one;
    return { ...one, manifest, otherManifests: holders.filter((other) => other.manifest !== manifest) };
  }) as NonNullable<Worker["packages"]>;
}

const lastSeenAt = (worker: WorkerRow, condition: WorkerCondition): number =>
  Math.max(worker.seenAt, condition.beatAt ?? worker.seenAt);

function livenessOf(worker: WorkerRow, context: WorkerViewContext): WorkerDiagnostics["liveness"] {
  const heartbeatMs = Math.max(1, context.heartbeatMsOf(worker.tenant, readWorkerDescription(worker).dialect ?? "v2"));
  const silentMs = Math.max(0, Math.round(context.now - lastSeenAt(worker, readCondition(worker.condition))));
  // A worker without a session is not listened to: by its periods it is as silent as can be.
  return { level: worker.phase === "online" ? livenessAfter(silentMs, heartbeatMs) : "unhealthy", silentMs, heartbeatMs };
}

/** Names of the wire to names of the API; numbers of a worker's own keep theirs. */
const metricNames: Readonly<Record<string, string>> = {
  cpu_pct: "cpuPct",
  mem_pct: "memPct",
  disk_pct: "diskPct",
  latency_ms: "latencyMs",
};

/** The numbers of the last heartbeat; what is no number is not shown as one. */
function heartbeatMetricsOf(condition: Pick<WorkerCondition, "vitals">): Record<string, number> {
  const metrics = condition.vitals?.["metrics"] ?? {};
  const numbers = Object.entries(metrics as object).filter((pair): pair is [string, number] => Number.isFinite(pair[1]));
  return Object.fromEntries(numbers.map(([name, value]) => [metricNames[name] ?? name, value]));
}

export function presentHeartbeat(condition: Pick<WorkerCondition, "healthy" | "vitals">): NonNullable<Worker["heartbeat"]> {
  const { drift } = (condition.vitals?.["packages"] ?? {}) as { drift?: unknown };
  return {
    healthy: condition.healthy,
    metrics: heartbeatMetricsOf(condition),
    ...(typeof drift === "boolean" && { packages: { drift } }),
  };
}

export interface WorkerDiagnosticsParts {
  readonly worker: WorkerRow;
  readonly held: readonly TaskRow[];
  readonly hasMoreAttempts: boolean;
  /** Runs of held attempts, as far as they were read: they name the nodes. */
  readonly runs: ReadonlyMap<string, RunDetail>;
  readonly head: number;
}

export function presentDiagnostics(parts: WorkerDiagnosticsParts, context: WorkerViewContext): WorkerDiagnostics {
  const { worker, held, hasMoreAttempts, runs, head } = parts;
  const about = readWorkerDescription(worker);
  const condition = readCondition(worker.condition);
  const { outbox, ...resources } = heartbeatMetricsOf(condition);
  return {
    worker: presentWorker(worker, context),
    session: {
      phase: workerStatusOf(worker, condition),
      ...(about.dialect !== undefined && { dialect: about.dialect }),
      epoch: worker.epoch,
      replica: worker.replica,
      joinedAt: isoTime(worker.joinedAt),
      ...(worker.due !== null && { leaseUntil: isoTime(worker.due) }),
    },
    liveness: livenessOf(worker, context),
    attempts: held.map((task) => presentHeldAttempt(task, runs.get(task.run))),
    hasMoreAttempts,
    handlers: presentHandlers(about),
    resources,
    ...(outbox !== undefined && { outbox: Math.max(0, Math.round(outbox)) }),
    ...(condition.vitals !== null && { vitals: condition.vitals as JsonObject }),
    asOf: head,
  };
}

function presentHeldAttempt(task: TaskRow, run: RunDetail | undefined): WorkerAttemptSummary {
  const node = run === undefined ? null : nodeAt(cachedPlanOf(run.workflow), taskPathOf(task));
  return {
    taskId: task.id,
    runId: task.run,
    ...(node !== null && { nodeId: node.id, nodeType: node.type }),
    fence: task.fence,
    attempt: task.attempt,
    pendingAck: isAckPending(task),
    ...(task.grantedAt !== null && { since: isoTime(task.grantedAt) }),
  };
}

/** From the manifests where the worker sent them; a package without one is named as such. */
function presentHandlers(about: Partial<WorkerDescription>): WorkerHandler[] {
  const known = (about.handlers ?? []).map((one) => ({ ...one, capabilities: [...one.capabilities] }));
  const named = new Set(known.map((one) => `${one.package}@${one.version}`));
  const bare = (about.packages ?? []).filter((one) => one.status === "installed" && !named.has(`${one.name}@${one.version}`));
  return [...known, ...bare.map((one) => ({ package: one.name, version: one.version }))];
}

export const presentCommandRef = (
  id: string,
  { workerName, sentAt }: Pick<WorkerCommandRecord, "workerName" | "sentAt">,
): CommandRef => ({ commandId: id, workerName, acceptedAt: isoTime(sentAt) });

export function presentCommand(id: string, body: WorkerCommandRecord, head: number): CommandDetail {
  const { worker, order, status, endedAt, details, error } = body;
  return {
    ...presentCommandRef(id, body),
    workerId: instanceIdOf(worker),
    type: order.type,
    status,
    ...(endedAt !== null && { finishedAt: isoTime(endedAt) }),
    request: redactCommand(order) as unknown as JsonObject,
    ...(details !== undefined && { result: details as JsonObject }),
    ...(error !== undefined && { error }),
    asOf: head,
  };
}
