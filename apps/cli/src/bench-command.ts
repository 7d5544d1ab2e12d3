// `astra bench …`: the measurements, which live in the repository and not in an installation.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { usageFailure } from "./failure.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));

export async function runBench(words: readonly string[]): Promise<number> {
  const program = join(root, "bench", "main.ts");
  if (!existsSync(program)) throw usageFailure(`There are no measurements here (${program}); run this inside the repository.`);
  const child = spawn(process.execPath, [program, ...words], { cwd: root, stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => resolve(code ?? 1));
  });
}
