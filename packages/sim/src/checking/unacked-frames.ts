// Numbered frames that were sent in a session and not acked yet, each with the items that a checker stores for it.

import { getOrCreate } from "./get-or-create.ts";
import { ackCovers, type ObservedFrame } from "./observed-frame.ts";

export class UnackedFrames<T> {
  readonly #bySession = new Map<string, Map<number, readonly T[]>>();

  recordSent({ sessionKey, seq }: ObservedFrame, items: readonly T[]): void {
    if (seq !== null && items.length > 0)
      getOrCreate(this.#bySession, sessionKey, () => new Map<number, readonly T[]>()).set(seq, items);
  }

  /** The items of all frames that this ack covers; the frames are forgotten. */
  takeAcked(ack: ObservedFrame): T[] {
    const frames = this.#bySession.get(ack.sessionKey);
    const acked: T[] = [];
    for (const [seq, items] of frames ?? []) {
      if (!ackCovers(ack, seq)) continue;
      frames?.delete(seq);
      acked.push(...items);
    }
    return acked;
  }
}
