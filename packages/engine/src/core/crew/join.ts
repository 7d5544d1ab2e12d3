// A worker's session is up: new, of a restarted process, or the same one on a new socket. Whom we refuse, what its row and its seat
// become. What it keeps of the attempts it held is decided in reconcile.ts.

import { type Fault, fault } from "@astraflow/protocol";
import type { JoinWorker } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type WorkerRow, workerKey } from "../../rows.ts";
import { paceOf, thresholdsOf } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import { postReset } from "../place/post.ts";
import type { Tools } from "../tools.ts";
import { bootsBefore, type Condition, readCondition, writeCondition } from "./condition.ts";
import { sendOrdersAgain, settleDrains, settleOrders } from "./orders.ts";
import { packageChanges } from "./package-changes.ts";
import { reconcile } from "./reconcile.ts";
import { moveWorker } from "./worker.ts";

export function joinWorker(board: Board, tools: Tools, order: JoinWorker): AnswerBody | Fault {
  const before = board.worker(order.worker);
  const refused = order.resumed === undefined ? refuseClone(board, order, before) : refuseResume(board, order, before);
  if (refused !== null) return refused;
  // A dialect without boot ids: the process of the last join, or the first there is.
  const boot = order.boot ?? before?.boot ?? tools.nextId(board.now);
  const pace = paceOf(tools.settings, order.tenant, order.about.dialect);
  const condition = conditionOf(order, before, boot);
  const joined = moveWorker(
    before ?? firstRow(board, tools, order, boot),
    {
      type: "join",
      name: order.name,
      boot,
      replica: tools.me.replica,
      replicaEpoch: tools.me.epoch,
      about: JSON.stringify(order.about),
      condition: writeCondition(condition),
      leaseMs: pace.leaseMs,
    },
    board.now,
  );
  board.put(joined);
  const worker = condition.orders === undefined ? joined : settleDrains(board, settleOrders(board, joined, order.about));
  sendOrdersAgain(board, worker, order.session);
  board.say(order.tenant, workerKey(worker.id), "worker.joined", {
    name: worker.name,
    boot: worker.boot,
    epoch: worker.epoch,
    slots: order.about.slots,
    ...(order.resumed === undefined ? {} : { resumed: true }),
    ...packageChanges(before?.about ?? "{}", order.about),
  });
  supersede(board, tools, order, before);
  const held = reconcile(board, tools, { order, before, boot, epoch: worker.epoch });
  board.move({
    move: "sit",
    seat: {
      worker: order.worker,
      tenant: order.tenant,
      name: order.name,
      session: order.session,
      boot,
      epoch: worker.epoch,
      about: order.about,
      draining: worker.draining,
      healthy: condition.healthy,
      strain: condition.strain,
      liveness: "fresh",
      beatAt: board.now,
      fullSince: condition.saturatedAt,
      isSaturated: condition.saturatedAt !== null,
      held,
    },
  });
  const { drainMemPct, drainDiskPct } = thresholdsOf(tools.settings, order.tenant);
  return {
    of: "join",
    epoch: worker.epoch,
    leaseMs: pace.leaseMs,
    heartbeatMs: pace.heartbeatMs,
    drainMemPct,
    drainDiskPct,
    draining: worker.draining || condition.strain !== null,
  };
}

function firstRow(board: Board, tools: Tools, order: JoinWorker, boot: string): WorkerRow {
  return {
    kind: "worker",
    id: order.worker,
    tenant: order.tenant,
    name: order.name,
    phase: "away",
    boot,
    epoch: 0,
    replica: tools.me.replica,
    replicaEpoch: tools.me.epoch,
    draining: false,
    joinedAt: board.now,
    seenAt: board.now,
    due: null,
    about: "{}",
    condition: "{}",
  };
}

/** What a session inherits: of the same process what it said last, of another one only which boots there were. */
function conditionOf(order: JoinWorker, before: WorkerRow | null, boot: string): Condition {
  const known = readCondition(before?.condition ?? "{}");
  const isSameBoot = before?.boot === boot;
  return {
    // A new session says itself when it is not well; on a resumed one nothing is said twice.
    healthy: order.resumed === undefined || known.healthy,
    strain: isSameBoot ? known.strain : null,
    saturatedAt: known.saturatedAt,
    vitals: isSameBoot ? known.vitals : null,
    beatAt: isSameBoot ? known.beatAt : null,
    session: order.session,
    formerBoots: bootsBefore(known, isSameBoot ? null : (before?.boot ?? null), boot),
    clones: known.clones.filter((one) => one !== boot),
    ...(known.orders === undefined ? {} : { orders: known.orders }),
  };
}

/**
 * The same session on a new socket: only what the rows still show as this session's can go on. Anything that came between (another
 * session, another process, the end of the lease, a kick) means that the worker must register and be compared anew.
 */
function refuseResume(board: Board, order: JoinWorker, before: WorkerRow | null): Fault | null {
  const why =
    before === null
      ? "is not known"
      : before.boot !== order.boot
        ? "has another process by now"
        : readCondition(before.condition).session !== order.session
          ? "has had another session since, or was sent away"
          : before.phase === "lost" || before.due === null || before.due <= board.now
            ? "was silent for longer than its lease"
            : null;
  if (why === null) return null;
  return fault("E.SESSION.STALE_BINDING", `worker ${order.name} ${why}; handshake again`, { worker: order.name });
}

/**
 * Two processes with one instance id, as a cloned image has them: a boot that was superseded comes back while its successor is live. The
 * newest keeps its session, or the two would take it from each other for ever. Once that session is gone a former boot may return.
 */
function refuseClone(board: Board, order: JoinWorker, before: WorkerRow | null): Fault | null {
  if (before === null || order.boot === null || before.boot === order.boot || before.phase !== "online") return null;
  const known = readCondition(before.condition);
  if (!known.formerBoots.includes(order.boot)) return null;
  const seconds = Math.round((board.now - before.joinedAt) / 1_000);
  const message = `another process with the instance id of worker ${order.name} has been live for ${seconds} s; give this one its own id`;
  board.count("worker_cloned_total", { tenant: order.tenant });
  // It dials again and again: said once, counted always.
  if (!known.clones.includes(order.boot)) {
    const condition = writeCondition({ ...known, clones: [...known.clones, order.boot] });
    board.put(moveWorker(before, { type: "note", condition }, board.now));
    board.say(order.tenant, workerKey(before.id), "worker.cloned", {
      boot: order.boot,
      live: before.boot,
      since: before.joinedAt,
      hostname: order.about.hostname,
    });
    board.problem({ code: "E.SESSION.DENIED", message, details: { tenant: order.tenant, worker: order.name, boot: order.boot } });
  }
  return fault("E.SESSION.DENIED", message, { worker: order.name, since: before.joinedAt });
}

/** At most one live session: the one before, here or elsewhere, is over. */
function supersede(board: Board, tools: Tools, order: JoinWorker, before: WorkerRow | null): void {
  const why = { code: "E.SESSION.SUPERSEDED", reason: "superseded session" };
  // Two sockets of one worker may be joined in one turn: the floor has not heard of the first of them yet.
  const sat = board.moves.flatMap((move) =>
    move.move === "sit" && move.seat.worker === order.worker ? [move.seat.session] : [],
  );
  const seated = tools.floor.seats.get(order.worker)?.session;
  for (const session of new Set(seated === undefined ? sat : [seated, ...sat]))
    if (session !== order.session) board.effect({ type: "reset", session, worker: order.worker, ...why });
  if (before !== null && before.phase === "online") postReset(board, tools, before, why);
}
