// Vendor frames of the scheduler on their way to whoever listens. Within a session numbers keep each from coming twice; after a reset
// the scheduler may say the last ones again, so the ids of the latest are remembered across sessions.

import type { Envelope } from "@astraflow/protocol";
import { voidType } from "@astraflow/session";
import type { LinkPorts } from "./link-ports.ts";

const rememberedMax = 1_024;

export class ExtEar {
  readonly #hear: LinkPorts["ext"];
  /** In the order they came; a Map would walk over the holes its oldest entries leave. */
  readonly #ring: string[] = [];
  readonly #heard = new Set<string>();
  #next = 0;

  constructor(hear: LinkPorts["ext"]) {
    this.#hear = hear;
  }

  /** Null: heard, now or before. Else why not. */
  take({ type, id, corr, payload }: Envelope): string | null {
    // The number of a frame whose content was taken back.
    if (type === voidType || this.#heard.has(id)) return null;
    if (!this.#hear({ type, id, corr, payload })) return `E.CMD.UNKNOWN: nobody on this worker listens to ${type}`;
    this.#remember(id);
    return null;
  }

  #remember(id: string): void {
    const oldest = this.#ring[this.#next];
    if (oldest !== undefined) this.#heard.delete(oldest);
    this.#ring[this.#next] = id;
    this.#heard.add(id);
    this.#next = (this.#next + 1) % rememberedMax;
  }
}
