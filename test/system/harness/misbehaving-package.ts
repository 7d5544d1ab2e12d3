// A package whose handlers block, crash or exhaust their thread, and workers that offer it, for the system tests of the worker process.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject, Workflow } from "@astraflow/protocol";
import { type AstraProcess, makeTemporaryFolder, spawnAstra } from "./processes.ts";

const packageSource = `
  import { execFileSync } from "node:child_process";
  import { existsSync, writeFileSync } from "node:fs";
  const nap = new Int32Array(new SharedArrayBuffer(4));
  /** Keeps the thread to itself until the file of the gate is there: nothing else in it runs meanwhile. */
  export const block = (ctx) => {
    ctx.feedback.send({ stage: "blocking" });
    while (!existsSync(ctx.params.gate)) Atomics.wait(nap, 0, 0, 20);
    return { was: "blocked" };
  };
  /** The same in a call into the system, out of which no thread can be taken. */
  export const shell = (ctx) => {
    ctx.feedback.send({ stage: "blocking" });
    execFileSync("sleep", [String(ctx.params.ms / 1000)]);
    return {};
  };
  /** The first attempt waits until it is stopped, and answers all the same; every other one answers at once. */
  export const once = async (ctx) => {
    if (existsSync(ctx.params.first)) return { by: "second" };
    writeFileSync(ctx.params.first, "");
    await new Promise((go) => ctx.signal.addEventListener("abort", go));
    writeFileSync(ctx.params.stopped, String(ctx.signal.reason.message));
    return { by: "first" };
  };
  /** The first attempt starts processes and waits for them, which is for ever; every other one answers at once. */
  export const start = async (ctx) => {
    if (existsSync(ctx.params.pid)) return { by: "second" };
    const child = ctx.spawn("sh", ["-c", "sleep 600 & sleep 600"]);
    writeFileSync(ctx.params.pid, String(child.pid));
    ctx.feedback.send({ stage: "waiting" });
    await new Promise((go) => child.once("exit", go));
    return { by: "first" };
  };
  /** Keeps something in this process under a name; the next node of the run refers to it. */
  export const keep = (ctx) => {
    ctx.resources.register({ id: ctx.params.id, type: "model", value: {} });
    return { outputs: {}, artifacts: [ctx.resources.artifact(ctx.params.id)] };
  };
  export const use = () => ({ used: true });
  /** Names as an artifact what only its result holds. */
  export const inline = () => ({ text: "hi", artifacts: [{ resource_id: "text", type: "text" }] });
  /** Lets it go, whoever may still want it. */
  export const drop = (ctx) => ({ wasThere: ctx.resources.drop(ctx.params.id) });
  export const crash = async () => {
    setImmediate(() => { throw new TypeError("nobody catches this"); });
    await new Promise(() => {});
  };
`;

/** `added`: more handlers, by name, as the source of a function. */
export function makeMisbehavingPackage(added: Readonly<Record<string, string>> = {}): string {
  const folder = makeTemporaryFolder();
  mkdirSync(join(folder, "rough"));
  const addedSource = Object.entries(added)
    .map(([name, source]) => `export const ${name} = ${source};\n`)
    .join("");
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {} };
  const manifest = {
    schemaVersion: "1.0.0",
    name: "rough",
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["rough.all"] }],
    node: { requires: ">=22" },
    nodes: ["block", "shell", "once", "start", "keep", "use", "inline", "drop", "crash", ...Object.keys(added)].map(
      (handler) => ({
        ...usual,
        type: `rough.${handler}`,
        label: handler,
        handler,
      }),
    ),
  };
  writeFileSync(join(folder, "rough", "manifest.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "rough", "main.mjs"), packageSource + addedSource);
  return folder;
}

export async function startMisbehavingWorker(
  ws: string,
  packagesDir: string,
  args: readonly string[] = [],
  name = "rough",
): Promise<AstraProcess> {
  const worker = spawnAstra(
    [
      "worker",
      "--url",
      ws,
      "--token",
      "dev-token",
      "--name",
      name,
      "--packages-dir",
      packagesDir,
      "--data-dir",
      join(makeTemporaryFolder(), "data"),
      ...args,
    ],
    { ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1", ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2" },
  );
  await worker.ready();
  return worker;
}

/** A file that is not there yet; `open` makes it. */
export function makeGateFile(): { readonly gate: string; open(): void } {
  const gate = join(makeTemporaryFolder(), "gate");
  return { gate, open: () => writeFileSync(gate, "") };
}

/** One node of that package. */
export function misbehavingWorkflow(handler: string, parameters: JsonObject = {}): Workflow {
  const id = "11111111-1111-4111-8111-111111111111";
  const ui = { inputPorts: [], outputPorts: [] };
  const node = {
    id,
    type: `rough.${handler}`,
    label: handler,
    package: { name: "rough", version: "1.0.0" },
    position: { x: 0, y: 0 },
  };
  return {
    id: crypto.randomUUID(),
    schemaVersion: "2025-10",
    metadata: { name: `Rough ${handler}` },
    nodes: [{ ...node, parameters, ui }],
    edges: [],
  };
}
