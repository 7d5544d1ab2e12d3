// What install, uninstall, rollout and rollback share: which package is meant, waiting for the workers, and who is how far.

import { setTimeout as pause } from "node:timers/promises";
import type { FleetWorker } from "@astraflow/protocol";
import type { CommandContext } from "../api/command-context.ts";
import { usageFailure } from "../output/cli-failure.ts";
import { formatTextTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";

export interface PackageRef {
  readonly packageName: string;
  readonly version: string | undefined;
}

/** `NAME` or `NAME@VERSION`. */
export function parsePackageRef(text: string): PackageRef {
  const [packageName = "", version, ...rest] = text.split("@");
  if (packageName === "" || version === "" || rest.length > 0)
    throw usageFailure(`"${stripControlCharacters(text)}" is not NAME or NAME@VERSION.`);
  return { packageName, version };
}

const pollMs = 500;

/** Workers that do one thing; a worker may be in several groups of a rollout. */
export interface WorkerGroup {
  /** What they do, such as `remove 1.2.0`. */
  readonly title: string;
  readonly workers: readonly FleetWorker[];
}

interface Waiting<T> {
  readonly isRunning: (state: T) => boolean;
  readonly read: () => Promise<T>;
  readonly groupsOf: (state: T) => readonly WorkerGroup[];
  /** The lines of a terminal. */
  readonly draw: (state: T) => readonly string[];
}

/** The state at the end; null: the user stopped waiting. In a pipe each worker that has ended is a line. */
export async function waitForEnd<T>(
  first: T,
  { isRunning, read, groupsOf, draw }: Waiting<T>,
  { terminal, signal }: CommandContext,
): Promise<T | null> {
  const reported = new Set<string>();
  for (let state = first; ; state = await read()) {
    if (!terminal.isInteractive)
      for (const line of groupsOf(state).flatMap(describeEnded)) {
        if (!reported.has(line)) terminal.info(line);
        reported.add(line);
      }
    terminal.draw(draw(state).map(stripControlCharacters));
    if (!isRunning(state)) {
      terminal.finishDrawing();
      return state;
    }
    await pause(pollMs, undefined, { signal }).catch((cause: unknown) => {
      if (!signal.aborted) throw cause;
    });
    if (signal.aborted) {
      terminal.finishDrawing();
      return null;
    }
  }
}

const hasEnded = ({ status }: FleetWorker): boolean => status === "done" || status === "failed";

function describeEnded({ title, workers }: WorkerGroup): string[] {
  return workers.filter(hasEnded).map(({ name, status, code, message }) => {
    const reason = code === undefined ? "" : ` ${code}: ${message ?? ""}`;
    return stripControlCharacters(`${title}: ${name} ${status}${reason}`);
  });
}

/** `[####----] 2 of 4 workers, 1 failed` */
export function drawBar(workers: readonly FleetWorker[]): string {
  const width = 20;
  const ended = workers.filter(hasEnded).length;
  const failed = workers.filter(({ status }) => status === "failed").length;
  const filled = workers.length === 0 ? 0 : Math.floor((ended / workers.length) * width);
  const failures = failed === 0 ? "" : `, ${failed} failed`;
  return `[${"#".repeat(filled)}${"-".repeat(width - filled)}] ${ended} of ${workers.length} workers${failures}`;
}

export function formatWorkers(workers: readonly FleetWorker[]): string[] {
  if (workers.length === 0) return [];
  const rows = workers.map(({ name, status, code = "", message = "" }) => [name, status, code || "-", message || "-"]);
  return formatTextTable([["WORKER", "STATUS", "CODE", "REASON"], ...rows]);
}
