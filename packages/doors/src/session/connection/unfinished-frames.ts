// Bytes of frames that have not arrived as a whole: the socket library holds them until the last one comes. One that grows beyond what a frame may
// have is refused at once, and those that hold most are refused when all of them together hold too much.

import { type Fault, fault, limits as wireLimits } from "@astraflow/protocol";
import { evictAboveTotal } from "../../environment/byte-total.ts";

/** Heads of frames and the start of the next one may be counted with a frame. */
const slackBytes = 64 * 1024;

/** One socket's part. */
export interface UnfinishedFrame {
  /** Before the library sees them. */
  countBytes(bytes: number): void;
  /** Bytes of a ping or pong, which may come between the parts of a frame. */
  discount(bytes: number): void;
  /** A frame is complete. */
  finish(): void;
  remove(): void;
}

interface Holder {
  bytes: number;
  refuse(why: Fault): void;
}

export class UnfinishedFrames {
  readonly #bytesMax: number;
  readonly #holders = new Set<Holder>();
  #total = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#total;
  }

  /** `refuse` is called at most once, and nothing is counted after it. */
  add(refuse: (why: Fault) => void): UnfinishedFrame {
    const holder: Holder = { bytes: 0, refuse };
    this.#holders.add(holder);
    const change = (bytes: number): void => {
      if (!this.#holders.has(holder)) return;
      this.#total += bytes - holder.bytes;
      holder.bytes = bytes;
    };
    return {
      countBytes: (bytes) => {
        change(holder.bytes + bytes);
        const { frameBytesMax } = wireLimits;
        if (holder.bytes > frameBytesMax + slackBytes)
          this.#refuse(holder, fault("E.FRAME.TOO_LARGE", `a frame may have ${frameBytesMax} bytes, this one has more`));
        if (this.#total > this.#bytesMax) this.#refuseLargest();
      },
      discount: (bytes) => change(Math.max(0, holder.bytes - bytes)),
      finish: () => change(0),
      remove: () => this.#remove(holder),
    };
  }

  #refuseLargest(): void {
    const why = fault(
      "E.OVERLOADED",
      "frames that have not arrived completely hold too much memory, and this worker's most; come back later",
    );
    evictAboveTotal(this.#holders, {
      bytesOf: ({ bytes }) => bytes,
      bytesMax: this.#bytesMax,
      evict: (holder) => this.#refuse(holder, why),
    });
  }

  #refuse(holder: Holder, why: Fault): void {
    if (this.#remove(holder)) holder.refuse(why);
  }

  #remove(holder: Holder): boolean {
    if (!this.#holders.delete(holder)) return false;
    this.#total -= holder.bytes;
    return true;
  }
}
