// The filters of the list of workers; all filters that are given must match.

import type { Worker } from "@astraflow/protocol";
import { readBoolean, readNumber } from "../requests/query-readers.ts";

type WorkerQuery = Readonly<Record<string, string>>;

export function workerFilter(query: WorkerQuery, now: number): (worker: Worker) => boolean {
  const { queue, packageName, packageVersion, packageStatus } = query;
  const connected = readBoolean(query, "connected");
  const registered = readBoolean(query, "registered");
  const healthy = readBoolean(query, "healthy");
  const ageMs = readNumber(query, "maxHeartbeatAgeSeconds", 1_000);
  const inflight = readNumber(query, "maxInflight", 1);
  const latency = readNumber(query, "maxLatencyMs", 1);
  const hasPackage = (worker: Worker): boolean =>
    (worker.packages ?? []).some(
      (one) =>
        (packageName === undefined || one.name === packageName) &&
        (packageVersion === undefined || one.version === packageVersion) &&
        (packageStatus === undefined || one.status === packageStatus),
    );
  const asksForPackage = packageName !== undefined || packageVersion !== undefined || packageStatus !== undefined;
  return (worker) => {
    const numbers = worker.heartbeat?.metrics;
    if (queue !== undefined && !worker.queues.includes(queue)) return false;
    if (connected !== null && (worker.connected ?? false) !== connected) return false;
    if (registered !== null && (worker.registered ?? false) !== registered) return false;
    if (healthy !== null && (worker.heartbeat?.healthy ?? false) !== healthy) return false;
    if (ageMs !== null && now - Date.parse(worker.lastHeartbeatAt) > ageMs) return false;
    if (inflight !== null && (numbers?.inflight ?? 0) > inflight) return false;
    if (latency !== null && (numbers?.latencyMs ?? 0) > latency) return false;
    return !asksForPackage || hasPackage(worker);
  };
}
