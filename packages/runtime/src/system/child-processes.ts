// Processes that a handler starts: each in a group of its own, which ends with the task or when the handler has returned.

import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";

export interface ChildProcessPorts {
  after(ms: number, call: () => void): () => void;
  /** For the watchdog; called again when the first process of a group leaves others behind. */
  groupStarted?(pid: number): void;
  groupEnded?(pid: number): void;
}

/** Between SIGTERM and SIGKILL. */
const terminationGraceMs = 2_000;

export class ChildProcesses {
  readonly #ports: ChildProcessPorts;
  readonly #signal: AbortSignal;
  readonly #groups = new Set<number>();

  constructor(signal: AbortSignal, ports: ChildProcessPorts) {
    this.#signal = signal;
    this.#ports = ports;
    signal.addEventListener("abort", () => this.#terminateAll(), { once: true });
  }

  spawn(command: string, args: readonly string[] = [], options: SpawnOptions = {}): ChildProcess {
    this.#signal.throwIfAborted();
    // A group of its own: whatever it starts in turn is reached through it.
    const child = spawn(command, [...args], { ...options, detached: true });
    const { pid } = child;
    if (pid === undefined) return child;
    this.#groups.add(pid);
    this.#ports.groupStarted?.(pid);
    child.once("exit", () => {
      // Its own children may still be there; then the group is.
      if (!isGroupAlive(pid)) this.#removeGroup(pid);
      else if (this.#groups.has(pid)) this.#ports.groupStarted?.(pid);
    });
    return child;
  }

  killAll(): void {
    for (const pid of this.#groups) {
      killProcessGroup(pid, "SIGKILL");
      this.#removeGroup(pid);
    }
  }

  #terminateAll(): void {
    for (const pid of this.#groups) killProcessGroup(pid, "SIGTERM");
    if (this.#groups.size > 0) this.#ports.after(terminationGraceMs, () => this.killAll());
  }

  #removeGroup(pid: number): void {
    if (this.#groups.delete(pid)) this.#ports.groupEnded?.(pid);
  }
}

export function killProcessGroup(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(-pid, signal);
  } catch (problem) {
    // Gone already: what was wanted. Anything else, as a process that took another user's rights, is beyond us.
    if ((problem as NodeJS.ErrnoException).code !== "ESRCH" && (problem as NodeJS.ErrnoException).code !== "EPERM") throw problem;
  }
}

function isGroupAlive(pid: number): boolean {
  try {
    process.kill(-pid, 0);
    return true;
  } catch {
    // ESRCH: nobody of the group is left.
    return false;
  }
}
