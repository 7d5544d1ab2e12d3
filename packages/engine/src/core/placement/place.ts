// Placement: which of the tasks at the heads of their queues goes to which worker. Fairness is the order of the queue (band, rank), so this
// only follows it; a task that became ready in this turn is granted at once when no other is before it.

import type { PlanNode } from "@astraflow/graph";
import type { Command } from "../../interface/command.ts";
import type { QueueClaim } from "../../storage/port.ts";
import {
  type QueueName,
  type ReadyTask,
  type RunRow,
  runOf,
  type TaskId,
  type TaskRow,
  type WorkerId,
  type WorkerRow,
} from "../../storage/rows.ts";
import { findChainContradiction, sendDispatch } from "../delivery/dispatch.ts";
import { endSession, sessionSuperseded } from "../delivery/session-messages.ts";
import { type ConnectedWorker, type LeasedAttempt, usedSlots } from "../fleet/connected-worker.ts";
import { type Fleet, type FleetChange, noPendingChanges } from "../fleet/fleet.ts";
import { parseQueueName, readRequirements, versionFor } from "../fleet/route.ts";
import { avoidedWorker } from "../nodes/operator-marks.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { judgeForWorker } from "../nodes/worker-manifests.ts";
import { failTask } from "../progress/end-attempt.ts";
import { boundWorker } from "../queueing/affinity.ts";
import { isRunLive } from "../rows/run.ts";
import { applyTaskTransition } from "../rows/task.ts";
import { attemptVersion, readTaskState } from "../rows/task-state.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import { type IsolateFailure, RootBusy } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { pinTask, withGrantDetails } from "./pins.ts";

/** Workers considered beyond the first free one, to even out load without walking the whole fleet. */
const workerProbesMax = 4;

/** What affects the free slots of a worker: the fleet and this turn. */
type SlotView = Pick<UnitOfWork, "fleet" | "fleetChanges"> & { readonly freedSlots: ReadonlyMap<WorkerId, number> };

const noAttempts: readonly LeasedAttempt[] = [];
const unackedAttempt = { acked: false, stored: false, recheckFrom: null, isRunningOlder: false };

/** How many more tasks of this node type the connected worker can take now, this turn's grants and ends counted in. */
function freeSlotsFor({ fleet, freedSlots, fleetChanges }: SlotView, connected: ConnectedWorker, nodeType: string): number {
  const { worker, about, draining, resourcePressure, healthy } = connected;
  if (draining || resourcePressure !== null || !healthy || fleet.pendingChanges.unsettledWorkers.has(worker)) return 0;
  const pendingAttempts = fleet.pendingChanges.grantedAttempts.get(worker) ?? noAttempts;
  const free = about.slots - usedSlots(connected) - pendingAttempts.length + (freedSlots.get(worker) ?? 0);
  const limit = about.perNodeLimits?.[nodeType];
  if (limit === undefined || free <= 0) return Math.max(0, free);
  return Math.max(0, Math.min(free, limit - countAttemptsOfType(fleetChanges, pendingAttempts, connected, nodeType)));
}

function countAttemptsOfType(
  fleetChanges: readonly FleetChange[],
  pendingAttempts: readonly LeasedAttempt[],
  connected: ConnectedWorker,
  nodeType: string,
): number {
  let count = 0;
  for (const attempt of connected.attempts.values()) if (attempt.nodeType === nodeType && attempt.isWaiting !== true) count++;
  for (const attempt of pendingAttempts) if (attempt.nodeType === nodeType) count++;
  for (const attempt of connected.unstopped?.values() ?? []) if (attempt.nodeType === nodeType) count++;
  for (const change of fleetChanges) {
    if (change.type === "grant" && change.worker === connected.worker && change.attempt.nodeType === nodeType) count++;
    if (
      change.type === "release" &&
      change.worker === connected.worker &&
      connected.attempts.get(change.task)?.nodeType === nodeType
    )
      count += Number(change.unstoppedUntil !== undefined) - Number(change.wasWaiting !== true);
    if (change.type === "free-slot" && change.worker === connected.worker && change.nodeType === nodeType) count--;
    if (change.type === "wait" && change.worker === connected.worker && change.nodeType === nodeType)
      count += change.isWaiting ? -1 : 1;
  }
  return count;
}

