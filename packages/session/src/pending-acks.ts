// Acks that have to be sent: one for all numbered frames, and one by id for each frame that asked without a number.

import type { AckPayload } from "@astraflow/protocol";
import type { DialectRules } from "./dialect-rules.ts";
import type { ReceiveWindow } from "./receive-window.ts";

export class PendingAcks {
  private rules: DialectRules;
  private window: ReceiveWindow<unknown>;
  /** By id: why the frame was refused, or null. */
  private namedAcks = new Map<string, string | null>();
  private isWindowAckDue = false;
  /** Id of the one numbered frame that the next ack is about; null as soon as there are several. */
  private soleFrameId: string | null = null;

  constructor(rules: DialectRules, window: ReceiveWindow<unknown>) {
    this.rules = rules;
    this.window = window;
  }

  /** The dialect is known now; acks by id that are due stay. */
  changeDialect(rules: DialectRules, window: ReceiveWindow<unknown>): void {
    this.rules = rules;
    this.window = window;
  }

  get hasAny(): boolean {
    return this.isWindowAckDue || this.namedAcks.size > 0;
  }

  /** The window has changed, so the peer gets an ack. `id`: of a settled frame that asked for one by id. */
  requestWindowAck(id: string | null): void {
    this.soleFrameId = this.isWindowAckDue ? null : id;
    this.isWindowAckDue = true;
  }

  addNamed(id: string, info: string | null): void {
    this.namedAcks.set(id, info);
  }

  /** Acks by id carry the window too, so that one frame often suffices. */
  takeAll(): readonly AckPayload[] {
    const acks: AckPayload[] = [];
    for (const [id, info] of this.namedAcks) acks.push(this.buildAck(id, info));
    if (this.isWindowAckDue && acks.length === 0) acks.push(this.buildAck(this.soleFrameId ?? undefined, null));
    if (this.namedAcks.size > 0) this.namedAcks = new Map();
    this.isWindowAckDue = false;
    this.soleFrameId = null;
    return acks;
  }

  buildAck(id: string | undefined, info: string | null): AckPayload {
    const ack: AckPayload = { ok: info === null };
    if (id !== undefined) ack.for = id;
    if (info !== null) ack.info = info;
    if (!this.rules.isWindowAcked) return ack;
    ack.ack_seq = this.window.settled;
    ack.ack_bitmap = this.window.bitmap;
    ack.recv_window = this.window.frames;
    return ack;
  }
}
