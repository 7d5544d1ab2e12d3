// Install and uninstall hooks: scripts of a package that run on the worker's machine. Refused unless a setting allows them for the package;
// then without the worker's environment and secrets, limited in time, memory, processes and file size, and without a network where the
// system permits that.

import path from "node:path";
import { matchesPackage } from "@astraflow/archive";
import { fault, type Manifest } from "@astraflow/protocol";
import type { ToolContext } from "./dependencies.ts";
import type { InstallSettings } from "./install-settings.ts";
import { describeFailure, type ProcessRequest, runProcess } from "./limited-process.ts";

export type HookMoment = "install" | "uninstall";

/** What held a hook back, for the event and the log. */
export interface HookSandbox {
  readonly network: "none" | "open";
  readonly limits: "prlimit" | "none";
  readonly env: "empty";
}

/** All that a hook sees of the environment. */
const hookPath = "/usr/local/bin:/usr/bin:/bin";

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
  const sandbox = await detectSandbox(context.folder);
  for (const script of hooks[moment]) {
    const failure = describeFailure(`hook ${script}`, await runProcess(buildCommand(script, sandbox, context)));
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
  if (sandbox.network === "none") words.unshift(...networkless);
  const [command = "", ...args] = words;
  const env = { PATH: hookPath, HOME: folder, TMPDIR: folder, LANG: "C.UTF-8" };
  return { command, args, cwd: folder, env, timeMsMax: limits.hookMsMax, ...(groups && { groups }) };
}

/** A network without any device but a loopback that is down; in a user namespace of its own where the worker is not root. */
const networkless = ["unshare", "--net", ...(process.getuid?.() === 0 ? [] : ["--map-current-user"])];

/** Tried out, because containers and kernels differ in what they permit. */
async function detectSandbox(cwd: string): Promise<HookSandbox> {
  const works = async ([command = "", ...args]: readonly string[]) => {
    const end = await runProcess({ command, args: [...args, "true"], cwd, env: { PATH: hookPath }, timeMsMax: 10_000 });
    return end.of === "exited" && end.code === 0;
  };
  return {
    network: (await works(networkless)) ? "none" : "open",
    limits: (await works(["prlimit", "--core=0"])) ? "prlimit" : "none",
    env: "empty",
  };
}
