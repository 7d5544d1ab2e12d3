// I9: a result that a worker has sent stays with it until it hears the ack: every later register names it, also that of a later process where
// the outbox is on a disk, so that a kill between finish and ack leads to saying it again and not to doing it again.

import { Checker } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import { dispatchesIn, heldAttemptsIn, type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";

interface UnackedResult {
  readonly task: string;
  readonly fence: number;
  /** The life that said it last. */
  boot: string;
}

export class UnackedResultsAreKept extends Checker {
  /** By machine and `<task>#<fence>`: said, and no ack of it has come back. Of two machines with one name each keeps its own. */
  readonly #unacked = new Map<string, Map<string, UnackedResult>>();
  /** What left under which number, by session. */
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
    // Of several attempts of one task a worker answers for the last alone.
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
    // Said late, after a newer attempt of its task had come, it is of no interest any more.
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
          `${worker} (boot ${frame.observation.boot}) comes back without ${name}, whose result it sent and never heard acked`,
          [task, worker],
        );
    }
  }
}
