// I20: neither end has more numbered frames in flight than the window that was announced to it. A frame is in flight from when it is sent until an
// ack that covers it has arrived; announcements and acks that have not arrived yet do not count.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

class WindowSender {
  readonly inFlight = new Set<number>();
  /** The highest number it has used. */
  highestNumber = Number.NEGATIVE_INFINITY;
  /** Announced by the accept, and by the last ack. */
  acceptedWindow = Number.POSITIVE_INFINITY;
  announcedWindow = Number.POSITIVE_INFINITY;

  releaseUpTo(number: number): void {
    for (const seq of this.inFlight) if (seq <= number) this.inFlight.delete(seq);
  }
}

export class InFlightWindowIsKept extends Checker {
  readonly #senders = new Map<string, WindowSender>();

  override onSentToWorker(frame: ObservedFrame): void {
    const { send_window: window } = frame.payload;
    if (frame.type === "control.session.accept" && typeof window === "number")
      this.#senderOf(frame, "worker").acceptedWindow = window;
    this.#check(frame);
  }

  override onSentToScheduler(frame: ObservedFrame): void {
    // The first generation has a fixed window and ignores announcements.
    if (!this.world.isLegacyWorker(frame.workerKey)) this.#check(frame);
  }

  override onDeliveredToWorker(frame: ObservedFrame): void {
    const { recv_window: window } = frame.payload;
    if (frame.type === "control.session.accept" && typeof window === "number")
      this.#senderOf(frame, "scheduler").acceptedWindow = window;
    this.#handleAck(frame, "scheduler");
  }

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    this.#handleAck(frame, "worker");
    const { last_seen_seq: lastSeen } = frame.payload;
    // A resume request also acks.
    if (frame.type === "control.resume" && typeof lastSeen === "number") this.#senderOf(frame, "worker").releaseUpTo(lastSeen);
  }

  #senderOf({ sessionKey }: ObservedFrame, toward: string): WindowSender {
    return getOrCreate(this.#senders, `${sessionKey} ${toward}`, () => new WindowSender());
  }

  #check(frame: ObservedFrame): void {
    const { sessionKey, toward, seq } = frame;
    const sender = this.#senderOf(frame, toward);
    if (seq === null || seq <= sender.highestNumber) return;
    sender.highestNumber = seq;
    sender.inFlight.add(seq);
    const limit = Math.min(sender.acceptedWindow, sender.announcedWindow);
    const { size } = sender.inFlight;
    this.checkedCount++;
    if (size <= limit) return;
    const problem = `${size} frames are in flight on ${sessionKey} towards the ${toward}, whose window is ${limit}`;
    this.fail(problem, frame.worker, frame.connection);
  }

  #handleAck(frame: ObservedFrame, toward: string): void {
    if (frame.type !== "control.ack") return;
    const sender = this.#senderOf(frame, toward);
    const { recv_window: window } = frame.payload;
    if (typeof window === "number") sender.announcedWindow = Math.max(1, window);
    if (frame.ack === null) return;
    sender.releaseUpTo(frame.ack.upTo);
    for (const seq of frame.ack.beyond) sender.inFlight.delete(seq);
  }
}
