// A scheduler or worker as a child process of this one, which ends with it.

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const astraProgram = fileURLToPath(new URL("../../bin/astra.mjs", import.meta.url));

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A child process: its ready line, its exit, and how it is stopped. */
export class AppProcess {
  readonly name: string;
  /** Its ready line, as it wrote it; rejects if it ends before. */
  readonly ready: Promise<string>;
  readonly exited: Promise<ProcessExit>;
  readonly #child: ChildProcess;

  /** Without `onErrorLine` its stderr is ours. */
  constructor(name: string, args: readonly string[], env: NodeJS.ProcessEnv, onErrorLine?: (line: string) => void) {
    const child = spawn(process.execPath, [astraProgram, ...args], {
      // The IPC channel closes when this process dies, and then the child exits too.
      stdio: ["ignore", "pipe", onErrorLine === undefined ? "inherit" : "pipe", "ipc"],
      env: { ...env, ASTRA_TETHERED: "1" },
      // In its own process group, or Ctrl-C in a terminal would reach it twice: directly and through us.
      detached: true,
    });
    const ready = Promise.withResolvers<string>();
    const ended = Promise.withResolvers<ProcessExit>();
    if (child.stdout)
      createInterface({ input: child.stdout }).on("line", (line) => line.includes(`"ready":true`) && ready.resolve(line));
    if (child.stderr && onErrorLine) createInterface({ input: child.stderr }).on("line", onErrorLine);
    child.on("error", (cause) => {
      ready.reject(new Error(`the ${name} could not be started: ${cause.message}`));
      ended.resolve({ code: 1, signal: null });
    });
    child.on("exit", (code, signal) => {
      ready.reject(new Error(`the ${name} ended before it was ready`));
      ended.resolve({ code, signal });
    });
    ready.promise.catch(() => undefined); // callers that wait get the error; a stop before anyone waits is not unhandled
    this.name = name;
    this.ready = ready.promise;
    this.exited = ended.promise;
    this.#child = child;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  describeExit(end: ProcessExit): string {
    const how = end.signal ? `was ended by ${end.signal}` : `ended with code ${end.code}`;
    return `the ${this.name} (pid ${this.#child.pid ?? -1}) ${how}`;
  }
}
