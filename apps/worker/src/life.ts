// One life of the worker program: packages, link, outbox, health and the status listener wired together, and the way it ends.
// Reading the config is command.ts.

import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { type FaultSummary, formatFault } from "@astraflow/protocol";
import { type Announced, type LinkNote, type Outside, openOutboxFolder, type WorkerNote } from "@astraflow/runtime";
import type { Logger } from "pino";
import { adviseOn } from "./advice.ts";
import { Cgroup } from "./cgroup.ts";
import type { WorkerConfig } from "./config.ts";
import { Meter } from "./meter.ts";
import { NoteLevels } from "./note-level.ts";
import type { Signals } from "./signals.ts";
import { type Staffed, staff } from "./staff.ts";
import { openStatusListener, type StatusListener } from "./status-listener.ts";
import { readTlsFiles } from "./tls-files.ts";
import { TokenFile } from "./token-file.ts";
import { VitalsReader } from "./vitals.ts";

/**
 * 0 all well, 1 what it found or loaded cannot be used, or cut short by a second signal, 2 wrong settings, 4 refused by the scheduler: what
 * these say of every other command.
 */
export const exitCodes = { ok: 0, failed: 1, usage: 2, notAllowed: 4 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** A handler that ignores its signal would keep the process alive after its worker has ended. */
const lingerMs = 500;

export interface LifeOptions {
  readonly config: WorkerConfig;
  readonly instance: string;
  readonly log: Logger;
  readonly signals: Signals;
}

export class Life {
  readonly #options: LifeOptions;
  readonly #boot = randomUUID();
  readonly #levels = new NoteLevels();
  readonly #meter = new Meter();
  readonly #vitals: VitalsReader;
  readonly #token: TokenFile;
  #staffed: Staffed | undefined;
  #listener: StatusListener | undefined;
  #hasBeenReady = false;
  #code: ExitCode = exitCodes.ok;

  constructor(options: LifeOptions) {
    this.#options = options;
    this.#token = new TokenFile({
      auth: options.config.auth,
      file: options.config.tokenFile ?? null,
      read: readTextFile,
      warn: (message) => options.log.warn({ event: "token" }, message),
    });
    const { dataDir, drainMemoryPct, drainDiskPct } = options.config;
    this.#vitals = new VitalsReader({
      dataDir,
      drainMemoryPct,
      drainDiskPct,
      cgroup: new Cgroup(readSystemFile, realOutside.now),
      now: realOutside.now,
      heapPct: () => this.#staffed?.heapPct() ?? null,
      lagMs: () => this.#staffed?.lagMs() ?? null,
    });
  }

  async run(): Promise<ExitCode> {
    const staffed = await this.#staff();
    if (staffed === null) return this.#end();
    this.#obeySignals(staffed);
    if (!(await this.#listen(staffed))) staffed.worker.stop();
    else if (staffed.worker.view.phase !== "CLOSED") staffed.worker.begin();
    await staffed.worker.closed;
    await this.#listener?.close();
    if (staffed.isStuck()) {
      const message = "a handler sits in a call into the system and cannot be ended; the process kills itself";
      this.#options.log.error({ event: "stuck" }, message);
      process.kill(process.pid, "SIGKILL");
    }
    return this.#end();
  }

  /** Null where a signal came first, for a package may take its time to load, or for ever; or where one ended the thread that loads. */
  async #staff(): Promise<Staffed | null> {
    const { config, instance, log, signals } = this.#options;
    const options = {
      ...fixedOptions(config, { instance, boot: this.#boot, token: this.#token }),
      vitals: (announced: Announced) => this.#vitals.read(announced),
      count: (counter: Parameters<Meter["count"]>[0]) => this.#meter.count(counter),
      ended: (nodeType: string, ms: number) => this.#meter.observe(nodeType, ms),
      note: (note: LinkNote | WorkerNote) => this.#hear(note),
    };
    try {
      this.#staffed = (await Promise.race([staff(config, options), signals.first()])) ?? undefined;
    } catch (problem) {
      const message = problem instanceof Error ? problem.message : String(problem);
      this.#complain(exitCodes.failed, { code: "E.PKG.INVALID", message, suggestion: "astra worker --packages-dir DIR" });
    }
    if (this.#staffed === undefined) return null;
    for (const { dir, code, message } of this.#staffed.packageProblems()) log.error({ event: "package", dir, code }, message);
    const packages = this.#staffed.packages().map(({ name, version }) => `${name} ${version}`);
    log.info({ event: "packages", packages }, "packages are loaded");
    return this.#staffed;
  }

  #obeySignals({ worker }: Staffed): void {
    const { config, log, signals } = this.#options;
    signals.hear((count, signal) => {
      log.info({ event: "signal", signal }, count === 1 ? "draining; a second signal ends at once" : "ending at once");
      if (count === 1) return worker.leave(config.graceMs);
      this.#code = exitCodes.failed;
      worker.stop();
    });
  }

  /** False where it was asked to listen and cannot. */
  async #listen({ worker, packages, packageProblems }: Staffed): Promise<boolean> {
    const { config, instance } = this.#options;
    const { metricsListen, name, tenant, version } = config;
    if (metricsListen === undefined) return true;
    try {
      this.#listener = await openStatusListener(metricsListen, {
        about: { worker: instance, name, tenant, version, boot: this.#boot },
        meter: this.#meter,
        packages,
        packageProblems,
        inventory: () => worker.inventory(),
        isOutboxWritable: () => worker.isOutboxWritable,
        vitals: () => this.#vitals.read(),
      });
      return true;
    } catch (problem) {
      const reason = problem instanceof Error ? problem.message : String(problem);
      const message = `--metrics-listen ${metricsListen.host}:${metricsListen.port} cannot be used: ${reason}`;
      this.#complain(exitCodes.usage, {
        code: "E.CONFIG.INVALID",
        message,
        suggestion: "astra worker --metrics-listen 127.0.0.1:0",
      });
      return false;
    }
  }

  #hear(note: LinkNote | WorkerNote): void {
    const { config, instance, log } = this.#options;
    const url = note.event === "lost" || note.event === "refused" ? { url: config.urls.join(",") } : {};
    const advice = adviseOn(note, config);
    const details = { ...note.details, ...url, ...(advice !== undefined && { try: advice }) };
    log[this.#levels.levelOf(note)]({ event: note.event, ...details }, note.message);
    if (note.event === "ready" && !this.#hasBeenReady) {
      this.#hasBeenReady = true;
      const metrics = this.#listener === undefined ? {} : { metrics: this.#listener.url };
      const ready = { ready: true, worker: instance, name: config.name, pid: process.pid, ...metrics };
      process.stdout.write(`${JSON.stringify(ready)}\n`);
    }
    if (note.event === "outbox-damaged") this.#complain(exitCodes.failed, { code: "E.OUTBOX.DAMAGED", message: note.message });
    const refusal = note.event === "refused" ? String(note.details?.["code"]) : "";
    if (config.endOnAuthError && refusal.startsWith("E.AUTH.")) {
      const message = `the scheduler refused this worker: ${note.message}`;
      this.#complain(exitCodes.notAllowed, { code: refusal, message, suggestion: advice });
      // Not from inside the link's own move.
      queueMicrotask(() => this.#staffed?.worker.stop());
    }
  }

  #complain(code: ExitCode, words: FaultSummary): void {
    this.#code = code;
    process.stderr.write(formatFault(words));
  }

  /** The process ends by itself once nothing holds it, and by force where something does. */
  #end(): ExitCode {
    const code = this.#code;
    setTimeout(() => process.exit(code), lingerMs).unref();
    return code;
  }
}

