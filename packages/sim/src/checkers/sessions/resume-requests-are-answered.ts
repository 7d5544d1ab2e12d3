// I19, the other way out: whoever asks to resume is told. A resume that reached a living scheduler is answered in time by an accept of that very
// session or by a reset; nothing else begins on that socket, and nothing is said in a session after its reset.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

interface ResumeRequest {
  readonly session: string;
  readonly worker: string;
  readonly scheduler: string;
  readonly at: TrueTime;
}

/** A verdict waits for one turn of the engine. */
const resumeAnswerMs = 15_000;

export function checkResumeRequestsAreAnswered({ reportViolation, world }: CheckerContext): Checker {
  /** Resumes without an answer, by connection. */
  const waiting = new Map<string, ResumeRequest>();
  const asked = new Map<string, string>();
  /** Sessions that ended by a reset, and where. */
  const ended = new Map<string, string>();
  let checkedCount = 0;

  const handleSchedulerFrame = ({ type, seen: observation, sessionKey, payload, seq }: ObservedFrame): void => {
    const about = [observation.worker, observation.connection];
    const where = `on ${observation.connection} ${observation.worker}`;
    if (type === "control.session.accept") {
      const session = String(payload["session_id"]);
      const wanted = asked.get(observation.connection);
      checkedCount++;
      waiting.delete(observation.connection);
      if (ended.has(session))
        return reportViolation(`${where} was let into ${session}, which was reset on ${ended.get(session)}`, about);
      if (wanted !== undefined && (session !== wanted || payload["resumed"] !== true))
        return reportViolation(`${where} asked to resume ${wanted} and was let into ${session} without a reset`, about);
      if (wanted === undefined && payload["resumed"] === true && !isKnown.has(session))
        return reportViolation(`${where} was let into ${session} as resumed and had not asked`, about);
      isKnown.add(session);
    }
    if (type === "control.reset") {
      checkedCount++;
      waiting.delete(observation.connection);
      asked.delete(observation.connection);
      // Refusing a resume ends no session that another socket may hold.
      if (isBound.get(observation.connection) === sessionKey) ended.set(sessionKey, observation.connection);
    }
    if (type === "control.session.accept") isBound.set(observation.connection, sessionKey);
    if (seq !== null && ended.has(sessionKey))
      reportViolation(
        `${type} ${seq} was sent to ${observation.worker} in ${sessionKey}, which was reset on ${ended.get(sessionKey)}`,
        about,
      );
  };
  const isKnown = new Set<string>();
  const isBound = new Map<string, string>();

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame(frame) {
      const { seen: observation, type, payload } = frame;
      if (observation.toward === "worker") {
        if (observation.event === "sent") handleSchedulerFrame(frame);
        return;
      }
      if (observation.event !== "delivered") return;
      // One that gives up waiting may begin anew on the same socket.
      if (type === "control.handshake") {
        asked.delete(observation.connection);
        waiting.delete(observation.connection);
      }
      if (type !== "control.resume") return;
      const session = String(payload["session_id"]);
      asked.set(observation.connection, session);
      waiting.set(observation.connection, {
        session,
        worker: observation.worker,
        scheduler: observation.scheduler,
        at: observation.at,
      });
    },
    onTimePassed(at) {
      for (const [connection, { session, worker, scheduler, at: since }] of waiting) {
        if (world.connections.get(connection)?.isOpen !== true) waiting.delete(connection);
        else if (world.isRunning(scheduler) && at > Math.max(since, world.disturbedAt) + resumeAnswerMs)
          return reportViolation(`${worker} asked on ${connection} to resume ${session} and was never answered`, [
            worker,
            connection,
          ]);
      }
    },
  };
}
