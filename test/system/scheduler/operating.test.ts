import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Scaling, Worker, WorkerDiagnostics } from "@astraflow/protocol";
import { SseTestReader } from "@astraflow/protocol/testing";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, repositoryRoot, runAstra, spawnAstra, withTimeout } from "../harness/processes.ts";
import { sleepingWorkflow, textChainWorkflow } from "../harness/workflows.ts";

/** With the package that listens to and sends vendors' frames, and its own numbers on a port. */
async function startWorkerWithMetrics(ws: string, packages = join(repositoryRoot, "examples", "packages")) {
  const worker = spawnAstra(["worker", "--metrics-listen", "127.0.0.1:0"], {
    ASTRA_WORKER_SCHEDULER_WS_URL: ws,
    ASTRA_WORKER_TENANT: "default",
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: "w-1",
    ASTRA_WORKER_DATA_DIR: join(makeTemporaryFolder(), "worker"),
    ASTRA_WORKER_PACKAGES_DIR: packages,
    ASTRA_WORKER_RECONNECT_BASE_DELAY_SECONDS: "0.1",
    ASTRA_WORKER_RECONNECT_MAX_DELAY_SECONDS: "0.2",
    ASTRA_WORKER_LOG_LEVEL: "warn",
  });
  const ready = await worker.ready();
  return { worker, instance: String(ready["worker"]), metrics: String(ready["metrics"]) };
}

/** The families of one program as docs/metrics.md lists them: `name kind`. */
function documentedMetricFamilies(program: "Scheduler" | "Worker"): string[] {
  const page = readFileSync(join(repositoryRoot, "docs", "metrics.md"), "utf8");
  const from = page.indexOf(`\n## ${program}`);
  const part = page.slice(from, page.indexOf("\n## ", from + 1));
  return [...part.matchAll(/^\| `([a-z_*]+)` \| (\w+) \|/gm)].map(([, name, kind]) => `${name} ${kind}`);
}

const scrapedMetricFamilies = (text: string): string[] =>
  [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, kind]) => `${name} ${kind}`);

it("[A26] the metrics of scheduler and worker after a run have exactly the families that docs/metrics.md lists", async () => {
  const { http, ws } = await startScheduler();
  const { metrics } = await startWorkerWithMetrics(ws);
  const api = new SchedulerApi(http);
  const { runId } = await api.startRun(textChainWorkflow("x"), "k");
  await api.waitForRunEnd(runId);

  const scheduler = await (await api.send("GET", "/metrics")).text();
  const worker = await (await fetch(new URL("/metrics", metrics))).text();

  expect(scrapedMetricFamilies(scheduler).toSorted()).toEqual(documentedMetricFamilies("Scheduler").toSorted());
  const vitals = (family: string) => /^worker_\w+ gauge$/.test(family);
  expect(
    scrapedMetricFamilies(worker)
      .filter((family) => !vitals(family))
      .concat("worker_* gauge")
      .toSorted(),
  ).toEqual(documentedMetricFamilies("Worker").toSorted());
  expect(scrapedMetricFamilies(worker).some(vitals)).toBe(true);
  for (const line of [
    /^ws_conn_active\{tenant="default"\} 1$/m,
    /^ws_frame_bytes_total\{tenant="default",dir="out"\} [1-9]/m,
    /^cmd_dispatch_total\{tenant="default",node_type="demo\.text"\} 1$/m,
    /^result_latency_ms_count\{tenant="default",node_type="demo\.text"\} 1$/m,
    /^workers\{tenant="default",state="online"\} 1$/m,
    /^queue_depth\{tenant="default"\} 0$/m,
  ])
    expect(scheduler).toMatch(line);
  expect(worker).toMatch(/^task_duration_ms_count\{node_type="demo\.text"\} 1$/m);
});

