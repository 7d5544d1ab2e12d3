// `astra up`: runs and supervises a scheduler in dev mode and a worker with the example package, and starts a demo run.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Client, createCliClient } from "../api/api-client.ts";
import type { TextInput } from "../api/command-context.ts";
import { CliFailure, type ExitCode, errorMessage, exitCodes } from "../output/cli-failure.ts";
import type { Terminal } from "../output/terminal.ts";
import { followRun } from "../runs/run-follower.ts";
import { readRunRequestFile, submitRun } from "../runs/start-command.ts";
import { AppProcess } from "./app-process.ts";
import { tryListen } from "./doctor-command.ts";
import { findRunningInstallation, noteInstallation, type RunningInstallation, removeNote } from "./running-installation.ts";

const repositoryRoot = fileURLToPath(new URL("../../../../", import.meta.url));
const demoWorkflow = join(repositoryRoot, "examples", "workflows", "welcome.json");
const demoPackages = join(repositoryRoot, "examples", "packages");

const defaultListen = { host: "127.0.0.1", port: 8080 };
const restartMsMin = 1_000;
const restartMsMax = 30_000;
/** After a worker has run this long, the restart delay begins at its minimum again. */
const stableMs = 60_000;

interface UpFlags extends TextInput<"dataDir" | "logLevel", "listen"> {
  readonly demo: boolean;
}

interface UpContext {
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted by the first signal to stop, and by the second. */
  readonly stopSignal: AbortSignal;
  readonly forceStopSignal: AbortSignal;
}

export async function startInstallation(context: UpContext, flags: UpFlags): Promise<ExitCode> {
  const { terminal, env, stopSignal } = context;
  const { logLevel } = flags;
  const dataDir = resolve(flags.dataDir);
  const running = await findRunningInstallation(dataDir);
  if (running !== null) return describeRunning(running, flags, terminal);
  const listen = flags.listen ?? (await chooseListenAddress(terminal));
  const schedulerFlags = ["--dev", "--listen", listen, "--data-dir", join(dataDir, "scheduler"), "--log-level", logLevel];
  const scheduler = new AppProcess("scheduler", ["scheduler", ...schedulerFlags], env);
  const supervisor = new ProcessSupervisor(context);
  supervisor.add(scheduler);
  try {
    const readyLine = await supervisor.waitUnlessStopped(scheduler.ready);
    if (readyLine === null) return await supervisor.stopAll();
    const { http, ws } = JSON.parse(readyLine) as { http: string; ws: string };
    const worker = superviseWorker({ ws, dataDir, logLevel }, context, supervisor);
    if ((await supervisor.waitUnlessStopped(worker.ready)) === null) return await supervisor.stopAll();
    noteInstallation(dataDir, { pid: process.pid, http });
    terminal.print(readyLine);
    printWelcome(http, terminal);
    if (flags.demo) await runDemo(createCliClient({ url: http, token: "dev-token" }), terminal, stopSignal);
    await supervisor.stopRequested;
    return await supervisor.stopAll();
  } catch (cause) {
    await supervisor.stopAll();
    const end = await scheduler.exited;
    // The scheduler has printed why it could not start.
    if (end.code === exitCodes.usage) return exitCodes.usage;
    throw cause;
  } finally {
    removeNote(dataDir, process.pid);
  }
}

/** What was wanted is there, unless another address was asked for. */
function describeRunning({ pid, http }: RunningInstallation, { listen, dataDir }: UpFlags, terminal: Terminal): ExitCode {
  terminal.info(`AstraFlow is already running with the data folder ${dataDir}; nothing was started.`);
  terminal.info(`  page     ${http}/`);
  terminal.info(`  use it   npx astra runs list${urlFlagFor(http)}`);
  terminal.info(`  stop it  Ctrl+C in its terminal, or: kill ${pid}`);
  terminal.info(`  another  npm start -- --data-dir ${dataDir.replace(/\/+$/, "")}-2`);
  return listen === undefined || http.endsWith(`//${listen}`) ? exitCodes.ok : exitCodes.conflict;
}

async function chooseListenAddress(terminal: Terminal): Promise<string> {
  const { host, port } = defaultListen;
  const problem = await tryListen(host, port);
  if (problem === null) return `${host}:${port}`;
  terminal.info(`port ${port} is in use (${problem}); using a free one instead`);
  return `${host}:0`;
}

/** The flag that a command needs unless the scheduler has the default address. */
const urlFlagFor = (http: string): string =>
  http === `http://${defaultListen.host}:${defaultListen.port}` ? "" : ` --url ${http}`;

function printWelcome(http: string, terminal: Terminal): void {
  const { bold, dim } = terminal.colors;
  terminal.info("");
  terminal.info(`  ${bold("AstraFlow is up")}`);
  terminal.info(`  page     ${http}/`);
  terminal.info(`  API      ${http}/api/v1/openapi.json ${dim("(token: dev-token)")}`);
  terminal.info(`  next     npx astra runs list${urlFlagFor(http)}`);
  terminal.info(`  stop     Ctrl+C`);
  terminal.info("");
}

/** How long workers may take to finish or return their tasks before the scheduler stops. */
const workerStopMs = 3_000;

