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
/** How long a command can be looked up after its end; a drain that has no answer by then has failed. */
const commandKeptMs = 7 * 24 * 3_600_000;
/** Package commands without an answer that are remembered of one worker; what became of older ones is not recorded. */
const unansweredMax = 8;

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
  const record = { ...newRecord(work, row, issued), status: "sent", endedAt: null } as const;
  writeRecord(work, row.tenant, issued.id, record, work.now + deadlineOf(work, issued.order));
  const { unanswered, ...condition } = readCondition(row.condition);
  const orders = [...(condition.orders ?? []), { id: issued.id, order: issued.order }];
  // What the worker announces from now on may be the work of this command.
  const apart = unanswered?.filter(({ order }) => !isAboutSame(order, issued.order)) ?? [];
  const noted = { ...condition, orders, ...(apart.length > 0 && { unanswered: apart }) };
  const moved = work.moveWorker(row, { type: "note", condition: writeCondition(noted) });
  const { type, ...fields } = redactCommand(issued.order);
  work.recordFact(row.tenant, workerKey(row.id), "command.sent", { id: issued.id, type, ...fields, by: issued.by });
  return moved;
}

export const isPackageCommand = (order: WorkerCommandRecord["order"]): order is PackageCommand =>
  order.type === "pkg.install" || order.type === "pkg.uninstall";

const isAboutSame = (a: WorkerCommandRecord["order"], b: WorkerCommandRecord["order"]): boolean =>
  isPackageCommand(a) &&
  isPackageCommand(b) &&
  a.name === b.name &&
  (a.version === null || b.version === null || a.version === b.version);

const deadlineOf = (work: UnitOfWork, order: WorkerCommandRecord["order"]): number =>
  isPackageCommand(order) ? (order.deadlineMs ?? work.settings.packageDeadlineMs) : commandKeptMs;

/** The worker reports that it is at it: the time begins anew, written once half of it has passed. */
export function renewDeadline(work: UnitOfWork, row: WorkerRow, { id, order }: OpenCommand): void {
  const doc = work.doc(docId(row.tenant, "command", id));
  const deadlineMs = deadlineOf(work, order);
  if (doc === null || doc.due === null || doc.due - work.now > deadlineMs / 2) return;
  writeRecord(work, row.tenant, id, JSON.parse(doc.body) as WorkerCommandRecord, work.now + deadlineMs);
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
  const { order } = body;
  const seconds = Math.round((work.now - body.sentAt) / 1_000);
  const wayOut = isPackageCommand(order) ? "its next register shows whether it carried it out" : "send it again";
  const error = { code: "E.TIMEOUT", message: `worker ${row.name} did not answer the command within ${seconds} s; ${wayOut}` };
  const closed = closeCommands(work, row, (one) => one.id === id, { error });
  if (closed === row) endCommand(work, row, id, body, { error });
  if (isPackageCommand(order)) rememberUnanswered(work, closed, { id, order });
  return true;
}

function rememberUnanswered(work: UnitOfWork, row: WorkerRow, command: OpenCommand): void {
  const condition = readCondition(row.condition);
  const unanswered = [...(condition.unanswered ?? []), command].slice(-unansweredMax);
  work.moveWorker(row, { type: "note", condition: writeCondition({ ...condition, unanswered }) });
}

/** What became of package commands that had ended without an answer: each stays failed, and its record says what was seen later. */
export function recordLateOutcomes(
  work: UnitOfWork,
  row: WorkerRow,
  outcomeOf: (command: OpenCommand) => Readonly<Record<string, unknown>> | null,
): WorkerRow {
  const { unanswered = [], ...rest } = readCondition(row.condition);
  const seen = unanswered.flatMap((one) => {
    const outcome = outcomeOf(one);
    return outcome === null ? [] : [{ ...one, outcome }];
  });
  if (seen.length === 0) return row;
  work.requireRows(seen.map(({ id }) => `doc/${docId(row.tenant, "command", id)}` as const));
  for (const { id, outcome } of seen) {
    const doc = work.doc(docId(row.tenant, "command", id));
    if (doc === null) continue;
    const body = JSON.parse(doc.body) as WorkerCommandRecord;
    const details = { ...body.details, lateOutcome: { ...outcome, at: work.now } };
    writeRecord(work, row.tenant, id, { ...body, details }, work.now + commandKeptMs);
    work.recordFact(row.tenant, workerKey(row.id), "command.outcome", { id, ...outcome });
  }
  const left = unanswered.filter(({ id }) => !seen.some((one) => one.id === id));
  const condition = writeCondition(left.length === 0 ? rest : { ...rest, unanswered: left });
  return work.moveWorker(row, { type: "note", condition });
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
  writeRecord(work, row.tenant, id, { ...body, status, endedAt: work.now, ...fields }, work.now + commandKeptMs);
  work.recordFact(row.tenant, workerKey(row.id), `command.${status}`, { id, ...fields });
}

function newRecord(
  work: UnitOfWork,
  row: WorkerRow,
  { order, by, corr }: IssuedCommand,
): Omit<WorkerCommandRecord, "status" | "endedAt"> {
  return { worker: row.id, workerName: row.name, order, by, ...(corr === undefined ? {} : { corr }), sentAt: work.now };
}

function writeRecord(work: UnitOfWork, tenant: Tenant, id: string, body: WorkerCommandRecord, due: number): void {
  const { type } = body.order;
  const name = "name" in body.order ? ` ${body.order.name}` : "";
  const terms = `${body.workerName} ${type}${name}`.toLowerCase();
  const fields = { due, sort: id, terms, body: JSON.stringify(body) };
  work.put(nextRevision(work, [tenant, "command", id], work.doc(docId(tenant, "command", id)), fields));
}
