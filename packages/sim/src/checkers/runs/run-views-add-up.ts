// I15: every view of runs is consistent. A list shows each run once and only runs that were requested. A run shows each node of its definition once,
// in exactly one status, then the tasks inside them, each once; and the status of the run follows from the status of its nodes.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { isRunByOtherTasks, nodeOfTask, parseTaskId } from "../../checking/requested-runs.ts";
import { endedStatuses, runsShownBy, type ShownRun } from "../../checking/run-view.ts";

export class RunViewsAddUp extends Checker {
  override onExchange(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    const runs = runsShownBy(exchange);
    if (call.route === "getRun") for (const run of runs) this.#checkRun(call.tenant, run);
    else if (call.route === "listRuns" && answer.status === 200) this.#checkList(call, runs);
  }

  #checkList(call: ApiExchange["call"], items: readonly ShownRun[]): void {
    const ids = new Set(items.map((item) => item.runId));
    this.checkedCount++;
    if (ids.size !== items.length) return this.fail(`a list of ${call.scheduler} shows a run twice`, ...ids);
    for (const { runId, clientId, status } of items) {
      if (this.requestedRuns.countRunsMax(call.tenant, clientId) === 0)
        return this.fail(`run ${runId} is listed and was never requested`, runId);
      const asked = call.query["status"];
      if (asked !== undefined && asked !== status)
        return this.fail(`run ${runId} is ${status} in the list of those ${asked}`, runId);
    }
  }

  #checkRun(tenant: string, run: ShownRun): void {
    const { runId, status, nodes = [] } = run;
    const requested = this.requestedRuns.find(tenant, run.clientId);
    this.checkedCount++;
    if (requested !== null) {
      const shown = nodes.map((node) => `${node.nodeId} ${node.taskId}`);
      // A run larger than one page shows only the nodes up to its cursor.
      const behind = run.nodesNextCursor ?? null;
      const onPage = requested.nodes.filter((node) => behind === null || `${runId}.${node.ordinal}` <= behind);
      const planned = onPage.map((node) => `${node.id} ${runId}.${node.ordinal}`);
      if (shown.slice(0, planned.length).join() !== planned.join())
        return this.fail(`run ${runId} shows the nodes ${shown.join()} and was requested with ${planned.join()}`, runId);
      if (new Set(shown).size !== shown.length) return this.fail(`run ${runId} shows a task twice: ${shown.join()}`, runId);
      const stray = nodes.find(({ taskId, nodeId }) => nodeOfTask(requested, taskId)?.id !== nodeId);
      if (stray !== undefined) return this.fail(`run ${runId} shows ${stray.taskId} as a task of ${stray.nodeId}`, runId);
    }
    const openCount = nodes.filter((node) => node.status === "queued" || node.status === "running").length;
    const endedCount = nodes.filter((node) => endedStatuses.has(node.status)).length;
    const sums = `${openCount} open, ${endedCount} ended of ${nodes.length} nodes`;
    if (openCount + endedCount !== nodes.length) return this.fail(`run ${runId} has a node in no known state: ${sums}`, runId);
    if (endedStatuses.has(status) && (openCount > 0 || (run.openTasks ?? 0) !== 0))
      return this.fail(`run ${runId} is ${status} with ${sums} and ${run.openTasks ?? 0} counted as open`, runId);
    const own = nodes.filter(({ taskId }) => isTopLevelNode(nodeOfTask(requested, taskId), taskId));
    if (status === "succeeded" && own.some((node) => node.status !== "succeeded" && node.status !== "skipped"))
      return this.fail(`run ${runId} succeeded although not every node did`, runId);
    // Nodes that an operator skipped never ran.
    const moved = nodes.find(
      ({ taskId, status: has, why }) =>
        (has === "running" || has === "succeeded") &&
        why === undefined &&
        !isRunByOtherTasks(nodeOfTask(requested, taskId), taskId),
    );
    if (status === "queued" && moved !== undefined)
      return this.fail(`run ${runId} is queued although a node has moved: ${moved.taskId}`, runId);
  }
}

/** A node of the top level that is not a middleware; what is inside may fail and be retried. */
function isTopLevelNode(node: { readonly host: number | null } | null, task: string): boolean {
  const { scope, call, iteration: frame } = parseTaskId(task);
  return scope === "" && call === null && frame === null && (node?.host ?? null) === null;
}
