// What is inside a frame or a container, and how it is ended early: everything open is cancelled, at once or some a turn when it is much,
// then the host itself ends as it was told to. Which host is ended, and why, is decided elsewhere.

import type { FaultData } from "../../effect.ts";
import type { RunRow, TaskId, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { RowsMissing } from "../board/root.ts";
import { needAddresses } from "../place/post.ts";
import { around, insideOf, isTop, lastStep, type Slot, slotOf, taskAt } from "../rows/slot.ts";
import { type Ending, type LoopState, stateOf, withState } from "../rows/state.ts";
import { isEnded, moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { buryTask, isFinal } from "../word/letter.ts";
import { isCalled } from "./params.ts";
import type { Flow } from "./reach.ts";
import { cancelTask, errorText } from "./sweep.ts";

/** Many tasks of a run; those that are not loaded are asked for together, so that it costs one round and not one a task. */
export function tasksAt(board: Board, ids: readonly TaskId[]): (TaskRow | null)[] {
  const missing: RowsMissing[] = [];
  const found = ids.map((id) => {
    try {
      return board.task(id);
    } catch (problem) {
      if (!(problem instanceof RowsMissing)) throw problem;
      missing.push(problem);
      return null;
    }
  });
  if (missing.length > 0)
    throw new RowsMissing(
      missing.flatMap(({ rows }) => rows),
      [],
    );
  return found;
}

/** A frame or container around this slot has ended or is being ended: whatever ends here leads nowhere, and nothing is born any more. */
export function isDoomed(board: Board, run: RunRow, slot: Slot): boolean {
  if (isTop(slot)) return false;
  const ids = around(slot).map((one) => taskAt(run.id, one));
  return tasksAt(board, ids).some((row) => row === null || isEnded(row) || stateOf(row).ending !== undefined);
}

/** A frame or a container ends as `ending` says, once nothing inside is open any more. */
export function endHost(board: Board, tools: Tools, run: RunRow, host: TaskRow, ending: Ending, flow: Flow): void {
  const doomed = withState(host, { ending });
  board.put(doomed);
  sweepHost(board, tools, run, doomed, ending, flow);
}

/** Goes on with ending a host: another part of what is inside, then the host itself. */
export function sweepHost(board: Board, tools: Tools, run: RunRow, host: TaskRow, ending: Ending, flow: Flow): void {
  if (!sweepInside(board, tools, run, host, ending, whyOf(host, ending), flow)) return;
  const over = overAs(host, ending, board.now);
  board.put(over);
  // The end is a task's last word.
  if (ending.verdict === "failed") buryOwn(board, tools, run, over, ending.error);
  tellOver(board, run, over, ending);
  flow.next.push({ type: "ended", row: over });
}

/**
 * Cancels what is inside a hosting container and leaves the row itself, still hosting, to the caller. False: there is more than a turn
 * may hold; the rest follows, and then the row ends as cancelled.
 */
export function cancelInside(board: Board, tools: Tools, run: RunRow, host: TaskRow, why: FaultData, flow: Flow): boolean {
  const ending: Ending = { verdict: "cancelled", error: why };
  const doomed = withState(host, { ending });
  board.put(doomed);
  return sweepInside(board, tools, run, doomed, ending, why, flow);
}

/**
 * True when nothing inside is open any more; else the host is due for the next part. The host is on the board as ending: a key that is
 * released here may ready its next. A pass that took several turns is made again until it finds nothing: what was not reached yet
 * may have called or opened more meanwhile.
 */
function sweepInside(
  board: Board,
  tools: Tools,
  run: RunRow,
  host: TaskRow,
  ending: Ending,
  why: FaultData,
  flow: Flow,
): boolean {
  const { after, last } = insideOf(slotOf(host));
  const from = ending.cursor ?? taskAt(run.id, after);
  const found = board.openTasksIn(run.id, from, taskAt(run.id, last), tools.settings.sweepTasksMax);
  needAddresses(board, tools, found.tasks);
  for (const { id } of found.tasks) {
    cancelTask(board, tools, run, board.task(id) as TaskRow, why);
    flow.opened -= 1;
  }
  const isBusy = ending.isBusy === true || found.tasks.length > 0;
  if (found.last === null && (ending.cursor === undefined || !isBusy)) return true;
  const { verdict, error } = ending;
  const further: Ending = { verdict, error, ...(found.last !== null && { cursor: found.last, isBusy }) };
  board.put(withState({ ...host, due: board.now }, { ending: further }));
  return false;
}

/** A container that failed by itself and not by a task inside, which has its own letter, is a dead letter too. */
function buryOwn(board: Board, tools: Tools, run: RunRow, host: TaskRow, error: FaultData | null): void {
  if (error === null || lastStep(slotOf(host)).frame !== null) return;
  const plan = tools.plans.of(board, run);
  const cause = String(error.details?.["task"] ?? host.id);
  // What failed inside has a letter of its own, unless this container might have tried it again.
  if (cause !== host.id && isFinal(plan, slotOf({ id: cause, run: run.id }))) return;
  const node = tools.plans.nodeOf(board, run, host);
  if (!isCalled(node, host) && isFinal(plan, slotOf(host))) buryTask(board, run, node, host, error);
}

const whyOf = (host: TaskRow, { verdict }: Ending): FaultData => ({
  code: "E.RUNNER.CANCELLED",
  message: `${host.id} around it is ${verdict === "failed" ? "failing" : verdict}`,
});

function overAs(host: TaskRow, { verdict, error }: Ending, now: number): TaskRow {
  // Whoever looks later sees how far it came; what was gathered or still to be reached is of no use any more.
  const { loop, frame } = stateOf(host);
  const kept = withState(host, {
    ending: undefined,
    loop: loop && withoutItems(loop),
    frame: frame && { index: frame.index, tries: frame.tries },
  });
  if (verdict === "skipped") return moveTask(kept, { type: "skip", result: "{}" }, now);
  const text = error === null ? null : errorText(error);
  if (verdict === "cancelled") return moveTask(kept, { type: "cancel", error: text }, now);
  return moveTask(kept, { type: "fail", error: text ?? "{}", result: null }, now);
}

export function withoutItems({ items: _, ...loop }: LoopState): LoopState {
  return loop;
}

function tellOver(board: Board, run: RunRow, row: TaskRow, { verdict, error }: Ending): void {
  const { frame } = stateOf(row);
  if (frame !== undefined && lastStep(slotOf(row)).frame !== null)
    board.tell(run, "frame.ended", { task: row.id, index: frame.index, status: verdict, ...(error !== null && { error }) });
  else
    board.tell(run, `task.${verdict}`, {
      task: row.id,
      fence: row.fence,
      worker: null,
      ...((verdict === "failed" || error !== null) && { error }),
    });
}
