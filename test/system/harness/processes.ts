// Real processes for the system tests: started on loopback with port 0 and folders of their own, waited for by their ready line, and
// ended by their own pid when the test is over. No test lives here.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, vi } from "vitest";

export const repositoryRoot = fileURLToPath(new URL("../../../", import.meta.url));
/** Made by build-programs.ts before the first test. */
export const astraProgram = join(repositoryRoot, "dist", "astra.mjs");

/** Long enough for a loaded machine, short enough that a test names what it waited for before the runner cuts it off. */
export const waitMsMax = 120_000;
vi.setConfig({ testTimeout: 3 * waitMsMax });
/** Pauses between two polls grow, because every poll costs the process under test and this one some milliseconds of CPU. */
const pollMs = { first: 20, factor: 1.25, max: 150 };

const running = new Set<AstraProcess>();
const folders: string[] = [];

afterEach(async () => {
  for (const one of running) one.kill("SIGKILL");
  await Promise.all([...running].map((one) => one.ended));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

export function makeTemporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "astra-system-"));
  folders.push(folder);
  return folder;
}

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface AstraProcess {
  readonly pid: number;
  readonly ended: Promise<ProcessExit>;
  readonly hasEnded: () => boolean;
  /** The first line of stdout with `ready`; rejects with what was on stderr if the process ends before. */
  ready(): Promise<Record<string, unknown>>;
  stdout(): string;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
}

export function spawnAstra(args: readonly string[], env: Record<string, string> = {}, input?: string): AstraProcess {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("ASTRA_") && !name.startsWith("VITEST")),
  );
  const child: ChildProcess = spawn(process.execPath, [astraProgram, ...args], {
    cwd: makeTemporaryFolder(),
    env: { ...inherited, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.stdin?.end(input ?? "");
  const output = { out: "", err: "" };
  const ready = Promise.withResolvers<Record<string, unknown>>();
  ready.promise.catch(() => undefined); // not every test waits for it
  if (child.stdout) {
    createInterface({ input: child.stdout }).on("line", (line) => {
      output.out += `${line}\n`;
      if (line.startsWith("{") && line.includes(`"ready":true`)) ready.resolve(JSON.parse(line));
    });
  }
  child.stderr?.on("data", (bytes: Buffer) => {
    output.err += bytes.toString("utf8");
  });
  let isEnded = false;
  const ended = new Promise<ProcessExit>((resolve) => {
    child.on("close", (code, signal) => {
      isEnded = true;
      running.delete(handle);
      ready.reject(new Error(`astra ${args.join(" ")} ended (${signal ?? code}) before it was ready:\n${output.err}`));
      resolve({ code, signal });
    });
  });
  const handle: AstraProcess = {
    pid: child.pid ?? -1,
    ended,
    hasEnded: () => isEnded,
    ready: () => withTimeout(ready.promise, `the ready line of astra ${args[0]}`, () => output.err),
    stdout: () => output.out,
    stderr: () => output.err,
    kill: (signal) => void child.kill(signal),
  };
  running.add(handle);
  return handle;
}

/** Runs a command to its end. */
export async function runAstra(args: readonly string[], env: Record<string, string> = {}, input?: string) {
  const one = spawnAstra(args, env, input);
  const end = await withTimeout(one.ended, `the end of astra ${args.join(" ")}`, one.stderr);
  return { ...end, stdout: one.stdout(), stderr: one.stderr() };
}

export async function withTimeout<T>(promise: Promise<T>, what: string, more: () => string = () => ""): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new Error(`timed out after ${waitMsMax} ms waiting for ${what}\n${more()}`)),
    waitMsMax,
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Asks again and again until the answer is there. */
export async function pollUntil<T>(what: string, ask: () => Promise<T | null | undefined | false>): Promise<T> {
  const end = performance.now() + waitMsMax;
  let last: unknown;
  for (let pauseMs = pollMs.first; performance.now() < end; pauseMs = Math.min(pollMs.max, pauseMs * pollMs.factor)) {
    try {
      const answer = await ask();
      if (answer) return answer;
    } catch (cause) {
      last = cause; // the process may just be starting or dying; the reason is reported if it stays like that
    }
    await pause(pauseMs);
  }
  throw new Error(`timed out after ${waitMsMax} ms waiting for ${what}`, { cause: last });
}
