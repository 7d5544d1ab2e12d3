// Which of the peer's frames were refused, and why: a frame that comes again because its ack was lost must not hear that it was taken.
// Acks are written in pending-acks.ts.

import type { DeliveryTag } from "./receive-window.ts";

/** As many as the widest window: a peer repeats nothing that lies further back. */
const refusalsMax = 1_024;

export class RefusedFrames {
  /** By number, or by the ticket of the first arrival where there is none; oldest first. */
  private readonly reasons = new Map<number | DeliveryTag, string>();

  remember(frame: number | DeliveryTag, reason: string): void {
    if (this.reasons.size >= refusalsMax) this.evictOldest();
    this.reasons.set(frame, reason);
  }

  /** Null where it was not refused. */
  findReason(frame: number | DeliveryTag): string | null {
    return this.reasons.get(frame) ?? null;
  }

  private evictOldest(): void {
    const [oldest] = this.reasons.keys();
    if (oldest !== undefined) this.reasons.delete(oldest);
  }
}
