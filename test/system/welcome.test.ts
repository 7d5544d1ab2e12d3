import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Run, RunNodeStatus, RunRef, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { Api, startScheduler, startWorker } from "./installation.ts";
import { root, until } from "./processes.ts";

const read = (name: string): unknown => JSON.parse(readFileSync(join(root, "docs", "examples", `${name}.json`), "utf8"));
const example = (name: string) => read(name) as Workflow;

async function install(slots?: number) {
  const { http, ws } = await startScheduler();
  await startWorker(ws, slots === undefined ? {} : { slots });
  return { http, api: new Api(http) };
}

const idOf = (workflow: Workflow, label: string): string => {
  const node = workflow.nodes.find((one) => one.label === label);
  if (node === undefined) throw new Error(`the workflow has no node ${label}`);
  return node.id;
};

const nodeOf = (run: Run, id: string): RunNodeStatus | undefined => run.nodes?.find((node) => node.nodeId === id);

/** The same workflow with other parameters for one node. */
function changed(workflow: Workflow, label: string, parameters: Record<string, string | number>): Workflow {
  const nodes = workflow.nodes.map((node) =>
    node.label === label ? { ...node, parameters: { ...node.parameters, ...parameters } } : node,
  );
  return { ...workflow, nodes };
}

describe("the welcome journey", () => {
  it("[O80] runs end to end from the request as printed: every value arrives, the text is streamed, the id is in the audit", async () => {
    const { http, api } = await install();
    const journey = example("welcome-journey");

    const answer = await fetch(`${http}/api/v1/runs`, {
      method: "POST",
      headers: { authorization: "Bearer dev-token", "content-type": "application/json" },
      body: readFileSync(join(root, "docs", "examples", "run-request.json")),
    });
    expect(answer.status).toBe(202);
    const { runId } = (await answer.json()) as RunRef;
    const run = await api.ended(runId);

    const resultOf = (label: string) => nodeOf(run, idOf(journey, label))?.result;
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

    const streamed = (await api.facts(runId)).flatMap((fact) => {
      const { results } = fact.data as { results?: { summary?: string } };
      return fact.type === "task.feedback" && results?.summary !== undefined ? [results.summary] : [];
    });
    expect(streamed.length).toBeGreaterThan(1);
    expect(streamed.at(-1)).toBe(message);
    expect(streamed.every((text, at) => at === 0 || text.startsWith(streamed[at - 1] ?? ""))).toBe(true);
  });

  it("[O81] an error of a handler is acked and ends the run failed, with its code and what the worker said beside it", async () => {
    const { api } = await install();
    const journey = changed(example("welcome-journey"), "Load Welcome Config", {
      config: JSON.stringify({ template: "Hello", delaySeconds: 0, tokenDelayMs: 0 }),
    });
    const { runId } = await api.start(journey, "k");

    const run = await api.ended(runId);

    const failed = nodeOf(run, idOf(journey, "Send Welcome Notification"));
    expect(run).toMatchObject({ status: "failed", error: { code: "E.RUNNER.FAILURE" } });
    expect(failed).toMatchObject({
      status: "failed",
      error: { code: "E.RUNNER.FAILURE", message: "a notification needs a recipient", details: { where: "worker.runner" } },
    });
    // Its word was acked: the worker holds nothing, and works on.
    await until("the worker to be free", async () => {
      const [worker] = (await api.workers()).items;
      return worker?.connected === true;
    });
    const next = await api.start(example("loop"), "next");
    expect((await api.ended(next.runId)).status).toBe("succeeded");
  });
});

describe("chains and containers on a real worker", () => {
  it("[O82] a loop around an echo runs it three times on a worker with a single slot", async () => {
    const { api } = await install(1);
    const loop = example("loop");

    const { runId } = await api.start(loop, "k");
    const run = await api.ended(runId);

    const echo = idOf(loop, "Say it");
    const [middleware] = loop.nodes[0]?.middlewares ?? [];
    expect(run.status).toBe("succeeded");
    expect(nodeOf(run, middleware?.id ?? "")).toMatchObject({ status: "succeeded", result: { iterations: 3 } });
    expect(nodeOf(run, echo)).toMatchObject({ status: "succeeded", result: { echo: "again", iterations: 3 } });
    const facts = await api.facts(runId);
    expect(facts.filter(({ type }) => type === "next.asked")).toHaveLength(3);
    expect(facts.filter(({ type }) => type === "next.answered")).toHaveLength(3);
  });

  it("[O83] a map changes every item by its subgraph, side by side, and gives the results in order", async () => {
    const { api } = await install();
    const map = example("map");

    const { runId } = await api.start(map, "k");
    const run = await api.ended(runId);

    const items = ["ONE", "TWO", "THREE", "FOUR"].map((word) => ({ word }));
    expect(run.status).toBe("succeeded");
    expect(nodeOf(run, idOf(map, "Change each"))?.result).toMatchObject({ items, count: 4 });
    expect(nodeOf(run, idOf(map, "Look"))?.result).toMatchObject({ allowed: true, payload: items });
  });
});
