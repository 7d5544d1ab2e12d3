// What the fleet changes of a turn mean before they are applied: freed slots, waiting attempts, and workers that get no tasks until then.

import type { TaskId, WorkerId } from "../../storage/rows.ts";
import type { FleetChange } from "../fleet/fleet.ts";

export class SlotChanges {
  /** Slots freed (+) and used (-) in this turn, by worker. */
  readonly freedSlots = new Map<WorkerId, number>();
  /** Workers that this turn changes: the fleet does not show it yet, so they get no tasks before the next turn. */
  readonly changedWorkers = new Set<WorkerId>();
  /** Attempts that began to wait for their calls in this turn, or went on: the fleet does not show it yet. */
  readonly waitingAttempts = new Map<TaskId, boolean>();

  add(change: FleetChange): void {
    this.#countSlots(change, 1);
    this.#noteWait(change);
    if (change.type === "connect") this.changedWorkers.add(change.connected.worker);
    if (change.type === "disconnect" || change.type === "describe" || change.type === "drain")
      this.changedWorkers.add(change.worker);
    if (change.type === "heartbeat" && !change.healthy) this.changedWorkers.add(change.worker);
  }

  /** Reverts the changes from an index on. Changed workers stay excluded for this turn; that only delays them. */
  revertFrom(changes: readonly FleetChange[], from: number): void {
    let wasWaiting = false;
    for (let at = from; at < changes.length; at++) {
      const change = changes[at] as FleetChange;
      this.#countSlots(change, -1);
      if (change.type === "wait" || (change.type === "release" && change.wasWaiting === true)) wasWaiting = true;
    }
    if (!wasWaiting) return;
    this.waitingAttempts.clear();
    for (let at = 0; at < from; at++) this.#noteWait(changes[at] as FleetChange);
  }

  /** `times` is 1 for a change that is applied and -1 for one that is reverted. */
  #countSlots(change: FleetChange, times: 1 | -1): void {
    if (change.type === "grant") this.#addSlots(change.worker, -times);
    else if (change.type === "release" && change.wasWaiting !== true) this.#addSlots(change.worker, times);
    else if (change.type === "wait") this.#addSlots(change.worker, change.isWaiting ? times : -times);
  }

  #addSlots(worker: WorkerId, by: number): void {
    this.freedSlots.set(worker, (this.freedSlots.get(worker) ?? 0) + by);
  }

  #noteWait(change: FleetChange): void {
    if (change.type === "wait") this.waitingAttempts.set(change.task, change.isWaiting);
    else if (change.type === "release" && change.wasWaiting === true) this.waitingAttempts.delete(change.task);
  }
}
