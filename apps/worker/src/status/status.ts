// What the worker says about itself to whoever asks it directly: numbers, whether it is well, and what it has and does.
// How the question arrives is status-server.ts.

import { Fault, type JsonObject, readManifest } from "@astraflow/protocol";
import type { LinkInventory, WorkerHealth } from "@astraflow/runtime";
import type { Gauge, WorkerMetrics } from "./metrics.ts";

export interface OfferedPackage {
  readonly name: string;
  readonly version: string;
  readonly manifestJson: JsonObject;
  /** Those that can be called here. */
  readonly nodeTypes: readonly string[];
}

/** A package that is not offered, or a node of it that cannot be run, and why. */
export interface PackageLoadProblem {
  readonly dir: string;
  readonly code: string;
  readonly message: string;
}

export interface StatusSources {
  readonly identity: {
    readonly worker: string;
    readonly name: string;
    readonly tenant: string;
    readonly version: string;
    readonly boot: string;
  };
  readonly metrics: WorkerMetrics;
  packages(): readonly OfferedPackage[];
  packageProblems(): readonly PackageLoadProblem[];
  inventory(): LinkInventory;
  isOutboxWritable(): boolean;
  readHealth(): WorkerHealth;
}

/** Text for Prometheus. */
export function renderMetrics(sources: StatusSources): string {
  const { counts, phase, leaseLeftMs } = sources.inventory();
  const { metrics } = sources.readHealth();
  const { user, system } = process.cpuUsage();
  const gauges: Gauge[] = [
    { name: "inflight_tasks", help: "Handlers that were called and have not come back.", value: counts.occupied },
    { name: "held_attempts", help: "Attempts this worker answers for.", value: counts.held },
    { name: "outbox_length", help: "Outcomes that the scheduler has not acked.", value: counts.outbox },
    { name: "outbox_writable", help: "1 while outcomes can be kept on disk.", value: sources.isOutboxWritable() ? 1 : 0 },
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
  const outbox = sources.isOutboxWritable() ? [] : ["the outbox cannot be written"];
  const closed = sources.inventory().phase === "CLOSED" ? ["the link is closed"] : [];
  return [...closed, ...outbox];
}

/** What keeps new work away without being a reason to restart anything. */
export function listWarnings(sources: StatusSources): readonly string[] {
  const { phase } = sources.inventory();
  const isInSession = phase === "READY" || phase === "DRAINING" || phase === "CLOSED";
  return [...(isInSession ? [] : [`there is no session with the scheduler (${phase})`]), ...sources.readHealth().problems];
}

export function describeInventory(sources: StatusSources): object {
  const { phase, session, leaseLeftMs, attempts, counts, stream } = sources.inventory();
  const { metrics, problems } = sources.readHealth();
  return {
    ...sources.identity,
    pid: process.pid,
    session: { phase, id: session, leaseLeftMs },
    handlers: sources.packages().flatMap(listHandlers),
    packageProblems: sources.packageProblems(),
    running: attempts,
    resources: metrics,
    problems,
    outbox: { length: counts.outbox, isWritable: sources.isOutboxWritable() },
    counts,
    stream,
  };
}

function listHandlers({ name, version, manifestJson: written, nodeTypes }: OfferedPackage): object[] {
  const manifest = readManifest(written);
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
