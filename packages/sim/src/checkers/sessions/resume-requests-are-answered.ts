// I19, resuming: a resume request that reached a running scheduler is answered in time, by an accept of that session or by a reset. No other session
// begins on that socket, and nothing is sent in a session after its reset.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** The answer waits for one turn of the engine. */
const resumeAnswerMs = 15_000;

export class ResumeRequestsAreAnswered extends Checker {
  /** By connection: resume requests without an answer, and the session that was asked for last. */
  readonly #waiting = new Map<string, ObservedFrame>();
  readonly #asked = new Map<string, string>();
  /** Sessions that ended by a reset, and where. */
  readonly #ended = new Map<string, string>();
  readonly #isKnown = new Set<string>();
  readonly #isBound = new Map<string, string>();

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    const { type, connection, payload } = frame;
    // One that gives up waiting may begin anew on the same socket.
    if (type === "control.handshake") {
      this.#asked.delete(connection);
      this.#waiting.delete(connection);
    }
    if (type !== "control.resume") return;
    this.#asked.set(connection, String(payload["session_id"]));
    this.#waiting.set(connection, frame);
  }

  override onTimePassed(at: TrueTime): void {
    for (const [connection, { payload, worker, scheduler, at: since }] of this.#waiting) {
      if (!this.world.isOpen(connection)) this.#waiting.delete(connection);
      else if (this.world.isRunning(scheduler) && at > Math.max(since, this.world.disturbedAt) + resumeAnswerMs)
        return this.fail(
          `${worker} asked on ${connection} to resume ${String(payload["session_id"])} and was never answered`,
          worker,
          connection,
        );
    }
  }

  override onSentToWorker(frame: ObservedFrame): void {
    const { type, worker, connection, sessionKey, seq } = frame;
    if (type === "control.session.accept") this.#checkAccept(frame);
    if (type === "control.reset") {
      this.checkedCount++;
      this.#waiting.delete(connection);
      this.#asked.delete(connection);
      // Neither a refused resume nor the word to a socket whose session another one has resumed ends the session.
      if (this.#isBound.get(connection) === sessionKey && !this.#isTakenOver(frame)) this.#ended.set(sessionKey, connection);
    }
    const reset = this.#ended.get(sessionKey);
    if (seq !== null && reset !== undefined)
      this.fail(`${type} ${seq} was sent to ${worker} in ${sessionKey}, which was reset on ${reset}`, worker, connection);
  }

  #isTakenOver({ payload, sessionKey }: ObservedFrame): boolean {
    return payload["code"] === "E.SESSION.SUPERSEDED" && [...this.#asked.values()].includes(sessionKey);
  }

  #checkAccept({ worker, connection, payload, sessionKey }: ObservedFrame): void {
    const where = `on ${connection} ${worker}`;
    const session = String(payload["session_id"]);
    const wanted = this.#asked.get(connection);
    this.checkedCount++;
    this.#waiting.delete(connection);
    this.#isBound.set(connection, sessionKey);
    const reset = this.#ended.get(session);
    if (reset !== undefined)
      return this.fail(`${where} was let into ${session}, which was reset on ${reset}`, worker, connection);
    if (wanted !== undefined && (session !== wanted || payload["resumed"] !== true))
      return this.fail(`${where} asked to resume ${wanted} and was let into ${session} without a reset`, worker, connection);
    if (wanted === undefined && payload["resumed"] === true && !this.#isKnown.has(session))
      return this.fail(`${where} was let into ${session} as resumed and had not asked`, worker, connection);
    this.#isKnown.add(session);
  }
}
