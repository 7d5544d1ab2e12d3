// Timers: unacked grants, acks to store, attempts to recheck, silent sessions, deadlines of runs, tasks, leases and keys.
// Each is decided after its own savepoint, so that one that throws does not hold up the others.

import type { PlanNode } from "@astraflow/graph";
import { workerTimings } from "../interface/settings.ts";
import {
  type InPhase,
  keyOf,
  type LeasedTask,
  type Row,
  type RowKey,
  type RunRow,
  runKey,
  runOf,
  type TaskRow,
  taskKey,
  workerKey,
} from "../storage/rows.ts";
import { sendDispatch } from "./delivery/dispatch.ts";
import { findHeldTask } from "./delivery/find-worker.ts";
import { releaseAttempt } from "./delivery/held-attempts.ts";
import { attemptDeadline, openCalls } from "./delivery/middleware-calls.ts";
import { releaseStaleAttempt } from "./delivery/waiting-attempts.ts";
import { type ConnectedWorker, instanceIdOf, isSameAttempt } from "./fleet/connected-worker.ts";
import type { AttemptTimer } from "./fleet/fleet.ts";
import { listsAttempts } from "./fleet/worker-abilities.ts";
import { cancelOpenTasks } from "./nodes/end-run.ts";
import { RunProgress } from "./nodes/run-progress.ts";
import { recordWarning } from "./nodes/task-warnings.ts";
import { expireDocument } from "./operations/documents.ts";
import { recheckPin } from "./placement/pins.ts";
import { explainNoWorker } from "./placement/why-waiting.ts";
import { failAttempt, failTask, takeBackAttempt } from "./progress/end-attempt.ts";
import { resumeHost, resumeRun, runFollowUps } from "./progress/follow-up.ts";
import { withFormerHolder } from "./progress/former-holders.ts";
import { expireCalls } from "./progress/middleware-chain.ts";
import { findRepeatObstacle } from "./progress/unrepeatable.ts";
import { admitKeyWaiters, enqueueTask } from "./queueing/task-queue.ts";
import { attemptPhase } from "./rows/task.ts";
import { livenessAfter } from "./rows/worker.ts";
import type { DecisionContext } from "./unit-of-work/decision-context.ts";
import type { IsolateFailure } from "./unit-of-work/root.ts";
import type { UnitOfWork } from "./unit-of-work/unit-of-work.ts";
import { expireWorker, takeBackFromLostWorker } from "./workers/worker-lifecycle.ts";

type FleetState = Pick<DecisionContext, "fleet" | "settings">;

export interface ExpiryLimits {
  /** When the scheduler or its store was last unavailable: no lease could be renewed then, so none ends within its own length of it. */
  readonly availableSince: number;
  /** Reports that arrived at this instant or later still wait to be applied; what they may renew must not expire first. */
  readonly reportsAppliedUntil: number;
}

/** Rows that the timers of the fleet will need at this instant. */
export function rowsForTimers(context: FleetState, now: number): RowKey[] {
  const { fleet, settings } = context;
  const timers = [fleet.unackedGrants(now, settings.ackDeadlineMs), fleet.unstoredAcks(now, settings.ackStoreMs)]
    .flatMap((list) => list.slice(0, settings.dueMax))
    .filter(({ worker }) => !fleet.pendingChanges.concernedWorkers.has(worker));
  return [...timers, ...dueRechecks(context, now)].flatMap(({ task }) => [taskKey(task), runKey(runOf(task))]);
}

export function expireUnackedGrants(work: UnitOfWork, limits: ExpiryLimits, isolate: IsolateFailure): void {
  const { ackDeadlineMs } = work.settings;
  for (const timer of work.fleet.unackedGrants(work.now, ackDeadlineMs)) {
    if (timer.at + ackDeadlineMs >= limits.reportsAppliedUntil) return;
    if (work.fleet.pendingChanges.concernedWorkers.has(timer.worker)) continue;
    isolate(runOf(timer.task), () => {
      const found = findHeldTask(work, timer);
      const connected = work.fleet.workers.get(timer.worker);
      if (found === null) {
        if (connected !== undefined) releaseStaleAttempt(work, connected, timer, "unacked");
        return;
      }
      const { task, run } = found;
      if (run.phase === "ending" || work.fleetChanges.some((change) => change.type === "ack" && isSameAttempt(change, timer)))
        return;
      if (connected !== undefined && !mayBeSentAgain(work, run, work.nodeOf(run, task), task))
        return awaitUnackedAttempt(work, run, task, connected);
      const message = `worker ${connected?.name ?? timer.worker} did not ack within ${ackDeadlineMs} ms`;
      const options = { finalCode: "E.DISPATCH.UNAVAILABLE", handler: "unacked" } as const;
      takeBackAttempt(work, run, task, { code: "E.TIMEOUT", message }, options);
    });
  }
}

