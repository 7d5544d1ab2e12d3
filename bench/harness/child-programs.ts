// Child processes of the benches: starts them as a user would, measures their processor time, ends them by their own ids.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const astraCli = fileURLToPath(new URL("../../apps/cli/bin/astra.mjs", import.meta.url));
const examplePackages = fileURLToPath(new URL("../../examples/packages", import.meta.url));

/** How long a child may take to report that it is ready, and to end. */
const readyMs = 30_000;
const endMs = 15_000;
/** The kernel counts processor time in these, on every Linux that Node runs on. */
const ticksPerSecond = 100;

export interface ChildProgram {
  readonly name: string;
  readonly process: ChildProcess;
  readonly pid: number;
}

export function startProgram(
  name: string,
  flags: readonly string[],
  env: NodeJS.ProcessEnv,
  nodeWords: readonly string[],
  logFile?: string,
): ChildProgram {
  const log = logFile === undefined ? null : openSync(logFile, "a");
  const child = spawn(process.execPath, [...nodeWords, ...flags], {
    stdio: ["ignore", "pipe", log ?? "inherit", "ipc"],
    // The channel is a tether: a child whose parent died ends by itself.
    env: { ...env, ASTRA_TETHERED: "1" },
  });
  if (log !== null) closeSync(log);
  if (child.pid === undefined) throw new Error(`the ${name} could not be started`);
  return { name, process: child, pid: child.pid };
}

/** The line that reports that it is ready, as data. */
export function waitUntilReady<T>(program: ChildProgram): Promise<T> {
  return withTimeout(program, readyMs, (resolve) => {
    if (program.process.stdout === null) return;
    createInterface({ input: program.process.stdout }).on("line", (line) => {
      if (line.startsWith(`{"ready":true`)) resolve(JSON.parse(line) as T);
    });
  });
}

/** The next message that a child sends over its channel. */
export function waitForMessage<T>(program: ChildProgram, ms: number): Promise<T> {
  return withTimeout(program, ms, (resolve) => program.process.once("message", (message) => resolve(message as T)));
}

function withTimeout<T>(program: ChildProgram, ms: number, listen: (resolve: (value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (code: number | null) => reject(new Error(`the ${program.name} ended with ${code}`));
    const timer = setTimeout(() => reject(new Error(`the ${program.name} sent nothing for ${ms} ms`)), ms);
    program.process.once("exit", end);
    listen((value) => {
      clearTimeout(timer);
      program.process.off("exit", end);
      resolve(value);
    });
  });
}

export async function stopProgram(program: ChildProgram): Promise<void> {
  const { process: child } = program;
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const timer = setTimeout(() => child.kill("SIGKILL"), endMs);
  child.kill("SIGTERM");
  await gone;
  clearTimeout(timer);
}

export interface SchedulerReady {
  readonly http: string;
  readonly ws: string;
}

export function startScheduler(options: {
  dir: string;
  threads: number;
  nodeFlags: readonly string[];
  /** A free one where absent. */
  port?: string;
  flags?: readonly string[];
  /** For its log; on our own stderr where absent. */
  logFile?: string;
}): ChildProgram {
  // What is written to a file is wanted for its warnings.
  const logLevel = options.logFile === undefined ? "error" : "warn";
  const listen = `127.0.0.1:${options.port ?? 0}`;
  const flags = [astraCli, "scheduler", "--dev", "--listen", listen, "--data-dir", options.dir, "--log-level", logLevel];
  return startProgram(
    "scheduler",
    [...flags, "--threads", String(options.threads), ...(options.flags ?? [])],
    environmentWithoutSettings(),
    options.nodeFlags,
    options.logFile,
  );
}

export function startWorker(options: {
  dir: string;
  url: string;
  maxParallel: number;
  nodeHost?: string | undefined;
  nodeFlags: readonly string[];
  /** The examples where absent. */
  packagesDir?: string;
}): ChildProgram {
  const env = {
    ...environmentWithoutSettings(),
    ASTRA_WORKER_SCHEDULER_WS_URL: options.url,
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_DATA_DIR: options.dir,
    ASTRA_WORKER_PACKAGES_DIR: options.packagesDir ?? examplePackages,
    ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL: String(options.maxParallel),
    ...(options.nodeHost !== undefined && { ASTRA_WORKER_NODE_HOST: options.nodeHost }),
    ASTRA_WORKER_LOG_LEVEL: "warn",
  };
  return startProgram("worker", [astraCli, "worker"], env, options.nodeFlags);
}

/** Settings of whoever measures must not change what is measured. */
function environmentWithoutSettings(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("ASTRA_") && key !== "NODE_OPTIONS"));
}

export interface ProcessUsage {
  /** Milliseconds of processor time so far, all threads, user and kernel. */
  readonly cpuMs: number;
  /** Of its first thread alone: in a scheduler the one that holds the sockets. */
  readonly mainMs: number;
  /** Bytes it made the disk write. */
  readonly diskBytes: number;
}

export function readUsage(pid: number): ProcessUsage {
  const disk = /^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"));
  return {
    cpuMs: cpuMs(`/proc/${pid}/stat`),
    mainMs: cpuMs(`/proc/${pid}/task/${pid}/stat`),
    diskBytes: Number(disk?.[1] ?? Number.NaN),
  };
}

/** Processor time of a process and of its children: a worker's hosts do part of its work. */
export function readFamilyUsage(pid: number): ProcessUsage {
  const usage = readUsage(pid);
  const children = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry) && readParent(entry) === pid);
  return { ...usage, cpuMs: children.reduce((sum, child) => sum + cpuMs(`/proc/${child}/stat`), usage.cpuMs) };
}

function readParent(pid: string): number | null {
  try {
    return Number(statFields(`/proc/${pid}/stat`)[1]);
  } catch {
    // It has just ended.
    return null;
  }
}

/** The program's name is in brackets and may contain blanks; fields are counted after it. */
function statFields(file: string): string[] {
  const text = readFileSync(file, "utf8");
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function cpuMs(file: string): number {
  const fields = statFields(file);
  return ((Number(fields[11]) + Number(fields[12])) / ticksPerSecond) * 1_000;
}

export const loadAverage = (): string => readFileSync("/proc/loadavg", "utf8").split(" ").slice(0, 3).join(" ");
