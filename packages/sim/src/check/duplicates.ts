// I7: of several results under one fence the first is kept. What a read shows as a task's result is what its holder sent under its last fence,
// and once shown never another.

import type { Bench, Checker } from "./checker.ts";
import { isCarried } from "./plans.ts";
import { wordsIn } from "./wire.ts";

interface Node {
  readonly taskId: string;
  readonly status: string;
  readonly fence?: number;
  readonly result?: unknown;
  /** Why it was not run. */
  readonly why?: string;
}

export function duplicates({ fail, lives, scene }: Bench): Checker {
  /** Texts of the results that reached a scheduler, by `<task>#<fence>`. */
  const sent = new Map<string, Set<string>>();
  const shown = new Map<string, string>();
  let saw = 0;

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      if (frame.seen.toward !== "scheduler" || frame.seen.event !== "delivered") return;
      for (const { of, task, fence, result } of wordsIn(frame)) {
        if (of !== "result") continue;
        const texts = sent.get(`${task}#${fence}`) ?? new Set<string>();
        sent.set(`${task}#${fence}`, texts.add(JSON.stringify(result)));
        // Without fences a result may be of an earlier dispatch that still ran.
        const { tenant, instance } = frame.seen;
        if (scene.isOlder(`${tenant}/${instance}`))
          sent.set(task, (sent.get(task) ?? new Set<string>()).add(JSON.stringify(result)));
      }
    },
    exchange({ call, answer }) {
      if (call.route !== "getRun" || answer.status !== 200) return;
      for (const { taskId, status, fence, result, why } of (answer.body as { nodes: readonly Node[] }).nodes) {
        if (status !== "succeeded" && status !== "skipped") continue;
        const text = JSON.stringify(result ?? {});
        saw++;
        const isOwn =
          !isCarried(lives.task(taskId)?.node ?? null, taskId) && why === undefined && fence !== undefined && fence > 0;
        if (isOwn && sent.get(`${taskId}#${fence}`)?.has(text) !== true && sent.get(taskId)?.has(text) !== true)
          return fail(`the result of ${taskId} under fence ${fence} is none that was sent under it: ${text}`, [taskId]);
        const before = shown.get(taskId) ?? text;
        shown.set(taskId, before);
        if (before !== text) return fail(`the result of ${taskId} was ${before} and is ${text}`, [taskId]);
      }
    },
  };
}
