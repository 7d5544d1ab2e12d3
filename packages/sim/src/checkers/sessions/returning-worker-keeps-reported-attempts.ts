// I23: a worker that comes back keeps exactly the attempts it reports: nothing is bound to it that its register did not list, and nothing that it
// listed under the current fence is taken away because it came back. A worker that resumes its session keeps everything sent to it there.

import { Checker } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { dispatchesIn, heldAttemptsIn, type ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** A register that was not answered by then has no effect any more. */
const answerMsMax = 60_000;

export class ReturningWorkerKeepsReportedAttempts extends Checker {
  /** What registers have named, by worker, boot and `<task>#<fence>`; only as long as every later register of that life names it too. */
  readonly #named = new Map<string, Map<string, { isStill: boolean }>>();
  /** The registers of a worker that reached a scheduler, by connection, and when they were answered; dispatches by `<task>#<fence>`. */
  readonly #registers = new Map<string, Map<string, { readonly at: TrueTime; answered: number }>>();
  readonly #sent = new Map<string, { readonly n: number; readonly at: TrueTime; readonly stream: string }>();
  readonly #resumed = new Set<string>();

  override onFrame(frame: ObservedFrame): void {
    const { observation } = frame;
    this.#observeFrame(frame);
    const held = frame.type === "control.register" && observation.event === "delivered" ? heldAttemptsIn(frame) : null;
    if (held === null) return;
    const life = `${frame.workerKey} ${observation.boot}`;
    const known = getOrCreate(this.#named, life, () => new Map<string, { isStill: boolean }>());
    const now = new Set(held.map(({ task, fence }) => `${task}#${fence}`));
    for (const [attempt, one] of known) if (!now.has(attempt)) one.isStill = false;
    for (const attempt of now) if (!known.has(attempt)) known.set(attempt, { isStill: true });
  }

  override onFact(fact: ObservedFact): void {
    if (fact.type === "task.rebound") this.#checkRebound(fact);
  }

  override onTurn(_tenant: string, facts: readonly ObservedFact[]): void {
    this.#checkReturningWorker(facts);
  }

  /** Listed by a register of any process, or sent in a session that was resumed. */
  #isReported(worker: string, attempt: string): boolean {
    return (
      this.#resumed.has(this.#sent.get(attempt)?.stream ?? "") ||
      [...this.#named].some(([life, attempts]) => life.startsWith(`${worker} `) && attempts.has(attempt))
    );
  }

  /** Since it was sent, only a resumed session can have come back: every register was answered before, or never will be. */
  #isResumed(worker: string, attempt: string): boolean {
    const left = this.#sent.get(attempt);
    const ownEntries = [...(this.#registers.get(worker)?.values() ?? [])];
    if (left === undefined || ownEntries.length === 0) return false;
    return ownEntries.every(
      ({ at, answered }) => answered < left.n || (answered === Number.POSITIVE_INFINITY && at + answerMsMax < left.at),
    );
  }

  #observeFrame(frame: ObservedFrame): void {
    const { type, observation, workerKey: worker } = frame;
    const ownEntries = this.#registers.get(worker) ?? new Map<string, { readonly at: TrueTime; answered: number }>();
    this.#registers.set(worker, ownEntries);
    if (type === "control.register" && observation.event === "delivered")
      ownEntries.set(observation.connection, { at: observation.at, answered: Number.POSITIVE_INFINITY });
    if (type === "control.resume" && observation.event === "delivered") this.#resumed.add(frame.sessionKey);
    if (observation.toward !== "worker" || observation.event !== "sent") return;
    const register = ownEntries.get(observation.connection);
    if (type === "control.session.accept" && register !== undefined)
      register.answered = Math.min(register.answered, observation.n);
    for (const { task, fence } of dispatchesIn(frame))
      if (!this.#sent.has(`${task}#${fence}`))
        this.#sent.set(`${task}#${fence}`, { n: observation.n, at: observation.at, stream: frame.sessionKey });
  }

  #checkRebound({ data, position, tenant }: ObservedFact): void {
    const id = String(data["task"]);
    const worker = String(data["worker"]);
    this.checkedCount++;
    // Tasks of an ending run stay with their worker until they are cancelled.
    if (
      this.world.isLegacyWorker(worker) ||
      this.#isReported(worker, `${id}#${Number(data["fence"])}`) ||
      this.projection.task(id)?.run.isEndingEarly === true
    )
      return;
    this.reportViolation(`${id} was rebound to ${worker} at position ${position} of ${tenant}, which never reported it`, [
      id,
      worker,
    ]);
  }

  #checkReturningWorker(facts: readonly ObservedFact[]): void {
    const joined = new Map(
      facts.flatMap(({ type, worker, data }) =>
        type === "worker.joined" && worker !== null ? [[worker, String(data["boot"])] as const] : [],
      ),
    );
    for (const { type, data, position, tenant } of facts) {
      const from = String(data["from"]);
      if (type !== "task.requeued" || data["code"] !== "E.WORKER.LOST" || !joined.has(from)) continue;
      const id = String(data["task"]);
      this.checkedCount++;
      if (this.world.isLegacyWorker(from)) continue;
      const grant = this.projection.lastGrantFenceBelow(id, Number(data["fence"]));
      if (grant !== null && this.#isResumed(from, `${id}#${grant}`))
        return this.reportViolation(
          `${id} was requeued from ${from} at position ${position} of ${tenant} as it resumed its session`,
          [id, from],
        );
      if (grant !== null && this.#named.get(`${from} ${joined.get(from)}`)?.get(`${id}#${grant}`)?.isStill === true)
        return this.reportViolation(
          `${id} was requeued from ${from} at position ${position} of ${tenant} as it came back, although it reported it`,
          [id, from],
        );
    }
  }
}
