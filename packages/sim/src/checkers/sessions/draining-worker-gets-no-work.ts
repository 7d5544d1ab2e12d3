// I24: a worker that has been told to drain gets nothing that was granted later, and its heartbeats go on. Told is who heard the frame; the
// grant is judged by the log, because what was granted before may still be on its way.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import { dispatchesIn, type ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** Beats that may be missed before a draining worker counts as silent. */
const missedHeartbeatsMax = 4;

interface DrainingSession {
  readonly worker: string;
  readonly connection: string;
  readonly scheduler: string;
  heartbeatAt: TrueTime;
}

export function checkDrainingWorkerGetsNoWork({ reportViolation, projection, world }: CheckerContext): Checker {
  /** Who was told to drain, by session, and what was sent to it after that. */
  const drainers = new Map<string, DrainingSession>();
  const late = new Map<string, { readonly worker: string; readonly told: string }>();
  /** Draining before the turn that is being read, by worker. */
  const before = new Set<string>();
  let checkedCount = 0;

  const handleSchedulerFrame = ({ type, seen: observation, sessionKey, ...frame }: ObservedFrame): void => {
    const workerKey = `${observation.tenant}/${observation.instance}`;
    if (type === "control.drain" && observation.event === "delivered")
      drainers.set(sessionKey, {
        worker: observation.worker,
        connection: observation.connection,
        scheduler: observation.scheduler,
        heartbeatAt: observation.at,
      });
    if (type === "control.undrain" && observation.event === "sent") drainers.delete(sessionKey);
    if (observation.event !== "sent" || !drainers.has(sessionKey)) return;
    for (const { task, fence } of dispatchesIn({ type, seen: observation, sessionKey, ...frame })) {
      checkedCount++;
      const name = `${task}#${fence}`;
      const grant = projection.grants.get(name);
      if (grant === undefined) late.set(name, { worker: workerKey, told: observation.connection });
    }
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame(frame) {
      if (frame.seen.toward === "worker") return handleSchedulerFrame(frame);
      const drainer = drainers.get(frame.sessionKey);
      if (drainer === undefined || frame.type !== "control.heartbeat" || frame.seen.event !== "sent") return;
      checkedCount++;
      drainer.heartbeatAt = frame.seen.at;
    },
    onTurn(_tenant, facts) {
      for (const { type, data, position } of facts) {
        if (type !== "task.granted") continue;
        const name = `${String(data["task"])}#${Number(data["fence"])}`;
        const sent = late.get(name);
        if (sent === undefined) continue;
        late.delete(name);
        if (before.has(sent.worker) && projection.workers.get(sent.worker)?.isDraining === true)
          return reportViolation(
            `${name} was granted at position ${position} and sent to ${sent.worker} on ${sent.told}, which had been told to drain`,
            [String(data["task"]), sent.worker],
          );
      }
      for (const { worker } of facts)
        if (worker !== null) {
          if (projection.workers.get(worker)?.isDraining === true) before.add(worker);
          else before.delete(worker);
        }
    },
    onTimePassed(at) {
      const { heartbeatMs: usual = 0, quietHeartbeatMs: quiet = 0 } = world.setup?.guarantees ?? {};
      for (const [sessionKey, { worker, connection, heartbeatAt: beatAt }] of drainers) {
        const heartbeatMs = world.isLegacyWorker(worker) ? quiet : usual;
        const link = world.connections.get(connection);
        if (link?.isOpen !== true || !world.isRunning(worker)) drainers.delete(sessionKey);
        else if (at - Math.max(beatAt, world.processes.get(worker)?.changedAt ?? 0) > missedHeartbeatsMax * heartbeatMs)
          return reportViolation(`${worker} was told to drain on ${connection} and its heartbeats have stopped`, [worker]);
      }
    },
  };
}
