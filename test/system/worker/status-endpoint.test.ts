import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import {
  makeGateFile,
  makeMisbehavingPackage,
  misbehavingWorkflow,
  startMisbehavingWorker,
} from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder, pollUntil, runAstra, waitMsMax } from "../harness/processes.ts";

describe("a worker with --metrics-listen", () => {
  it("[W136] a worker with --metrics-listen names the address in its ready line and answers there while a handler blocks", async () => {
    const scheduler = await startScheduler({ flags: ["--heartbeat", "500", "--lease", "10000"] });
    const api = new SchedulerApi(scheduler.http);
    const worker = await startMisbehavingWorker(scheduler.ws, makeMisbehavingPackage(), ["--metrics-listen", "127.0.0.1:0"]);
    const { metrics } = await worker.ready();
    const get = (path: string) => fetch(`${String(metrics)}${path}`, { signal: AbortSignal.timeout(waitMsMax) });
    const inventory = async () => (await (await get("/inventory")).json()) as Record<string, object[]>;
    expect(metrics).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);

    const { gate, open } = makeGateFile();
    const { runId } = await api.startRun(misbehavingWorkflow("block", { gate }), "k");
    const busy = await pollUntil("the attempt in the inventory", async () => {
      const seen = await inventory();
      return seen["running"]?.length === 1 && seen;
    });

    expect(busy).toMatchObject({
      session: { phase: "READY" },
      handlers: expect.arrayContaining([
        { package: "rough", version: "1.0.0", runtime: "node", nodeType: "rough.block", capabilities: ["rough.all"] },
      ]) as object[],
      running: [{ run: runId, phase: "running" }],
      resources: { mem_pct: expect.any(Number) as number, disk_pct: expect.any(Number) as number },
      outbox: { length: 0, isWritable: true },
    });
    expect((await get("/healthz")).status).toBe(200);
    expect(await (await get("/metrics")).text()).toMatch(/^inflight_tasks 1$/m);
    const beats = async () => /^heartbeat_sent_total [1-9]/m.test(await (await get("/metrics")).text());
    await pollUntil("a heartbeat while the handler blocks", beats);
    open();
    await api.waitForRunEnd(runId);
    const text = await (await get("/metrics")).text();
    expect(text).toContain('task_duration_ms_bucket{node_type="rough.block",le="+Inf"} 1');
  });

  it("[W137] a worker whose --metrics-listen address cannot be used exits with 2 and an error message", async () => {
    const scheduler = await startScheduler();
    const { host } = new URL(scheduler.http);

    const { code, stderr } = await runAstra([
      "worker",
      "--token",
      "dev-token",
      "--data-dir",
      makeTemporaryFolder(),
      "--metrics-listen",
      host,
    ]);

    expect(code).toBe(2);
    expect(stderr).toContain(`error E.CONFIG.INVALID: --metrics-listen ${host} cannot be used: `);
  });
});

describe("a worker in one thread", () => {
  it("[W125] a worker with --threads 0 does the same work in one thread", async () => {
    const scheduler = await startScheduler();
    const api = new SchedulerApi(scheduler.http);
    await startMisbehavingWorker(scheduler.ws, makeMisbehavingPackage(), ["--threads", "0"]);

    const { gate, open } = makeGateFile();
    open();

    const run = await api.waitForRunEnd((await api.startRun(misbehavingWorkflow("block", { gate }), "k")).runId);

    expect(run).toMatchObject({ status: "succeeded", nodes: [{ result: { was: "blocked" } }] });
  });
});
