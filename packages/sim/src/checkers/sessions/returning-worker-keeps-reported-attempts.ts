// I23: a worker that comes back keeps exactly the attempts it reports: nothing is bound to it that its register did not list, and nothing that it
// listed under the current fence is taken away because it came back. A worker that resumes its session keeps everything sent to it there.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** A register that was not answered by then has no effect any more. */
const answerMsMax = 60_000;

interface Register {
  readonly at: TrueTime;
  /** The observation of its answer. */
  answered: number;
}

export class ReturningWorkerKeepsReportedAttempts extends Checker {
  /** What registers have named, by worker and boot, then by attempt; only as long as every later register of that boot names it too. */
  readonly #named = new Map<string, Map<string, { isStill: boolean }>>();
  /** The registers of a worker that reached a scheduler, by connection. */
  readonly #registers = new Map<string, Map<string, Register>>();
  /** The first dispatch of each attempt. */
  readonly #sent = new Map<string, ObservedFrame>();
  readonly #resumed = new Set<string>();

  override onDeliveredToScheduler({ type, workerKey, boot, connection, sessionKey, at, heldAttempts }: ObservedFrame): void {
    if (type === "control.resume") this.#resumed.add(sessionKey);
    if (type !== "control.register") return;
    const registers = getOrCreate(this.#registers, workerKey, () => new Map<string, Register>());
    registers.set(connection, { at, answered: Number.POSITIVE_INFINITY });
    if (heldAttempts === null) return;
    const known = getOrCreate(this.#named, `${workerKey} ${boot}`, () => new Map<string, { isStill: boolean }>());
    const listed = new Set(heldAttempts.map(({ attempt }) => attempt));
    for (const [attempt, one] of known) if (!listed.has(attempt)) one.isStill = false;
    for (const attempt of listed) if (!known.has(attempt)) known.set(attempt, { isStill: true });
  }

  override onSentToWorker(frame: ObservedFrame): void {
    const register = this.#registers.get(frame.workerKey)?.get(frame.connection);
    if (frame.type === "control.session.accept" && register !== undefined)
      register.answered = Math.min(register.answered, frame.n);
    for (const { attempt } of frame.dispatches) getOrCreate(this.#sent, attempt, () => frame);
  }

  override onFact({ type, data, position, tenant, task: id, attempt }: ObservedFact): void {
    if (type !== "task.rebound") return;
    const worker = String(data["worker"]);
    this.checkedCount++;
    // Tasks of an ending run stay with their worker until they are cancelled.
    if (
      this.world.isLegacyWorker(worker) ||
      this.#isReported(worker, attempt) ||
      this.projection.task(id)?.run.isEndingEarly === true
    )
      return;
    this.fail(`${id} was rebound to ${worker} at position ${position} of ${tenant}, which never reported it`, id, worker);
  }

  /** Listed by a register of any process, or sent in a session that was resumed. */
  #isReported(worker: string, attempt: string): boolean {
    return (
      this.#resumed.has(this.#sent.get(attempt)?.sessionKey ?? "") ||
      [...this.#named].some(([boot, attempts]) => boot.startsWith(`${worker} `) && attempts.has(attempt))
    );
  }

  override onTurn(_tenant: string, facts: readonly ObservedFact[]): void {
    const joins = facts.filter(({ type }) => type === "worker.joined");
    const bootByWorker = new Map(joins.map(({ worker, data }) => [worker, String(data["boot"])]));
    for (const { type, data, position, tenant, task: id, fence } of facts) {
      const from = String(data["from"]);
      const boot = bootByWorker.get(from);
      if (type !== "task.requeued" || data["code"] !== "E.WORKER.LOST" || boot === undefined) continue;
      this.checkedCount++;
      const grant = this.projection.lastGrantFenceBelow(id, fence);
      if (grant === null || this.world.isLegacyWorker(from)) continue;
      const attempt = `${id}#${grant}`;
      const where = `${id} was requeued from ${from} at position ${position} of ${tenant}`;
      if (this.#isResumed(from, attempt)) return this.fail(`${where} as it resumed its session`, id, from);
      if (this.#named.get(`${from} ${boot}`)?.get(attempt)?.isStill === true)
        return this.fail(`${where} as it came back, although it reported it`, id, from);
    }
  }

  /** Since it was sent, only a resumed session can have come back: every register was answered before, or never will be. */
  #isResumed(worker: string, attempt: string): boolean {
    const sent = this.#sent.get(attempt);
    const registers = [...(this.#registers.get(worker)?.values() ?? [])];
    if (sent === undefined || registers.length === 0) return false;
    return registers.every(
      ({ at, answered }) => answered < sent.n || (answered === Number.POSITIVE_INFINITY && at + answerMsMax < sent.at),
    );
  }
}
