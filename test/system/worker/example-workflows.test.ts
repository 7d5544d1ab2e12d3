import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Run, RunNodeStatus, RunRef, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler, startWorker } from "../harness/installation.ts";
import { pollUntil, repositoryRoot } from "../harness/processes.ts";

const readExample = (name: string): unknown =>
  JSON.parse(readFileSync(join(repositoryRoot, "docs", "examples", `${name}.json`), "utf8"));
const exampleWorkflow = (name: string) => readExample(name) as Workflow;

async function startInstallation(slots?: number) {
  const { http, ws } = await startScheduler();
  await startWorker(ws, slots === undefined ? {} : { slots });
  return { http, api: new SchedulerApi(http) };
}

const nodeIdOf = (workflow: Workflow, label: string): string => {
  const node = workflow.nodes.find((one) => one.label === label);
  if (node === undefined) throw new Error(`the workflow has no node ${label}`);
  return node.id;
};

const nodeStatusOf = (run: Run, id: string): RunNodeStatus | undefined => run.nodes?.find((node) => node.nodeId === id);

/** The same workflow with other parameters for one node. */
function withParameters(workflow: Workflow, label: string, parameters: Record<string, string | number>): Workflow {
  const nodes = workflow.nodes.map((node) =>
    node.label === label ? { ...node, parameters: { ...node.parameters, ...parameters } } : node,
  );
  return { ...workflow, nodes };
}

describe("the welcome journey", () => {
  it("[O80] the welcome journey runs end to end from the printed request: values arrive, the text is streamed, the audit entry has the id", async () => {
    const { http, api } = await startInstallation();
    const journey = exampleWorkflow("welcome-journey");

    const answer = await fetch(`${http}/api/v1/runs`, {
      method: "POST",
      headers: { authorization: "Bearer dev-token", "content-type": "application/json" },
      body: readFileSync(join(repositoryRoot, "docs", "examples", "run-request.json")),
    });
    expect(answer.status).toBe(202);
    const { runId } = (await answer.json()) as RunRef;
    const run = await api.waitForRunEnd(runId);

    const resultOf = (label: string) => nodeStatusOf(run, nodeIdOf(journey, label))?.result;
    const message = "Hello Ada, Welcome Aboard. Your First Run Is Ready When You Are.";
    const routing = { recipient: "ada@example.test", subject: "Welcome to AstraFlow", delaySeconds: 1, tokenDelayMs: 40 };
    expect(run.status).toBe("succeeded");
    expect(resultOf("Load Welcome Config")).toMatchObject(routing);
    expect(resultOf("Personalise Message")).toMatchObject({ ...routing, output: message });
    expect(resultOf("Stream Feedback")).toMatchObject({ summary: message, tokenCount: 12, done: true });
    expect(resultOf("Schedule Delivery")).toMatchObject({ done: true, durationSeconds: 1 });
    const sent = resultOf("Send Welcome Notification") as { notificationId: string };
    expect(sent.notificationId).toMatch(/^ntf-[0-9a-f]{16}$/);
    expect(resultOf("Audit Delivery")).toMatchObject({
      notificationId: sent.notificationId,
      entry: { event: "welcome.delivered", notificationId: sent.notificationId, recipient: "ada@example.test" },
    });

    const streamed = (await api.listRunFacts(runId)).flatMap((fact) => {
      const { results } = fact.data as { results?: { summary?: string } };
      return fact.type === "task.feedback" && results?.summary !== undefined ? [results.summary] : [];
    });
    expect(streamed.length).toBeGreaterThan(1);
    expect(streamed.at(-1)).toBe(message);
    expect(streamed.every((text, at) => at === 0 || text.startsWith(streamed[at - 1] ?? ""))).toBe(true);
  });

  it("[O81] an error of a handler ends the run as failed, with its code and the worker's details, and the worker continues", async () => {
    const { api } = await startInstallation();
    const journey = withParameters(exampleWorkflow("welcome-journey"), "Load Welcome Config", {
      config: JSON.stringify({ template: "Hello", delaySeconds: 0, tokenDelayMs: 0 }),
    });
    const { runId } = await api.startRun(journey, "k");

    const run = await api.waitForRunEnd(runId);

    const failed = nodeStatusOf(run, nodeIdOf(journey, "Send Welcome Notification"));
    expect(run).toMatchObject({ status: "failed", error: { code: "E.RUNNER.FAILURE" } });
    expect(failed).toMatchObject({
      status: "failed",
      error: { code: "E.RUNNER.FAILURE", message: "a notification needs a recipient", details: { where: "worker.runner" } },
    });
    // Its outcome was acked: the worker holds nothing, and works on.
    await pollUntil("the worker to be free", async () => {
      const [worker] = (await api.listWorkers()).items;
      return worker?.connected === true;
    });
    const next = await api.startRun(exampleWorkflow("loop"), "next");
    expect((await api.waitForRunEnd(next.runId)).status).toBe("succeeded");
  });
});

describe("chains and containers on a real worker", () => {
  it("[O82] a loop around an echo node runs it three times on a worker with a single slot", async () => {
    const { api } = await startInstallation(1);
    const loop = exampleWorkflow("loop");

    const { runId } = await api.startRun(loop, "k");
    const run = await api.waitForRunEnd(runId);

    const echo = nodeIdOf(loop, "Say it");
    const [middleware] = loop.nodes[0]?.middlewares ?? [];
    expect(run.status).toBe("succeeded");
    expect(nodeStatusOf(run, middleware?.id ?? "")).toMatchObject({ status: "succeeded", result: { iterations: 3 } });
    expect(nodeStatusOf(run, echo)).toMatchObject({ status: "succeeded", result: { echo: "again", iterations: 3 } });
    const facts = await api.listRunFacts(runId);
    expect(facts.filter(({ type }) => type === "next.asked")).toHaveLength(3);
    expect(facts.filter(({ type }) => type === "next.answered")).toHaveLength(3);
  });

  it("[O83] a map transforms every item by its subgraph and returns the results in order", async () => {
    const { api } = await startInstallation();
    const map = exampleWorkflow("map");

    const { runId } = await api.startRun(map, "k");
    const run = await api.waitForRunEnd(runId);

    const items = ["ONE", "TWO", "THREE", "FOUR"].map((word) => ({ word }));
    expect(run.status).toBe("succeeded");
    expect(nodeStatusOf(run, nodeIdOf(map, "Change each"))?.result).toMatchObject({ items, count: 4 });
    expect(nodeStatusOf(run, nodeIdOf(map, "Look"))?.result).toMatchObject({ allowed: true, payload: items });
  });
});
