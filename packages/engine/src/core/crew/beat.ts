// A heartbeat: one write renews the lease of everything the boot holds and says how the worker is; only differences between what it
// names, what its seat holds and what the rows show touch attempts.

import { type Fault, fault } from "@astraflow/protocol";
import type { BeatWorker } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type WorkerRow, workerKey } from "../../rows.ts";
import { paceOf, thresholdsOf } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import { takeBack } from "../flow/end.ts";
import { dropStaleHold } from "../place/holds.ts";
import { stopHold } from "../place/post.ts";
import type { Tools } from "../tools.ts";
import { closeOrders } from "./command-book.ts";
import { readCondition, readVitals, writeCondition } from "./condition.ts";
import { instanceOf, type Seat } from "./floor.ts";
import { heldMax, stopStranger } from "./reconcile.ts";
import { keptBy, showStrain, strainAfter } from "./strain.ts";
import { stepWorker } from "./worker.ts";

export const unknownSession = (worker: string): Fault =>
  fault("E.SESSION.STALE_BINDING", `worker ${worker} has no such session here; handshake again`);

export function beatWorker(board: Board, tools: Tools, order: BeatWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(order.worker, order.session);
  const row = seat === null ? null : board.worker(order.worker);
  if (seat === null || row === null) return unknownSession(order.worker);
  const limits = thresholdsOf(tools.settings, seat.tenant);
  const strain = strainAfter(keptBy(board, seat).strain, order, limits);
  const pace = paceOf(tools.settings, seat.tenant, seat.about.dialect);
  const condition = conditionAfter(board, order, row, strain);
  const moved = stepWorker(row, { type: "beat", leaseMs: pace.leaseMs, condition }, board.now);
  if (!("kind" in moved) || row.epoch !== seat.epoch) {
    board.move({ move: "rise", worker: seat.worker, session: seat.session });
    return unknownSession(order.worker);
  }
  board.put(moved);
  if (seat.liveness !== "fresh")
    board.say(seat.tenant, workerKey(seat.worker), "worker.liveness", { from: seat.liveness, to: "fresh" });
  const lateMs = Math.max(0, board.now - seat.beatAt - pace.heartbeatMs);
  board.observe("heartbeat_latency_ms", { tenant: seat.tenant }, lateMs);
  if (!order.healthy) board.count("heartbeat_degraded_total", { tenant: seat.tenant, worker: instanceOf(seat) });
  if (showStrain(board, seat, row, { said: order, strain, limits }))
    closeOrders(board, moved, ({ order: { type } }) => type === "drain" || type === "undrain");
  board.move({ move: "beat", worker: seat.worker, at: board.now, healthy: order.healthy, strain });
  // Its seat will be another after this turn; what else is decided about it in this turn must not go by the old one.
  if (strain !== seat.strain) board.changed.add(seat.worker);
  dropForeign(board, seat);
  if (order.held !== null) compareHeld(board, tools, seat, order, order.held);
  return { of: "worker", worker: seat.worker, draining: row.draining, at: board.now };
}

function conditionAfter(board: Board, order: BeatWorker, row: WorkerRow, strain: string | null): string {
  const known = readCondition(row.condition);
  const vitals = order.vitals === undefined ? known.vitals : readVitals(order.vitals);
  return writeCondition({ ...known, healthy: order.healthy, strain, vitals, beatAt: board.now });
}

/** What the rows no longer show as this worker's was ended or taken back by another scheduler, whose mail may not have come. */
function dropForeign(board: Board, seat: Seat): void {
  const leased = new Set(board.heldBy(seat.worker, heldMax));
  for (const hold of seat.held.values())
    if (!leased.has(hold.task))
      stopHold(board, seat, hold.task, hold.fence, {
        code: "E.SESSION.STALE_BINDING",
        reason: "this attempt is no longer yours",
      });
}

function compareHeld(board: Board, tools: Tools, seat: Seat, order: BeatWorker, held: NonNullable<BeatWorker["held"]>): void {
  const named = new Map(held.map((one) => [one.task, one.fence]));
  for (const hold of seat.held.values()) {
    if (named.get(hold.task) === hold.fence) continue;
    // Not named and not acked: the dispatch may still be on its way. The ack deadline looks after it.
    if (!hold.acked || board.now - hold.grantedAt < tools.settings.ackDeadlineMs) continue;
    const task = board.task(hold.task);
    const run = task === null ? null : board.run(task.run);
    if (task === null || task.phase !== "leased" || task.fence !== hold.fence || task.worker !== seat.worker)
      dropStaleHold(board, seat, hold.task, hold.fence);
    else if (run !== null && run.phase !== "ending")
      takeBack(board, tools, run, task, {
        unacked: false,
        code: "E.WORKER.LOST",
        message: `worker ${seat.name} no longer names it`,
      });
  }
  for (const one of held) if (seat.held.get(one.task)?.fence !== one.fence) stopStranger(board, order, one);
}
