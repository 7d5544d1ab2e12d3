// Where packages lie on disk, and their manifests.

import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { Fault, fault, isRecord, type JsonObject, limits, readJson } from "@astraflow/protocol";
import { isFileMissing } from "./adapter-import.ts";

export const manifestName = "manifest.json";

/** Changes with every replacement of the package: who writes a new version of a file writes its manifest last. */
export async function identifyPackage(dir: string): Promise<string | null> {
  try {
    return await identifyFile(path.join(dir, manifestName));
  } catch (thrown) {
    if (isFileMissing(thrown)) return null;
    throw thrown;
  }
}

/** Made by the programs that run or install the package, not by its author. */
export const madeFolders: ReadonlySet<string> = new Set(["__pycache__", "node_modules", ".venv", ".git"]);

/** Changes with every change of any of its files, for authors who work on it. */
export async function identifyPackageFiles(dir: string): Promise<string | null> {
  if ((await identifyPackage(dir)) === null) return null;
  const digest = createHash("sha256");
  const visit = async (folder: string): Promise<void> => {
    const entries = await readdir(path.join(dir, folder), { withFileTypes: true });
    for (const entry of entries.sort((left, right) => (left.name < right.name ? -1 : 1))) {
      const name = path.join(folder, entry.name);
      if (entry.isDirectory() && !madeFolders.has(entry.name)) await visit(name);
      else if (!entry.isDirectory()) digest.update(`${JSON.stringify(name)} ${await identifyFile(path.join(dir, name))}\n`);
    }
  };
  try {
    await visit("");
    return digest.digest("hex");
  } catch (thrown) {
    // A file went while it was looked at: it is looked at again at the next reload.
    if (isFileMissing(thrown)) return null;
    throw thrown;
  }
}

async function identifyFile(file: string): Promise<string> {
  const { ino, mtimeNs, size } = await stat(file, { bigint: true });
  return `${ino} ${mtimeNs} ${size}`;
}

export async function readManifestFile(file: string): Promise<JsonObject | Fault> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(file);
  } catch (thrown) {
    return fault("E.MANIFEST.INVALID", `${manifestName} cannot be read`, undefined, thrown);
  }
  const value = readJson(bytes, { ...limits.json.manifest, subject: manifestName });
  if (value instanceof Fault) {
    const { line, column, problem } = value.details ?? {};
    if (line === undefined) return value;
    return fault(value.code, `${file}:${String(line)}:${String(column)} is not JSON: ${String(problem)}`);
  }
  return isRecord(value) ? value : fault("E.MANIFEST.INVALID", `${manifestName} must hold an object`);
}

/** Directories with a manifest, one or two levels below the root, in the order of their names. A missing root holds none. */
export async function findPackageDirs(root: string): Promise<string[]> {
  const found: string[] = [];
  const { dirs } = await listDirectory(root);
  for (const outer of dirs) {
    const { dirs: innerDirs, hasManifest } = await listDirectory(outer);
    if (hasManifest) found.push(outer);
    for (const inner of innerDirs) if ((await listDirectory(inner)).hasManifest) found.push(inner);
  }
  return found;
}

async function listDirectory(dir: string): Promise<{ dirs: string[]; hasManifest: boolean }> {
  try {
    const entries = await readdir(dir, { withFileTypes: true });
    const dirs = entries.filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith("."));
    const hasManifest = entries.some((entry) => entry.name === manifestName);
    return { dirs: dirs.map((entry) => path.join(dir, entry.name)).sort(), hasManifest };
  } catch (thrown) {
    if (isFileMissing(thrown)) return { dirs: [], hasManifest: false };
    throw thrown;
  }
}
