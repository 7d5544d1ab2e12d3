// `astra backup` and `astra restore`: the work is done by the scheduler's package; here are the flags and what is printed.

import type { CommandContext } from "../api/command-context.ts";
import { CliFailure, type ExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatCount } from "../output/format.ts";
import { loadScheduler, type WrittenBackup } from "./app-loader.ts";

export interface BackupFlags {
  readonly folder: string;
  readonly dataDir: string;
  readonly store?: string | undefined;
}

type BackupContext = Pick<CommandContext, "terminal" | "json">;

export async function runBackup(context: BackupContext, flags: BackupFlags): Promise<ExitCode> {
  const { backUpDataFolder } = await loadScheduler();
  const report = await refuseByCode(backUpDataFolder(toRequest(flags)));
  printReport(context, report, `backed up ${flags.dataDir} to ${report.folder}`);
  return exitCodes.ok;
}

export async function runRestore(context: BackupContext, flags: BackupFlags): Promise<ExitCode> {
  const { restoreDataFolder } = await loadScheduler();
  const report = await refuseByCode(restoreDataFolder(toRequest(flags)));
  printReport(context, report, `restored ${flags.folder} to ${report.folder}`);
  return exitCodes.ok;
}

const toRequest = ({ folder, dataDir, store }: BackupFlags) => ({ folder, dataDir, store: store ?? "" });

function printReport({ terminal, json }: BackupContext, report: WrittenBackup, sentence: string): void {
  if (json) terminal.print(JSON.stringify(report));
  else terminal.print(`${sentence} (${formatCount(report.files, "file")}, ${formatCount(report.bytes, "byte")})`);
}

/** The scheduler's package is loaded by name, so its faults are recognized by their code. */
async function refuseByCode<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const { code, message } = cause as { code?: unknown; message: string };
    if (typeof code !== "string") throw cause;
    throw new CliFailure(exitCodes.failed, { error: code.startsWith("E.") ? code : "E.STORE.OPEN", message });
  }
}
