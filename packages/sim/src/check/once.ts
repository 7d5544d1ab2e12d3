// I5: a task and a run end once, what follows from an end follows once and in order, and an Idempotency-Key gives one run.

import type { Bench, Checker, Exchange } from "./checker.ts";
import type { RunLife } from "./lives.ts";
import type { Fact } from "./log-book.ts";
import { nodeOfTask, nodesIn, type Plans, placeOf, taskIn } from "./plans.ts";

const isGood = (end: string | null | undefined): boolean => end === "succeeded" || end === "skipped";

export function once({ fail, lives }: Bench, plans: Plans): Checker {
  const runOfKey = new Map<string, string>();
  const runsOfClient = new Map<string, Set<string>>();
  /** Orders to try a node again, by run: of one that was over each may have become a run of the same client. */
  const again = new Map<string, number>();
  let saw = 0;

  const judgeTask = (run: RunLife, id: string, { type, position }: Fact): void => {
    const task = run.tasks.get(id);
    const where = `${type} at position ${position} of ${run.tenant}`;
    if (task !== undefined && task.end !== null) return fail(`${where}: ${id} had ended already (${task.end})`, [id]);
    if (type !== "task.granted" && type !== "task.ready" && type !== "task.hosting") return;
    const node = nodeOfTask(run.plan, id);
    if (run.plan !== null && node === null) return fail(`${where}: ${id} is no node of its run`, [id]);
    for (const before of node?.before ?? []) {
      const end = run.tasks.get(taskIn(run.id, placeOf(id).scope, before))?.end;
      if (!isGood(end)) return fail(`${where}: ${id} goes on although node ${before} before it is ${end ?? "open"}`, [id]);
    }
  };

  /** What a result has overtaken may follow the end of its task, and only that. */
  const judgeLate = (run: RunLife, id: string, { position }: Fact): void => {
    if ((run.tasks.get(id)?.end ?? null) === null)
      fail(`position ${position}: feedback of ${id} is called late, and it has not ended`, [id]);
  };

  const judgeRunEnd = (run: RunLife, { type, position }: Fact): void => {
    const where = `${type} at position ${position} of ${run.tenant}`;
    for (const task of run.tasks.values())
      if (task.end === null) return fail(`${where}: ${task.id} of run ${run.id} had not ended`, [task.id]);
    if (type !== "run.succeeded" || run.plan === null) return;
    // What became of a middleware is its chain's affair.
    for (const { ordinal } of (nodesIn(run.plan, "") ?? []).filter(({ host }) => host === null)) {
      const end = run.tasks.get(`${run.id}.${ordinal}`)?.end;
      if (!isGood(end)) return fail(`${where}: node ${ordinal} of run ${run.id} is ${end ?? "untouched"}`, [run.id]);
    }
  };

  const judgeKey = ({ call, answer }: Exchange): void => {
    if (call.route !== "startRun" || answer.status !== 202 || call.idempotencyKey === null) return;
    const { runId } = answer.body as { runId: string };
    const key = `${call.tenant}/${call.idempotencyKey}`;
    const first = runOfKey.get(key) ?? runId;
    runOfKey.set(key, first);
    saw++;
    if (first !== runId) fail(`key ${key} gave run ${first} and then run ${runId}`, [first, runId]);
  };

  return {
    get saw() {
      return saw;
    },
    exchange: judgeKey,
    observe(seen) {
      if (seen.kind !== "call" || seen.route !== "retryNode") return;
      const run = seen.params["runId"] ?? "";
      again.set(run, (again.get(run) ?? 0) + 1);
    },
    fact(fact) {
      const { run: id, type, tenant, data } = fact;
      if (id === null) return;
      const run = lives.run(id);
      saw++;
      if (type === "run.created") {
        if (run !== undefined) return fail(`run ${id} was created twice, at position ${fact.position} of ${tenant}`, [id]);
        const client = String(data["client"]);
        const runs = runsOfClient.get(`${tenant}/${client}`) ?? new Set<string>();
        runsOfClient.set(`${tenant}/${client}`, runs.add(id));
        const asks = [...runs].reduce((sum, one) => sum + (again.get(one) ?? 0), plans.asksOf(tenant, client));
        if (runs.size > asks) fail(`${asks} orders of client ${client} became ${runs.size} runs`, [...runs]);
        return;
      }
      if (run === undefined) return fail(`run ${id} is told of before it was created, at position ${fact.position}`, [id]);
      // What an operator asked of a run that was over is kept too, and outcomes that came too late; what it left with workers outlives it.
      if (type.startsWith("audit.") || type === "artifact.removed" || type === "task.refused") return;
      if (type === "task.feedback" && data["isLate"] === true) return judgeLate(run, String(data["task"]), fact);
      if (run.end !== null) return fail(`${type} at position ${fact.position}: run ${id} had ended (${run.end})`, [id]);
      if (type.startsWith("task.") && type !== "task.feedback") judgeTask(run, String(data["task"]), fact);
      if (type === "run.succeeded" || type === "run.failed" || type === "run.cancelled") judgeRunEnd(run, fact);
    },
  };
}
