// `astra bench …`: the measurements, which live in the repository and not in an installation.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { usageFailure } from "./failure.ts";
import type { Terminal } from "./terminal.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));

export interface BenchPlace {
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly quiet: boolean;
}

export async function runBench(words: readonly string[], { terminal, json, quiet }: BenchPlace): Promise<number> {
  const program = join(root, "bench", "main.ts");
  if (!existsSync(program)) throw usageFailure(`There are no measurements here (${program}); run this inside the repository.`);
  const begun = performance.now();
  // A bench that knows --json prints its figures as one line of JSON; of the others the lines are handed on.
  const child = spawn(process.execPath, [program, ...words, ...(json ? ["--json"] : [])], {
    cwd: root,
    stdio: ["inherit", json ? "pipe" : "inherit", quiet ? "ignore" : "inherit"],
  });
  const lines: string[] = [];
  const reading = child.stdout === null ? null : readLines(child.stdout, lines);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  const code = await new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (end) => resolve(end ?? 1));
  });
  await reading;
  if (json)
    terminal.print(
      JSON.stringify(benchDocument(words, lines, { exitCode: code, tookMs: Math.round(performance.now() - begun) })),
    );
  return code;
}

async function readLines(stream: NodeJS.ReadableStream, lines: string[]): Promise<void> {
  for await (const line of createInterface({ input: stream })) lines.push(line);
}

/** What --json prints: the figures where the bench gives them as data, and the lines it wrote for people. */
export function benchDocument(
  words: readonly string[],
  lines: readonly string[],
  end: { exitCode: number; tookMs: number },
): object {
  const data = lines.map(readObject);
  const figures = data.findLast((one) => one !== null) ?? null;
  return {
    bench: words[0] ?? null,
    words: words.slice(1),
    node: process.version,
    ...end,
    figures,
    lines: lines.filter((_, at) => data[at] === null),
  };
}

function readObject(line: string): object | null {
  if (!line.startsWith("{")) return null;
  try {
    return JSON.parse(line) as object;
  } catch {
    // A line for people that begins with a brace.
    return null;
  }
}