/** Slots that the results and the calls among these commands will free, so that the claim can fill them in the same turn. */
export function slotsFreedBy(commands: readonly Command[]): Map<WorkerId, number> {
  const freedSlots = new Map<WorkerId, number>();
  for (const command of commands)
    if (command.type === "task.result" || command.type === "task.error" || command.type === "task.next")
      freedSlots.set(command.worker, (freedSlots.get(command.worker) ?? 0) + 1);
  return freedSlots;
}

/** Queues to claim from, and how many tasks of each: only for slots this replica can fill. `freedSlots`: slots that results of this batch will free. */
export function chooseClaims(
  { fleet, settings }: Pick<DecisionContext, "fleet" | "settings">,
  freedSlots: ReadonlyMap<WorkerId, number>,
): QueueClaim[] {
  const claims: QueueClaim[] = [];
  const slots: SlotView = { fleet, freedSlots, fleetChanges: [] };
  for (const queue of fleet.activeQueues) {
    const target = fleet.stalledQueues.has(queue) ? null : parseQueueName(queue);
    if (target === null) continue;
    const nodeType = fleet.routes.get(target.route)?.nodeType ?? "";
    let limit = 0;
    for (const connected of candidateWorkers(fleet, target.route, target.pin)) {
      const free = freeSlotsFor(slots, connected, nodeType);
      // Those that it handed back may be at the head of the queue: what is behind them must be reached.
      if (free > 0) limit += free + (connected.handedBack?.size ?? 0);
    }
    if (limit > 0) claims.push({ line: queue, limit: Math.min(limit, settings.turnCommandsMax) });
    if (claims.length >= settings.claimLinesMax) break;
  }
  return claims;
}

function candidateWorkers(fleet: Fleet, route: string, pin: WorkerId | null): readonly ConnectedWorker[] {
  const matching = fleet.matchingWorkers(route);
  return pin === null ? matching : matching.filter((connected) => connected.worker === pin);
}

/** Each task is placed after its own savepoint (`isolate`): a run that cannot be read does not keep the others from their workers. */
export function placeTasks(
  work: UnitOfWork,
  claimed: ReadonlyMap<QueueName, readonly TaskRow[]>,
  asked: readonly QueueClaim[],
  isolate: IsolateFailure,
): void {
  const blocked = new Set<QueueName>();
  const recheck = new Set<QueueName>();
  for (const head of queueHeads(claimed))
    isolate(head.run, () => {
      const task = work.task(head.id);
      const bound = task?.phase === "ready" ? pinOrDefer(work, task, recheck) : null;
      if (bound === null || tryGrant(work, bound)) return;
      if (bound.line === task?.line) blocked.add(bound.line);
      // It is in another queue now, which this turn may have found empty.
      else recheck.add(bound.line);
    });
  // There were free slots and yet they could not be placed: claiming again before anything changes would only spin.
  if (work.changedWorkers.size === 0 && work.fleet.pendingChanges === noPendingChanges)
    for (const queue of blocked) work.changeFleet({ type: "stall", line: queue });
  const drained = new Set<QueueName>();
  for (const { line: queue, limit } of asked)
    if ((claimed.get(queue)?.length ?? 0) < limit && !blocked.has(queue)) drained.add(queue);
  for (const id of work.newlyReady) isolate(runOf(id), () => placeNewlyReady(work, id, { blocked, drained, recheck }));
  for (const queue of drained) work.changeFleet({ type: "deactivate", line: queue });
  for (const queue of recheck) work.changeFleet({ type: "activate", line: queue });
}

/** Queues whose head found no worker; that were read to their end; that must be checked again in any case. */
interface PlacementQueues {
  readonly blocked: Set<QueueName>;
  readonly drained: Set<QueueName>;
  readonly recheck: Set<QueueName>;
}

