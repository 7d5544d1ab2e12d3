// The installation of the crash test: one PostgreSQL server and schedulers that share it, or one scheduler on sqlite, with workers at all of them; and
// the functions that kill and restart them. Everything listens on loopback, uses one folder, and is ended by its own process id.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { StoreReader } from "@astraflow/engine";
import { PostgresReader, SqliteReader } from "@astraflow/store";
import { startPostgres } from "@astraflow/store/testing";
import { journalEnvironment, writeTestPackage } from "./jobs.ts";

export const astraCli = fileURLToPath(new URL("../../apps/cli/bin/astra.mjs", import.meta.url));
/** Behaves as the workers of the first generation do, faults included. */
const legacyWorkerFile = fileURLToPath(new URL("../../test/system/older-workers/first-worker.ts", import.meta.url));
/** How long a process may take to say that it is ready, and to end when it is asked to. */
const readyMs = 60_000;
const endMs = 10_000;
const workerSlots = 8;
const logTailChars = 3_000;

export interface CrashTestCluster {
  readonly folder: string;
  /** The log as any reader sees it. */
  openReader(): StoreReader;
  /** Addresses of the schedulers; they stay the same over kills. */
  readonly urls: readonly string[];
  /** `kill -9` of one scheduler; resolves once its successor is ready. */
  killScheduler(at: number): Promise<void>;
  /** `kill -9` of one worker; resolves once its successor, with the same identity and disk, is ready. */
  killWorker(at: number): Promise<void>;
  restartPostgres(how: "fast" | "immediate"): Promise<void>;
  /** How many of the workers are of the first generation, and the frames that these could not read: there must be none. */
  readonly legacyWorkers: number;
  readUnreadableFrames(): string[];
  /** The end of every log, for finding out what went wrong. */
  readLogs(): string;
  end(): Promise<void>;
}

interface ClusterSize {
  readonly workers: number;
  readonly schedulers: number;
  /** Part of the workers that are of the first generation. */
  readonly firstShare: number;
  /** The executable of schedulers and workers. */
  readonly program: string;
}

interface StartedProgram {
  readonly child: ChildProcess;
  readonly ready: Record<string, unknown>;
}

/** Starts everything, or nothing: what was started is ended when a later part does not come up. */
export async function startCluster({ workers, schedulers, firstShare, program }: ClusterSize): Promise<CrashTestCluster> {
  const folder = mkdtempSync(join(tmpdir(), "astra-ledger-"));
  const children = new Map<string, StartedProgram>();
  /** Spread among the others. */
  const isLegacy = (at: number): boolean => Math.floor((at + 1) * firstShare) > Math.floor(at * firstShare);
  const legacyWorkers = Array.from({ length: workers }, (_, at) => at).filter(isLegacy);
  const ends: (() => Promise<unknown>)[] = [async () => rmSync(folder, { recursive: true, force: true })];
  const end = async () => {
    for (const one of ends.reverse()) await one();
  };
  ends.push(() => Promise.all([...children.values()].map(({ child }) => stopChild(child))));
  try {
    const server = schedulers === 1 ? null : await startPostgres();
    if (server !== null) ends.push(() => server.stop());
    const storeUrl = (await server?.createDatabase()) ?? `sqlite:${join(folder, "ledger.db")}`;
    const startScheduler = async (at: number, listen: string) => {
      const name = `scheduler-${at}`;
      const flags = ["scheduler", "--dev", "--listen", listen, "--data-dir", join(folder, name), "--log-level", "warn"];
      const scheduler = await startProgram(name, [program, ...flags], { ASTRA_SCHEDULER_STORE: storeUrl }, folder);
      children.set(name, scheduler);
      return String(scheduler.ready["http"]);
    };
    const urls = await Promise.all(Array.from({ length: schedulers }, (_, at) => startScheduler(at, "127.0.0.1:0")));
    const packages = writeTestPackage(folder);
    const startWorker = async (at: number) => {
      const name = `worker-${at}`;
      // Each begins at another one; when that is gone it goes to the next.
      const near = [...urls.slice(at % urls.length), ...urls.slice(0, at % urls.length)];
      // One of the first generation knows one address.
      const env = workerEnvironment({ folder, name, urls: isLegacy(at) ? near.slice(0, 1) : near, packages });
      children.set(name, await startProgram(name, isLegacy(at) ? [legacyWorkerFile] : [program, "worker"], env, folder));
    };
    await Promise.all(Array.from({ length: workers }, (_, at) => startWorker(at)));
    const kill = async (name: string) => {
      const child = children.get(name)?.child;
      if (child === undefined || child.exitCode !== null || child.signalCode !== null)
        throw new Error(`${name} had ended by itself before it was killed`);
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    };
    return {
      folder,
      urls,
      openReader: () =>
        server === null ? new SqliteReader({ file: join(folder, "ledger.db") }) : new PostgresReader({ url: storeUrl }),
      async killScheduler(at) {
        await kill(`scheduler-${at}`);
        await startScheduler(at, new URL(urls[at] ?? "").host);
      },
      async killWorker(at) {
        await kill(`worker-${at}`);
        await startWorker(at);
      },
      async restartPostgres(how) {
        if (server === null) throw new Error("there is no PostgreSQL to restart");
        await server.restart(how);
      },
      legacyWorkers: legacyWorkers.length,
      readUnreadableFrames: () =>
        legacyWorkers.flatMap((at) =>
          readFileSync(join(folder, `worker-${at}.log`), "utf8")
            .split("\n")
            .filter((line) => line.startsWith("dropped:"))
            .map((line) => `worker ${at} could not read a frame: ${line}`),
        ),
      readLogs: () =>
        [...children.keys()]
          .map((name) => ({ name, text: readFileSync(join(folder, `${name}.log`), "utf8").slice(-logTailChars) }))
          .filter(({ text }) => text !== "")
          .map(({ name, text }) => `--- ${name}\n${text}`)
          .join("\n"),
      end,
    };
  } catch (cause) {
    await end();
    throw cause;
  }
}

