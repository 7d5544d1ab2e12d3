// Why a task waits: its own reasons, and for each worker of the tenant the first rule by which it does not take the task. Pure, from rows as
// stored, so that any door can answer it for every worker of every scheduler. Nothing is decided here.

import type { PlanNode } from "@astraflow/graph";
import type { WorkerDescription } from "../../interface/command.ts";
import type { Millis, ReadyTask, RunId, RunRow, TaskId, TaskRow, WorkerId, WorkerPhase, WorkerRow } from "../../storage/rows.ts";
import { usedSlots } from "../fleet/connected-worker.ts";
import { findMismatch, type RouteMismatch, readDescription, requirementsOf, type TaskRequirements } from "../fleet/route.ts";
import { runDeadline } from "../nodes/fan-out.ts";
import { isRunLive } from "../rows/run.ts";
import { isEnded } from "../rows/task.ts";
import { readCondition } from "../rows/worker-condition.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

export type PlacementRuleCode =
  | Exclude<RouteMismatch["code"], "tenant">
  | Exclude<WorkerPhase, "online">
  | "draining"
  | "strained"
  | "unhealthy"
  | "pinned"
  | "slots"
  | "node-limit"
  /** No rule fails: it is about to take the task, or others are before the task. */
  | "fits";

export interface WorkerVerdict {
  readonly worker: WorkerId;
  readonly name: string;
  readonly code: PlacementRuleCode;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** What a worker is, as far as it matters for placement. */
export interface PlacementCandidate {
  readonly worker: WorkerId;
  readonly tenant: string;
  readonly about: WorkerDescription;
  readonly phase: WorkerPhase;
  readonly draining: boolean;
  readonly resourcePressure: string | null;
  readonly healthy: boolean;
  /** Attempts that take a slot, and those of the node's type among them; null if unknown. */
  readonly busy: number | null;
  readonly busyOfType: number | null;
}

/** The first rule that this worker fails, in the order in which an operator would fix them. */
export function firstFailedRule(
  requirements: TaskRequirements,
  one: PlacementCandidate,
  pin: WorkerId | null,
): Pick<WorkerVerdict, "code" | "facts"> {
  if (one.phase !== "online") return { code: one.phase, facts: {} };
  if (one.draining) return { code: "draining", facts: {} };
  if (one.resourcePressure !== null) return { code: "strained", facts: { lacks: one.resourcePressure.split(" ") } };
  if (!one.healthy) return { code: "unhealthy", facts: {} };
  const mismatch = findMismatch(requirements, one);
  if (mismatch !== null && mismatch.code !== "tenant")
    return { code: mismatch.code, facts: { has: mismatch.has, needs: mismatch.needs } };
  if (pin !== null && pin !== one.worker) return { code: "pinned", facts: { to: pin.slice(requirements.tenant.length + 1) } };
  if (one.busy !== null && one.busy >= one.about.slots)
    return { code: "slots", facts: { slots: one.about.slots, busy: one.busy } };
  const limit = one.about.perNodeLimits?.[requirements.nodeType];
  if (limit !== undefined && one.busyOfType !== null && one.busyOfType >= limit)
    return { code: "node-limit", facts: { nodeType: requirements.nodeType, limit, busy: one.busyOfType } };
  return { code: "fits", facts: {} };
}

/** The first failed rule of each worker connected here, for the error of a task that waited too long. */
export function explainNoWorker(
  { fleet }: UnitOfWork,
  task: TaskRow,
): ({ worker: string; code: PlacementRuleCode } & WorkerVerdict["facts"])[] {
  const requirements = fleet.routes.get(task.route);
  if (requirements === undefined) return [];
  const connectedWorkers = [...fleet.workers.values()]
    .filter((connected) => connected.tenant === requirements.tenant)
    .slice(0, 20);
  return connectedWorkers.map((connected) => {
    const candidate = { ...connected, phase: "online", busy: usedSlots(connected), busyOfType: null } as const;
    const { code, facts } = firstFailedRule(requirements, candidate, task.pin);
    return { worker: connected.name, code, ...facts };
  });
}

export type WaitReasonCode =
  | "run-over"
  | "ended"
  | "running"
  | "hosting"
  | "predecessors"
  | "not-reached"
  | "retry"
  | "key"
  | "resource"
  | "preference"
  | "queued";

export interface WaitReason {
  readonly code: WaitReasonCode;
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface WaitExplanation {
  readonly summary: string;
  /** About the task itself, the one that decides first. */
  readonly reasons: readonly WaitReason[];
  readonly workers: readonly WorkerVerdict[];
  /** What would help, the best first, as codes. */
  readonly fixes: readonly string[];
}

/** What the caller looked up besides; all of it is optional. */
export interface WaitingTaskFacts {
  /** Attempts by worker, without those that wait for others. */
  readonly held?: ReadonlyMap<WorkerId, { readonly busy: number; readonly busyOfType: number }>;
  /** The nodes it waits for, with the phase of each; null: not reached. */
  readonly before?: readonly { readonly node: string; readonly phase: string | null }[];
  /** Holders of its concurrency key; `held`: how many there are, of which only some may be listed. */
  readonly key?: { readonly limit: number; readonly held: number; readonly holders: readonly KeyHolder[] };
}

/** A holder of a concurrency key. */
export interface KeyHolder {
  readonly task: TaskId;
  readonly run: RunId;
  readonly node: string;
  readonly phase: string;
  /** Since when it has been queued or running under the key. */
  readonly since: Millis | null;
  /** As people know it; null while it waits for one. */
  readonly worker: string | null;
}

export function explainWaiting(
  run: RunRow,
  task: TaskRow | null,
  node: PlanNode,
  workers: readonly WorkerRow[],
  now: Millis,
  looked: WaitingTaskFacts = {},
): WaitExplanation {
  const reasons = waitReasons(run, task, node, now, looked);
  const requirements = requirementsOf(run.tenant, node);
  const verdicts = workers
    .filter(({ tenant }) => tenant === run.tenant)
    .map((row) => ({
      worker: row.id,
      name: row.name,
      ...firstFailedRule(requirements, toCandidate(row, looked), task?.pin ?? null),
    }));
  return {
    summary: summarize(node, task, reasons, verdicts),
    reasons,
    workers: verdicts,
    fixes: suggestFixes(reasons, verdicts),
  };
}

export function toCandidate(row: WorkerRow, looked: WaitingTaskFacts): PlacementCandidate {
  const { healthy, strain } = readCondition(row.condition);
  const held = looked.held?.get(row.id);
  return {
    worker: row.id,
    tenant: row.tenant,
    about: readDescription(row),
    phase: row.phase,
    draining: row.draining,
    resourcePressure: strain,
    healthy,
    busy: held?.busy ?? null,
    busyOfType: held?.busyOfType ?? null,
  };
}

/** Holders are listed only if the caller looked them up: an empty list would be wrong. */
function keyReason(run: RunRow, task: TaskRow, looked: WaitingTaskFacts): WaitReason {
  const key = task.key?.slice(run.tenant.length + 1) ?? null;
  return { code: "key", facts: looked.key === undefined ? { key } : { key, ...looked.key } };
}

function waitReasons(run: RunRow, task: TaskRow | null, node: PlanNode, now: Millis, looked: WaitingTaskFacts): WaitReason[] {
  if (!isRunLive(run)) return [{ code: "run-over", facts: { phase: run.phase } }];
  if (task === null) return [predecessorReason("not-reached", looked)];
  if (isEnded(task)) return [{ code: "ended", facts: { phase: task.phase } }];
  switch (task.phase) {
    case "waiting":
      return [predecessorReason("predecessors", looked, task.needs)];
    case "hosting":
      return [{ code: "hosting", facts: {} }];
    case "leased":
      return [{ code: "running", facts: { worker: task.worker, attempt: task.attempt, since: task.grantedAt } }];
    case "parked":
      return task.line === null
        ? [{ code: "retry", facts: { until: task.due, failures: task.failures } }]
        : [keyReason(run, task, looked)];
    default:
      return queuedReasons(run, task, node, now);
  }
}

function predecessorReason(code: "not-reached" | "predecessors", { before = [] }: WaitingTaskFacts, needs?: number): WaitReason {
  const open = before.filter(({ phase }) => phase !== "succeeded" && phase !== "skipped");
  return { code, facts: { waitsFor: open, ...(needs === undefined ? {} : { needs }) } };
}

function queuedReasons(run: RunRow, task: ReadyTask, node: PlanNode, now: Millis): WaitReason[] {
  // Until when it may wait: its own time in queue (or the next check of its pin), and its run's time limit.
  const facts = { sinceMs: now - task.readyAt, priority: task.band, until: task.due, runUntil: runDeadline(run) };
  if (task.pin === null) return [{ code: "queued", facts }];
  const isPreferred = node.policy.affinity?.mode === "preferred";
  const pinned: WaitReason = {
    code: isPreferred ? "preference" : "resource",
    facts: {
      worker: task.pin.slice(task.pin.indexOf("/") + 1),
      ...(node.policy.affinity === undefined ? {} : { key: node.policy.affinity.key }),
    },
  };
  return [pinned, { code: "queued", facts }];
}

const fixByRule: Readonly<Record<PlacementRuleCode, string | null>> = {
  slots: "add-slots",
  "node-limit": "raise-node-limit",
  draining: "undrain-worker",
  strained: "free-memory-or-disk",
  unhealthy: "look-at-worker",
  away: "reconnect-worker",
  enrolled: "connect-worker",
  lost: "restart-worker",
  "package-missing": "install-package",
  "package-version": "install-version",
  "package-status": "repair-package",
  pool: "change-pool",
  tag: "change-tags",
  pinned: "rebind",
  fits: null,
};

/** The nearest remedies first: a worker that lacks only a slot is nearer than one that lacks the package. */
function suggestFixes(reasons: readonly WaitReason[], workers: readonly WorkerVerdict[]): string[] {
  const code = reasons[0]?.code;
  if (code === "retry") return ["retry-now", "skip"];
  if (code === "key") return ["wait-for-key", "raise-key-limit"];
  if (code !== "queued" && code !== "resource" && code !== "preference") return [];
  if (workers.length === 0) return ["start-worker"];
  const found = new Set(workers.map((one) => one.code));
  return (Object.keys(fixByRule) as PlacementRuleCode[]).flatMap((one) =>
    found.has(one) && fixByRule[one] !== null ? [fixByRule[one]] : [],
  );
}

function summarize(
  node: PlanNode,
  task: TaskRow | null,
  reasons: readonly WaitReason[],
  workers: readonly WorkerVerdict[],
): string {
  const [first] = reasons;
  const name = node.label === "" ? node.id : node.label;
  const facts = first?.facts ?? {};
  switch (first?.code) {
    case "run-over":
      return `${name} does not wait: its run is ${String(facts["phase"])}`;
    case "ended":
      return `${name} does not wait: it is ${String(facts["phase"])}`;
    case "running":
      return `${name} is running (attempt ${task?.attempt ?? 1})`;
    case "hosting":
      return `${name} is a container or has middlewares; look at the tasks inside it`;
    case "not-reached":
    case "predecessors": {
      const open = (facts["waitsFor"] as readonly { node: string }[]).map((one) => one.node);
      return open.length === 0 ? `${name} has not been reached yet` : `${name} waits for ${open.join(", ")}`;
    }
    case "retry":
      return `${name} failed ${task?.failures === 1 ? "once" : `${task?.failures ?? 0} times`} and waits for its next attempt`;
    case "key":
      return `${name} waits for concurrency key ${String(facts["key"])}${holdersText(facts)}`;
    case "resource":
    case "preference":
      return `${name} waits for worker ${String(facts["worker"])}${pinnedWorkerText(workers, task?.pin ?? null)}`;
    default:
      return queuedSummary(name, workers);
  }
}

function holdersText(facts: WaitReason["facts"]): string {
  const [first] = (facts["holders"] ?? []) as readonly KeyHolder[];
  if (first === undefined) return "";
  const others = Number(facts["held"]) - 1;
  return `, held by task ${first.task}${others > 0 ? ` and ${others} more` : ""}`;
}

function pinnedWorkerText(workers: readonly WorkerVerdict[], pin: WorkerId | null): string {
  const one = workers.find(({ worker }) => worker === pin);
  return one === undefined || one.code === "fits" ? "" : `, which cannot take it now (${one.code})`;
}

function queuedSummary(name: string, workers: readonly WorkerVerdict[]): string {
  if (workers.length === 0) return `${name} waits: no worker is known`;
  const ready = workers.filter(({ code }) => code === "fits").length;
  if (ready > 0) return `${name} is in line: ${ready} of ${workers.length} workers can take it`;
  const counts = new Map<PlacementRuleCode, number>();
  for (const { code } of workers) counts.set(code, (counts.get(code) ?? 0) + 1);
  const countTexts = [...counts].sort((a, b) => b[1] - a[1]).map(([code, count]) => `${count} ${code}`);
  return `${name} waits: none of ${workers.length} workers can take it (${countTexts.join(", ")})`;
}