/** A task that became ready in this turn: granted at once when no other is before it, otherwise it stays in its queue. */
function placeNewlyReady(work: UnitOfWork, id: TaskId, { blocked, drained, recheck }: PlacementQueues): void {
  const ready = work.task(id);
  const task = ready?.phase === "ready" ? pinOrDefer(work, ready, recheck) : null;
  // Not placed because its pin cannot be read now: it stays in its queue, and the log shows it.
  if (task === null && work.task(id)?.phase === "ready") recordReady(work, id);
  if (task === null) return;
  const { line: queue } = task;
  // Interned by another scheduler, which told nobody as long as no task stood in its line.
  const route = work.fleet.routes.has(task.route) ? null : work.route(task.route);
  if (route !== null) work.changeFleet({ type: "route", route: route.id, needs: readRequirements(route) });
  const isFirst = !blocked.has(queue) && (drained.has(queue) || !work.fleet.activeQueues.has(queue));
  if (isFirst && tryGrant(work, task)) return;
  blocked.add(queue);
  drained.delete(queue);
  recordReady(work, id);
  work.changeFleet({ type: "activate", line: queue });
}

function recordReady(work: UnitOfWork, task: TaskId): void {
  const run = work.run(runOf(task));
  if (run !== null) work.recordRunFact(run, "task.ready", { task });
}

/** Lower band first, then rank; equal ranks by id, so the order is total. */
function queueHeads(claimed: ReadonlyMap<QueueName, readonly TaskRow[]>): readonly TaskRow[] {
  const [only = [], ...others] = claimed.values();
  if (others.length === 0) return only;
  return [only, ...others].flat().sort((a, b) => a.band - b.band || (a.rank ?? 0) - (b.rank ?? 0) || (a.id < b.id ? -1 : 1));
}

/** The task in its queue; null when it has failed, or when another turn has locked what decides its pin: its queue is checked again. */
function pinOrDefer(work: UnitOfWork, task: ReadyTask, recheck: Set<QueueName>): ReadyTask | null {
  const run = work.run(task.run);
  if (run === null || !isRunLive(run)) return task;
  try {
    return pinTask(work, run, work.nodeOf(run, task), task);
  } catch (problem) {
    if (!(problem instanceof RootBusy)) throw problem;
    recheck.add(task.line);
    return null;
  }
}

function tryGrant(work: UnitOfWork, task: ReadyTask): boolean {
  const run = work.run(task.run);
  // A condemned run is being swept; its tasks are not worth a worker any more.
  if (run === null || !isRunLive(run)) return false;
  const node = work.nodeOf(run, task);
  const flaw = findChainContradiction(work, run, node, task);
  if (flaw !== null) {
    failTask(new RunProgress(work, run), task, flaw, null);
    return true;
  }
  const connected = pickWorker(work, run, task, node);
  if (connected === null) return false;
  // The worker may have another manifest, whose schemas judge the parameters.
  if (node.manifest !== undefined && work.checks.isSpent(run.tenant)) return false;
  const judged =
    node.manifest === undefined
      ? task
      : judgeForWorker(work, run, node, task, connected.about, versionFor(node, connected.about));
  if ("code" in judged) {
    failTask(new RunProgress(work, run), task, judged, null);
    return true;
  }
  // The general limit is stored with the ack, if the attempt lives that long: an entry in the index of deadlines is too much for most.
  const { timeoutMs } = node.policy;
  const due = timeoutMs === undefined ? null : work.now + timeoutMs;
  const { worker, boot, epoch } = connected;
  const row = applyTaskTransition(judged, { type: "grant", worker, boot, epoch, due }, work.now);
  const leased = withGrantDetails(work, run, node, row, connected);
  work.put(leased);
  work.requireWorker(run.id, worker, epoch);
  if (run.phase === "queued") {
    work.moveRun(run, { type: "start" });
    work.recordRunFact(run, "run.started", {});
  }
  const { id, fence, attempt } = leased;
  const again = task.state !== null && readTaskState(task).isRedelivered === true ? { isRedelivery: true } : {};
  work.recordRunFact(run, "task.granted", { task: id, worker, fence, attempt, ...again, ...attemptVersion(leased) });
  const granted = { task: id, run: run.id, fence, nodeType: node.type, grantedAt: work.now, ...unackedAttempt };
  work.changeFleet({ type: "grant", worker, attempt: granted });
  sendDispatch(work, connected, run, node, leased);
  return true;
}