/**
 * A dispatch that is delayed for longer than the deadline may still start a handler: the attempt stays where it is. Its general limit is stored,
 * so that it ends in any case; the timer is not due again.
 */
function awaitUnackedAttempt(work: UnitOfWork, run: RunRow, task: LeasedTask, { name }: ConnectedWorker): void {
  const { id, fence, worker, boot, epoch } = task;
  const node = work.nodeOf(run, task);
  const due = task.due ?? attemptDeadline(work, node, task);
  const message =
    `worker ${name} has not acknowledged the task within ${work.settings.ackDeadlineMs} ms; it may have begun and must not be repeated, ` +
    "so the worker's report is awaited. `astra runs retry` gives it to another worker";
  const warned = recordWarning(work, run, node, task, { code: "E.TIMEOUT", message });
  work.moveTask(warned, { type: "rebind", boot, epoch, acked: false, due });
  work.changeFleet({ type: "await", worker, task: id, fence });
}

/**
 * Stores the acks of attempts that last longer than a moment, so that a restart need not guess, and records that they run. The general limit of
 * an attempt is stored here too: most attempts have ended by then and need no entry in the index of deadlines.
 */
export function storeAcks(work: UnitOfWork, isolate: IsolateFailure): void {
  for (const timer of work.fleet.unstoredAcks(work.now, work.settings.ackStoreMs)) {
    if (work.fleet.pendingChanges.concernedWorkers.has(timer.worker)) continue;
    isolate(runOf(timer.task), () => {
      const found = findHeldTask(work, timer);
      if (found !== null && attemptPhase(found.task) === "granted") {
        const due = found.task.due ?? attemptDeadline(work, work.nodeOf(found.run, found.task), found.task);
        work.moveTask(found.task, { type: "ack", due });
        work.recordTaskFact(found.run, "task.running", found.task, { attempt: found.task.attempt });
      }
      work.changeFleet({ type: "ack", worker: timer.worker, task: timer.task, fence: timer.fence, stored: true });
    });
  }
}

/** Those that are due, limited per turn. */
function dueRechecks({ fleet, settings }: FleetState, now: number): AttemptTimer[] {
  const due = fleet
    .attemptsToRecheck(now, settings.recheckMs)
    .filter(({ worker }) => !fleet.pendingChanges.concernedWorkers.has(worker));
  return due.slice(0, settings.dueMax);
}

/** A process that has lost the task would run it again: where that may do harm, its outcome is waited for until the attempt's deadline. */
const mayBeSentAgain = (work: UnitOfWork, run: RunRow, node: PlanNode, task: LeasedTask): boolean =>
  node.policy.retry !== undefined || findRepeatObstacle(work, run, node, task) === null;

/**
 * Attempts that a worker kept over a join without being able to report them: the dispatch of each that has not ended is sent again. A worker
 * that still runs it reports so, one that has lost it runs it now; otherwise a result that was lost with the old connection would leave its
 * task leased as long as the worker sends heartbeats.
 */
export function recheckAttempts(work: UnitOfWork, isolate: IsolateFailure): void {
  for (const timer of dueRechecks(work, work.now)) {
    const { worker, task: id, fence } = timer;
    const connected = work.fleet.workers.get(worker);
    // A heartbeat or a join of this very turn: the fleet does not show it yet.
    if (connected === undefined || work.changedWorkers.has(worker)) continue;
    isolate(runOf(id), () => {
      if (work.fleetChanges.some((change) => change.type === "release" && isSameAttempt(change, timer))) return;
      const found = findHeldTask(work, timer);
      if (found === null) return void releaseStaleAttempt(work, connected, timer, "may-run");
      const { task, run } = found;
      // A run that is ending is swept soon, and the sweep stops the attempt.
      const node = work.nodeOf(run, task);
      const isWanted = run.phase !== "ending" && task.epoch === connected.epoch && mayBeSentAgain(work, run, node, task);
      if (isWanted) sendDispatch(work, connected, run, node, task);
      work.changeFleet({ type: "recheck", worker, task: id, fence, sentAt: isWanted ? work.now : null });
      if (isWanted) work.recordMetric("dispatch_recheck_total", { tenant: connected.tenant });
    });
  }
}

/** Attempts of workers that cannot list what they hold, of which nothing was reported for their lease and a grace: they are rechecked. */
export function doubtSilentAttempts(work: UnitOfWork): void {
  for (const connected of work.fleet.workers.values()) {
    const { worker, tenant, about, attempts } = connected;
    if (listsAttempts(connected) || work.changedWorkers.has(worker)) continue;
    if (work.fleet.pendingChanges.concernedWorkers.has(worker)) continue;
    const silentSince = work.now - workerTimings(work.settings, tenant, about.dialect).leaseMs - work.settings.silentGraceMs;
    for (const { task, fence, acked, grantedAt, reportedAt = grantedAt, recheckFrom } of attempts.values())
      if (acked && recheckFrom === null && Math.max(grantedAt, reportedAt) <= silentSince)
        work.changeFleet({ type: "doubt", worker, task, fence, at: work.now });
  }
}

