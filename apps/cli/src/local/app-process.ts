// A child process of `astra up`: its ready line, its exit, and how it is stopped. Supervision is in up-command.ts.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const astraProgram = fileURLToPath(new URL("../../bin/astra.mjs", import.meta.url));

export interface AppProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface AppProcess {
  readonly name: string;
  readonly pid: number;
  /** Its ready line, as it wrote it; rejects if it ends before. */
  readonly ready: Promise<string>;
  readonly exited: Promise<AppProcessExit>;
  kill(signal: NodeJS.Signals): void;
}

export function startAppProcess(name: string, args: readonly string[], env: NodeJS.ProcessEnv): AppProcess {
  const child: ChildProcess = spawn(process.execPath, [astraProgram, ...args], {
    // The IPC channel closes when this process dies, and then the child exits too.
    stdio: ["ignore", "pipe", "inherit", "ipc"],
    env: { ...env, ASTRA_TETHERED: "1" },
    // In its own process group, or Ctrl-C in a terminal would reach it twice: directly and through us.
    detached: true,
  });
  const ready = Promise.withResolvers<string>();
  const ended = Promise.withResolvers<AppProcessExit>();
  if (child.stdout)
    createInterface({ input: child.stdout }).on("line", (line) => line.includes(`"ready":true`) && ready.resolve(line));
  child.on("error", (cause) => {
    ready.reject(new Error(`the ${name} could not be started: ${cause.message}`));
    ended.resolve({ code: 1, signal: null });
  });
  child.on("exit", (code, signal) => {
    ready.reject(new Error(`the ${name} ended before it was ready`));
    ended.resolve({ code, signal });
  });
  ready.promise.catch(() => undefined); // callers that wait get the error; a stop before anyone waits is not unhandled
  return { name, pid: child.pid ?? -1, ready: ready.promise, exited: ended.promise, kill: (signal) => void child.kill(signal) };
}

export function describeExit(child: Pick<AppProcess, "name" | "pid">, end: AppProcessExit): string {
  const how = end.signal ? `was ended by ${end.signal}` : `ended with code ${end.code}`;
  return `the ${child.name} (pid ${child.pid}) ${how}`;
}
