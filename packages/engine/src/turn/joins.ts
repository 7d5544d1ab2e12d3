// Joins that have been asked for and are not on disk yet, by session: one whose session ends meanwhile must not take the worker from
// where it is by then.

import type { Waiting } from "./inbox.ts";

export class Joins {
  readonly #bySession = new Map<string, Waiting>();

  /** A command has come in. A leave ends the join of its session that still waits. */
  came(item: Waiting): void {
    const { command } = item;
    if (command.type === "worker.join") this.#bySession.set(command.session, item);
    if (command.type !== "worker.leave") return;
    const join = this.#bySession.get(command.session);
    if (join !== undefined) join.isGone = true;
    this.#bySession.delete(command.session);
  }

  /** A turn with these commands is on disk. The same session may have been joined again since, on a newer socket: that one still waits. */
  landed(items: readonly Waiting[]): void {
    for (const item of items)
      if (item.command.type === "worker.join" && this.#bySession.get(item.command.session) === item)
        this.#bySession.delete(item.command.session);
  }
}
