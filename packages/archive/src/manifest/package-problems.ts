// Everything that is wrong with a package before it is installed: its manifest, and what the manifest says about the files beside it.

import { type Fault, fault, findManifestFaults, type JsonObject, type Manifest, readManifest } from "@astraflow/protocol";
import { findDependencyProblem, findLockProblems, lockFileName } from "../python/requirements-lock.ts";
import { readVersionRange } from "../python/version.ts";
import { findManifestProblems } from "./manifest-problems.ts";

/** The folder that is on the module path of a package's Python code, beside the package itself. */
export const adaptersFolder = "adapters";

const scriptFile = /\.[cm]?[jt]s$/;
/** A module of a Node adapter without an ending is looked for with these, in this order. */
const nodeModuleSuffixes = [".mjs", ".js", ".cjs", ".ts", "/index.mjs", "/index.js"];
const pythonModuleSuffixes = [".py", "/__init__.py"];

export interface PackageFiles {
  readonly manifestJson: JsonObject;
  /** Paths with slashes, relative to the package. */
  readonly names: ReadonlySet<string>;
  /** The content of requirements.txt; null: there is none. */
  readonly lock: string | null;
}

/** All at once; empty: the package can be installed as far as this can be known here. */
export function findPackageProblems({ manifestJson, names, lock }: PackageFiles): Fault[] {
  if (findManifestFaults(manifestJson, 1).length > 0) return findManifestProblems(manifestJson);
  const manifest = readManifest(manifestJson) as Manifest;
  return [...findMissingFiles(manifest, names), ...findPythonProblems(manifest, lock)];
}

const problemAt = (path: string, message: string) => fault("E.MANIFEST.INVALID", `${path} ${message}`, { path });

function* findMissingFiles(manifest: Manifest, names: ReadonlySet<string>): Generator<Fault> {
  for (const [index, adapter] of manifest.adapters.entries()) {
    const candidates = listEntrypointFiles(adapter, manifest);
    if (!candidates.some((candidate) => names.has(candidate)))
      yield problemAt(
        `manifest.adapters.${index}.entrypoint`,
        `is ${adapter.entrypoint}, but the package has none of ${candidates.join(", ")}`,
      );
  }
  for (const moment of ["install", "uninstall"] as const)
    for (const [index, hook] of manifest.hooks[moment].entries())
      if (!names.has(hook)) yield problemAt(`manifest.hooks.${moment}.${index}`, `is ${hook}, which the package does not have`);
  const lockfile = manifest.node?.lockfile;
  if (lockfile !== undefined && !names.has(lockfile))
    yield problemAt("manifest.node.lockfile", `is ${lockfile}, which the package does not have`);
}

function* findPythonProblems({ python }: Manifest, lock: string | null): Generator<Fault> {
  if (python === undefined) return;
  const range = readVersionRange(python.requires);
  if (typeof range === "string") yield problemAt("manifest.python.requires", `is not a range of versions: ${range}`);
  const dependencies = python.dependencies ?? [];
  const unreadable = dependencies.flatMap((dependency, index) => {
    const problem = findDependencyProblem(dependency);
    return problem === null ? [] : [problemAt(`manifest.python.dependencies.${index}`, problem)];
  });
  yield* unreadable;
  if (lock !== null && unreadable.length === 0) yield* findLockProblems(lock, dependencies);
  if (lock === null && dependencies.length > 0)
    yield problemAt("manifest.python.dependencies", `needs ${lockFileName} beside the manifest, which pins what is installed`);
}

/** The older manifests name a runtime, the newer ones only have a `node` or a `python` section; a script file speaks for itself. */
export function isNodeAdapter(adapter: Manifest["adapters"][number], manifest: Pick<Manifest, "node" | "python">): boolean {
  if (adapter.runtime === "node" || adapter.runtime === "python") return adapter.runtime === "node";
  if (manifest.node !== undefined && manifest.python === undefined) return true;
  return manifest.node !== undefined && /\.[cm]?[jt]s(:|$)/.test(adapter.entrypoint);
}

function listEntrypointFiles(adapter: Manifest["adapters"][number], manifest: Manifest): string[] {
  const [module = ""] = adapter.entrypoint.split(":");
  const path = module.replaceAll(".", "/");
  if (!isNodeAdapter(adapter, manifest)) {
    const names = pythonModuleSuffixes.map((suffix) => `${path}${suffix}`);
    return [...names.map((name) => `${adaptersFolder}/${name}`), ...names];
  }
  return scriptFile.test(module) ? [module.replace(/^\.\//, "")] : nodeModuleSuffixes.map((suffix) => `${path}${suffix}`);
}
