// A rollout or rollback as it is stored, and the moves that it makes. Pure: the driver reads, asks here, and writes.

import { type FailureLimits, type FleetWorker, type PhaseTarget, type Rollout } from "@astraflow/protocol";
import type { CallerIdentity } from "../identity/identity.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { type FleetMember, hasEnded, toWaiting } from "./fleet-members.ts";

export const rolloutCollection = "rollout";
/** Of each package one document while a rollout of it is open: there is never a second one. */
export const rolloutLockCollection = "rollout-lock";

export const defaultPhases: readonly PhaseTarget[] = [1, "25%", "100%"];
export const defaultFailureLimits: FailureLimits = { max: 10, ratio: 0.2, minTasks: 5 };
export const defaultObserveMs = 60_000;
/** Workers that a reason names. */
const namedWorkersMax = 10;

export interface RolloutPhase {
  readonly target: PhaseTarget;
  readonly status: Rollout["phases"][number]["status"];
  readonly workers: readonly FleetWorker[];
}

/** Workers on their way back: where the version before is installed, then where the new one is removed. */
interface ReturnPlan {
  readonly installs: readonly FleetWorker[];
  readonly uninstalls: readonly FleetWorker[];
}

export interface RolloutRecord {
  readonly id: string;
  readonly kind: "rollout" | "rollback";
  readonly packageName: string;
  readonly version: string;
  readonly previousVersion: string | null;
  readonly pool: string | null;
  readonly status: Rollout["status"];
  readonly phase: number;
  readonly phases: readonly RolloutPhase[];
  readonly failures: FailureLimits;
  readonly observeMs: number;
  /** Wall time, since it outlives the process: a clock that is wrong changes how long a phase is watched, and nothing else. */
  readonly observeUntil: number | null;
  readonly tasks: Rollout["tasks"];
  /** Position of the log up to which tasks are counted. */
  readonly logCursor: number;
  readonly rollback: ReturnPlan | null;
  readonly reason: Rollout["reason"];
  /** Revision of its lock, which goes with its end. */
  readonly lockRev: number;
  readonly identity: CallerIdentity;
  readonly requestId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly finishedAt: number | null;
}

export const isOpenRollout = ({ status }: Pick<RolloutRecord, "status">): boolean =>
  status === "running" || status === "rollingBack";

/** How many workers a target means in a fleet of this size; never none while there are any. */
export const workersFor = (target: PhaseTarget, size: number): number =>
  typeof target === "number"
    ? Math.min(target, size)
    : Math.min(size, Math.max(1, Math.ceil((size * Number.parseInt(target, 10)) / 100)));

/** Workers that have, or get, the version by this rollout. One that was away or was lost may be chosen again. */
const reachedWorkers = ({ phases }: RolloutRecord): Set<string> =>
  new Set(phases.flatMap(({ workers }) => workers.filter(({ status }) => status !== "failed").map(({ workerId }) => workerId)));

export const currentPhase = ({ phases, phase }: RolloutRecord): RolloutPhase => {
  const found = phases[phase];
  if (found === undefined) throw new Error(`a rollout has no phase ${phase}`);
  return found;
};

export const withPhase = (record: RolloutRecord, change: Partial<RolloutPhase>): RolloutRecord => ({
  ...record,
  phases: record.phases.map((one, at) => (at === record.phase ? { ...one, ...change } : one)),
});

/** The phase begins with as many workers as are still missing, in the order of the list. */
export function beginPhase(record: RolloutRecord, candidates: readonly FleetMember[]): RolloutRecord {
  const reached = reachedWorkers(record);
  const wanted = workersFor(currentPhase(record).target, candidates.length);
  const missing = wanted - candidates.filter(({ workerId }) => reached.has(workerId)).length;
  const chosen = candidates.filter(({ workerId }) => !reached.has(workerId)).slice(0, Math.max(0, missing));
  return withPhase(record, { status: "installing", workers: chosen.map(toWaiting) });
}

/** A worker that is away or was lost says nothing about the version. */
const awayCodes: ReadonlySet<string> = new Set(["E.SESSION.UNKNOWN", "E.WORKER.LOST"]);

/** What a phase whose installs have moved does next; null: it still waits for some. */
export function judgeInstalls(record: RolloutRecord, now: number): RolloutRecord | Rollout["reason"] {
  const { workers } = currentPhase(record);
  const failed = workers.filter(({ status }) => status === "failed");
  const decisive = failed.find(({ code = "" }) => !awayCodes.has(code));
  if (decisive !== undefined) return installFailure(record, decisive);
  if (!workers.every(hasEnded)) return null;
  const [lost] = failed;
  if (lost !== undefined && failed.length === workers.length) return installFailure(record, lost);
  return withPhase({ ...record, observeUntil: now + (workers.length === 0 ? 0 : record.observeMs) }, { status: "observing" });
}