it("[A23] the diagnostics of a working worker show its attempts, handlers, resources and outbox, and /scaling counts its slot as wanted", async () => {
  const { http, ws } = await startScheduler({ flags: ["--heartbeat", "500", "--lease", "10000"] });
  const { instance } = await startWorkerWithMetrics(ws);
  const api = new SchedulerApi(http);
  const { runId } = await api.startRun(sleepingWorkflow(600_000), "k");

  const path = `/api/v1/workers/${instance}/diagnostics`;
  const seen = await pollUntil("a heartbeat that names the attempt", async () => {
    const now = await api.get<WorkerDiagnostics>(path);
    // On a loaded machine a beat may be missed: the picture is taken at one that came.
    return now.attempts.length === 1 && now.resources["inflight"] === 1 && now.worker.liveness === "fresh" ? now : null;
  });

  expect(seen).toMatchObject({
    worker: { id: "w-1", status: "online", liveness: "fresh", draining: false, saturated: false },
    session: { phase: "online", dialect: "v2" },
    attempts: [
      { runId, taskId: expect.stringContaining(runId), nodeType: expect.stringContaining("demo."), fence: expect.any(Number) },
    ],
    outbox: 0,
  });
  expect(seen.handlers).toContainEqual(
    expect.objectContaining({ package: "demo", version: "1.0.0", runtime: "node", nodeType: "demo.text" }),
  );
  expect(await api.get<Scaling>("/api/v1/scaling")).toMatchObject({
    queued: 0,
    running: 1,
    wantedSlots: 1,
    workers: { online: 1 },
  });
  const shown = await runAstra(["workers", "diagnose", "w-1"], { ASTRA_URL: http });
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining(runId)]);
});

it("[A24] a kicked worker gets the reason, rejoins with its valid credential and finishes what it held", async () => {
  const { http, ws } = await startScheduler();
  const { worker, instance } = await startWorkerWithMetrics(ws);
  const api = new SchedulerApi(http);
  const { runId } = await api.startRun(sleepingWorkflow(4_000), "k");
  const epochOf = async () => (await api.get<WorkerDiagnostics>(`/api/v1/workers/${instance}/diagnostics`)).session.epoch;
  await api.waitUntilHeld(runId);
  const before = await epochOf();

  expect(await runAstra(["workers", "kick", "w-1", "--yes", "--reason", "its key leaked"], { ASTRA_URL: http })).toMatchObject({
    code: 0,
  });

  const back = await pollUntil("the worker to come back", async () => {
    const now = await api.get<Worker>(`/api/v1/workers/${instance}`);
    return now.status === "online" && (await epochOf()) > before ? now : null;
  });
  expect(back.instanceId).toBe(instance);
  await pollUntil("the reason to be told", async () => worker.stderr().includes("its key leaked"));
  const run = await api.waitForRunEnd(runId);
  expect([run.status, run.nodes?.map(({ attempt }) => attempt)]).toEqual(["succeeded", run.nodes?.map(() => 1)]);
});

it("[A20] a vendor frame reaches a worker's package and the answer reaches the reader, between real processes", async () => {
  const { http, ws } = await startScheduler();
  const { instance } = await startWorkerWithMetrics(ws, join(repositoryRoot, "examples", "extensions"));
  const api = new SchedulerApi(http);
  const reading = await fetch(`${http}/api/v1/extensions/ext.vendor.greeter.answer`, {
    headers: { authorization: "Bearer dev-token" },
  });
  const reader = new SseTestReader(reading.body);
  await withTimeout(
    reader.readUntil(({ events }) => events.some(({ id }) => id !== null)),
    "the stream to open",
    () => reader.text,
  );

  const response = await api.send("POST", "/api/v1/extensions/ext.vendor.greeter.ask", {
    workerId: instance,
    payload: { name: "Ann" },
  });

  expect(response.status).toBe(202);
  const { id } = (await response.json()) as { id: string };
  await withTimeout(
    reader.readUntil(({ text }) => text.includes(id)),
    "the worker's answer",
    () => reader.text,
  );
  expect(reader.text).toMatch(/^event: ext\.vendor\.greeter\.answer$/m);
  await reader.close();
});
