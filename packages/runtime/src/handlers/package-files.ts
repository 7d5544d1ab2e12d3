// Where packages lie on disk, and their manifests.

import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { Fault, fault, isRecord, type JsonObject, limits, readJson } from "@astraflow/protocol";
import { isFileMissing } from "./adapter-import.ts";

export const manifestName = "manifest.json";

/** Changes with every replacement of the package: who writes a new version of a file writes its manifest last. */
export async function identifyPackage(dir: string): Promise<string | null> {
  try {
    const { ino, mtimeMs, size } = await stat(path.join(dir, manifestName));
    return `${ino} ${mtimeMs} ${size}`;
  } catch (thrown) {
    if (isFileMissing(thrown)) return null;
    throw thrown;
  }
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
