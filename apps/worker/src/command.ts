// The worker as a program: config, identity, packages, logs and signals around the runtime's worker. Answers with an exit code.

import { createHash, randomUUID } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { Fault } from "@astraflow/protocol";
import {
  createWorker,
  type LinkNote,
  loadPackages,
  type Outside,
  openOutboxFolder,
  type PackageShelf,
  type WorkerNote,
} from "@astraflow/runtime";
import pino, { type Logger } from "pino";
import { readConfig, type WorkerConfig } from "./config.ts";
import { keepInstanceId } from "./instance-id.ts";
import { NoteLevels } from "./note-level.ts";
import { Signals } from "./signals.ts";
import { describeUsage } from "./usage.ts";
import { readVitals } from "./vitals.ts";

/** 0 all well, 1 cut short by a second signal, 2 wrong config, 3 refused by the scheduler, 4 what an earlier process kept is damaged. */
export type ExitCode = 0 | 1 | 2 | 3 | 4;

/** A handler that ignores its signal would keep the process alive after its worker has ended. */
const lingerMs = 500;

export async function runWorker(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<ExitCode> {
  const reading = readConfig({ argv, env, hostname: hostname(), readFile: readText, readInput: () => readText(0), isFolder });
  if ("problems" in reading) return complain(reading.problems);
  if (reading.wantsHelp) {
    process.stdout.write(describeUsage());
    return 0;
  }
  const { config, remarks } = reading;
  const instance = keepInstanceId(config.dataDir);
  if (instance instanceof Fault) return complain([instance.message]);
  const worker = config.instanceId ?? instance;

  const log = pino(
    { level: pinoLevel(config.logLevel), base: { tenant: config.tenant, worker, pid: process.pid } },
    pino.destination({ dest: 2, sync: true }),
  );
  for (const remark of remarks) log.warn({ event: "config" }, remark);
  const signals = new Signals();
  try {
    return await run({ config, instance: worker, log, signals });
  } finally {
    signals.close();
  }
}

async function readShelf(config: WorkerConfig, log: Logger): Promise<PackageShelf> {
  const shelf = await loadPackages(config.packagesDir);
  for (const { dir, fault } of shelf.problems) log.error({ event: "package", dir, code: fault.code }, fault.message);
  log.info(
    { event: "packages", packages: shelf.packages.map(({ name, version }) => `${name} ${version}`) },
    "packages are loaded",
  );
  return shelf;
}

interface Running {
  readonly config: WorkerConfig;
  readonly instance: string;
  readonly log: Logger;
  readonly signals: Signals;
}

async function run({ config, instance, log, signals }: Running): Promise<ExitCode> {
  const shelf = await readShelf(config, log);
  if (signals.count > 0) return 0;
  let code: ExitCode = 0;
  let hasBeenReady = false;
  const levels = new NoteLevels();
  const { tenant, name, version, auth, maxParallel, runtimes, features, perNodeLimits, pool, tags } = config;
  const worker = createWorker({
    url: config.urls,
    identity: { tenant, instance, name, version, hostname: hostname(), boot: randomUUID(), auth },
    offer: {
      maxParallel,
      runtimes,
      features,
      ...(perNodeLimits && { perNodeLimits }),
      ...(pool && { pool }),
      ...(tags && { tags }),
    },
    shelf,
    outbox: openOutboxFolder(config.dataDir, outboxFile(tenant, instance)),
    workRoot: path.join(config.dataDir, "work"),
    outside: realOutside,
    settings: {
      backoff: config.backoff,
      acceptWaitMs: config.acceptWaitMs,
      heartbeatMs: config.heartbeatMs,
      windowDefault: config.window,
    },
    vitals: () => readVitals(config.dataDir),
    note: hear,
  });

  function hear(note: LinkNote | WorkerNote): void {
    log[levels.levelOf(note)]({ event: note.event, ...note.details }, note.message);
    if (note.event === "ready" && !hasBeenReady) {
      hasBeenReady = true;
      process.stdout.write(`${JSON.stringify({ ready: true, worker: instance, name, pid: process.pid })}\n`);
    }
    if (note.event === "outbox-damaged") {
      code = 4;
      process.stderr.write(`worker: ${note.message}\n`);
    }
    const refusal = note.event === "refused" ? String(note.details?.["code"]) : "";
    if (config.endOnAuthError && refusal.startsWith("E.AUTH.")) {
      code = 3;
      process.stderr.write(`worker: the scheduler refused this worker (${refusal}): ${note.message}\n`);
      // Not from inside the link's own move.
      queueMicrotask(() => worker.stop());
    }
  }

  signals.hear((count, signal) => {
    log.info({ event: "signal", signal }, count === 1 ? "draining; a second signal ends at once" : "ending at once");
    if (count === 1) worker.leave(config.graceMs);
    else {
      code = 1;
      worker.stop();
    }
  });
  worker.begin();
  await worker.closed;
  const ended = code;
  setTimeout(() => process.exit(ended), lingerMs).unref();
  return ended;
}

/** A file for each identity: results are the business of the worker that was asked for them, also where two share a directory. */
function outboxFile(tenant: string, instance: string): string {
  const digest = createHash("sha256")
    .update(JSON.stringify([tenant, instance]))
    .digest("hex");
  return `outbox-${digest.slice(0, 16)}.journal`;
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

function complain(problems: readonly string[]): 2 {
  for (const problem of problems) process.stderr.write(`worker: ${problem}\n`);
  return 2;
}

function readText(file: string | 0): string | Error {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

function isFolder(dir: string): boolean {
  try {
    return statSync(dir).isDirectory();
  } catch {
    // Missing or not ours to look at: either way no packages can be read from it.
    return false;
  }
}

function pinoLevel(level: string): string {
  return level === "warning" ? "warn" : level === "critical" ? "fatal" : level;
}
