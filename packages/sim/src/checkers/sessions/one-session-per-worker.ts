// I22: a worker has one live session. Each accept is of a later epoch; once a scheduler has let a socket in, it says nothing more on an older one
// but goodbye; and of two processes with one name the one that was replaced does not take the place back while the other lives.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

interface AcceptedSession {
  readonly connection: string;
  readonly scheduler: string;
  readonly boot: string;
  readonly worker: string;
  readonly at: TrueTime;
}

/** A session that was let in so shortly ago may not be known everywhere. */
const acceptSettleMs = 3_000;

export function checkOneSessionPerWorker({ reportViolation, world }: CheckerContext): Checker {
  /** The newest accept of each worker, and the boots that were replaced by another. */
  const acceptedSessions = new Map<string, AcceptedSession>();
  const replaced = new Map<string, Set<string>>();
  /** Sockets that a later one of the same scheduler has taken the place of. */
  const over = new Map<string, { readonly by: string; readonly at: TrueTime }>();
  const epochs = new Map<string, number>();
  let checkedCount = 0;

  const handleAccept = ({ seen: observation }: ObservedFrame): void => {
    const { connection, scheduler, boot, worker, at } = observation;
    const workerKey = `${observation.tenant}/${observation.instance}`;
    const before = acceptedSessions.get(workerKey);
    checkedCount++;
    // A renewed token comes as an accept on the socket that has the session.
    if (before?.connection === connection) return;
    if (before !== undefined && before.scheduler === scheduler) over.set(before.connection, { by: connection, at });
    if (before !== undefined && before.boot !== boot) {
      const old = replaced.get(workerKey) ?? new Set<string>();
      if (old.has(boot) && isAlive(before))
        return reportViolation(
          `${workerKey} (boot ${boot}) came back on ${connection} and threw out ${before.boot}, which had taken its place`,
          [worker, before.worker],
        );
      replaced.set(workerKey, old.add(before.boot));
    }
    acceptedSessions.set(workerKey, { connection, scheduler, boot, worker, at });
  };

  const isAlive = ({ connection, worker, scheduler, at }: AcceptedSession): boolean =>
    world.connections.get(connection)?.isOpen === true &&
    world.isRunning(worker) &&
    world.isRunning(scheduler) &&
    world.now - Math.max(at, world.disturbedAt) > acceptSettleMs;

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame(frame) {
      const { seen: observation, type } = frame;
      if (observation.toward !== "worker" || observation.event !== "sent") return;
      if (type === "control.session.accept") handleAccept(frame);
      const taken = over.get(observation.connection);
      // Within one turn the order of what it says to two sockets is nobody's promise.
      if (taken !== undefined && observation.at > taken.at && type !== "control.reset")
        reportViolation(
          `${type} was sent to ${observation.worker} on ${observation.connection}, whose place ${taken.by} had taken`,
          [observation.worker],
        );
    },
    onFact({ type, worker, data, position }) {
      if (type !== "worker.joined" || worker === null) return;
      const epoch = Number(data["epoch"]);
      checkedCount++;
      const before = epochs.get(worker) ?? 0;
      epochs.set(worker, epoch);
      if (epoch <= before)
        reportViolation(`${worker} joined at position ${position} in epoch ${epoch}, after epoch ${before}`, [worker]);
    },
  };
}
