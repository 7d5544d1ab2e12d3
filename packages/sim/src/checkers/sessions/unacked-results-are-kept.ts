// I9: a worker keeps a result that it has sent until the ack arrives: every later register lists it, also the register of a later process if the outbox
// is on a disk. A kill between finish and ack therefore leads to sending the result again, not to running the task again.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { UnackedResults } from "../../checking/unacked-frames.ts";

export class UnackedResultsAreKept extends Checker {
  readonly #unacked = new UnackedResults();

  override onSentToScheduler(frame: ObservedFrame): void {
    if (frame.type === "control.register") this.#check(frame);
    this.#unacked.recordSent(frame);
  }

  override onDeliveredToWorker(frame: ObservedFrame): void {
    this.#unacked.recordAck(frame);
    // Of several attempts of one task a worker keeps only the last.
    for (const { task, fence } of frame.dispatches) this.#unacked.dropUpTo(frame.worker, task, fence - 1);
  }

  #check({ heldAttempts, worker, boot }: ObservedFrame): void {
    if (heldAttempts === null) return;
    const listed = new Set(heldAttempts.map(({ attempt }) => attempt));
    const hasDisk = this.world.hasDisk(worker);
    for (const { attempt, task, boot: sender } of this.#unacked.of(worker)) {
      if (!hasDisk && sender !== boot) continue;
      this.checkedCount++;
      if (!listed.has(attempt))
        return this.fail(
          `${worker} (boot ${boot}) comes back without ${attempt}, whose result it sent and never received an ack for`,
          task,
          worker,
        );
    }
  }
}
