// What the worker reports about itself: metrics, health and inventory. status-server.ts serves it.

import { Fault, readManifest } from "@astraflow/protocol";
import type { LoadedPackagesSummary, SessionWorker, WorkerHealth, WorkerIdentity } from "@astraflow/runtime";
import type { Gauge, WorkerMetrics } from "./metrics.ts";

export interface StatusSources {
  readonly identity: Pick<WorkerIdentity, "name" | "tenant" | "version" | "boot"> & { readonly worker: string };
  readonly metrics: WorkerMetrics;
  readonly worker: Pick<SessionWorker, "inventory" | "isOutboxWritable"> & {
    readonly runner: { readonly loadedPackages: LoadedPackagesSummary };
  };
  readHealth(): WorkerHealth;
}

export function renderMetrics(sources: StatusSources): string {
  const { counts, phase, leaseLeftMs } = sources.worker.inventory();
  const { metrics } = sources.readHealth();
  const { user, system } = process.cpuUsage();
  const gauges: Gauge[] = [
    { name: "inflight_tasks", help: "Handlers that were called and have not come back.", value: counts.occupied },
    { name: "held_attempts", help: "Attempts this worker answers for.", value: counts.held },
    { name: "outbox_length", help: "Outcomes that the scheduler has not acked.", value: counts.outbox },
    { name: "outbox_writable", help: "1 while outcomes can be kept on disk.", value: sources.worker.isOutboxWritable ? 1 : 0 },
    { name: "unacked_frames", help: "Messages of every kind that the scheduler has not acked.", value: counts.unacked },
    { name: "session_ready", help: "1 while the session takes work.", value: phase === "READY" ? 1 : 0 },
    {
      name: "session_lease_left_ms",
      help: "Milliseconds until the lease expires and running work is stopped.",
      value: leaseLeftMs ?? 0,
    },
    ...Object.entries(metrics).map(([name, value]) => ({
      name: `worker_${name}`,
      help: "The same number as in the heartbeat.",
      value,
    })),
    { name: "process_resident_memory_bytes", help: "Memory of the process.", value: process.memoryUsage.rss() },
    { name: "process_cpu_seconds", help: "Processor time of the process so far.", value: (user + system) / 1e6 },
    { name: "process_uptime_seconds", help: "Age of the process.", value: process.uptime() },
  ];
  return sources.metrics.render(gauges);
}

/** Reasons to take this worker out of service; empty: it is well. The session is no part of it: a scheduler may be away for a while. */
export function listHealthProblems(sources: StatusSources): readonly string[] {
  const outbox = sources.worker.isOutboxWritable ? [] : ["the outbox cannot be written"];
  const closed = sources.worker.inventory().phase === "CLOSED" ? ["the link is closed"] : [];
  return [...closed, ...outbox];
}

/** What keeps new work away without being a reason to restart anything. */
export function listWarnings(sources: StatusSources): readonly string[] {
  const { phase } = sources.worker.inventory();
  const isInSession = phase === "READY" || phase === "DRAINING" || phase === "CLOSED";
  return [...(isInSession ? [] : [`there is no session with the scheduler (${phase})`]), ...sources.readHealth().problems];
}

export function describeInventory(sources: StatusSources): object {
  const { phase, session, leaseLeftMs, attempts, counts, stream } = sources.worker.inventory();
  const { metrics, problems } = sources.readHealth();
  return {
    ...sources.identity,
    pid: process.pid,
    session: { phase, id: session, leaseLeftMs },
    handlers: sources.worker.runner.loadedPackages.packages.flatMap(listHandlers),
    packageProblems: sources.worker.runner.loadedPackages.problems,
    running: attempts,
    resources: metrics,
    problems,
    outbox: { length: counts.outbox, isWritable: sources.worker.isOutboxWritable },
    counts,
    stream,
  };
}

function listHandlers({ name, version, manifestJson, nodeTypes }: LoadedPackagesSummary["packages"][number]): object[] {
  const manifest = readManifest(manifestJson);
  if (manifest instanceof Fault) return [];
  return manifest.nodes
    .filter((node) => nodeTypes.includes(node.type))
    .map((node) => {
      const adapter = manifest.adapters.find((one) => one.name === node.adapter);
      return {
        package: name,
        version,
        runtime: adapter?.runtime ?? "node",
        nodeType: node.type,
        capabilities: adapter?.capabilities ?? [],
      };
    });
}
