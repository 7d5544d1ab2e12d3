// Commands that a worker's session carries out: packages and drains. Its next report closes them; a new session gets them again.

import { type Fault, fault } from "@astraflow/protocol";
import type {
  AcknowledgeDrainCommand,
  FaultData,
  IssueWorkerCommand,
  PackageCommand,
  RecordRebindCommand,
  ReportPackageStatusCommand,
  WorkerDescription,
} from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { type WorkerRow, workerKey } from "../../storage/rows.ts";
import { findConnectedWorker, findReportingWorker, findSession, unknownSession } from "../delivery/find-worker.ts";
import { mailWorkerCommand } from "../delivery/worker-mail.ts";
import { readDescription } from "../fleet/route.ts";
import { reportsPackageCommands } from "../fleet/worker-abilities.ts";
import { type OpenCommand, readCondition } from "../rows/worker-condition.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import {
  closeCommands,
  findCommandTarget,
  isPackageCommand,
  openCommand,
  recordEndedCommand,
  recordLateOutcomes,
  refuseTooManyOpen,
  renewDeadline,
} from "./command-records.ts";

export function issueWorkerCommand(work: UnitOfWork, command: IssueWorkerCommand): AnswerBody | Fault {
  const row = findCommandTarget(work, command, command.id);
  if (!("kind" in row)) return row;
  const issued = { id: command.id, order: command.order };
  const refused = refuseTooManyOpen(row, issued);
  if (refused !== null) return refused;
  const connected = findConnectedWorker(work, row);
  if (connected !== null)
    work.emit({ type: "order", session: connected.session, worker: row.id, tenant: command.tenant, ...issued });
  else if (!mailWorkerCommand(work, row, issued))
    return fault("E.SESSION.UNKNOWN", `worker ${row.name} is ${row.phase} and has no session; nothing was sent to it`, {
      worker: row.name,
      phase: row.phase,
    });
  openCommand(work, row, { ...issued, by: command.by, corr: command.corr });
  return { of: "order", id: command.id, sent: true };
}

/** A command that other commands have carried out ends as it is recorded. */
export function recordWorkerCommand(work: UnitOfWork, command: RecordRebindCommand): AnswerBody | Fault {
  const row = findCommandTarget(work, command, command.id);
  if (!("kind" in row)) return row;
  recordEndedCommand(work, row, command, { error: command.error ?? undefined, details: command.details });
  return { of: "order", id: command.id, sent: false };
}

/** The worker's report about a package. If it names no command, it answers all commands that ask for just this. */
export function handlePackageReport(work: UnitOfWork, report: ReportPackageStatusCommand): AnswerBody | Fault {
  const row = findReportingWorker(work, report);
  if (row === null) return unknownSession(report.worker);
  work.recordFact(report.tenant, workerKey(row.id), "worker.package", {
    name: report.name,
    version: report.version,
    status: report.status,
    ...(report.details === undefined ? {} : { details: report.details }),
  });
  const named = report.details?.["command"];
  if (report.status === "installing" || report.status === "removing") {
    const open = readCondition(row.condition).orders?.find(({ id }) => id === named);
    if (open !== undefined) renewDeadline(work, row, open);
    return { of: "word", applied: true };
  }
  const error = report.status === "failed" ? packageFailure(row, report) : undefined;
  const about = readDescription(row);
  const closed = closeCommands(work, row, (one) => isAnsweredBy(report, one, about), { error, details: report.details });
  recordLateOutcomes(work, closed, ({ id }) => (id === named ? { status: report.status, ...(error && { error }) } : null));
  return { of: "word", applied: true };
}

function packageFailure(row: WorkerRow, { name, version, details }: ReportPackageStatusCommand): FaultData {
  const why = details?.["reason"] ?? details?.["message"] ?? details?.["error"];
  const reason = typeof why === "string" ? why : "no reason given";
  const message = `worker ${row.name} could not carry out the command about ${name} ${version}: ${reason}`;
  return { code: details?.["code"] === "E.PKG.PERMISSION" ? "E.PKG.PERMISSION" : "E.PKG.INVALID", message };
}

