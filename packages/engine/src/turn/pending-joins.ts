// Joins that were requested and are not stored yet, by session: one whose session ends meanwhile must not take the worker from
// where it is by then.

import type { WaitingCommand } from "./inbox.ts";

export class PendingJoins {
  readonly #bySession = new Map<string, WaitingCommand>();

  /** A command has arrived. A leave cancels the join of its session that still waits. */
  commandArrived(item: WaitingCommand): void {
    const { command } = item;
    if (command.type === "worker.join") this.#bySession.set(command.session, item);
    if (command.type !== "worker.leave") return;
    const join = this.#bySession.get(command.session);
    if (join !== undefined) join.isSessionGone = true;
    this.#bySession.delete(command.session);
  }

  /** A turn with these commands is on disk. The same session may have been joined again since, on a newer socket: that one still waits. */
  turnCommitted(items: readonly WaitingCommand[]): void {
    for (const item of items)
      if (item.command.type === "worker.join" && this.#bySession.get(item.command.session) === item)
        this.#bySession.delete(item.command.session);
  }
}