function workerEnvironment(given: {
  folder: string;
  name: string;
  urls: readonly string[];
  packages: string;
}): Record<string, string> {
  return {
    ASTRA_WORKER_SCHEDULER_WS_URL: given.urls.map((url) => `${url.replace("http", "ws")}/ws/worker`).join(","),
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: given.name,
    ASTRA_WORKER_DATA_DIR: join(given.folder, given.name),
    ASTRA_WORKER_PACKAGES_DIR: given.packages,
    ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL: String(workerSlots),
    ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1",
    ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.5",
    ASTRA_WORKER_LOG_LEVEL: "error",
    ...journalEnvironment(given.folder, given.name),
  };
}

async function startProgram(
  name: string,
  flags: readonly string[],
  env: Record<string, string>,
  folder: string,
): Promise<StartedProgram> {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith("ASTRA_") && !key.startsWith("VITEST"));
  const log = openSync(join(folder, `${name}.log`), "a");
  const child = spawn(process.execPath, flags, {
    // The channel is a tether: a child whose parent died ends by itself.
    stdio: ["ignore", "pipe", log, "ipc"],
    env: { ...Object.fromEntries(inherited), ...env, ASTRA_TETHERED: "1" },
  });
  closeSync(log);
  const { promise, resolve, reject } = Promise.withResolvers<Record<string, unknown>>();
  const late = setTimeout(() => reject(new Error(`${name} was not ready after ${readyMs} ms`)), readyMs);
  child.once("error", reject);
  child.once("exit", (code, signal) => {
    // If another one has failed first, the folder may be gone already; its message matters more.
    const file = join(folder, `${name}.log`);
    const lastOutput = existsSync(file) ? readFileSync(file, "utf8").slice(-1_000) : "its log is gone";
    reject(new Error(`${name} ended (${signal ?? code}): ${lastOutput}`));
  });
  if (child.stdout)
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line.startsWith(`{"ready":true`)) resolve(JSON.parse(line) as Record<string, unknown>);
    });
  try {
    return { child, ready: await promise };
  } catch (cause) {
    await stopChild(child);
    throw cause;
  } finally {
    clearTimeout(late);
  }
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = once(child, "exit");
  const hurry = setTimeout(() => child.kill("SIGKILL"), endMs);
  child.kill("SIGTERM");
  await gone;
  clearTimeout(hurry);
}
