// I7: of several results under one fence the first is kept. What a read shows as a task's result is what its holder sent under its last fence,
// and once shown never another.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import { taskReportsIn } from "../../checking/observed-frame.ts";
import { isRunByOtherTasks } from "../../checking/requested-runs.ts";

interface NodeView {
  readonly taskId: string;
  readonly status: string;
  readonly fence?: number;
  readonly result?: unknown;
  /** Why it was not run. */
  readonly why?: string;
}

export function checkFirstResultWins({ reportViolation, projection, world }: CheckerContext): Checker {
  /** Texts of the results that reached a scheduler, by `<task>#<fence>`. */
  const sent = new Map<string, Set<string>>();
  const shown = new Map<string, string>();
  let checkedCount = 0;

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame(frame) {
      if (frame.seen.toward !== "scheduler" || frame.seen.event !== "delivered") return;
      for (const { of, task, fence, result } of taskReportsIn(frame)) {
        if (of !== "result") continue;
        const texts = sent.get(`${task}#${fence}`) ?? new Set<string>();
        sent.set(`${task}#${fence}`, texts.add(JSON.stringify(result)));
        // Without fences a result may be of an earlier dispatch that still ran.
        const { tenant, instance } = frame.seen;
        if (world.isLegacyWorker(`${tenant}/${instance}`))
          sent.set(task, (sent.get(task) ?? new Set<string>()).add(JSON.stringify(result)));
      }
    },
    onExchange({ call, answer }) {
      if (call.route !== "getRun" || answer.status !== 200) return;
      for (const { taskId, status, fence, result, why } of (answer.body as { nodes: readonly NodeView[] }).nodes) {
        if (status !== "succeeded" && status !== "skipped") continue;
        const text = JSON.stringify(result ?? {});
        checkedCount++;
        const isOwn =
          !isRunByOtherTasks(projection.task(taskId)?.node ?? null, taskId) &&
          why === undefined &&
          fence !== undefined &&
          fence > 0;
        if (isOwn && sent.get(`${taskId}#${fence}`)?.has(text) !== true && sent.get(taskId)?.has(text) !== true)
          return reportViolation(`the result of ${taskId} under fence ${fence} is none that was sent under it: ${text}`, [
            taskId,
          ]);
        const before = shown.get(taskId) ?? text;
        shown.set(taskId, before);
        if (before !== text) return reportViolation(`the result of ${taskId} was ${before} and is ${text}`, [taskId]);
      }
    },
  };
}
