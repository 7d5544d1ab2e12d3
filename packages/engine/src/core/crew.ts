// Workers coming, beating, changing, leaving; the lease of their boot; and what becomes of the attempts they held.

import { type Fault, fault } from "@astraflow/protocol";
import type { BeatWorker, DescribeWorker, DrainWorker, Held, JoinWorker, LeaveWorker } from "../command.ts";
import type { AnswerBody } from "../effect.ts";
import { runKey, runOf, type TaskId, type TaskRow, taskKey, type WorkerRow, workerKey } from "../rows.ts";
import type { Board } from "./board.ts";
import { dropStaleHold, type Loss, takeBack } from "./end.ts";
import type { Hold } from "./floor.ts";
import { ordinalOf } from "./line.ts";
import { postDrain, postReset, stopHold } from "./post.ts";
import { moveTask } from "./task.ts";
import type { Tools } from "./tools.ts";
import { moveWorker, stepWorker } from "./worker.ts";

/** A worker holds no more than it has slots for; a join settles all of them in one unit. */
export const heldMax = 4096;

/** A worker's session is up. What it reports running under the current fence it keeps; everything else it held goes back at once. */
export function joinWorker(board: Board, tools: Tools, order: JoinWorker): AnswerBody | Fault {
  const { floor, settings } = tools;
  const before = board.worker(order.worker);
  const first: WorkerRow = before ?? {
    kind: "worker",
    id: order.worker,
    tenant: order.tenant,
    name: order.name,
    phase: "away",
    boot: order.boot,
    epoch: 0,
    replica: tools.me.replica,
    replicaEpoch: tools.me.epoch,
    draining: false,
    joinedAt: board.now,
    seenAt: board.now,
    due: null,
    about: "{}",
  };
  const worker = moveWorker(
    first,
    {
      type: "join",
      name: order.name,
      boot: order.boot,
      replica: tools.me.replica,
      replicaEpoch: tools.me.epoch,
      about: JSON.stringify(order.about),
      leaseMs: settings.leaseMs,
    },
    board.now,
  );
  board.put(worker);
  board.say(order.tenant, workerKey(worker.id), "worker.joined", {
    name: worker.name,
    boot: worker.boot,
    epoch: worker.epoch,
    slots: order.about.slots,
  });
  const old = floor.seats.get(order.worker);
  if (old !== undefined && old.session !== order.session)
    board.effect({
      type: "reset",
      session: old.session,
      worker: old.worker,
      code: "E.SESSION.SUPERSEDED",
      reason: "superseded session",
    });
  if (before !== null && before.phase === "online")
    postReset(board, tools, before, { code: "E.SESSION.SUPERSEDED", reason: "superseded session" });
  const held = reconcile(board, tools, order, before);
  board.move({
    move: "sit",
    seat: {
      worker: order.worker,
      tenant: order.tenant,
      name: order.name,
      session: order.session,
      boot: order.boot,
      epoch: worker.epoch,
      about: order.about,
      draining: worker.draining,
      healthy: true,
      liveness: "fresh",
      beatAt: board.now,
      held,
    },
  });
  return {
    of: "join",
    epoch: worker.epoch,
    leaseMs: settings.leaseMs,
    heartbeatMs: settings.heartbeatMs,
    draining: worker.draining,
  };
}

/** Compares what the store thinks this worker runs with what it says it runs. */
function reconcile(board: Board, tools: Tools, order: JoinWorker, before: WorkerRow | null): Map<TaskId, Hold> {
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
    // A new process may name an attempt of the last one whose outcome it found in its outbox; one that cannot report is asked by its boot.
    const isNamed = order.running === null ? task.boot === order.boot : reported.get(id) === task.fence;
    const keeps = run.phase === "ending" || isNamed;
    if (!keeps) {
      takeBack(board, tools, run, task, loss);
      continue;
    }
    const node = tools.plans.node(board, run, ordinalOf(task));
    board.put(moveTask(task, { type: "rebind", boot: order.boot, epoch: (before?.epoch ?? 0) + 1 }, board.now));
    board.tell(run, "task.rebound", { task: id, fence: task.fence, worker: task.worker });
    held.set(id, {
      task: id,
      run: task.run,
      fence: task.fence,
      nodeType: node.type,
      grantedAt: task.grantedAt ?? board.now,
      acked: true,
      stored: true,
    });
  }
  for (const [task, fence] of reported) if (!held.has(task)) stopStranger(board, order, { task, fence });
  return held;
}

