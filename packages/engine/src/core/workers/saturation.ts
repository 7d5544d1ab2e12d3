// Workers without a free slot for a while are recorded as saturated, once, and once when that is over. Nothing is decided by it.

import { settingsForTenant } from "../../interface/settings.ts";
import { type WorkerRow, workerKey } from "../../storage/rows.ts";
import { type ConnectedWorker, usedSlots } from "../fleet/connected-worker.ts";
import { readCondition, writeCondition } from "../rows/worker-condition.ts";
import type { IsolateFailure } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

export function updateSaturation(work: UnitOfWork, isolate: IsolateFailure): void {
  for (const connected of work.fleet.workers.values()) {
    const isFull = usedSlots(connected) > 0 && usedSlots(connected) >= connected.about.slots;
    if (!isFull && connected.fullSince === null) continue;
    if (work.fleet.pendingChanges.concernedWorkers.has(connected.worker) || work.changedWorkers.has(connected.worker)) continue;
    const { worker } = connected;
    if (!isFull) {
      if (connected.isSaturated) isolate(workerKey(worker), () => recordSaturation(work, connected, null));
      else work.changeFleet({ type: "load", worker, since: null, isSaturated: false });
    } else if (connected.fullSince === null) work.changeFleet({ type: "load", worker, since: work.now, isSaturated: false });
    else {
      const since = connected.fullSince;
      if (!connected.isSaturated && work.now - since >= settingsForTenant(work.settings, connected.tenant).saturatedMs)
        isolate(workerKey(worker), () => recordSaturation(work, connected, since));
    }
  }
}

/** Records that a worker has become saturated (`since` it was full), or that it has a free slot again (null). */
function recordSaturation(work: UnitOfWork, connected: ConnectedWorker, since: number | null): void {
  const row: WorkerRow | null = work.worker(connected.worker);
  // Taken over by another scheduler: what this fleet thinks of it is the past.
  if (row === null || row.epoch !== connected.epoch || row.phase !== "online") return;
  const condition = writeCondition({ ...readCondition(row.condition), saturatedAt: since });
  work.moveWorker(row, { type: "note", condition });
  if (since === null)
    work.recordFact(connected.tenant, workerKey(connected.worker), "worker.unsaturated", { slots: connected.about.slots });
  else {
    const data = { slots: connected.about.slots, sinceMs: work.now - since };
    work.recordFact(connected.tenant, workerKey(connected.worker), "worker.saturated", data);
    work.recordMetric("worker_saturated_total", { tenant: connected.tenant });
  }
  work.changeFleet({ type: "load", worker: connected.worker, since, isSaturated: since !== null });
}
