// Stand-ins for other vendors' workers as child processes of a test: started with a journal of their own, waited for by their output lines,
// ended by their own pid; and the workflows made for them. No test lives here.

import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Workflow } from "@astraflow/protocol";
import { afterEach, expect } from "vitest";
import { type JournalEntry, journalEnvironment, readJournals } from "../../../bench/crash-test/jobs.ts";
import type { SchedulerApi } from "../harness/installation.ts";
import { makeTemporaryFolder, type ProcessExit, pollUntil } from "../harness/processes.ts";
import type { StandInLine } from "./first-worker.ts";

const programs = {
  first: fileURLToPath(new URL("./first-worker.ts", import.meta.url)),
  v1: fileURLToPath(new URL("./v1-worker.ts", import.meta.url)),
};

export interface StandInOptions {
  readonly dialect?: keyof typeof programs;
  /** Name and identity in one. */
  readonly name?: string;
  readonly slots?: number;
  /** Its manifests differ from those of other stand-ins of the same versions: they require nothing. */
  readonly isLenient?: boolean;
  readonly token?: string;
  readonly tenant?: string;
  /** Between two heartbeats; the real ones' 30 to 35 s otherwise. */
  readonly beatMs?: number;
  /** Where the journals lie; one for all lives that a test wants to count together. */
  readonly folder?: string;
}

type StandInLineOf<S extends StandInLine["event"]> = Extract<StandInLine, { event: S }>;

export interface StandIn {
  readonly folder: string;
  readonly ended: Promise<ProcessExit>;
  lines<S extends StandInLine["event"]>(event: S): StandInLineOf<S>[];
  /** The nth line of that kind, from 1. */
  waitForLine<S extends StandInLine["event"]>(event: S, nth?: number): Promise<StandInLineOf<S>>;
  /** Frames that it could not read; there must be none. */
  droppedFrames(): string[];
  kill(signal: NodeJS.Signals): void;
}

const children = new Set<ChildProcess>();

afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
});

export function spawnStandIn(ws: string, options: StandInOptions = {}): StandIn {
  const { dialect = "first", name = "old-1", folder = makeTemporaryFolder(), beatMs } = options;
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith("ASTRA_") && !key.startsWith("VITEST"));
  const env = {
    ...Object.fromEntries(inherited),
    ...journalEnvironment(folder, name),
    ASTRA_WORKER_SCHEDULER_WS_URL: ws,
    ASTRA_WORKER_TENANT: options.tenant ?? "default",
    ASTRA_WORKER_AUTH_TOKEN: options.token ?? "dev-token",
    ASTRA_WORKER_WORKER_NAME: name,
    ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL: String(options.slots ?? 8),
    ...(options.isLenient === true && { ASTRA_WORKER_LENIENT_MANIFESTS: "yes" }),
    ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1",
    ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2",
    ...(beatMs !== undefined && {
      ASTRA_WORKER_HEARTBEAT_INTERVAL_SECONDS: String(beatMs / 1_000),
      ASTRA_WORKER_HEARTBEAT_JITTER_SECONDS: "0",
    }),
  };
  const child = spawn(process.execPath, [programs[dialect]], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  const printed: StandInLine[] = [];
  let problems = "";
  createInterface({ input: child.stdout }).on("line", (line) => printed.push(JSON.parse(line) as StandInLine));
  child.stderr.on("data", (bytes: Buffer) => {
    problems += String(bytes);
  });
  const ended = new Promise<ProcessExit>((resolve) => {
    child.on("close", (code, signal) => {
      children.delete(child);
      resolve({ code, signal });
    });
  });
  const lines = <S extends StandInLine["event"]>(what: S): StandInLineOf<S>[] =>
    printed.filter((line): line is StandInLineOf<S> => line.event === what);
  return {
    folder,
    ended,
    lines,
    waitForLine: (what, nth = 1) =>
      pollUntil(`line ${nth} "${what}" of ${name}`, async () => lines(what)[nth - 1]).catch((cause: unknown) => {
        throw new Error(`${name} printed ${JSON.stringify(printed)}\n${problems}`, { cause });
      }),
    droppedFrames: () => problems.split("\n").filter((line) => line.startsWith("dropped:")),
    kill: (signal) => void child.kill(signal),
  };
}

export async function startStandIn(ws: string, options: StandInOptions = {}): Promise<StandIn> {
  const standIn = spawnStandIn(ws, options);
  await standIn.waitForLine("ready");
  return standIn;
}

/** One small task: by its first report the worker shows its generation, and has all its slots from then on. */
export async function showGeneration(api: SchedulerApi): Promise<void> {
  const { runId } = await api.startRun(parallelWorkflow(["upper", { text: "first" }]), "first-report");
  expect((await api.waitForRunEnd(runId)).status).toBe("succeeded");
}

/** How often each task was begun, by all lives that share the folder, rarest first. */
export function countStarts(folder: string): number[] {
  const starts = new Map<string, number>();
  for (const { what, task } of readJournals(folder)) if (what === "start") starts.set(task, (starts.get(task) ?? 0) + 1);
  return [...starts.values()].toSorted((a, b) => a - b);
}

/** The most that ran at once, by the order of the journal of one worker. */
export function maxConcurrent(executions: readonly JournalEntry[]): number {
  let now = 0;
  let most = 0;
  for (const { what } of executions) {
    now += what === "start" ? 1 : -1;
    most = Math.max(most, now);
  }
  return most;
}

type WorkflowNode = Workflow["nodes"][number];

function buildNode(
  type: string,
  parameters: NonNullable<WorkflowNode["parameters"]>,
  policy: NonNullable<WorkflowNode["policy"]> = {},
): WorkflowNode {
  const port = (root: string) => [{ key: "text", label: "text", binding: { path: `${root}.text` } }];
  return {
    id: randomUUID(),
    type: `foreign.${type}`,
    label: type,
    package: { name: "foreign", version: "1.0.0" },
    position: { x: 0, y: 0 },
    parameters,
    policy,
    ui: { inputPorts: port("parameters"), outputPorts: port("results") },
  };
}

/** Nodes side by side, without edges. */
export function parallelWorkflow(...given: readonly Readonly<Parameters<typeof buildNode>>[]): Workflow {
  const nodes = given.map((what) => buildNode(...what));
  return { id: randomUUID(), schemaVersion: "2025-10", metadata: { name: "Side by side" }, nodes, edges: [] };
}

/** A text that passes a gate and is then turned to capitals: its value proves that it travelled. */
export function gatedChainWorkflow(gate: string, text: string): Workflow {
  const [first, second] = [buildNode("gate", { gate, text }), buildNode("upper", {})];
  const edge = { id: "e0", source: { node: first.id, port: "text" }, target: { node: second.id, port: "text" } };
  return { ...parallelWorkflow(), nodes: [first, second], edges: [edge] };
}

/** A gate that nobody has opened yet: its file is not there. */
export const makeGatePath = (): string => join(makeTemporaryFolder(), "open");
