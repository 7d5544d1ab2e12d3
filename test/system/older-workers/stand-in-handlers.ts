// The packages and handlers of the stand-ins. Each execution is written into a journal when it starts and when it ends, so that tests know
// what was executed independently of what was reported.

import { appendFileSync } from "node:fs";
import { access } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import type { JsonObject } from "@astraflow/protocol";
import { printLine, type StandInSettings } from "./stand-in-settings.ts";

/** What a handler is given. */
export interface StandInJob {
  readonly task: string;
  readonly params: JsonObject;
  readonly signal: AbortSignal;
  /** Calls into the chain that the node is part of; answers what came back, or throws it. */
  next(): Promise<JsonObject>;
  /** Sends a frame of an unknown type. */
  sendUnknownFrame(): void;
}

export interface StandInOutcome {
  readonly status: "SUCCEEDED" | "FAILED";
  readonly result: JsonObject;
}

type StandInHandler = (job: StandInJob) => Promise<JsonObject> | JsonObject;

const gatePollMs = 10;

const handlers: Readonly<Record<string, StandInHandler>> = {
  "foreign.upper": ({ params }) => ({ text: String(params["text"]).toUpperCase() }),
  /** Ends when a file appears: the test opens the gate. */
  "foreign.gate": async ({ params, signal }) => {
    while (!(await fileExists(String(params["gate"])))) await pause(gatePollMs, undefined, { signal });
    return { text: String(params["text"]) };
  },
  "foreign.nap": async ({ params }) => {
    await pause(Number(params["ms"]));
    return { text: String(params["ms"]) };
  },
  "foreign.fail": ({ params }) => {
    throw new Error(String(params["message"]));
  },
  /** Fails without an exception, as handlers of the field do it. */
  "foreign.refuse": ({ params }) => ({ status: "failed", error: String(params["message"]) }),
  "foreign.next": async ({ next }) => ({ answer: await next() }),
  /** The same as a middleware. */
  "foreign.around": async ({ next }) => ({ answer: await next() }),
  "foreign.babble": ({ sendUnknownFrame: babble }) => {
    babble();
    return { text: "said" };
  },
  /** Returns the status that its manifest requires; the worker strips it, as workers of the field do. */
  "field.shout": ({ params }) => ({ status: "SUCCEEDED", text: String(params["text"]).toUpperCase() }),
  "ledger.step": async ({ params }) => {
    await pause(Number(params["pauseMs"]));
    const inputs = Object.entries(params).filter(([key]) => key.startsWith("in"));
    return { value: 1 + inputs.reduce((sum, [, value]) => sum + Number(value), 0) };
  },
};

const fileExists = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  );

/** Executes one job and writes it down; throws what the handler throws. */
export async function executeJob(journal: string, nodeType: string, job: StandInJob): Promise<StandInOutcome> {
  const note = (what: "start" | "end"): void =>
    appendFileSync(journal, `${JSON.stringify({ what, task: job.task, attempt: 1 })}\n`);
  const handler = handlers[nodeType];
  if (handler === undefined) throw new Error(`no handler for ${nodeType}`);
  note("start");
  printLine({ event: "started", task: job.task });
  const { status, ...result } = await handler(job);
  note("end");
  printLine({ event: "ended", task: job.task });
  return { status: status === "failed" ? "FAILED" : "SUCCEEDED", result };
}

const version = "1.0.0";

const text = { type: "string" };
const anyObject = { parameters: { type: "object" }, results: { type: "object" } };

/** Schemas of node types, as manifests of the field have them: what the worker strips and what the scheduler supplies is required. */
const schemas: Readonly<Record<string, object>> = {
  "field.shout": {
    parameters: { type: "object", properties: { text }, required: ["text"] },
    results: { type: "object", properties: { status: text, text }, required: ["status", "text"], additionalProperties: false },
  },
  "workflow.container": { parameters: { type: "object", required: ["__container"], additionalProperties: false } },
};

/** Node types that the scheduler carries out, and their packages. */
const containers: Readonly<Record<string, readonly string[]>> = { field: ["workflow.container"] };

/** Whole manifests, as such workers send them. `isLenient`: another build of the same versions, whose schemas require nothing. */
const buildManifests = (isLenient: boolean) =>
  ["foreign", "field", "ledger"].map((name) => {
    const types = [...Object.keys(handlers).filter((type) => type.startsWith(`${name}.`)), ...(containers[name] ?? [])];
    const node = { role: "node", status: "published", category: "Tests", adapter: "main" };
    const manifest = {
      schemaVersion: "1.0.0",
      name,
      version,
      description: "Work for workers of another make.",
      python: { requires: ">=3.11" },
      adapters: [{ name: "main", runtime: "python", entrypoint: "adapter", capabilities: types }],
      nodes: types.map((type) => ({
        ...node,
        ...(type === "foreign.around" && { role: "middleware" }),
        ...(containers[name]?.includes(type) && { role: "container" }),
        type,
        label: type,
        handler: type.slice(type.indexOf(".") + 1),
        schema: isLenient ? anyObject : (schemas[type] ?? anyObject),
        ui: { inputPorts: [], outputPorts: [], widgets: [] },
      })),
    };
    return { name, version, manifest };
  });

/** The part of a register that is about packages and slots, the same in both dialects. */
export function registrationPayload({ slots, isLenient }: Pick<StandInSettings, "slots" | "isLenient">) {
  const manifests = buildManifests(isLenient);
  return {
    capabilities: { concurrency: { max_parallel: slots }, runtimes: ["python"], features: [] },
    packages: manifests.map(({ name }) => ({ name, version, status: "installed" })),
    manifests,
  };
}
