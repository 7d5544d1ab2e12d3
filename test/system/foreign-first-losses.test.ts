import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunRef, Worker } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { countStarts, gatedChain, makeGate, sideBySide, startStandIn } from "./foreign/stand-in.ts";
import { Api, type Scheduler, startScheduler } from "./installation.ts";
import { makeFolder, until, within } from "./processes.ts";

async function killAndRestart(scheduler: Scheduler, between: () => Promise<unknown> = async () => undefined): Promise<void> {
  scheduler.process.kill("SIGKILL");
  await scheduler.process.ended;
  await between();
  await startScheduler({ dataDir: scheduler.dataDir, listen: scheduler.listen });
}

const factsOf = async (api: Api, { runId }: RunRef, type: string): Promise<number> =>
  (await api.facts(runId)).filter((fact) => fact.type === type).length;

it("[O64] over kill -9 of the scheduler a worker of the first generation keeps its tasks: it is asked, still has them, and nothing runs twice", async () => {
  const scheduler = await startScheduler();
  const api = new Api(scheduler.http);
  const worker = await startStandIn(scheduler.ws);
  const gate = makeGate();
  const refs = await Promise.all([..."abc"].map((text) => api.start(gatedChain(gate, text), text)));
  await worker.heard("started", 3);

  await killAndRestart(scheduler);
  const { greeting, resumed } = await worker.heard("accepted", 2);
  await worker.heard("still", 3);
  writeFileSync(gate, "");

  expect([worker.lines("reset").map(({ code }) => code), resumed]).toEqual([["E.SESSION.UNKNOWN"], false]);
  expect(greeting).toMatch(/^control\.handshake-[1-9]/);
  for (const [at, ref] of refs.entries()) {
    const run = await api.ended(ref.runId);
    expect(run.nodes?.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect(run.nodes?.at(-1)?.result).toEqual({ text: "ABC".charAt(at) });
    expect(await factsOf(api, ref, "task.succeeded")).toBe(2);
  }
  expect(countStarts(worker.folder)).toEqual(Array(6).fill(1));
  expect(worker.dropped()).toEqual([]);
});

it("[O64] sent away by an operator, it is back at once with its tasks still running, and nothing runs twice", async () => {
  const { http, ws } = await startScheduler();
  const api = new Api(http);
  const worker = await startStandIn(ws);
  const gate = makeGate();
  const ref = await api.start(gatedChain(gate, "kept"), "k");
  await worker.heard("started");

  await api.send("POST", "/api/v1/workers/old-1/kick", { reason: "its key leaked" });
  await worker.heard("accepted", 2);
  await worker.heard("still");
  writeFileSync(gate, "");

  const run = await api.ended(ref.runId);
  expect(run.nodes?.map(({ result, attempt }) => [result, attempt])).toEqual([
    [{ text: "kept" }, 1],
    [{ text: "KEPT" }, 1],
  ]);
  expect(worker.lines("reset").map(({ code }) => code)).toEqual(["E.AUTH.INVALID_TOKEN"]);
  expect(countStarts(worker.folder)).toEqual([1, 1]);
  expect(worker.dropped()).toEqual([]);
});

it("[O64] sent away again and again under load, also while it joins: every task still ends once", async () => {
  const { http, ws } = await startScheduler();
  const api = new Api(http);
  const worker = await startStandIn(ws);
  const nap = (at: number) => sideBySide(["nap", { ms: 5 + ((at * 7) % 40) }], ["nap", { ms: 60 }]);
  const refs = await Promise.all(Array.from({ length: 60 }, (_, at) => api.start(nap(at), `${at}`)));

  for (let round = 2; round <= 7; round += 1) {
    await api.send("POST", "/api/v1/workers/old-1/kick", { reason: "again" });
    await worker.heard("accepted", round);
  }

  for (const [at, ref] of refs.entries()) {
    const run = await api.ended(ref.runId);
    expect([run.status, run.nodes?.[0]?.result]).toEqual(["succeeded", { text: `${5 + ((at * 7) % 40)}` }]);
    expect(await factsOf(api, ref, "task.succeeded")).toBe(2);
  }
  expect(worker.dropped()).toEqual([]);
});

it("[O64] a result that it lost while the scheduler was away is made again under the same attempt, and counts once", async () => {
  const scheduler = await startScheduler();
  const api = new Api(scheduler.http);
  const worker = await startStandIn(scheduler.ws);
  const gate = makeGate();
  const ref = await api.start(gatedChain(gate, "again"), "k");
  await worker.heard("started");

  await killAndRestart(scheduler, () => {
    writeFileSync(gate, "");
    return worker.heard("lost");
  });

  const run = await api.ended(ref.runId);
  expect(run.nodes?.map(({ status, attempt }) => [status, attempt])).toEqual([
    ["succeeded", 1],
    ["succeeded", 1],
  ]);
  expect(run.nodes?.at(-1)?.result).toEqual({ text: "AGAIN" });
  expect(await factsOf(api, ref, "task.succeeded")).toBe(2);
  expect(countStarts(worker.folder)).toEqual([1, 2]);
  expect(worker.dropped()).toEqual([]);
});

it("[O64] kill -9 of the worker itself: its next process is known by its counter, and its tasks go back at once", async () => {
  const { http, ws } = await startScheduler();
  const api = new Api(http);
  const folder = makeFolder();
  const gate = makeGate();
  const first = await startStandIn(ws, { folder });
  const ref = await api.start(gatedChain(gate, "x"), "k");
  await first.heard("started");

  first.kill("SIGKILL");
  await first.ended;
  const second = await startStandIn(ws, { folder });
  // Its lease would have lasted for 105 s; no test waits as long.
  await second.heard("started");
  writeFileSync(gate, "");

  expect((await api.ended(ref.runId)).nodes?.map(({ attempt }) => attempt)).toEqual([2, 1]);
  expect((await api.workers()).items).toHaveLength(1);
  expect(countStarts(folder)).toEqual([1, 2]);
  expect([...first.dropped(), ...second.dropped()]).toEqual([]);
});

it("[O65] three heartbeat periods of silence, as its tenant has them, and it is lost: its work goes elsewhere, its late word changes nothing", async () => {
  const folder = makeFolder();
  const config = join(folder, "config.json");
  writeFileSync(config, JSON.stringify({ tenants: { default: { quietHeartbeat: 1_000, quietLease: 3_000 } } }));
  const { http, ws } = await startScheduler({ flags: ["--config", config] });
  const api = new Api(http);
  const [silent, spare] = [
    await startStandIn(ws, { name: "silent", beatMs: 200 }),
    await startStandIn(ws, { name: "spare", beatMs: 200, slots: 1 }),
  ];
  const gate = makeGate();
  const busy = await api.start(gatedChain(gate, "busy"), "busy");
  const workerOf = async ({ runId }: RunRef) => (await api.run(runId)).nodes?.[0]?.workerName;
  await until("somebody to start", async () => silent.lines("started").length + spare.lines("started").length === 1);
  const isSpares = (await workerOf(busy)) === "spare";
  const [holder, other] = isSpares ? [spare, silent] : [silent, spare];

  holder.kill("SIGSTOP");
  await other.heard("started");
  const name = isSpares ? "spare" : "silent";
  expect((await api.get<Worker>(`/api/v1/workers/${name}`)).status).toBe("lost");
  writeFileSync(gate, "");
  const run = await api.ended(busy.runId);
  holder.kill("SIGCONT");
  // It finds its session over, comes back, and gets work again.
  await holder.heard("accepted", 2);
  await until("it to be there again", async () => (await api.get<Worker>(`/api/v1/workers/${name}`)).status === "online");

  expect(run.nodes?.[0]).toMatchObject({ status: "succeeded", attempt: 2, workerName: isSpares ? "silent" : "spare" });
  expect(await factsOf(api, busy, "task.succeeded")).toBe(2);
  other.kill("SIGKILL");
  const last = await api.start(sideBySide(["upper", { text: "back" }]), "last");
  expect((await api.ended(last.runId)).nodes?.[0]).toMatchObject({ result: { text: "BACK" }, workerName: name });
  expect([...silent.dropped(), ...spare.dropped()]).toEqual([]);
});

it("[O65] a heartbeat of any kind keeps it, though its tasks take longer than its lease", async () => {
  const folder = makeFolder();
  const config = join(folder, "config.json");
  writeFileSync(config, JSON.stringify({ tenants: { default: { quietHeartbeat: 1_000, quietLease: 3_000 } } }));
  const { http, ws } = await startScheduler({ flags: ["--config", config] });
  const api = new Api(http);
  const worker = await startStandIn(ws, { beatMs: 200 });
  const gate = makeGate();
  const { runId } = await api.start(gatedChain(gate, "long"), "k");
  await worker.heard("started");
  const leaseUntil = async () =>
    Date.parse((await api.get<{ session: { leaseUntil: string } }>("/api/v1/workers/old-1/diagnostics")).session.leaseUntil);
  const first = await leaseUntil();

  await within(
    until("the first lease to be over and renewed", async () => Date.now() > first + 500 && (await leaseUntil()) > first),
    "a renewed lease",
  );
  writeFileSync(gate, "");

  expect((await api.ended(runId)).nodes?.map(({ attempt }) => attempt)).toEqual([1, 1]);
  expect([worker.lines("accepted").length, worker.dropped()]).toEqual([1, []]);
});
