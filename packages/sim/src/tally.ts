// Counts of what happened to sessions, for the figures of a campaign: begun, resumed, renewed, reset. Judges nothing.

import type { Observation } from "./observation.ts";

export class SessionTally {
  readonly #count: (name: string) => void;
  /** Sockets that have a session: a later accept there only brings a new token. */
  readonly #seated = new Set<string>();

  constructor(count: (name: string) => void) {
    this.#count = count;
  }

  hear(seen: Observation): void {
    if (seen.kind !== "frame" || seen.event !== "sent") return;
    const { text, toward, connection } = seen;
    if (toward === "scheduler") {
      if (text.includes('"control.resume"')) this.#count("session: asked to resume");
      return;
    }
    if (text.includes('"control.session.accept"')) {
      const how = this.#seated.has(connection) ? "token renewed" : text.includes('"resumed":true') ? "resumed" : "begun";
      this.#count(`session: ${how}`);
      this.#seated.add(connection);
    }
    const code = text.includes('"control.reset"') ? /"code":"([^"]+)"/.exec(text)?.[1] : undefined;
    if (code !== undefined) this.#count(`session: reset with ${code}`);
  }
}