const installFailure = ({ packageName, version }: RolloutRecord, { name, message = "" }: FleetWorker) =>
  ({
    code: "install-failed",
    message: `${packageName} ${version} could not be installed on worker ${name}: ${message}`.slice(0, 2_000),
  }) as const;

/** Why the tasks of the version stop the rollout; null: they do not. */
export function findTooManyFailures({ tasks, failures, packageName, version }: RolloutRecord): Rollout["reason"] {
  const { succeeded, failed } = tasks;
  const total = succeeded + failed;
  const isOverShare = total >= failures.minTasks && failed / total > failures.ratio;
  if (failed <= failures.max && !isOverShare) return null;
  const limit = failed > failures.max ? `at most ${failures.max}` : `at most ${Math.round(failures.ratio * 100)} %`;
  return {
    code: "tasks-failed",
    message: `${failed} of ${total} tasks of ${packageName} ${version} failed; ${limit} may`,
  };
}

/** The phase is over: the next one waits, or the rollout is at its end (`isLast`). */
export function endPhase(record: RolloutRecord): { readonly record: RolloutRecord; readonly isLast: boolean } {
  const done = withPhase({ ...record, observeUntil: null }, { status: "done" });
  const isLast = record.phase >= record.phases.length - 1;
  return { record: isLast ? done : { ...done, phase: record.phase + 1 }, isLast };
}

/** Workers that this rollout has sent the version to. */
const broughtTo = ({ phases }: RolloutRecord): FleetWorker[] => {
  const workers = phases.flatMap((phase) => phase.workers.filter(({ commandId }) => commandId !== null));
  return [...new Map(workers.map((worker) => [worker.workerId, toWaiting(worker)])).values()];
};

/** It goes back; where, is decided by the next step, which looks up what was really sent. */
export const beginRollback = (record: RolloutRecord, reason: Rollout["reason"]): RolloutRecord => ({
  ...withPhase(record, { status: "failed" }),
  status: "rollingBack",
  observeUntil: null,
  reason,
});

/** The version before is installed where it is gone, then the new one removed where this rollout brought it. */
export function planReturn(record: RolloutRecord): RolloutRecord {
  const brought = broughtTo(record);
  return { ...record, rollback: { installs: record.previousVersion === null ? [] : brought, uninstalls: brought } };
}

/** Whoever did not get the version before keeps the new one: without either it could run nothing. */
export function removableWorkers({ installs, uninstalls }: ReturnPlan): readonly FleetWorker[] {
  const stuck = new Set(installs.filter(hasFailed).map(({ workerId }) => workerId));
  const isRemovable = ({ workerId }: FleetWorker): boolean => !stuck.has(workerId);
  // The same list where nobody is left out: it counts as unchanged.
  return uninstalls.every(isRemovable) ? uninstalls : uninstalls.filter(isRemovable);
}

const hasFailed = ({ status }: FleetWorker): boolean => status === "failed";

/** Workers on which the way back failed are named: somebody has to look at them. */
export function finishReturn(record: RolloutRecord, now: number): RolloutRecord {
  const { rollback, reason } = record;
  const failed = rollback === null ? [] : [...rollback.installs, ...rollback.uninstalls].filter(hasFailed);
  if (failed.length === 0) return finish(record, "rolledBack", now);
  const named = failed.slice(0, namedWorkersMax).map(({ name, message = "" }) => `worker ${name} (${message})`);
  const rest = failed.length > named.length ? ` and ${failed.length - named.length} more` : "";
  const message = `${reason?.message ?? ""}; the rollback failed on ${named.join(", ")}${rest}`.slice(0, 2_000);
  return finish({ ...record, reason: { code: "rollback-failed", message } }, "rolledBack", now);
}

/** The workers that a rollback removes the newer version from: those that have the one it goes back to. */
export function beginRemoval(record: RolloutRecord): RolloutRecord {
  const uninstalls = currentPhase(record)
    .workers.filter(({ status }) => status === "done")
    .map(toWaiting);
  return { ...record, rollback: { installs: [], uninstalls } };
}

export const finish = (record: RolloutRecord, status: "finished" | "stopped" | "rolledBack", now: number): RolloutRecord => ({
  ...record,
  status,
  finishedAt: now,
});

export function presentRollout(record: RolloutRecord): Rollout {
  const { id, kind, packageName, version, previousVersion, pool, status, phase, phases, failures, observeMs } = record;
  const { tasks, rollback, reason, identity, createdAt, updatedAt, finishedAt } = record;
  return {
    rolloutId: id,
    kind,
    packageName,
    version,
    previousVersion,
    pool,
    status,
    phase,
    phases: phases.map((one) => ({ ...one, workers: [...one.workers] })),
    failures,
    observeMs,
    tasks,
    rollback: rollback && { installs: [...rollback.installs], uninstalls: [...rollback.uninstalls] },
    reason,
    createdAt: isoTime(createdAt),
    createdBy: identity.user,
    updatedAt: isoTime(updatedAt),
    finishedAt: finishedAt === null ? null : isoTime(finishedAt),
  };
}
