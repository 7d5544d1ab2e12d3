// Imports the modules of a package that runs in this thread, and finds the handlers in them. This is the only place that imports foreign code.

import { realpath, stat } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { errorMessage, type Fault, fault } from "@astraflow/protocol";
import type { NodeHandler, PackageSetup } from "@astraflow/sdk";

const handlersListedMax = 20;
const scriptFilePattern = /\.[cm]?[jt]s$/;
/** A module path without an ending is tried with these, in this order. */
const moduleSuffixes = [".mjs", ".js", ".cjs", ".ts", "/index.mjs", "/index.js"];

interface ImportedAdapter {
  findHandler(name: string): NodeHandler | undefined;
  /** The names of what could be handlers, for a message. */
  listHandlers(): string;
  /** What the module wants to be called with when it is loaded. */
  readonly setup?: PackageSetup;
}

/** Imports `file`, `file:Export`, or a dotted module path, relative to the package. */
export async function importAdapter(packageDir: string, entrypoint: string): Promise<ImportedAdapter | Fault> {
  const [module = "", exportName] = entrypoint.split(":");
  const file = await resolveModuleFile(packageDir, module);
  if (file === undefined) return fault("E.PKG.INVALID", `entrypoint ${entrypoint} does not point to a file inside the package`);
  let exports: Record<string, unknown>;
  try {
    exports = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (thrown) {
    // Node does not say where a syntax error is when it imports a module.
    const hint = thrown instanceof SyntaxError ? `; node --check ${file} shows the line` : "";
    return fault(
      "E.PKG.INVALID",
      `entrypoint ${entrypoint} cannot be imported: ${errorMessage(thrown)}${hint}`,
      undefined,
      thrown,
    );
  }
  const setup = readSetup(exports);
  if (exportName === undefined)
    return {
      findHandler: (name) => findCallable(exports, name) ?? findCallable(exports["default"], name),
      listHandlers: () => listCallables([exports, exports["default"]]),
      ...setup,
    };
  const exported = exports[exportName];
  if (exported === undefined) return fault("E.PKG.INVALID", `entrypoint ${entrypoint} names an export that does not exist`);
  return { ...toAdapter(exported, exportName), ...setup };
}

/** `setup` belongs to the module, whatever of it the entrypoint names. */
function readSetup(exports: Record<string, unknown>): { setup?: PackageSetup } {
  const { setup } = exports;
  return typeof setup === "function" ? { setup: setup as PackageSetup } : {};
}

/** An export may be one handler, an object of handlers, or a class whose methods are handlers. */
function toAdapter(exported: unknown, exportName: string): ImportedAdapter {
  if (typeof exported !== "function")
    return { findHandler: (name) => findCallable(exported, name), listHandlers: () => listCallables([exported]) };
  const methods: unknown = exported.prototype;
  let instance: unknown;
  return {
    listHandlers: () => listCallables([methods, exported]),
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

function listCallables(owners: readonly unknown[]): string {
  const names = owners.flatMap((owner) =>
    (typeof owner === "object" || typeof owner === "function") && owner !== null
      ? Object.getOwnPropertyNames(owner).filter((name) => findCallable(owner, name) !== undefined)
      : [],
  );
  return names.length === 0 ? "no function" : [...new Set(names)].slice(0, handlersListedMax).join(", ");
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

export function isFileMissing(thrown: unknown): boolean {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  return code === "ENOENT" || code === "ENOTDIR";
}
