// I15: every view of runs is consistent. A list shows each run once and only runs that were requested. A run shows each node of its definition once,
// in exactly one status, then the tasks inside them, each once; and the status of the run follows from the status of its nodes.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { isRunByOtherTasks, nodeOfTask, parseTaskId } from "../../checking/requested-runs.ts";

const openStatuses = ["queued", "running"];
const endedStatuses = ["succeeded", "failed", "cancelled", "skipped"];

interface RunView {
  readonly runId: string;
  readonly status: string;
  readonly clientId: string;
  readonly openTasks?: number;
  readonly nodesNextCursor?: string | null;
  readonly nodes?: readonly {
    readonly nodeId: string;
    readonly taskId: string;
    readonly status: string;
    /** Why it is not run. */
    readonly why?: string;
  }[];
}

export class RunViewsAddUp extends Checker {
  override onExchange(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    if (answer.status !== 200) return;
    if (call.route === "listRuns") this.#checkList(exchange);
    if (call.route === "getRun") this.#checkRun(call.tenant, answer.body as RunView);
  }

  #checkList({ call, answer }: ApiExchange): void {
    const { items } = answer.body as { items: readonly RunView[] };
    const ids = new Set(items.map((item) => item.runId));
    this.checkedCount++;
    if (ids.size !== items.length) return this.reportViolation(`a list of ${call.scheduler} shows a run twice`, [...ids]);
    for (const { runId, clientId, status } of items) {
      if (this.requestedRuns.countRunsMax(call.tenant, clientId) === 0)
        return this.reportViolation(`run ${runId} is listed and was never requested`, [runId]);
      const asked = call.query["status"];
      if (asked !== undefined && asked !== status)
        return this.reportViolation(`run ${runId} is ${status} in the list of those ${asked}`, [runId]);
    }
  }

  #checkRun(tenant: string, run: RunView): void {
    const { runId, status, nodes = [] } = run;
    const requested = this.requestedRuns.find(tenant, run.clientId);
    this.checkedCount++;
    if (requested !== null) {
      const shown = nodes.map((node) => `${node.nodeId} ${node.taskId}`);
      // A run larger than one page shows only the nodes up to its cursor.
      const behind = run.nodesNextCursor ?? null;
      const told = requested.nodes.filter((node) => behind === null || `${runId}.${node.ordinal}` <= behind);
      const planned = told.map((node) => `${node.id} ${runId}.${node.ordinal}`);
      if (shown.slice(0, planned.length).join() !== planned.join())
        return this.reportViolation(`run ${runId} shows the nodes ${shown.join()} and was requested with ${planned.join()}`, [
          runId,
        ]);
      if (new Set(shown).size !== shown.length)
        return this.reportViolation(`run ${runId} shows a task twice: ${shown.join()}`, [runId]);
      const stray = nodes.find(({ taskId, nodeId }) => nodeOfTask(requested, taskId)?.id !== nodeId);
      if (stray !== undefined)
        return this.reportViolation(`run ${runId} shows ${stray.taskId} as a task of ${stray.nodeId}`, [runId]);
    }
    const count = (states: readonly string[]): number => nodes.filter((node) => states.includes(node.status)).length;
    const [isOpen, isOver] = [count(openStatuses), count(endedStatuses)];
    const sums = `${isOpen} open, ${isOver} ended of ${nodes.length} nodes`;
    if (isOpen + isOver !== nodes.length)
      return this.reportViolation(`run ${runId} has a node in no known state: ${sums}`, [runId]);
    if (endedStatuses.includes(status) && (isOpen > 0 || (run.openTasks ?? 0) !== 0))
      return this.reportViolation(`run ${runId} is ${status} with ${sums} and ${run.openTasks ?? 0} counted as open`, [runId]);
    const own = nodes.filter(({ taskId }) => isTopLevelNode(nodeOfTask(requested, taskId), taskId));
    if (status === "succeeded" && own.some((node) => node.status !== "succeeded" && node.status !== "skipped"))
      return this.reportViolation(`run ${runId} succeeded although not every node did`, [runId]);
    // Nodes that an operator skipped never ran.
    const moved = nodes.find(
      ({ taskId, status: has, why }) =>
        (has === "running" || has === "succeeded") &&
        why === undefined &&
        !isRunByOtherTasks(nodeOfTask(requested, taskId), taskId),
    );
    if (status === "queued" && moved !== undefined)
      return this.reportViolation(`run ${runId} is queued although a node has moved: ${moved.taskId}`, [runId]);
  }
}

/** A node of the top level that is not a middleware; what is inside may fail and be retried. */
function isTopLevelNode(node: { readonly host: number | null } | null, task: string): boolean {
  const { scope, call, iteration: frame } = parseTaskId(task);
  return scope === "" && call === null && frame === null && (node?.host ?? null) === null;
}
