// I7: of several results under one fence the first one counts. The result that a read shows was sent by the holder under the task's last fence, and it
// never changes afterwards.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import { type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import { isRunByOtherTasks } from "../../checking/requested-runs.ts";

interface NodeView {
  readonly taskId: string;
  readonly status: string;
  readonly fence?: number;
  readonly result?: unknown;
  /** Why it was not run. */
  readonly why?: string;
}

export class FirstResultWins extends Checker {
  /** Texts of the results that reached a scheduler, by `<task>#<fence>`. */
  readonly #sent = new Map<string, Set<string>>();
  readonly #shown = new Map<string, string>();

  override onFrame(frame: ObservedFrame): void {
    if (frame.observation.toward !== "scheduler" || frame.observation.event !== "delivered") return;
    for (const { of, task, fence, result } of taskReportsIn(frame)) {
      if (of !== "result") continue;
      getOrCreate(this.#sent, `${task}#${fence}`, () => new Set<string>()).add(JSON.stringify(result));
      // Without fences a result may be of an earlier dispatch that still ran.
      if (this.world.isLegacyWorker(frame.workerKey))
        getOrCreate(this.#sent, task, () => new Set<string>()).add(JSON.stringify(result));
    }
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route !== "getRun" || answer.status !== 200) return;
    for (const { taskId, status, fence, result, why } of (answer.body as { nodes: readonly NodeView[] }).nodes) {
      if (status !== "succeeded" && status !== "skipped") continue;
      const text = JSON.stringify(result ?? {});
      this.checkedCount++;
      const isOwn =
        !isRunByOtherTasks(this.projection.task(taskId)?.node ?? null, taskId) &&
        why === undefined &&
        fence !== undefined &&
        fence > 0;
      if (isOwn && this.#sent.get(`${taskId}#${fence}`)?.has(text) !== true && this.#sent.get(taskId)?.has(text) !== true)
        return this.reportViolation(`the result of ${taskId} under fence ${fence} is none that was sent under it: ${text}`, [
          taskId,
        ]);
      const before = getOrCreate(this.#shown, taskId, () => text);
      if (before !== text) return this.reportViolation(`the result of ${taskId} was ${before} and is ${text}`, [taskId]);
    }
  }
}
