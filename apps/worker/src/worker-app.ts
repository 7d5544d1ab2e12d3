// The worker program from its config to its end: packages, worker, health and status server wired together.

import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { type ExitCode, errorMessage, exitCodes, type FaultSummary, formatFault } from "@astraflow/protocol";
import {
  captureOutput,
  createHostedWorker,
  createThreadedWorker,
  type LinkLogEvent,
  noFileTransferFault,
  openOutboxFile,
  SchedulerFiles,
  type SessionWorker,
  type SharedWorkerOptions,
  type WorkerEnvironment,
  type WorkerLogEvent,
} from "@astraflow/runtime";
import type { Logger } from "pino";
import { adviseOnConnectionFailure } from "./connection-advice.ts";
import { readTlsFiles, TokenFile } from "./identity/credential-files.ts";
import { createPackageInstalls } from "./package-installs.ts";
import { countPackages, describeMissingPackages, findManifestWarnings } from "./package-report.ts";
import { PackageWatch } from "./package-watch.ts";
import type { WorkerConfig } from "./settings/config.ts";
import type { ShutdownSignals } from "./signals.ts";
import { CgroupReader } from "./status/cgroup.ts";
import { WorkerMetrics } from "./status/metrics.ts";
import { openStatusServer, type StatusServer } from "./status/status-server.ts";
import { WorkerHealthReader } from "./status/worker-health.ts";
import type { TaskLog } from "./task-log.ts";

/** A handler that ignores its signal would keep the process alive after its worker has ended. */
const exitDelayMs = 500;

/** Lines about packages and tasks: whoever collects them from many workers finds in each which one wrote it. */
const namesSender: ReadonlySet<string> = new Set(["package", "package-refused", "attempt-refused", "attempt-stopped"]);

export interface WorkerAppOptions {
  readonly config: WorkerConfig;
  readonly instance: string;
  readonly log: Logger;
  readonly taskLog: TaskLog;
  readonly signals: ShutdownSignals;
}

export class WorkerApp {
  readonly #options: WorkerAppOptions;
  readonly #boot = randomUUID();
  readonly #metrics = new WorkerMetrics();
  readonly #health: WorkerHealthReader;
  readonly #token: TokenFile;
  #worker: SessionWorker | undefined;
  #statusServer: StatusServer | undefined;
  #hasBeenReady = false;
  #exitCode: ExitCode = exitCodes.ok;

