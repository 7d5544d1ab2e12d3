// I56: a task of an adapter that is declared as not to be repeated silently runs no second time because its worker was lost or acked it
// too late, unless the policy of its node allows that. What was taken back for another reason (handed back, asked for by a person) may run again.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { nodeOfTask, type RequestedNode } from "../../checking/requested-runs.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { Observation } from "../../observation/observation.ts";

/** Whether only a policy or a person may decide that the task runs again. */
export const isRepeatForbidden = (node: RequestedNode | null): boolean =>
  node?.package.idempotency !== undefined && node.policy.maxDeliveries === undefined;

export class LostAttemptsAreNotRepeated extends Checker {
  /** Fences under which a handler of the task has started. */
  readonly #started = new Map<string, Set<number>>();
  /** By task, attempts that were queued again because their worker was lost: their fence, and that of the queued task. */
  readonly #lost = new Map<string, { readonly fence: number; readonly nextFence: number }[]>();

  override onObservation(observation: Observation): void {
    if (observation.kind !== "handler" || observation.event !== "starts") return;
    getOrCreate(this.#started, observation.task, () => new Set<number>()).add(observation.fence);
    this.#check(observation.task);
  }

  override onFact({ type, run, data, task: id }: ObservedFact): void {
    if (run === null || (type !== "task.granted" && type !== "task.requeued")) return;
    if (!isRepeatForbidden(nodeOfTask(this.projection.runs.get(run)?.requested ?? null, id))) return;
    this.checkedCount++;
    const fence = this.projection.task(id)?.fence;
    if (type === "task.granted" || fence === undefined || !this.#wasTakenBack(run, id, data["code"])) return;
    getOrCreate(this.#lost, id, () => []).push({ fence, nextFence: Number(data["fence"]) });
    this.#check(id);
  }

  /** A grant without an ack is queued again with the code of a timeout, which a retry policy allows. */
  #wasTakenBack(run: string, task: string, code: unknown): boolean {
    if (code === "E.WORKER.LOST") return true;
    const node = nodeOfTask(this.projection.runs.get(run)?.requested ?? null, task);
    return code === "E.TIMEOUT" && node?.policy.retry === undefined;
  }

  /** The log is read later than a handler starts: whichever comes last completes the picture. */
  #check(task: string): void {
    const started = this.#started.get(task);
    if (started === undefined) return;
    for (const { fence, nextFence } of this.#lost.get(task) ?? [])
      if (started.has(fence) && [...started].some((one) => one >= nextFence))
        return this.fail(
          `${task} ran under fence ${fence}, its worker was lost or silent, and it ran again although nothing allows that`,
          task,
        );
  }
}
