// I23: a worker that comes back keeps exactly what it reports: nothing is bound again that its register did not name, and nothing that it named
// under the current fence is taken from it by its coming back. One that resumes its session keeps all that was sent to it there.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { Fact } from "./log-book.ts";
import { dispatchesIn, heldIn, type WireFrame } from "./wire.ts";

/** A register that was not answered by then leads to nothing any more. */
const answerMsMax = 60_000;

export function binding({ fail, lives, scene }: Bench): Checker {
  /** What registers have named, by worker, boot and `<task>#<fence>`; only as long as every later register of that life names it too. */
  const named = new Map<string, Map<string, { isStill: boolean }>>();
  /** The registers of a worker that reached a scheduler, by connection, and when they were answered; dispatches by `<task>#<fence>`. */
  const registers = new Map<string, Map<string, { readonly at: TrueTime; answered: number }>>();
  const sent = new Map<string, { readonly n: number; readonly at: TrueTime; readonly stream: string }>();
  const resumed = new Set<string>();
  let saw = 0;

  /** Named by a register of any life, or sent in a session that was resumed. */
  const isReported = (worker: string, attempt: string): boolean =>
    resumed.has(sent.get(attempt)?.stream ?? "") ||
    [...named].some(([life, attempts]) => life.startsWith(`${worker} `) && attempts.has(attempt));

  /** Since it left, nobody but a resumed session can have come back: every register was answered before, or will never be. */
  const isResumed = (worker: string, attempt: string): boolean => {
    const left = sent.get(attempt);
    const mine = [...(registers.get(worker)?.values() ?? [])];
    if (left === undefined || mine.length === 0) return false;
    return mine.every(
      ({ at, answered }) => answered < left.n || (answered === Number.POSITIVE_INFINITY && at + answerMsMax < left.at),
    );
  };

  const follow = ({ type, seen, ...frame }: WireFrame): void => {
    const worker = `${seen.tenant}/${seen.instance}`;
    const mine = registers.get(worker) ?? new Map<string, { readonly at: TrueTime; answered: number }>();
    registers.set(worker, mine);
    if (type === "control.register" && seen.event === "delivered")
      mine.set(seen.connection, { at: seen.at, answered: Number.POSITIVE_INFINITY });
    if (type === "control.resume" && seen.event === "delivered") resumed.add(frame.stream);
    if (seen.toward !== "worker" || seen.event !== "sent") return;
    const register = mine.get(seen.connection);
    if (type === "control.session.accept" && register !== undefined) register.answered = Math.min(register.answered, seen.n);
    for (const { task, fence } of dispatchesIn({ type, seen, ...frame }))
      if (!sent.has(`${task}#${fence}`)) sent.set(`${task}#${fence}`, { n: seen.n, at: seen.at, stream: frame.stream });
  };

  const judgeRebound = ({ data, position, tenant }: Fact): void => {
    const id = String(data["task"]);
    const worker = String(data["worker"]);
    saw++;
    // What is about to be swept stays where it is until the sweep.
    if (scene.isOlder(worker) || isReported(worker, `${id}#${Number(data["fence"])}`) || lives.task(id)?.run.isCondemned === true)
      return;
    fail(`${id} was bound again to ${worker} at position ${position} of ${tenant}, which never reported it`, [id, worker]);
  };

  const judgeReturn = (facts: readonly Fact[]): void => {
    const joined = new Map(
      facts.flatMap(({ type, worker, data }) =>
        type === "worker.joined" && worker !== null ? [[worker, String(data["boot"])] as const] : [],
      ),
    );
    for (const { type, data, position, tenant } of facts) {
      const from = String(data["from"]);
      if (type !== "task.requeued" || data["code"] !== "E.WORKER.LOST" || !joined.has(from)) continue;
      const id = String(data["task"]);
      saw++;
      if (scene.isOlder(from)) continue;
      const grant = lives.lastGrantOf(id, Number(data["fence"]));
      if (grant !== null && isResumed(from, `${id}#${grant}`))
        return fail(`${id} was taken from ${from} at position ${position} of ${tenant} as it resumed its session`, [id, from]);
      if (grant !== null && named.get(`${from} ${joined.get(from)}`)?.get(`${id}#${grant}`)?.isStill === true)
        return fail(
          `${id} was taken from ${from} at position ${position} of ${tenant} as it came back, although it reported it`,
          [id, from],
        );
    }
  };

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      const { seen } = frame;
      follow(frame);
      const held = frame.type === "control.register" && seen.event === "delivered" ? heldIn(frame) : null;
      if (held === null) return;
      const life = `${seen.tenant}/${seen.instance} ${seen.boot}`;
      const known = named.get(life) ?? new Map<string, { isStill: boolean }>();
      named.set(life, known);
      const now = new Set(held.map(({ task, fence }) => `${task}#${fence}`));
      for (const [attempt, one] of known) if (!now.has(attempt)) one.isStill = false;
      for (const attempt of now) if (!known.has(attempt)) known.set(attempt, { isStill: true });
    },
    fact(fact) {
      if (fact.type === "task.rebound") judgeRebound(fact);
    },
    turn(_tenant, facts) {
      judgeReturn(facts);
    },
  };
}
