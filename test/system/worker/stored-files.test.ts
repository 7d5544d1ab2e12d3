// A file that a task leaves at one worker is fetched by a task at another one, through the scheduler.

import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { JsonObject, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeMisbehavingPackage, startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder } from "../harness/processes.ts";

/** Two parts of the transfer and some. */
const sizeBytes = 17 * 1024 * 1024;

const makeFile = `async (ctx) => {
  const file = ctx.workDir + "/large.bin";
  writeFileSync(file, Buffer.alloc(${sizeBytes}, "0123456789"));
  ctx.resources.registerFile("large", file);
  const stored = await ctx.resources.upload("large", { filename: "large.bin" });
  return { outputs: { stored, token: JSON.stringify(process.env).includes("dev-token") }, artifacts: [ctx.resources.artifact("large")] };
}`;

function makePythonReader(): string {
  const root = makeTemporaryFolder();
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {} };
  const manifest = {
    ...{ schemaVersion: "1.0.0", name: "reader", version: "1.0.0", description: "" },
    adapters: [{ name: "main", entrypoint: "reader", capabilities: ["reader.read"] }],
    python: { requires: ">=3.10" },
    nodes: [{ ...usual, type: "reader.read", label: "Read", handler: "read" }],
  };
  const code = `
import hashlib
def read(ctx):
    kept = ctx.resource_registry.download(ctx.params["file"]["resourceId"])
    with open(kept.path, "rb") as file:
        return {"sha256": hashlib.sha256(file.read()).hexdigest(), "kept": kept.resource_id}
`;
  const files = { "reader/manifest.json": JSON.stringify(manifest), "reader/reader.py": code };
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

const node = (id: string, type: string, name: string, path: JsonObject) => ({
  ...{ id, type, label: type, package: { name, version: "1.0.0" }, position: { x: 0, y: 0 }, parameters: {} },
  ui: path,
});

function makeWorkflow(): Workflow {
  const [from, to] = [crypto.randomUUID(), crypto.randomUUID()];
  const port = (path: string, mode: string) => [{ key: "file", label: "File", binding: { path, mode } }];
  return {
    ...{ id: crypto.randomUUID(), schemaVersion: "2025-10", metadata: { name: "Stored file" } },
    nodes: [
      node(from, "rough.makeFile", "rough", { inputPorts: [], outputPorts: port("results.stored", "read") }),
      node(to, "reader.read", "reader", { inputPorts: port("parameters.file", "write"), outputPorts: [] }),
    ],
    edges: [{ id: "1", source: { node: from, port: "file" }, target: { node: to, port: "file" } }],
  } as unknown as Workflow;
}

describe("a file that is stored with the scheduler", () => {
  it.each(["process", "thread"])(
    "[W1053] a file of a Node task in a %s is fetched by a Python task at another worker, and downloaded over REST",
    async (nodeHost) => {
      const scheduler = await startScheduler();
      const api = new SchedulerApi(scheduler.http);
      await startMisbehavingWorker(scheduler.ws, makeMisbehavingPackage({ makeFile }), ["--node-host", nodeHost], "left");
      await startMisbehavingWorker(scheduler.ws, makePythonReader(), [], "right");

      const run = await api.waitForRunEnd((await api.startRun(makeWorkflow(), "k")).runId);

      expect(run.error ?? null).toBeNull();
      const [made, read] = ["rough.makeFile", "reader.read"].map((label) => run.nodes?.find((one) => one.label === label));
      const sha256 = createHash("sha256").update(Buffer.alloc(sizeBytes, "0123456789")).digest("hex");
      const { stored = {}, token } = (made?.result ?? {}) as { stored?: JsonObject; token?: boolean };
      expect([made?.workerName, read?.workerName]).toEqual(["left", "right"]);
      expect(stored).toMatchObject({ filename: "large.bin", sizeBytes, sha256 });
      expect(token).toBe(false);
      expect(read?.result).toEqual({ sha256, kept: `file ${String(stored["resourceId"])}` });
      const bytes = await (await api.send("GET", String(stored["downloadUrl"]))).arrayBuffer();
      expect(createHash("sha256").update(Buffer.from(bytes)).digest("hex")).toBe(sha256);
    },
  );
});
