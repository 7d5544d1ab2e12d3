import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { WorkerDiagnostics } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import {
  makeGateFile,
  makeMisbehavingPackage,
  misbehavingWorkflow,
  startMisbehavingWorker,
} from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder, pollUntil, withTimeout } from "../harness/processes.ts";

/** Short, so that a worker that looks dead is taken for dead within the test. */
const leaseMs = 3_000;
const shortLease = { flags: ["--heartbeat", "500", "--lease", String(leaseMs)] };

async function startInstallation(args: readonly string[] = []) {
  const scheduler = await startScheduler(shortLease);
  const packagesDir = makeMisbehavingPackage();
  const worker = await startMisbehavingWorker(scheduler.ws, packagesDir, ["--node-host", "thread", ...args]);
  return { scheduler, api: new SchedulerApi(scheduler.http), packagesDir, worker };
}

const waitUntilRunning = (api: SchedulerApi, run: string) =>
  pollUntil("the handler to block", async () => {
    const [node] = (await api.getRun(run)).nodes ?? [];
    return (
      JSON.stringify(node ?? {}).includes("blocking") ||
      (await api.listRunFacts(run)).some((fact) => JSON.stringify(fact).includes("blocking"))
    );
  });

const countHeartbeats = async (metrics: string) =>
  Number(/^heartbeat_sent_total (\d+)$/m.exec(await (await fetch(`${metrics}/metrics`)).text())?.[1]);

const factTypes = async (api: SchedulerApi, run: string) => (await api.listRunFacts(run)).map((fact) => fact.type);

describe("a handler that blocks its thread", () => {
  it("[W120] a handler that blocks its thread for far longer than the lease does not get its worker lost: the worker completes the task once", async () => {
    const { api } = await startInstallation();
    const { gate, open } = makeGateFile();
    const { runId } = await api.startRun(misbehavingWorkflow("block", { gate }), "k");
    await waitUntilRunning(api, runId);
    const leaseUntil = async () =>
      Date.parse((await api.get<WorkerDiagnostics>("/api/v1/workers/rough/diagnostics")).session.leaseUntil ?? "");
    const first = await leaseUntil();

    await pollUntil("the lease to be renewed for twice its time", async () => (await leaseUntil()) > first + 2 * leaseMs);
    open();
    const run = await api.waitForRunEnd(runId);

    expect(run).toMatchObject({ status: "succeeded", nodes: [{ attempt: 1 }] });
    expect(await factTypes(api, runId)).not.toContain("task.requeued");
  });

  it("[W124] a handler that blocks its thread does not stop a drain: the worker sends heartbeats, delivers the result and exits with 0", async () => {
    const { api, worker } = await startInstallation(["--metrics-listen", "127.0.0.1:0"]);
    const metrics = String((await worker.ready())["metrics"]);
    const { gate, open } = makeGateFile();
    const { runId } = await api.startRun(misbehavingWorkflow("block", { gate }), "k");
    await waitUntilRunning(api, runId);

    worker.kill("SIGTERM");
    const phase = await pollUntil("the worker to drain", async () => {
      const { session } = (await (await fetch(`${metrics}/inventory`)).json()) as { session: { phase: string } };
      return session.phase === "DRAINING" && session.phase;
    });
    const before = await countHeartbeats(metrics);
    await pollUntil("three more heartbeats", async () => (await countHeartbeats(metrics)) >= before + 3);
    expect(phase).toBe("DRAINING");
    expect((await api.getRun(runId)).status).toBe("running");

    open();
    expect(await withTimeout(worker.ended, "the end of the drained worker", worker.stderr)).toEqual({ code: 0, signal: null });
    expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded", nodes: [{ attempt: 1 }] });
    expect(await factTypes(api, runId)).not.toContain("task.requeued");
  });

  it("[W124] the task of a handler that blocks its thread is handed back at the end of the grace period, and the thread is ended", async () => {
    const { api, worker } = await startInstallation(["--grace", "300"]);
    const { runId } = await api.startRun(misbehavingWorkflow("block", { gate: makeGateFile().gate }), "k");
    await waitUntilRunning(api, runId);

    worker.kill("SIGTERM");

    expect(await withTimeout(worker.ended, "the end of the blocked worker", worker.stderr)).toEqual({ code: 0, signal: null });
    await pollUntil("the task to be given back", async () => (await factTypes(api, runId)).includes("task.requeued"));
  });

  it("[W124] a worker whose handler is stuck in a system call kills its own process after the task was handed back", async () => {
    const { api, worker } = await startInstallation(["--grace", "300"]);
    const { runId } = await api.startRun(misbehavingWorkflow("shell", { ms: 60_000 }), "k");
    await waitUntilRunning(api, runId);

    worker.kill("SIGTERM");

    expect(await withTimeout(worker.ended, "the end of the stuck worker", worker.stderr)).toEqual({
      code: null,
      signal: "SIGKILL",
    });
    expect(worker.stderr()).toContain("killing the process");
    await pollUntil("the task to be given back", async () => (await factTypes(api, runId)).includes("task.requeued"));
  });
});

describe("a handler that ends its thread", () => {
  it("[W122] a handler that ends its thread fails only its own task, and the worker continues in the same session", async () => {
    const { api, worker } = await startInstallation();
    const { gate, open } = makeGateFile();
    open();
    const crashed = await api.startRun(misbehavingWorkflow("crash"), "k1");

    const first = await api.waitForRunEnd(crashed.runId);
    const second = await api.waitForRunEnd((await api.startRun(misbehavingWorkflow("block", { gate }), "k2")).runId);

    expect(first).toMatchObject({ status: "failed" });
    expect(JSON.stringify(first)).toContain("nobody catches this");
    expect(second).toMatchObject({ status: "succeeded" });
    expect(worker.hasEnded()).toBe(false);
    expect(worker.stderr().match(/"event":"ready"/g)).toHaveLength(1);
  });
});

describe("a worker that is stopped past its lease", () => {
  it("[W150] a worker that is stopped past its lease fences itself when it wakes: its attempt is stopped, its late result changes nothing", async () => {
    const { api, scheduler, packagesDir, worker } = await startInstallation();
    const folder = makeTemporaryFolder();
    const [first, stopped] = [join(folder, "first"), join(folder, "stopped")];
    const { runId } = await api.startRun(misbehavingWorkflow("once", { first, stopped }), "k");
    await pollUntil("the first attempt to begin", async () => existsSync(first));
    // An attempt whose ack never arrived would give its number to the next.
    await pollUntil("its ack to be stored", async () => (await factTypes(api, runId)).includes("task.running"));

    worker.kill("SIGSTOP");
    await startMisbehavingWorker(scheduler.ws, packagesDir, [], "spare");
    const run = await api.waitForRunEnd(runId);
    worker.kill("SIGCONT");
    await pollUntil("the first attempt to be stopped", async () => existsSync(stopped) && readFileSync(stopped, "utf8") !== "");
    await pollUntil(
      "the worker that woke to be back",
      async () => (await api.listWorkers()).items.filter(({ status }) => status === "online").length === 2,
    );

    expect(run).toMatchObject({ status: "succeeded", nodes: [{ attempt: 2, workerName: "spare", result: { by: "second" } }] });
    expect(readFileSync(stopped, "utf8")).toBe("the worker's lease expired");
    expect(worker.stderr()).toContain('"event":"self-fenced"');
    expect((await factTypes(api, runId)).filter((type) => type === "task.succeeded")).toHaveLength(1);
    expect(await api.getRun(runId)).toMatchObject({ status: "succeeded", nodes: [{ result: { by: "second" } }] });
  });
});