  constructor(options: WorkerAppOptions) {
    this.#options = options;
    this.#token = new TokenFile({
      auth: options.config.auth,
      file: options.config.tokenFile ?? null,
      read: (file) => readFileSync(file, "utf8"),
      warn: (message) => options.log.warn({ event: "token" }, message),
    });
    this.#health = new WorkerHealthReader({
      ...options.config,
      cgroup: new CgroupReader(readSystemFile, realEnvironment.now),
      now: realEnvironment.now,
      heapPct: () => this.#worker?.runner.heapPct ?? null,
      lagMs: () => this.#worker?.runner.lagMs ?? null,
    });
  }

  async run(): Promise<ExitCode> {
    const worker = await this.#loadWorker();
    if (worker === undefined) return this.#exit();
    this.#handleSignals(worker);
    const watch = this.#watchPackages(worker);
    if (!(await this.#openStatusServer(worker))) worker.stop();
    else if (worker.status.phase !== "CLOSED") worker.start();
    await worker.closed;
    watch?.close();
    await this.#statusServer?.close();
    if (worker.runner.isStuck) {
      const message = "a handler is stuck in a system call and cannot be stopped; killing the process";
      this.#options.log.error({ event: "stuck" }, message);
      process.kill(process.pid, "SIGKILL");
    }
    return this.#exit();
  }

  /** Undefined where a signal came while packages were loading, which may take for ever, or where loading them failed. */
  async #loadWorker(): Promise<SessionWorker | undefined> {
    const { log, signals } = this.#options;
    try {
      this.#worker = (await Promise.race([this.#createWorker(), signals.waitForFirst()])) ?? undefined;
    } catch (problem) {
      const suggestion = "astra worker --packages-dir DIR";
      this.#failWith(exitCodes.failed, { code: "E.PKG.INVALID", message: errorMessage(problem), suggestion });
    }
    if (this.#worker === undefined) return undefined;
    const { loadedPackages } = this.#worker.runner;
    const names = loadedPackages.packages.map(({ name, version }) => `${name} ${version}`);
    for (const { dir, code, message } of loadedPackages.problems) log.error({ event: "package", dir, code }, message);
    for (const { dir, message } of findManifestWarnings(loadedPackages)) log.warn({ event: "package", dir }, message);
    log.info({ event: "packages", packages: names }, countPackages(loadedPackages));
    return this.#worker;
  }

  /** Resolves once the packages are loaded; rejects where that ended their thread. */
  async #createWorker(): Promise<SessionWorker> {
    const { config, instance, log: logger, taskLog } = this.#options;
    const isLogged = logger.isLevelEnabled("info");
    const { environment, ...shared } = buildWorkerOptions(config, { instance, boot: this.#boot, token: this.#token });
    const log = (event: LinkLogEvent | WorkerLogEvent) => this.#handleLogEvent(event);
    const hosting = { ...config.hosts, env: hostEnvironment(process.env) };
    const packageManager = createPackageInstalls({
      ...{ config, environment, log, hosting },
      token: this.#token,
      boot: this.#boot,
      env: process.env,
    });
    const options: SharedWorkerOptions = {
      ...shared,
      environment,
      ...(packageManager !== undefined && { packageManager }),
      readHealth: (thresholds) => this.#health.read(thresholds),
      incrementCounter: (counter) => this.#metrics.increment(counter),
      attemptEnded: (attempt, outcome, durationMs) => {
        this.#metrics.observeDuration(attempt.dispatch.node_type, durationMs);
        if (isLogged) taskLog.add(attempt, outcome, durationMs);
      },
      log,
    };
    const { packagesDir, heapMbMax } = config;
    // Without code of a package in this process there is nothing to keep apart from it.
    if (config.hosts.hostsNode || !config.hasThread) {
      captureOutput();
      return createHostedWorker({ ...options, packagesDir, hosting });
    }
    return createThreadedWorker({ ...options, packagesDir, hosting, ...(heapMbMax !== undefined && { heapMbMax }) });
  }

  #watchPackages(worker: SessionWorker): PackageWatch | undefined {
    const { config, log } = this.#options;
    if (!config.watchesPackages) return undefined;
    return new PackageWatch({
      packagesDir: config.packagesDir,
      log,
      loadedPackages: () => worker.runner.loadedPackages,
      reload: () => worker.packagesChanged(),
    });
  }

  #handleSignals(worker: SessionWorker): void {
    const { config, log, signals } = this.#options;
    signals.onSignal((count, signal) => {
      log.info({ event: "signal", signal }, count === 1 ? "draining; a second signal ends at once" : "ending at once");
      if (count === 1) return worker.drain(config.graceMs);
      this.#exitCode = exitCodes.failed;
      worker.stop();
    });
  }

  /** False where it was asked to listen and cannot. */
  async #openStatusServer(worker: SessionWorker): Promise<boolean> {
    const { config, instance } = this.#options;
    const { metricsListen, name, tenant, version } = config;
    if (metricsListen === undefined) return true;
    try {
      this.#statusServer = await openStatusServer(metricsListen, {
        identity: { worker: instance, name, tenant, version, boot: this.#boot },
        metrics: this.#metrics,
        worker,
        readHealth: () => this.#health.read(),
      });
      return true;
    } catch (problem) {
      const message = `--metrics-listen ${metricsListen.host}:${metricsListen.port} cannot be used: ${errorMessage(problem)}`;
      const suggestion = "astra worker --metrics-listen 127.0.0.1:0";
      this.#failWith(exitCodes.usage, { code: "E.CONFIG.INVALID", message, suggestion });
      return false;
    }
  }

  #handleLogEvent(event: LinkLogEvent | WorkerLogEvent): void {
    const { config, instance, log } = this.#options;
    const url = event.event === "lost" || event.event === "refused" ? { url: config.urls.join(",") } : {};
    const advice = adviseOnConnectionFailure(event, config);
    const sender = namesSender.has(event.event) ? { tenant: config.tenant, "sender.id": instance } : {};
    const details = { ...sender, ...event.details, ...url, ...(advice !== undefined && { try: advice }) };
    log[event.level]({ event: event.event, ...details }, event.message);
    if (event.event === "ready" && !this.#hasBeenReady) {
      this.#hasBeenReady = true;
      const metrics = this.#statusServer === undefined ? {} : { metrics: this.#statusServer.url };
      const loadedPackages = this.#worker?.runner.loadedPackages ?? { packages: [], problems: [] };
      const warning = describeMissingPackages(loadedPackages, config.packagesDir);
      const ready = { ready: true, worker: instance, name: config.name, pid: process.pid, ...metrics, ...warning };
      process.stdout.write(`${JSON.stringify(ready)}\n`);
    }
    if (event.event === "outbox-damaged") this.#failWith(exitCodes.failed, { code: "E.OUTBOX.DAMAGED", message: event.message });
    const refusal = event.event === "refused" ? String(event.details?.["code"]) : "";
    if (config.endOnAuthError && refusal.startsWith("E.AUTH.")) {
      const message = `the scheduler refused this worker: ${event.message}`;
      this.#failWith(exitCodes.notAllowed, { code: refusal, message, suggestion: advice });
      // Not from inside the link's own move.
      queueMicrotask(() => this.#worker?.stop());
    }
  }

  #failWith(code: ExitCode, summary: FaultSummary): void {
    this.#exitCode = code;
    process.stderr.write(formatFault(summary));
  }

  /** The process ends by itself once nothing holds it, and by force where something does. */
  #exit(): ExitCode {
    const code = this.#exitCode;
    setTimeout(() => process.exit(code), exitDelayMs).unref();
    return code;
  }
}

