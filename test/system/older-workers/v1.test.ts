import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Worker, WorkerDiagnostics } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, withTimeout } from "../harness/processes.ts";
import { expectSixChainsOnTwoSlots } from "./six-chains.ts";
import {
  countStarts,
  gatedChainWorkflow,
  makeGatePath,
  parallelWorkflow,
  type StandIn,
  type StandInOptions,
  spawnStandIn,
  startStandIn,
} from "./stand-in.ts";

const start = (ws: string, options: StandInOptions = {}): Promise<StandIn> => startStandIn(ws, { dialect: "v1", ...options });

it("[O66] an unmodified v1 worker gets work, never more at once than it has slots, and its values arrive", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await start(ws, { slots: 2 });

  await expectSixChainsOnTwoSlots(api, worker);

  const { session } = await api.get<WorkerDiagnostics>("/api/v1/workers/old-1/diagnostics");
  expect(session).toMatchObject({ phase: "online", dialect: "v1" });
  expect([worker.lines("still"), worker.droppedFrames()]).toEqual([[], []]);
});

it("[O66] two v1 workers share a run: their results arrive in any order, and none is treated as a gap", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const workers = [await start(ws, { name: "east", slots: 2 }), await start(ws, { name: "west", slots: 2 })];
  const gates = Array.from({ length: 4 }, makeGatePath);

  const { runId } = await api.startRun(
    parallelWorkflow(...gates.map((gate, at) => ["gate", { gate, text: `${at}` }] as const)),
    "k",
  );
  await Promise.all(workers.map((worker) => worker.waitForLine("started", 2)));
  for (const [at, gate] of [...gates.entries()].toReversed()) {
    writeFileSync(gate, "");
    await pollUntil(`node ${at} to end`, async () => (await api.getRun(runId)).nodes?.[at]?.status === "succeeded");
  }

  const run = await api.waitForRunEnd(runId);
  expect(run.nodes?.map(({ result }) => result)).toEqual([0, 1, 2, 3].map((at) => ({ text: `${at}` })));
  expect(workers.flatMap((worker) => [...worker.lines("reset"), ...worker.droppedFrames()])).toEqual([]);
});

it("[O66] a v1 worker's command.error fails the node it is about, its call is answered, and an unknown frame ends nothing", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await start(ws);

  const failing = await api.startRun(
    parallelWorkflow(["fail", { message: "no such table" }], ["gate", { gate: makeGatePath() }]),
    "failing",
  );
  const call = await api.startRun(parallelWorkflow(["next", {}]), "call");
  const odd = await api.startRun(parallelWorkflow(["babble", {}]), "odd");

  expect((await api.waitForRunEnd(failing.runId)).nodes?.[0]).toMatchObject({
    status: "failed",
    error: { code: "E.RUNNER.FAILURE" },
  });
  expect((await api.waitForRunEnd(failing.runId)).nodes?.[1]?.status).not.toBe("failed");
  expect((await api.waitForRunEnd(call.runId)).nodes?.[0]?.result).toMatchObject({
    answer: { error: { code: "next_no_chain" } },
  });
  expect((await api.waitForRunEnd(odd.runId)).nodes?.[0]?.result).toEqual({ text: "said" });
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O66] a v1 worker obeys a drain and works again after it; with a wrong token it gets the reason and the socket closes", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await start(ws);

  await api.send("POST", "/api/v1/workers/old-1/drain");
  await worker.waitForLine("draining");
  const { runId } = await api.startRun(parallelWorkflow(["upper", { text: "later" }]), "later");
  expect((await api.getRun(runId)).status).toBe("queued");
  await api.send("POST", "/api/v1/workers/old-1/undrain");
  expect((await api.waitForRunEnd(runId)).nodes?.[0]?.result).toEqual({ text: "LATER" });

  const stranger = spawnStandIn(ws, { dialect: "v1", name: "stranger", token: "not-the-token" });
  await withTimeout(stranger.ended, "the end of the stranger");
  expect(stranger.lines("reset").map(({ code }) => code)).toEqual(["E.AUTH.INVALID_TOKEN"]);
});

it("[O67] a v1 worker ends on kill -9 of the scheduler; after its restart it gets its tasks back at once, and each counts once", async () => {
  const scheduler = await startScheduler();
  const api = new SchedulerApi(scheduler.http);
  const folder = makeTemporaryFolder();
  const gate = makeGatePath();
  const first = await start(scheduler.ws, { folder });
  const refs = await Promise.all([..."ab"].map((text) => api.startRun(gatedChainWorkflow(gate, text), text)));
  await first.waitForLine("started", 2);

  scheduler.process.kill("SIGKILL");
  await withTimeout(first.ended, "the end of the worker");
  await startScheduler({ dataDir: scheduler.dataDir, listen: scheduler.listen });
  const second = await start(scheduler.ws, { folder });
  await second.waitForLine("started", 2);
  writeFileSync(gate, "");

  for (const [at, { runId }] of refs.entries()) {
    const run = await api.waitForRunEnd(runId);
    expect(run.nodes?.map(({ attempt }) => attempt)).toEqual([2, 1]);
    expect(run.nodes?.at(-1)?.result).toEqual({ text: "AB".charAt(at) });
    expect((await api.listRunFacts(runId)).filter(({ type }) => type === "task.succeeded")).toHaveLength(2);
  }
  expect(countStarts(folder)).toEqual([1, 1, 2, 2]);
  expect([...first.droppedFrames(), ...second.droppedFrames()]).toEqual([]);
});

it("[O67] after kill -9 of a v1 worker its next process gets its tasks at once; silent for three periods it is lost, and another gets them", async () => {
  const config = join(makeTemporaryFolder(), "config.json");
  writeFileSync(config, JSON.stringify({ tenants: { default: { quietHeartbeat: 1_000, quietLease: 3_000 } } }));
  const { http, ws } = await startScheduler({ flags: ["--config", config] });
  const api = new SchedulerApi(http);
  const folder = makeTemporaryFolder();
  const gate = makeGatePath();
  const first = await start(ws, { folder, name: "twice", beatMs: 200 });
  const { runId } = await api.startRun(gatedChainWorkflow(gate, "x"), "k");
  await first.waitForLine("started");

  first.kill("SIGKILL");
  await first.ended;
  const second = await start(ws, { folder, name: "twice", beatMs: 200 });
  await second.waitForLine("started");
  const spare = await start(ws, { folder, name: "spare", beatMs: 200 });
  second.kill("SIGSTOP");
  await spare.waitForLine("started");
  expect((await api.get<Worker>("/api/v1/workers/twice")).status).toBe("lost");
  writeFileSync(gate, "");

  const run = await api.waitForRunEnd(runId);
  expect(run.nodes?.[0]).toMatchObject({ status: "succeeded", attempt: 3, workerName: "spare" });
  expect([first, second, spare].flatMap((worker) => worker.droppedFrames())).toEqual([]);
});
