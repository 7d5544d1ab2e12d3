// Workers that are known by their word over REST: they are listed, and get nothing before their socket is up. What a live session says of
// its worker goes before what is said here.

import { type Fault, fault } from "@astraflow/protocol";
import type { EnrolWorker, WorkerAbout } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type WorkerRow, workerKey } from "../../rows.ts";
import { paceOf } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import type { Tools } from "../tools.ts";
import { readCondition, writeCondition } from "./condition.ts";
import { settleOrders } from "./orders.ts";
import { packageChanges } from "./package-changes.ts";
import { seatNow } from "./seat.ts";
import { moveWorker } from "./worker.ts";

export function enrolWorker(board: Board, tools: Tools, order: EnrolWorker): AnswerBody | Fault {
  const row = board.worker(order.worker);
  if (row !== null && row.tenant !== order.tenant) return unknown(order);
  if (row === null && order.about === null) return unknown(order);
  const now = row === null ? firstRow(board, tools, order) : spoken(board, tools, order, row);
  const { dialect = "" } = JSON.parse(now.about) as Partial<WorkerAbout>;
  return {
    of: "enrolled",
    worker: now.id,
    heartbeatMs: paceOf(tools.settings, now.tenant, dialect).heartbeatMs,
    isOnline: now.phase === "online",
  };
}

const unknown = (order: EnrolWorker): Fault =>
  fault("E.NOT_FOUND", `worker ${order.worker.slice(order.tenant.length + 1)} does not exist; register it first`);

function firstRow(board: Board, tools: Tools, order: EnrolWorker): WorkerRow {
  const row: WorkerRow = {
    kind: "worker",
    id: order.worker,
    tenant: order.tenant,
    name: order.name,
    phase: "enrolled",
    boot: tools.nextId(board.now),
    epoch: 0,
    replica: tools.me.replica,
    replicaEpoch: tools.me.epoch,
    draining: false,
    joinedAt: board.now,
    seenAt: board.now,
    due: null,
    about: JSON.stringify(announced(order, null)),
    condition: withStatus(board, order, "{}"),
  };
  board.put(row);
  tellEnrolled(board, order, row, "{}");
  return row;
}

function spoken(board: Board, tools: Tools, order: EnrolWorker, row: WorkerRow): WorkerRow {
  const seat = seatNow(board, tools, row);
  // Its socket is at another scheduler, which knows better what it has.
  if (row.phase === "online" && seat === null) return row;
  const before = JSON.parse(row.about) as WorkerAbout;
  const about = row.phase === "online" ? { ...before, packages: packagesOf(order) ?? before.packages } : announced(order, before);
  const text = JSON.stringify(about);
  const noted = moveWorker(row, { type: "note", condition: withStatus(board, order, row.condition) }, board.now);
  const moved = moveWorker(noted, { type: "describe", about: text }, board.now);
  // A worker that was lost, and whose attempts are all taken back, is known again by its word alone. A sign of life gives no name.
  const name = order.about === null ? row.name : order.name;
  const now = row.phase === "lost" && row.due === null ? moveWorker(moved, { type: "enrol", name }, board.now) : moved;
  board.put(now);
  if (order.about !== null && row.phase !== "online") tellEnrolled(board, order, now, row.about);
  else if (text !== row.about)
    board.say(row.tenant, workerKey(row.id), "worker.described", {
      packages: about.packages.length,
      slots: about.slots,
      ...packageChanges(row.about, about),
    });
  if (seat !== null && text !== row.about) board.move({ move: "describe", worker: row.id, about });
  return text === row.about ? now : settleOrders(board, now, about);
}

const packagesOf = (order: EnrolWorker): WorkerAbout["packages"] | null => order.packages ?? order.about?.packages ?? null;

function announced(order: EnrolWorker, before: WorkerAbout | null): WorkerAbout {
  const about = order.about ?? before;
  if (about === null) throw new Error(`worker ${order.worker} announced nothing`);
  return { ...about, packages: packagesOf(order) ?? about.packages };
}

function withStatus(board: Board, order: EnrolWorker, condition: string): string {
  const known = readCondition(condition);
  const { status } = order;
  if (status === null) return writeCondition({ ...known, beatAt: board.now });
  if (typeof status === "string") return writeCondition({ ...known, vitals: { ...known.vitals, status }, beatAt: board.now });
  const { healthy = known.healthy, metrics = known.vitals?.["metrics"] } = status;
  return writeCondition({ ...known, healthy, vitals: { ...known.vitals, metrics }, beatAt: board.now });
}

/** `before`: the text of what was known of it. */
function tellEnrolled(board: Board, order: EnrolWorker, row: WorkerRow, before: string): void {
  const about = JSON.parse(row.about) as WorkerAbout;
  const { length: packages } = about.packages;
  const changes = packageChanges(before, about);
  board.say(order.tenant, workerKey(row.id), "worker.enrolled", { name: row.name, packages, by: order.by, ...changes });
}
