// Chains and resources on real processes when something goes wrong: a scheduler that dies while a middleware waits, a task that is
// cancelled while its processes run, a result that is too large to travel.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler, startWorker } from "../harness/installation.ts";
import { startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder, pollUntil, repositoryRoot } from "../harness/processes.ts";

const packageSource = `
  export const parent = async (ctx) => {
    const child = ctx.spawn("sh", ["-c", "sleep 600 & wait"], { stdio: "ignore" });
    ctx.feedback.send({ stage: "spawned", metadata: { results: { pid: child.pid } } });
    await new Promise((go) => ctx.signal.addEventListener("abort", go));
    throw ctx.signal.reason;
  };
  export const large = () => ({ text: "x".repeat(3_000_000), small: "beside it" });
  export const measure = (ctx) => {
    const { resourceId } = ctx.params.text.resourceRef;
    return { length: ctx.resources.readJson(resourceId).length, leased: ctx.leased.map(({ id }) => id) };
  };
`;

function makePackage(): string {
  const folder = makeTemporaryFolder();
  mkdirSync(join(folder, "hard"));
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {} };
  const manifest = {
    schemaVersion: "1.0.0",
    name: "hard",
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["hard.all"] }],
    node: { requires: ">=22" },
    nodes: ["parent", "large", "measure"].map((handler) => ({ ...usual, type: `hard.${handler}`, label: handler, handler })),
  };
  writeFileSync(join(folder, "hard", "manifest.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "hard", "main.mjs"), packageSource);
  return folder;
}

const portOf = (root: "parameters" | "results", key: string) => ({ key, label: key, binding: { path: `${root}.${key}` } });

const buildNode = (handler: string) => ({
  id: crypto.randomUUID(),
  type: `hard.${handler}`,
  label: handler,
  package: { name: "hard", version: "1.0.0" },
  position: { x: 0, y: 0 },
  parameters: {},
  ui: { inputPorts: [portOf("parameters", "text")], outputPorts: [portOf("results", "text")] },
});

const buildWorkflow = (nodes: readonly ReturnType<typeof buildNode>[], edges: Workflow["edges"] = []): Workflow => ({
  id: crypto.randomUUID(),
  schemaVersion: "2025-10",
  metadata: { name: "Hard" },
  nodes: [...nodes],
  edges,
});

const isAlive = (pid: number): boolean =>
  existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));

describe("a chain", () => {
  it("[O82] a chain survives kill -9 of the scheduler while its middleware waits, and every iteration is asked for and answered once", async () => {
    const first = await startScheduler();
    const api = new SchedulerApi(first.http);
    await startWorker(first.ws, { slots: 1 });
    const loop = JSON.parse(readFileSync(join(repositoryRoot, "docs", "examples", "loop.json"), "utf8")) as Workflow;
    const [echo] = loop.nodes;
    if (echo === undefined) throw new Error("the example has no node");
    const slow = { ...echo, type: "example.pkg.delay", parameters: { durationSeconds: 1 }, schema: {}, ui: {} };
    const { runId } = await api.startRun({ ...loop, nodes: [slow] }, "k");
    await pollUntil(
      "the second turn",
      async () => (await api.listRunFacts(runId)).filter(({ type }) => type === "next.asked").length === 2,
    );

    first.process.kill("SIGKILL");
    await first.process.ended;
    await startScheduler({ dataDir: first.dataDir, listen: first.listen });
    const run = await api.waitForRunEnd(runId);

    const facts = await api.listRunFacts(runId);
    expect(run.status).toBe("succeeded");
    expect(run.nodes?.find(({ nodeId }) => nodeId === slow.middlewares?.[0]?.id)?.result).toMatchObject({ iterations: 3 });
    expect(facts.filter(({ type }) => type === "next.asked")).toHaveLength(3);
    expect(facts.filter(({ type }) => type === "next.answered")).toHaveLength(3);
  });
});

describe("processes and results of a handler", () => {
  it("[O84] cancelling a run ends the whole group of processes that its handler started", async () => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    await startMisbehavingWorker(ws, makePackage());
    const { runId } = await api.startRun(buildWorkflow([buildNode("parent")]), "k");
    const pid = await pollUntil("the process to be named", async () => {
      const facts = await api.listRunFacts(runId);
      const pids = facts.map(({ data }) => (data as { results?: { pid?: number } }).results?.pid);
      return pids.find((one) => one !== undefined);
    });
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
    expect([pid, ...children].every(isAlive)).toBe(true);

    await api.send("POST", `/api/v1/runs/${runId}/cancel`, {});

    expect((await api.waitForRunEnd(runId)).status).toBe("cancelled");
    await pollUntil("the processes to be gone", async () => ![pid, ...children].some(isAlive));
  });

  it("[O84] a result that is too large stays at its worker, and the node that uses it runs there", async () => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    const packages = makePackage();
    for (const name of ["one", "two"]) await startMisbehavingWorker(ws, packages, [], name);
    const [large, measure] = [buildNode("large"), buildNode("measure")];
    const edge = { id: "e", source: { node: large.id, port: "text" }, target: { node: measure.id, port: "text" } };

    const refs = await Promise.all([0, 1, 2].map((at) => api.startRun(buildWorkflow([large, measure], [edge]), `k-${at}`)));
    const runs = await Promise.all(refs.map(({ runId }) => api.waitForRunEnd(runId)));

    for (const run of runs) {
      const made = run.nodes?.find(({ nodeId }) => nodeId === large.id);
      const used = run.nodes?.find(({ nodeId }) => nodeId === measure.id);
      expect(run.status).toBe("succeeded");
      expect(made?.result).toMatchObject({
        small: "beside it",
        text: { resourceRef: { workerName: made?.workerName, type: "json" } },
      });
      expect(made?.artifacts).toMatchObject([{ type: "json" }]);
      expect(run.artifacts).toMatchObject([{ nodeId: large.id, workerName: made?.workerName }]);
      expect(used?.result).toMatchObject({ length: 3_000_000 });
      expect(used?.workerName).toBe(made?.workerName);
    }
  });
});
