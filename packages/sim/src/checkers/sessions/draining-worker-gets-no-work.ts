// I24: a worker that was told to drain gets no task that was granted later, and keeps sending heartbeats. It counts as told once the drain frame was
// delivered; the log decides when a task was granted, because dispatches of earlier grants may still be on their way.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
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

export class DrainingWorkerGetsNoWork extends Checker {
  /** Who was told to drain, by session, and what was sent to it after that. */
  readonly #drainers = new Map<string, DrainingSession>();
  readonly #late = new Map<string, { readonly worker: string; readonly told: string }>();
  /** Draining before the turn that is being read, by worker. */
  readonly #before = new Set<string>();

  override onFrame(frame: ObservedFrame): void {
    if (frame.observation.toward === "worker") return this.#handleSchedulerFrame(frame);
    const drainer = this.#drainers.get(frame.sessionKey);
    if (drainer === undefined || frame.type !== "control.heartbeat" || frame.observation.event !== "sent") return;
    this.checkedCount++;
    drainer.heartbeatAt = frame.observation.at;
  }

  override onTurn(_tenant: string, facts: readonly ObservedFact[]): void {
    for (const { type, data, position } of facts) {
      if (type !== "task.granted") continue;
      const name = `${String(data["task"])}#${Number(data["fence"])}`;
      const sent = this.#late.get(name);
      if (sent === undefined) continue;
      this.#late.delete(name);
      if (this.#before.has(sent.worker) && this.projection.workers.get(sent.worker)?.isDraining === true)
        return this.reportViolation(
          `${name} was granted at position ${position} and sent to ${sent.worker} on ${sent.told}, which had been told to drain`,
          [String(data["task"]), sent.worker],
        );
    }
    for (const { worker } of facts)
      if (worker !== null) {
        if (this.projection.workers.get(worker)?.isDraining === true) this.#before.add(worker);
        else this.#before.delete(worker);
      }
  }

  override onTimePassed(at: TrueTime): void {
    const { heartbeatMs: usual = 0, quietHeartbeatMs: quiet = 0 } = this.world.setup?.guarantees ?? {};
    for (const [sessionKey, { worker, connection, heartbeatAt: beatAt }] of this.#drainers) {
      const heartbeatMs = this.world.isLegacyWorker(worker) ? quiet : usual;
      const link = this.world.connections.get(connection);
      if (link?.isOpen !== true || !this.world.isRunning(worker)) this.#drainers.delete(sessionKey);
      else if (at - Math.max(beatAt, this.world.processes.get(worker)?.changedAt ?? 0) > missedHeartbeatsMax * heartbeatMs)
        return this.reportViolation(`${worker} was told to drain on ${connection} and its heartbeats have stopped`, [worker]);
    }
  }

  #handleSchedulerFrame(frame: ObservedFrame): void {
    const { type, observation, sessionKey, workerKey } = frame;
    if (type === "control.drain" && observation.event === "delivered")
      this.#drainers.set(sessionKey, {
        worker: observation.worker,
        connection: observation.connection,
        scheduler: observation.scheduler,
        heartbeatAt: observation.at,
      });
    if (type === "control.undrain" && observation.event === "sent") this.#drainers.delete(sessionKey);
    if (observation.event !== "sent" || !this.#drainers.has(sessionKey)) return;
    for (const { task, fence } of dispatchesIn(frame)) {
      this.checkedCount++;
      const name = `${task}#${fence}`;
      const grant = this.projection.grants.get(name);
      if (grant === undefined) this.#late.set(name, { worker: workerKey, told: observation.connection });
    }
  }
}
