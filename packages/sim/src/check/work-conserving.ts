// I17: once the world is calm, no slot stays free while a task that could run there waits, longer than a moment. Workers belong to one tenant, so
// a tenant that starves shows here too: its own workers idle beside its own tasks.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { TaskLife } from "./lives.ts";
import type { WireFrame } from "./wire.ts";

/** Beside a few looks of an idle engine: a line whose head was busy waits for the next one. */
const slackMs = 2_000;

interface Seat {
  connection: string;
  acceptedAt: TrueTime;
  heardAt: TrueTime;
  isHealthy: boolean;
  healthAt: TrueTime;
}

export function workConserving({ fail, lives, scene }: Bench): Checker {
  const seats = new Map<string, Seat>();
  /** When the log last told something about what a worker holds. */
  const movedAt = new Map<string, TrueTime>();
  let saw = 0;

  const hear = (frame: WireFrame): void => {
    const { seen } = frame;
    const worker = `${seen.tenant}/${seen.instance}`;
    const seat = seats.get(worker);
    if (frame.type === "control.session.accept" && seen.event === "sent")
      seats.set(worker, {
        connection: seen.connection,
        acceptedAt: seen.at,
        heardAt: seen.at,
        isHealthy: true,
        healthAt: seen.at,
      });
    if (seat?.connection !== seen.connection || seen.toward !== "scheduler" || seen.event !== "delivered") return;
    seat.heardAt = seen.at;
    const { healthy } = frame.payload;
    if (frame.type !== "control.heartbeat" || healthy === seat.isHealthy) return;
    seat.isHealthy = healthy === true;
    seat.healthAt = seen.at;
  };

  /** Since when this worker could have taken the task; never, if it cannot now. */
  const freeSince = (at: TrueTime, worker: string, task: TaskLife): TrueTime => {
    const never = Number.POSITIVE_INFINITY;
    const life = lives.workers.get(worker);
    const seat = seats.get(worker);
    const shape = scene.shapeOf(worker);
    const { heartbeatMs = 0 } = scene.setUp?.promises ?? {};
    if (life?.standing !== "online" || life.isDraining || !seat?.isHealthy || shape === undefined || task.node === null)
      return never;
    if (scene.links.get(seat.connection)?.isOpen !== true || at - seat.heardAt > 1.5 * heartbeatMs) return never;
    const { pool, packageName, packageVersion, tags } = task.node;
    const fits =
      task.run.tenant === shape.tenant &&
      (pool === null || pool === shape.pool) &&
      packageName === shape.packageName &&
      packageVersion === shape.packageVersion &&
      Object.keys(tags).length === 0;
    const limit = shape.perNodeLimits?.[task.node.type] ?? life.slots;
    const isFull = lives.busyOf(worker) >= life.slots || lives.busyOf(worker, { nodeType: task.node.type }) >= limit;
    if (!fits || isFull) return never;
    return Math.max(life.readAt, movedAt.get(worker) ?? 0, seat.acceptedAt, seat.healthAt);
  };

  return {
    get saw() {
      return saw;
    },
    frame: hear,
    fact({ type, data, readAt, run }) {
      if (run === null || type === "task.feedback") return;
      const task = lives.task(String(data["task"]));
      if (task !== undefined && task.worker !== null) movedAt.set(task.worker, readAt);
      if (type === "task.granted") movedAt.set(String(data["worker"]), readAt);
    },
    passes() {
      if (!scene.isCalm) return;
      const momentMs = 4 * (scene.setUp?.promises.idleMs ?? 0) + slackMs;
      for (const run of lives.runs.values()) {
        if (run.end !== null || run.isCondemned) continue;
        const at = lives.knownAt.get(run.tenant) ?? 0;
        for (const task of run.tasks.values()) {
          // Who may go to one worker only waits for that one.
          const isAimed = run.isRebound || task.node?.isPinned === true || (task.node?.affinity ?? null) !== null;
          if (!task.isReady || task.end !== null || isAimed) continue;
          saw++;
          for (const worker of lives.workers.keys()) {
            const since = Math.max(task.readAt, scene.healedAt, scene.troubledAt, freeSince(at, worker, task));
            if (at - since > momentMs)
              return fail(`${task.id} is ready and ${worker} has had a free slot for ${Math.round(at - since)} ms`, [
                task.id,
                worker,
              ]);
          }
        }
      }
    },
  };
}
