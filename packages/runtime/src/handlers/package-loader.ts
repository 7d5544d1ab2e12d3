// The packages of a worker: found on disk, read, imported, offered. A bad one is reported and left out; it never stops the others.
// This is the only place that imports foreign code.

import { readdir, readFile, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { findManifestProblems } from "@astraflow/archive";
import {
  errorMessage,
  Fault,
  fault,
  isRecord,
  isSecretType,
  type JsonObject,
  limits,
  type Manifest,
  type RegisterPayload,
  readJson,
  readManifest,
} from "@astraflow/protocol";
import { HandlerRegistry, type NodeHandler, type PackageSetup, type RegisteredHandler } from "./handler.ts";
import { VendorFrameHub } from "./vendor-frames.ts";

/** One package without its code. */
interface LoadedPackage {
  readonly name: string;
  readonly version: string;
  readonly dir: string;
  /** The manifest as it was written: the register frame carries it. */
  readonly manifestJson: JsonObject;
  readonly nodeTypes: readonly string[];
}

/** A package that is not offered, or a node of it that cannot be run, and why. */
interface PackageProblem {
  readonly dir: string;
  readonly code: string;
  readonly message: string;
}

export interface LoadedPackagesSummary {
  readonly packages: readonly LoadedPackage[];
  readonly problems: readonly PackageProblem[];
}

export interface LoadedPackages extends LoadedPackagesSummary {
  readonly handlers: HandlerRegistry;
  /** Where the packages listen to vendors' frames; absent where none of them can. */
  readonly vendorFrames?: VendorFrameHub;
}

/** How long a `setup` may take before its handlers are offered without it having ended. */
const setupTimeoutMs = 10_000;
const manifestName = "manifest.json";
const scriptFilePattern = /\.[cm]?[jt]s$/;
/** A module path without an ending is tried with these, in this order. */
const moduleSuffixes = [".mjs", ".js", ".cjs", ".ts", "/index.mjs", "/index.js"];

/** Loads `<root>/<name>/<version>/manifest.json` and `<root>/<name>/manifest.json`. Names come from the manifests. */
export async function loadPackages(root: string): Promise<LoadedPackages> {
  const packages: LoadedPackage[] = [];
  const problems: PackageProblem[] = [];
  const handlers = new HandlerRegistry();
  const vendorFrames = new VendorFrameHub();
  for (const dir of await findPackageDirs(root)) {
    const report = ({ code, message }: Fault) => problems.push({ dir, code, message });
    const manifestJson = await readManifestFile(path.join(dir, manifestName));
    const manifest = manifestJson instanceof Fault ? manifestJson : readManifest(manifestJson);
    if (manifestJson instanceof Fault || manifest instanceof Fault) {
      for (const problem of manifestJson instanceof Fault ? [manifestJson] : findManifestProblems(manifestJson)) report(problem);
      continue;
    }
    const { name, version } = manifest;
    const loaded = await loadHandlers(dir, manifest, vendorFrames);
    const twin = packages.find((one) => one.name === name && one.version === version);
    if (loaded.handlers.size === 0) {
      const none = fault("E.PKG.INVALID", `package ${name} ${version} has no adapter for Node`);
      for (const problem of loaded.problems.length > 0 ? loaded.problems : [none]) report(problem);
    } else if (twin !== undefined) report(fault("E.PKG.INVALID", `${name} ${version} is already loaded from ${twin.dir}`));
    else {
      // Nodes without a handler are problems of a package that is otherwise fine.
      for (const problem of loaded.problems) report(problem);
      packages.push({ name, version, dir, manifestJson, nodeTypes: [...loaded.handlers.keys()] });
      for (const [nodeType, handler] of loaded.handlers)
        handlers.add({ packageName: name, packageVersion: version, nodeType }, handler);
    }
  }
  return { packages, problems, handlers, vendorFrames };
}

export function describePackagesForRegister({
  packages,
}: LoadedPackagesSummary): Required<Pick<RegisterPayload, "packages" | "manifests">> {
  return {
    packages: packages.map(({ name, version }) => ({ name, version, status: "installed" })),
    manifests: packages.map(({ name, version, manifestJson }) => ({ name, version, manifest: manifestJson })),
  };
}

async function loadHandlers(
  dir: string,
  manifest: Manifest,
  vendorFrames: VendorFrameHub,
): Promise<{ handlers: Map<string, RegisteredHandler>; problems: Fault[] }> {
  const handlers = new Map<string, RegisteredHandler>();
  const problems: Fault[] = [];
  const setups = new Set<PackageSetup>();
  // As the frames of a stack name it.
  const packageDir = await realpath(dir);
  const needs = manifest.requirements.resources.filter(({ type }) => !isSecretType(type));
  const nonSecretKeys = new Set(needs.map(({ key }) => key));
  for (const adapter of manifest.adapters.filter((one) => isForNode(one, manifest))) {
    const imported = await importAdapter(dir, adapter.entrypoint);
    if (imported instanceof Fault) {
      problems.push(imported);
      continue;
    }
    // Containers are listed for editors and carried out by the scheduler.
    const nodes = manifest.nodes.filter((one) => one.adapter === adapter.name && one.role !== "container");
    // A node may have called its handler `setup` before that name had a meaning.
    const setup = nodes.some((one) => one.handler === "setup") ? undefined : imported.setup;
    if (setup !== undefined && !setups.has(setup)) {
      setups.add(setup);
      const failed = await runSetup(setup, manifest, vendorFrames, adapter.entrypoint);
      if (failed !== null) {
        problems.push(failed);
        continue;
      }
    }
    for (const node of nodes) {
      const handler = imported.findHandler(node.handler);
      if (handler !== undefined) handlers.set(node.type, { handler, config: node.config, packageDir, nonSecretKeys });
      else
        problems.push(
          fault("E.PKG.INVALID", `${node.type} names handler ${node.handler}, which ${adapter.entrypoint} does not export`),
        );
    }
  }
  return { handlers, problems };
}

/** Gives why the package cannot work without it. One that takes too long goes on by itself. */
async function runSetup(
  setup: PackageSetup,
  manifest: Manifest,
  vendorFrames: VendorFrameHub,
  entrypoint: string,
): Promise<Fault | null> {
  const { name: packageName, version: packageVersion } = manifest;
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, setupTimeoutMs);
  try {
    await Promise.race([setup({ packageName, packageVersion, ext: vendorFrames.handlerApi }), late.promise]);
    return null;
  } catch (thrown) {
    return fault("E.PKG.INVALID", `setup of ${entrypoint} failed: ${errorMessage(thrown)}`, undefined, thrown);
  } finally {
    clearTimeout(timer);
  }
}

