// `astra packages build`: checks the folder of a package, writes its lock where that does not fit, and packs it.

import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { buildPackageArchive, lockFileName, readPackageFolder, sha256Hex } from "@astraflow/archive";
import type { CommandContext, Switches, TextInput } from "../api/command-context.ts";
import { parseJson } from "../api/input-file.ts";
import { type ExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatCount } from "../output/format.ts";
import { readInput, refusing, writeOutput } from "./package-input.ts";
import { renewPythonLock } from "./python/python-lock.ts";

export type BuildContext = Pick<CommandContext, "terminal" | "json"> & {
  readonly env: NodeJS.ProcessEnv;
  readonly stopSignal: AbortSignal;
};

export type BuildInput = TextInput<"folder" | "python", "wheels"> & Switches<"includeNodeModules" | "relock">;

export async function buildPackage(context: BuildContext, input: BuildInput & TextInput<never, "out">): Promise<ExitCode> {
  const { terminal, json } = context;
  const { archive, manifest, files, ignored, isLockWritten } = await packFolder(context, input);
  const { name, version } = manifest;
  const out = input.out ?? `${name}-${version}.cwx`;
  writeOutput(out, archive);
  const sha256 = sha256Hex(archive);
  const built = { archive: out, name, version, sha256, bytes: archive.length, files: files.length, ignored, isLockWritten };
  terminal.print(json ? JSON.stringify(built) : out);
  terminal.info(
    `${name} ${version}: ${formatCount(files.length, "file")}, ${formatCount(archive.length, "byte")}, sha256 ${sha256}`,
  );
  if (ignored.length > 0) terminal.info(`left out: ${ignored.join(", ")}`);
  terminal.info(`next: astra packages sign ${out} --key KEY.pem --by NAME`);
  return exitCodes.ok;
}

/** The archive of a folder, in memory. */
export async function packFolder({ terminal, env, stopSignal: signal }: BuildContext, input: BuildInput) {
  const { folder, python: command, wheels, includeNodeModules = false, relock: isRenewed = false } = input;
  if (!existsSync(path.join(folder, "manifest.json")))
    throw usageFailure(`${folder} has no manifest.json.`, "astra packages new FOLDER");
  if (wheels !== undefined && !statSync(wheels, { throwIfNoEntry: false })?.isDirectory())
    throw usageFailure(`--wheels ${wheels} is no folder.`);
  const manifestFile = path.join(folder, "manifest.json");
  const manifestJson = parseJson(readInput(manifestFile).toString("utf8"), manifestFile);
  const log = (line: string): void => terminal.info(line);
  const lock = await renewPythonLock({ folder, manifestJson, command, wheels, env, signal, isRenewed, log });
  if (lock !== null) {
    const file = path.join(folder, lockFileName);
    writeOutput(file, lock.text);
    terminal.info(`wrote ${file}: ${formatCount(lock.count, "dependency", "dependencies")} pinned`);
  }
  const { files, ignored } = await readPackageFolder(folder, { includeNodeModules });
  return { ...refusing(folder, () => buildPackageArchive(files)), files, ignored, isLockWritten: lock !== null };
}
