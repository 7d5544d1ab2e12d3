// I12: a task is granted at most `maxDeliveries` times in a row without a result; then it fails, and not before. Its attempts are numbered without gaps.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { isRunByOtherTasks, nodeOfTask } from "../../checking/requested-runs.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

export class DeliveryLimitIsKept extends Checker {
  /** As ranges: a task handed back counts only where the worker was not stopping, which is not always visible. */
  readonly #counts = new Map<string, { least: number; most: number }>();

  override onFact({ type, run, data, task: id, where }: ObservedFact): void {
    if (run === null || data["task"] === undefined) return;
    const count = getOrCreate(this.#counts, id, () => ({ least: 0, most: 0 }));
    const node = nodeOfTask(this.projection.runs.get(run)?.requested ?? null, id);
    const usualLimit = node === null ? undefined : this.world.setup?.guarantees.maxDeliveries;
    const limit = node?.policy.maxDeliveries ?? usualLimit ?? Number.POSITIVE_INFINITY;
    if (type === "task.granted") {
      this.checkedCount++;
      count.least++;
      count.most++;
      const before = this.projection.task(id)?.attempt ?? 0;
      if (data["attempt"] !== before + 1)
        return this.fail(`${where}: attempt ${String(data["attempt"])} of ${id} follows attempt ${before}`, id);
      if (count.least > limit)
        return this.fail(`${where}: ${id} was granted ${count.least} times in a row, ${limit} allowed`, id);
    }
    // A process that may be new counts as a delivery.
    if (type === "task.rebound" && data["deliveries"] !== undefined) {
      count.least++;
      count.most++;
    }
    if (type === "task.requeued") {
      if (data["code"] === "E.RUNNER.CANCELLED" || data["code"] === "E.CMD.CONCURRENCY_VIOLATION")
        count.least = Math.max(0, count.least - 1);
      if (count.least >= limit)
        return this.fail(`${where}: ${id} is queued again after ${count.least} grants, ${limit} allowed`, id);
    }
    if (type === "task.retrying") this.#counts.delete(id);
    if (type === "task.failed") {
      const reported = (data["error"] as { details?: { deliveries?: unknown } } | undefined)?.details?.deliveries;
      // A failed host reports the error of its middleware.
      if (typeof reported !== "number" || isRunByOtherTasks(node, id)) return;
      this.checkedCount++;
      if (reported < count.least || reported > count.most || (reported < limit && limit !== Number.POSITIVE_INFINITY))
        this.fail(
          `${where}: ${id} failed after ${reported} grants, counted ${count.least} to ${count.most}, ${limit} allowed`,
          id,
        );
    }
  }
}
