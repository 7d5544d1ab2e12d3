// I22: a worker has one live session. Each accept has a later epoch; once a scheduler has accepted a socket, it sends nothing but a reset on an older
// one; and of two processes with the same instance id the replaced one does not take over again while the other is alive.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** A session that was just accepted may not be known to all schedulers yet. */
const acceptSettleMs = 3_000;

export class OneSessionPerWorker extends Checker {
  /** By worker: the boots that were replaced by another. */
  readonly #replaced = new Map<string, Set<string>>();
  /** Sockets that a later one of the same scheduler has replaced. */
  readonly #over = new Map<string, { readonly by: string; readonly at: TrueTime }>();
  readonly #epochs = new Map<string, number>();
  /** Sockets whose session was reset; they stay open until the worker has read that. */
  readonly #reset = new Set<string>();

  override onSentToWorker(frame: ObservedFrame): void {
    const { type, worker, connection } = frame;
    if (type === "control.session.accept") this.#handleAccept(frame);
    if (type === "control.reset") this.#reset.add(connection);
    const taken = this.#over.get(connection);
    // The order of frames to two sockets within one turn is not guaranteed.
    if (taken !== undefined && frame.at > taken.at && type !== "control.reset")
      this.fail(`${type} was sent to ${worker} on ${connection}, which ${taken.by} had replaced`, worker);
  }

  override onFact({ type, worker, data, position }: ObservedFact): void {
    if (type !== "worker.joined" || worker === null) return;
    const epoch = Number(data["epoch"]);
    this.checkedCount++;
    const before = this.#epochs.get(worker) ?? 0;
    this.#epochs.set(worker, epoch);
    if (epoch <= before) this.fail(`${worker} joined at position ${position} in epoch ${epoch}, after epoch ${before}`, worker);
  }

  #handleAccept({ connection, scheduler, boot, worker, workerKey, at }: ObservedFrame): void {
    const before = this.sessions.lastAccepts.get(workerKey);
    this.checkedCount++;
    // A renewed token comes as an accept on the socket that has the session.
    if (before === undefined || before.connection === connection) return;
    if (before.scheduler === scheduler) this.#over.set(before.connection, { by: connection, at });
    if (before.boot === boot) return;
    const replaced = getOrCreate(this.#replaced, workerKey, () => new Set<string>());
    if (replaced.has(boot) && this.#isAlive(before))
      return this.fail(
        `${workerKey} (boot ${boot}) came back on ${connection} and replaced ${before.boot}, which had replaced it`,
        worker,
        before.worker,
      );
    replaced.add(before.boot);
  }

  #isAlive({ connection, worker, scheduler, at }: ObservedFrame): boolean {
    return (
      this.world.isOpen(connection) &&
      !this.#reset.has(connection) &&
      this.world.isRunning(worker) &&
      this.world.isRunning(scheduler) &&
      this.world.now - Math.max(at, this.world.disturbedAt) > acceptSettleMs
    );
  }
}
