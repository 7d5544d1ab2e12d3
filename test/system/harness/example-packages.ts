// The example packages on a scheduler and a worker of a test, and workflows of their nodes, whose ports and schemas come from the manifests.

import { randomUUID } from "node:crypto";
import type { JsonObject, PackageSummary, Run, Workflow } from "@astraflow/protocol";
import { SchedulerApi, startScheduler, startWorker, type WorkerOptions } from "./installation.ts";
import { type AstraProcess, pollUntil } from "./processes.ts";

type WorkflowNode = Workflow["nodes"][number];

/** `packageName.name` of any of the packages in version 1.0.0. */
function describeNode(type: string, parameters: JsonObject) {
  const name = type.slice(0, type.lastIndexOf("."));
  return { id: randomUUID(), type, label: type, package: { name, version: "1.0.0" }, parameters };
}

/** Around it the middlewares, the outermost first. */
export function exampleNode(
  type: string,
  parameters: JsonObject = {},
  middlewares: readonly (readonly [type: string, parameters: JsonObject])[] = [],
): WorkflowNode {
  const chain = middlewares.map(([each, its]) => ({
    ...describeNode(`system.${each}_middleware`, its),
    role: "middleware" as const,
  }));
  return {
    ...describeNode(type, parameters),
    position: { x: 0, y: 0 },
    ...(chain.length > 0 && { middlewares: chain }),
  } as WorkflowNode;
}

/** The nodes, each connected to the next by these ports. */
export function exampleWorkflow(
  nodes: readonly WorkflowNode[],
  ports: readonly [output: string, input: string] = ["", ""],
): Workflow {
  const edges = nodes.slice(1).map((target, at) => ({
    id: `e${at}`,
    source: { node: nodes[at]?.id ?? "", port: ports[0] },
    target: { node: target.id, port: ports[1] },
  }));
  return { id: randomUUID(), schemaVersion: "2025-10", metadata: { name: "Example nodes" }, nodes: [...nodes], edges };
}

export const nodeOf = (run: Run, id: string | undefined) => run.nodes?.find((node) => node.nodeId === id);

export interface LogLine {
  readonly channel?: string;
  readonly text?: string;
}

export class ExampleInstallation {
  readonly api: SchedulerApi;
  worker: AstraProcess;
  readonly #http: string;
  readonly #ws: string;
  readonly #options: WorkerOptions;
  #runs = 0;

  private constructor(http: string, ws: string, worker: AstraProcess, options: WorkerOptions) {
    this.api = new SchedulerApi(http);
    this.worker = worker;
    this.#http = http;
    this.#ws = ws;
    this.#options = options;
  }

  static async start(packages: readonly string[], more: WorkerOptions = {}): Promise<ExampleInstallation> {
    const { http, ws } = await startScheduler();
    const options = { ...more, packages };
    const installation = new ExampleInstallation(http, ws, await startWorker(ws, options), options);
    // A worker is ready before the scheduler has read its manifests, and ports come from these.
    await pollUntil("the catalogue to have the packages", async () => {
      const { items } = await installation.api.get<{ items: PackageSummary[] }>("/api/v1/packages");
      return packages.every((name) => items.some((one) => one.name === name));
    });
    return installation;
  }

  async restartWorker(): Promise<void> {
    this.worker.kill("SIGTERM");
    await this.worker.ended;
    this.worker = await startWorker(this.#ws, this.#options);
  }

  async startRun(workflow: Workflow): Promise<string> {
    return (await this.api.startRun(workflow, `run-${this.#runs++}`)).runId;
  }

  /** Runs it to its end: the run, its first node, its log, and the calls that middlewares made. */
  async run(workflow: Workflow) {
    const runId = await this.startRun(workflow);
    const run = await this.api.waitForRunEnd(runId);
    const facts = await this.api.listRunFacts(runId);
    const calls = facts.filter(({ type }) => type === "next.asked");
    return { runId, run, host: nodeOf(run, workflow.nodes[0]?.id), facts, calls };
  }

  async logs(runId: string): Promise<readonly LogLine[]> {
    return (await this.api.get<{ items: LogLine[] }>(`/api/v1/runs/${runId}/logs`)).items;
  }

  /** Uploads a text and grants it to a package, for all workflows. */
  async grantSecret(packageName: string, resourceKey: string, value: string): Promise<void> {
    const form = new FormData();
    form.set("file", new Blob([value]), resourceKey);
    const headers = { authorization: "Bearer dev-token" };
    const uploaded = await fetch(`${this.#http}/api/v1/resources`, { method: "POST", headers, body: form });
    const { resourceId } = (await uploaded.json()) as { resourceId: string };
    const grant = { resourceId, packageName, resourceKey, scope: "global" };
    const response = await this.api.send("POST", "/api/v1/resource-grants", grant);
    if (response.status !== 201) throw new Error(`the grant was refused: ${await response.text()}`);
  }

  /** Once a task of the node, or of one of its calls, is surely at the worker. */
  async waitUntilRunning(runId: string, task: string): Promise<void> {
    await pollUntil(`task ${task} to run`, async () =>
      (await this.api.listRunFacts(runId)).some(
        ({ type, data }) => type === "task.running" && data["task"] === `${runId}.${task}`,
      ),
    );
  }
}
