// The trace of a simulated run: numbers every observation, folds it into one hash, and passes it on to the checkers.

import { createHash } from "node:crypto";
import type { Observation, ObservationListener, UnstampedObservation } from "../observation/observation.ts";
import type { Timeline } from "./timeline.ts";

const flushCharsMax = 1 << 16;

export class ObservationTrace {
  readonly #timeline: Timeline;
  readonly #observe: ObservationListener;
  readonly #hash = createHash("sha256");
  #text = "";
  #count = 0;

  constructor(timeline: Timeline, observe: ObservationListener) {
    this.#timeline = timeline;
    this.#observe = observe;
  }

  get count(): number {
    return this.#count;
  }

  record(unstamped: UnstampedObservation): void {
    const observation: Observation = { at: this.#timeline.now, n: this.#count++, ...unstamped };
    // The text of a frame is hashed once, when it is sent; after that its number stands for it.
    this.#text +=
      observation.kind === "frame"
        ? `${observation.at} ${observation.event} ${observation.frame} ${observation.connection} ${observation.event === "sent" ? observation.text : ""}\n`
        : `${JSON.stringify(observation)}\n`;
    if (this.#text.length > flushCharsMax) this.#flushToHash();
    this.#observe(observation);
  }

  /** 128 bits over everything seen so far. Ends the record. */
  finishHash(): string {
    this.#flushToHash();
    return this.#hash.digest("hex").slice(0, 32);
  }

  #flushToHash(): void {
    this.#hash.update(this.#text);
    this.#text = "";
  }
}