/**
 * Whether the worker is still as its row says: another scheduler may have taken it over, lost or drained it. The fleet is believed, and the
 * commit fails where it is wrong; only then the row is read here, before the worker gets another task.
 */
function verifyWorker(work: UnitOfWork, connected: ConnectedWorker): boolean {
  if (work.changedWorkers.has(connected.worker)) return false;
  if (!work.fleet.unverifiedWorkers.has(connected.worker) || work.verifiedWorkers.has(connected.worker)) return true;
  let row: WorkerRow | null;
  try {
    row = work.worker(connected.worker);
  } catch (problem) {
    if (problem instanceof RootBusy) return false;
    throw problem;
  }
  const { worker, session } = connected;
  if (row?.epoch !== connected.epoch || row.phase !== "online") endSession(work, connected, sessionSuperseded);
  else if (row.draining) {
    work.changeFleet({ type: "drain", worker, on: true });
    work.emit({ type: "drain", session, worker, on: true, reason: "asked elsewhere" });
  } else {
    work.verifiedWorkers.add(worker);
    work.changeFleet({ type: "verify", worker });
    return true;
  }
  return false;
}

/** The worker that the package is bound to while it has a free slot; otherwise round-robin, and of a few the one with most free slots. */
function pickWorker(work: UnitOfWork, run: RunRow, task: ReadyTask, node: PlanNode): ConnectedWorker | null {
  const candidates = candidateWorkers(work.fleet, task.route, task.pin);
  const avoided = task.pin === null ? avoidedWorkerIn(run, node, candidates) : null;
  const bound = task.pin === null ? findBoundWorker(run, node, candidates) : null;
  if (bound !== null && bound.worker !== avoided && freeSlotsForTask(work, bound, task, node) > 0 && verifyWorker(work, bound))
    return bound;
  const start = work.fleet.roundRobinStarts.get(task.route) ?? 0;
  let best: ConnectedWorker | null = null;
  let bestFree = 0;
  for (let step = 0, probes = 0; step < candidates.length && probes < workerProbesMax; step++) {
    const connected = candidates[(start + step) % candidates.length] as ConnectedWorker;
    const free = connected.worker === avoided ? 0 : freeSlotsForTask(work, connected, task, node);
    if (free <= 0 || !verifyWorker(work, connected)) continue;
    probes++;
    if (free > bestFree) [best, bestFree] = [connected, free];
  }
  if (best !== null) work.fleet.roundRobinStarts.set(task.route, (candidates.indexOf(best) + 1) % candidates.length);
  return best;
}

/** None for a task that the worker has just handed back: another one may have it at once. */
function freeSlotsForTask(work: UnitOfWork, connected: ConnectedWorker, { id }: ReadyTask, { type }: PlanNode): number {
  if (work.handedBack.size > 0 && work.handedBack.get(id) === connected.worker) return 0;
  if (connected.handedBack !== undefined && (connected.handedBack.get(id) ?? 0) > work.now) return 0;
  return freeSlotsFor(work, connected, type);
}

function findBoundWorker(run: RunRow, node: PlanNode, candidates: readonly ConnectedWorker[]): ConnectedWorker | null {
  const worker = run.bindings === null ? null : boundWorker(run, node.packageName);
  return worker === null ? null : (candidates.find((connected) => connected.worker === worker) ?? null);
}

/** The worker an operator wants to avoid, as long as another one here can run the package. */
function avoidedWorkerIn(run: RunRow, node: PlanNode, candidates: readonly ConnectedWorker[]): WorkerId | null {
  const avoided = run.marks === null ? undefined : avoidedWorker(run, node);
  return avoided !== undefined && candidates.some((connected) => connected.worker !== avoided) ? avoided : null;
}
