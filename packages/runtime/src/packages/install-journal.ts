// The package commands that a worker has taken and whose end the scheduler has not acknowledged. A command is here before it is acked, and
// its outcome before it is reported: a worker that is killed in between goes on where it was.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { isRecord, type PackageEventPayload, type PkgInstallPayload, type PkgUninstallPayload } from "@astraflow/protocol";
import { replaceFile, syncFolder } from "./version-folders.ts";

/** A command as it came, with what the log says about its frame. */
export type TakenPackageCommand = {
  /** The id that the scheduler knows the command by. */
  readonly id: string;
  readonly frame: { readonly type: string; readonly id: string; readonly corr?: string; readonly seq?: number };
} & (
  | { readonly type: "install"; readonly payload: PkgInstallPayload }
  | { readonly type: "uninstall"; readonly payload: PkgUninstallPayload }
);

export interface JournaledCommand {
  readonly command: TakenPackageCommand;
  /** Time of day when it came, for the order after a restart. */
  readonly takenAt: number;
  /** How often it was begun; a command that kills its worker must not do so for ever. */
  readonly starts: number;
  /** Null: it has not ended. */
  readonly outcome: PackageEventPayload | null;
}

export interface InstallJournal {
  /** Oldest first. */
  load(): Promise<JournaledCommand[]>;
  /** Resolves once it survives a power cut. */
  record(entry: JournaledCommand): Promise<void>;
  remove(id: string): Promise<void>;
}

export function openInstallJournal(folder: string): InstallJournal {
  const fileOf = (id: string) => path.join(folder, `${createHash("sha256").update(id).digest("hex").slice(0, 32)}.json`);
  return {
    async load() {
      await mkdir(folder, { recursive: true });
      const names = (await readdir(folder)).filter((name) => name.endsWith(".json"));
      const entries = await Promise.all(names.map((name) => readEntry(path.join(folder, name))));
      return entries.flatMap((entry) => entry ?? []).sort((left, right) => left.takenAt - right.takenAt);
    },
    async record(entry) {
      await mkdir(folder, { recursive: true });
      const file = fileOf(entry.command.id);
      await replaceFile(file, JSON.stringify(entry));
    },
    async remove(id) {
      await rm(fileOf(id), { force: true });
      await syncFolder(folder);
    },
  };
}

/** Files are replaced as a whole, so this process and its predecessors leave none that is damaged; an object without a command is not ours. */
async function readEntry(file: string): Promise<JournaledCommand | null> {
  const text = await readFile(file, "utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${file} is not JSON; remove it`, { cause });
  }
  return isRecord(value) && isRecord(value["command"]) ? (value as unknown as JournaledCommand) : null;
}
