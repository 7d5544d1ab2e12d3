// The dependencies of a package version, inside its own folder: a Python environment in `.venv`, filled by pip from the lock alone; for
// Node what the lock file says, without running any script.

import { readdir } from "node:fs/promises";
import path from "node:path";
import { lockFileName, readPythonVersion, readVersionRange } from "@astraflow/archive";
import { fault, type Manifest } from "@astraflow/protocol";
import type { InstallSettings } from "./install-settings.ts";
import { describeFailure, type ProcessEnd, type ProcessGroupListener, runProcess } from "./limited-process.ts";

/** Where a program of the installer runs, and under which settings. */
export interface ToolContext {
  readonly folder: string;
  readonly settings: InstallSettings;
  readonly groups?: ProcessGroupListener;
}

const environmentFolder = ".venv";

/** Throws E.PKG.INVALID where the worker's Python is not one the package runs on; the sentence names both versions. */
export async function checkPythonVersion(manifest: Manifest, context: ToolContext): Promise<void> {
  const { name, version, python } = manifest;
  if (python === undefined) return;
  const { command } = context.settings.python;
  const end = await runTool(command, ["-I", "-c", "import platform; print(platform.python_version())"], context);
  const failure = describeFailure(command, end);
  if (failure !== null) throw fault("E.PKG.INVALID", `${name} needs Python ${python.requires}, but ${failure}`);
  const installed = readPythonVersion(end.output.trim().replace(/\+.*$/, ""));
  const range = readVersionRange(python.requires);
  if (typeof range !== "string" && installed !== null && range.includes(installed)) return;
  const message = `${name} ${version} needs Python ${python.requires}, but this worker has Python ${end.output.trim()}`;
  throw fault("E.PKG.INVALID", message);
}

/** Creates the environment, also for a package without dependencies: its code must not see those of the worker. */
export async function installPythonDependencies(manifest: Manifest, context: ToolContext): Promise<void> {
  if (manifest.python === undefined) return;
  const { command, wheelsDir } = context.settings.python;
  const environment = path.join(context.folder, environmentFolder);
  await runOrThrow("python -m venv", command, ["-I", "-m", "venv", "--without-pip", "--symlinks", environment], context);
  if ((manifest.python.dependencies ?? []).length === 0) return;
  const args = [
    ...["-I", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-compile"],
    // The lock names everything: nothing is resolved, nothing is built, nothing without its digest is taken.
    ...["--no-deps", "--require-hashes", "--only-binary", ":all:"],
    ...["--target", await findSitePackages(environment), "-r", lockFileName],
    ...(wheelsDir === undefined ? [] : ["--no-index", "--find-links", wheelsDir]),
  ];
  await runOrThrow("pip", command, args, context);
}

export async function installNodeDependencies(manifest: Manifest, context: ToolContext): Promise<void> {
  const lockfile = manifest.node?.lockfile;
  if (lockfile === undefined) return;
  const folder = path.join(context.folder, path.dirname(lockfile));
  const args = ["ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"];
  await runOrThrow("npm ci", context.settings.npm, args, { ...context, folder });
}

async function findSitePackages(environment: string): Promise<string> {
  const lib = path.join(environment, "lib");
  const [version] = (await readdir(lib)).filter((name) => name.startsWith("python"));
  if (version === undefined) throw fault("E.PKG.INVALID", "the Python environment of the package has no library folder");
  return path.join(lib, version, "site-packages");
}

async function runOrThrow(name: string, command: string, args: readonly string[], context: ToolContext): Promise<void> {
  const failure = describeFailure(name, await runTool(command, args, context));
  if (failure !== null) throw fault("E.PKG.INVALID", `the dependencies cannot be installed: ${failure}`);
}

function runTool(command: string, args: readonly string[], { folder, settings, groups }: ToolContext): Promise<ProcessEnd> {
  const { toolEnvironment: env, limits } = settings;
  return runProcess({ command, args, cwd: folder, env, timeMsMax: limits.dependenciesMsMax, ...(groups && { groups }) });
}
