// I20: neither end has more numbered frames in flight than the window that was announced to it. A frame is in flight from when it is sent until an
// ack that covers it has arrived; announcements and acks that have not arrived yet do not count.

import { Checker } from "../../checking/checker.ts";
import { type ObservedFrame, readAck } from "../../checking/observed-frame.ts";

interface WindowSender {
  readonly inFlight: Set<number>;
  /** The highest number it has used. */
  highestNumber: number;
  /** Announced by the accept, and by the last ack. */
  acceptedWindow: number;
  announcedWindow: number;
}

export class InFlightWindowIsKept extends Checker {
  readonly #senders = new Map<string, WindowSender>();

  override onFrame(frame: ObservedFrame): void {
    const { observation, seq, type, payload } = frame;
    if (type === "control.session.accept") this.#handleAccept(frame);
    if (observation.event === "delivered" && type === "control.ack") this.#handleAck(frame);
    // A resume request also acks.
    if (observation.event === "delivered" && type === "control.resume" && typeof payload["last_seen_seq"] === "number")
      this.#releaseAcked(this.#senderOf(frame.sessionKey, "worker"), payload["last_seen_seq"], []);
    // The first generation has a fixed window and ignores announcements.
    const isUnreachable = observation.toward === "scheduler" && this.world.isLegacyWorker(frame.workerKey);
    if (observation.event === "sent" && seq !== null && !isUnreachable) this.#check(frame, seq);
  }

  #senderOf(sessionKey: string, toward: string): WindowSender {
    const name = `${sessionKey} ${toward}`;
    let sender = this.#senders.get(name);
    if (sender === undefined) {
      const unbounded = Number.POSITIVE_INFINITY;
      this.#senders.set(
        name,
        (sender = {
          inFlight: new Set(),
          highestNumber: Number.NEGATIVE_INFINITY,
          acceptedWindow: unbounded,
          announcedWindow: unbounded,
        }),
      );
    }
    return sender;
  }

  #check(frame: ObservedFrame, seq: number): void {
    const { sessionKey, observation } = frame;
    const sender = this.#senderOf(sessionKey, observation.toward);
    if (seq <= sender.highestNumber) return;
    sender.highestNumber = seq;
    sender.inFlight.add(seq);
    const limit = Math.min(sender.acceptedWindow, sender.announcedWindow);
    this.checkedCount++;
    if (sender.inFlight.size > limit)
      this.reportViolation(
        `${sender.inFlight.size} frames are in flight on ${sessionKey} towards the ${observation.toward}, whose window is ${limit}`,
        [observation.worker, observation.connection],
      );
  }

  #handleAccept({ payload, observation, sessionKey }: ObservedFrame): void {
    const { send_window: down, recv_window: up } = payload;
    if (observation.event === "sent" && typeof down === "number") this.#senderOf(sessionKey, "worker").acceptedWindow = down;
    if (observation.event === "delivered" && typeof up === "number") this.#senderOf(sessionKey, "scheduler").acceptedWindow = up;
  }

  #handleAck(frame: ObservedFrame): void {
    const said = readAck(frame);
    const sender = this.#senderOf(frame.sessionKey, frame.observation.toward === "worker" ? "scheduler" : "worker");
    const { recv_window: peer } = frame.payload;
    if (typeof peer === "number") sender.announcedWindow = Math.max(1, peer);
    if (said !== null) this.#releaseAcked(sender, said.upTo, said.beyond);
  }

  #releaseAcked({ inFlight }: WindowSender, upTo: number, beyond: readonly number[]): void {
    for (const seq of inFlight) if (seq <= upTo) inFlight.delete(seq);
    for (const seq of beyond) inFlight.delete(seq);
  }
}
