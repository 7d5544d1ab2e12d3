// Looks at a folder of packages without running any of their code: their manifests, and whether this machine has the Python they need.

import path from "node:path";
import { findManifestProblems, readPythonVersion, readVersionRange } from "@astraflow/archive";
import { Fault, readManifest } from "@astraflow/protocol";
import { findPackageDirs, readManifestFile } from "./package-files.ts";

export interface InspectedPackage {
  /** Its name and version, or where it lies if these cannot be read. */
  readonly name: string;
  readonly needsPython: boolean;
  readonly problems: readonly string[];
}

/** `python`: the version that is installed; null: none is. */
export async function inspectPackages(root: string, python: string | null): Promise<InspectedPackage[]> {
  const dirs = await findPackageDirs(root);
  return Promise.all(dirs.map((dir) => inspectPackage(dir, path.relative(root, dir), python)));
}

async function inspectPackage(dir: string, place: string, python: string | null): Promise<InspectedPackage> {
  const json = await readManifestFile(path.join(dir, "manifest.json"));
  if (json instanceof Fault) return { name: place, needsPython: false, problems: [json.message] };
  const manifest = readManifest(json);
  if (manifest instanceof Fault)
    return { name: place, needsPython: false, problems: findManifestProblems(json).map(({ message }) => message) };
  const name = `${manifest.name} ${manifest.version}`;
  if (manifest.python === undefined) return { name, needsPython: false, problems: [] };
  const range = readVersionRange(manifest.python.requires);
  const installed = python === null ? null : readPythonVersion(python.replace(/\+.*$/, ""));
  const isGood = typeof range !== "string" && installed !== null && range.includes(installed);
  const found = python === null ? "there is none" : `this machine has ${python}`;
  return { name, needsPython: true, problems: isGood ? [] : [`needs Python ${manifest.python.requires}, but ${found}`] };
}
