// Which session of a worker is its newest, as the wire shows it: the one that a register that reached a scheduler began, or that a resume asked
// for. What an older one still says is heard by nobody. Judges nothing.

import type { WireFrame } from "./wire.ts";

export class Lineage {
  /** By worker: the connection of its last register, or the session of its last resume. */
  readonly #newest = new Map<string, string>();
  /** Where each session was let in first. */
  readonly #origins = new Map<string, string>();

  hear({ type, seen, stream }: WireFrame): void {
    const who = `${seen.tenant}/${seen.instance}`;
    if (seen.event === "delivered" && type === "control.register") this.#newest.set(who, seen.connection);
    if (seen.event === "delivered" && type === "control.resume") this.#newest.set(who, stream);
    if (seen.event === "sent" && type === "control.session.accept" && !this.#origins.has(stream))
      this.#origins.set(stream, seen.connection);
  }

  isNewest({ seen, stream }: WireFrame): boolean {
    const newest = this.#newest.get(`${seen.tenant}/${seen.instance}`);
    return newest === stream || newest === this.originOf(stream);
  }

  originOf(stream: string): string {
    return this.#origins.get(stream) ?? stream;
  }
}
