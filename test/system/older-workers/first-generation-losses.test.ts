import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunRef, Worker } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler, type TestScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, pollUntil, withTimeout } from "../harness/processes.ts";
import { countStarts, gatedChainWorkflow, makeGatePath, parallelWorkflow, showGeneration, startStandIn } from "./stand-in.ts";

async function killAndRestart(scheduler: TestScheduler, between: () => Promise<unknown> = async () => undefined): Promise<void> {
  scheduler.process.kill("SIGKILL");
  await scheduler.process.ended;
  await between();
  await startScheduler({ dataDir: scheduler.dataDir, listen: scheduler.listen });
}

const factsOf = async (api: SchedulerApi, { runId }: RunRef, type: string): Promise<number> =>
  (await api.listRunFacts(runId)).filter((fact) => fact.type === type).length;

it("[O64] a first-generation worker keeps its tasks over kill -9 of the scheduler: it reports them as still running, and nothing runs twice", async () => {
  const scheduler = await startScheduler();
  const api = new SchedulerApi(scheduler.http);
  const worker = await startStandIn(scheduler.ws);
  await showGeneration(api);
  const gate = makeGatePath();
  const refs = await Promise.all([..."abc"].map((text) => api.startRun(gatedChainWorkflow(gate, text), text)));
  await worker.waitForLine("started", 4);

  await killAndRestart(scheduler);
  const { greeting, resumed } = await worker.waitForLine("accepted", 2);
  await worker.waitForLine("still", 3);
  writeFileSync(gate, "");

  expect([worker.lines("reset").map(({ code }) => code), resumed]).toEqual([["E.SESSION.UNKNOWN"], false]);
  expect(greeting).toMatch(/^control\.handshake-[1-9]/);
  for (const [at, ref] of refs.entries()) {
    const run = await api.waitForRunEnd(ref.runId);
    expect(run.nodes?.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect(run.nodes?.at(-1)?.result).toEqual({ text: "ABC".charAt(at) });
    expect(await factsOf(api, ref, "task.succeeded")).toBe(2);
  }
  expect(countStarts(worker.folder)).toEqual(Array(7).fill(1));
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O64] a first-generation worker kicked by an operator rejoins at once with its tasks still running, and nothing runs twice", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws);
  const gate = makeGatePath();
  const ref = await api.startRun(gatedChainWorkflow(gate, "kept"), "k");
  await worker.waitForLine("started");

  await api.send("POST", "/api/v1/workers/old-1/kick", { reason: "its key leaked" });
  await worker.waitForLine("accepted", 2);
  await worker.waitForLine("still");
  writeFileSync(gate, "");

  const run = await api.waitForRunEnd(ref.runId);
  expect(run.nodes?.map(({ result, attempt }) => [result, attempt])).toEqual([
    [{ text: "kept" }, 1],
    [{ text: "KEPT" }, 1],
  ]);
  expect(worker.lines("reset").map(({ code }) => code)).toEqual(["E.AUTH.INVALID_TOKEN"]);
  expect(countStarts(worker.folder)).toEqual([1, 1]);
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O64] every task of a first-generation worker ends once, although the worker is kicked repeatedly under load, also while it joins", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws);
  const nap = (at: number) => parallelWorkflow(["nap", { ms: 5 + ((at * 7) % 40) }], ["nap", { ms: 60 }]);
  const refs = await Promise.all(Array.from({ length: 60 }, (_, at) => api.startRun(nap(at), `${at}`)));

  for (let round = 2; round <= 7; round += 1) {
    await api.send("POST", "/api/v1/workers/old-1/kick", { reason: "again" });
    await worker.waitForLine("accepted", round);
  }

  for (const [at, ref] of refs.entries()) {
    const run = await api.waitForRunEnd(ref.runId);
    expect([run.status, run.nodes?.[0]?.result]).toEqual(["succeeded", { text: `${5 + ((at * 7) % 40)}` }]);
    expect(await factsOf(api, ref, "task.succeeded")).toBe(2);
  }
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O64] a result that a first-generation worker lost while the scheduler was away is produced again as attempt 2 and counts once", async () => {
  const scheduler = await startScheduler();
  const api = new SchedulerApi(scheduler.http);
  const worker = await startStandIn(scheduler.ws);
  const gate = makeGatePath();
  const ref = await api.startRun(gatedChainWorkflow(gate, "again"), "k");
  await worker.waitForLine("started");

  await killAndRestart(scheduler, () => {
    writeFileSync(gate, "");
    return worker.waitForLine("lost");
  });

  const run = await api.waitForRunEnd(ref.runId);
  expect(run.nodes?.map(({ status, attempt }) => [status, attempt])).toEqual([
    ["succeeded", 2],
    ["succeeded", 1],
  ]);
  expect(run.nodes?.at(-1)?.result).toEqual({ text: "AGAIN" });
  expect(await factsOf(api, ref, "task.succeeded")).toBe(2);
  expect(countStarts(worker.folder)).toEqual([1, 2]);
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O64] after kill -9 of a first-generation worker its next process is recognized by its counter, and its tasks are requeued at once", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const folder = makeTemporaryFolder();
  const gate = makeGatePath();
  const first = await startStandIn(ws, { folder });
  const ref = await api.startRun(gatedChainWorkflow(gate, "x"), "k");
  await first.waitForLine("started");

  first.kill("SIGKILL");
  await first.ended;
  const second = await startStandIn(ws, { folder });
  // Its lease would have lasted for 105 s; no test waits as long.
  await second.waitForLine("started");
  writeFileSync(gate, "");

  expect((await api.waitForRunEnd(ref.runId)).nodes?.map(({ attempt }) => attempt)).toEqual([2, 1]);
  expect((await api.listWorkers()).items).toHaveLength(1);
  expect(countStarts(folder)).toEqual([1, 2]);
  expect([...first.droppedFrames(), ...second.droppedFrames()]).toEqual([]);
});

