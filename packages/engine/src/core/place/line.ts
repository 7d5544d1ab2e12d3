// How a task comes to stand in a line: ready for any fitting worker, parked behind a concurrency key, or parked until its time.
// A task takes its key before it enters a line of ready tasks, and the release readies the next in the same unit.

import type { PlanNode } from "@astraflow/graph";
import type { KeyRow, Millis, RunRow, TaskId, TaskRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { RootBusy, RowsMissing } from "../board/root.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";

const keyLine = (key: string): string => `k|${key}`;

/** `<tenant>/<key>`: two tenants that choose one word never share a key. */
export const keyName = (run: RunRow, node: PlanNode): string | null =>
  node.policy.concurrency === undefined ? null : `${run.tenant}/${node.policy.concurrency.key}`;

export function queueDue(tools: Tools, node: PlanNode, now: Millis): Millis | null {
  const ms = node.policy.queueTimeoutMs ?? tools.settings.queueTimeoutMs;
  return ms === null ? null : now + ms;
}

/** A waiting, parked or newly made task gets in line: takes its key first, or parks behind it. */
export function enterLine(
  board: Board,
  tools: Tools,
  run: RunRow,
  node: PlanNode,
  task: TaskRow,
  params?: string,
  isNew = false,
): void {
  const put = (row: TaskRow) => (isNew ? board.bear(row) : board.put(row));
  const due = queueDue(tools, node, board.now);
  if (task.key !== null && !takeKey(board, task.key, node, task)) {
    put(moveTask(task, { type: "park", line: keyLine(task.key), due, params: params ?? task.params }, board.now));
    board.tell(run, "task.parked", { task: task.id, key: task.key });
    return;
  }
  put(
    moveTask(
      task,
      { type: "ready", line: tools.floor.lineOf(task.route, task.pin), due, params: params ?? task.params },
      board.now,
    ),
  );
  board.fresh.push(task.id);
}

/** True when the task holds its key now (or did already). */
function takeKey(board: Board, id: string, node: PlanNode, task: TaskRow): boolean {
  const limit = node.policy.concurrency?.limit ?? 1;
  const key = board.key(id) ?? ({ kind: "key", id, limit, holders: [], due: null } satisfies KeyRow);
  if (key.holders.includes(task.id)) return true;
  if (key.holders.length >= limit) return false;
  // The limit of the task that came last counts: a lowered limit takes effect as holders leave.
  board.put({ ...key, limit, holders: [...key.holders, task.id] });
  return true;
}

/** A task that ends, or waits for its retry, gives its key back; the next in line becomes ready in the same unit. */
export function releaseKey(board: Board, tools: Tools, task: TaskRow): void {
  if (task.key === null) return;
  const key = board.key(task.key);
  if (key === null || !key.holders.includes(task.id)) return;
  const released = { ...key, holders: key.holders.filter((holder) => holder !== task.id) };
  board.put(released);
  pumpKey(board, tools, released, 1);
}

/** Readies waiters while the key has room. A waiter whose run is busy elsewhere makes the key due at once, so nobody is forgotten. */
export function pumpKey(board: Board, tools: Tools, key: KeyRow, most: number): void {
  let now = key.due === null ? key : { ...key, due: null };
  const undecided = new Set<TaskId>();
  for (let readied = 0; now.holders.length < now.limit; readied++) {
    if (readied >= most + undecided.size) {
      now = { ...now, due: board.now };
      break;
    }
    let waiter: TaskRow | null = null;
    try {
      waiter = board.headOf(keyLine(now.id), undecided);
      if (waiter === null) break;
      const run = board.run(waiter.run);
      if (run === null) throw new Error(`task ${waiter.id} has no run`);
      const node = tools.plans.nodeOf(board, run, waiter);
      now = { ...now, holders: [...now.holders, waiter.id] };
      board.put(
        moveTask(
          waiter,
          {
            type: "ready",
            line: tools.floor.lineOf(waiter.route, waiter.pin),
            due: queueDue(tools, node, board.now),
            params: waiter.params,
          },
          board.now,
        ),
      );
      board.fresh.push(waiter.id);
    } catch (problem) {
      if (problem instanceof RootBusy) {
        now = { ...now, due: board.now };
        break;
      }
      // A waiter whose run cannot be read keeps its place and never the key: those behind it, and whoever releases, go on.
      if (problem instanceof RowsMissing || waiter === null) throw problem;
      undecided.add(waiter.id);
    }
  }
  board.put(now);
}

/** A task taken back from its holder without a verdict stands in line again, under a new fence, its key kept. */
export function requeue(board: Board, tools: Tools, node: PlanNode, task: TaskRow): TaskRow {
  const due = queueDue(tools, node, board.now);
  const moved = moveTask(task, { type: "requeue", line: tools.floor.lineOf(task.route, task.pin), due }, board.now);
  const back = tools.forgetsFence ? { ...moved, fence: task.fence } : moved;
  board.put(back);
  board.fresh.push(back.id);
  return back;
}
