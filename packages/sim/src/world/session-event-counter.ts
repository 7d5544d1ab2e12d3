// Counts session events for the figures of a campaign: begun, resumed, renewed, reset.

import type { Observation } from "../observation/observation.ts";

export class SessionEventCounter {
  readonly #count: (name: string) => void;
  /** Sockets that have a session: a later accept there only brings a new token. */
  readonly #acceptedConnections = new Set<string>();

  constructor(count: (name: string) => void) {
    this.#count = count;
  }

  observe(observation: Observation): void {
    if (observation.kind !== "frame" || observation.event !== "sent") return;
    const { text, toward, connection } = observation;
    if (toward === "scheduler") {
      if (text.includes('"control.resume"')) this.#count("session: asked to resume");
      return;
    }
    if (text.includes('"control.session.accept"')) {
      const how = this.#acceptedConnections.has(connection)
        ? "token renewed"
        : text.includes('"resumed":true')
          ? "resumed"
          : "begun";
      this.#count(`session: ${how}`);
      this.#acceptedConnections.add(connection);
    }
    const code = text.includes('"control.reset"') ? /"code":"([^"]+)"/.exec(text)?.[1] : undefined;
    if (code !== undefined) this.#count(`session: reset with ${code}`);
  }
}
