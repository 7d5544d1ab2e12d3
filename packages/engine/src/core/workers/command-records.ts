// Records of commands about workers: a document each, which ends once. Those that wait for the worker are listed in its condition.

import { type Fault, fault } from "@astraflow/protocol";
import type { ControlCommand, FaultData, PackageCommand } from "../../interface/command.ts";
import { type DocRow, docId, type Tenant, type WorkerId, type WorkerRow, workerKey } from "../../storage/rows.ts";
import { findOwnWorker } from "../delivery/find-worker.ts";
import { type OpenCommand, readCondition, writeCondition } from "../rows/worker-condition.ts";
import { nextRevision } from "../unit-of-work/documents.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Commands that one worker may owe an answer for. */
const openCommandsMax = 32;
/** They are listed in its condition, which drops what is too long: a command that is dropped there would never end. */
const openBytesMax = 4 * 1024;
/** How long a command can be looked up after its end; one that has no answer by then has failed. */
const commandKeptMs = 7 * 24 * 3_600_000;

/** Body of a command's document. */
export interface WorkerCommandRecord {
  readonly worker: WorkerId;
  readonly workerName: string;
  readonly order: PackageCommand | ControlCommand;
  readonly by: string;
  readonly corr?: string;
  readonly status: "sent" | "acked" | "failed";
  readonly sentAt: number;
  readonly endedAt: number | null;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly error?: Pick<FaultData, "code" | "message">;
}

/** A command as it was issued. */
export interface IssuedCommand extends Pick<WorkerCommandRecord, "order" | "by"> {
  readonly id: string;
  readonly corr?: string | undefined;
}

/** How it ended: with an error it has failed. */
export type CommandEnd = { readonly [K in "error" | "details"]?: WorkerCommandRecord[K] | undefined };

/** The worker of a command that is stored under this id, if it has one. An id names one command. */
export function findCommandTarget(
  work: UnitOfWork,
  request: { readonly tenant: Tenant; readonly worker: WorkerId },
  id: string | undefined,
): WorkerRow | Fault {
  const row = findOwnWorker(work, request);
  if (!("kind" in row) || id === undefined || work.doc(docId(request.tenant, "command", id)) === null) return row;
  return fault("E.CONFLICT", `command ${id} exists already; look it up or use another id`, { command: id });
}

/** A worker that owes too many answers gets no more questions. */
export function refuseTooManyOpen(row: WorkerRow, order: OpenCommand): Fault | null {
  const open = [...(readCondition(row.condition).orders ?? []), order];
  if (open.length <= openCommandsMax && Buffer.byteLength(JSON.stringify(open)) <= openBytesMax) return null;
  return fault(
    "E.OVERLOADED",
    `worker ${row.name} has ${open.length - 1} unanswered commands, the maximum; wait until it answers some`,
  );
}

/** It waits for the worker's answer from now on. */
export function openCommand(work: UnitOfWork, row: WorkerRow, issued: IssuedCommand & OpenCommand): WorkerRow {
  writeRecord(work, row.tenant, issued.id, { ...newRecord(work, row, issued), status: "sent", endedAt: null });
  const condition = readCondition(row.condition);
  const orders = [...(condition.orders ?? []), { id: issued.id, order: issued.order }];
  const moved = work.moveWorker(row, { type: "note", condition: writeCondition({ ...condition, orders }) });
  const { type, ...fields } = redactCommand(issued.order);
  work.recordFact(row.tenant, workerKey(row.id), "command.sent", { id: issued.id, type, ...fields, by: issued.by });
  return moved;
}

/** A command as it is shown to people. The URL of a package may contain credentials: they are removed. Of a signature only its maker is shown. */
export function redactCommand(
  order: WorkerCommandRecord["order"],
): Readonly<Record<string, unknown>> & Pick<typeof order, "type"> {
  if (order.type !== "pkg.install") return order;
  const { url, signature, ...rest } = order;
  return {
    ...rest,
    ...(url !== undefined && { url: url.replace(/^([a-z]+:\/*)[^/?#]*@/i, "$1").replace(/[?#].*$/s, "") }),
    ...(signature !== undefined && { signature: { keyId: signature.keyId, signedBy: signature.signedBy } }),
  };
}

/** It is over as it is written down: nothing has to be waited for. */
export function recordEndedCommand(work: UnitOfWork, row: WorkerRow, issued: IssuedCommand, end: CommandEnd = {}): void {
  endCommand(work, row, issued.id, newRecord(work, row, issued), end);
}

/** Those among the open ones that are over. */
export function closeCommands(
  work: UnitOfWork,
  row: WorkerRow,
  isOver: (order: OpenCommand) => boolean,
  end: CommandEnd = {},
): WorkerRow {
  const { orders = [], ...rest } = readCondition(row.condition);
  const over = orders.filter(isOver);
  if (over.length === 0) return row;
  work.requireRows(over.map(({ id }) => `doc/${docId(row.tenant, "command", id)}` as const));
  for (const { id } of over) {
    const doc = work.doc(docId(row.tenant, "command", id));
    // A document lives as long as its command is open: one without a document has expired.
    if (doc !== null) endCommand(work, row, id, JSON.parse(doc.body) as WorkerCommandRecord, end);
  }
  const left = orders.filter((one) => !over.includes(one));
  const condition = writeCondition(left.length === 0 ? rest : { ...rest, orders: left });
  return work.moveWorker(row, { type: "note", condition });
}

/** A command that was not answered in its time has failed, and can be looked up as long again. False: it has ended before. */
export function expireCommand(work: UnitOfWork, doc: DocRow): boolean {
  const body = JSON.parse(doc.body) as WorkerCommandRecord;
  const row = body.status === "sent" ? work.worker(body.worker) : null;
  if (row === null) return false;
  const id = doc.id.slice(`${doc.tenant}/command/`.length);
  const error = { code: "E.TIMEOUT", message: `worker ${row.name} did not answer the command; send it again` };
  const closed = closeCommands(work, row, (one) => one.id === id, { error });
  if (closed === row) endCommand(work, row, id, body, { error });
  return true;
}

function endCommand(
  work: UnitOfWork,
  row: WorkerRow,
  id: string,
  body: Omit<WorkerCommandRecord, "status" | "endedAt">,
  end: CommandEnd,
): void {
  const { error, details } = end;
  const status = error === undefined ? "acked" : "failed";
  const fields = { ...(error === undefined ? {} : { error }), ...(details === undefined ? {} : { details }) };
  writeRecord(work, row.tenant, id, { ...body, status, endedAt: work.now, ...fields });
  work.recordFact(row.tenant, workerKey(row.id), `command.${status}`, { id, ...fields });
}

function newRecord(
  work: UnitOfWork,
  row: WorkerRow,
  { order, by, corr }: IssuedCommand,
): Omit<WorkerCommandRecord, "status" | "endedAt"> {
  return { worker: row.id, workerName: row.name, order, by, ...(corr === undefined ? {} : { corr }), sentAt: work.now };
}

function writeRecord(work: UnitOfWork, tenant: Tenant, id: string, body: WorkerCommandRecord): void {
  const { type } = body.order;
  const name = "name" in body.order ? ` ${body.order.name}` : "";
  const terms = `${body.workerName} ${type}${name}`.toLowerCase();
  const fields = { due: work.now + commandKeptMs, sort: id, terms, body: JSON.stringify(body) };
  work.put(nextRevision(work, [tenant, "command", id], work.doc(docId(tenant, "command", id)), fields));
}
