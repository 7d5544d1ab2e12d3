// I23: a worker that comes back keeps exactly what it reports: nothing is bound again that its register did not name, and nothing that it named
// under the current fence is taken from it by its coming back. One that resumes its session keeps all that was sent to it there.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { dispatchesIn, heldAttemptsIn, type ObservedFrame } from "../../checking/observed-frame.ts";
import type { TrueTime } from "../../observation/observation.ts";

/** A register that was not answered by then leads to nothing any more. */
const answerMsMax = 60_000;

export function checkReturningWorkerKeepsReportedAttempts({ reportViolation, projection, world }: CheckerContext): Checker {
  /** What registers have named, by worker, boot and `<task>#<fence>`; only as long as every later register of that life names it too. */
  const named = new Map<string, Map<string, { isStill: boolean }>>();
  /** The registers of a worker that reached a scheduler, by connection, and when they were answered; dispatches by `<task>#<fence>`. */
  const registers = new Map<string, Map<string, { readonly at: TrueTime; answered: number }>>();
  const sent = new Map<string, { readonly n: number; readonly at: TrueTime; readonly stream: string }>();
  const resumed = new Set<string>();
  let checkedCount = 0;

  /** Named by a register of any life, or sent in a session that was resumed. */
  const isReported = (worker: string, attempt: string): boolean =>
    resumed.has(sent.get(attempt)?.stream ?? "") ||
    [...named].some(([life, attempts]) => life.startsWith(`${worker} `) && attempts.has(attempt));

  /** Since it left, nobody but a resumed session can have come back: every register was answered before, or will never be. */
  const isResumed = (worker: string, attempt: string): boolean => {
    const left = sent.get(attempt);
    const ownEntries = [...(registers.get(worker)?.values() ?? [])];
    if (left === undefined || ownEntries.length === 0) return false;
    return ownEntries.every(
      ({ at, answered }) => answered < left.n || (answered === Number.POSITIVE_INFINITY && at + answerMsMax < left.at),
    );
  };

  const observeFrame = ({ type, seen: observation, ...frame }: ObservedFrame): void => {
    const worker = `${observation.tenant}/${observation.instance}`;
    const ownEntries = registers.get(worker) ?? new Map<string, { readonly at: TrueTime; answered: number }>();
    registers.set(worker, ownEntries);
    if (type === "control.register" && observation.event === "delivered")
      ownEntries.set(observation.connection, { at: observation.at, answered: Number.POSITIVE_INFINITY });
    if (type === "control.resume" && observation.event === "delivered") resumed.add(frame.sessionKey);
    if (observation.toward !== "worker" || observation.event !== "sent") return;
    const register = ownEntries.get(observation.connection);
    if (type === "control.session.accept" && register !== undefined)
      register.answered = Math.min(register.answered, observation.n);
    for (const { task, fence } of dispatchesIn({ type, seen: observation, ...frame }))
      if (!sent.has(`${task}#${fence}`))
        sent.set(`${task}#${fence}`, { n: observation.n, at: observation.at, stream: frame.sessionKey });
  };

  const checkRebound = ({ data, position, tenant }: ObservedFact): void => {
    const id = String(data["task"]);
    const worker = String(data["worker"]);
    checkedCount++;
    // What is about to be swept stays where it is until the sweep.
    if (
      world.isLegacyWorker(worker) ||
      isReported(worker, `${id}#${Number(data["fence"])}`) ||
      projection.task(id)?.run.isEndingEarly === true
    )
      return;
    reportViolation(`${id} was bound again to ${worker} at position ${position} of ${tenant}, which never reported it`, [
      id,
      worker,
    ]);
  };

  const checkReturningWorker = (facts: readonly ObservedFact[]): void => {
    const joined = new Map(
      facts.flatMap(({ type, worker, data }) =>
        type === "worker.joined" && worker !== null ? [[worker, String(data["boot"])] as const] : [],
      ),
    );
    for (const { type, data, position, tenant } of facts) {
      const from = String(data["from"]);
      if (type !== "task.requeued" || data["code"] !== "E.WORKER.LOST" || !joined.has(from)) continue;
      const id = String(data["task"]);
      checkedCount++;
      if (world.isLegacyWorker(from)) continue;
      const grant = projection.lastGrantFenceBelow(id, Number(data["fence"]));
      if (grant !== null && isResumed(from, `${id}#${grant}`))
        return reportViolation(`${id} was taken from ${from} at position ${position} of ${tenant} as it resumed its session`, [
          id,
          from,
        ]);
      if (grant !== null && named.get(`${from} ${joined.get(from)}`)?.get(`${id}#${grant}`)?.isStill === true)
        return reportViolation(
          `${id} was taken from ${from} at position ${position} of ${tenant} as it came back, although it reported it`,
          [id, from],
        );
    }
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame(frame) {
      const { seen: observation } = frame;
      observeFrame(frame);
      const held = frame.type === "control.register" && observation.event === "delivered" ? heldAttemptsIn(frame) : null;
      if (held === null) return;
      const life = `${observation.tenant}/${observation.instance} ${observation.boot}`;
      const known = named.get(life) ?? new Map<string, { isStill: boolean }>();
      named.set(life, known);
      const now = new Set(held.map(({ task, fence }) => `${task}#${fence}`));
      for (const [attempt, one] of known) if (!now.has(attempt)) one.isStill = false;
      for (const attempt of now) if (!known.has(attempt)) known.set(attempt, { isStill: true });
    },
    onFact(fact) {
      if (fact.type === "task.rebound") checkRebound(fact);
    },
    onTurn(_tenant, facts) {
      checkReturningWorker(facts);
    },
  };
}
