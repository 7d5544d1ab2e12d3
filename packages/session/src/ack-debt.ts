// The acknowledgements that are owed: numbered frames together in one, frames that asked without a number each by name.

import type { AckPayload } from "@astraflow/protocol";
import type { DialectRules } from "./dialect-rules.ts";
import type { ReceiveWindow } from "./receive-window.ts";

export class AckDebt {
  private readonly rules: DialectRules;
  private readonly window: ReceiveWindow<unknown>;
  /** By id: why it was refused, or null. A name asked for twice before the ack leaves is said once. */
  private named = new Map<string, string | null>();
  private isDue = false;
  /** Id of the one numbered frame that the next ack is about; null as soon as there are several. */
  private only: string | null = null;

  constructor(rules: DialectRules, window: ReceiveWindow<unknown>) {
    this.rules = rules;
    this.window = window;
  }

  get isOwing(): boolean {
    return this.isDue || this.named.size > 0;
  }

  /** The state of the window is news for the peer. `id`: of a settled frame that asked by name. */
  owe(id: string | null): void {
    this.only = this.isDue ? null : id;
    this.isDue = true;
  }

  name(id: string, info: string | null): void {
    this.named.set(id, info);
  }

  /** Everything owed. Acks by name carry the window too, so that one frame often suffices. */
  take(): readonly AckPayload[] {
    const acks: AckPayload[] = [];
    for (const [id, info] of this.named) acks.push(this.write(id, info));
    if (this.isDue && acks.length === 0) acks.push(this.write(this.only ?? undefined, null));
    if (this.named.size > 0) this.named = new Map();
    this.isDue = false;
    this.only = null;
    return acks;
  }

  write(id: string | undefined, info: string | null): AckPayload {
    const ack: AckPayload = { ok: info === null };
    if (id !== undefined) ack.for = id;
    if (info !== null) ack.info = info;
    if (!this.rules.isNumbered) return ack;
    ack.ack_seq = this.window.settled;
    ack.ack_bitmap = this.window.bitmap;
    ack.recv_window = this.window.frames;
    return ack;
  }
}
