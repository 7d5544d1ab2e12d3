// The programs that run packages: one for Node, one for Python. Which of them an adapter needs, its manifest says.

import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { HostCommand } from "./spawn-host.ts";

export interface HostPrograms {
  /** The interpreter for packages without one of their own. */
  readonly python: string;
  /** What hosts see of the environment; never the worker's credentials. */
  readonly env: Readonly<Record<string, string>>;
  /** Heap limit of a Node host; absent: Node's own. */
  readonly nodeHeapMbMax?: number;
}

export type HostRuntime = "node" | "python";

const pythonMain = fileURLToPath(new URL("../../../../python/run_host.py", import.meta.url));
const nodeMain = fileURLToPath(new URL("./node-host-main.ts", import.meta.url));

export function hostCommand(runtime: HostRuntime, packageDir: string, programs: HostPrograms): HostCommand {
  const { env } = programs;
  if (runtime === "node") {
    const heap = programs.nodeHeapMbMax === undefined ? [] : [`--max-old-space-size=${programs.nodeHeapMbMax}`];
    return { file: process.execPath, args: ["--no-warnings", ...heap, nodeMain], env, cwd: packageDir };
  }
  // Isolated: neither variables nor the user's own packages decide which code a task runs.
  const args = ["-I", "-X", "utf8", pythonMain];
  return { file: findPython(packageDir, programs.python), args, env, cwd: packageDir };
}

/** Dependencies of a package are installed into an environment of its own. */
function findPython(packageDir: string, fallback: string): string {
  const own = path.join(packageDir, ".venv", "bin", "python");
  return existsSync(own) ? own : fallback;
}
