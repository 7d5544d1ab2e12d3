// Install and uninstall hooks: scripts of a package that run on the worker's machine. Refused unless a setting allows them for the package;
// then without the worker's environment and secrets, limited in time, memory, processes and file size, and in the sandbox that the system
// permits.

import { realpath } from "node:fs/promises";
import path from "node:path";
import { matchesPackage } from "@astraflow/archive";
import { fault, type Manifest } from "@astraflow/protocol";
import type { ToolContext } from "./dependencies.ts";
import { detectSandbox, enterSandbox, type HookSandbox, hookPath } from "./hook-sandbox.ts";
import type { InstallSettings } from "./install-settings.ts";
import { describeFailure, type ProcessRequest, runProcess } from "./limited-process.ts";

export type HookMoment = "install" | "uninstall";

export function mayRunHooks(name: string, { hookPackages }: InstallSettings): boolean {
  return matchesPackage(hookPackages, name);
}

/** Before anything of the package is unpacked: its hooks are not allowed here. */
export function checkHooksAllowed(manifest: Manifest, settings: InstallSettings): void {
  const { name, version, hooks } = manifest;
  if (hooks.install.length === 0 || mayRunHooks(name, settings)) return;
  throw fault(
    "E.PKG.PERMISSION",
    `${name} ${version} has install hooks (${hooks.install.join(", ")}), which this worker does not run; allow hooks of ${name} to install it`,
  );
}

/** One after the other; the first that fails ends it with E.PKG.PERMISSION. Null: there was none. */
export async function runHooks(moment: HookMoment, manifest: Manifest, context: ToolContext): Promise<HookSandbox | null> {
  const { name, version, hooks } = manifest;
  if (hooks[moment].length === 0) return null;
  // As the system knows it: a link to it may lie in what is hidden.
  const folder = await realpath(context.folder);
  const sandbox = await detectSandbox(folder, context.settings.hiddenPaths);
  for (const script of hooks[moment]) {
    const failure = describeFailure(`hook ${script}`, await runProcess(buildCommand(script, sandbox, { ...context, folder })));
    if (failure !== null) throw fault("E.PKG.PERMISSION", `the ${moment} of ${name} ${version} failed: ${failure}`, { sandbox });
  }
  return sandbox;
}

function buildCommand(script: string, sandbox: HookSandbox, { folder, settings, groups }: ToolContext): ProcessRequest {
  const { limits } = settings;
  const words = ["/bin/sh", path.join(folder, script)];
  if (sandbox.limits === "prlimit") {
    const seconds = Math.ceil(limits.hookMsMax / 1_000);
    const sizes = [`--as=${limits.hookMemoryBytesMax}`, `--fsize=${limits.hookFileBytesMax}`];
    words.unshift("prlimit", ...sizes, `--nproc=${limits.hookProcessesMax}`, `--cpu=${seconds}`, "--core=0");
  }
  words.unshift(...enterSandbox(sandbox, folder, settings.hiddenPaths));
  const [command = "", ...args] = words;
  const env = { PATH: hookPath, HOME: folder, TMPDIR: folder, LANG: "C.UTF-8" };
  return { command, args, cwd: folder, env, timeMsMax: limits.hookMsMax, ...(groups && { groups }) };
}
