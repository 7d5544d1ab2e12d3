// From an adapter's entrypoint to callable handlers: which file it names, what that file exports. The only place that imports foreign code.

import { realpath, stat } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { type Fault, fault } from "@astraflow/protocol";
import type { Handler, Setup } from "./handler.ts";

const scriptFile = /\.[cm]?[jt]s$/;
/** A module path without an ending is tried with these, in this order. */
const endings = [".mjs", ".js", ".cjs", ".ts", "/index.mjs", "/index.js"];

/** An adapter's code once imported. */
export interface Adapter {
  /** The handler of this name, or undefined. */
  handler(name: string): Handler | undefined;
  /** What the module wants to be called with when it is loaded. */
  readonly setup?: Setup;
}

/** Imports `file`, `file:Export`, or a dotted module path, relative to the package. */
export async function importAdapter(packageDir: string, entrypoint: string): Promise<Adapter | Fault> {
  const [module = "", exportName] = entrypoint.split(":");
  const file = await findFile(packageDir, module);
  if (file === undefined) return fault("E.PKG.INVALID", `entrypoint ${entrypoint} names no file inside the package`);
  let exports: Record<string, unknown>;
  try {
    exports = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    return fault("E.PKG.INVALID", `entrypoint ${entrypoint} cannot be imported: ${reason}`, undefined, thrown);
  }
  const setup = setupOf(exports);
  if (exportName === undefined)
    return { handler: (name) => callable(exports, name) ?? callable(exports["default"], name), ...setup };
  const exported = exports[exportName];
  if (exported === undefined) return fault("E.PKG.INVALID", `entrypoint ${entrypoint} names an export that does not exist`);
  return { ...adapterOf(exported, exportName), ...setup };
}

/** `setup` belongs to the module, whatever of it the entrypoint names. */
function setupOf(exports: Record<string, unknown>): { setup?: Setup } {
  const { setup } = exports;
  return typeof setup === "function" ? { setup: setup as Setup } : {};
}

/** An export may be one handler, an object of handlers, or a class whose methods are handlers. */
function adapterOf(exported: unknown, exportName: string): Adapter {
  if (typeof exported !== "function") return { handler: (name) => callable(exported, name) };
  const methods: unknown = exported.prototype;
  let instance: unknown;
  return {
    handler(name) {
      if (callable(methods, name) !== undefined) {
        instance ??= Reflect.construct(exported, []);
        return callable(instance, name);
      }
      return callable(exported, name) ?? (name === exportName ? (exported as Handler) : undefined);
    },
  };
}

function callable(owner: unknown, name: string): Handler | undefined {
  if ((typeof owner !== "object" && typeof owner !== "function") || owner === null) return undefined;
  const member = (owner as Record<string, unknown>)[name];
  if (typeof member === "function" && name !== "constructor") return (context) => (member as Handler).call(owner, context);
  if (typeof member === "object" && member !== null && "run" in member && typeof member.run === "function") {
    const runner = member as { run: Handler };
    return (context) => runner.run(context);
  }
  return undefined;
}

async function findFile(packageDir: string, module: string): Promise<string | undefined> {
  const home = await realpath(packageDir);
  const candidates = scriptFile.test(module) ? [module] : endings.map((ending) => `${module.replaceAll(".", "/")}${ending}`);
  for (const candidate of candidates) {
    const file = await realFile(path.resolve(home, candidate));
    // A link may point anywhere: what counts is where the file really is.
    if (file?.startsWith(`${home}${path.sep}`)) return file;
  }
  return undefined;
}

/** Where the file really is, or undefined if there is none. */
async function realFile(file: string): Promise<string | undefined> {
  try {
    return (await stat(file)).isFile() ? await realpath(file) : undefined;
  } catch (thrown) {
    if (isAbsent(thrown)) return undefined;
    throw thrown;
  }
}

export function isAbsent(thrown: unknown): boolean {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
  return code === "ENOENT" || code === "ENOTDIR";
}