/** 1x WARN, 2x DEGRADED, 3x UNHEALTHY: recorded once per change. The lease decides; this only shows. */
export function updateSessionLiveness(work: UnitOfWork, isolate: IsolateFailure): void {
  for (const connected of work.fleet.workers.values()) {
    if (work.fleet.pendingChanges.concernedWorkers.has(connected.worker)) continue;
    const seen = livenessAfter(
      work.now - connected.heartbeatAt,
      workerTimings(work.settings, connected.tenant, connected.about.dialect).heartbeatMs,
    );
    if (seen === connected.liveness || seen === "fresh") continue;
    isolate(workerKey(connected.worker), () => {
      if (work.worker(connected.worker) === null) throw new Error(`worker ${connected.worker} is connected but has no row`);
      work.recordFact(connected.tenant, workerKey(connected.worker), "worker.liveness", { from: connected.liveness, to: seen });
      work.changeFleet({ type: "liveness", worker: connected.worker, liveness: seen });
      work.recordMetric("ws_heartbeat_miss_total", { tenant: connected.tenant, worker: instanceIdOf(connected) });
    });
  }
}

export function expireDueRows(work: UnitOfWork, due: readonly Row[], limits: ExpiryLimits, isolate: IsolateFailure): void {
  for (const row of due) {
    if ("due" in row && row.due !== null && row.due >= limits.reportsAppliedUntil) continue;
    isolate(row.kind === "task" ? row.run : keyOf(row), () => expireRow(work, row, limits, isolate));
  }
}

/** Reads the row again: a command of this turn may have moved its deadline. */
function expireRow(work: UnitOfWork, loaded: Row, limits: ExpiryLimits, isolate: IsolateFailure): void {
  switch (loaded.kind) {
    case "run": {
      const run = work.run(loaded.id);
      if (run === null || run.due === null || run.due > work.now) return;
      if (run.phase === "ending") cancelOpenTasks(work, run);
      else resumeRun(work, run);
      return;
    }
    case "task": {
      const task = work.task(loaded.id);
      if (task !== null && task.due !== null && task.due <= work.now) expireTask(work, task);
      return;
    }
    case "worker": {
      const worker = work.worker(loaded.id);
      if (worker === null || worker.due === null || worker.due > work.now) return;
      const held = expireWorker(work, worker, limits.availableSince);
      let moved = 0;
      for (const id of held)
        isolate(runOf(id), () => {
          if (takeBackFromLostWorker(work, id, worker)) moved++;
        });
      // All of them are in other hands or in quarantine: trying at once again would only spin.
      const lost = work.worker(worker.id);
      if (held.length > 0 && moved === 0 && (lost?.phase === "lost" || lost?.phase === "left"))
        work.put({ ...lost, due: work.now + work.settings.idleMs });
      return;
    }
    case "key": {
      const key = work.concurrencyKey(loaded.id);
      if (key !== null && key.due !== null) admitKeyWaiters(work, key, work.settings.sweepTasksMax);
      return;
    }
    case "doc":
      expireDocument(work, loaded.id);
      return;
    default:
      throw new Error(`${keyOf(loaded)} has no deadline`);
  }
}

function expireTask(work: UnitOfWork, task: InPhase<TaskRow, "ready" | "parked" | "leased" | "hosting">): void {
  const run = work.existingRun(task.run);
  if (run.phase === "ending") return;
  if (task.phase === "hosting") return resumeHost(new RunProgress(work, run), task);
  const node = work.nodeOf(run, task);
  if (task.phase === "parked" && task.line === null) {
    enqueueTask(work, run, node, task);
    return;
  }
  if (task.phase === "leased") {
    const progress = new RunProgress(work, run);
    if (openCalls(task).length > 0 && expireCalls(progress, node, task)) return runFollowUps(progress);
    const error = { code: "E.TIMEOUT", message: `attempt ${task.attempt} of task ${task.id} did not end within its time limit` };
    releaseAttempt(work, task, { code: error.code, reason: error.message });
    failAttempt(progress, withFormerHolder(work, task), error, null);
    return;
  }
  if (task.phase === "ready" && recheckPin(work, run, node, task)) return;
  const waited = work.now - task.readyAt;
  const blocker = task.phase === "parked" ? `concurrency key ${task.key} was held by others` : "no worker took it";
  failTask(
    new RunProgress(work, run),
    task,
    {
      code: "E.DISPATCH.UNAVAILABLE",
      message: `task ${task.id} waited ${waited} ms in queue: ${blocker}`,
      details: { waitedMs: waited, reasons: explainNoWorker(work, task) },
    },
    null,
  );
}
