// I48: what failed for good is kept for somebody to look at. Every task that fails for good by itself is called dead just before it fails, those
// that a caller or a container answers for are not, and at the end there is a letter for each dead task and none beside. A container that
// would try again answers for what is inside.

import type { Bench, Checker } from "./checker.ts";
import type { Fact } from "./log-book.ts";
import { nodeOfTask, placeOf, type RunPlan } from "./plans.ts";

export function letters({ fail, lives }: Bench): Checker {
  /** Dead tasks by tenant. */
  const dead = new Map<string, Set<string>>();
  const shown = new Map<string, Set<string>>();
  let saw = 0;

  const deadOf = (tenant: string): Set<string> => {
    const all = dead.get(tenant) ?? new Set<string>();
    dead.set(tenant, all);
    return all;
  };

  const judgeFailed = ({ run: id, data, tenant, position }: Fact): void => {
    const task = String(data["task"]);
    const plan = lives.run(id ?? "")?.plan ?? null;
    const node = nodeOfTask(plan, task);
    if (plan === null || node === null) return;
    const cause = (data["error"] as { details?: { task?: unknown } } | undefined)?.details?.task;
    const isFromInside = node.box !== null && node.chain.length === 0 && typeof cause === "string" && cause !== task;
    const isAnsweredFor =
      placeOf(task).call !== null || node.host !== null || !isLast(plan, task) || (isFromInside && isLast(plan, cause));
    saw++;
    if (deadOf(tenant).has(task) === isAnsweredFor)
      fail(`position ${position} of ${tenant}: ${task} failed for good and was ${isAnsweredFor ? "" : "not "}called dead`, [
        task,
      ]);
  };

  return {
    get saw() {
      return saw;
    },
    fact(fact) {
      if (fact.type === "task.dead") {
        const all = deadOf(fact.tenant);
        const task = String(fact.data["task"]);
        if (all.has(task)) return fail(`position ${fact.position} of ${fact.tenant} calls ${task} dead again`, [task]);
        all.add(task);
      }
      if (fact.type === "task.failed") judgeFailed(fact);
    },
    exchange({ call, answer }) {
      if (call.route !== "listDeadLetters" || answer.status !== 200) return;
      const all = shown.get(call.tenant) ?? new Set<string>();
      shown.set(call.tenant, all);
      for (const { taskId } of (answer.body as { items: readonly { taskId: string }[] }).items) all.add(taskId);
    },
    end() {
      for (const [tenant, all] of shown) {
        const expected = deadOf(tenant);
        for (const task of new Set([...all, ...expected])) {
          saw++;
          if (!all.has(task)) return fail(`${task} is dead and there is no letter of it`, [task]);
          if (!expected.has(task)) return fail(`there is a letter of ${task}, which is not dead`, [task]);
        }
      }
    },
  };
}

/** Nothing around a task tries it again, and nobody called what it is inside of. */
function isLast(plan: RunPlan, task: string): boolean {
  for (let { scope } = placeOf(task); scope !== ""; scope = placeOf(scope).scope)
    if (placeOf(scope).call !== null || (nodeOfTask(plan, scope)?.box?.maxAttempts ?? 1) > 1) return false;
  return true;
}
