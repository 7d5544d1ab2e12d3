// How far the store's time is ahead of the server's clock. It never goes back, so after the server's clock was set back, or another
// server took over, it would stand still until that clock had caught up, and with it every deadline. Instead it goes on a little slower.

import type { Millis } from "@astraflow/engine";

/** What the store is ahead of the server is given back at most by this share of the time that passes: 1 ms in 20 ms. */
const slewShareMax = 1 / 20;

export class ClockLead {
  #ms = 0;
  #lastServerTime: Millis | null = null;

  /** To be added to the server's clock. */
  get ms(): Millis {
    return this.#ms;
  }

  /** A turn began: the server's clock said `server`, and the turn got the instant `now`, which is never below one already stored. */
  observe(server: Millis, now: Millis): void {
    const passed = this.#lastServerTime === null ? 0 : Math.max(0, server - this.#lastServerTime);
    this.#lastServerTime = server;
    this.#ms = Math.max(0, now - server - passed * slewShareMax);
  }
}
