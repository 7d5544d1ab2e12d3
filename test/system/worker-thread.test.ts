import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { WorkerDiagnostics } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { Api, startScheduler } from "./installation.ts";
import { makeFolder, until, within } from "./processes.ts";
import { makeGate, makeRoughPackage, roughRun, startRoughWorker } from "./rough-package.ts";

/** Short, so that a worker that looks dead is taken for dead within the test. */
const leaseMs = 3_000;
const short = { flags: ["--heartbeat", "500", "--lease", String(leaseMs)] };

async function install(words: readonly string[] = []) {
  const scheduler = await startScheduler(short);
  const packagesDir = makeRoughPackage();
  const worker = await startRoughWorker(scheduler.ws, packagesDir, words);
  return { scheduler, api: new Api(scheduler.http), packagesDir, worker };
}

const running = (api: Api, run: string) =>
  until("the handler to block", async () => {
    const [node] = (await api.run(run)).nodes ?? [];
    return (
      JSON.stringify(node ?? {}).includes("blocking") ||
      (await api.facts(run)).some((fact) => JSON.stringify(fact).includes("blocking"))
    );
  });

const beatsOf = async (metrics: string) =>
  Number(/^heartbeat_sent_total (\d+)$/m.exec(await (await fetch(`${metrics}/metrics`)).text())?.[1]);

const typesOf = async (api: Api, run: string) => (await api.facts(run)).map((fact) => fact.type);

describe("a handler that blocks its thread", () => {
  it("[W120] for far longer than the lease does not make its worker look dead: the task is done once, by it", async () => {
    const { api } = await install();
    const { gate, open } = makeGate();
    const { runId } = await api.start(roughRun("block", { gate }), "k");
    await running(api, runId);
    const leaseUntil = async () =>
      Date.parse((await api.get<WorkerDiagnostics>("/api/v1/workers/rough/diagnostics")).session.leaseUntil ?? "");
    const first = await leaseUntil();

    await until("the lease to be renewed for twice its time", async () => (await leaseUntil()) > first + 2 * leaseMs);
    open();
    const run = await api.ended(runId);

    expect(run).toMatchObject({ status: "succeeded", nodes: [{ attempt: 1 }] });
    expect(await typesOf(api, runId)).not.toContain("task.requeued");
  });

  it("[W124] does not hold up a drain: the worker beats on, delivers the result and ends with 0", async () => {
    const { api, worker } = await install(["--metrics-listen", "127.0.0.1:0"]);
    const metrics = String((await worker.ready())["metrics"]);
    const { gate, open } = makeGate();
    const { runId } = await api.start(roughRun("block", { gate }), "k");
    await running(api, runId);

    worker.kill("SIGTERM");
    const phase = await until("the worker to drain", async () => {
      const { session } = (await (await fetch(`${metrics}/inventory`)).json()) as { session: { phase: string } };
      return session.phase === "DRAINING" && session.phase;
    });
    const before = await beatsOf(metrics);
    await until("three more heartbeats", async () => (await beatsOf(metrics)) >= before + 3);
    expect(phase).toBe("DRAINING");
    expect((await api.run(runId)).status).toBe("running");

    open();
    expect(await within(worker.ended, "the end of the drained worker", worker.stderr)).toEqual({ code: 0, signal: null });
    expect(await api.ended(runId)).toMatchObject({ status: "succeeded", nodes: [{ attempt: 1 }] });
    expect(await typesOf(api, runId)).not.toContain("task.requeued");
  });

  it("[W124] is given back at the end of the grace, and ended with its thread", async () => {
    const { api, worker } = await install(["--grace", "300"]);
    const { runId } = await api.start(roughRun("block", { gate: makeGate().gate }), "k");
    await running(api, runId);

    worker.kill("SIGTERM");

    expect(await within(worker.ended, "the end of the blocked worker", worker.stderr)).toEqual({ code: 0, signal: null });
    await until("the task to be given back", async () => (await typesOf(api, runId)).includes("task.requeued"));
  });

  it("[W124] ends the process by force where it sits in a call into the system, after its work was given back", async () => {
    const { api, worker } = await install(["--grace", "300"]);
    const { runId } = await api.start(roughRun("shell", { ms: 60_000 }), "k");
    await running(api, runId);

    worker.kill("SIGTERM");

    expect(await within(worker.ended, "the end of the stuck worker", worker.stderr)).toEqual({ code: null, signal: "SIGKILL" });
    expect(worker.stderr()).toContain("the process kills itself");
    await until("the task to be given back", async () => (await typesOf(api, runId)).includes("task.requeued"));
  });
});

describe("a handler that ends its thread", () => {
  it("[W122] fails its task and no other: the worker goes on in the same session", async () => {
    const { api, worker } = await install();
    const { gate, open } = makeGate();
    open();
    const crashed = await api.start(roughRun("crash"), "k1");

    const first = await api.ended(crashed.runId);
    const second = await api.ended((await api.start(roughRun("block", { gate }), "k2")).runId);

    expect(first).toMatchObject({ status: "failed" });
    expect(JSON.stringify(first)).toContain("nobody catches this");
    expect(second).toMatchObject({ status: "succeeded" });
    expect(worker.isEnded()).toBe(false);
    expect(worker.stderr().match(/"event":"ready"/g)).toHaveLength(1);
  });
});

describe("a worker that is stopped past its lease", () => {
  it("[W150] fences itself when it wakes: its attempt is stopped, its late result changes nothing", async () => {
    const { api, scheduler, packagesDir, worker } = await install();
    const folder = makeFolder();
    const [first, stopped] = [join(folder, "first"), join(folder, "stopped")];
    const { runId } = await api.start(roughRun("once", { first, stopped }), "k");
    await until("the first attempt to begin", async () => existsSync(first));

    worker.kill("SIGSTOP");
    await startRoughWorker(scheduler.ws, packagesDir, [], "spare");
    const run = await api.ended(runId);
    worker.kill("SIGCONT");
    await until("the first attempt to be stopped", async () => existsSync(stopped) && readFileSync(stopped, "utf8") !== "");
    await until(
      "the worker that woke to be back",
      async () => (await api.workers()).items.filter(({ status }) => status === "online").length === 2,
    );

    expect(run).toMatchObject({ status: "succeeded", nodes: [{ attempt: 2, workerName: "spare", result: { by: "second" } }] });
    expect(readFileSync(stopped, "utf8")).toBe("the worker's lease ran out");
    expect(worker.stderr()).toContain('"event":"self-fenced"');
    expect((await typesOf(api, runId)).filter((type) => type === "task.succeeded")).toHaveLength(1);
    expect(await api.run(runId)).toMatchObject({ status: "succeeded", nodes: [{ result: { by: "second" } }] });
  });
});
