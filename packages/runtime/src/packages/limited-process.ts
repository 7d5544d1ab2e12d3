// Runs one program of the installer to its end: in a process group of its own, with the environment it is given and nothing else, for a
// limited time, with the tail of its output.

import { spawn } from "node:child_process";
import { killProcessGroup } from "../system/child-processes.ts";

export interface ProcessRequest {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeMsMax: number;
  readonly signal?: AbortSignal;
  readonly groups?: ProcessGroupListener;
}

/** Hears of groups, so that somebody can end them when this process cannot. */
export interface ProcessGroupListener {
  groupStarted(pid: number): void;
  groupEnded(pid: number): void;
}

export type ProcessEnd =
  | { readonly of: "exited"; readonly code: number; readonly output: string }
  | { readonly of: "killed"; readonly by: string; readonly output: string }
  | { readonly of: "timeout"; readonly output: string }
  /** The program does not exist or may not be started. */
  | { readonly of: "unstarted"; readonly reason: string; readonly output: "" };

const outputCharsMax = 4_096;

/** Never rejects. Whatever the program left behind in its group is killed when it ends. */
export function runProcess({ command, args, cwd, env, timeMsMax, signal, groups }: ProcessRequest): Promise<ProcessEnd> {
  return new Promise((resolve) => {
    const child = spawn(command, [...args], { cwd, env: { ...env }, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    const { pid } = child;
    if (pid !== undefined) groups?.groupStarted(pid);
    let output = "";
    let isLate = false;
    const keepTail = (chunk: Buffer) => {
      output = (output + chunk.toString("utf8")).slice(-outputCharsMax);
    };
    child.stdout.on("data", keepTail);
    child.stderr.on("data", keepTail);
    const killGroup = () => {
      if (pid !== undefined) killProcessGroup(pid, "SIGKILL");
    };
    const timer = setTimeout(() => {
      isLate = true;
      killGroup();
    }, timeMsMax);
    signal?.addEventListener("abort", killGroup, { once: true });
    const finish = (end: ProcessEnd) => {
      clearTimeout(timer);
      if (pid !== undefined) groups?.groupEnded(pid);
      signal?.removeEventListener("abort", killGroup);
      resolve(end);
    };
    child.once("error", (problem) => {
      if (pid === undefined) finish({ of: "unstarted", reason: problem.message, output: "" });
    });
    // Its own children may hold its output open: they end with it, and then the output does.
    child.once("exit", killGroup);
    child.once("close", (code, by) => {
      if (isLate) finish({ of: "timeout", output });
      else if (code !== null) finish({ of: "exited", code, output });
      else finish({ of: "killed", by: by ?? "a signal", output });
    });
  });
}

/** One sentence about how a program ended; null: as it should. */
export function describeFailure(name: string, end: ProcessEnd): string | null {
  const tail = end.output.trim() === "" ? "" : `: ${end.output.trim().slice(-1_000)}`;
  switch (end.of) {
    case "exited":
      return end.code === 0 ? null : `${name} ended with code ${end.code}${tail}`;
    case "killed":
      return `${name} was ended by ${end.by}${tail}`;
    case "timeout":
      return `${name} did not end in time and was killed${tail}`;
    case "unstarted":
      return `${name} could not be started: ${end.reason}`;
  }
}
