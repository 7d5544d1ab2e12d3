// A middleware asks for the next of its chain: passed on, changed, asked for again, or refused with the reason. A repeat of a request is
// answered from the caller's row and runs nothing twice.

import type { PlanNode } from "@astraflow/graph";
import type { Fault } from "@astraflow/protocol";
import type { NextTask } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type RunRow, runOf, type TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Seat } from "../crew/floor.ts";
import { isDoomed } from "../flow/inside.ts";
import { calledParams } from "../flow/params.ts";
import { newFlow, paramsIn } from "../flow/reach.ts";
import { follow } from "../flow/settle.ts";
import { keyName } from "../place/line.ts";
import { isRunEnded } from "../rows/run.ts";
import { callOf, slotIn, slotOf, taskAt } from "../rows/slot.ts";
import { type Call, stateOf, withState } from "../rows/state.ts";
import type { Tools } from "../tools.ts";
import { type Standing, standing } from "../word/word.ts";
import { tellNext } from "./answer.ts";
import { openCalls, openCallsMax, withCalls, wordsFor } from "./calls.ts";
import { type ChainPlace, chainOf, enterCall } from "./chain.ts";
import { setWaiting } from "./waits.ts";

/** How often one node of a chain is run for one reach of its host: a middleware that never stops asking must not fill the store. */
const callsMax = 10_000;
/** Calls of one chain that may be open at once: all of them are stopped in one turn when the outermost is over. */
const inCallMax = 500;

const applied: AnswerBody = { of: "word", applied: true };
const repeated: AnswerBody = { of: "word", applied: false };

export function hearNext(board: Board, tools: Tools, word: NextTask): AnswerBody | Fault {
  const over = whyOver(board, tools, word);
  if (over !== null) return over;
  const found = standing(board, tools, word);
  if (found === "ended") return repeated;
  if (!("task" in found)) return found;
  board.move({ move: "ack", worker: word.worker, task: word.task, fence: found.task.fence, stored: false });
  const known = stateOf(found.task).calls?.find((call) => isSame(call, found, word));
  if (known !== undefined) return again(board, tools, found, known);
  return ask(board, tools, word, found);
}

/** Request ids count within one process of a worker: another one's, or another attempt's, is another request. */
const isSame = (call: Call, { task, seat }: Standing, word: NextTask): boolean =>
  call.request === word.request && call.boot === seat.boot && call.fence === task.fence;

/** The caller's own attempt, or the whole run, is over: said as an answer, because a worker that waits listens for nothing else. */
function whyOver(board: Board, tools: Tools, word: NextTask): AnswerBody | null {
  const seat = tools.floor.seatOf(word.worker, word.session);
  const run = seat === null ? null : board.run(runOf(word.task));
  const task = run === null || run.tenant !== word.tenant ? null : board.task(word.task);
  if (seat === null || run === null || task === null || task.worker !== word.worker) return null;
  if (word.fence !== null && task.fence !== word.fence) return null;
  if (isRunEnded(run) || run.phase === "ending")
    return refuse(board, tools, run, seat, word, task, "next_run_finalised", `run ${run.id} is ${run.phase}`);
  if (task.phase === "leased") return null;
  return refuse(board, tools, run, seat, word, task, "next_unavailable", `task ${task.id} is ${task.phase}; its attempt is over`);
}

/** Nothing is stored of a refusal: the same request may be good a moment later. */
function refuse(
  board: Board,
  tools: Tools,
  run: RunRow,
  seat: Seat,
  word: NextTask,
  task: TaskRow,
  code: string,
  message: string,
): AnswerBody {
  const { id } = tools.plans.nodeOf(board, run, task);
  tellNext(board, seat, task, id, { request: word.request, result: null, error: { code, message }, trace: {} });
  board.count("next_refused_total", { code });
  return applied;
}

/** The same request again: answered as it was, or still waiting. */
function again(board: Board, tools: Tools, { run, task, seat }: Standing, call: Call): AnswerBody {
  if (call.answer !== undefined) {
    const { id } = tools.plans.nodeOf(board, run, task);
    tellNext(board, seat, task, id, wordsFor(tools, call, board.task(call.target), call.answer.code, call.answer.message ?? ""));
  }
  return repeated;
}

