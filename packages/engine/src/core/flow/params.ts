// Parameters as a node gets them: those of a middleware or a call of a host, what a caller may change of them, and whether they are what
// the node's schema asks for. Values along edges are graph's, those of frames frames.ts's.

import {
  findParamsProblem,
  findRemoteValuePart,
  mergeResults,
  type Plan,
  type PlanNode,
  type RemoteValuePart,
} from "@astraflow/graph";
import type { FaultData } from "../../effect.ts";
import type { RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { lastStep, slotOf } from "../rows/slot.ts";
import { moveTask } from "../rows/task.ts";
import { buryTask, isFinal } from "../word/letter.ts";
import type { Flow } from "./reach.ts";
import { errorText } from "./sweep.ts";

/** What is wrong with these parameters; null when nothing is. */
export function unfitParams(node: PlanNode, params: string): FaultData | null {
  const part = findRemoteValuePart(params);
  if (part !== null) return unreachablePart(node, part);
  if (node.schema.parameters === true) return null;
  const problem = findParamsProblem(node, JSON.parse(params));
  if (problem === null) return null;
  return {
    code: "E.PARAMS.INVALID",
    message: problem.message,
    details: { node: node.id, field: problem.path },
  };
}

const unreachablePart = (node: PlanNode, { field, inside, resourceId }: RemoteValuePart): FaultData => ({
  code: "E.PARAMS.INVALID",
  message: `node ${node.id} (${node.label}): ${field} is to be ${inside} of a value that was too large to travel and stayed with its worker; connect the whole value and read it there`,
  details: { node: node.id, field, resource: resourceId },
});

/** A task that cannot even begin ends as failed before anybody sees it. `born` is counted as open already. */
export function failUnstarted(
  board: Board,
  plan: Plan,
  run: RunRow,
  node: PlanNode,
  born: TaskRow,
  params: string,
  error: FaultData,
  isNew: boolean,
  flow: Flow,
): void {
  const failed = moveTask({ ...born, params }, { type: "fail", error: errorText(error), result: null }, board.now);
  if (isNew) board.bear(failed);
  else board.put(failed);
  if (!isCalled(node, failed) && isFinal(plan, slotOf(failed))) buryTask(board, run, node, failed, error);
  board.tell(run, "task.failed", { task: failed.id, fence: failed.fence, worker: null, error });
  flow.next.push({ type: "ended", row: failed });
}

/** Whether somebody in a chain waits for this row, and so decides what its failure means. */
export const isCalled = (node: PlanNode, row: TaskRow): boolean => node.host !== null || lastStep(slotOf(row)).call !== null;

/** What a payload may make of the parameters; a worker's frame would not take more. */
const paramsLimits = { bytesMax: 2 * 1024 * 1024, depthMax: 64 };

/** Where what a caller handed on is found by what it called. */
const handedOn = "__next";

/** What a caller hands on to what it calls: changes of its parameters, and words for the host and for the next. JSON texts. */
export interface Handed {
  readonly payload: string | null;
  readonly hostCtx: string | null;
  readonly middlewareCtx: string | null;
}

/**
 * Parameters of a call: those of the node, the payload merged over them, the contexts beside them. What was said for the host goes on
 * through every middleware that says nothing else. Null: larger or deeper than parameters may be.
 */
export function calledParams(base: string, callerParams: string | null, handed: Handed): string | null {
  const { payload, middlewareCtx } = handed;
  const hostCtx = handed.hostCtx ?? inheritedCtx(callerParams);
  if (payload === null && hostCtx === null && middlewareCtx === null) return base;
  const params: unknown = JSON.parse(base);
  const merged = payload === null ? params : (mergeResults(params, JSON.parse(payload), paramsLimits)?.value ?? null);
  if (merged === null) return null;
  if (hostCtx === null && middlewareCtx === null) return JSON.stringify(merged);
  const next = {
    ...(hostCtx === null ? {} : { hostCtx: JSON.parse(hostCtx) as unknown }),
    ...(middlewareCtx === null ? {} : { middlewareCtx: JSON.parse(middlewareCtx) as unknown }),
  };
  return JSON.stringify({ ...(merged as object), [handedOn]: next });
}

function inheritedCtx(callerParams: string | null): string | null {
  if (callerParams === null || !callerParams.includes(`"${handedOn}"`)) return null;
  const { [handedOn]: next } = JSON.parse(callerParams) as { [handedOn]?: { hostCtx?: unknown } };
  return next?.hostCtx === undefined ? null : JSON.stringify(next.hostCtx);
}
