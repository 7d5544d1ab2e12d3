// Packages as they are in the field: their manifests require results that the worker strips, and parameters that the scheduler supplies.

import { randomUUID } from "node:crypto";
import type { PackageDetail, RunNodeStatus, Worker, Workflow, WorkflowProblem } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { pollUntil } from "../harness/processes.ts";
import { type StandIn, type StandInOptions, startStandIn } from "./stand-in.ts";

const nodeDefaults = {
  package: { name: "field", version: "1.0.0" },
  status: "published",
  category: "Tests",
  position: { x: 0, y: 0 },
} as const;

/** A node, and a container around another one of the same type. */
function buildWorkflow(rest: Partial<Workflow> = {}): Workflow {
  const shout = (text: string) => ({ ...nodeDefaults, id: randomUUID(), type: "field.shout", label: text, parameters: { text } });
  const definition = (name: string, nodes: Workflow["nodes"]): Workflow => ({
    id: randomUUID(),
    schemaVersion: "2025-10",
    metadata: { name },
    nodes,
    edges: [],
  });
  const parameters = { __container: { subgraphId: "inner" } };
  const container = { ...nodeDefaults, id: randomUUID(), type: "workflow.container", role: "container" as const, label: "Box" };
  return {
    ...definition("Field", [shout("outside"), { ...container, parameters }]),
    subgraphs: [{ id: "inner", definition: definition("Inner", [shout("inside")]) }],
    ...rest,
  };
}

/** Ready once the manifest of its package is stored: a workflow that is checked before runs without the schemas. */
async function startFieldWorker(api: SchedulerApi, ws: string, options: StandInOptions = {}): Promise<StandIn> {
  const worker = await startStandIn(ws, options);
  await pollUntil("the manifest of package field", async () => (await api.send("GET", "/api/v1/packages/field")).ok);
  return worker;
}

const missingStatus = { code: "E.RESULT.INVALID", field: "/results/status" };
const resultsOf = (nodes: readonly RunNodeStatus[] = []) =>
  Object.fromEntries(nodes.map(({ label, status, result, warnings }) => [label, { status, result, warnings }]));

for (const dialect of ["first", "v1"] as const)
  it(`[O100] a package of a worker of the dialect ${dialect} that requires results its worker strips, and \`__container\`, runs with a warning`, async () => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    const worker = await startFieldWorker(api, ws, { dialect });

    const workflow = buildWorkflow();
    const saved = await api.send("POST", "/api/v1/workflows", workflow);
    const { runId } = await api.startRun(workflow, "k");
    const run = await api.waitForRunEnd(runId);

    expect([saved.ok, run.status]).toEqual([true, "succeeded"]);
    expect(resultsOf(run.nodes)).toMatchObject({
      outside: { status: "succeeded", result: { text: "OUTSIDE" }, warnings: [missingStatus] },
      inside: { status: "succeeded", result: { text: "INSIDE" }, warnings: [missingStatus] },
      Box: { status: "succeeded", warnings: undefined },
    });
    const facts = (await api.listRunFacts(runId)).filter(({ type }) => type === "task.warning");
    expect(facts).toHaveLength(2);
    expect(worker.droppedFrames()).toEqual([]);
  });

it("[O100] a package of the field fails where its workflow enforces schemas, and an absent parameter is refused then", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  await startFieldWorker(api, ws);
  const strict = buildWorkflow({ schemaMode: "enforce" });
  const withoutText = (workflow: Workflow): Workflow => ({
    ...workflow,
    nodes: workflow.nodes.map((node) => (node.type === "field.shout" ? { ...node, parameters: {} } : node)),
  });
  const validate = async (workflow: Workflow) =>
    (await (await api.send("POST", "/api/v1/workflows/validate", workflow)).json()) as {
      isValid: boolean;
      problems: WorkflowProblem[];
    };

  const { runId } = await api.startRun(strict, "k");
  const run = await api.waitForRunEnd(runId);

  expect(run).toMatchObject({ status: "failed", error: { code: "E.RESULT.INVALID", details: { field: "/results/status" } } });
  const missing = { path: "/nodes/0/parameters/text" };
  expect(await validate(withoutText(strict))).toMatchObject({ isValid: false, problems: [{ ...missing, severity: "error" }] });
  expect(await validate(withoutText(buildWorkflow()))).toMatchObject({
    isValid: true,
    problems: [{ ...missing, severity: "warning" }],
  });
});

it("[O101] two workers with different manifests of one package version: each run is judged by its worker's, and both and the catalogue show the conflict", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const strict = await startFieldWorker(api, ws, { name: "strict" });
  const runWarnings = async (key: string) => {
    const { runId } = await api.startRun(buildWorkflow(), key);
    const { status, nodes = [] } = await api.waitForRunEnd(runId);
    return [status, nodes.flatMap(({ warnings = [] }) => warnings).length];
  };

  const judgedStrictly = await runWarnings("a");
  const ofStrict = await readPackage(api);
  await startStandIn(ws, { name: "lenient", isLenient: true });
  const conflict = await pollUntil("the conflict", async () => (await readPackage(api)).manifestConflict);
  strict.kill("SIGKILL");
  await strict.ended;
  // Before the scheduler sees the closed socket it may still give the task to the strict worker, and then waits for it to come back.
  await pollUntil("the scheduler to miss the strict worker", async () => (await readWorker(api, "strict")).status !== "online");
  const judgedLeniently = await runWarnings("b");

  expect([judgedStrictly, judgedLeniently]).toEqual([
    ["succeeded", 2],
    ["succeeded", 0],
  ]);
  const holders = (worker: string) => conflict.find(({ workers }) => workers.includes(worker));
  expect(holders("strict")).toMatchObject({ manifest: ofStrict.digest, workerCount: 1 });
  expect(holders("lenient")?.manifest).not.toBe(ofStrict.digest);
  for (const [name, other] of [
    ["strict", "lenient"],
    ["lenient", "strict"],
  ] as const) {
    const { packages = [] } = await readWorker(api, name);
    const field = packages.find((one) => one.name === "field");
    expect(field).toMatchObject({ manifest: holders(name)?.manifest, otherManifests: [holders(other)] });
  }
});

const readWorker = (api: SchedulerApi, name: string): Promise<Worker> => api.get(`/api/v1/workers/${name}`);
const readPackage = (api: SchedulerApi): Promise<PackageDetail> => api.get("/api/v1/packages/field");
