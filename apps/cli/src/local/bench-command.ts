// `astra bench …`: runs a benchmark of the repository; an installation has none.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { usageFailure } from "../output/cli-failure.ts";
import type { Terminal } from "../output/terminal.ts";

const repositoryRoot = fileURLToPath(new URL("../../../../", import.meta.url));

export interface BenchContext {
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly quiet: boolean;
}

export async function runBench(args: readonly string[], { terminal, json, quiet }: BenchContext): Promise<number> {
  const program = join(repositoryRoot, "bench", "main.ts");
  if (!existsSync(program)) throw usageFailure(`${program} does not exist; benchmarks run only inside the repository.`);
  const startedAt = performance.now();
  // A benchmark that supports --json prints its figures as one line of JSON; of others the lines are returned.
  const child = spawn(process.execPath, [program, ...args, ...(json ? ["--json"] : [])], {
    cwd: repositoryRoot,
    stdio: ["inherit", json ? "pipe" : "inherit", quiet ? "ignore" : "inherit"],
  });
  const lines: string[] = [];
  const reading = child.stdout === null ? null : collectLines(child.stdout, lines);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  const code = await new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (end) => resolve(end ?? 1));
  });
  await reading;
  if (json)
    terminal.print(
      JSON.stringify(formatBenchResult(args, lines, { exitCode: code, tookMs: Math.round(performance.now() - startedAt) })),
    );
  return code;
}

async function collectLines(stream: NodeJS.ReadableStream, lines: string[]): Promise<void> {
  for await (const line of createInterface({ input: stream })) lines.push(line);
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
