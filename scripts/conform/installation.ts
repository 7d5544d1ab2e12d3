// The installation that is compared with its document: a scheduler and a worker with the example packages, on loopback, in a folder of their own.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { repositoryRoot } from "../repository-files.ts";

export interface Installation {
  readonly url: string;
  readonly token: string;
  readonly folder: string;
  /** What the programs have written to stderr. */
  readLog(): string;
  end(): Promise<void>;
}

const program = join(repositoryRoot, "apps", "cli", "bin", "astra.mjs");
const readyMs = 60_000;
const endMs = 10_000;
const token = "conform-token-0123456789abcdef";
/** Everything, so that no route is left out for want of a permission. */
const grants = "worker+view+read+edit+operate+admin+metrics";

export async function startInstallation(): Promise<Installation> {
  const folder = mkdtempSync(join(tmpdir(), "astra-conform-"));
  const children: ChildProcess[] = [];
  const log: string[] = [];
  const end = async () => {
    for (const child of children.reverse()) await stopChild(child);
    rmSync(folder, { recursive: true, force: true });
  };
  const start = (args: readonly string[], env: Record<string, string>) => {
    const child = spawn(process.execPath, [program, ...args], {
      cwd: folder,
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    children.push(child);
    child.stderr.on("data", (bytes: Buffer) => log.push(bytes.toString("utf8")));
    return waitUntilReady(child, args[0] ?? "", log);
  };
  try {
    const tokenFile = join(folder, "token");
    writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
    const data = ["--listen", "127.0.0.1:0", "--data-dir", join(folder, "scheduler"), "--log-level", "error"];
    const scheduler = await start(["scheduler", ...data, "--token", `conform/default:${grants}=@${tokenFile}`], {});
    mkdirSync(join(folder, "worker"));
    await start(["worker"], {
      ASTRA_WORKER_SCHEDULER_WS_URL: String(scheduler["ws"]),
      ASTRA_WORKER_TENANT: "default",
      ASTRA_WORKER_AUTH_TOKEN: token,
      ASTRA_WORKER_WORKER_NAME: "conform",
      ASTRA_WORKER_DATA_DIR: join(folder, "worker"),
      ASTRA_WORKER_PACKAGES_DIR: join(repositoryRoot, "examples", "packages"),
      ASTRA_WORKER_LOG_LEVEL: "error",
    });
    return { url: String(scheduler["http"]), token, folder, readLog: () => log.join(""), end };
  } catch (cause) {
    await end();
    throw cause;
  }
}

async function waitUntilReady(child: ChildProcess, name: string, log: readonly string[]): Promise<Record<string, unknown>> {
  const signal = AbortSignal.timeout(readyMs);
  if (child.stdout === null) throw new Error(`astra ${name} has no stdout`);
  for await (const line of createInterface({ input: child.stdout, signal }))
    if (line.startsWith("{") && line.includes(`"ready":true`)) return JSON.parse(line) as Record<string, unknown>;
  throw new Error(`astra ${name} did not become ready:\n${log.join("")}`);
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  const timer = setTimeout(() => child.kill("SIGKILL"), endMs);
  child.kill("SIGTERM");
  await ended;
  clearTimeout(timer);
}