/** All child processes, when to stop them, and with which exit code. */
class ProcessSupervisor {
  /** Resolves when the user wants to stop, or the scheduler has exited. */
  readonly stopRequested: Promise<void>;
  readonly #requestStop: () => void;
  readonly #children = new Set<AppProcess>();
  readonly #context: UpContext;
  #code: ExitCode = exitCodes.ok;

  constructor(context: UpContext) {
    const { promise, resolve: requestStop } = Promise.withResolvers<void>();
    this.stopRequested = promise;
    this.#requestStop = requestStop;
    this.#context = context;
    context.stopSignal.addEventListener("abort", () => requestStop());
    if (context.stopSignal.aborted) requestStop();
  }

  add(child: AppProcess): void {
    const { stopSignal, terminal } = this.#context;
    this.#children.add(child);
    void child.exited.then((end) => {
      this.#children.delete(child);
      if (stopSignal.aborted || child.name !== "scheduler") return;
      if (end.code !== exitCodes.usage) terminal.error(`${child.describeExit(end)}; shutting down\n`);
      this.#code = end.code === exitCodes.usage ? exitCodes.usage : exitCodes.failed;
      this.#requestStop();
    });
  }

  /** Null if it is to stop before. */
  waitUnlessStopped<T>(promise: Promise<T>): Promise<T | null> {
    return Promise.race([promise, this.stopRequested.then(() => null)]);
  }

  async stopAll(): Promise<ExitCode> {
    const { forceStopSignal } = this.#context;
    this.#requestStop();
    const stopNow = () => this.#children.forEach((child) => child.kill("SIGTERM"));
    forceStopSignal.addEventListener("abort", stopNow);
    if (forceStopSignal.aborted) stopNow();
    // Workers first, while there is a scheduler to return their tasks to; a second signal ends a worker that takes too long.
    const workers = [...this.#children].filter((child) => child.name !== "scheduler");
    for (const worker of workers) worker.kill("SIGTERM");
    await Promise.race([Promise.all(workers.map((worker) => worker.exited)), pause(workerStopMs, undefined, { ref: false })]);
    const ends = [...this.#children].map((child) => child.exited);
    stopNow();
    await Promise.all(ends);
    return this.#code;
  }
}

/** Runs a worker and restarts it with growing delays. `ready` resolves when it has connected for the first time. */
function superviseWorker(
  flags: TextInput<"ws" | "dataDir" | "logLevel">,
  context: UpContext,
  supervisor: ProcessSupervisor,
): { ready: Promise<string> } {
  const ready = Promise.withResolvers<string>();
  const env = {
    ...context.env,
    ASTRA_WORKER_SCHEDULER_WS_URL: flags.ws,
    ASTRA_WORKER_TENANT: "default",
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: context.env["ASTRA_WORKER_WORKER_NAME"] ?? "demo-worker",
    ASTRA_WORKER_DATA_DIR: join(flags.dataDir, "worker"),
    ASTRA_WORKER_PACKAGES_DIR: demoPackages,
    ASTRA_WORKER_LOG_LEVEL: flags.logLevel,
  };
  let hasJoined = false;
  const runUntilStopped = async (waitMs: number): Promise<void> => {
    const startedAt = performance.now();
    const child = new AppProcess("worker", ["worker"], env);
    supervisor.add(child);
    child.ready.then(
      (line) => {
        hasJoined = true;
        ready.resolve(line);
      },
      () => undefined, // its exit is handled below
    );
    const end = await child.exited;
    if (context.stopSignal.aborted) return;
    // A restart does not fix wrong settings.
    if (end.code === exitCodes.usage && !hasJoined)
      return ready.reject(new CliFailure(exitCodes.usage, { error: "E.CONFIG.INVALID", message: child.describeExit(end) }));
    const nextMs = performance.now() - startedAt > stableMs ? restartMsMin : waitMs;
    context.terminal.error(`${child.describeExit(end)}; starting it again in ${nextMs / 1_000} s\n`);
    const isStopped = (await supervisor.waitUnlessStopped(pause(nextMs, true, { ref: false }))) === null;
    if (!isStopped) await runUntilStopped(Math.min(restartMsMax, nextMs * 2));
  };
  runUntilStopped(restartMsMin).catch(ready.reject);
  return { ready: ready.promise };
}

/** Reports a demo that fails; the installation keeps running, so that the user can look into it. */
async function runDemo(client: Client, terminal: Terminal, stopSignal: AbortSignal): Promise<void> {
  if (!existsSync(demoWorkflow)) return terminal.info("this installation has no demo workflow");
  try {
    const log = (line: string) => terminal.info(line);
    const ref = await submitRun(client, readRunRequestFile(demoWorkflow), { key: `demo-${Date.now()}`, log });
    const run = await followRun(ref.runId, { client, terminal, view: "picture", signal: stopSignal, now: Date.now });
    terminal.info(`the demo run ${run.status}; its history: npx astra runs export ${run.runId}${urlFlagFor(client.url)}`);
  } catch (cause) {
    if (stopSignal.aborted) return;
    terminal.error(`the demo run could not be followed: ${errorMessage(cause)}\n`);
  }
}
