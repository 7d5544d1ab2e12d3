// How a host behind a chain ends: with the status of its outermost middleware, with the result of its own last good call, with what the
// middlewares' output ports say written into it. Inner middlewares get one row each that says what became of them, called or not.

import { type BindingPath, type PlanNode, valueAt, withValueAt } from "@astraflow/graph";
import type { FaultData } from "../../effect.ts";
import { type RunRow, type TaskRow, taskKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { bornTask, type Flow, TaskOutcome } from "../flow/reach.ts";
import { errorText } from "../flow/sweep.ts";
import { callOf, slotIn, slotOf, taskAt } from "../rows/slot.ts";
import { stateOf, withState } from "../rows/state.ts";
import { isEnded, moveTask, type TaskEvent } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { buryTask, isFinal } from "../word/letter.ts";
import type { ChainPlace } from "./chain.ts";

/** The outermost middleware has ended, and with it the host. */
export function endChain(
  board: Board,
  tools: Tools,
  run: RunRow,
  place: ChainPlace,
  host: TaskRow,
  outermost: TaskRow,
  flow: Flow,
): void {
  // An operator was faster: what he made of the host stands.
  if (host.phase !== "hosting") return;
  needCalls(board, run, place, host);
  for (const ordinal of place.host.chain.slice(1))
    closeMiddleware(board, tools, run, place, place.plan.nodes[ordinal] as PlanNode, host);
  const written = withOutputs(board, run, place, host, outermost);
  const event = endOf(place, host, outermost, written.result ?? "{}");
  const ended = moveTask({ ...written, result: null }, event, board.now);
  board.put(ended);
  const error = ended.error === null ? null : (JSON.parse(ended.error) as FaultData);
  if (ended.phase === "failed" && error !== null && isFinal(tools.plans.of(board, run), slotOf(ended)))
    buryTask(board, run, place.host, ended, error);
  board.tell(run, `task.${ended.phase}`, {
    task: ended.id,
    fence: ended.fence,
    worker: null,
    ...(error === null ? {} : { error }),
  });
  flow.next.push({ type: "ended", row: ended });
}

/** Asks for all rows of calls that are looked at below, at once. */
function needCalls(board: Board, run: RunRow, { scope, host: node }: ChainPlace, host: TaskRow): void {
  const { called = {}, ran = {} } = stateOf(host);
  const calls = [node.ordinal, ...node.chain].flatMap((ordinal) => {
    const numbers = new Set([called[ordinal], ran[ordinal]].filter((call) => call !== undefined));
    return [...numbers].map((call) => taskKey(taskAt(run.id, callOf(slotIn(scope, ordinal), call))));
  });
  board.need(calls);
}

function endOf({ plan, host: node }: ChainPlace, host: TaskRow, outermost: TaskRow, result: string): TaskEvent {
  const { called, skippedBy } = stateOf(host);
  switch (outermost.phase) {
    case "succeeded":
      // Withheld by the chain, or skipped by one inside and not run since.
      return called?.[node.ordinal] === undefined || skippedBy !== undefined
        ? { type: "skip", result }
        : { type: "succeed", result };
    case "skipped":
      return { type: "skip", result };
    case "failed": {
      const error = JSON.parse(outermost.error ?? "{}") as FaultData;
      const middleware = plan.nodes[node.chain[0] ?? -1]?.id;
      return { type: "fail", error: errorText({ ...error, details: { ...error.details, middleware } }), result: null };
    }
    default:
      return { type: "cancel", error: outermost.error };
  }
}

const notCalled = "not called";

/** The row that stands for an inner middleware in the graph: as its last call ended, with its last good result. */
function closeMiddleware(board: Board, tools: Tools, run: RunRow, place: ChainPlace, node: PlanNode, host: TaskRow): void {
  const slot = slotIn(place.scope, node.ordinal);
  const { called, ran } = stateOf(host);
  const calls = called?.[node.ordinal];
  const last = calls === undefined ? null : board.task(taskAt(run.id, callOf(slot, calls)));
  const good = goodCall(board, run, place, node, ran?.[node.ordinal]);
  const born = bornTask(board, tools, run, slot, node, 0);
  const seen = { ...born, params: (good ?? last)?.params ?? null };
  const result = good?.result ?? "{}";
  const closed =
    last === null
      ? moveTask(withState(seen, { why: notCalled }), { type: "skip", result }, board.now)
      : moveTask(moveTask(seen, { type: "host", params: seen.params }, board.now), lastEvent(last, result), board.now);
  board.bear(closed);
  board.tell(run, `task.${closed.phase}`, {
    task: closed.id,
    fence: closed.fence,
    worker: null,
    calls: calls ?? 0,
    ...(last === null && { why: notCalled }),
    ...(closed.error !== null && { error: JSON.parse(closed.error) as unknown }),
  });
}

function lastEvent(last: TaskRow, result: string): TaskEvent {
  if (!isEnded(last)) return { type: "cancel", error: null };
  switch (last.phase) {
    case "succeeded":
      return { type: "succeed", result };
    case "skipped":
      return { type: "skip", result };
    case "failed":
      return { type: "fail", error: last.error ?? "{}", result };
    default:
      return { type: "cancel", error: last.error };
  }
}

/** The row of the last call of a node that succeeded. */
function goodCall(board: Board, run: RunRow, place: ChainPlace, node: PlanNode, call: number | undefined): TaskRow | null {
  return call === undefined ? null : board.task(taskAt(run.id, callOf(slotIn(place.scope, node.ordinal), call)));
}

/** The host's parameters and result, with the values of the middlewares' output ports at the same paths; the outermost has the last word. */
function withOutputs(board: Board, run: RunRow, place: ChainPlace, host: TaskRow, outermost: TaskRow): TaskRow {
  const { ran } = stateOf(host);
  const good = goodCall(board, run, place, place.host, ran?.[place.host.ordinal]);
  let values: Values = { parameters: null, results: null };
  for (const ordinal of place.host.chain.toReversed()) {
    const node = place.plan.nodes[ordinal] as PlanNode;
    if (node.outputs === undefined || node.outputs.length === 0) continue;
    const row = node.chainIndex === 0 ? outermost : goodCall(board, run, place, node, ran?.[ordinal]);
    if (row !== null) values = copied(values, node.outputs, row, host, good);
  }
  return {
    ...host,
    params: values.parameters === null ? host.params : JSON.stringify(values.parameters),
    result: values.results === null ? (good?.result ?? "{}") : JSON.stringify(values.results),
  };
}

/** Null while nothing was written: bodies are read only where they change. */
interface Values {
  readonly parameters: unknown;
  readonly results: unknown;
}

function copied(values: Values, outputs: readonly BindingPath[], from: TaskRow, host: TaskRow, good: TaskRow | null): Values {
  const source = new TaskOutcome(from);
  let { parameters, results } = values;
  for (const { root, steps } of outputs) {
    const value = valueAt(root === "results" ? source.results : source.params, steps);
    if (value === undefined) continue;
    if (root === "results") results = withValueAt(results ?? JSON.parse(good?.result ?? "{}"), steps, value);
    else parameters = withValueAt(parameters ?? JSON.parse(host.params ?? "{}"), steps, value);
  }
  return { parameters, results };
}
