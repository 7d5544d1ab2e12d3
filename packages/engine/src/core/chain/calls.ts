// What a middleware asked of the next of its chain, as its row keeps it, and how it hears the answer: at its session here, or by mail
// where another scheduler holds its socket. Who calls whom, and what an end means for the chain, is chain.ts.

import type { PlanNode } from "@astraflow/graph";
import type { Millis, RunRow, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Seat } from "../crew/floor.ts";
import { attemptTimeoutMs } from "../place/dispatch.ts";
import { postNext, type Why } from "../place/post.ts";
import { lastStep, slotOf } from "../rows/slot.ts";
import { type Call, stateOf, withState } from "../rows/state.ts";
import type { Tools } from "../tools.ts";
import { type NextWords, tellNext } from "./answer.ts";
import { seatIn, setWaiting } from "./waits.ts";

/** Calls that one attempt may have open at once. As many answered ones are kept: no more can have been lost on the way to its worker. */
export const openCallsMax = 64;

const isOpen = (call: Call): boolean => call.answer === undefined;

/** Calls of the present attempt that wait for their answer. */
export function openCalls(task: TaskRow): readonly Call[] {
  if (task.state === null || task.phase !== "leased") return [];
  return stateOf(task).calls?.filter((call) => isOpen(call) && call.fence === task.fence) ?? [];
}

/** The row of a caller with these calls: all that are open, the last of those that were answered, and the deadline that follows. */
export function withCalls(tools: Tools, node: PlanNode, task: TaskRow, calls: readonly Call[]): TaskRow {
  const answered = calls.filter((call) => !isOpen(call)).slice(-openCallsMax);
  const kept = calls.filter((call) => isOpen(call) || answered.includes(call));
  return { ...withState(task, { calls: kept.length === 0 ? undefined : kept }), due: leasedDue(tools, node, task, kept) };
}

/** A leased row is due when its attempt must be over or the first of its open calls is. */
function leasedDue(tools: Tools, node: PlanNode, task: TaskRow, calls: readonly Call[]): Millis | null {
  let due = attemptDue(tools, node, task);
  for (const call of calls) if (isOpen(call) && call.due !== null && (due === null || call.due < due)) due = call.due;
  return due;
}

/** When the attempt must be over, whatever it waits for. */
export function attemptDue(tools: Tools, node: PlanNode, task: TaskRow): Millis | null {
  const timeoutMs = attemptTimeoutMs(tools, node);
  return timeoutMs === null || task.grantedAt === null ? null : task.grantedAt + timeoutMs;
}

/** As people know it, where it sits here; else by its instance id. Its tenant is nobody's business on the wire. */
const nameOf = (floor: Tools["floor"], worker: string): string =>
  floor.seats.get(worker)?.name ?? worker.slice(worker.indexOf("/") + 1);

/** The answer as its words: what the target left, or why there is nothing. */
export function wordsFor({ floor }: Tools, call: Call, target: TaskRow | null, code: string | null, message: string): NextWords {
  const trace = {
    task: call.target,
    status: target?.phase ?? null,
    attempts: target?.attempt ?? 0,
    call: target === null ? null : lastStep(slotOf(target)).call,
    worker: target === null || target.worker === null ? null : nameOf(floor, target.worker),
    askedAt: call.askedAt,
    endedAt: target?.endedAt ?? null,
  };
  return {
    request: call.request,
    result: code === null ? (target?.result ?? "{}") : null,
    error: code === null ? null : { code, message },
    trace,
  };
}

/** One open call of a leased caller is answered: stored in its row, told in the log, sent. */
export function answerCall(
  board: Board,
  tools: Tools,
  run: RunRow,
  caller: TaskRow,
  call: Call,
  target: TaskRow | null,
  refusal: { readonly code: string; readonly message: string } | null,
): TaskRow {
  const node = tools.plans.nodeOf(board, run, caller);
  const code = refusal?.code ?? null;
  const others = (stateOf(caller).calls ?? []).filter((one) => one !== call);
  const isWaiting = others.some((one) => isOpen(one) && one.fence === caller.fence);
  const isTold = sendNext(board, tools, caller, node.id, wordsFor(tools, call, target, code, refusal?.message ?? ""), isWaiting);
  const answer = {
    code,
    ...(refusal === null ? {} : { message: refusal.message }),
    ...(isTold ? {} : { isOwed: true as const }),
  };
  const answered = withCalls(tools, node, caller, [...others, { ...call, due: null, answer }]);
  board.put(answered);
  if (!isWaiting) setWaiting(board, tools, caller, false);
  board.tell(run, "next.answered", {
    task: caller.id,
    request: call.request,
    target: call.target,
    code,
    ms: board.now - call.askedAt,
  });
  return answered;
}

/** True when a session of this floor is told; else it goes by mail, and the row must remember that it is owed. */
function sendNext(board: Board, tools: Tools, caller: TaskRow, node: string, words: NextWords, isWaiting: boolean): boolean {
  const seat = caller.worker === null ? null : seatIn(board, tools, caller.worker);
  if (seat !== null && seat.held.get(caller.id)?.fence === caller.fence) {
    tellNext(board, seat, caller, node, words);
    return true;
  }
  postNext(board, tools, caller, { node, isWaiting, ...words });
  return false;
}

/** The attempt is taken from its worker, who may wait for answers that will never come. The rows are the caller's business. */
export function refuseOpenCalls(board: Board, tools: Tools, task: TaskRow, why: Why): void {
  const open = openCalls(task);
  if (open.length === 0) return;
  const run = board.run(task.run);
  if (run === null) throw new Error(`task ${task.id} has no run`);
  const { id } = tools.plans.nodeOf(board, run, task);
  for (const call of open) sendNext(board, tools, task, id, wordsFor(tools, call, null, "next_cancelled", why.reason), false);
}

/** Answers that no session has heard: the worker is back, and is told now. */
export function tellOwed(
  board: Board,
  tools: Tools,
  run: RunRow,
  task: TaskRow,
  seat: Pick<Seat, "session" | "worker" | "tenant">,
): TaskRow {
  const calls = stateOf(task).calls ?? [];
  if (!calls.some((call) => call.answer?.isOwed === true)) return task;
  const node = tools.plans.nodeOf(board, run, task);
  for (const call of calls) {
    if (call.answer?.isOwed !== true) continue;
    const words = wordsFor(tools, call, board.task(call.target), call.answer.code, call.answer.message ?? "");
    board.effect({ type: "next", ...pick(seat), run: task.run, task: task.id, node: node.id, ...words });
  }
  return withState(task, { calls: calls.map(paid) });
}

const pick = ({ session, worker, tenant }: Pick<Seat, "session" | "worker" | "tenant">) => ({ session, worker, tenant });

function paid(call: Call): Call {
  if (call.answer === undefined) return call;
  const { isOwed: _, ...answer } = call.answer;
  return { ...call, answer };
}
