// How the older workers repeat unacknowledged frames: after 0.2, 0.4, 0.8, 1.6, 3.2 and 5 s, byte for byte, and 5 s after the last they
// give up. No jitter. Matching acks to frames is the caller's part.

const resendPausesMs = [200, 400, 800, 1_600, 3_200, 5_000] as const;
const lastPauseMs = 5_000;

export interface RetransmittedFrame {
  readonly id: string;
  readonly text: string;
  /** Transport number; null where the dialect or the frame has none. */
  readonly number: number | null;
  /** It asked to be acked by name: then the first repeat that finds no socket is its end. */
  readonly requestsAck: boolean;
  /** Called once: acknowledged, or given up. */
  readonly onEnd: (isAcked: boolean) => void;
}

interface TrackedFrame extends RetransmittedFrame {
  resends: number;
  timer: NodeJS.Timeout | null;
}

export class Retransmitter {
  readonly #open = new Map<string, TrackedFrame>();
  readonly #send: (text: string) => boolean;

  /** `send` is false where there is no socket. */
  constructor(send: (text: string) => boolean) {
    this.#send = send;
  }

  get numbered(): number {
    return [...this.#open.values()].filter(({ number }) => number !== null).length;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Sends for the first time; false, and nothing is kept, where that was not possible. */
  sendFirst(frame: RetransmittedFrame): boolean {
    if (!this.#send(frame.text)) return false;
    const tracked: TrackedFrame = { ...frame, resends: 0, timer: null };
    this.#open.set(frame.id, tracked);
    this.#scheduleResend(tracked);
    return true;
  }

  acknowledge(isAcked: (frame: RetransmittedFrame) => boolean): void {
    for (const tracked of [...this.#open.values()]) if (isAcked(tracked)) this.#end(tracked, true);
  }

  cancel(isOver: (frame: RetransmittedFrame) => boolean = () => true): void {
    for (const tracked of [...this.#open.values()]) if (isOver(tracked)) this.#end(tracked, false);
  }

  #scheduleResend(tracked: TrackedFrame): void {
    const waitMs = resendPausesMs[tracked.resends] ?? lastPauseMs;
    tracked.timer = setTimeout(() => {
      if (tracked.resends >= resendPausesMs.length) return this.#end(tracked, false);
      tracked.resends += 1;
      if (!this.#send(tracked.text) && tracked.requestsAck) return this.#end(tracked, false);
      this.#scheduleResend(tracked);
    }, waitMs);
  }

  #end(tracked: TrackedFrame, isAcked: boolean): void {
    if (tracked.timer !== null) clearTimeout(tracked.timer);
    this.#open.delete(tracked.id);
    tracked.onEnd(isAcked);
  }
}
