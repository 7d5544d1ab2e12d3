// Placement: which of the tasks at the heads of their lines goes to which seat. Fairness is the order of the line (band, rank), so this
// only walks it; a task that became ready in this turn is granted at once when nobody stands before it.

import type { PlanNode } from "@astraflow/graph";
import type { Command } from "../../command.ts";
import { type Line, type RunRow, runOf, type TaskId, type TaskRow, type WorkerId, type WorkerRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { type Attempt, RootBusy } from "../board/root.ts";
import { type Air, busyOf, clearAir, type FloorMove, type Hold, type Seat } from "../crew/floor.ts";
import { failTask } from "../flow/end.ts";
import { unwantedAt } from "../flow/marks.ts";
import { moveRun } from "../rows/run.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { boundWorker } from "./bindings.ts";
import { attemptTimeoutMs, chainFlaw, sendDispatch } from "./dispatch.ts";
import { bindTask, withGrant } from "./pins.ts";
import { type Needs, routeOf } from "./route.ts";

/** Seats looked at beyond the first free one, to even out load without walking the whole fleet. */
const seatProbesMax = 4;

/** What of this turn bears on a seat's room. */
interface Changes {
  readonly slots: ReadonlyMap<WorkerId, number>;
  readonly moves: readonly FloorMove[];
}

const none: readonly Hold[] = [];

/** How many more tasks of this node type the seat can take now, this turn's grants and ends counted in. */
function roomFor(changes: Changes, air: Air, seat: Seat, nodeType: string): number {
  if (seat.draining || seat.strain !== null || !seat.healthy || air.unsure.has(seat.worker)) return 0;
  const coming = air.holds.get(seat.worker) ?? none;
  const free = seat.about.slots - busyOf(seat) - coming.length + (changes.slots.get(seat.worker) ?? 0);
  const limit = seat.about.perNodeLimits?.[nodeType];
  if (limit === undefined || free <= 0) return Math.max(0, free);
  return Math.max(0, Math.min(free, limit - countOf(changes, coming, seat, nodeType)));
}

function countOf(changes: Changes, coming: readonly Hold[], seat: Seat, nodeType: string): number {
  let count = 0;
  for (const hold of seat.held.values()) if (hold.nodeType === nodeType && hold.isWaiting !== true) count++;
  for (const hold of coming) if (hold.nodeType === nodeType) count++;
  for (const move of changes.moves) {
    if (move.move === "hold" && move.worker === seat.worker && move.hold.nodeType === nodeType) count++;
    if (move.move === "drop" && move.worker === seat.worker && move.wasWaiting !== true)
      count -= seat.held.get(move.task)?.nodeType === nodeType ? 1 : 0;
    if (move.move === "wait" && move.worker === seat.worker && move.nodeType === nodeType) count += move.isWaiting ? -1 : 1;
  }
  return count;
}

/** Slots that the results and the calls among these commands will free, so that the claim can fill them in the same turn. */
export function slotsComing(commands: readonly Command[]): Map<WorkerId, number> {
  const coming = new Map<WorkerId, number>();
  for (const command of commands)
    if (command.type === "task.result" || command.type === "task.error" || command.type === "task.next")
      coming.set(command.worker, (coming.get(command.worker) ?? 0) + 1);
  return coming;
}

/** Lines worth asking the store for, and how many tasks of each: only for slots this replica can fill. `coming`: slots that results of this batch will free. */
export function wantedClaims(tools: Tools, coming: ReadonlyMap<WorkerId, number>): { line: Line; limit: number }[] {
  const { floor, settings } = tools;
  const claims: { line: Line; limit: number }[] = [];
  const board = { slots: coming, moves: [] };
  for (const line of floor.hot) {
    const target = floor.stalled.has(line) ? null : routeOf(line);
    if (target === null) continue;
    const nodeType = floor.routes.get(target.route)?.nodeType ?? "";
    let limit = 0;
    for (const seat of seatsFor(tools, target.route, target.pin)) limit += roomFor(board, floor.air, seat, nodeType);
    if (limit > 0) claims.push({ line, limit: Math.min(limit, settings.turnCommandsMax) });
    if (claims.length >= settings.claimLinesMax) break;
  }
  return claims;
}

function seatsFor(tools: Tools, route: string, pin: WorkerId | null): readonly Seat[] {
  const fitting = tools.floor.fitting(route);
  return pin === null ? fitting : fitting.filter((seat) => seat.worker === pin);
}

/** Each task is placed under a mark of its own (`attempt`): a run that cannot be read never keeps the others from their workers. */
export function place(
  board: Board,
  tools: Tools,
  claimed: ReadonlyMap<Line, readonly TaskRow[]>,
  asked: readonly { line: Line; limit: number }[],
  attempt: Attempt,
): void {
  const stuck = new Set<Line>();
  const unsure = new Set<Line>();
  for (const head of headsOf(claimed))
    attempt(head.run, () => {
      const task = board.task(head.id);
      const bound = task?.phase === "ready" ? bind(board, tools, task, unsure) : null;
      if (bound === null || grantSomewhere(board, tools, bound)) return;
      if (bound.line === task?.line) stuck.add(bound.line as Line);
      // It stands in another line now, which this turn may have found empty.
      else unsure.add(bound.line as Line);
    });
  // Room was there and yet they could not be placed: asking again before anything changes would only spin.
  if (board.changed.size === 0 && tools.floor.air === clearAir) for (const line of stuck) board.move({ move: "stall", line });
  const drained = new Set<Line>();
  for (const { line, limit } of asked) if ((claimed.get(line)?.length ?? 0) < limit && !stuck.has(line)) drained.add(line);
  for (const id of board.fresh) attempt(runOf(id), () => placeFresh(board, tools, id, { stuck, drained, unsure }));
  for (const line of drained) board.move({ move: "cool", line });
  for (const line of unsure) board.move({ move: "heat", line });
}

/** Lines whose head found no seat; that were read to their end; that must be looked at again, whatever else this turn found. */
interface Lines {
  readonly stuck: Set<Line>;
  readonly drained: Set<Line>;
  readonly unsure: Set<Line>;
}

/** A task that became ready in this turn: granted at once when nobody stands before it, otherwise it stays in its line. */
function placeFresh(board: Board, tools: Tools, id: TaskId, { stuck, drained, unsure }: Lines): void {
  const ready = board.task(id);
  const task = ready?.phase === "ready" ? bind(board, tools, ready, unsure) : null;
  // Not placed because what tells of its pin is in other hands: it stands in its line, and the log says so.
  if (task === null && board.task(id)?.phase === "ready") tellReady(board, id);
  if (task === null || task.line === null) return;
  const { line } = task;
  // Interned by another scheduler, which told nobody as long as no task stood in its line.
  const route = tools.floor.routes.has(task.route) ? null : board.route(task.route);
  if (route !== null) board.move({ move: "route", route: route.id, needs: JSON.parse(route.needs) as Needs });
  const isFirst = !stuck.has(line) && (drained.has(line) || !tools.floor.hot.has(line));
  if (isFirst && grantSomewhere(board, tools, task)) return;
  stuck.add(line);
  drained.delete(line);
  tellReady(board, id);
  board.move({ move: "heat", line });
}

function tellReady(board: Board, task: TaskId): void {
  const run = board.run(runOf(task));
  if (run !== null) board.tell(run, "task.ready", { task });
}

function headsOf(claimed: ReadonlyMap<Line, readonly TaskRow[]>): readonly TaskRow[] {
  if (claimed.size === 1) return [...claimed.values()][0] as readonly TaskRow[];
  return [...claimed.values()].flat().sort(byTurn);
}

/** Lower band first, then rank; equal ranks by id, so the order is total. */
function byTurn(a: TaskRow, b: TaskRow): number {
  return a.band - b.band || (a.rank ?? 0) - (b.rank ?? 0) || (a.id < b.id ? -1 : 1);
}

/**
 * The task in the line where it belongs; null when it has failed because what it needs is gone, or when what tells of its pin is in another
 * turn's hands: it then stays where it is, and its line is looked at again.
 */
function bind(board: Board, tools: Tools, task: TaskRow, unsure: Set<Line>): TaskRow | null {
  const run = board.run(task.run);
  if (run === null || !isLive(run)) return task;
  try {
    return bindTask(board, tools, run, tools.plans.nodeOf(board, run, task), task);
  } catch (problem) {
    if (!(problem instanceof RootBusy)) throw problem;
    if (task.line !== null) unsure.add(task.line);
    return null;
  }
}

/** A condemned run is being swept; its tasks are not worth a worker any more. */
const isLive = (run: RunRow): boolean => run.phase === "queued" || run.phase === "running";

function grantSomewhere(board: Board, tools: Tools, task: TaskRow): boolean {
  const run = board.run(task.run);
  if (run === null || !isLive(run)) return false;
  const node = tools.plans.nodeOf(board, run, task);
  const flaw = chainFlaw(board, tools, run, node, task);
  if (flaw !== null) {
    failTask(board, tools, run, task, flaw, null);
    return true;
  }
  const seat = pickSeat(board, tools, run, task, node);
  if (seat === null) return false;
  const timeoutMs = attemptTimeoutMs(tools, node);
  const due = timeoutMs === null ? null : board.now + timeoutMs;
  const granted = moveTask(task, { type: "grant", worker: seat.worker, boot: seat.boot, epoch: seat.epoch, due }, board.now);
  const leased = withGrant(board, run, node, granted, seat);
  board.put(leased);
  board.rely(run.id, seat.worker, seat.epoch);
  if (run.phase === "queued") {
    board.put(moveRun(run, { type: "start" }, board.now));
    board.tell(run, "run.started", {});
  }
  board.tell(run, "task.granted", { task: task.id, worker: seat.worker, fence: leased.fence, attempt: leased.attempt });
  board.move({
    move: "hold",
    worker: seat.worker,
    hold: {
      task: task.id,
      run: run.id,
      fence: leased.fence,
      nodeType: node.type,
      grantedAt: board.now,
      acked: false,
      stored: false,
      recheckFrom: null,
      isRunningOlder: false,
    },
  });
  sendDispatch(board, tools, seat, run, node, leased);
  return true;
}

/**
 * Whether the seat is still what the worker's row says: another scheduler may have taken the worker over, lost or drained it. The floor is
 * believed, and the commit fails where it is wrong; only then is the row looked at, here, before the worker gets anything again.
 */
function isSeated(board: Board, tools: Tools, seat: Seat): boolean {
  if (board.changed.has(seat.worker)) return false;
  if (!tools.floor.doubted.has(seat.worker) || board.seated.has(seat.worker)) return true;
  let row: WorkerRow | null;
  try {
    row = board.worker(seat.worker);
  } catch (problem) {
    if (problem instanceof RootBusy) return false;
    throw problem;
  }
  if (row !== null && row.epoch === seat.epoch && row.phase === "online") {
    if (!row.draining) {
      board.seated.add(seat.worker);
      board.move({ move: "trust", worker: seat.worker });
      return true;
    }
    board.move({ move: "drain", worker: seat.worker, on: true });
    board.effect({ type: "drain", session: seat.session, worker: seat.worker, on: true, reason: "asked elsewhere" });
    return false;
  }
  board.move({ move: "rise", worker: seat.worker, session: seat.session });
  board.effect({
    type: "reset",
    session: seat.session,
    worker: seat.worker,
    code: "E.SESSION.SUPERSEDED",
    reason: "superseded session",
  });
  return false;
}

/**
 * The worker that this run's package is bound to while it has room; else round-robin from where the last grant of this route stopped, among
 * a few free seats the one with most room.
 */
function pickSeat(board: Board, tools: Tools, run: RunRow, task: TaskRow, node: PlanNode): Seat | null {
  const seats = seatsFor(tools, task.route, task.pin);
  const { air } = tools.floor;
  const shunned = task.pin === null ? shunnedBy(run, node, seats) : null;
  const bound = task.pin === null ? boundSeat(tools, run, node, seats) : null;
  if (bound !== null && bound.worker !== shunned && roomFor(board, air, bound, node.type) > 0 && isSeated(board, tools, bound))
    return bound;
  const start = tools.floor.turnOf(task.route);
  let best: Seat | null = null;
  let bestFree = 0;
  for (let step = 0, probes = 0; step < seats.length && probes < seatProbesMax; step++) {
    const seat = seats[(start + step) % seats.length] as Seat;
    const free = seat.worker === shunned ? 0 : roomFor(board, air, seat, node.type);
    if (free <= 0 || !isSeated(board, tools, seat)) continue;
    probes++;
    if (free > bestFree) [best, bestFree] = [seat, free];
  }
  if (best !== null) tools.floor.tookTurn(task.route, (seats.indexOf(best) + 1) % seats.length);
  return best;
}

function boundSeat(tools: Tools, run: RunRow, node: PlanNode, seats: readonly Seat[]): Seat | null {
  const worker = run.bindings === null ? null : boundWorker(run, node.packageName);
  const seat = worker === null ? undefined : tools.floor.seats.get(worker);
  return seat !== undefined && seats.includes(seat) ? seat : null;
}

/** Where an operator does not want the package any more, as long as somebody else here can run it. */
function shunnedBy(run: RunRow, node: PlanNode, seats: readonly Seat[]): WorkerId | null {
  const shunned = run.marks === null ? undefined : unwantedAt(run, node);
  return shunned !== undefined && seats.some((seat) => seat.worker !== shunned) ? shunned : null;
}
