// I24: a worker that was told to drain gets no task that was granted later, and keeps sending heartbeats. It counts as told once the drain frame was
// delivered; the log decides when a task was granted, because dispatches of earlier grants may still be on their way.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** Beats that may be missed before a draining worker counts as silent. */
const missedHeartbeatsMax = 4;

export class DrainingWorkerGetsNoWork extends Checker {
  /** Who was told to drain, by session, and what was sent to it after that. */
  readonly #drainers = new Map<string, { readonly worker: string; readonly connection: string; heartbeatAt: TrueTime }>();
  readonly #late = new Map<string, { readonly worker: string; readonly connection: string }>();
  /** Draining before the turn that is being read, by worker. */
  readonly #before = new Set<string>();

  override onSentToScheduler({ type, sessionKey, at }: ObservedFrame): void {
    const drainer = this.#drainers.get(sessionKey);
    if (drainer === undefined || type !== "control.heartbeat") return;
    this.checkedCount++;
    drainer.heartbeatAt = at;
  }

  override onDeliveredToWorker({ type, sessionKey, worker, connection, at }: ObservedFrame): void {
    if (type === "control.drain") this.#drainers.set(sessionKey, { worker, connection, heartbeatAt: at });
  }

  override onSentToWorker({ type, sessionKey, workerKey, connection, dispatches }: ObservedFrame): void {
    if (type === "control.undrain") this.#drainers.delete(sessionKey);
    if (!this.#drainers.has(sessionKey)) return;
    for (const { attempt } of dispatches) {
      this.checkedCount++;
      if (!this.projection.grants.has(attempt)) this.#late.set(attempt, { worker: workerKey, connection });
    }
  }

  override onTurn(_tenant: string, facts: readonly ObservedFact[]): void {
    for (const { type, position, task, attempt } of facts) {
      if (type !== "task.granted") continue;
      const sent = this.#late.get(attempt);
      if (sent === undefined) continue;
      this.#late.delete(attempt);
      if (this.#before.has(sent.worker) && this.projection.workers.get(sent.worker)?.isDraining === true)
        return this.fail(
          `${attempt} was granted at position ${position} and sent to ${sent.worker} on ${sent.connection}, which had been told to drain`,
          task,
          sent.worker,
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
    for (const [sessionKey, { worker, connection, heartbeatAt }] of this.#drainers) {
      const heartbeatMs = this.world.isLegacyWorker(worker) ? quiet : usual;
      const aliveAt = Math.max(heartbeatAt, this.world.processes.get(worker)?.changedAt ?? 0);
      if (!this.world.isOpen(connection) || !this.world.isRunning(worker)) this.#drainers.delete(sessionKey);
      else if (at - aliveAt > missedHeartbeatsMax * heartbeatMs)
        return this.fail(`${worker} was told to drain on ${connection} and its heartbeats have stopped`, worker);
    }
  }
}
