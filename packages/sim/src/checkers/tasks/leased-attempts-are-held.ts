// I54: after the faults, no attempt stays leased at a live worker that neither runs it nor answers for it, for longer than its lease, the grace of
// silent attempts and the ack deadline. An ack, a report and a list that names the attempt are answers; a heartbeat without it is none.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { nodeOfTask } from "../../checking/requested-runs.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import type { Observation, TrueTime } from "../../observation/observation.ts";
import { isRepeatForbidden } from "./lost-attempts-are-not-repeated.ts";

/** For polling, latency and queued work. */
const slackMs = 5_000;

export class LeasedAttemptsAreHeld extends Checker {
  /** When the task was last granted, run or answered for. */
  readonly #signAt = new Map<string, TrueTime>();
  /** Handlers that run, by worker and task. */
  readonly #running = new Map<string, number>();
  readonly #unackedDispatches = new UnackedFrames<string>();

  override onObservation(observation: Observation): void {
    if (observation.kind !== "handler" || observation.event === "told") return;
    const { tenant, instance, task, event, at } = observation;
    const place = `${tenant}/${instance} ${task}`;
    this.#running.set(place, Math.max(0, (this.#running.get(place) ?? 0) + (event === "starts" ? 1 : -1)));
    this.#signAt.set(task, at);
  }

  override onFact({ type, task, readAt }: ObservedFact): void {
    if (type === "task.granted" || type === "task.rebound") this.#signAt.set(task, readAt);
  }

  override onSentToWorker(frame: ObservedFrame): void {
    this.#unackedDispatches.recordSent(
      frame,
      frame.dispatches.map(({ task }) => task),
    );
  }

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    const { reports, heldAttempts, type, payload, at } = frame;
    for (const { task } of [...reports, ...(heldAttempts ?? [])]) this.#signAt.set(task, at);
    for (const task of this.#unackedDispatches.takeAcked(frame)) this.#signAt.set(task, at);
    // Dialects without numbers ack by frame id, and the id of a dispatch names the task.
    const [task = "", fence] = String(payload["for"]).split("#");
    if (type === "control.ack" && fence !== undefined) this.#signAt.set(task, at);
  }

  override onTimePassed(): void {
    if (!this.world.areFaultsOver) return;
    const calmSince = Math.max(this.world.faultsEndedAt, this.world.disturbedAt);
    for (const [worker, tasks] of this.projection.heldTasks) {
      const holder = this.projection.workers.get(worker);
      // Without a session the lease decides.
      if (holder?.presence !== "online") continue;
      for (const id of tasks) {
        const task = this.projection.task(id);
        if (task === undefined || task.run.endStatus !== null || task.run.isEndingEarly) continue;
        this.checkedCount++;
        // An older worker cannot be asked without the risk that it runs the task again: the deadline of the attempt ends it.
        if (this.world.isLegacyWorker(worker) && isRepeatForbidden(nodeOfTask(task.run.requested ?? null, id))) continue;
        if ((this.#running.get(`${worker} ${id}`) ?? 0) > 0) continue;
        const at = this.projection.completeReadAt.get(task.run.tenant) ?? 0;
        const silentMs = at - Math.max(this.#signAt.get(id) ?? 0, calmSince, holder.readAt);
        if (silentMs > this.#boundFor(worker))
          return this.fail(
            `${id} is leased to ${worker}, which neither runs it nor has answered for ${Math.round(silentMs)} ms`,
            id,
            worker,
          );
      }
    }
  }

  #boundFor(worker: string): number {
    const { leaseMs = 0, quietLeaseMs = 0, silenceMs = 0, ackDeadlineMs = 0, idleMs = 0 } = this.world.setup?.guarantees ?? {};
    const lease = this.world.isLegacyWorker(worker) ? quietLeaseMs : leaseMs;
    return lease + silenceMs + ackDeadlineMs + 4 * idleMs + slackMs;
  }
}
