// Vendor frames of the scheduler on their way to whoever listens. Within a session numbers keep each from coming twice; after a reset
// the scheduler may say the last ones again, so the ids of the latest are remembered across sessions.

import type { Envelope } from "@astraflow/protocol";
import { fillerFrameType } from "@astraflow/session";
import type { LinkPorts } from "./link-ports.ts";

const rememberedIdsMax = 1_024;

export class VendorFrameReceiver {
  readonly #deliver: LinkPorts["deliverVendorFrame"];
  /** In the order they came; a Map would walk over the holes its oldest entries leave. */
  readonly #idRing: string[] = [];
  readonly #seenIds = new Set<string>();
  #ringIndex = 0;

  constructor(deliver: LinkPorts["deliverVendorFrame"]) {
    this.#deliver = deliver;
  }

  /** Null: heard, now or before. Else why not. */
  handleFrame({ type, id, corr, payload }: Envelope): string | null {
    // The number of a frame whose content was taken back.
    if (type === fillerFrameType || this.#seenIds.has(id)) return null;
    if (!this.#deliver({ type, id, corr, payload })) return `E.CMD.UNKNOWN: nobody on this worker listens to ${type}`;
    this.#rememberId(id);
    return null;
  }

  #rememberId(id: string): void {
    const oldest = this.#idRing[this.#ringIndex];
    if (oldest !== undefined) this.#seenIds.delete(oldest);
    this.#idRing[this.#ringIndex] = id;
    this.#seenIds.add(id);
    this.#ringIndex = (this.#ringIndex + 1) % rememberedIdsMax;
  }
}
