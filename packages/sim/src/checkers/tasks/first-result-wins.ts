// I7: of several results under one fence the first one counts. The result that a read shows was sent by the holder under the task's last fence, and it
// never changes afterwards.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { isRunByOtherTasks } from "../../checking/requested-runs.ts";
import type { ShownNode } from "../../checking/run-view.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

export class FirstResultWins extends Checker {
  /** Texts of the results that reached a scheduler, by `<task>#<fence>`. */
  readonly #sent = new Map<string, Set<string>>();
  readonly #shown = new Map<string, string>();

  override onDeliveredToScheduler({ workerKey, reports }: ObservedFrame): void {
    for (const { of, task, attempt, result } of reports) {
      if (of !== "result") continue;
      // Without fences a result may be of an earlier dispatch that still ran.
      for (const name of this.world.isLegacyWorker(workerKey) ? [attempt, task] : [attempt])
        getOrCreate(this.#sent, name, () => new Set<string>()).add(JSON.stringify(result));
    }
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route !== "getRun" || answer.status !== 200) return;
    for (const { taskId, status, fence, result, why } of (answer.body as { nodes: readonly ShownNode[] }).nodes) {
      if (status !== "succeeded" && status !== "skipped") continue;
      const text = JSON.stringify(result ?? {});
      this.checkedCount++;
      const isOwn =
        !isRunByOtherTasks(this.projection.task(taskId)?.node ?? null, taskId) &&
        why === undefined &&
        fence !== undefined &&
        fence > 0;
      if (isOwn && this.#sent.get(`${taskId}#${fence}`)?.has(text) !== true && this.#sent.get(taskId)?.has(text) !== true)
        return this.fail(`the result of ${taskId} under fence ${fence} is none that was sent under it: ${text}`, taskId);
      const before = getOrCreate(this.#shown, taskId, () => text);
      if (before !== text) return this.fail(`the result of ${taskId} was ${before} and is ${text}`, taskId);
    }
  }
}