/** The worker names an attempt that is not its own any more. */
function stopStranger(
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

const unknownSession = (worker: string): Fault =>
  fault("E.SESSION.STALE_BINDING", `worker ${worker} has no such session here; handshake again`);

/** One write renews the lease of everything the boot holds; only differences touch attempts. */
export function beatWorker(board: Board, tools: Tools, order: BeatWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(order.worker, order.session);
  const row = seat === null ? null : board.worker(order.worker);
  if (seat === null || row === null) return unknownSession(order.worker);
  const moved = stepWorker(row, { type: "beat", leaseMs: tools.settings.leaseMs }, board.now);
  if (!("kind" in moved) || row.epoch !== seat.epoch) {
    board.move({ move: "rise", worker: seat.worker, session: seat.session });
    return unknownSession(order.worker);
  }
  board.put(moved);
  if (seat.liveness !== "fresh")
    board.say(seat.tenant, workerKey(seat.worker), "worker.liveness", { from: seat.liveness, to: "fresh" });
  board.move({ move: "beat", worker: seat.worker, at: board.now, healthy: order.healthy });
  // Drained or undrained through another scheduler: the row says so, this floor does not know yet.
  if (row.draining !== seat.draining) {
    board.move({ move: "drain", worker: seat.worker, on: row.draining });
    board.effect({ type: "drain", session: seat.session, worker: seat.worker, on: row.draining, reason: "asked elsewhere" });
  }
  // What the rows no longer show as this worker's was ended or taken back by another scheduler, whose mail may not have come.
  const leased = new Set(board.heldBy(seat.worker, heldMax));
  for (const hold of seat.held.values())
    if (!leased.has(hold.task))
      stopHold(board, seat, hold.task, hold.fence, {
        code: "E.SESSION.STALE_BINDING",
        reason: "this attempt is no longer yours",
      });
  if (order.held === null) return { of: "worker", worker: seat.worker, draining: row.draining };
  const named = new Map(order.held.map((one) => [one.task, one.fence]));
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
  for (const one of order.held) if (seat.held.get(one.task)?.fence !== one.fence) stopStranger(board, order, one);
  return { of: "worker", worker: seat.worker, draining: row.draining };
}

export function describeWorker(board: Board, tools: Tools, order: DescribeWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(order.worker, order.session);
  const row = seat === null ? null : board.worker(order.worker);
  if (seat === null || row === null) return unknownSession(order.worker);
  const moved = stepWorker(row, { type: "describe", about: JSON.stringify(order.about) }, board.now);
  if (!("kind" in moved)) return moved;
  board.put(moved);
  board.say(seat.tenant, workerKey(seat.worker), "worker.described", {
    packages: order.about.packages.length,
    slots: order.about.slots,
  });
  board.move({ move: "describe", worker: seat.worker, about: order.about });
  return { of: "worker", worker: seat.worker, draining: row.draining };
}

/** The socket is gone; the lease runs on, and so may the work. */
export function leaveWorker(board: Board, tools: Tools, order: LeaveWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(order.worker, order.session);
  if (seat === null) return { of: "word", applied: false };
  board.move({ move: "rise", worker: seat.worker, session: seat.session });
  const row = board.worker(order.worker);
  if (row !== null && row.phase === "online" && row.epoch === seat.epoch) {
    board.put(moveWorker(row, { type: "leave" }, board.now));
    board.say(seat.tenant, workerKey(seat.worker), "worker.left", { reason: order.reason, held: seat.held.size });
  }
  return { of: "word", applied: true };
}

export function drainWorker(board: Board, tools: Tools, order: DrainWorker): AnswerBody | Fault {
  const row = board.worker(order.worker);
  if (row === null || row.tenant !== order.tenant)
    return fault("E.NOT_FOUND", `worker ${order.worker.slice(order.tenant.length + 1)} does not exist`);
  if (row.draining !== order.on) {
    board.put(moveWorker(row, { type: "drain", on: order.on }, board.now));
    board.say(order.tenant, workerKey(row.id), order.on ? "worker.draining" : "worker.undrained", { by: order.by });
    board.move({ move: "drain", worker: row.id, on: order.on });
    const seat = tools.floor.seats.get(row.id);
    // A seat from before the worker moved on is nobody's any more.
    if (seat !== undefined && seat.epoch === row.epoch)
      board.effect({ type: "drain", session: seat.session, worker: row.id, on: order.on, reason: `asked by ${order.by}` });
    else postDrain(board, tools, row, `asked by ${order.by}`);
  }
  return { of: "worker", worker: row.id, draining: order.on };
}

/** The boot's lease is over. Its attempts are taken back by the sweep, some at a time; the row stays due until none is left. */
export function expireWorker(board: Board, tools: Tools, worker: WorkerRow, graceUntil: number): TaskId[] {
  if (board.now < graceUntil && worker.phase !== "lost") {
    board.put(moveWorker(worker, { type: "forgive", until: graceUntil }, board.now));
    return [];
  }
  const limit = tools.settings.sweepTasksMax;
  const held = board.heldBy(worker.id, limit);
  board.put(moveWorker(worker, { type: "expire", again: held.length === 0 ? null : board.now }, board.now));
  if (worker.phase !== "lost") {
    board.say(worker.tenant, workerKey(worker.id), "worker.lost", { boot: worker.boot, held: held.length });
    const seat = tools.floor.seats.get(worker.id);
    if (seat !== undefined) {
      board.effect({
        type: "reset",
        session: seat.session,
        worker: seat.worker,
        code: "E.SESSION.STALE_BINDING",
        reason: "lease expired",
      });
      board.move({ move: "rise", worker: seat.worker, session: seat.session });
    } else if (worker.phase === "online")
      postReset(board, tools, worker, { code: "E.SESSION.STALE_BINDING", reason: "lease expired" });
  }
  return held;
}

/** One attempt of a lost worker goes back into line. */
export function loseAttempt(board: Board, tools: Tools, id: TaskId, worker: WorkerRow): boolean {
  const task: TaskRow | null = board.task(id);
  if (task === null || task.phase !== "leased" || task.worker !== worker.id) return true;
  // Taken over meanwhile: a worker that joined again has settled its own attempts.
  if (board.worker(worker.id)?.phase !== "lost") return true;
  const run = board.run(task.run);
  if (run === null || run.phase === "ending") return false;
  takeBack(board, tools, run, task, { unacked: false, code: "E.WORKER.LOST", message: `worker ${worker.name} fell silent` });
  return true;
}
