// I17: once the world is calm, no slot stays free while a task that could run there waits, longer than a moment. Workers belong to one tenant, so
// a tenant that starves shows here too: its own workers idle beside its own tasks.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { ProjectedTask } from "../../checking/log-projection.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** Beside a few looks of an idle engine: a line whose head was busy waits for the next one. */
const slackMs = 2_000;

interface AcceptedSession {
  connection: string;
  acceptedAt: TrueTime;
  heardAt: TrueTime;
  isHealthy: boolean;
  healthAt: TrueTime;
}

export function checkNoIdleSlotWhileWorkWaits({ reportViolation, projection, world }: CheckerContext): Checker {
  const acceptedSessions = new Map<string, AcceptedSession>();
  /** When the log last told something about what a worker holds. */
  const movedAt = new Map<string, TrueTime>();
  let checkedCount = 0;

  const handleFrame = (frame: ObservedFrame): void => {
    const { seen: observation } = frame;
    const worker = `${observation.tenant}/${observation.instance}`;
    const acceptedSession = acceptedSessions.get(worker);
    if (frame.type === "control.session.accept" && observation.event === "sent")
      acceptedSessions.set(worker, {
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
  };

  /** Since when this worker could have taken the task; never, if it cannot now. */
  const slotFreeSince = (at: TrueTime, worker: string, task: ProjectedTask): TrueTime => {
    const never = Number.POSITIVE_INFINITY;
    const projected = projection.workers.get(worker);
    const acceptedSession = acceptedSessions.get(worker);
    const spec = world.workerSpecOf(worker);
    const { heartbeatMs = 0 } = world.setup?.guarantees ?? {};
    if (
      projected?.presence !== "online" ||
      projected.isDraining ||
      !acceptedSession?.isHealthy ||
      spec === undefined ||
      task.node === null
    )
      return never;
    if (world.connections.get(acceptedSession.connection)?.isOpen !== true || at - acceptedSession.heardAt > 1.5 * heartbeatMs)
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
      projection.countBusySlots(worker) >= projected.slots ||
      projection.countBusySlots(worker, { nodeType: task.node.type }) >= limit;
    if (!fits || isFull) return never;
    return Math.max(projected.readAt, movedAt.get(worker) ?? 0, acceptedSession.acceptedAt, acceptedSession.healthAt);
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame: handleFrame,
    onFact({ type, data, readAt, run }) {
      if (run === null || type === "task.feedback") return;
      const task = projection.task(String(data["task"]));
      if (task !== undefined && task.worker !== null) movedAt.set(task.worker, readAt);
      if (type === "task.granted") movedAt.set(String(data["worker"]), readAt);
    },
    onTimePassed() {
      if (!world.areFaultsOver) return;
      const momentMs = 4 * (world.setup?.guarantees.idleMs ?? 0) + slackMs;
      for (const run of projection.runs.values()) {
        if (run.endStatus !== null || run.isEndingEarly) continue;
        const at = projection.completeReadAt.get(run.tenant) ?? 0;
        for (const task of run.tasks.values()) {
          // Who may go to one worker only waits for that one.
          const isAimed = run.isRebound || task.node?.isPinned === true || (task.node?.affinity ?? null) !== null;
          if (!task.isReady || task.endStatus !== null || isAimed) continue;
          checkedCount++;
          for (const worker of projection.workers.keys()) {
            const since = Math.max(task.readAt, world.faultsEndedAt, world.disturbedAt, slotFreeSince(at, worker, task));
            if (at - since > momentMs)
              return reportViolation(`${task.id} is ready and ${worker} has had a free slot for ${Math.round(at - since)} ms`, [
                task.id,
                worker,
              ]);
          }
        }
      }
    },
  };
}