function fixedOptions(config: WorkerConfig, { instance, boot, token }: { instance: string; boot: string; token: TokenFile }) {
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
    offer: {
      maxParallel,
      runtimes,
      features,
      ...(perNodeLimits && { perNodeLimits }),
      ...(pool && { pool }),
      ...(tags && { tags }),
    },
    outbox: openOutboxFolder(config.dataDir, `outbox-${identityDigest(tenant, instance)}.journal`),
    workRoot: path.join(config.dataDir, "work"),
    resourceDir: path.join(config.dataDir, `resources-${identityDigest(tenant, instance)}`),
    resources: config.resources,
    outside: realOutside,
    tls: () => readTlsFiles(config.tls),
    settings: {
      backoff: config.backoff,
      acceptWaitMs: config.acceptWaitMs,
      heartbeatMs: config.heartbeatMs,
      windowDefault: config.window,
    },
  };
}

/** Files for each identity: results and resources are the business of the worker that was asked for them, also where two share a directory. */
function identityDigest(tenant: string, instance: string): string {
  return createHash("sha256")
    .update(JSON.stringify([tenant, instance]))
    .digest("hex")
    .slice(0, 16);
}

const realOutside: Outside = {
  now: () => performance.now(),
  wall: () => Date.now(),
  roll: () => Math.random(),
  after(ms, call) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
  soon: (call) => void setImmediate(call),
};

function readTextFile(file: string): string | Error {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

function readSystemFile(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // Not every system has it, and not every process may see it: then there is no limit to know of.
    return null;
  }
}
