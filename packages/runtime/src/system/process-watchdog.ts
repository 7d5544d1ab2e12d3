// The worker's side of the process watchdog, which acts when the worker is killed and its end of the pipe closes.

import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export class ProcessWatchdog {
  readonly #report: (problem: { message: string; cause: unknown }) => void;
  readonly #groups = new Set<number>();
  #process: ChildProcess | null = null;
  #isClosed = false;

  /** `report`: it could not be started, or ended too soon; handlers go on without. */
  constructor(report: (problem: { message: string; cause: unknown }) => void) {
    this.#report = report;
  }

  /** A group began, or lost its first process: whoever is in it is looked at. */
  watchGroup(group: number): void {
    this.#groups.add(group);
    if (this.#isClosed || !hasProcFs) return;
    if (this.#process === null) this.#start();
    else this.#process.stdin?.write(`+${group}\n`);
  }

  /** Nobody of it is left. */
  unwatchGroup(group: number): void {
    if (this.#groups.delete(group)) this.#process?.stdin?.write(`-${group}\n`);
  }

  /** Ends the watchdog, and with it the groups that are still watched. */
  close(): void {
    this.#isClosed = true;
    this.#process?.stdin?.end();
  }

  #start(): void {
    const program = fileURLToPath(new URL("./process-watchdog-main.ts", import.meta.url));
    // As arguments, not by the pipe: this process may be killed before its first write.
    const lines = [...this.#groups].map((group) => `+${group}`);
    // A session of its own: signals of the terminal to the worker's group are not for it. No environment: it needs no secrets.
    const options: SpawnOptions = { cwd: "/", detached: true, env: {}, stdio: ["pipe", "ignore", "ignore"] };
    const child = spawn(process.execPath, [program, ...lines], options);
    const lost = (cause: unknown): void => this.#handleExit(child, cause);
    child.on("error", lost);
    child.on("exit", (code, signal) => lost(signal ?? `code ${code}`));
    child.stdin?.on("error", lost);
    // Neither it nor its pipe is a reason for the worker to stay.
    child.unref();
    (child.stdin as { unref?(): void } | null)?.unref?.();
    this.#process = child;
  }

  #handleExit(child: ChildProcess, cause: unknown): void {
    if (this.#process !== child) return;
    this.#process = null;
    if (this.#isClosed) return;
    this.#report({ message: "the process watchdog exited; it restarts with the next process that a handler starts", cause });
  }
}

/** Without it a group that was reused cannot be told from the one that was meant. */
const hasProcFs = existsSync("/proc/self/stat");
