// A package whose handlers treat their thread roughly, and workers that offer it, for the system tests of the worker's own process.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { astra, makeFolder, type Process } from "./processes.ts";

const code = `
  import { execFileSync } from "node:child_process";
  import { existsSync, writeFileSync } from "node:fs";
  /** Keeps the thread to itself: nothing else in it runs meanwhile. */
  export const block = (ctx) => {
    ctx.feedback.send({ stage: "blocking" });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ctx.params.ms);
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
  export const crash = async () => {
    setImmediate(() => { throw new TypeError("nobody catches this"); });
    await new Promise(() => {});
  };
`;

export function makeRoughPackage(): string {
  const folder = makeFolder();
  mkdirSync(join(folder, "rough"));
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {} };
  const manifest = {
    schemaVersion: "1.0.0",
    name: "rough",
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["rough.all"] }],
    node: { requires: ">=22" },
    nodes: ["block", "shell", "once", "crash"].map((handler) => ({
      ...usual,
      type: `rough.${handler}`,
      label: handler,
      handler,
    })),
  };
  writeFileSync(join(folder, "rough", "manifest.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "rough", "main.mjs"), code);
  return folder;
}

export async function startRoughWorker(
  ws: string,
  packagesDir: string,
  words: readonly string[] = [],
  name = "rough",
): Promise<Process> {
  const worker = astra(
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
      join(makeFolder(), "data"),
      ...words,
    ],
    { ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1", ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2" },
  );
  await worker.ready();
  return worker;
}

/** One node of that package. */
export function roughRun(handler: string, parameters: Record<string, string | number> = {}): Workflow {
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
