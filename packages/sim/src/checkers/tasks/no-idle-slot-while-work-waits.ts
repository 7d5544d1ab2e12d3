// I17: after the faults, no slot stays free for longer than a moment while a task that could run there is ready. Workers belong to one tenant, so a
// starving tenant is found here too: its own workers are idle while its own tasks wait.

import { Checker } from "../../checking/checker.ts";
import type { ProjectedTask } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** Beside a few polls of an idle engine: a queue whose head was busy waits for the next one. */
const slackMs = 2_000;

interface AcceptedSession {
  connection: string;
  acceptedAt: TrueTime;
  heardAt: TrueTime;
  isHealthy: boolean;
  healthAt: TrueTime;
}

export class NoIdleSlotWhileWorkWaits extends Checker {
  readonly #acceptedSessions = new Map<string, AcceptedSession>();
  /** When the log last told something about what a worker holds. */
  readonly #movedAt = new Map<string, TrueTime>();

  override onFrame(frame: ObservedFrame): void {
    const { observation } = frame;
    const worker = frame.workerKey;
    const acceptedSession = this.#acceptedSessions.get(worker);
    if (frame.type === "control.session.accept" && observation.event === "sent")
      this.#acceptedSessions.set(worker, {
        connection: observation.connection,
        acceptedAt: observation.at,
        heardAt: observation.at,
        isHealthy: true,
        healthAt: observation.at,
      });
    if (
      acceptedSession?.connection !== observation.connection ||
      observation.toward !== "scheduler" ||
      observation.event !== "delivered"
    )
      return;
    acceptedSession.heardAt = observation.at;
    const { healthy } = frame.payload;
    if (frame.type !== "control.heartbeat" || healthy === acceptedSession.isHealthy) return;
    acceptedSession.isHealthy = healthy === true;
    acceptedSession.healthAt = observation.at;
  }

  override onFact({ type, data, readAt, run }: ObservedFact): void {
    if (run === null || type === "task.feedback") return;
    const task = this.projection.task(String(data["task"]));
    if (task !== undefined && task.worker !== null) this.#movedAt.set(task.worker, readAt);
    if (type === "task.granted") this.#movedAt.set(String(data["worker"]), readAt);
  }

  override onTimePassed(): void {
    if (!this.world.areFaultsOver) return;
    const momentMs = 4 * (this.world.setup?.guarantees.idleMs ?? 0) + slackMs;
    for (const run of this.projection.runs.values()) {
      if (run.endStatus !== null || run.isEndingEarly) continue;
      const at = this.projection.completeReadAt.get(run.tenant) ?? 0;
      for (const task of run.tasks.values()) {
        // A task that may run at only one worker waits for that one.
        const isAimed = run.isRebound || task.node?.isPinned === true || (task.node?.affinity ?? null) !== null;
        if (!task.isReady || task.endStatus !== null || isAimed) continue;
        this.checkedCount++;
        for (const worker of this.projection.workers.keys()) {
          const since = Math.max(
            task.readAt,
            this.world.faultsEndedAt,
            this.world.disturbedAt,
            this.#slotFreeSince(at, worker, task),
          );
          if (at - since > momentMs)
            return this.reportViolation(
              `${task.id} is ready and ${worker} has had a free slot for ${Math.round(at - since)} ms`,
              [task.id, worker],
            );
        }
      }
    }
  }

  /** Since when this worker could have taken the task; never, if it cannot now. */
  #slotFreeSince(at: TrueTime, worker: string, task: ProjectedTask): TrueTime {
    const never = Number.POSITIVE_INFINITY;
    const projected = this.projection.workers.get(worker);
    const acceptedSession = this.#acceptedSessions.get(worker);
    const spec = this.world.workerSpecOf(worker);
    const { heartbeatMs = 0 } = this.world.setup?.guarantees ?? {};
    if (
      projected?.presence !== "online" ||
      projected.isDraining ||
      !acceptedSession?.isHealthy ||
      spec === undefined ||
      task.node === null
    )
      return never;
    if (
      this.world.connections.get(acceptedSession.connection)?.isOpen !== true ||
      at - acceptedSession.heardAt > 1.5 * heartbeatMs
    )
      return never;
    const { pool, packageName, packageVersion, tags } = task.node;
    const fits =
      task.run.tenant === spec.tenant &&
      (pool === null || pool === spec.pool) &&
      packageName === spec.packageName &&
      packageVersion === spec.packageVersion &&
      Object.keys(tags).length === 0;
    const limit = spec.perNodeLimits?.[task.node.type] ?? projected.slots;
    const isFull =
      this.projection.countBusySlots(worker) >= projected.slots ||
      this.projection.countBusySlots(worker, { nodeType: task.node.type }) >= limit;
    if (!fits || isFull) return never;
    return Math.max(projected.readAt, this.#movedAt.get(worker) ?? 0, acceptedSession.acceptedAt, acceptedSession.healthAt);
  }
}
