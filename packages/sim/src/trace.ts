// The record of a world: numbers every sight, folds it into one hash and passes it on to the judges.

import { createHash } from "node:crypto";
import type { Observation, Observe, Sight } from "./observation.ts";
import type { Timeline } from "./timeline.ts";

const flushCharsMax = 1 << 16;

export class Trace {
  readonly #timeline: Timeline;
  readonly #observe: Observe;
  readonly #hash = createHash("sha256");
  #text = "";
  #count = 0;

  constructor(timeline: Timeline, observe: Observe) {
    this.#timeline = timeline;
    this.#observe = observe;
  }

  get count(): number {
    return this.#count;
  }

  see(sight: Sight): void {
    const seen: Observation = { at: this.#timeline.now, n: this.#count++, ...sight };
    // The text of a frame is hashed once, when it is sent; after that its number stands for it.
    this.#text +=
      seen.kind === "frame"
        ? `${seen.at} ${seen.event} ${seen.frame} ${seen.connection} ${seen.event === "sent" ? seen.text : ""}\n`
        : `${JSON.stringify(seen)}\n`;
    if (this.#text.length > flushCharsMax) this.#fold();
    this.#observe(seen);
  }

  /** 128 bits over everything seen so far. Ends the record. */
  close(): string {
    this.#fold();
    return this.#hash.digest("hex").slice(0, 32);
  }

  #fold(): void {
    this.#hash.update(this.#text);
    this.#text = "";
  }
}