/** The older manifests name a runtime, the newer ones only have a `node` or a `python` section; a script file speaks for itself. */
function isForNode(adapter: Manifest["adapters"][number], manifest: Manifest): boolean {
  if (adapter.runtime === "node" || adapter.runtime === "python") return adapter.runtime === "node";
  if (manifest.node !== undefined && manifest.python === undefined) return true;
  return manifest.node !== undefined && /\.[cm]?[jt]s(:|$)/.test(adapter.entrypoint);
}

async function readManifestFile(file: string): Promise<JsonObject | Fault> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(file);
  } catch (thrown) {
    return fault("E.MANIFEST.INVALID", `${manifestName} cannot be read`, undefined, thrown);
  }
  const value = readJson(bytes, limits.json.manifest);
  if (value instanceof Fault) return value;
  return isRecord(value) ? value : fault("E.MANIFEST.INVALID", `${manifestName} must hold an object`);
}

/** Directories with a manifest, one or two levels below the root, in the order of their names. A missing root holds none. */
async function findPackageDirs(root: string): Promise<string[]> {
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

interface ImportedAdapter {
  findHandler(name: string): NodeHandler | undefined;
  /** What the module wants to be called with when it is loaded. */
  readonly setup?: PackageSetup;
}

/** Imports `file`, `file:Export`, or a dotted module path, relative to the package. */
async function importAdapter(packageDir: string, entrypoint: string): Promise<ImportedAdapter | Fault> {
  const [module = "", exportName] = entrypoint.split(":");
  const file = await resolveModuleFile(packageDir, module);
  if (file === undefined) return fault("E.PKG.INVALID", `entrypoint ${entrypoint} does not point to a file inside the package`);
  let exports: Record<string, unknown>;
  try {
    exports = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (thrown) {
    return fault("E.PKG.INVALID", `entrypoint ${entrypoint} cannot be imported: ${errorMessage(thrown)}`, undefined, thrown);
  }
  const setup = readSetup(exports);
  if (exportName === undefined)
    return { findHandler: (name) => findCallable(exports, name) ?? findCallable(exports["default"], name), ...setup };
  const exported = exports[exportName];
  if (exported === undefined) return fault("E.PKG.INVALID", `entrypoint ${entrypoint} names an that does not exist`);
  return { ...toAdapter(exported, exportName), ...setup };
}

/** `setup` belongs to the module, whatever of it the entrypoint names. */
function readSetup(exports: Record<string, unknown>): { setup?: PackageSetup } {
  const { setup } = exports;
  return typeof setup === "function" ? { setup: setup as PackageSetup } : {};
}

/** An may be one handler, an object of handlers, or a class whose methods are handlers. */
function toAdapter(exported: unknown, exportName: string): ImportedAdapter {
  if (typeof exported !== "function") return { findHandler: (name) => findCallable(exported, name) };
  const methods: unknown = exported.prototype;
  let instance: unknown;
  return {
    findHandler(name) {
      if (findCallable(methods, name) !== undefined) {
        instance ??= Reflect.construct(exported, []);
        return findCallable(instance, name);
      }
      return findCallable(exported, name) ?? (name === exportName ? (exported as NodeHandler) : undefined);
    },
  };
}

function findCallable(owner: unknown, name: string): NodeHandler | undefined {
  if ((typeof owner !== "object" && typeof owner !== "function") || owner === null) return undefined;
  const member = (owner as Record<string, unknown>)[name];
  if (typeof member === "function" && name !== "constructor") return (context) => (member as NodeHandler).call(owner, context);
  if (typeof member === "object" && member !== null && "run" in member && typeof member.run === "function") {
    const runner = member as { run: NodeHandler };
    return (context) => runner.run(context);
  }
  return undefined;
}

async function resolveModuleFile(packageDir: string, module: string): Promise<string | undefined> {
  const home = await realpath(packageDir);
  const candidates = scriptFilePattern.test(module)
    ? [module]
    : moduleSuffixes.map((ending) => `${module.replaceAll(".", "/")}${ending}`);
  for (const candidate of candidates) {
    const file = await resolveRealFile(path.resolve(home, candidate));
    // A link may point anywhere: what counts is where the file really is.
    if (file?.startsWith(`${home}${path.sep}`)) return file;
  }
  return undefined;
}

async function resolveRealFile(file: string): Promise<string | undefined> {
  try {
    return (await stat(file)).isFile() ? await realpath(file) : undefined;
  } catch (thrown) {
    if (isFileMissing(thrown)) return undefined;
    throw thrown;
  }
}

function isFileMissing(thrown: unknown): boolean {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  return code === "ENOENT" || code === "ENOTDIR";
}
