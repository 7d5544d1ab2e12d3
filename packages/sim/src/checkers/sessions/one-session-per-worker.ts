// I22: a worker has one live session. Each accept has a later epoch; once a scheduler has accepted a socket, it sends nothing but a reset on an older
// one; and of two processes with the same instance id the replaced one does not take over again while the other is alive.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

interface AcceptedSession {
  readonly connection: string;
  readonly scheduler: string;
  readonly boot: string;
  readonly worker: string;
  readonly at: TrueTime;
}

/** A session that was just accepted may not be known to all schedulers yet. */
const acceptSettleMs = 3_000;

export class OneSessionPerWorker extends Checker {
  /** The newest accept of each worker, and the boots that were replaced by another. */
  readonly #acceptedSessions = new Map<string, AcceptedSession>();
  readonly #replaced = new Map<string, Set<string>>();
  /** Sockets that a later one of the same scheduler has replaced. */
  readonly #over = new Map<string, { readonly by: string; readonly at: TrueTime }>();
  readonly #epochs = new Map<string, number>();

  override onFrame(frame: ObservedFrame): void {
    const { observation, type } = frame;
    if (observation.toward !== "worker" || observation.event !== "sent") return;
    if (type === "control.session.accept") this.#handleAccept(frame);
    const taken = this.#over.get(observation.connection);
    // The order of frames to two sockets within one turn is not guaranteed.
    if (taken !== undefined && observation.at > taken.at && type !== "control.reset")
      this.reportViolation(
        `${type} was sent to ${observation.worker} on ${observation.connection}, which ${taken.by} had replaced`,
        [observation.worker],
      );
  }

  override onFact({ type, worker, data, position }: ObservedFact): void {
    if (type !== "worker.joined" || worker === null) return;
    const epoch = Number(data["epoch"]);
    this.checkedCount++;
    const before = this.#epochs.get(worker) ?? 0;
    this.#epochs.set(worker, epoch);
    if (epoch <= before)
      this.reportViolation(`${worker} joined at position ${position} in epoch ${epoch}, after epoch ${before}`, [worker]);
  }

  #handleAccept({ observation, workerKey }: ObservedFrame): void {
    const { connection, scheduler, boot, worker, at } = observation;
    const before = this.#acceptedSessions.get(workerKey);
    this.checkedCount++;
    // A renewed token comes as an accept on the socket that has the session.
    if (before?.connection === connection) return;
    if (before !== undefined && before.scheduler === scheduler) this.#over.set(before.connection, { by: connection, at });
    if (before !== undefined && before.boot !== boot) {
      const old = this.#replaced.get(workerKey) ?? new Set<string>();
      if (old.has(boot) && this.#isAlive(before))
        return this.reportViolation(
          `${workerKey} (boot ${boot}) came back on ${connection} and replaced ${before.boot}, which had replaced it`,
          [worker, before.worker],
        );
      this.#replaced.set(workerKey, old.add(before.boot));
    }
    this.#acceptedSessions.set(workerKey, { connection, scheduler, boot, worker, at });
  }

  #isAlive({ connection, worker, scheduler, at }: AcceptedSession): boolean {
    return (
      this.world.connections.get(connection)?.isOpen === true &&
      this.world.isRunning(worker) &&
      this.world.isRunning(scheduler) &&
      this.world.now - Math.max(at, this.world.disturbedAt) > acceptSettleMs
    );
  }
}
