// Frames that leave a Node host: results and requests overtake the feedback of others, never that of their own attempt.

import type { Writable } from "node:stream";
import { encodeFrames } from "./frame-stream.ts";

/** While more than this waits in the pipe, feedback waits here, where it can be overtaken. */
const pipeBytesMax = 64 * 1024;

export interface HostOutboxOptions {
  readonly defer: (call: () => void) => void;
  readonly pendingFeedbackMax: number;
  /** Feedback was dropped because too much waits: so many frames since the last report. */
  feedbackDropped(count: number): void;
}

export class HostOutbox {
  readonly #pipe: Writable;
  readonly #options: HostOutboxOptions;
  #urgent: (object | string)[] = [];
  /** By call, oldest call first. */
  readonly #feedback = new Map<number, string[]>();
  #feedbackCount = 0;
  #droppedCount = 0;
  #isFlushScheduled = false;

  constructor(pipe: Writable, options: HostOutboxOptions) {
    this.#pipe = pipe;
    this.#options = options;
    pipe.on("drain", () => this.flush());
  }

  send(frame: object | string): void {
    this.#urgent.push(frame);
    this.#scheduleFlush();
  }

  /** Written at once where the pipe has room: its handler may be about to block. */
  sendFeedback(call: number, frame: string): void {
    if (this.#feedbackCount >= this.#options.pendingFeedbackMax) {
      this.#droppedCount++;
      return;
    }
    const waiting = this.#feedback.get(call);
    if (waiting === undefined) this.#feedback.set(call, [frame]);
    else waiting.push(frame);
    this.#feedbackCount++;
    this.flush();
  }

  /** The last frame of a call, behind all of its feedback. */
  sendLast(call: number, frame: object | string): void {
    this.#urgent.push(...this.#takeFeedback(call), frame);
    this.#scheduleFlush();
  }

  flush(): void {
    if (this.#urgent.length > 0) {
      const frames = this.#urgent;
      this.#urgent = [];
      this.#pipe.write(encodeFrames(frames));
    }
    for (const call of this.#feedback.keys()) {
      if (this.#pipe.writableLength > pipeBytesMax) return;
      this.#pipe.write(encodeFrames(this.#takeFeedback(call)));
    }
    if (this.#droppedCount === 0 || this.#pipe.writableLength > pipeBytesMax) return;
    this.#options.feedbackDropped(this.#droppedCount);
    this.#droppedCount = 0;
  }

  #takeFeedback(call: number): string[] {
    const waiting = this.#feedback.get(call);
    if (waiting === undefined) return [];
    this.#feedback.delete(call);
    this.#feedbackCount -= waiting.length;
    return waiting;
  }

  #scheduleFlush(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    this.#options.defer(() => {
      this.#isFlushScheduled = false;
      this.flush();
    });
  }
}
