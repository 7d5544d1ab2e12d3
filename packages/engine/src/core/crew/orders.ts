// Commands that a worker's session carries out: packages come and go, and a drain is heard of. What the worker says or announces next closes
// those that wait for it; a new session is told again. How they are kept is command-book.ts.

import { type Fault, fault } from "@astraflow/protocol";
import type { HearWorker, NoteOrder, OrderWorker, ReportPackage, WorkerAbout, WorkerOrder } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type WorkerRow, workerKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { postOrder } from "../place/post.ts";
import type { Tools } from "../tools.ts";
import { unknownSession } from "./beat.ts";
import { closeOrders, keepEnded, openOrder, refuseDebt, refuseTaken } from "./command-book.ts";
import { type OpenOrder, readCondition } from "./condition.ts";
import { ownWorker, seatNow, seatSpeaking } from "./seat.ts";

export function orderWorker(board: Board, tools: Tools, order: OrderWorker): AnswerBody | Fault {
  const row = ownWorker(board, order);
  if (!("kind" in row)) return row;
  const said = { id: order.id, order: order.order };
  const refused = refuseTaken(board, order.tenant, order.id) ?? refuseDebt(row, said);
  if (refused !== null) return refused;
  const seat = seatNow(board, tools, row);
  if (seat !== null) board.effect({ type: "order", session: seat.session, worker: row.id, tenant: order.tenant, ...said });
  else if (!postOrder(board, tools, row, said))
    return fault("E.SESSION.UNKNOWN", `worker ${row.name} is ${row.phase} and has no session; nothing was sent to it`, {
      worker: row.name,
      phase: row.phase,
    });
  openOrder(board, row, { ...said, by: order.by, corr: order.corr });
  return { of: "order", id: order.id, sent: true };
}

/** What was carried out by other commands ends as it is written down. */
export function noteOrder(board: Board, _tools: Tools, note: NoteOrder): AnswerBody | Fault {
  const row = ownWorker(board, note);
  if (!("kind" in row)) return row;
  const taken = refuseTaken(board, note.tenant, note.id);
  if (taken !== null) return taken;
  keepEnded(board, row, note, { error: note.error ?? undefined, details: note.details });
  return { of: "order", id: note.id, sent: false };
}

/** The worker's word about a package. Where it names no command, all that ask for just this are answered by it. */
export function reportPackage(board: Board, tools: Tools, word: ReportPackage): AnswerBody | Fault {
  const row = seatSpeaking(board, tools, word) === null ? null : board.worker(word.worker);
  if (row === null) return unknownSession(word.worker);
  board.say(word.tenant, workerKey(row.id), "worker.package", {
    name: word.name,
    version: word.version,
    status: word.status,
    ...(word.details === undefined ? {} : { details: word.details }),
  });
  const error = word.status === "failed" ? failureOf(row, word) : undefined;
  closeOrders(board, row, (one) => answers(word, one), { error, details: word.details });
  return { of: "word", applied: true };
}

function failureOf(row: WorkerRow, { name, version, details }: ReportPackage): { code: string; message: string } {
  const why = details?.["reason"] ?? details?.["message"] ?? details?.["error"];
  const said = typeof why === "string" ? why : "it did not say why";
  return {
    code: "E.PKG.INVALID",
    message: `worker ${row.name} could not carry out the command about ${name} ${version}: ${said}`,
  };
}

function answers(word: ReportPackage, { id, order }: OpenOrder): boolean {
  const named = word.details?.["command"];
  if (typeof named === "string") return named === id;
  if (!isOfPackage(order) || order.name !== word.name) return false;
  const isVersion = word.version === "*" || (order.version ?? word.version) === word.version;
  // A failure may be about the package's going as well as its coming.
  if (word.status === "failed") return isVersion;
  return isVersion && order.type === (word.status === "removed" ? "pkg.uninstall" : "pkg.install");
}

const isOfPackage = (order: OpenOrder["order"]): order is WorkerOrder => order.type !== "drain" && order.type !== "undrain";

const isInstallOf = (order: WorkerOrder, one: { readonly name: string; readonly version: string }): boolean =>
  order.type === "pkg.install" && order.name === one.name && order.version === one.version;

/**
 * What it announces answers commands too: what was to come is there, what was to go is not. One that takes back another waits for that:
 * until the first is carried out the worker looks as if the second already were.
 */
export function settleOrders(board: Board, row: WorkerRow, about: WorkerAbout): WorkerRow {
  const installed = about.packages.filter(({ status }) => status === "installed");
  const isDone = (order: WorkerOrder): boolean =>
    order.type === "pkg.install"
      ? installed.some((one) => isInstallOf(order, one))
      : !about.packages.some((one) => one.name === order.name && (order.version === null || one.version === order.version));
  const open: WorkerOrder[] = [];
  return closeOrders(board, row, ({ order }) => {
    if (!isOfPackage(order)) return false;
    const isOver = isDone(order) && !open.some((one) => isOpposite(one, order));
    if (!isOver) open.push(order);
    return isOver;
  });
}

const isOpposite = (a: WorkerOrder, b: WorkerOrder): boolean =>
  a.type !== b.type && a.name === b.name && (a.version === null || b.version === null || a.version === b.version);

/** The worker has heard that it drains, or that it no longer does. */
export function hearWorker(board: Board, tools: Tools, word: HearWorker): AnswerBody | Fault {
  const seat = tools.floor.seatOf(word.worker, word.session);
  const row = seat === null ? null : board.worker(word.worker);
  if (seat === null || row === null || row.epoch !== seat.epoch) return unknownSession(word.worker);
  const closed = closeOrders(board, row, heardBy(row, word));
  return { of: "word", applied: closed !== row };
}

/**
 * What it was told before this word it has heard too, or need not hear any more: words that took each other back on their way to it, from
 * another scheduler, are never sent.
 */
function heardBy(row: WorkerRow, { on, isToldAgain = false }: HearWorker): (order: OpenOrder) => boolean {
  const drains = (readCondition(row.condition).orders ?? []).filter(({ order }) => !isOfPackage(order));
  const isIt = ({ order }: OpenOrder): boolean => order.type === (on ? "drain" : "undrain");
  const last = isToldAgain ? drains.findIndex(isIt) : drains.findLastIndex(isIt);
  const heard = new Set(drains.slice(0, last + 1).map(({ id }) => id));
  return ({ id }) => heard.has(id);
}

/** Whether it drains is said with every accept: whoever joins has heard it. */
export const settleDrains = (board: Board, row: WorkerRow): WorkerRow =>
  closeOrders(board, row, ({ order }) => !isOfPackage(order), { details: { toldAtJoin: true } });

/**
 * A new session knows nothing of what the last one was told and has not answered; one that goes on may have lost its socket while a letter
 * was on its way to it. The door sends each command once a session.
 */
export function sendOrdersAgain(board: Board, row: WorkerRow, session: string): void {
  for (const { id, order } of readCondition(row.condition).orders ?? [])
    if (isOfPackage(order)) board.effect({ type: "order", session, worker: row.id, tenant: row.tenant, id, order });
}

/** Nobody is left who would answer. */
export const failOrders = (board: Board, row: WorkerRow): WorkerRow =>
  closeOrders(board, row, () => true, {
    error: { code: "E.WORKER.LOST", message: `worker ${row.name} was lost before it answered; give the command again` },
  });
