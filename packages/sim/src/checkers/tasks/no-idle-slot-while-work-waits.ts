// I17: after the faults, no slot stays free for longer than a moment while a task that could run there is ready. Workers belong to one tenant, so a
// starving tenant is found here too: its own workers are idle while its own tasks wait.

import { Checker } from "../../checking/checker.ts";
import type { ProjectedTask } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** Beside a few polls of an idle engine: a queue whose head was busy waits for the next one. */
const slackMs = 2_000;

/** Facts by which a worker may lose an attempt that it has not ended itself. */
const takingFacts: ReadonlySet<string> = new Set([
  ...["task.cancelled", "task.skipped", "task.failed"],
  ...["task.requeued", "task.retrying"],
]);

interface AcceptedSession {
  readonly connection: string;
  readonly acceptedAt: TrueTime;
  heardAt: TrueTime;
  isHealthy: boolean;
  healthAt: TrueTime;
}

export class NoIdleSlotWhileWorkWaits extends Checker {
  readonly #accepted = new Map<string, AcceptedSession>();
  /** When the log last told something about what a worker holds. */
  readonly #movedAt = new Map<string, TrueTime>();
  /** When a worker that cannot be stopped last lost an attempt: its handler may go on and take the slot. */
  readonly #takenAt = new Map<string, TrueTime>();

  override onSentToWorker({ type, workerKey, connection, at }: ObservedFrame): void {
    if (type === "control.session.accept")
      this.#accepted.set(workerKey, { connection, acceptedAt: at, heardAt: at, isHealthy: true, healthAt: at });
  }

  override onDeliveredToScheduler({ type, workerKey, connection, at, payload }: ObservedFrame): void {
    const session = this.#accepted.get(workerKey);
    if (session?.connection !== connection) return;
    session.heardAt = at;
    const { healthy } = payload;
    if (type !== "control.heartbeat" || healthy === session.isHealthy) return;
    session.isHealthy = healthy === true;
    session.healthAt = at;
  }

  override onFact({ type, data, readAt, run }: ObservedFact): void {
    if (run === null || type === "task.feedback") return;
    const task = this.projection.task(String(data["task"]));
    if (task !== undefined && task.worker !== null) {
      this.#movedAt.set(task.worker, readAt);
      if (takingFacts.has(type) && this.world.isLegacyWorker(task.worker)) this.#takenAt.set(task.worker, readAt);
    }
    if (type === "task.granted") this.#movedAt.set(String(data["worker"]), readAt);
  }

  override onTimePassed(): void {
    if (!this.world.areFaultsOver) return;
    const momentMs = 4 * (this.world.setup?.guarantees.idleMs ?? 0) + slackMs;
    const calmSince = Math.max(this.world.faultsEndedAt, this.world.disturbedAt);
    for (const run of this.projection.runs.values()) {
      if (run.endStatus !== null || run.isEndingEarly) continue;
      const at = this.projection.completeReadAt.get(run.tenant) ?? 0;
      for (const task of run.tasks.values()) {
        // A task that may run at only one worker waits for that one.
        const isAimed = run.isRebound || task.node?.isPinned === true || task.node?.policy.affinity !== undefined;
        if (!task.isReady || task.endStatus !== null || isAimed) continue;
        this.checkedCount++;
        for (const worker of this.projection.workers.keys()) {
          const freeMs = at - Math.max(task.readAt, calmSince, this.#slotFreeSince(at, worker, task));
          if (freeMs > momentMs)
            return this.fail(
              `${task.id} is ready and ${worker} has had a free slot for ${Math.round(freeMs)} ms`,
              task.id,
              worker,
            );
        }
      }
    }
  }

  /** Since when this worker could have taken the task; never, if it cannot now. */
  #slotFreeSince(at: TrueTime, worker: string, task: ProjectedTask): TrueTime {
    const never = Number.POSITIVE_INFINITY;
    const projected = this.projection.workers.get(worker);
    const session = this.#accepted.get(worker);
    const spec = this.world.workerSpecOf(worker);
    const { heartbeatMs = 0 } = this.world.setup?.guarantees ?? {};
    if (projected?.presence !== "online" || projected.isDraining || spec === undefined || task.node === null) return never;
    if (!session?.isHealthy || !this.world.isOpen(session.connection) || at - session.heardAt > 1.5 * heartbeatMs) return never;
    const { type, policy } = task.node;
    const fits =
      task.run.tenant === spec.tenant &&
      (policy.pool === undefined || policy.pool === spec.pool) &&
      task.node.package.name === spec.packageName &&
      task.node.package.version === spec.packageVersion &&
      Object.keys(policy.tags ?? {}).length === 0;
    const isFull =
      this.projection.countBusySlots(worker) >= projected.slots ||
      this.projection.countBusySlots(worker, { nodeType: type }) >= (spec.perNodeLimits?.[type] ?? projected.slots);
    if (!fits || isFull) return never;
    const { unstoppedSlotMs = 0 } = this.world.setup?.guarantees ?? {};
    const takenUntil = (this.#takenAt.get(worker) ?? Number.NEGATIVE_INFINITY) + unstoppedSlotMs;
    return Math.max(projected.readAt, this.#movedAt.get(worker) ?? 0, takenUntil, session.acceptedAt, session.healthAt);
  }
}
