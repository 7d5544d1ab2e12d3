// Every command about a worker as it is kept: a document under its id, which ends once, and the fact that says so. Which of them still wait
// for the worker stands in the worker's condition. What each of them does is decided in orders.ts and crew.ts.

import { type Fault, fault } from "@astraflow/protocol";
import type { ControlOrder, WorkerOrder } from "../../command.ts";
import { type DocRow, docId, type Tenant, type WorkerId, type WorkerRow, workerKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { type OpenOrder, readCondition, writeCondition } from "./condition.ts";
import { moveWorker } from "./worker.ts";

/** Commands that one worker may owe an answer for. */
const openOrdersMax = 32;
/** They stand in its condition, which drops what is too much: an order that is dropped there would never end. */
const openBytesMax = 4 * 1024;
/** So long a command can be looked up after its end; one that has no answer by then has failed. */
const orderKeptMs = 7 * 24 * 3_600_000;

/** Body of a command's document. */
export interface OrderBody {
  readonly worker: WorkerId;
  readonly workerName: string;
  readonly order: WorkerOrder | ControlOrder;
  readonly by: string;
  readonly corr?: string;
  readonly status: "sent" | "acked" | "failed";
  readonly sentAt: number;
  readonly endedAt: number | null;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly error?: OrderError;
}

export interface OrderError {
  readonly code: string;
  readonly message: string;
}

/** A command as it was given. */
export interface Given {
  readonly id: string;
  readonly order: OrderBody["order"];
  readonly by: string;
  readonly corr?: string | undefined;
}

/** How it ended: with an error it has failed. */
export interface End {
  readonly error?: OrderError | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** An id names one command. */
export function refuseTaken(board: Board, tenant: Tenant, id: string): Fault | null {
  if (board.doc(docId(tenant, "command", id)) === null) return null;
  return fault("E.CONFLICT", `command ${id} exists already; look it up, or choose another id`, { command: id });
}

/** A worker that owes too many answers gets no more questions. */
export function refuseDebt(row: WorkerRow, order: OpenOrder): Fault | null {
  const open = [...(readCondition(row.condition).orders ?? []), order];
  if (open.length <= openOrdersMax && Buffer.byteLength(JSON.stringify(open)) <= openBytesMax) return null;
  return fault("E.OVERLOADED", `worker ${row.name} owes an answer to ${open.length - 1} commands; wait for some of them`);
}

/** It waits for the worker's answer from now on. */
export function openOrder(board: Board, row: WorkerRow, given: Given & OpenOrder): WorkerRow {
  write(board, row.tenant, given.id, { ...bodyOf(board, row, given), status: "sent", endedAt: null });
  const condition = readCondition(row.condition);
  const orders = [...(condition.orders ?? []), { id: given.id, order: given.order }];
  const moved = moveWorker(row, { type: "note", condition: writeCondition({ ...condition, orders }) }, board.now);
  board.put(moved);
  const { type, ...words } = shownOrder(given.order);
  board.say(row.tenant, workerKey(row.id), "command.sent", { id: given.id, type, ...words, by: given.by });
  return moved;
}

/** A command as people are shown it. The address of a package may let in whoever has it: only its place is shown. */
export function shownOrder<O extends OrderBody["order"]>(order: O): O {
  if (order.type !== "pkg.install" || order.url === undefined) return order;
  return { ...order, url: order.url.replace(/^([a-z]+:\/*)[^/?#]*@/i, "$1").replace(/[?#].*$/s, "") };
}

/** It is over as it is written down: nothing has to be waited for. */
export function keepEnded(board: Board, row: WorkerRow, given: Given, end: End = {}): void {
  endWith(board, row, given.id, bodyOf(board, row, given), end);
}

/** Those among the open ones that are over. */
export function closeOrders(board: Board, row: WorkerRow, isOver: (order: OpenOrder) => boolean, end: End = {}): WorkerRow {
  const { orders = [], ...rest } = readCondition(row.condition);
  const over = orders.filter(isOver);
  if (over.length === 0) return row;
  board.need(over.map(({ id }) => `doc/${docId(row.tenant, "command", id)}` as const));
  for (const { id } of over) {
    const doc = board.doc(docId(row.tenant, "command", id));
    // Kept as long as it is open: one without a document has been ended by its age.
    if (doc !== null) endWith(board, row, id, JSON.parse(doc.body) as OrderBody, end);
  }
  const left = orders.filter((one) => !over.includes(one));
  const noted = writeCondition(left.length === 0 ? rest : { ...rest, orders: left });
  const moved = moveWorker(row, { type: "note", condition: noted }, board.now);
  board.put(moved);
  return moved;
}

/** A command that nobody answered as long as it was kept has failed, and can be looked up as long again. False: it has ended before. */
export function expireOrder(board: Board, doc: DocRow): boolean {
  const body = JSON.parse(doc.body) as OrderBody;
  const row = body.status === "sent" ? board.worker(body.worker) : null;
  if (row === null) return false;
  const id = doc.id.slice(`${doc.tenant}/command/`.length);
  const error = { code: "E.TIMEOUT", message: `worker ${row.name} has not answered the command; give it again` };
  const closed = closeOrders(board, row, (one) => one.id === id, { error });
  if (closed === row) endWith(board, row, id, body, { error });
  return true;
}

function endWith(board: Board, row: WorkerRow, id: string, body: Omit<OrderBody, "status" | "endedAt">, end: End): void {
  const { error, details } = end;
  const status = error === undefined ? "acked" : "failed";
  const words = { ...(error === undefined ? {} : { error }), ...(details === undefined ? {} : { details }) };
  write(board, row.tenant, id, { ...body, status, endedAt: board.now, ...words });
  board.say(row.tenant, workerKey(row.id), `command.${status}`, { id, ...words });
}

function bodyOf(board: Board, row: WorkerRow, { order, by, corr }: Given): Omit<OrderBody, "status" | "endedAt"> {
  return {
    worker: row.id,
    workerName: row.name,
    order,
    by,
    ...(corr === undefined ? {} : { corr }),
    sentAt: board.now,
  };
}

function write(board: Board, tenant: Tenant, id: string, body: OrderBody): void {
  const { type } = body.order;
  const name = "name" in body.order ? ` ${body.order.name}` : "";
  board.put({
    kind: "doc",
    id: docId(tenant, "command", id),
    tenant,
    collection: "command",
    rev: (board.doc(docId(tenant, "command", id))?.rev ?? 0) + 1,
    at: board.now,
    due: board.now + orderKeptMs,
    sort: id,
    terms: `${body.workerName} ${type}${name}`.toLowerCase(),
    body: JSON.stringify(body),
  });
}
