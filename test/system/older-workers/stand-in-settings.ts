// Settings of a stand-in for another vendor's worker, under the names such workers use, and its output: one JSON line on stdout
// for each event that a test may wait for. Its connection to a scheduler is not here.

import { hostname } from "node:os";
import { journalVariable } from "../../../bench/crash-test/jobs.ts";

export interface StandInSettings {
  readonly url: string;
  readonly tenant: string;
  readonly token: string;
  readonly name: string;
  readonly instance: string;
  readonly hostname: string;
  readonly beatMs: number;
  readonly beatJitterMs: number;
  readonly slots: number;
  /** Its manifests require nothing, unlike those of other workers with the same versions. */
  readonly isLenient: boolean;
  readonly reconnectMs: number;
  readonly reconnectMsMax: number;
  /** Where executions are written down. */
  readonly journal: string;
}

export function readStandInSettings(env: Readonly<Record<string, string | undefined>>): StandInSettings {
  const text = (name: string, fallback: string): string => env[`ASTRA_WORKER_${name}`] ?? fallback;
  const ms = (name: string, seconds: number): number => Number(text(name, String(seconds))) * 1_000;
  const journal = env[journalVariable];
  if (journal === undefined) throw new Error(`${journalVariable} must name the file of the journal`);
  const name = text("WORKER_NAME", "worker-local");
  return {
    url: text("SCHEDULER_WS_URL", "ws://localhost:8080/ws/worker"),
    tenant: text("TENANT", "default"),
    token: text("AUTH_TOKEN", ""),
    name,
    instance: text("WORKER_INSTANCE_ID", name),
    hostname: hostname(),
    beatMs: ms("HEARTBEAT_INTERVAL_SECONDS", 30),
    beatJitterMs: ms("HEARTBEAT_JITTER_SECONDS", 5),
    slots: Number(text("CONCURRENCY_MAX_PARALLEL", "1")),
    isLenient: text("LENIENT_MANIFESTS", "") !== "",
    reconnectMs: ms("RECONNECT_BASE_DELAY_SECONDS", 1),
    reconnectMsMax: ms("RECONNECT_MAX_DELAY_SECONDS", 30),
    journal,
  };
}

/** A line on stdout. `ready` is the first of a process; the others are printed for every event of their kind. */
export type StandInLine =
  | { readonly ready: true; readonly event: "ready" }
  /** A session: `greeting` is the id of the frame that asked for it. */
  | { readonly event: "accepted"; readonly greeting: string; readonly resumed: boolean }
  | { readonly event: "reset"; readonly code: string }
  | { readonly event: "cut"; readonly code: number }
  | { readonly event: "started" | "ended" | "still"; readonly task: string }
  /** An outcome that could not be sent, and is gone with its number. */
  | { readonly event: "lost"; readonly task: string }
  | { readonly event: "draining" }
  | { readonly event: "ignored"; readonly type: string };

export function printLine(line: StandInLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** A frame that such a worker cannot read: in production only a line of its log would show it. */
export function reportDroppedFrame(why: string, text: string): void {
  process.stderr.write(`dropped: ${why}: ${text.slice(0, 500)}\n`);
}

/** A child of the ledger ends with its parent, however that ends. */
export function exitWithParent(): void {
  if (process.connected) process.once("disconnect", () => process.exit(1));
}
