// One worker as lines of text: its state in a word, what is known of it, what it holds and can do.

import type { Worker, WorkerDiagnostics } from "@astraflow/protocol";
import { layTable, tame } from "./terminal.ts";

/** All that keeps it from being plainly online, or that it is. */
export function stateOf(worker: Worker): string {
  if (worker.connected !== true) return worker.status ?? "away";
  const words = [
    ...(worker.liveness !== undefined && worker.liveness !== "fresh" ? [worker.liveness] : []),
    ...(worker.heartbeat?.healthy === false ? ["unwell"] : []),
    ...(worker.draining === true && (worker.drainedBy?.includes("operator") ?? true) ? ["draining"] : []),
    ...(worker.drainedBy?.includes("strain") ? ["strained"] : []),
    ...(worker.saturated === true ? ["saturated"] : []),
  ];
  return words.join(",") || "online";
}

export function drawWorker(worker: Worker): string[] {
  return layTable(rowsOf(worker));
}

function rowsOf(worker: Worker): string[][] {
  const { capabilities, heartbeat } = worker;
  const rows: [string, string][] = [
    ["worker", worker.id],
    ["instance", worker.instanceId ?? "-"],
    ["state", worker.strain === undefined ? stateOf(worker) : `${stateOf(worker)} (too little ${worker.strain})`],
    ["seen", worker.lastHeartbeatAt],
    ["boot", worker.bootId ?? "-"],
    ["host", [worker.hostname, worker.version].filter(Boolean).join(" ") || "-"],
    ["slots", capabilities === undefined ? "-" : String(capabilities.concurrency.maxParallel)],
    ["pool", capabilities?.pool ?? "-"],
    ["tags", pairs(capabilities?.tags ?? {})],
    ["runtimes", capabilities?.runtimes.join(" ") || "-"],
    ["features", capabilities?.features.join(" ") || "-"],
    ["packages", (worker.packages ?? []).map((one) => `${one.name}@${one.version} (${one.status})`).join(" ") || "-"],
    ["vitals", pairs(heartbeat?.metrics ?? {})],
  ];
  return rows.map(([name, value]) => [name, tame(value)]);
}

export function drawDiagnostics({ worker, session, liveness, ...rest }: WorkerDiagnostics): string[] {
  const about = layTable([
    ...rowsOf(worker),
    ["session", `${session.phase}, ${tame(session.dialect ?? "?")}, joined ${session.joinedAt}, epoch ${session.epoch}`],
    ["scheduler", tame(session.replica)],
    ["lease until", session.leaseUntil ?? "-"],
    ["heard", `${liveness.level}: ${liveness.silentMs} ms ago, expected every ${liveness.heartbeatMs} ms`],
    ["outbox", rest.outbox === undefined ? "-" : String(rest.outbox)],
  ]);
  const attempts = rest.attempts.map((one) => [
    tame(one.taskId),
    tame(one.nodeType ?? "-"),
    String(one.attempt),
    String(one.fence),
    one.pendingAck ? "sent" : "acknowledged",
    one.since ?? "-",
  ]);
  // Many packages repeat their node types as capabilities; the column is for what is said nowhere else.
  const nodeTypes = new Set(rest.handlers.map((one) => one.nodeType));
  const handlers = rest.handlers.map((one) => [
    tame(one.nodeType ?? "-"),
    tame(`${one.package}@${one.version}`),
    tame(one.runtime ?? "-"),
    tame(one.capabilities?.filter((word) => !nodeTypes.has(word)).join(" ") || "-"),
  ]);
  return [
    ...about,
    "",
    ...table(["HOLDS", "NODE TYPE", "ATTEMPT", "FENCE", "DISPATCH", "SINCE"], attempts, "It holds nothing."),
    ...(rest.hasMoreAttempts ? ["and more"] : []),
    "",
    ...table(["CAN RUN", "PACKAGE", "RUNTIME", "CAPABILITIES"], handlers, "It offers nothing."),
  ];
}

const table = (head: readonly string[], rows: readonly (readonly string[])[], none: string): string[] =>
  rows.length === 0 ? [none] : layTable([head, ...rows]);

const pairs = (values: Readonly<Record<string, unknown>>): string =>
  Object.entries(values)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ") || "-";
