// The numbers of what the scheduler sends, and the one ack that is owed for all of it. Frames come in order on a live socket.
// Buffering what comes out of order will live here once sessions survive their socket.

import type { Ack, Envelope } from "@astraflow/protocol";

/** next: take it. repeat: it was taken before and is only acked again. gap: one of the two ends has lost count. */
export type Arrival = "next" | "repeat" | "gap";

export class Inbox {
  #next = 0;
  #window: number;
  #isOwing = false;
  #askedBy: string | undefined;

  constructor(window: number) {
    this.#window = window;
  }

  get isOwing(): boolean {
    return this.#isOwing;
  }

  get expected(): number {
    return this.#next;
  }

  /** A new session: numbers start at 0. */
  reopen(window: number): void {
    this.#next = 0;
    this.#window = window;
    this.#isOwing = false;
    this.#askedBy = undefined;
  }

  arrive(envelope: Envelope): Arrival {
    const number = envelope.seq;
    if (number !== undefined && number > this.#next) return "gap";
    if (number !== undefined || envelope.ack?.request) {
      this.#isOwing = true;
      if (envelope.ack?.request) this.#askedBy = envelope.id;
    }
    if (number === undefined) return "next";
    if (number < this.#next) return "repeat";
    this.#next++;
    return "next";
  }

  /** The ack for all that has arrived; nothing is owed after it. */
  takeAck(): Ack {
    const id = this.#askedBy;
    this.#isOwing = false;
    this.#askedBy = undefined;
    return { ok: true, ...(id !== undefined && { for: id }), ack_seq: this.#next - 1, ack_bitmap: 0, recv_window: this.#window };
  }
}
