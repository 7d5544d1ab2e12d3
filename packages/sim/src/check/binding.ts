// I23: a worker that comes back keeps exactly what it reports: nothing is bound again that its register did not name, and nothing that it named
// under the current fence is taken from it by its coming back.

import type { Bench, Checker } from "./checker.ts";
import type { Fact } from "./log-book.ts";
import { heldIn } from "./wire.ts";

export function binding({ fail, lives }: Bench): Checker {
  /** What registers have named, by worker and `<task>#<fence>`; only as long as every later register of that worker names it too. */
  const named = new Map<string, Map<string, { isStill: boolean }>>();
  let saw = 0;

  const judgeRebound = ({ data, position, tenant }: Fact): void => {
    const id = String(data["task"]);
    const worker = String(data["worker"]);
    saw++;
    // What is about to be swept stays where it is until the sweep.
    if (named.get(worker)?.has(`${id}#${Number(data["fence"])}`) === true || lives.task(id)?.run.isCondemned === true) return;
    fail(`${id} was bound again to ${worker} at position ${position} of ${tenant}, which never reported it`, [id, worker]);
  };

  const judgeReturn = (facts: readonly Fact[]): void => {
    const joined = new Set(facts.flatMap(({ type, worker }) => (type === "worker.joined" && worker !== null ? [worker] : [])));
    for (const { type, data, position, tenant } of facts) {
      const from = String(data["from"]);
      if (type !== "task.requeued" || data["code"] !== "E.WORKER.LOST" || !joined.has(from)) continue;
      const id = String(data["task"]);
      saw++;
      const grant = lives.lastGrantOf(id, Number(data["fence"]));
      if (grant !== null && named.get(from)?.get(`${id}#${grant}`)?.isStill === true)
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
      const held = frame.type === "control.register" && seen.event === "delivered" ? heldIn(frame) : null;
      if (held === null) return;
      const worker = `${seen.tenant}/${seen.instance}`;
      const known = named.get(worker) ?? new Map<string, { isStill: boolean }>();
      named.set(worker, known);
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
