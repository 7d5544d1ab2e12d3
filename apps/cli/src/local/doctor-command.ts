// `astra doctor`: checks whether this machine can run a scheduler and, with --store, whether the database can be its store; and shows what a
// store in a file keeps.

import { closeSync, existsSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { CommandContext } from "../api/command-context.ts";
import { type ExitCode, errorMessage, exitCodes } from "../output/cli-failure.ts";
import { formatTable } from "../output/table.ts";
import { type DoctorCheck, loadScheduler, type SchedulerModule } from "./app-loader.ts";

/** Older versions have bugs in their write-ahead log that lose commits. */
const sqliteMin = [3, 51, 3];
const nodeMin = [22, 19];
/** Every commit waits for an fsync; above this every answer is slow. */
const fsyncMsMax = 20;
const fsyncSampleCount = 25;
const changedPathsShownMax = 5;

export interface DoctorFlags {
  readonly dataDir: string;
  readonly listen: string;
  /** As --store of the scheduler; undefined: only this machine is checked. */
  readonly store?: string | undefined;
  /** Makes a store that was refused as damaged open again. */
  readonly repair?: boolean;
  readonly failpoints?: boolean;
}

type DoctorContext = Pick<CommandContext, "terminal" | "json"> & { readonly env: NodeJS.ProcessEnv };

export async function runDoctor(context: DoctorContext, flags: DoctorFlags): Promise<ExitCode> {
  if (flags.failpoints) return listFailpoints(context);
  const { terminal, json } = context;
  const scheduler = await loadScheduler();
  const checks = [checkNode(process.version), checkSqlite(), checkDisk(flags.dataDir), await checkPort(flags.listen)];
  checks.push(checkFiles(scheduler.restrictFolder(flags.dataDir)));
  if (flags.repair) checks.push(scheduler.repairStore(flags.store ?? "", flags.dataDir));
  if (flags.store) checks.push(...(await scheduler.checkStore(flags.store)));
  const retention = scheduler.readRetention({ env: context.env, readFile: (path) => readFileSync(path, "utf8") });
  checks.push(...(await scheduler.checkKeptRows(flags.store ?? "", flags.dataDir, retention)));
  const isGood = checks.every((check) => check.isGood);
  const { green, red } = terminal.colors;
  if (json) terminal.print(JSON.stringify({ ok: isGood, checks }));
  else
    for (const check of checks) {
      const advice = check.advice ? `. ${check.advice}` : "";
      terminal.print(`${check.isGood ? green("✓") : red("✕")} ${check.name}: ${check.found}${advice}`);
    }
  return isGood ? exitCodes.ok : exitCodes.failed;
}

async function listFailpoints({ terminal, json }: DoctorContext): Promise<ExitCode> {
  const { failpointNames: names, failpointActions: actions } = await loadScheduler();
  if (json) terminal.print(JSON.stringify({ failpoints: names, actions }));
  else {
    for (const name of names) terminal.print(name);
    terminal.info("Set an action for the n-th time a failpoint is reached: ASTRA_FAILPOINTS=name=action@n,…");
    for (const line of formatTable(Object.entries(actions).map(([action, meaning]) => [`  ${action}`, meaning])))
      terminal.info(line);
  }
  return exitCodes.ok;
}

const pass = (name: string, found: string): DoctorCheck => ({ name, isGood: true, found });
const fail = (name: string, found: string, advice: string): DoctorCheck => ({ name, isGood: false, found, advice });

const checkNode = (version: string): DoctorCheck =>
  isAtLeast(version, nodeMin) ? pass("node", version) : fail("node", version, `Node ${nodeMin.join(".")} or newer is needed`);

function checkSqlite(): DoctorCheck {
  const database = new DatabaseSync(":memory:");
  const row = database.prepare("SELECT sqlite_version() AS version").get();
  database.close();
  const version = String(row?.["version"]);
  const advice = `${sqliteMin.join(".")} or newer is needed; use a newer Node`;
  return isAtLeast(version, sqliteMin) ? pass("sqlite", version) : fail("sqlite", version, advice);
}

function isAtLeast(version: string, least: readonly number[]): boolean {
  const parts = version.replace(/^v/, "").split(".").map(Number);
  for (const [at, minimum] of least.entries()) {
    const part = parts[at] ?? 0;
    if (part !== minimum) return part > minimum;
  }
  return true;
}

function checkDisk(dataDir: string): DoctorCheck {
  let folder = resolve(dataDir);
  while (!existsSync(folder)) folder = dirname(folder);
  const file = join(folder, `.astra-doctor-${process.pid}`);
  try {
    const times = measureFsync(file).sort((a, b) => a - b);
    const p50 = times[Math.floor(times.length / 2)] ?? 0;
    const found = `${folder}: ${p50.toFixed(2)} ms per fsync (slowest ${(times.at(-1) ?? 0).toFixed(2)} ms)`;
    if (p50 <= fsyncMsMax) return pass("disk", found);
    return fail("disk", found, "Every commit waits this long; choose a faster disk with --data-dir");
  } catch (cause) {
    return fail("disk", errorMessage(cause), "Choose a writable folder with --data-dir");
  }
}

/** The permissions are corrected at once: nobody wants the signing key to be readable until they have read an advice. */
function checkFiles({ changed, problems }: ReturnType<SchedulerModule["restrictFolder"]>): DoctorCheck {
  if (problems.length > 0) return fail("files", problems.join("; "), "Then run astra doctor again");
  if (changed.length === 0) return pass("files", "readable by their owner only");
  const others = changed.length > changedPathsShownMax ? ` and ${changed.length - changedPathsShownMax} more` : "";
  return pass("files", `closed for other users: ${changed.slice(0, changedPathsShownMax).join(", ")}${others}`);
}

function measureFsync(file: string): number[] {
  const descriptor = openSync(file, "wx");
  try {
    const block = Buffer.alloc(4_096, 1);
    return Array.from({ length: fsyncSampleCount }, () => {
      const begin = performance.now();
      writeSync(descriptor, block);
      fdatasyncSync(descriptor);
      return performance.now() - begin;
    });
  } finally {
    closeSync(descriptor);
    rmSync(file);
  }
}

async function checkPort(listen: string): Promise<DoctorCheck> {
  const match = /^\[?([^\]]+)\]?:(\d+)$/.exec(listen);
  if (!match) return fail("port", `"${listen}" is not HOST:PORT`, "Write it like 127.0.0.1:8080");
  const problem = await tryListen(match[1] ?? "", Number(match[2]));
  if (problem === null) return pass("port", `${listen} is free`);
  if (problem !== "EADDRINUSE") return fail("port", `${listen} cannot be used (${problem})`, "Choose another with --listen");
  const isOurs = await fetch(`http://${listen}/healthz`, { signal: AbortSignal.timeout(2_000) }).then(
    (response) => response.ok,
    () => false,
  );
  if (isOurs) return pass("port", `${listen} is used by a running scheduler`);
  return fail("port", `${listen} is used by another program`, "Choose another with --listen");
}

/** Listens on the address for a moment: null, or the code of the error. */
export function tryListen(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (cause: NodeJS.ErrnoException) => resolve(cause.code ?? cause.message));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
}
