// I15: at every look the sums are right: a list shows every run once and no more than were asked for, a run shows every node of its definition
// once, in exactly one state, then what runs inside them, each once, and its own state is the one its nodes make.

import type { Bench, Checker, Exchange } from "./checker.ts";
import { isCarried, nodeOfTask, type Plans, placeOf } from "./plans.ts";

const open = ["queued", "running"];
const over = ["succeeded", "failed", "cancelled", "skipped"];

interface Face {
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

export function conservation({ fail }: Bench, plans: Plans): Checker {
  let saw = 0;

  const judgeList = ({ call, answer }: Exchange): void => {
    const { items } = answer.body as { items: readonly Face[] };
    const ids = new Set(items.map((item) => item.runId));
    saw++;
    if (ids.size !== items.length) return fail(`a list of ${call.scheduler} shows a run twice`, [...ids]);
    for (const { runId, clientId, status } of items) {
      if (plans.asksOf(call.tenant, clientId) === 0) return fail(`run ${runId} is listed and nobody asked for it`, [runId]);
      const asked = call.query["status"];
      if (asked !== undefined && asked !== status)
        return fail(`run ${runId} is ${status} in the list of those ${asked}`, [runId]);
    }
  };

  const judgeRun = (tenant: string, run: Face): void => {
    const { runId, status, nodes = [] } = run;
    const plan = plans.of(tenant, run.clientId);
    saw++;
    if (plan !== null) {
      const shown = nodes.map((node) => `${node.nodeId} ${node.taskId}`);
      // Of a run larger than one answer nothing is said about what stands behind it.
      const behind = run.nodesNextCursor ?? null;
      const told = plan.nodes.filter((node) => behind === null || `${runId}.${node.ordinal}` <= behind);
      const planned = told.map((node) => `${node.id} ${runId}.${node.ordinal}`);
      if (shown.slice(0, planned.length).join() !== planned.join())
        return fail(`run ${runId} shows the nodes ${shown.join()} and was asked for ${planned.join()}`, [runId]);
      if (new Set(shown).size !== shown.length) return fail(`run ${runId} shows a task twice: ${shown.join()}`, [runId]);
      const stray = nodes.find(({ taskId, nodeId }) => nodeOfTask(plan, taskId)?.id !== nodeId);
      if (stray !== undefined) return fail(`run ${runId} shows ${stray.taskId} as a task of ${stray.nodeId}`, [runId]);
    }
    const count = (states: readonly string[]): number => nodes.filter((node) => states.includes(node.status)).length;
    const [isOpen, isOver] = [count(open), count(over)];
    const sums = `${isOpen} open, ${isOver} ended of ${nodes.length} nodes`;
    if (isOpen + isOver !== nodes.length) return fail(`run ${runId} has a node in no known state: ${sums}`, [runId]);
    if (over.includes(status) && (isOpen > 0 || (run.openTasks ?? 0) !== 0))
      return fail(`run ${runId} is ${status} with ${sums} and ${run.openTasks ?? 0} counted as open`, [runId]);
    const own = nodes.filter(({ taskId }) => isOwn(nodeOfTask(plan, taskId), taskId));
    if (status === "succeeded" && own.some((node) => node.status !== "succeeded" && node.status !== "skipped"))
      return fail(`run ${runId} succeeded although not every node did`, [runId]);
    // What an operator leaves out, and what ends with it, never moved.
    const moved = nodes.find(
      ({ taskId, status: has, why }) =>
        (has === "running" || has === "succeeded") && why === undefined && !isCarried(nodeOfTask(plan, taskId), taskId),
    );
    if (status === "queued" && moved !== undefined)
      return fail(`run ${runId} is queued although a node has moved: ${moved.taskId}`, [runId]);
  };

  return {
    get saw() {
      return saw;
    },
    exchange(exchange) {
      const { call, answer } = exchange;
      if (answer.status !== 200) return;
      if (call.route === "listRuns") judgeList(exchange);
      if (call.route === "getRun") judgeRun(call.tenant, answer.body as Face);
    },
  };
}

/** A node of the top level that is no middleware: what is inside may end badly and be tried again. */
function isOwn(node: { readonly host: number | null } | null, task: string): boolean {
  const { scope, call, frame } = placeOf(task);
  return scope === "" && call === null && frame === null && (node?.host ?? null) === null;
}
