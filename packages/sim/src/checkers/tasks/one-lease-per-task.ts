// I3: a task has at most one lease at a time, and its fence rises with every grant and every requeue, in the fact that records it. On the wire, one
// fence of a task is sent to one process of one worker.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

export class OneLeasePerTask extends Checker {
  readonly #sentTo = new Map<string, string>();

  override onFact({ type, data, position, tenant, task: id, fence }: ObservedFact): void {
    if (type !== "task.granted" && type !== "task.requeued") return;
    const task = this.projection.task(id);
    const where = `at position ${position} of ${tenant}`;
    this.checkedCount++;
    if (!(fence > (task?.fence ?? 0)))
      return this.fail(`the fence of ${id} did not rise with ${type} ${where}: ${task?.fence}, then ${fence}`, id);
    if (type === "task.granted" && task !== undefined && task.worker !== null)
      return this.fail(`${id} was granted to ${String(data["worker"])} while ${task.worker} still held it, ${where}`, id);
    if (type === "task.requeued" && task?.worker !== data["from"])
      this.fail(`${id} was taken back from ${String(data["from"])} while ${task?.worker ?? "nobody"} held it, ${where}`, id);
  }

  override onSentToWorker({ workerKey, boot, dispatches }: ObservedFrame): void {
    const to = `${workerKey} (boot ${boot})`;
    for (const { task, fence, attempt } of dispatches) {
      const first = getOrCreate(this.#sentTo, attempt, () => to);
      this.checkedCount++;
      // A process without a boot id is recognized by its first frame; if that was lost, the next process looks like the last one.
      if (first !== to && !this.world.isLegacyWorker(workerKey))
        return this.fail(`${task} was sent under fence ${fence} to ${first} and to ${to}`, task);
    }
  }
}
