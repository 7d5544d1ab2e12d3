// The worker's side of the process watchdog: starts it with the first process group, reports groups that start and end, and closes it at
// the end. When the worker is killed its end of the pipe closes; what the watchdog does then is process-watchdog-main.ts.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export interface ProcessWatchdog {
  /** A group began, or lost its first process: whoever is in it is looked at. */
  watchGroup(group: number): void;
  /** Nobody of it is left. */
  unwatchGroup(group: number): void;
  /** Ends the watcher; what is not forgotten ends with it. */
  close(): void;
}

/** `report`: it could not be started, or ended too soon; handlers go on without. */
export function createProcessWatchdog(report: (problem: { message: string; cause: unknown }) => void): ProcessWatchdog {
  const groups = new Set<number>();
  let watcher: ChildProcess | null = null;
  let isClosed = false;

  const lost = (child: ChildProcess, cause: unknown): void => {
    if (watcher !== child) return;
    watcher = null;
    if (!isClosed)
      report({ message: "the process watchdog exited; it restarts with the next process that a handler starts", cause });
  };

  const start = (): void => {
    // A session of its own: signals of the terminal to the worker's group are not for it. No environment: it needs no secrets.
    const program = fileURLToPath(new URL("./process-watchdog-main.ts", import.meta.url));
    // As arguments, not by the pipe: this process may be killed before its first write.
    const lines = [...groups].map((group) => `+${group}`);
    const child = spawn(process.execPath, [program, ...lines], {
      cwd: "/",
      detached: true,
      env: {},
      stdio: ["pipe", "ignore", "ignore"],
    });
    child.on("error", (cause) => lost(child, cause));
    child.on("exit", (code, signal) => lost(child, signal ?? `code ${code}`));
    child.stdin?.on("error", (cause) => lost(child, cause));
    // Neither it nor its pipe is a reason for the worker to stay.
    child.unref();
    (child.stdin as { unref?(): void } | null)?.unref?.();
    watcher = child;
  };

  return {
    watchGroup(group) {
      groups.add(group);
      if (isClosed || !hasProcFs) return;
      if (watcher === null) start();
      else watcher.stdin?.write(`+${group}\n`);
    },
    unwatchGroup(group) {
      if (groups.delete(group)) watcher?.stdin?.write(`-${group}\n`);
    },
    close() {
      isClosed = true;
      watcher?.stdin?.end();
    },
  };
}

/** Without it a group that was reused cannot be told from the one that was meant. */
const hasProcFs = existsSync("/proc/self/stat");
