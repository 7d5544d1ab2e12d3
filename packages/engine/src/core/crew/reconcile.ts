// What the store thinks a worker runs against what its session says: the attempts that a join keeps, takes back or tells to stop.

import type { Held, JoinWorker } from "../../command.ts";
import { runKey, runOf, type TaskId, type TaskRow, taskKey, type WorkerRow } from "../../rows.ts";
import { isQuiet } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import { openCalls, tellOwed } from "../chain/calls.ts";
import { type Loss, takeBack } from "../flow/end.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import type { Hold } from "./floor.ts";

/** A worker holds no more than it has slots for; a join settles all of them in one unit. */
export const heldMax = 4096;

interface Joining {
  readonly order: JoinWorker;
  readonly before: WorkerRow | null;
  readonly boot: string;
  readonly epoch: number;
}

export function reconcile(board: Board, tools: Tools, joining: Joining): Map<TaskId, Hold> {
  const { order, before, boot, epoch } = joining;
  const held = new Map<TaskId, Hold>();
  const reported = new Map(order.running?.map((one) => [one.task, one.fence]));
  const loss: Loss = { unacked: false, code: "E.WORKER.LOST", message: `worker ${order.name} came back without it` };
  const known = before === null ? [] : board.heldBy(order.worker, heldMax);
  board.need(known.flatMap((id) => [taskKey(id), runKey(runOf(id))]));
  for (const id of known) {
    const task = board.task(id);
    if (task === null || task.phase !== "leased" || task.worker !== order.worker) continue;
    const run = board.run(task.run);
    if (run === null) continue;
    // A run that is ending is swept soon: until then the attempt counts as held, and the sweep tells the worker to stop it.
    if (run.phase !== "ending" && !keeps(joining, reported, task)) {
      takeBack(board, tools, run, task, loss);
      continue;
    }
    const acked = isAcked(board, tools, order, task);
    const node = tools.plans.nodeOf(board, run, task);
    const bound = moveTask(task, { type: "rebind", boot, epoch, acked }, board.now);
    board.put(tellOwed(board, tools, run, bound, order));
    // A resumed session is the same one: for whoever reads the run's log nothing has changed, but that an ack is stored with it.
    if (order.resumed === undefined) board.tell(run, "task.rebound", { task: id, fence: task.fence, worker: task.worker });
    else if (bound.acked && !task.acked)
      board.tell(run, "task.running", { task: id, fence: task.fence, worker: task.worker, attempt: task.attempt });
    held.set(id, {
      task: id,
      run: task.run,
      fence: task.fence,
      nodeType: node.type,
      // What a resumed session still owes an ack for gets its whole deadline anew: the frame goes again on the new socket.
      grantedAt: acked ? (task.grantedAt ?? board.now) : board.now,
      acked,
      stored: acked,
      recheckFrom: isQuiet(order.about.dialect) ? board.now : null,
      isRunningOlder: false,
      isWaiting: openCalls(task).length > 0,
    });
  }
  for (const [task, fence] of reported) if (!held.has(task)) stopStranger(board, order, { task, fence });
  // Taken back while the session had no socket: its dispatch still waits there, and must not go out on the new one.
  for (const one of order.resumed?.unacked ?? []) if (held.get(one.task)?.fence !== one.fence) stopStranger(board, order, one);
  return held;
}

function keeps({ order, before, boot }: Joining, reported: ReadonlyMap<TaskId, number>, task: TaskRow): boolean {
  // Nothing was lost between the two ends of a resumed session.
  if (order.resumed !== undefined) return task.boot === boot;
  // One that cannot report is asked by its boot, while its lease lasts.
  if (order.running === null) return task.boot === boot && before?.phase !== "lost";
  // A new process may name an attempt of the last one whose outcome it found in its outbox.
  return reported.get(task.id) === task.fence;
}

/**
 * Whether the worker has the dispatch. What a full join keeps it has named, or will be asked about. On a resumed session the seat knows
 * best, while it is there: a dispatch may have been sent after the door looked which ones are unacked.
 */
function isAcked(board: Board, tools: Tools, { resumed, worker, session }: JoinWorker, { id, fence }: TaskRow): boolean {
  if (resumed === undefined) return true;
  const hold = tools.floor.seatOf(worker, session)?.held.get(id);
  if (hold?.fence !== fence) return !resumed.unacked.some((one) => one.task === id && one.fence === fence);
  return hold.acked || board.moves.some((move) => move.move === "ack" && move.task === id && move.fence === fence);
}

/** The worker names an attempt that is not its own any more. */
export function stopStranger(
  board: Board,
  order: { readonly session: string; readonly worker: string; readonly tenant: string },
  one: Held,
): void {
  board.effect({
    type: "stop",
    session: order.session,
    worker: order.worker,
    tenant: order.tenant,
    run: runOf(one.task),
    task: one.task,
    fence: one.fence,
    code: "E.SESSION.STALE_BINDING",
    reason: "this attempt is no longer yours",
  });
}
