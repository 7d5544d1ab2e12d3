// I19, resets: results that were sent in a session and never acked are sent again in the next session. A result may be dropped only when its task has
// moved on: it was cancelled there, or granted to that worker again.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { UnackedResults } from "../../checking/unacked-frames.ts";

/** How long an accepted worker may take to resend unacked results: the disk may have to be read, and the window may be small. */
const resendMsMax = 20_000;

export class UnackedResultsAreResent extends Checker {
  readonly #unacked = new UnackedResults();
  /** By machine: the last accept that arrived. */
  readonly #accepts = new Map<string, ObservedFrame>();

  override onSentToScheduler(frame: ObservedFrame): void {
    if (!this.world.isLegacyWorker(frame.workerKey)) this.checkedCount += this.#unacked.recordSent(frame);
  }

  override onDeliveredToWorker(frame: ObservedFrame): void {
    const { type, worker, payload } = frame;
    if (type === "control.session.accept") this.#accepts.set(worker, frame);
    this.#unacked.recordAck(frame);
    if (type === "biz.exec.cancel") this.#unacked.dropUpTo(worker, String(payload["task_id"]), Number(payload["fence"]));
    for (const { task, fence } of frame.dispatches) this.#unacked.dropUpTo(worker, task, fence - 1);
  }

  override onTimePassed(): void {
    for (const accept of this.#accepts.values()) this.#check(accept);
  }

  #check({ worker, sessionKey, connection, boot, at }: ObservedFrame): void {
    const since = Math.max(at, this.world.disturbedAt, this.world.processes.get(worker)?.changedAt ?? 0);
    const isAlive = this.world.isOpen(connection) && this.world.isRunning(worker);
    if (!isAlive || this.world.now <= since + resendMsMax) return;
    const hasDisk = this.world.hasDisk(worker);
    for (const { attempt, task, boot: sender, sessionKey: then } of this.#unacked.of(worker)) {
      if (!hasDisk && sender !== boot) continue;
      this.checkedCount++;
      if (then !== sessionKey)
        return this.fail(
          `${worker} sent the result ${attempt} in ${then}, never received its ack, and does not send it in ${sessionKey}`,
          task,
          worker,
        );
    }
  }
}
