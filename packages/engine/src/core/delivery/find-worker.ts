// Finding the worker of a command, and its connection here. Reads only.

import { type Fault, fault } from "@astraflow/protocol";
import type { WorkerDescription } from "../../interface/command.ts";
import { type Tenant, type WorkerId, type WorkerRow, workerKey } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import { readCondition } from "../rows/worker-condition.ts";
import { RootBusy } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Unknown and another tenant's get one and the same answer. */
export function findOwnWorker(
  work: UnitOfWork,
  request: { readonly tenant: Tenant; readonly worker: WorkerId },
): WorkerRow | Fault {
  const row = work.worker(request.worker);
  if (row !== null && row.tenant === request.tenant) return row;
  return fault("E.NOT_FOUND", `worker ${request.worker.slice(request.tenant.length + 1)} does not exist`);
}

/**
 * The worker's live connection here; null for one from before the worker moved on. If this turn makes or changes the connection, the fleet
 * does not show it yet: the command waits for the next turn.
 */
export function findConnectedWorker(work: UnitOfWork, row: WorkerRow): ConnectedWorker | null {
  if (work.changedWorkers.has(row.id)) throw new RootBusy(workerKey(row.id));
  const connected = work.fleet.workers.get(row.id);
  return connected !== undefined && connected.epoch === row.epoch && row.phase === "online" ? connected : null;
}

/** The connection of the session that sent a report: a present one, or one that has left. Null: the worker has a newer session since. */
export function findReportingWorker(
  work: UnitOfWork,
  report: { readonly worker: WorkerId; readonly session: string },
): ConnectedWorker | null {
  const connected =
    work.fleet.workerInSession(report.worker, report.session) ?? findDisconnectedWorker(work, report.worker, report.session);
  return connected !== null && work.worker(report.worker)?.epoch === connected.epoch ? connected : null;
}

/**
 * The connection of a session that has left without a successor, as the worker's row shows it: its reports from before may be decided
 * afterwards and still count. It holds nothing and gets nothing.
 */
export function findDisconnectedWorker(work: UnitOfWork, worker: WorkerId, session: string): ConnectedWorker | null {
  const row = work.worker(worker);
  if (row?.phase !== "away") return null;
  const { session: last, healthy, strain: pressure, beatAt } = readCondition(row.condition);
  if (last !== session) return null;
  return {
    worker: row.id,
    tenant: row.tenant,
    name: row.name,
    session,
    boot: row.boot,
    epoch: row.epoch,
    about: JSON.parse(row.about) as WorkerDescription,
    draining: row.draining,
    healthy,
    resourcePressure: pressure,
    liveness: "unhealthy",
    heartbeatAt: beatAt ?? work.now,
    fullSince: null,
    isSaturated: false,
    attempts: new Map(),
  };
}
