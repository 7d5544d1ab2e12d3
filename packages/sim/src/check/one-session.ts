// I22: a worker has one live session. Each accept is of a later epoch; once a scheduler has let a socket in, it says nothing more on an older one
// but goodbye; and of two processes with one name the one that was replaced does not take the place back while the other lives.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { WireFrame } from "./wire.ts";

interface Seat {
  readonly connection: string;
  readonly scheduler: string;
  readonly boot: string;
  readonly worker: string;
  readonly at: TrueTime;
}

/** A session that was let in so shortly ago may not be known everywhere. */
const settleMs = 3_000;

export function oneSession({ fail, scene }: Bench): Checker {
  /** The newest accept of each worker, and the boots that were replaced by another. */
  const seats = new Map<string, Seat>();
  const replaced = new Map<string, Set<string>>();
  /** Sockets that a later one of the same scheduler has taken the place of. */
  const over = new Map<string, { readonly by: string; readonly at: TrueTime }>();
  const epochs = new Map<string, number>();
  let saw = 0;

  const hearAccept = ({ seen }: WireFrame): void => {
    const { connection, scheduler, boot, worker, at } = seen;
    const who = `${seen.tenant}/${seen.instance}`;
    const before = seats.get(who);
    saw++;
    // A renewed token comes as an accept on the socket that has the session.
    if (before?.connection === connection) return;
    if (before !== undefined && before.scheduler === scheduler) over.set(before.connection, { by: connection, at });
    if (before !== undefined && before.boot !== boot) {
      const old = replaced.get(who) ?? new Set<string>();
      if (old.has(boot) && isLiving(before))
        return fail(`${who} (boot ${boot}) came back on ${connection} and threw out ${before.boot}, which had taken its place`, [
          worker,
          before.worker,
        ]);
      replaced.set(who, old.add(before.boot));
    }
    seats.set(who, { connection, scheduler, boot, worker, at });
  };

  const isLiving = ({ connection, worker, scheduler, at }: Seat): boolean =>
    scene.links.get(connection)?.isOpen === true &&
    scene.isRunning(worker) &&
    scene.isRunning(scheduler) &&
    scene.now - Math.max(at, scene.troubledAt) > settleMs;

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      const { seen, type } = frame;
      if (seen.toward !== "worker" || seen.event !== "sent") return;
      if (type === "control.session.accept") hearAccept(frame);
      const taken = over.get(seen.connection);
      // Within one turn the order of what it says to two sockets is nobody's promise.
      if (taken !== undefined && seen.at > taken.at && type !== "control.reset")
        fail(`${type} was sent to ${seen.worker} on ${seen.connection}, whose place ${taken.by} had taken`, [seen.worker]);
    },
    fact({ type, worker, data, position }) {
      if (type !== "worker.joined" || worker === null) return;
      const epoch = Number(data["epoch"]);
      saw++;
      const before = epochs.get(worker) ?? 0;
      epochs.set(worker, epoch);
      if (epoch <= before) fail(`${worker} joined at position ${position} in epoch ${epoch}, after epoch ${before}`, [worker]);
    },
  };
}
