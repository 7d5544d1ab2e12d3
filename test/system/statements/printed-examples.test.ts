// What the specification prints, as it prints it: the sample workflow, sent to a real scheduler and run by a worker on a real socket.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AuditEvent, Run, Workflow } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { HandDrivenWorker, taskOf } from "../harness/hand-driven-worker.ts";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { pollUntil, repositoryRoot } from "../harness/processes.ts";

const printed = readFileSync(join(repositoryRoot, "docs/examples/playwright-smoke-check.json"), "utf8");
const crawler = { name: "crawlerx_playwright", version: "2025.10.0" };

/** The body is the printed text, not what we would make of it. */
const postPrinted = (http: string, path: string, body: string): Promise<Response> =>
  fetch(http + path, {
    method: "POST",
    headers: { authorization: "Bearer dev-token", "content-type": "application/json" },
    body,
  });

it("[O74] the sample workflow exactly as the specification prints it is saved, shown unchanged, started and run to its end over a socket", async () => {
  const { http, ws, process } = await startScheduler({ logLevel: "debug" });
  const api = new SchedulerApi(http);
  const worker = await HandDrivenWorker.join(ws, { packages: [crawler] });
  const workflow = JSON.parse(printed) as Workflow;

  const saved = await postPrinted(http, "/api/v1/workflows", printed);
  expect(saved.status).toBe(201);
  const shown = await api.get<Workflow>(`/api/v1/workflows/${workflow.id}`);
  expect(shown).toMatchObject(workflow);
  const widget = shown.nodes[1]?.ui?.widgets?.find(({ key }) => key === "resultMetadata");
  expect(widget).toMatchObject({
    component: "json",
    binding: { path: "results.metadata", mode: "read" },
    options: { readOnly: true, collapsed: true },
  });

  const started = await postPrinted(http, "/api/v1/runs", `{"clientId":"printed","workflow":${printed}}`);
  expect(started.status).toBe(202);
  const { runId } = (await started.json()) as Run;
  const open = await worker.takeDispatch();
  expect(open.payload).toMatchObject({
    node_type: "playwright.open_page",
    package_name: crawler.name,
    package_version: crawler.version,
    parameters: workflow.nodes[0]?.parameters,
  });
  worker.succeed(open, { status: "SUCCEEDED", page: { handle: 7 }, done: true });
  const click = await worker.takeDispatch();
  expect(click.payload["parameters"]).toEqual({ ...workflow.nodes[1]?.parameters, trigger: true, page: { handle: 7 } });
  worker.succeed(click, { status: "SUCCEEDED", done: true, metadata: { clicks: 1 } });

  const run = await api.waitForRunEnd(runId);
  expect(run.status).toBe("succeeded");
  expect(run.nodes?.map(({ result }) => result)).toEqual([
    { status: "SUCCEEDED", page: { handle: 7 }, done: true },
    { status: "SUCCEEDED", done: true, metadata: { clicks: 1 } },
  ]);
  // The log of the manual check: a dispatch that requests an ack, then its result.
  const frames = process
    .stderr()
    .split("\n")
    .flatMap((line) => (line.includes('"biz.exec.') ? [JSON.parse(line) as Record<string, unknown>] : []));
  const ofClick = frames.filter((frame) => JSON.stringify(frame).includes(taskOf(click)));
  expect(ofClick).toMatchObject([
    { type: "biz.exec.dispatch", corr: taskOf(click), ack: { request: true } },
    { type: "biz.exec.result", corr: taskOf(click), sender: { id: "w-1" } },
  ]);
});

it("[O75] a run binds a package to the worker that ran it, which has a queue of its own, and the audit names worker and outcome of each dispatch", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await HandDrivenWorker.join(ws, { packages: [crawler] });
  const { runId } = await api.startRun(JSON.parse(printed) as Workflow, "k");
  worker.succeed(await worker.takeDispatch(), { status: "SUCCEEDED", page: {}, done: true });
  worker.fail(await worker.takeDispatch(), "E.RUNNER.FAILURE", "no such element");
  const run = await api.waitForRunEnd(runId);

  expect(run).toMatchObject({ status: "failed", error: { code: "E.RUNNER.FAILURE", message: "no such element" } });
  expect(run.nodes?.[1]).toMatchObject({
    status: "failed",
    state: { stage: "failed", message: "no such element", error: { code: "E.RUNNER.FAILURE", message: "no such element" } },
  });
  const bindings = await api.get<{ items: object[] }>(`/api/v1/runs/${runId}/bindings`);
  expect(bindings.items).toMatchObject([
    { package: crawler.name, workerId: "w-1", workerName: "bare", queue: expect.stringMatching(/./) },
  ]);
  const audit = await api.get<{ items: AuditEvent[] }>("/api/v1/audit-events?action=task.dispatch");
  expect(audit.items.toReversed()).toMatchObject([
    { actorId: "dev", targetType: "task", metadata: { worker: "default/w-1", corr: expect.any(String), outcome: "ok" } },
    { actorId: "dev", targetType: "task", metadata: { worker: "default/w-1", outcome: "E.RUNNER.FAILURE" } },
  ]);
});

it("[O75] feedback over a socket shows in a node's state: the latest stage, its progress and its message", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await HandDrivenWorker.join(ws, { packages: [crawler] });
  const { runId } = await api.startRun(JSON.parse(printed) as Workflow, "k");
  const open = await worker.takeDispatch();
  const { run_id, task_id, fence } = open.payload;
  const feedback = { run_id, task_id, fence, stage: "streaming", progress: 0.42, message: "half way" };
  worker.sendWork("biz.exec.feedback", feedback, taskOf(open));

  const node = await pollUntil("the feedback", async () => {
    const [first] = (await api.getRun(runId)).nodes ?? [];
    return first?.state?.stage === "streaming" ? first : null;
  });
  expect(node).toMatchObject({ status: "running", state: { stage: "streaming", progress: 0.42, message: "half way" } });
});