function ask(board: Board, tools: Tools, word: NextTask, found: Standing): AnswerBody {
  const { run, task, seat } = found;
  const node = tools.plans.nodeOf(board, run, task);
  const no = (code: string, message: string) => refuse(board, tools, run, seat, word, task, code, message);
  if (node.host === null || node.chainIndex === null) return no("next_no_chain", `node "${node.label}" is no middleware`);
  const place = chainOf(board, tools, run, task);
  if (place.host.chain[node.chainIndex] !== node.ordinal)
    return no("next_invalid_chain", `node "${node.label}" is not at place ${node.chainIndex} of its chain`);
  if (isDoomed(board, run, slotOf(task))) return no("next_cancelled", `what surrounds task ${task.id} is being ended`);
  const host = board.task(taskAt(run.id, slotIn(place.scope, place.host.ordinal)));
  if (host?.phase !== "hosting")
    return no("next_target_not_ready", `host "${place.host.label}" is ${host?.phase ?? "not there"}`);
  if (openCalls(task).length >= openCallsMax)
    return no("next_unavailable", `task ${task.id} has ${openCallsMax} calls open already; wait for one of them`);
  const target: PlanNode | undefined = place.plan.nodes[place.host.chain[node.chainIndex + 1] ?? place.host.ordinal];
  if (target === undefined) return no("next_invalid_chain", `the chain of "${place.host.label}" ends in nothing`);
  if ((stateOf(host).called?.[target.ordinal] ?? 0) >= callsMax)
    return no("next_unavailable", `"${target.label}" was called ${callsMax} times already`);
  if ((stateOf(host).inCall ?? 0) >= inCallMax)
    return no("next_unavailable", `the chain of "${place.host.label}" has ${inCallMax} calls open already; wait for one of them`);
  const isHost = target.ordinal === place.host.ordinal;
  const base = isHost ? (host.params ?? "{}") : paramsIn(board, tools, run, place.scope, target);
  const params = calledParams(base, task.params, word);
  if (params === null) return no("next_unavailable", `the payload for "${target.label}" is larger or deeper than a node may get`);
  call(board, tools, word, found, { place, host, node, target, params });
  return applied;
}

interface Calling {
  readonly place: ChainPlace;
  readonly host: TaskRow;
  /** Who asks, and who is asked for. */
  readonly node: PlanNode;
  readonly target: PlanNode;
  readonly params: string;
}

function call(board: Board, tools: Tools, word: NextTask, { run, task, seat }: Standing, calling: Calling): void {
  const { place, host, node, target, params } = calling;
  const { called } = stateOf(host);
  const number = (called?.[target.ordinal] ?? 0) + 1;
  const inCall = (stateOf(host).inCall ?? 0) + 1;
  board.put(withState(host, { called: { ...called, [target.ordinal]: number }, inCall }));
  const slot = callOf(slotIn(place.scope, target.ordinal), number);
  const id = taskAt(run.id, slot);
  const due = word.timeoutMs === null ? null : board.now + word.timeoutMs;
  const asked: Call = {
    request: word.request,
    boot: seat.boot,
    fence: task.fence,
    target: id,
    askedAt: board.now,
    due,
  };
  board.put(withCalls(tools, node, task, [...(stateOf(task).calls ?? []), asked]));
  setWaiting(board, tools, task, true);
  board.tell(run, "next.asked", { task: task.id, request: word.request, target: id });
  const caller = { task: task.id, fence: task.fence, request: word.request };
  const flow = newFlow();
  const heldKeys = keysAbove(run, calling);
  enterCall(board, tools, run, { slot, node: target, params, state: { caller }, heldKeys }, flow);
  follow(board, tools, run.id, flow);
}

/** Keys that the callers up the chain hold: what they call runs under them. */
function keysAbove(run: RunRow, { place, node }: Calling): Set<string> {
  const above = place.host.chain.slice(0, (node.chainIndex ?? 0) + 1).map((ordinal) => place.plan.nodes[ordinal]);
  return new Set(above.flatMap((one) => (one === undefined ? [] : (keyName(run, one) ?? []))));
}
