// A heartbeat renews the lease of all that the boot holds; only differences between its list, the fleet and the rows affect attempts.

import type { Fault } from "@astraflow/protocol";
import type { RecordHeartbeatCommand } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { settingsForTenant, workerTimings } from "../../interface/settings.ts";
import { type TaskId, type WorkerRow, workerKey } from "../../storage/rows.ts";
import { findHeldTask, unknownSession } from "../delivery/find-worker.ts";
import { drainStateAfterTurn, pressureAfter, recordPressureChange } from "../delivery/resource-pressure.ts";
import { attemptNotHeld, stopAttempt } from "../delivery/session-messages.ts";
import { freeUnstoppedSlot, releaseStaleAttempt } from "../delivery/waiting-attempts.ts";
import { type ConnectedWorker, instanceIdOf, type LeasedAttempt } from "../fleet/connected-worker.ts";
import { takeBackAttempt } from "../progress/end-attempt.ts";
import { stepWorker } from "../rows/worker.ts";
import { readCondition, readVitals, writeCondition } from "../rows/worker-condition.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { closeCommands } from "./command-records.ts";
import { heldAttemptsMax, stopUnknownAttempt } from "./reconcile.ts";

export function recordHeartbeat(work: UnitOfWork, command: RecordHeartbeatCommand): AnswerBody | Fault {
  const connected = work.fleet.workerInSession(command.worker, command.session);
  const row = connected === null ? null : work.worker(command.worker);
  if (connected === null || row === null) return unknownSession(command.worker);
  const limits = settingsForTenant(work.settings, connected.tenant);
  const pressure = pressureAfter(drainStateAfterTurn(work, connected).pressure, command, limits);
  const timings = workerTimings(work.settings, connected.tenant, connected.about.dialect);
  const condition = conditionAfterHeartbeat(work, command, row, { pressure, unstopped: connected.unstopped?.size ?? 0 });
  const moved = stepWorker(row, { type: "beat", leaseMs: timings.leaseMs, condition }, work.now);
  if (!("kind" in moved) || row.epoch !== connected.epoch) {
    work.changeFleet({ type: "disconnect", worker: connected.worker, session: connected.session });
    return unknownSession(command.worker);
  }
  work.put(moved);
  if (connected.liveness !== "fresh")
    work.recordFact(connected.tenant, workerKey(connected.worker), "worker.liveness", { from: connected.liveness, to: "fresh" });
  const lateMs = Math.max(0, work.now - connected.heartbeatAt - timings.heartbeatMs);
  work.recordMetric("heartbeat_latency_ms", { tenant: connected.tenant }, lateMs);
  if (!command.healthy)
    work.recordMetric("heartbeat_degraded_total", { tenant: connected.tenant, worker: instanceIdOf(connected) });
  if (recordPressureChange(work, connected, row, { usage: command, pressure, limits }))
    closeCommands(work, moved, ({ order: { type } }) => type === "drain" || type === "undrain");
  const { worker } = connected;
  const { healthy, held } = command;
  work.changeFleet({ type: "heartbeat", worker, at: work.now, healthy, resourcePressure: pressure, hasList: held !== null });
  // The worker will be changed after this turn; nothing else in this turn may be decided by its old state.
  if (pressure !== connected.resourcePressure) work.changedWorkers.add(connected.worker);
  const leased = stopForeignAttempts(work, connected);
  if (command.held !== null) compareHeldAttempts(work, connected, leased, command, command.held);
  if (connected.unstopped !== undefined && connected.unstopped.size > 0) compareInflight(work, connected, command.inflight);
  return { of: "worker", worker: connected.worker, draining: row.draining, at: work.now };
}

function conditionAfterHeartbeat(
  work: UnitOfWork,
  command: RecordHeartbeatCommand,
  row: WorkerRow,
  { pressure, unstopped }: { readonly pressure: string | null; readonly unstopped: number },
): string {
  const { unstopped: _, ...known } = readCondition(row.condition);
  const vitals = command.vitals === undefined ? known.vitals : readVitals(command.vitals);
  const reported = { healthy: command.healthy, strain: pressure, vitals, beatAt: work.now };
  return writeCondition({ ...known, ...reported, ...(unstopped > 0 && { unstopped }) });
}

/**
 * Attempts that the rows no longer show as this worker's were ended or taken back by another scheduler, whose mail may be lost. Returns the
 * tasks that are still its own.
 */
function stopForeignAttempts(work: UnitOfWork, connected: ConnectedWorker): ReadonlySet<TaskId> {
  const leased = new Set(work.tasksHeldBy(connected.worker, heldAttemptsMax));
  for (const attempt of connected.attempts.values())
    if (!leased.has(attempt.task)) stopAttempt(work, connected, attempt, attemptNotHeld);
  return leased;
}

function compareHeldAttempts(
  work: UnitOfWork,
  connected: ConnectedWorker,
  leased: ReadonlySet<TaskId>,
  command: RecordHeartbeatCommand,
  held: NonNullable<RecordHeartbeatCommand["held"]>,
): void {
  const named = new Map(held.map((one) => [one.task, one.fence]));
  const { worker, name } = connected;
  for (const attempt of connected.attempts.values()) {
    const { task, fence, acked, isAwaited = false } = attempt;
    const isListed = named.get(task) === fence;
    // The worker has received it: as good as the ack that was awaited.
    if (isListed && isAwaited) work.changeFleet({ type: "ack", worker, task, fence, stored: false, at: work.now });
    if (isListed || !leased.has(task)) continue;
    // Not listed and not acked: the dispatch may still be on its way. The ack deadline handles it, then the patience for what is awaited.
    if (work.now - attempt.grantedAt < patienceMs(work, connected, attempt)) continue;
    const found = findHeldTask(work, { ...attempt, worker });
    const message = acked
      ? `worker ${name} no longer lists this attempt in its heartbeat`
      : `worker ${name} neither acknowledged this attempt nor lists it in its heartbeats`;
    const handler = acked ? "ended" : "may-run";
    if (found === null) releaseStaleAttempt(work, connected, attempt, handler);
    else if (found.run.phase !== "ending")
      takeBackAttempt(work, found.run, found.task, { code: "E.WORKER.LOST", message }, { handler });
  }
  for (const { task, fence } of connected.unstopped?.values() ?? [])
    if (named.get(task) !== fence) freeUnstoppedSlot(work, connected, task, fence);
  for (const one of held) if (connected.attempts.get(one.task)?.fence !== one.fence) stopUnknownAttempt(work, command, one);
}

/** For how long after its dispatch an attempt may be missing in heartbeats. */
function patienceMs(work: UnitOfWork, { tenant, about }: ConnectedWorker, { acked, isAwaited }: LeasedAttempt): number {
  const { ackDeadlineMs } = work.settings;
  if (acked) return ackDeadlineMs;
  return isAwaited === true
    ? ackDeadlineMs + workerTimings(work.settings, tenant, about.dialect).leaseMs
    : Number.POSITIVE_INFINITY;
}

/**
 * Older workers count in `inflight` what they run. Where that is less than they could not stop, the outcome of some of it is lost: they give up
 * what is not acknowledged in time. The oldest are given up here too.
 */
function compareInflight(work: UnitOfWork, connected: ConnectedWorker, inflight: number | undefined): void {
  if (inflight === undefined) return;
  const unstopped = [...(connected.unstopped?.values() ?? [])];
  for (const { task, fence } of unstopped.slice(0, Math.max(0, unstopped.length - inflight)))
    freeUnstoppedSlot(work, connected, task, fence);
}