function buildWorkerOptions(
  config: WorkerConfig,
  { instance, boot, token }: { instance: string; boot: string; token: TokenFile },
) {
  const { tenant, name, version, maxParallel, runtimes, features, perNodeLimits, pool, tags } = config;
  return {
    url: config.urls,
    identity: {
      tenant,
      instance,
      name,
      version,
      hostname: hostname(),
      boot,
      // Asked at each handshake.
      get auth() {
        return token.auth;
      },
    },
    capabilities: {
      maxParallel,
      runtimes,
      features,
      ...(perNodeLimits && { perNodeLimits }),
      ...(pool && { pool }),
      ...(tags && { tags }),
    },
    outbox: openOutboxFile(config.dataDir, `outbox-${identityDigest(tenant, instance)}.journal`),
    workRoot: path.join(config.dataDir, "work"),
    resourceDir: path.join(config.dataDir, `resources-${identityDigest(tenant, instance)}`),
    resources: config.resources,
    outputBytesMax: config.outputBytesMax,
    environment: realEnvironment,
    tls: () => readTlsFiles(config.tls),
    transferFile: createFileTransfer(config, token),
    settings: {
      backoff: config.backoff,
      acceptTimeoutMs: config.acceptWaitMs,
      heartbeatMs: config.heartbeatMs,
      windowDefault: config.window,
    },
  };
}

/** The scheduler's session door and its API are one server, with one token. */
function createFileTransfer(config: WorkerConfig, token: TokenFile): NonNullable<SharedWorkerOptions["transferFile"]> {
  const [first, ...others] = config.urls.map((url) => new URL(url.replace(/^ws/, "http")).origin);
  const files = new SchedulerFiles({
    ...realEnvironment,
    endpoint: () => {
      const secret = token.auth.token;
      if (secret === undefined || first === undefined) return noFileTransferFault();
      return { origins: [first, ...others], authorization: `Bearer ${secret}` };
    },
    tls: () => readTlsFiles(config.tls),
  });
  return (transfer) => files.transfer(transfer);
}

/** Files for each identity: results and resources are the business of the worker that was asked for them, also where two share a directory. */
function identityDigest(tenant: string, instance: string): string {
  return createHash("sha256")
    .update(JSON.stringify([tenant, instance]))
    .digest("hex")
    .slice(0, 16);
}

export const realEnvironment: WorkerEnvironment = {
  now: () => performance.now(),
  wallClock: () => Date.now(),
  random: () => Math.random(),
  randomBytes,
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
  defer: (call) => void setImmediate(call),
};

/** What packages in processes of their own see: not the worker's settings, among which is its token. */
function hostEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith("ASTRA_")),
  );
}

function readSystemFile(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // Not every system has it, and not every process may see it: then there is no limit to know of.
    return null;
  }
}
