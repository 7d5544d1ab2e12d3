// One worker as lines of text: its state, its properties, its tasks and its handlers.

import type { Worker, WorkerDiagnostics } from "@astraflow/protocol";
import { formatValues } from "../output/format.ts";
import { formatTextTable, type TableCells } from "../output/table.ts";

/** `online`, or everything that limits the worker. */
export function describeWorkerState(worker: Worker): string {
  if (worker.connected !== true) return worker.status ?? "away";
  const parts = [
    worker.liveness !== undefined && worker.liveness !== "fresh" && worker.liveness,
    worker.heartbeat?.healthy === false && "unhealthy",
    worker.draining === true && (worker.drainedBy?.includes("operator") ?? true) && "draining",
    worker.drainedBy?.includes("strain") && "strained",
    worker.saturated === true && "saturated",
  ];
  return parts.filter(Boolean).join(",") || "online";
}

export const renderWorker = (worker: Worker): string[] => formatTextTable(workerRows(worker));

function workerRows(worker: Worker): string[][] {
  const { capabilities, heartbeat } = worker;
  const strain = worker.strain === undefined ? "" : ` (too little ${worker.strain})`;
  return [
    ["worker", worker.id],
    ["instance", worker.instanceId ?? "-"],
    ["state", `${describeWorkerState(worker)}${strain}`],
    ["seen", worker.lastHeartbeatAt],
    ["boot", worker.bootId ?? "-"],
    ["host", [worker.hostname, worker.version].filter(Boolean).join(" ") || "-"],
    ["slots", capabilities === undefined ? "-" : String(capabilities.concurrency.maxParallel)],
    ["pool", capabilities?.pool ?? "-"],
    ["tags", formatValues(capabilities?.tags ?? {}) || "-"],
    ["runtimes", capabilities?.runtimes.join(" ") || "-"],
    ["features", capabilities?.features.join(" ") || "-"],
    ["packages", (worker.packages ?? []).map((one) => `${one.name}@${one.version} (${one.status})`).join(" ") || "-"],
    ...describeManifestConflicts(worker).map((line) => ["conflict", line]),
    ["vitals", formatValues(heartbeat?.metrics ?? {}) || "-"],
  ];
}

/** One line per package version of which other workers announced another manifest. */
function describeManifestConflicts({ packages = [] }: Worker): string[] {
  return packages.flatMap(({ name, version, manifest, otherManifests = [] }) =>
    otherManifests.map(({ manifest: other, workers, workerCount }) => {
      const more = workerCount > workers.length ? ` and ${workerCount - workers.length} more` : "";
      return `${name}@${version}: its manifest is ${manifest ?? "?"}, that of ${workers.join(", ")}${more} is ${other}`;
    }),
  );
}

export function renderDiagnostics({ worker, session, liveness, ...rest }: WorkerDiagnostics): string[] {
  const about = [
    ...workerRows(worker),
    ["session", `${session.phase}, ${session.dialect ?? "?"}, joined ${session.joinedAt}, epoch ${session.epoch}`],
    ["scheduler", session.replica],
    ["lease until", session.leaseUntil ?? "-"],
    ["heard", `${liveness.level}: ${liveness.silentMs} ms ago, expected every ${liveness.heartbeatMs} ms`],
    ["outbox", rest.outbox === undefined ? "-" : String(rest.outbox)],
  ];
  const attempts = rest.attempts.map((one) => [
    one.taskId,
    one.nodeType ?? "-",
    String(one.attempt),
    String(one.fence),
    one.pendingAck ? "sent" : "acknowledged",
    one.since ?? "-",
  ]);
  // Many packages repeat their node types as capabilities; only other capabilities are shown.
  const nodeTypes = new Set(rest.handlers.map((one) => one.nodeType));
  const handlers = rest.handlers.map((one) => [
    one.nodeType ?? "-",
    `${one.package}@${one.version}`,
    one.runtime ?? "-",
    one.capabilities?.filter((name) => !nodeTypes.has(name)).join(" ") || "-",
  ]);
  return [
    ...formatTextTable(about),
    "",
    ...tableOrMessage(["HOLDS", "NODE TYPE", "ATTEMPT", "FENCE", "DISPATCH", "SINCE"], attempts, "No tasks."),
    ...(rest.hasMoreAttempts ? ["and more"] : []),
    "",
    ...tableOrMessage(["CAN RUN", "PACKAGE", "RUNTIME", "CAPABILITIES"], handlers, "No handlers."),
  ];
}

const tableOrMessage = (head: readonly string[], rows: TableCells, none: string): string[] =>
  rows.length === 0 ? [none] : formatTextTable([head, ...rows]);
