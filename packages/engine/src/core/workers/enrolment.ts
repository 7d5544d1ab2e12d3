// Workers registered over REST: listed, without tasks until their socket is up. What a live session announces takes precedence.

import { type Fault, fault } from "@astraflow/protocol";
import type { EnrolWorkerCommand, WorkerDescription } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { workerTimings } from "../../interface/settings.ts";
import { type WorkerRow, workerKey } from "../../storage/rows.ts";
import { findConnectedWorker } from "../delivery/find-worker.ts";
import { applyWorkerTransition, isGone, newWorkerRow } from "../rows/worker.ts";
import { readCondition, writeCondition } from "../rows/worker-condition.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { closeFulfilledCommands } from "./issued-commands.ts";
import { describedData, packageChanges } from "./package-changes.ts";

export function enrolWorker(work: UnitOfWork, command: EnrolWorkerCommand): AnswerBody | Fault {
  const row = work.worker(command.worker);
  if (row !== null && row.tenant !== command.tenant) return unknownWorker(command);
  if (row === null && command.about === null) return unknownWorker(command);
  const now = row === null ? insertEnrolledWorker(work, command) : updateEnrolledWorker(work, command, row);
  const { dialect = "" } = JSON.parse(now.about) as Partial<WorkerDescription>;
  const { heartbeatMs } = workerTimings(work.settings, now.tenant, dialect);
  return { of: "enrolled", worker: now.id, heartbeatMs, isOnline: now.phase === "online" };
}

const unknownWorker = (command: EnrolWorkerCommand): Fault =>
  fault("E.NOT_FOUND", `worker ${command.worker.slice(command.tenant.length + 1)} does not exist; register it first`);

function insertEnrolledWorker(work: UnitOfWork, command: EnrolWorkerCommand): WorkerRow {
  const row: WorkerRow = {
    ...newWorkerRow(command, work.nextId(), work.self, work.now),
    about: JSON.stringify(describedBy(command, null)),
    condition: withStatus(work, command, "{}"),
  };
  work.put(row);
  recordEnrolled(work, command, row, "{}");
  return row;
}

function updateEnrolledWorker(work: UnitOfWork, command: EnrolWorkerCommand, row: WorkerRow): WorkerRow {
  const connected = findConnectedWorker(work, row);
  // Its socket is at another scheduler, which knows better what it has.
  if (row.phase === "online" && connected === null) return row;
  const before = JSON.parse(row.about) as WorkerDescription;
  const about =
    row.phase === "online"
      ? { ...before, packages: announcedPackages(command) ?? before.packages }
      : describedBy(command, before);
  const text = JSON.stringify(about);
  const noted = applyWorkerTransition(row, { type: "note", condition: withStatus(work, command, row.condition) }, work.now);
  const moved = applyWorkerTransition(noted, { type: "describe", about: text }, work.now);
  // A worker that was lost, and whose attempts are all taken back, is registered again. A sign of life has no name.
  const name = command.about === null ? row.name : command.name;
  const now = isGone(row) && row.due === null ? applyWorkerTransition(moved, { type: "enrol", name }, work.now) : moved;
  work.put(now);
  if (command.about !== null && row.phase !== "online") recordEnrolled(work, command, now, row.about);
  else if (text !== row.about)
    work.recordFact(row.tenant, workerKey(row.id), "worker.described", describedData(row.about, about));
  if (connected !== null && text !== row.about) work.changeFleet({ type: "describe", worker: row.id, about });
  return text === row.about ? now : closeFulfilledCommands(work, now, about, connected === null);
}

const announcedPackages = (command: EnrolWorkerCommand): WorkerDescription["packages"] | null =>
  command.packages ?? command.about?.packages ?? null;

function describedBy(command: EnrolWorkerCommand, before: WorkerDescription | null): WorkerDescription {
  const about = command.about ?? before;
  if (about === null) throw new Error(`worker ${command.worker} announced nothing`);
  return { ...about, packages: announcedPackages(command) ?? about.packages };
}

function withStatus(work: UnitOfWork, command: EnrolWorkerCommand, condition: string): string {
  const known = readCondition(condition);
  const { status } = command;
  if (status === null) return writeCondition({ ...known, beatAt: work.now });
  if (typeof status === "string") return writeCondition({ ...known, vitals: { ...known.vitals, status }, beatAt: work.now });
  const { healthy = known.healthy, metrics = known.vitals?.["metrics"] } = status;
  return writeCondition({ ...known, healthy, vitals: { ...known.vitals, metrics }, beatAt: work.now });
}

/** `before`: the text of what was known of it. */
function recordEnrolled(work: UnitOfWork, command: EnrolWorkerCommand, row: WorkerRow, before: string): void {
  const about = JSON.parse(row.about) as WorkerDescription;
  const { length: packages } = about.packages;
  const changes = packageChanges(before, about);
  work.recordFact(command.tenant, workerKey(row.id), "worker.enrolled", { name: row.name, packages, by: command.by, ...changes });
}