it("[O65] a first-generation worker silent for three of its tenant's heartbeat periods is lost: another gets its work, its late report changes nothing", async () => {
  const folder = makeTemporaryFolder();
  const config = join(folder, "config.json");
  writeFileSync(config, JSON.stringify({ tenants: { default: { quietHeartbeat: 1_000, quietLease: 3_000 } } }));
  const { http, ws } = await startScheduler({ flags: ["--config", config] });
  const api = new SchedulerApi(http);
  const [silent, spare] = [
    await startStandIn(ws, { name: "silent", beatMs: 200 }),
    await startStandIn(ws, { name: "spare", beatMs: 200, slots: 1 }),
  ];
  const gate = makeGatePath();
  const busy = await api.startRun(gatedChainWorkflow(gate, "busy"), "busy");
  const workerOf = async ({ runId }: RunRef) => (await api.getRun(runId)).nodes?.[0]?.workerName;
  await pollUntil("somebody to start", async () => silent.lines("started").length + spare.lines("started").length === 1);
  const isSpares = (await workerOf(busy)) === "spare";
  const [holder, other] = isSpares ? [spare, silent] : [silent, spare];

  holder.kill("SIGSTOP");
  await other.waitForLine("started");
  const name = isSpares ? "spare" : "silent";
  expect((await api.get<Worker>(`/api/v1/workers/${name}`)).status).toBe("lost");
  writeFileSync(gate, "");
  const run = await api.waitForRunEnd(busy.runId);
  holder.kill("SIGCONT");
  // It finds its session over, comes back, and gets work again.
  await holder.waitForLine("accepted", 2);
  await pollUntil("it to be there again", async () => (await api.get<Worker>(`/api/v1/workers/${name}`)).status === "online");

  expect(run.nodes?.[0]).toMatchObject({ status: "succeeded", attempt: 2, workerName: isSpares ? "silent" : "spare" });
  expect(await factsOf(api, busy, "task.succeeded")).toBe(2);
  other.kill("SIGKILL");
  const last = await api.startRun(parallelWorkflow(["upper", { text: "back" }]), "last");
  expect((await api.waitForRunEnd(last.runId)).nodes?.[0]).toMatchObject({ result: { text: "BACK" }, workerName: name });
  expect([...silent.droppedFrames(), ...spare.droppedFrames()]).toEqual([]);
});

it("[O65] any heartbeat keeps a first-generation worker's lease, though its tasks take longer than the lease", async () => {
  const folder = makeTemporaryFolder();
  const config = join(folder, "config.json");
  writeFileSync(config, JSON.stringify({ tenants: { default: { quietHeartbeat: 1_000, quietLease: 3_000 } } }));
  const { http, ws } = await startScheduler({ flags: ["--config", config] });
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws, { beatMs: 200 });
  const gate = makeGatePath();
  const { runId } = await api.startRun(gatedChainWorkflow(gate, "long"), "k");
  await worker.waitForLine("started");
  const leaseUntil = async () =>
    Date.parse((await api.get<{ session: { leaseUntil: string } }>("/api/v1/workers/old-1/diagnostics")).session.leaseUntil);
  const first = await leaseUntil();

  await withTimeout(
    pollUntil("the first lease to be over and renewed", async () => Date.now() > first + 500 && (await leaseUntil()) > first),
    "a renewed lease",
  );
  writeFileSync(gate, "");

  expect((await api.waitForRunEnd(runId)).nodes?.map(({ attempt }) => attempt)).toEqual([1, 1]);
  expect([worker.lines("accepted").length, worker.droppedFrames()]).toEqual([1, []]);
});
