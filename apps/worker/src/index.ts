// The worker as a program: config, identity, log and signals, then its life. The command line loads this by name; it is the only entrance.

import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { type ExitCode, exitCodes, Fault, formatSettingsFault } from "@astraflow/protocol";
import pino from "pino";
import { findInstanceId, loadOrCreateInstanceId } from "./identity/instance-id.ts";
import { readWorkerConfig } from "./settings/config.ts";
import { listedSettings, renderHelp } from "./settings/setting-table.ts";
import { ShutdownSignals } from "./signals.ts";
import { TaskLog } from "./task-log.ts";
import { realEnvironment, WorkerApp } from "./worker-app.ts";
import { checkWorker, describeSettingProblems, formatCheckLines, type WorkerCheckLine } from "./worker-check.ts";

/** The command of the `astra` program; `run` answers with the exit code, and the process should end then. */
export const workerCommand = {
  name: "worker",
  flags: listedSettings.map(({ flag, variable, help, choices }) => ({
    flag,
    env: variable,
    help,
    ...(choices !== undefined && { values: choices }),
  })),
  run: runWorker,
};

async function runWorker(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<ExitCode> {
  const reading = readWorkerConfig({
    argv,
    env,
    hostname: hostname(),
    readFile: (file) => readFileSync(file, "utf8"),
    readInput: () => readFileSync(0, "utf8"),
    isDirectory,
  });
  if ("problems" in reading)
    return reading.wantsCheck
      ? reportCheck(describeSettingProblems(reading.problems))
      : reportProblems(reading.problems, "astra worker --help");
  if ("wantsHelp" in reading) {
    process.stdout.write(renderHelp());
    return exitCodes.ok;
  }
  const { config, warnings } = reading;
  if (reading.wantsCheck) {
    const instance = config.instanceId ?? findInstanceId(config.dataDir) ?? "worker-check";
    return reportCheck(await checkWorker({ config, instance, warnings, environment: realEnvironment }));
  }
  const instance = loadOrCreateInstanceId(config.dataDir);
  if (instance instanceof Fault) return reportProblems([instance.message], "astra worker --data-dir DIR");
  const worker = config.instanceId ?? instance;

  const destination = pino.destination({ dest: 2, sync: true });
  const log = pino(
    { level: pinoLevel(config.logLevel), base: { tenant: config.tenant, sender: { id: worker }, pid: process.pid } },
    // The lines of tasks that ended before come first.
    { write: (text: string) => (taskLog.flush(), destination.write(text)) },
  );
  const taskLog = new TaskLog({
    tenant: config.tenant,
    worker,
    pid: process.pid,
    wallClock: Date.now,
    after(ms, call) {
      const timer = setTimeout(call, ms);
      return () => clearTimeout(timer);
    },
    write: (text) => destination.write(text),
  });
  for (const warning of warnings) log.warn({ event: "config" }, warning);
  const signals = new ShutdownSignals();
  try {
    return await new WorkerApp({ config, instance: worker, log, taskLog, signals }).run();
  } finally {
    taskLog.flush();
    signals.close();
  }
}

function reportCheck(lines: readonly WorkerCheckLine[]): ExitCode {
  process.stdout.write(formatCheckLines(lines));
  return lines.every(({ isGood }) => isGood) ? exitCodes.ok : exitCodes.failed;
}

function reportProblems(problems: readonly string[], next: string): ExitCode {
  process.stderr.write(formatSettingsFault(problems, next));
  return exitCodes.usage;
}

function isDirectory(dir: string): boolean {
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
