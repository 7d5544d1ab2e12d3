// Workers short of memory or disk get no new tasks and are told to drain. An operator's drain is independent: neither ends the other.

import type { RecordHeartbeatCommand, WorkerDescription } from "../../interface/command.ts";
import { reliefMarginPct, type TenantSettings } from "../../interface/settings.ts";
import { type WorkerRow, workerKey } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type ReportedUsage = Pick<RecordHeartbeatCommand, "memPct" | "diskPct">;

/** What a worker runs short of after this heartbeat. One that no longer reports its use stays as it was. */
export function pressureAfter(pressure: string | null, usage: ReportedUsage, limits: TenantSettings): string | null {
  const was = pressure === null ? [] : pressure.split(" ");
  const isShort = (cause: string, pct: number | undefined, limit: number): boolean => {
    if (pct === undefined) return was.includes(cause);
    return was.includes(cause) ? pct > limit - reliefMarginPct : pct >= limit;
  };
  const now: string[] = [];
  if (isShort("memory", usage.memPct, limits.drainMemPct)) now.push("memory");
  if (isShort("disk", usage.diskPct, limits.drainDiskPct)) now.push("disk");
  return now.length === 0 ? null : now.join(" ");
}

/** What keeps a worker from new tasks, including what this turn has decided so far. */
export function drainStateAfterTurn(
  work: UnitOfWork,
  connected: ConnectedWorker,
): { draining: boolean; pressure: string | null } {
  let { draining, resourcePressure: pressure } = connected;
  if (!work.changedWorkers.has(connected.worker)) return { draining, pressure };
  for (const change of work.fleetChanges) {
    if (change.type === "drain" && change.worker === connected.worker) draining = change.on;
    if (change.type === "heartbeat" && change.worker === connected.worker) pressure = change.resourcePressure;
  }
  return { draining, pressure };
}

/**
 * After a heartbeat: records a pressure that began or ended, and tells the worker of a drain that began or ended, whatever caused it. True:
 * a drain was ended elsewhere, and the worker is not told because its pressure keeps it from work anyway.
 */
export function recordPressureChange(
  work: UnitOfWork,
  connected: ConnectedWorker,
  row: WorkerRow,
  heartbeat: { readonly usage: ReportedUsage; readonly pressure: string | null; readonly limits: TenantSettings },
): boolean {
  const { usage, pressure, limits } = heartbeat;
  const before = drainStateAfterTurn(work, connected);
  const wasKept = before.draining || before.pressure !== null;
  const isKept = row.draining || pressure !== null;
  const { memPct = null, diskPct = null } = usage;
  if (before.pressure === null && pressure !== null)
    work.recordFact(connected.tenant, workerKey(connected.worker), "worker.strained", {
      memPct,
      diskPct,
      limit: { memPct: limits.drainMemPct, diskPct: limits.drainDiskPct },
    });
  if (before.pressure !== null && pressure === null)
    work.recordFact(connected.tenant, workerKey(connected.worker), "worker.relieved", { memPct, diskPct });
  // Drained or undrained through another scheduler: the row shows it, this fleet does not yet.
  if (row.draining !== before.draining) work.changeFleet({ type: "drain", worker: connected.worker, on: row.draining });
  if (wasKept === isKept) return pressure !== null && before.draining && !row.draining;
  const reason =
    row.draining !== before.draining
      ? "asked elsewhere"
      : pressure === null
        ? "room again"
        : `short of ${pressure.replace(" ", " and ")}`;
  work.emit({ type: "drain", session: connected.session, worker: connected.worker, on: isKept, reason });
  return false;
}

/** Only workers that know the end of a drain acknowledge either message. */
export const acknowledgesDrains = ({ dialect, features }: Pick<WorkerDescription, "dialect" | "features">): boolean =>
  dialect === "v2" && features.includes("undrain");

/** An operator's drain began or ended: a worker that is kept from work by its pressure is not told. */
export function sendDrain(work: UnitOfWork, connected: ConnectedWorker, on: boolean, reason: string): void {
  if (drainStateAfterTurn(work, connected).pressure === null)
    work.emit({ type: "drain", session: connected.session, worker: connected.worker, on, reason });
}