function isAnsweredBy(report: ReportPackageStatusCommand, { id, order }: OpenCommand, about: WorkerDescription): boolean {
  const named = report.details?.["command"];
  if (typeof named === "string") return named === id;
  if (!isPackageCommand(order) || order.name !== report.name) return false;
  if (order.type === "pkg.uninstall" && reportsPackageCommands(about)) return false;
  const isVersion = report.version === "*" || (order.version ?? report.version) === report.version;
  // A failure may be about the package's going as well as its coming.
  if (report.status === "failed") return isVersion;
  return isVersion && order.type === (report.status === "removed" ? "pkg.uninstall" : "pkg.install");
}

const isInstallOf = (order: PackageCommand, one: { readonly name: string; readonly version: string }): boolean =>
  order.type === "pkg.install" && order.name === one.name && order.version === one.version;

/**
 * What a worker announces answers commands too: a package was to be installed or removed, and is. A command that reverts an earlier one
 * waits for that one: until then the worker looks like the second is done already. A worker that reports the end of each command announces
 * the loss of a version before the version is removed, when its hooks may still fail: that counts only with a new session.
 */
export function closeFulfilledCommands(
  work: UnitOfWork,
  row: WorkerRow,
  about: WorkerDescription,
  isNewSession: boolean,
): WorkerRow {
  const { orders, unanswered } = readCondition(row.condition);
  if (orders === undefined && unanswered === undefined) return row;
  const isRemovalSeen = isNewSession || !reportsPackageCommands(about);
  const installed = about.packages.filter(({ status }) => status === "installed");
  const isDone = (order: PackageCommand): boolean =>
    order.type === "pkg.install"
      ? installed.some((one) => isInstallOf(order, one))
      : isRemovalSeen &&
        !about.packages.some((one) => one.name === order.name && (order.version === null || one.version === order.version));
  const open: PackageCommand[] = [];
  const closed = closeCommands(work, row, ({ order }) => {
    if (!isPackageCommand(order)) return false;
    const isOver = isDone(order) && !open.some((one) => isOpposite(one, order));
    if (!isOver) open.push(order);
    return isOver;
  });
  return recordLateOutcomes(work, closed, ({ order }) => {
    if (!isPackageCommand(order) || !isDone(order) || open.some((one) => isOpposite(one, order))) return null;
    return { status: order.type === "pkg.install" ? "installed" : "removed" };
  });
}

const isOpposite = (a: PackageCommand, b: PackageCommand): boolean =>
  a.type !== b.type && a.name === b.name && (a.version === null || b.version === null || a.version === b.version);

/** The worker acknowledges a drain or its end. */
export function handleDrainAck(work: UnitOfWork, report: AcknowledgeDrainCommand): AnswerBody | Fault {
  const row = findSession(work, report)?.row;
  if (row === undefined) return unknownSession(report.worker);
  const closed = closeCommands(work, row, acknowledgedDrains(row, report));
  return { of: "word", applied: closed !== row };
}

/** An acknowledgement also covers what was sent before it: drains that reverted each other on their way here are never sent. */
function acknowledgedDrains(
  row: WorkerRow,
  { on, isAnotherUnacked = false }: AcknowledgeDrainCommand,
): (order: OpenCommand) => boolean {
  const drains = (readCondition(row.condition).orders ?? []).filter(({ order }) => !isPackageCommand(order));
  const isIt = ({ order }: OpenCommand): boolean => order.type === (on ? "drain" : "undrain");
  const last = isAnotherUnacked ? drains.findIndex(isIt) : drains.findLastIndex(isIt);
  const acknowledged = new Set(drains.slice(0, last + 1).map(({ id }) => id));
  return ({ id }) => acknowledged.has(id);
}

/** Whether it drains is part of every accepted join, so a joining worker knows it. */
export const closeDrainCommands = (work: UnitOfWork, row: WorkerRow): WorkerRow =>
  closeCommands(work, row, ({ order }) => !isPackageCommand(order), { details: { toldAtJoin: true } });

/** A new session knows nothing of unanswered commands, a resumed one may have lost some. The door sends each once per session. */
export function resendCommands(work: UnitOfWork, row: WorkerRow, session: string): void {
  for (const { id, order } of readCondition(row.condition).orders ?? [])
    if (isPackageCommand(order)) work.emit({ type: "order", session, worker: row.id, tenant: row.tenant, id, order });
}

/** No session is left that could answer. */
export const failOpenCommands = (work: UnitOfWork, row: WorkerRow): WorkerRow =>
  closeCommands(work, row, () => true, {
    error: { code: "E.WORKER.LOST", message: `worker ${row.name} was lost before it answered; send the command again` },
  });
