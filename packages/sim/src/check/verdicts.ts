// I19, the other way out: whoever asks to resume is told. A resume that reached a living scheduler is answered in time by an accept of that very
// session or by a reset; nothing else begins on that socket, and nothing is said in a session after its reset.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { WireFrame } from "./wire.ts";

interface Asked {
  readonly session: string;
  readonly worker: string;
  readonly scheduler: string;
  readonly at: TrueTime;
}

/** A verdict waits for one turn of the engine. */
const answerMs = 15_000;

export function verdicts({ fail, scene }: Bench): Checker {
  /** Resumes without an answer, by connection. */
  const waiting = new Map<string, Asked>();
  const asked = new Map<string, string>();
  /** Sessions that ended by a reset, and where. */
  const ended = new Map<string, string>();
  let saw = 0;

  const hearScheduler = ({ type, seen, stream, payload, seq }: WireFrame): void => {
    const about = [seen.worker, seen.connection];
    const where = `on ${seen.connection} ${seen.worker}`;
    if (type === "control.session.accept") {
      const session = String(payload["session_id"]);
      const wanted = asked.get(seen.connection);
      saw++;
      waiting.delete(seen.connection);
      if (ended.has(session)) return fail(`${where} was let into ${session}, which was reset on ${ended.get(session)}`, about);
      if (wanted !== undefined && (session !== wanted || payload["resumed"] !== true))
        return fail(`${where} asked to resume ${wanted} and was let into ${session} without a reset`, about);
      if (wanted === undefined && payload["resumed"] === true && !isKnown.has(session))
        return fail(`${where} was let into ${session} as resumed and had not asked`, about);
      isKnown.add(session);
    }
    if (type === "control.reset") {
      saw++;
      waiting.delete(seen.connection);
      asked.delete(seen.connection);
      // Refusing a resume ends no session that another socket may hold.
      if (isBound.get(seen.connection) === stream) ended.set(stream, seen.connection);
    }
    if (type === "control.session.accept") isBound.set(seen.connection, stream);
    if (seq !== null && ended.has(stream))
      fail(`${type} ${seq} was sent to ${seen.worker} in ${stream}, which was reset on ${ended.get(stream)}`, about);
  };
  const isKnown = new Set<string>();
  const isBound = new Map<string, string>();

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      const { seen, type, payload } = frame;
      if (seen.toward === "worker") {
        if (seen.event === "sent") hearScheduler(frame);
        return;
      }
      if (seen.event !== "delivered") return;
      // One that gives up waiting may begin anew on the same socket.
      if (type === "control.handshake") {
        asked.delete(seen.connection);
        waiting.delete(seen.connection);
      }
      if (type !== "control.resume") return;
      const session = String(payload["session_id"]);
      asked.set(seen.connection, session);
      waiting.set(seen.connection, { session, worker: seen.worker, scheduler: seen.scheduler, at: seen.at });
    },
    passes(at) {
      for (const [connection, { session, worker, scheduler, at: since }] of waiting) {
        if (scene.links.get(connection)?.isOpen !== true) waiting.delete(connection);
        else if (scene.isRunning(scheduler) && at > Math.max(since, scene.troubledAt) + answerMs)
          return fail(`${worker} asked on ${connection} to resume ${session} and was never answered`, [worker, connection]);
      }
    },
  };
}
