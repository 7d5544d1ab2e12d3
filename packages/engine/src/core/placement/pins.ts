// Which worker a ready task must or should go to: by its resources, an operator's choice, or its affinity key. Owners change meanwhile.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData } from "../../interface/command.ts";
import type { ResourceRef } from "../../interface/effect.ts";
import type {
  DocRow,
  LeasedTask,
  Millis,
  QueueName,
  ReadyTask,
  RunRow,
  TaskId,
  WorkerId,
  WorkerRow,
} from "../../storage/rows.ts";
import { docKey } from "../../storage/rows.ts";
import { mailQueueHint } from "../delivery/worker-mail.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import { findStoredMismatch, versionFor } from "../fleet/route.ts";
import { preferredWorker } from "../nodes/operator-marks.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { failTask } from "../progress/end-attempt.ts";
import { acquireIfFree, affinityOwner, preferenceMs } from "../queueing/affinity.ts";
import { findArtifact, readArtifact, renewArtifact } from "../queueing/artifacts.ts";
import { type RequestedResource, resourceRefsOf } from "../queueing/resource-refs.ts";
import { queueDeadline } from "../queueing/task-queue.ts";
import { isRunLive } from "../rows/run.ts";
import { readTaskState, type TaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** How often a pinned task is checked without any event: the loss of its worker may have been missed. */
const pinCheckMs = 60_000;

/** A task and what is known about where it may go. `lost`: a worker whose loss is decided in this very turn, so that no row shows it yet. */
interface PinRequest {
  readonly work: UnitOfWork;
  readonly run: RunRow;
  readonly node: PlanNode;
  readonly task: ReadyTask;
  readonly lostWorker: WorkerId | undefined;
}

/** The ready task in the queue where it belongs now; null: what it needs is gone and it has failed. */
export function pinTask(work: UnitOfWork, run: RunRow, node: PlanNode, task: ReadyTask, lostWorker?: WorkerId): ReadyTask | null {
  const refs = resourceRefsOf(node, task.params);
  if (task.pin === null && run.marks === null && node.policy.affinity === undefined && refs.length === 0) return task;
  const pin = choosePin({ work, run, node, task, lostWorker }, refs);
  if (typeof pin === "object" && pin !== null) {
    failTask(new RunProgress(work, run), task, pin, null);
    return null;
  }
  const queue = work.fleet.queueFor(task.route, pin);
  const isSettled = task.pin === pin && task.line === queue && (pin === null || (task.due !== null && task.due > work.now));
  if (isSettled) return task;
  const moved = work.moveTask(task, { type: "repin", pin, queue: { line: queue, due: pinDeadline(work, node, task, pin) } });
  if (pin !== null) notifyOwner(work, run, pin, queue);
  return moved;
}

/** Makes the scheduler that holds the worker's socket check the queue, even if every hint is lost. */
function notifyOwner(work: UnitOfWork, run: RunRow, worker: WorkerId, queue: QueueName): void {
  const row = work.fleet.workers.has(worker) ? null : work.peekWorker(worker);
  if (row === null) work.changeFleet({ type: "activate", line: queue });
  else mailQueueHint(work, row, run.id, queue);
}

/** End of its time in queue, or the next check of its pin. */
function pinDeadline(work: UnitOfWork, node: PlanNode, task: ReadyTask, pin: WorkerId | null): Millis | null {
  const queue = queueDeadline(work, node, task.readyAt);
  if (pin === null) return queue;
  // An operator may have sent a task here that would only have preferred to be: its preference is over then, its pin is not.
  const isPreferring = node.policy.affinity?.mode === "preferred" && preferenceEndsAt(task) > work.now;
  const look = isPreferring ? preferenceEndsAt(task) : work.now + pinCheckMs;
  return queue === null ? look : Math.min(queue, look);
}

const preferenceEndsAt = (task: ReadyTask): Millis => task.readyAt + preferenceMs;

/** What is due of a ready task is its pin and not its time in queue. False: it has waited too long. */
export function recheckPin(work: UnitOfWork, run: RunRow, node: PlanNode, task: ReadyTask): boolean {
  const queue = queueDeadline(work, node, task.readyAt);
  if (task.pin === null || (queue !== null && queue <= work.now)) return false;
  repinTask(work, run, node, task);
  return true;
}

/** A resource is gone: a task that waits for it fails now, even if its worker stays busy for long. */
export function recheckResource(work: UnitOfWork, id: TaskId, resource: string): void {
  const task = work.task(id);
  const run = task === null ? null : work.run(task.run);
  if (task?.phase !== "ready" || task.pin === null || run === null || run.phase === "ending") return;
  const node = work.nodeOf(run, task);
  if (resourceRefsOf(node, task.params).some((ref) => ref.resource === resource)) repinTask(work, run, node, task);
}

/** The worker that a task waits for was lost. False: it must be checked again later. */
export function repinAfterLoss(work: UnitOfWork, task: ReadyTask, worker: WorkerRow): boolean {
  const run = work.run(task.run);
  if (run === null || !isRunLive(run)) return false;
  repinTask(work, run, work.nodeOf(run, task), task, worker.id);
  return true;
}

/** Pins it anew; in another queue it may be granted in this turn. */
export function repinTask(work: UnitOfWork, run: RunRow, node: PlanNode, task: ReadyTask, lostWorker?: WorkerId): void {
  const bound = pinTask(work, run, node, task, lostWorker);
  if (bound !== null && bound.line !== task.line) work.newlyReady.push(bound.id);
}

function choosePin(request: PinRequest, refs: readonly RequestedResource[]): WorkerId | FaultData | null {
  const [first, ...others] = refs;
  if (first !== undefined) return commonOwner(request, first, others);
  const { work, run, node, task, lostWorker } = request;
  const marked = preferredWorker(run, node);
  if (marked !== undefined && canServe(request, marked)) return marked;
  const { affinity } = node.policy;
  if (affinity === undefined) return task.pin !== null && canServe(request, task.pin) ? task.pin : null;
  const owner = affinityOwner(work, run.tenant, affinity.key, lostWorker);
  if (owner === null || affinity.mode !== "preferred") return owner;
  const row = work.peekWorker(owner);
  return row?.phase === "online" && !row.draining && preferenceEndsAt(task) > work.now ? owner : null;
}

/** An operator's choice does not hold up a task that the worker cannot run, or can no longer run. */
function canServe(request: PinRequest, worker: WorkerId): boolean {
  const row = request.work.peekWorker(worker);
  return row !== null && isAvailable(request, worker) && findStoredMismatch(request.run.tenant, request.node, row) === null;
}

/** A worker that is away may join again while its lease lasts. */
function isAvailable({ work, lostWorker }: PinRequest, worker: WorkerId): boolean {
  const phase = worker === lostWorker ? "lost" : work.peekWorker(worker)?.phase;
  return phase === "online" || phase === "away";
}

/** The one worker that has all of them, or why there is none. */
function commonOwner(request: PinRequest, first: RequestedResource, others: readonly RequestedResource[]): WorkerId | FaultData {
  const { work, run } = request;
  work.requireRows([first, ...others].map((ref) => docKey(run.tenant, "artifact", ref.resource)));
  const owner = resourceOwner(request, first);
  if ("code" in owner) return owner;
  for (const ref of others) {
    const row = resourceOwner(request, ref);
    if ("code" in row) return row;
    if (row.id === owner.id) continue;
    const message = `resource ${first.resource} is at worker ${owner.name} and ${ref.resource} at ${row.name}; no worker has both`;
    const resources = [
      { resource: first.resource, worker: owner.name },
      { resource: ref.resource, worker: row.name },
    ];
    return { code: "E.RESOURCE.CONFLICT", message, details: { resources } };
  }
  return owner.id;
}

function resourceOwner(request: PinRequest, ref: RequestedResource): WorkerRow | FaultData {
  const { work, run } = request;
  if (ref.expiresAt !== undefined && ref.expiresAt <= work.now) return resourceMissing(ref, "its time is over", "expired");
  const doc = findArtifact(work, run.tenant, ref.resource);
  const kept = doc === null ? null : readArtifact(doc);
  if (kept?.removed !== undefined) return resourceMissing(ref, removalText(kept.workerName, kept.removed), kept.removed);
  const row = doc === null ? findWorkerByName(work, run, ref.workerName) : work.peekWorker(readArtifact(doc).worker);
  if (row === null || row.tenant !== run.tenant)
    return ref.workerName === null || doc !== null
      ? resourceMissing(ref, "it expired, was removed or never existed", "removed")
      : resourceMissing(ref, `no worker ${ref.workerName} is known`, "worker-unknown");
  if (!isAvailable(request, row.id)) return resourceMissing(ref, `its worker ${row.name} is lost`, "worker-lost");
  return row;
}

const removalText = (worker: string, reason: string): string =>
  ({
    evicted: `worker ${worker} evicted it`,
    expired: `its time at worker ${worker} is over`,
    released: `worker ${worker} released it`,
    lost: `worker ${worker} restarted without it`,
  })[reason] ?? `worker ${worker} no longer has it`;

/** A resource that was never reported is looked up at the worker its user names, by name or by instance id. */
function findWorkerByName(work: UnitOfWork, run: RunRow, name: string | null): WorkerRow | null {
  if (name === null) return null;
  for (const connected of work.fleet.workers.values())
    if (connected.tenant === run.tenant && connected.name === name) return work.peekWorker(connected.worker);
  return work.peekWorker(`${run.tenant}/${name}`);
}

function resourceMissing(ref: RequestedResource, why: string, reason: string): FaultData {
  return {
    code: "E.RESOURCE.MISSING",
    message: `resource ${ref.resource} is gone: ${why}; run the node that makes it again`,
    details: { resource: ref.resource, reason, ...(ref.workerName === null ? {} : { worker: ref.workerName }) },
  };
}

/** What the grant to this connected worker adds to the row: the version it runs with, the resources it uses, the key it acquires. */
export function withGrantDetails(
  work: UnitOfWork,
  run: RunRow,
  node: PlanNode,
  task: LeasedTask,
  connected: ConnectedWorker,
): LeasedTask {
  const refs = resourceRefsOf(node, task.params);
  const { affinity } = node.policy;
  if (node.minVersion === null && affinity === undefined && refs.length === 0) return task;
  const version = versionFor(node, connected.about);
  const change: { -readonly [K in keyof TaskState]?: TaskState[K] | undefined } = {};
  if (version !== node.packageVersion || readTaskState(task).version !== undefined)
    change.version = version === node.packageVersion ? undefined : version;
  if (refs.length > 0) change.refs = refs.map((ref) => dispatchedRef(work, run, ref, connected));
  if (affinity !== undefined) {
    const until = acquireIfFree(work, run, affinity, connected.worker);
    change.affinity = { key: affinity.key, mode: affinity.mode ?? "sticky", until };
  }
  return withTaskState(task, change as Parameters<typeof withTaskState>[1]);
}

function dispatchedRef(work: UnitOfWork, run: RunRow, ref: RequestedResource, connected: ConnectedWorker): ResourceRef {
  const doc: DocRow | null = findArtifact(work, run.tenant, ref.resource);
  const known = doc === null ? null : readArtifact(doc);
  const expiresAt = (doc === null ? ref.expiresAt : renewArtifact(work, doc)) ?? null;
  return {
    resource: ref.resource,
    workerName: connected.name,
    type: ref.type || known?.type || "resource",
    ...(ref.scope === undefined ? {} : { scope: ref.scope }),
    ...(expiresAt === null ? {} : { expiresAt }),
    ...(ref.metadata === undefined ? {} : { metadata: ref.metadata }),
  };
}
