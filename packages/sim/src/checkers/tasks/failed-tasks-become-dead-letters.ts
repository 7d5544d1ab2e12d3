// I48: permanent failures become dead letters. A task that fails permanently gets a task.dead fact just before task.failed, unless a middleware or a
// retrying container handles its failure. At the end there is one dead letter for each such task, and no other.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { nodeOfTask, parseTaskId, type RequestedRun } from "../../checking/requested-runs.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

export class FailedTasksBecomeDeadLetters extends Checker {
  /** Dead tasks by tenant. */
  readonly #dead = new Map<string, Set<string>>();
  readonly #shown = new Map<string, Set<string>>();

  override onFact(fact: ObservedFact): void {
    const { type, tenant, task } = fact;
    if (type === "task.dead") {
      const all = this.#deadOf(tenant);
      if (all.has(task)) return this.fail(`position ${fact.position} of ${tenant} records task.dead of ${task} again`, task);
      all.add(task);
    }
    if (type === "task.failed") this.#checkFailed(fact);
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route !== "listDeadLetters" || answer.status !== 200) return;
    const all = getOrCreate(this.#shown, call.tenant, () => new Set<string>());
    for (const { taskId } of (answer.body as { items: readonly { taskId: string }[] }).items) all.add(taskId);
  }

  override onEnd(): void {
    for (const [tenant, all] of this.#shown) {
      const expected = this.#deadOf(tenant);
      for (const task of new Set([...all, ...expected])) {
        this.checkedCount++;
        if (!all.has(task)) return this.fail(`${task} is dead and has no dead letter`, task);
        if (!expected.has(task)) return this.fail(`there is a dead letter of ${task}, which is not dead`, task);
      }
    }
  }

  #deadOf(tenant: string): Set<string> {
    return getOrCreate(this.#dead, tenant, () => new Set<string>());
  }

  #checkFailed({ run: id, data, tenant, position, task }: ObservedFact): void {
    const requested = this.projection.runs.get(id ?? "")?.requested ?? null;
    const node = nodeOfTask(requested, task);
    if (requested === null || node === null) return;
    const cause = (data["error"] as { details?: { task?: unknown } } | undefined)?.details?.task;
    const isFromInside = node.container !== null && node.chain.length === 0 && typeof cause === "string" && cause !== task;
    const isAnsweredFor =
      parseTaskId(task).call !== null ||
      node.host !== null ||
      !isNeverRetried(requested, task) ||
      (isFromInside && isNeverRetried(requested, cause));
    this.checkedCount++;
    if (this.#deadOf(tenant).has(task) === isAnsweredFor)
      this.fail(
        `position ${position} of ${tenant}: ${task} failed permanently ${isAnsweredFor ? "with" : "without"} a task.dead fact`,
        task,
      );
  }
}

/** Nothing around a task tries it again, and nobody called what it is inside of. */
function isNeverRetried(requested: RequestedRun, task: string): boolean {
  for (let { scope } = parseTaskId(task); scope !== ""; scope = parseTaskId(scope).scope)
    if (parseTaskId(scope).call !== null || (nodeOfTask(requested, scope)?.container?.maxAttempts ?? 1) > 1) return false;
  return true;
}
