// Finding the worker of a command, its connection here, and what it holds. Reads only.

import { type Fault, fault } from "@astraflow/protocol";
import type { SessionReport } from "../../interface/command.ts";
import { type LeasedTask, type RunRow, type WorkerRow, workerKey } from "../../storage/rows.ts";
import { type ConnectedWorker, type HeldAttempt, newConnectedWorker } from "../fleet/connected-worker.ts";
import { readDescription } from "../fleet/route.ts";
import { readCondition } from "../rows/worker-condition.ts";
import { RootBusy } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Unknown and another tenant's get one and the same answer. */
export function findOwnWorker(work: UnitOfWork, request: Pick<SessionReport, "tenant" | "worker">): WorkerRow | Fault {
  const row = work.worker(request.worker);
  if (row !== null && row.tenant === request.tenant) return row;
  return fault("E.NOT_FOUND", `worker ${request.worker.slice(request.tenant.length + 1)} does not exist`);
}

/** The worker's live connection here, or null. If this turn changes it, the fleet does not show that yet: the command waits a turn. */
export function findConnectedWorker(work: UnitOfWork, row: WorkerRow): ConnectedWorker | null {
  if (work.changedWorkers.has(row.id)) throw new RootBusy(workerKey(row.id));
  const connected = work.fleet.workers.get(row.id);
  return connected !== undefined && connected.epoch === row.epoch && row.phase === "online" ? connected : null;
}

/** A live session and the row of its worker; null where the session is not here or the worker has a newer one. */
export function findSession(work: UnitOfWork, report: SessionReport): { connected: ConnectedWorker; row: WorkerRow } | null {
  const connected = work.fleet.workerInSession(report.worker, report.session);
  const row = connected === null ? null : work.worker(report.worker);
  return connected !== null && row?.epoch === connected.epoch ? { connected, row } : null;
}

/** The worker whose session sent a report: a present one, or one that has left. Null: the worker has a newer session since. */
export function findReportingWorker(work: UnitOfWork, report: SessionReport): WorkerRow | null {
  const { epoch } = work.fleet.workerInSession(report.worker, report.session) ?? findDisconnectedWorker(work, report) ?? {};
  const row = work.worker(report.worker);
  return row?.epoch === epoch ? row : null;
}

/** A session that has left without a successor: its reports from before may be decided afterwards and still count. It holds nothing. */
export function findDisconnectedWorker(work: UnitOfWork, { worker, session }: SessionReport): ConnectedWorker | null {
  const row = work.worker(worker);
  if (row?.phase !== "away" || readCondition(row.condition).session !== session) return null;
  const unstopped = work.fleet.unstoppedOfAbsent(worker, row.boot);
  return { ...newConnectedWorker(row, session, readDescription(row), work.now), ...(unstopped !== undefined && { unstopped }) };
}

export const unknownSession = (worker: string): Fault =>
  fault("E.SESSION.STALE_BINDING", `worker ${worker} has no such session here; handshake again`);

/** The task of an attempt and its run, if the rows show the attempt as this worker's. */
export function findHeldTask(work: UnitOfWork, held: HeldAttempt): { task: LeasedTask; run: RunRow } | null {
  const task = work.task(held.task);
  if (task?.phase !== "leased" || task.fence !== held.fence || task.worker !== held.worker) return null;
  const run = work.run(task.run);
  return run === null ? null : { task, run };
}
