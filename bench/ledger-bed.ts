// What the ledger runs on: one PostgreSQL server, two schedulers that share it, workers at both; and the hands that kill and restart
// them. Everything listens on loopback, lives in one folder, and is ended by its own process id.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { startPostgres } from "@astraflow/store/testing";
import { journalOf, writePackage } from "./ledger-work.ts";

const astra = fileURLToPath(new URL("../apps/cli/bin/astra.mjs", import.meta.url));
/** How long a process may take to say that it is ready, and to end when it is asked to. */
const readyMs = 60_000;
const endMs = 10_000;
const workerSlots = 8;
const shownLogChars = 3_000;

export interface Bed {
  readonly folder: string;
  readonly storeUrl: string;
  /** Addresses of the schedulers; they stay the same over kills. */
  readonly urls: readonly string[];
  /** `kill -9` of one scheduler; resolves once its successor is ready. */
  killScheduler(at: number): Promise<void>;
  restartPostgres(how: "fast" | "immediate"): Promise<void>;
  /** The last words of everybody, for whoever has to find out what went wrong. */
  readLogs(): string;
  end(): Promise<void>;
}

interface Program {
  readonly child: ChildProcess;
  readonly ready: Record<string, unknown>;
}

/** Starts everything, or nothing: what was started is ended when a later part does not come up. */
export async function makeBed({ workers }: { readonly workers: number }): Promise<Bed> {
  const folder = mkdtempSync(join(tmpdir(), "astra-ledger-"));
  const children = new Map<string, Program>();
  const ends: (() => Promise<unknown>)[] = [async () => rmSync(folder, { recursive: true, force: true })];
  const end = async () => {
    for (const one of ends.reverse()) await one();
  };
  ends.push(() => Promise.all([...children.values()].map(({ child }) => endChild(child))));
  try {
    const server = await startPostgres();
    ends.push(() => server.stop());
    const storeUrl = await server.createDatabase();
    const startScheduler = async (at: number, listen: string) => {
      const name = `scheduler-${at}`;
      const words = ["scheduler", "--dev", "--listen", listen, "--data-dir", join(folder, name), "--log-level", "warn"];
      const program = await startProgram(name, words, { ASTRA_SCHEDULER_STORE: storeUrl }, folder);
      children.set(name, program);
      return String(program.ready["http"]);
    };
    const urls = await Promise.all([0, 1].map((at) => startScheduler(at, "127.0.0.1:0")));
    const packages = writePackage(folder);
    await Promise.all(
      Array.from({ length: workers }, async (_, at) => {
        const name = `worker-${at}`;
        // Each begins at another one; when that is gone it goes to the next.
        const env = workerEnv({
          folder,
          name,
          urls: [...urls.slice(at % urls.length), ...urls.slice(0, at % urls.length)],
          packages,
        });
        children.set(name, await startProgram(name, ["worker"], env, folder));
      }),
    );
    return {
      folder,
      storeUrl,
      urls,
      async killScheduler(at) {
        const child = children.get(`scheduler-${at}`)?.child;
        if (child === undefined || child.exitCode !== null || child.signalCode !== null)
          throw new Error(`scheduler-${at} had ended by itself before it was killed`);
        const gone = once(child, "exit");
        child.kill("SIGKILL");
        await gone;
        await startScheduler(at, new URL(urls[at] ?? "").host);
      },
      restartPostgres: (how) => server.restart(how),
      readLogs: () =>
        [...children.keys()]
          .map((name) => ({ name, text: readFileSync(join(folder, `${name}.log`), "utf8").slice(-shownLogChars) }))
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

function workerEnv(given: { folder: string; name: string; urls: readonly string[]; packages: string }): Record<string, string> {
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
    ...journalOf(given.folder, given.name),
  };
}

async function startProgram(
  name: string,
  words: readonly string[],
  env: Record<string, string>,
  folder: string,
): Promise<Program> {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith("ASTRA_") && !key.startsWith("VITEST"));
  const log = openSync(join(folder, `${name}.log`), "a");
  const child = spawn(process.execPath, [astra, ...words], {
    // The channel is a tether: a child whose parent died ends by itself.
    stdio: ["ignore", "pipe", log, "ipc"],
    env: { ...Object.fromEntries(inherited), ...env, ASTRA_TETHERED: "1" },
  });
  closeSync(log);
  const { promise, resolve, reject } = Promise.withResolvers<Record<string, unknown>>();
  const late = setTimeout(() => reject(new Error(`${name} was not ready after ${readyMs} ms`)), readyMs);
  child.once("error", reject);
  child.once("exit", (code, signal) => {
    reject(new Error(`${name} ended (${signal ?? code}): ${readFileSync(join(folder, `${name}.log`), "utf8").slice(-1_000)}`));
  });
  if (child.stdout)
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line.startsWith(`{"ready":true`)) resolve(JSON.parse(line) as Record<string, unknown>);
    });
  try {
    return { child, ready: await promise };
  } catch (cause) {
    await endChild(child);
    throw cause;
  } finally {
    clearTimeout(late);
  }
}

async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = once(child, "exit");
  const hurry = setTimeout(() => child.kill("SIGKILL"), endMs);
  child.kill("SIGTERM");
  await gone;
  clearTimeout(hurry);
}
