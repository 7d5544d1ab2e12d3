// The worker as a program: config, identity, log and signals, then its life. Answers with an exit code.

import { readFileSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { Fault, formatSettingsFault } from "@astraflow/protocol";
import pino from "pino";
import { readConfig } from "./config.ts";
import { keepInstanceId } from "./instance-id.ts";
import { type ExitCode, exitCodes, Life } from "./life.ts";
import { Signals } from "./signals.ts";
import { describeUsage } from "./usage.ts";

export async function runWorker(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Promise<ExitCode> {
  const reading = readConfig({ argv, env, hostname: hostname(), readFile: readText, readInput: () => readText(0), isFolder });
  if ("problems" in reading) return complain(reading.problems, "astra worker --help");
  if (reading.wantsHelp) {
    process.stdout.write(describeUsage());
    return exitCodes.ok;
  }
  const { config, remarks } = reading;
  const instance = keepInstanceId(config.dataDir);
  if (instance instanceof Fault) return complain([instance.message], "astra worker --data-dir DIR");
  const worker = config.instanceId ?? instance;

  const log = pino(
    { level: pinoLevel(config.logLevel), base: { tenant: config.tenant, sender: { id: worker }, pid: process.pid } },
    pino.destination({ dest: 2, sync: true }),
  );
  for (const remark of remarks) log.warn({ event: "config" }, remark);
  const signals = new Signals();
  try {
    return await new Life({ config, instance: worker, log, signals }).run();
  } finally {
    signals.close();
  }
}

function complain(problems: readonly string[], next: string): ExitCode {
  process.stderr.write(formatSettingsFault(problems, next));
  return exitCodes.usage;
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
