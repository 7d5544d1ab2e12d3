// Commands that a worker's session carries out: packages come and go. Each is a document until it is old; which of them still wait for an
// answer stands in the worker's condition, so that whatever the worker says or announces next can close them. A new session is told again.

import { type Fault, fault } from "@astraflow/protocol";
import type { OrderWorker, ReportPackage, WorkerAbout, WorkerOrder } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { docId, type Tenant, type WorkerId, type WorkerRow, workerKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { postOrder } from "../place/post.ts";
import type { Tools } from "../tools.ts";
import { unknownSession } from "./beat.ts";
import { type OpenOrder, readCondition, writeCondition } from "./condition.ts";
import { ownWorker, seatNow } from "./seat.ts";
import { moveWorker } from "./worker.ts";

/** Commands that one worker may owe an answer for. */
const openOrdersMax = 32;
/** So long a command can be looked up, answered or not. */
const orderKeptMs = 7 * 24 * 3_600_000;

/** Body of a command's document. */
export interface OrderBody {
  readonly worker: WorkerId;
  readonly workerName: string;
  readonly order: WorkerOrder;
  readonly by: string;
  readonly corr?: string;
  readonly status: "sent" | "acked" | "failed";
  readonly sentAt: number;
  readonly endedAt: number | null;
  readonly details?: Readonly<Record<string, unknown>>;
}

export function orderWorker(board: Board, tools: Tools, order: OrderWorker): AnswerBody | Fault {
  const row = ownWorker(board, order);
  if (!("kind" in row)) return row;
  if (board.doc(docId(order.tenant, "command", order.id)) !== null)
    return fault("E.CONFLICT", `command ${order.id} exists already; look it up, or choose another id`, { command: order.id });
  const condition = readCondition(row.condition);
  const open = condition.orders ?? [];
  if (open.length >= openOrdersMax)
    return fault("E.OVERLOADED", `worker ${row.name} owes an answer to ${open.length} commands; wait for some of them`);
  const seat = seatNow(board, tools, row);
  const said = { id: order.id, order: order.order };
  if (seat !== null) board.effect({ type: "order", session: seat.session, worker: row.id, tenant: order.tenant, ...said });
  else if (!postOrder(board, tools, row, said))
    return fault("E.SESSION.UNKNOWN", `worker ${row.name} is ${row.phase} and has no session; nothing was sent to it`, {
      worker: row.name,
      phase: row.phase,
    });
  writeOrder(board, order.tenant, order.id, {
    worker: row.id,
    workerName: row.name,
    order: order.order,
    by: order.by,
    ...(order.corr === undefined ? {} : { corr: order.corr }),
    status: "sent",
    sentAt: board.now,
    endedAt: null,
  });
  const { type, name, version } = order.order;
  const orders: OpenOrder[] = [...open, { id: order.id, order: order.order }];
  board.put(moveWorker(row, { type: "note", condition: writeCondition({ ...condition, orders }) }, board.now));
  board.say(order.tenant, workerKey(row.id), "command.sent", { id: order.id, type, name, version, by: order.by });
  return { of: "order", id: order.id, sent: true };
}

function writeOrder(board: Board, tenant: Tenant, id: string, body: OrderBody): void {
  const doc = board.doc(docId(tenant, "command", id));
  board.put({
    kind: "doc",
    id: docId(tenant, "command", id),
    tenant,
    collection: "command",
    rev: (doc?.rev ?? 0) + 1,
    at: board.now,
    due: doc?.due ?? board.now + orderKeptMs,
    sort: id,
    terms: `${body.workerName} ${body.order.type} ${body.order.name}`.toLowerCase(),
    body: JSON.stringify(body),
  });
}

/** The worker's word about a package. Where it names no command, all that ask for just this are answered by it. */
export function reportPackage(board: Board, tools: Tools, word: ReportPackage): AnswerBody | Fault {
  const seat = tools.floor.seatOf(word.worker, word.session);
  const row = seat === null ? null : board.worker(word.worker);
  if (seat === null || row === null || row.epoch !== seat.epoch) return unknownSession(word.worker);
  board.say(word.tenant, workerKey(row.id), "worker.package", {
    name: word.name,
    version: word.version,
    status: word.status,
    ...(word.details === undefined ? {} : { details: word.details }),
  });
  const isMeant = (one: OpenOrder): boolean => answers(word, one);
  closeOrders(board, row, isMeant, word.status === "failed" ? "failed" : "acked", word.details);
  return { of: "word", applied: true };
}

function answers(word: ReportPackage, { id, order }: OpenOrder): boolean {
  const named = word.details?.["command"];
  if (typeof named === "string") return named === id;
  if (order.name !== word.name) return false;
  const isVersion = word.version === "*" || (order.version ?? word.version) === word.version;
  // A failure may be about the package's going as well as its coming.
  if (word.status === "failed") return isVersion;
  return isVersion && order.type === (word.status === "removed" ? "pkg.uninstall" : "pkg.install");
}

const isInstallOf = (order: WorkerOrder, one: { readonly name: string; readonly version: string }): boolean =>
  order.type === "pkg.install" && order.name === one.name && order.version === one.version;

/** What it announces answers commands too: what was to come is there, what was to go is not. */
export function settleOrders(board: Board, row: WorkerRow, about: WorkerAbout): WorkerRow {
  const installed = about.packages.filter(({ status }) => status === "installed");
  const isDone = ({ order }: OpenOrder): boolean =>
    order.type === "pkg.install"
      ? installed.some((one) => isInstallOf(order, one))
      : !about.packages.some((one) => one.name === order.name && (order.version === null || one.version === order.version));
  return closeOrders(board, row, isDone, "acked");
}

/** A new session knows nothing of what the last one was told and has not answered. */
export function sendOrdersAgain(board: Board, row: WorkerRow, session: string): void {
  for (const { id, order } of readCondition(row.condition).orders ?? [])
    board.effect({ type: "order", session, worker: row.id, tenant: row.tenant, id, order });
}

function closeOrders(
  board: Board,
  row: WorkerRow,
  isOver: (order: OpenOrder) => boolean,
  status: "acked" | "failed",
  details?: Readonly<Record<string, unknown>>,
): WorkerRow {
  const condition = readCondition(row.condition);
  const over = condition.orders?.filter(isOver) ?? [];
  if (over.length === 0) return row;
  board.need(over.map(({ id }) => `doc/${docId(row.tenant, "command", id)}` as const));
  for (const { id } of over) {
    const doc = board.doc(docId(row.tenant, "command", id));
    if (doc !== null)
      writeOrder(board, row.tenant, id, {
        ...(JSON.parse(doc.body) as OrderBody),
        status,
        endedAt: board.now,
        ...(details === undefined ? {} : { details }),
      });
    board.say(row.tenant, workerKey(row.id), `command.${status}`, { id, ...(details === undefined ? {} : { details }) });
  }
  const { orders = [], ...rest } = condition;
  const left = orders.filter((one) => !over.includes(one));
  const noted = writeCondition(left.length === 0 ? rest : { ...rest, orders: left });
  const moved = moveWorker(row, { type: "note", condition: noted }, board.now);
  board.put(moved);
  return moved;
}
