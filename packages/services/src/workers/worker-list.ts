// The list of workers, page by page in the order of their ids.

import type { Worker } from "@astraflow/protocol";
import { decodeIdCursor, encodeIdCursor } from "../documents/page-cursors.ts";
import { presentWorker } from "../presentation/worker-view.ts";
import { type WorkerServices, workerViewContext } from "./worker-services.ts";

/** All that are given must match. */
export interface WorkerFilter {
  readonly queue?: string | undefined;
  readonly packageName?: string | undefined;
  readonly packageVersion?: string | undefined;
  readonly packageStatus?: string | undefined;
  readonly connected?: boolean | undefined;
  readonly registered?: boolean | undefined;
  readonly healthy?: boolean | undefined;
  readonly heartbeatAgeSecondsMax?: number | undefined;
  readonly inflightMax?: number | undefined;
  readonly latencyMsMax?: number | undefined;
}

export async function listWorkers(
  workers: WorkerServices,
  tenant: string,
  { limit, cursor, filter }: { readonly limit: number; readonly cursor: string | undefined; readonly filter: WorkerFilter },
) {
  const after = decodeIdCursor("workers", cursor);
  const { items, head } = await workers.reader.page({ page: "workers", tenant });
  const context = workerViewContext(workers);
  const found = items
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .filter(({ id }) => after === undefined || id > `${tenant}/${after}`)
    .map((worker) => presentWorker(worker, context))
    .filter((worker) => matchesWorkerFilter(worker, filter, context.now));
  const shown = found.slice(0, limit);
  const last = found.length > limit ? (shown.at(-1)?.instanceId ?? null) : null;
  return { items: shown, nextCursor: encodeIdCursor("workers", last), asOf: head };
}

export function matchesWorkerFilter(worker: Worker, filter: WorkerFilter, now: number): boolean {
  const { queue, connected, registered, healthy, heartbeatAgeSecondsMax, inflightMax, latencyMsMax } = filter;
  const { heartbeat } = worker;
  if (queue !== undefined && !worker.queues.includes(queue)) return false;
  if (connected !== undefined && (worker.connected ?? false) !== connected) return false;
  if (registered !== undefined && (worker.registered ?? false) !== registered) return false;
  if (healthy !== undefined && (heartbeat?.healthy ?? false) !== healthy) return false;
  const ageMs = now - Date.parse(worker.lastHeartbeatAt);
  if (heartbeatAgeSecondsMax !== undefined && ageMs > heartbeatAgeSecondsMax * 1_000) return false;
  if (inflightMax !== undefined && (heartbeat?.metrics?.inflight ?? 0) > inflightMax) return false;
  if (latencyMsMax !== undefined && (heartbeat?.metrics?.latencyMs ?? 0) > latencyMsMax) return false;
  return hasPackage(worker, filter);
}

function hasPackage({ packages = [] }: Worker, { packageName, packageVersion, packageStatus }: WorkerFilter): boolean {
  if (packageName === undefined && packageVersion === undefined && packageStatus === undefined) return true;
  return packages.some(
    ({ name, version, status }) =>
      (packageName === undefined || name === packageName) &&
      (packageVersion === undefined || version === packageVersion) &&
      (packageStatus === undefined || status === packageStatus),
  );
}
