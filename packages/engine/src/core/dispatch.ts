// The frame that a grant becomes: made from rows alone, so that a repeat of it is the same frame under the same id.

import type { PlanNode } from "@astraflow/graph";
import type { RunRow, TaskRow } from "../rows.ts";
import type { Board } from "./board.ts";
import type { Seat } from "./floor.ts";
import type { Tools } from "./tools.ts";

export const attemptTimeoutMs = (tools: Tools, node: PlanNode): number | null =>
  node.policy.timeoutMs ?? tools.settings.attemptTimeoutMs;

export function sendDispatch(board: Board, tools: Tools, seat: Seat, run: RunRow, node: PlanNode, task: TaskRow): void {
  board.effect({
    type: "dispatch",
    session: seat.session,
    worker: seat.worker,
    tenant: run.tenant,
    dispatch: {
      id: `${task.id}#${task.fence}`,
      run: run.id,
      task: task.id,
      node: node.id,
      nodeType: node.type,
      packageName: node.packageName,
      packageVersion: node.packageVersion,
      params: task.params ?? "{}",
      fence: task.fence,
      attempt: task.attempt,
      timeoutMs: attemptTimeoutMs(tools, node),
      concurrencyKey: wireKey(run, node),
      priority: task.band,
    },
  });
}

/** A worker lets one task of a key run at a time; a key with room for more is kept by the engine alone, and every task gets its own. */
function wireKey(run: RunRow, node: PlanNode): string {
  const { key, limit = 1 } = node.policy.concurrency ?? {};
  return key !== undefined && limit === 1 ? key : `${run.id}:${node.id}`;
}
