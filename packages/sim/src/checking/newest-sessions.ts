// Which session of a worker is its newest, as the wire shows it: the one that a register that reached a scheduler began, or that a resume asked
// for. What an older one still says is heard by nobody. Checkers nothing.

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
