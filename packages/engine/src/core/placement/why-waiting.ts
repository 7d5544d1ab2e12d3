// Why a task waits: its own reasons, and for each worker the first rule by which it does not take the task. Pure, from rows as stored.

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

type PlacementRuleCode =
  | Exclude<RouteMismatch["code"], "tenant">
  | Exclude<WorkerPhase, "online">
  | "draining"
  | "strained"
  | "unhealthy"
  | "pinned"
  | "slots"
  | "node-limit"
  /** It lacks the package, and was told to install it. */
  | "package-installing"
  /** No rule fails: it is about to take the task, or others are before the task. */
  | "fits";

interface WorkerVerdict {
  readonly worker: WorkerId;
  readonly name: string;
  readonly code: PlacementRuleCode;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** What a worker is, as far as it matters for placement. */
interface PlacementCandidate {
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
  /** What it was told to install and has not answered for; absent: not known. */
  readonly installing?: readonly { readonly name: string; readonly version: string }[];
  /** Those of `busy` whose attempts have ended while their handlers cannot be stopped. */
  readonly unstoppedCount?: number;
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
  if (mismatch !== null && mismatch.code !== "tenant") {
    const coming = mismatch.code.startsWith("package-") ? findInstall(requirements, one) : undefined;
    if (coming !== undefined) return { code: "package-installing", facts: { version: coming.version, needs: mismatch.needs } };
    return { code: mismatch.code, facts: { has: mismatch.has, needs: mismatch.needs } };
  }
  if (pin !== null && pin !== one.worker) return { code: "pinned", facts: { to: pin.slice(requirements.tenant.length + 1) } };
  if (one.busy !== null && one.busy >= one.about.slots)
    return {
      code: "slots",
      facts: {
        slots: one.about.slots,
        busy: one.busy,
        ...(one.unstoppedCount !== undefined && { unstopped: one.unstoppedCount }),
      },
    };
  const limit = one.about.perNodeLimits?.[requirements.nodeType];
  if (limit !== undefined && one.busyOfType !== null && one.busyOfType >= limit)
    return { code: "node-limit", facts: { nodeType: requirements.nodeType, limit, busy: one.busyOfType } };
  return { code: "fits", facts: {} };
}

/** An install under way after which the worker would have the package. */
const findInstall = (requirements: TaskRequirements, { tenant, about, installing = [] }: PlacementCandidate) =>
  installing.find(({ name, version }) => {
    const packages = [...about.packages, { name, version, status: "installed" }];
    return findMismatch(requirements, { tenant, about: { ...about, packages } }) === null;
  });

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

/** Why a task waits: the reasons, the one that decides first, and the first as a sentence. */
interface ExplainedWait {
  readonly reasons: readonly { readonly code: string; readonly facts: Readonly<Record<string, unknown>> }[];
  readonly summary: string;
  /** What would help, the best first, as codes. */
  readonly fixes: readonly string[];
}

/** What the caller looked up besides; all of it is optional. */
interface WaitingTaskFacts {
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
  /** Of the node, in its own run: the waiting run may be of another workflow. */
  readonly label: string;
  /** Name of its run's workflow. */
  readonly workflow: string;
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
): ExplainedWait & { readonly workers: readonly WorkerVerdict[] } {
  const requirements = requirementsOf(run.tenant, node);
  const verdicts = workers
    .filter(({ tenant }) => tenant === run.tenant)
    .map((row) => ({ row, rule: firstFailedRule(requirements, toCandidate(row, looked), task?.pin ?? null) }))
    .map(({ row, rule }) => ({ worker: row.id, name: row.name, ...rule }));
  const { summary, reasons, fixes } = explainState(run, task, node, now, looked, verdicts);
  return { summary, reasons, workers: verdicts, fixes };
}

export function toCandidate(row: WorkerRow, looked: WaitingTaskFacts): PlacementCandidate {
  const { healthy, strain, unstopped, orders = [] } = readCondition(row.condition);
  const installing = orders.flatMap(({ order }) => (order.type === "pkg.install" ? [order] : []));
  const held = looked.held?.get(row.id);
  return {
    worker: row.id,
    tenant: row.tenant,
    about: readDescription(row),
    phase: row.phase,
    draining: row.draining,
    resourcePressure: strain,
    healthy,
    busy: held === undefined ? null : held.busy + (unstopped ?? 0),
    ...(unstopped !== undefined && { unstoppedCount: unstopped }),
    ...(installing.length > 0 && { installing }),
    busyOfType: held?.busyOfType ?? null,
  };
}

const waitsFor = (code: string, facts: object, summary: string, fixes: readonly string[] = []): ExplainedWait => ({
  reasons: [{ code, facts: { ...facts } }],
  summary,
  fixes,
});

function explainState(
  run: RunRow,
  task: TaskRow | null,
  node: PlanNode,
  now: Millis,
  looked: WaitingTaskFacts,
  workers: readonly WorkerVerdict[],
): ExplainedWait {
  const name = node.label === "" ? node.id : node.label;
  if (!isRunLive(run)) return waitsFor("run-over", { phase: run.phase }, `${name} does not wait: its run is ${run.phase}`);
  if (task === null) return waitsForOthers("not-reached", name, looked);
  if (isEnded(task)) return waitsFor("ended", { phase: task.phase }, `${name} does not wait: it is ${task.phase}`);
  const { worker, attempt, failures } = task;
  switch (task.phase) {
    case "waiting":
      return waitsForOthers("predecessors", name, looked, { needs: task.needs });
    case "hosting":
      return waitsFor("hosting", {}, `${name} is a container or has middlewares; look at the tasks inside it`);
    case "leased":
      return waitsFor("running", { worker, attempt, since: task.grantedAt }, `${name} is running (attempt ${attempt})`);
    case "parked": {
      if (task.line !== null) return waitsForKey(name, task.key?.slice(run.tenant.length + 1) ?? null, looked);
      const times = failures === 1 ? "once" : `${failures} times`;
      const summary = `${name} failed ${times} and waits for its next attempt`;
      return waitsFor("retry", { until: task.due, failures }, summary, ["retry-now", "skip"]);
    }
    default:
      return waitsForWorker(name, run, task, node, now, workers);
  }
}

function waitsForOthers(code: string, name: string, { before = [] }: WaitingTaskFacts, more: object = {}): ExplainedWait {
  const open = before.filter(({ phase }) => phase !== "succeeded" && phase !== "skipped");
  const nodes = open.map((one) => one.node).join(", ");
  return waitsFor(
    code,
    { waitsFor: open, ...more },
    nodes === "" ? `${name} has not been reached yet` : `${name} waits for ${nodes}`,
  );
}

/** Holders are listed only if the caller looked them up: an empty list would be wrong. */
function waitsForKey(name: string, key: string | null, { key: found }: WaitingTaskFacts): ExplainedWait {
  const [first] = found?.holders ?? [];
  const more = (found?.held ?? 0) > 1 ? ` and ${(found?.held ?? 0) - 1} more` : "";
  const holders = first === undefined ? "" : `, held by ${first.label} of run ${first.run}${more}`;
  const fixes = ["wait-for-key", "raise-key-limit"];
  return waitsFor("key", { key, ...found }, `${name} waits for concurrency key ${key}${holders}`, fixes);
}

function waitsForWorker(
  name: string,
  run: RunRow,
  task: ReadyTask,
  { policy: { affinity } }: PlanNode,
  now: Millis,
  workers: readonly WorkerVerdict[],
): ExplainedWait {
  // Until when it may wait: its own time in queue (or the next check of its pin), and its run's time limit.
  const facts = { sinceMs: now - task.readyAt, priority: task.band, until: task.due, runUntil: runDeadline(run) };
  const fixes = suggestFixes(workers);
  const queued = waitsFor("queued", facts, queuedSummary(name, workers), fixes);
  if (task.pin === null) return queued;
  const worker = task.pin.slice(task.pin.indexOf("/") + 1);
  const pinned = workers.find((one) => one.worker === task.pin);
  const problem = pinned === undefined || pinned.code === "fits" ? "" : `, which cannot take it now (${pinned.code})`;
  const code = affinity?.mode === "preferred" ? "preference" : "resource";
  const reason = { code, facts: { worker, ...(affinity !== undefined && { key: affinity.key }) } };
  return { reasons: [reason, ...queued.reasons], summary: `${name} waits for worker ${worker}${problem}`, fixes };
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
  left: "restart-worker",
  "package-installing": null,
  "package-missing": "install-package",
  "package-version": "install-version",
  "package-status": "repair-package",
  pool: "change-pool",
  tag: "change-tags",
  pinned: "rebind",
  fits: null,
};

/** The nearest remedies first: a worker that lacks only a slot is nearer than one that lacks the package. */
function suggestFixes(workers: readonly WorkerVerdict[]): string[] {
  if (workers.length === 0) return ["start-worker"];
  const found = new Set<string>(workers.map((one) => one.code));
  return Object.entries(fixByRule).flatMap(([rule, fix]) => (found.has(rule) && fix !== null ? [fix] : []));
}

function queuedSummary(name: string, workers: readonly WorkerVerdict[]): string {
  if (workers.length === 0) return `${name} waits: no worker is known`;
  const ready = workers.filter(({ code }) => code === "fits").length;
  if (ready > 0) return `${name} is in line: ${ready} of ${workers.length} workers can take it`;
  const installing = workers.filter(({ code }) => code === "package-installing");
  if (installing.length > 0)
    return `${name} waits until its package is installed on ${installing.length === 1 ? `worker ${installing[0]?.name}` : `one of ${installing.length} workers`}`;
  const counts = new Map<PlacementRuleCode, number>();
  for (const { code } of workers) counts.set(code, (counts.get(code) ?? 0) + 1);
  const countTexts = [...counts].sort((a, b) => b[1] - a[1]).map(([code, count]) => `${count} ${code}`);
  return `${name} waits: none of ${workers.length} workers can take it (${countTexts.join(", ")})`;
}
