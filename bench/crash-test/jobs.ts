// The jobs of the crash test: runs whose last value is known beforehand, and the package that runs them. Every handler writes into its worker's own
// journal when it starts and ends, so what was executed is known independently of the scheduler.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunStartRequest } from "@astraflow/protocol";

/** Tasks of one run, whatever its shape, so that a number of tasks is a number of runs. */
export const tasksPerRun = 10;
/** A handler takes up to so long: enough that kills fall into the middle of work. */
const handlerMsMax = 20;
/** Where a worker finds the name of its journal. */
export const journalVariable = "LEDGER_JOURNAL";

export interface CrashTestJob {
  /** Its Idempotency-Key. */
  readonly key: string;
  readonly body: RunStartRequest;
  /** What the last node must answer: the number of ways from the first node to it, each counted with its length. */
  readonly value: number;
}

/** Chains and fans in turn; those of a later wave have other keys. */
export function createJobs(tasks: number, wave = 0): CrashTestJob[] {
  const runs = Math.ceil(tasks / tasksPerRun);
  return Array.from({ length: runs }, (_, one) => {
    const at = wave * runs + one;
    return at % 2 === 0 ? createChainJob(at) : createFanOutJob(at);
  });
}

type WorkflowBody = NonNullable<RunStartRequest["workflow"]>;

function createChainJob(at: number): CrashTestJob {
  const edges = Array.from({ length: tasksPerRun - 1 }, (_, from) => [from, from + 1] as const);
  return createJob(at, edges, tasksPerRun);
}

/** One, then all but two side by side, then one that waits for all of them. */
function createFanOutJob(at: number): CrashTestJob {
  const last = tasksPerRun - 1;
  const middle = Array.from({ length: last - 1 }, (_, one) => one + 1);
  return createJob(
    at,
    [...middle.map((to) => [0, to] as const), ...middle.map((from) => [from, last] as const)],
    1 + 2 * (last - 1),
  );
}

function createJob(at: number, edges: readonly (readonly [number, number])[], value: number): CrashTestJob {
  const idOf = (node: number) => `1ed9e400-0000-4000-8000-${(at * 16 + node).toString(16).padStart(12, "0")}`;
  const port = (root: string, key: string) => ({ key, label: key, binding: { path: `${root}.${key}` } });
  const nodes: WorkflowBody["nodes"] = Array.from({ length: tasksPerRun }, (_, node) => ({
    id: idOf(node),
    type: "ledger.step",
    package: { name: "ledger", version: "1.0.0" },
    label: `step ${node}`,
    position: { x: node * 100, y: 0 },
    parameters: { pauseMs: (at * 7 + node * 3) % handlerMsMax },
    ui: {
      inputPorts: edges.filter(([, to]) => to === node).map(([from]) => port("parameters", `in${from}`)),
      outputPorts: [port("results", "value")],
    },
  }));
  const workflow: WorkflowBody = {
    id: idOf(15),
    schemaVersion: "2025-10",
    metadata: { name: `ledger ${at}` },
    nodes,
    edges: edges.map(([from, to], edge) => ({
      id: `e${edge}`,
      source: { node: idOf(from), port: "value" },
      target: { node: idOf(to), port: `in${from}` },
    })),
  };
  return { key: `ledger-${at}`, body: { workflow, clientId: "ledger" }, value };
}

const handlerSource = `import { appendFileSync } from "node:fs";

const note = (what, { taskId, attempt }) =>
  appendFileSync(process.env.${journalVariable}, JSON.stringify({ what, task: taskId, attempt }) + "\\n");

export async function step(ctx) {
  note("start", ctx);
  await new Promise((resolve) => setTimeout(resolve, ctx.params.pauseMs));
  if (ctx.signal.aborted) {
    note("stop", ctx);
    throw ctx.signal.reason;
  }
  const inputs = Object.entries(ctx.params).filter(([key]) => key.startsWith("in"));
  note("end", ctx);
  return { value: 1 + inputs.reduce((sum, [, value]) => sum + value, 0) };
}
`;

/** Writes the package into a folder of packages; answers that folder. */
export function writeTestPackage(folder: string): string {
  const home = join(folder, "packages", "ledger", "1.0.0");
  mkdirSync(home, { recursive: true });
  const node = { type: "ledger.step", role: "node", status: "published", category: "Tests", label: "Step" };
  const manifest = {
    schemaVersion: "1.0.0",
    name: "ledger",
    version: "1.0.0",
    description: "Steps that write down when they are executed.",
    node: { requires: ">=22" },
    adapters: [{ name: "ledger", runtime: "node", entrypoint: "adapter.mjs", capabilities: ["ledger.step"] }],
    nodes: [
      {
        ...node,
        adapter: "ledger",
        handler: "step",
        schema: { parameters: { type: "object" }, results: { type: "object" } },
        ui: { inputPorts: [], outputPorts: [], widgets: [] },
      },
    ],
  };
  writeFileSync(join(home, "manifest.json"), JSON.stringify(manifest));
  writeFileSync(join(home, "adapter.mjs"), handlerSource);
  return join(folder, "packages");
}

/** Where a worker's handlers write, as a setting of its process. */
export function journalEnvironment(folder: string, worker: string): Record<string, string> {
  mkdirSync(join(folder, "journals"), { recursive: true });
  return { [journalVariable]: join(folder, "journals", `${worker}.jsonl`) };
}

export interface JournalEntry {
  readonly what: "start" | "stop" | "end";
  readonly task: string;
  readonly attempt: number;
}

/** All that the workers wrote so far; a line that is being written is left for the next look. */
export function readJournals(folder: string): JournalEntry[] {
  return readdirSync(join(folder, "journals")).flatMap((file) =>
    readFileSync(join(folder, "journals", file), "utf8")
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as JournalEntry),
  );
}
