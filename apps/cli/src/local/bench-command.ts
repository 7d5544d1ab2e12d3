// `astra bench …`: runs a benchmark of the repository; an installation has none.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { CommandContext } from "../api/command-context.ts";
import { usageFailure } from "../output/cli-failure.ts";

const repositoryRoot = fileURLToPath(new URL("../../../../", import.meta.url));

export async function runBench(
  { terminal, json }: Pick<CommandContext, "terminal" | "json">,
  { args, quiet }: { readonly args: readonly string[]; readonly quiet?: boolean },
): Promise<number> {
  const program = join(repositoryRoot, "bench", "main.ts");
  if (!existsSync(program)) throw usageFailure(`${program} does not exist; benchmarks run only inside the repository.`);
  const startedAt = performance.now();
  // A benchmark that supports --json prints its figures as one line of JSON; of others the lines are returned.
  const child = spawn(process.execPath, [program, ...args, ...(json ? ["--json"] : [])], {
    cwd: repositoryRoot,
    stdio: ["inherit", json ? "pipe" : "inherit", quiet ? "ignore" : "inherit"],
  });
  const lines: string[] = [];
  if (child.stdout) createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  // Also after its output has ended; rejects if it cannot be started.
  const [end] = (await once(child, "close")) as [number | null];
  const result = { exitCode: end ?? 1, tookMs: Math.round(performance.now() - startedAt) };
  if (json) terminal.print(JSON.stringify(formatBenchResult(args, lines, result)));
  return result.exitCode;
}

/** What --json prints: the figures, if the benchmark prints them as JSON, and its other lines. */
export function formatBenchResult(
  args: readonly string[],
  lines: readonly string[],
  result: { exitCode: number; tookMs: number },
): object {
  const data = lines.map(parseJsonObject);
  const figures = data.findLast((one) => one !== null) ?? null;
  return {
    bench: args[0] ?? null,
    words: args.slice(1),
    node: process.version,
    ...result,
    figures,
    lines: lines.filter((_, at) => data[at] === null),
  };
}

function parseJsonObject(line: string): object | null {
  if (!line.startsWith("{")) return null;
  try {
    return JSON.parse(line) as object;
  } catch {
    // A line of text that begins with a brace.
    return null;
  }
}
