// I15: at every look the sums are right: a list shows every run once and no more than were asked for, a run shows every node of its definition
// once, in exactly one state, and its own state is the one its nodes make.

import type { Bench, Checker, Exchange } from "./checker.ts";
import type { Plans } from "./plans.ts";

const open = ["queued", "running"];
const over = ["succeeded", "failed", "cancelled", "skipped"];

interface Face {
  readonly runId: string;
  readonly status: string;
  readonly clientId: string;
  readonly nodes?: readonly { readonly nodeId: string; readonly taskId: string; readonly status: string }[];
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
      const shown = nodes.map((node) => `${node.nodeId} ${node.taskId}`).join();
      const planned = plan.nodes.map((node) => `${node.id} ${runId}.${node.ordinal}`).join();
      if (shown !== planned) return fail(`run ${runId} shows the nodes ${shown} and was asked for ${planned}`, [runId]);
    }
    const count = (states: readonly string[]): number => nodes.filter((node) => states.includes(node.status)).length;
    const [isOpen, isOver] = [count(open), count(over)];
    const sums = `${isOpen} open, ${isOver} ended of ${nodes.length} nodes`;
    if (isOpen + isOver !== nodes.length) return fail(`run ${runId} has a node in no known state: ${sums}`, [runId]);
    if (over.includes(status) && isOpen > 0) return fail(`run ${runId} is ${status} with ${sums}`, [runId]);
    if (status === "succeeded" && count(["succeeded", "skipped"]) !== nodes.length)
      return fail(`run ${runId} succeeded although not every node did`, [runId]);
    if (status === "queued" && count(["queued"]) !== nodes.length)
      return fail(`run ${runId} is queued although a node has moved`, [runId]);
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
