// The newest session of each worker as seen on the wire: the one of the last register that reached a scheduler, or of the last resume request.
// Schedulers ignore what an older session sends.

import type { ObservedFrame } from "./observed-frame.ts";

export class NewestSessions {
  /** By worker: the connection of its last register, or the session of its last resume. */
  readonly #newestByWorker = new Map<string, string>();
  /** Where each session was let in first. */
  readonly #firstConnections = new Map<string, string>();

  observeFrame({ type, observation, sessionKey, workerKey }: ObservedFrame): void {
    if (observation.event === "delivered" && type === "control.register")
      this.#newestByWorker.set(workerKey, observation.connection);
    if (observation.event === "delivered" && type === "control.resume") this.#newestByWorker.set(workerKey, sessionKey);
    if (observation.event === "sent" && type === "control.session.accept" && !this.#firstConnections.has(sessionKey))
      this.#firstConnections.set(sessionKey, observation.connection);
  }

  isNewest({ sessionKey, workerKey }: ObservedFrame): boolean {
    const newest = this.#newestByWorker.get(workerKey);
    return newest === sessionKey || newest === this.firstConnectionOf(sessionKey);
  }

  firstConnectionOf(sessionKey: string): string {
    return this.#firstConnections.get(sessionKey) ?? sessionKey;
  }
}
