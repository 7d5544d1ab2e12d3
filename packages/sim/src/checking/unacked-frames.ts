// What was sent in numbered frames and not acked yet.

import { getOrCreate } from "../kernel/get-or-create.ts";
import { ackCovers, type ObservedFrame } from "./observed-frame.ts";

/** Numbered frames that were sent in a session, each with the items that a checker stores for it. */
export class UnackedFrames<T> {
  readonly #bySession = new Map<string, Map<number, readonly T[]>>();

  recordSent({ sessionKey, seq }: ObservedFrame, items: readonly T[]): void {
    if (seq !== null && items.length > 0)
      getOrCreate(this.#bySession, sessionKey, () => new Map<number, readonly T[]>()).set(seq, items);
  }

  /** The items of all frames that this ack covers; the frames are forgotten. */
  takeAcked(ack: ObservedFrame): T[] {
    const frames = ack.ack === null ? undefined : this.#bySession.get(ack.sessionKey);
    const acked = [...(frames ?? [])].filter(([seq]) => ackCovers(ack, seq));
    for (const [seq] of acked) frames?.delete(seq);
    return acked.flatMap(([, items]) => items);
  }
}

interface UnackedResult {
  readonly task: string;
  readonly fence: number;
  readonly attempt: string;
  /** The process and the session that sent it last. */
  readonly boot: string;
  readonly sessionKey: string;
}

/** Results that workers have sent and must keep until they are acked, or until their task has moved on. */
export class UnackedResults {
  readonly #frames = new UnackedFrames<string>();
  /** By machine and attempt. */
  readonly #results = new Map<string, Map<string, UnackedResult>>();
  /** By machine and task: the highest fence whose result may be dropped. */
  readonly #droppedUpTo = new Map<string, number>();

  /** Returns how many results were not sent in this session before. */
  recordSent(frame: ObservedFrame): number {
    const { worker, boot, sessionKey, seq, reports } = frame;
    const results = reports.filter(({ of }) => of === "result");
    if (results.length === 0 || seq === null) return 0;
    this.#frames.recordSent(
      frame,
      results.map(({ attempt }) => attempt),
    );
    const own = getOrCreate(this.#results, worker, () => new Map<string, UnackedResult>());
    let newCount = 0;
    for (const { task, fence, attempt } of results) {
      // A result sent after its task moved on may be dropped.
      if (!(fence > (this.#droppedUpTo.get(`${worker} ${task}`) ?? 0))) continue;
      if (own.get(attempt)?.sessionKey !== sessionKey) newCount++;
      own.set(attempt, { task, fence, attempt, boot, sessionKey });
    }
    return newCount;
  }

  recordAck(frame: ObservedFrame): void {
    for (const attempt of this.#frames.takeAcked(frame)) this.#results.get(frame.worker)?.delete(attempt);
  }

  /** The task has moved on at this worker: results up to this fence may be dropped. */
  dropUpTo(worker: string, task: string, fence: number): void {
    this.#droppedUpTo.set(`${worker} ${task}`, Math.max(fence, this.#droppedUpTo.get(`${worker} ${task}`) ?? 0));
    const own = this.#results.get(worker);
    for (const one of own?.values() ?? []) if (one.task === task && one.fence <= fence) own?.delete(one.attempt);
  }

  of(worker: string): Iterable<UnackedResult> {
    return this.#results.get(worker)?.values() ?? [];
  }
}
