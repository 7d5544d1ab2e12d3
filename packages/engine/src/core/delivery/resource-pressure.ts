// Workers that run short of memory or disk get nothing new until they have room again, and hear that they drain. An operator's drain is
// another matter: neither undoes the other, and a worker hears of the end only when neither holds.

import type { RecordHeartbeat, WorkerDescription } from "../../interface/command.ts";
import { reliefMarginPct, type TenantSettings } from "../../interface/settings.ts";
import { type WorkerRow, workerKey } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type ReportedUsage = Pick<RecordHeartbeat, "memPct" | "diskPct">;

/** What a worker has too little of after this beat. One that no longer says how much it uses stays as it was. */
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

/** What keeps a worker from new work, as its connected worker will stand after what this turn has decided so far. */
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
 * After a beat: the log hears of a strain that came or went, the worker of a drain that came or went, whoever wanted it. True: a drain that
 * was ended elsewhere, of which the worker hears nothing because its strain keeps it from work.
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
  // Drained or undrained through another scheduler: the row says so, this fleet does not know yet.
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

/** Only those that know the end of a drain acknowledge either word. */
export const acknowledgesDrains = ({ dialect, features }: Pick<WorkerDescription, "dialect" | "features">): boolean =>
  dialect === "v2" && features.includes("undrain");

/** An operator's drain came or went: a worker that is kept from work by its strain anyway hears nothing new. */
export function sendDrain(work: UnitOfWork, connected: ConnectedWorker, on: boolean, reason: string): void {
  if (drainStateAfterTurn(work, connected).pressure === null)
    work.emit({ type: "drain", session: connected.session, worker: connected.worker, on, reason });
}
