// I9: a worker keeps a result that it has sent until the ack arrives: every later register lists it, also the register of a later process if the outbox
// is on a disk. A kill between finish and ack therefore leads to sending the result again, not to running the task again.

import { Checker } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import { dispatchesIn, heldAttemptsIn, type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";

interface UnackedResult {
  readonly task: string;
  readonly fence: number;
  /** The process that sent it last. */
  boot: string;
}

export class UnackedResultsAreKept extends Checker {
  /** By machine and `<task>#<fence>`: results that were sent and not acked. */
  readonly #unacked = new Map<string, Map<string, UnackedResult>>();
  /** Names of the results in each unacked frame. */
  readonly #unackedNames = new UnackedFrames<string>();
  /** The newest fence that came of each task, by machine. */
  readonly #newest = new Map<string, number>();

  override onFrame(frame: ObservedFrame): void {
    const { observation } = frame;
    const { worker } = observation;
    if (observation.toward === "scheduler" && observation.event === "sent") {
      if (frame.type === "control.register") this.#check(frame, worker);
      this.#handleResults(frame, worker);
    }
    if (observation.toward !== "worker" || observation.event !== "delivered") return;
    if (frame.type === "control.ack") this.#handleAck(frame, worker);
    // Of several attempts of one task a worker keeps only the last.
    for (const { task, fence } of dispatchesIn(frame)) {
      this.#newest.set(`${worker} ${task}`, Math.max(fence, this.#newest.get(`${worker} ${task}`) ?? 0));
      for (const [name, one] of this.#unacked.get(worker) ?? [])
        if (one.task === task && one.fence < fence) this.#unacked.get(worker)?.delete(name);
    }
  }

  #handleResults(frame: ObservedFrame, worker: string): void {
    const results = taskReportsIn(frame).filter(({ of }) => of === "result");
    if (results.length === 0 || frame.seq === null) return;
    const { boot } = frame.observation;
    const ownEntries = getOrCreate(this.#unacked, worker, () => new Map<string, UnackedResult>());
    this.#unackedNames.recordSent(
      frame,
      results.map(({ task, fence }) => `${task}#${fence}`),
    );
    // A result sent after a newer attempt of its task arrived need not be kept.
    for (const { task, fence } of results)
      if (fence >= (this.#newest.get(`${worker} ${task}`) ?? 0)) ownEntries.set(`${task}#${fence}`, { task, fence, boot });
  }

  #handleAck(frame: ObservedFrame, worker: string): void {
    for (const name of this.#unackedNames.takeAcked(frame)) this.#unacked.get(worker)?.delete(name);
  }

  #check(frame: ObservedFrame, worker: string): void {
    const held = heldAttemptsIn(frame);
    if (held === null) return;
    const named = new Set(held.map(({ task, fence }) => `${task}#${fence}`));
    const hasDisk = this.world.setup?.workers.find((one) => one.worker === worker)?.hasDisk === true;
    for (const [name, { task, boot }] of this.#unacked.get(worker) ?? []) {
      if (!hasDisk && boot !== frame.observation.boot) continue;
      this.checkedCount++;
      if (!named.has(name))
        return this.reportViolation(
          `${worker} (boot ${frame.observation.boot}) comes back without ${name}, whose result it sent and never received an ack for`,
          [task, worker],
        );
    }
  }
}
