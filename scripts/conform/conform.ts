// `npm run conform`: starts a scheduler and a worker, lets schemathesis compare the API with its OpenAPI document, and judges its
// report. Exit code 0: they agree; 1: they do not; 2: the comparison could not be made.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../repository-files.ts";
import { type Installation, startInstallation } from "./installation.ts";
import { expectedRefusals, leftOutOperations } from "./known-failures.ts";
import { createSampleData } from "./sample-data.ts";
import { type ComparisonOptions, writeToolConfiguration } from "./tool-configuration.ts";
import { judgeReport, type ToolReport } from "./verdict.ts";

const help = `npm run conform -- [flags]   compares a started scheduler with its OpenAPI document

  --seed N        of the generated requests (default 1)
  --examples N    generated requests for each operation and phase (default 10)
  --phases LIST   of examples, coverage, fuzzing, stateful (default all)
  --only REGEX    only operations whose path matches
`;
/** Several times what it takes on a busy machine; then it is ended, and the comparison has failed. */
const toolMsMax = 30 * 60_000;
const reportFolder = join(repositoryRoot, "var", "conform");
const defaults = { seed: 1, examples: 10, phases: ["examples", "coverage", "fuzzing", "stateful"] } as const;

function readFlags(words: readonly string[]): ComparisonOptions | null {
  const { values } = parseArgs({
    args: [...words],
    options: {
      seed: { type: "string" },
      examples: { type: "string" },
      phases: { type: "string" },
      only: { type: "string" },
      help: { type: "boolean" },
    },
  });
  if (values.help) return null;
  const count = (text: string | undefined, fallback: number) => {
    if (text !== undefined && !/^[0-9]{1,9}$/.test(text)) throw new Error(`${text} is not a whole number`);
    return text === undefined ? fallback : Number(text);
  };
  return {
    seed: count(values.seed, defaults.seed),
    examples: count(values.examples, defaults.examples),
    phases: values.phases?.split(",") ?? defaults.phases,
    ...(values.only !== undefined && { only: values.only }),
  };
}

async function compare(options: ComparisonOptions, installation: Installation): Promise<boolean> {
  const samples = await createSampleData(installation);
  const configFile = join(installation.folder, "schemathesis.toml");
  const { url, token, folder } = installation;
  const hooks = join(repositoryRoot, "scripts", "conform", "refusals.py");
  writeFileSync(configFile, writeToolConfiguration({ ...options, url, token, samples, hooks }));
  const refusalsFile = join(folder, "refusals.json");
  writeFileSync(refusalsFile, JSON.stringify(expectedRefusals));
  const seenFile = join(folder, "seen-refusals.txt");
  writeFileSync(seenFile, "");
  mkdirSync(reportFolder, { recursive: true });
  const reportFile = join(reportFolder, "report.json");
  const outputFile = join(reportFolder, "output.txt");
  await runTool(
    [
      "--config-file",
      configFile,
      "run",
      `${url}/api/v1/openapi.json`,
      "--no-color",
      "--report-json-path",
      reportFile,
      ...leftOutOperations.flatMap(({ operationId }) => ["--exclude-operation-id", operationId]),
      ...(options.only === undefined ? [] : ["--include-path-regex", options.only]),
    ],
    { cwd: folder, outputFile, env: { ASTRA_CONFORM_REFUSALS: refusalsFile, ASTRA_CONFORM_SEEN: seenFile } },
  );
  const seenRefusals = readFileSync(seenFile, "utf8").split("\n").filter(Boolean).map(Number);
  const log = installation.readLog();
  writeFileSync(join(reportFolder, "programs.log"), log);
  const isWholeRun =
    options.only === undefined &&
    options.seed === defaults.seed &&
    options.examples === defaults.examples &&
    options.phases === defaults.phases;
  const report = JSON.parse(readFileSync(reportFile, "utf8")) as ToolReport;
  const { isGood, lines } = judgeReport(report, {
    refusals: expectedRefusals,
    seenRefusals,
    isWholeRun,
  });
  for (const { operationId, reason } of leftOutOperations) console.log(`left out: ${operationId}: ${reason}`);
  for (const { error, operations = ["anywhere"], reason } of expectedRefusals)
    console.log(`expected: ${error} ${operations.join(", ")}: ${reason}`);
  for (const line of lines) console.log(line);
  console.log(`The whole output is in ${relative(repositoryRoot, outputFile)}.`);
  return isGood;
}

/** Of its exit codes 0 and 1 the report tells more. */
async function runTool(
  words: readonly string[],
  { cwd, outputFile, env }: { readonly cwd: string; readonly outputFile: string; readonly env: Record<string, string> },
): Promise<void> {
  const tools = process.env["ASTRA_PYTHON_TOOLS"] ?? join(repositoryRoot, "node_modules", ".cache", "python-tools");
  const program = join(tools, "bin", "schemathesis");
  if (!existsSync(program)) throw new Error("schemathesis is not installed; run npm run conform, which installs it");
  const child = spawn(program, words, { cwd, stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  const output = createWriteStream(outputFile);
  child.stdout.pipe(output, { end: false });
  child.stderr.pipe(output, { end: false });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => child.kill(signal));
  const timer = setTimeout(() => child.kill("SIGKILL"), toolMsMax);
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  output.end();
  await once(output, "finish");
  if (code !== 0 && code !== 1)
    throw new Error(
      `schemathesis ${code === null ? "was ended" : `ended with ${code}`}:\n${readFileSync(outputFile, "utf8").slice(-4_000)}`,
    );
}

async function main(): Promise<number> {
  const options = readFlags(process.argv.slice(2));
  if (options === null) {
    console.log(help);
    return 0;
  }
  const installation = await startInstallation();
  try {
    return (await compare(options, installation)) ? 0 : 1;
  } finally {
    await installation.end();
  }
}

try {
  process.exitCode = await main();
} catch (cause) {
  console.error(`conform: ${cause instanceof Error ? cause.message : String(cause)}`);
  process.exitCode = 2;
}
