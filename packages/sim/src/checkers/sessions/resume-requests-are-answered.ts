// I19, resuming: a resume request that reached a running scheduler is answered in time, by an accept of that session or by a reset. No other session
// begins on that socket, and nothing is sent in a session after its reset.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

interface ResumeRequest {
  readonly session: string;
  readonly worker: string;
  readonly scheduler: string;
  readonly at: TrueTime;
}

/** The answer waits for one turn of the engine. */
const resumeAnswerMs = 15_000;

export class ResumeRequestsAreAnswered extends Checker {
  /** Resumes without an answer, by connection. */
  readonly #waiting = new Map<string, ResumeRequest>();
  readonly #asked = new Map<string, string>();
  /** Sessions that ended by a reset, and where. */
  readonly #ended = new Map<string, string>();
  readonly #isKnown = new Set<string>();
  readonly #isBound = new Map<string, string>();

  override onFrame(frame: ObservedFrame): void {
    const { observation, type, payload } = frame;
    if (observation.toward === "worker") {
      if (observation.event === "sent") this.#handleSchedulerFrame(frame);
      return;
    }
    if (observation.event !== "delivered") return;
    // One that gives up waiting may begin anew on the same socket.
    if (type === "control.handshake") {
      this.#asked.delete(observation.connection);
      this.#waiting.delete(observation.connection);
    }
    if (type !== "control.resume") return;
    const session = String(payload["session_id"]);
    this.#asked.set(observation.connection, session);
    this.#waiting.set(observation.connection, {
      session,
      worker: observation.worker,
      scheduler: observation.scheduler,
      at: observation.at,
    });
  }

  override onTimePassed(at: TrueTime): void {
    for (const [connection, { session, worker, scheduler, at: since }] of this.#waiting) {
      if (this.world.connections.get(connection)?.isOpen !== true) this.#waiting.delete(connection);
      else if (this.world.isRunning(scheduler) && at > Math.max(since, this.world.disturbedAt) + resumeAnswerMs)
        return this.reportViolation(`${worker} asked on ${connection} to resume ${session} and was never answered`, [
          worker,
          connection,
        ]);
    }
  }

  #handleSchedulerFrame({ type, observation, sessionKey, payload, seq }: ObservedFrame): void {
    const about = [observation.worker, observation.connection];
    const where = `on ${observation.connection} ${observation.worker}`;
    if (type === "control.session.accept") {
      const session = String(payload["session_id"]);
      const wanted = this.#asked.get(observation.connection);
      this.checkedCount++;
      this.#waiting.delete(observation.connection);
      if (this.#ended.has(session))
        return this.reportViolation(`${where} was let into ${session}, which was reset on ${this.#ended.get(session)}`, about);
      if (wanted !== undefined && (session !== wanted || payload["resumed"] !== true))
        return this.reportViolation(`${where} asked to resume ${wanted} and was let into ${session} without a reset`, about);
      if (wanted === undefined && payload["resumed"] === true && !this.#isKnown.has(session))
        return this.reportViolation(`${where} was let into ${session} as resumed and had not asked`, about);
      this.#isKnown.add(session);
    }
    if (type === "control.reset") {
      this.checkedCount++;
      this.#waiting.delete(observation.connection);
      this.#asked.delete(observation.connection);
      // Refusing a resume ends no session that another socket may hold.
      if (this.#isBound.get(observation.connection) === sessionKey) this.#ended.set(sessionKey, observation.connection);
    }
    if (type === "control.session.accept") this.#isBound.set(observation.connection, sessionKey);
    if (seq !== null && this.#ended.has(sessionKey))
      this.reportViolation(
        `${type} ${seq} was sent to ${observation.worker} in ${sessionKey}, which was reset on ${this.#ended.get(sessionKey)}`,
        about,
      );
  }
}
