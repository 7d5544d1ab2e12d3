import { writeFileSync } from "node:fs";
import type { WorkerDiagnostics } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { pollUntil, withTimeout } from "../harness/processes.ts";
import { expectSixChainsOnTwoSlots } from "./six-chains.ts";
import { gatedChainWorkflow, makeGatePath, parallelWorkflow, showGeneration, spawnStandIn, startStandIn } from "./stand-in.ts";

it("[O62] an unmodified first-generation worker gets work, never more at once than it has slots, and its values arrive", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws, { slots: 2 });
  await showGeneration(api);

  await expectSixChainsOnTwoSlots(api, worker, 1);

  const { session, handlers } = await api.get<WorkerDiagnostics>("/api/v1/workers/old-1/diagnostics");
  expect(session).toMatchObject({ phase: "online", dialect: "first" });
  expect(handlers).toContainEqual(expect.objectContaining({ package: "foreign", runtime: "python", nodeType: "foreign.upper" }));
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O62] an error from a first-generation worker fails only the node it is about, and a result with the status failed fails its node", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws);
  await showGeneration(api);
  const gate = makeGatePath();

  const thrown = await api.startRun(
    parallelWorkflow(["gate", { gate, text: "x" }], ["fail", { message: "no such table" }]),
    "thrown",
  );
  const refused = await api.startRun(parallelWorkflow(["refuse", { message: "not today" }]), "said");

  const [first, second] = [await api.waitForRunEnd(thrown.runId), await api.waitForRunEnd(refused.runId)];
  expect(first.status).toBe("failed");
  expect(first.nodes?.map(({ status, error }) => [status, error?.code])).toEqual([
    [expect.not.stringMatching("failed"), expect.not.stringMatching("E.RUNNER.FAILURE")],
    ["failed", "E.RUNNER.FAILURE"],
  ]);
  expect(first.nodes?.[1]?.error?.message).toContain("no such table");
  expect(second.nodes?.[0]).toMatchObject({ status: "failed", result: { error: "not today" } });
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O62] a failure that a first-generation worker cannot report ends with the node's time limit", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws, { slots: 2 });

  const { runId } = await api.startRun(parallelWorkflow(["fail", { message: "" }, { timeoutMs: 500 }]), "k");

  expect((await api.waitForRunEnd(runId)).nodes?.[0]).toMatchObject({ status: "failed", error: { code: "E.TIMEOUT" } });
  const next = await api.startRun(parallelWorkflow(["upper", { text: "next" }]), "next");
  expect((await api.waitForRunEnd(next.runId)).nodes?.[0]?.result).toEqual({ text: "NEXT" });
  expect([worker.lines("accepted").length, worker.droppedFrames()]).toEqual([1, []]);
});

it("[O62] a first-generation worker's call into a chain is answered, unknown frames end no session, and a frame too large for it is not sent", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws);

  const call = await api.startRun(parallelWorkflow(["next", {}]), "call");
  expect((await api.waitForRunEnd(call.runId)).nodes?.[0]?.result).toMatchObject({
    answer: { error: { code: "next_no_chain" } },
  });
  const odd = await api.startRun(parallelWorkflow(["babble", {}]), "odd");
  expect((await api.waitForRunEnd(odd.runId)).status).toBe("succeeded");
  const response = await api.send("POST", "/api/v1/extensions/ext.vendor.acme.ask", { workerId: "old-1", payload: {} });
  expect([response.status, await worker.waitForLine("ignored")]).toEqual([
    202,
    { event: "ignored", type: "ext.vendor.acme.ask" },
  ]);
  const large = await api.startRun(parallelWorkflow(["upper", { text: "x".repeat(1_100_000) }]), "large");
  expect((await api.waitForRunEnd(large.runId)).nodes?.[0]?.error?.code).toBe("E.FRAME.TOO_LARGE");

  const last = await api.startRun(parallelWorkflow(["upper", { text: "still here" }]), "last");
  expect((await api.waitForRunEnd(last.runId)).nodes?.[0]?.result).toEqual({ text: "STILL HERE" });
  expect([worker.lines("accepted").length, worker.lines("reset"), worker.droppedFrames()]).toEqual([1, [], []]);
});

it("[O62] a first-generation worker with a wrong token gets the reason and ends", async () => {
  const { ws } = await startScheduler();
  const worker = spawnStandIn(ws, { token: "not-the-token" });

  expect(await withTimeout(worker.ended, "the end of the worker")).toEqual({ code: 1, signal: null });
  expect(worker.lines("reset").map(({ code }) => code)).toEqual(["E.AUTH.INVALID_TOKEN", "E.AUTH.INVALID_TOKEN"]);
  expect(worker.droppedFrames()).toEqual([]);
});

it("[O63] a first-generation worker that drains gets nothing new and finishes what it holds, and works again after the drain", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await startStandIn(ws);
  const gate = makeGatePath();
  const held = await api.startRun(gatedChainWorkflow(gate, "held"), "held");
  await worker.waitForLine("started");

  await api.send("POST", "/api/v1/workers/old-1/drain");
  await worker.waitForLine("draining");
  // A free slot that drains gets nothing: otherwise it would have been granted in the turn that answered.
  const later = await api.startRun(parallelWorkflow(["upper", { text: "later" }]), "later");
  expect((await api.getRun(later.runId)).status).toBe("queued");
  writeFileSync(gate, "");
  await pollUntil("the first node to end", async () => (await api.getRun(held.runId)).nodes?.[0]?.status === "succeeded");
  expect((await api.getRun(later.runId)).status).toBe("queued");
  await api.send("POST", "/api/v1/workers/old-1/undrain");

  expect((await api.waitForRunEnd(held.runId)).nodes?.at(-1)?.result).toEqual({ text: "HELD" });
  expect((await api.waitForRunEnd(later.runId)).nodes?.[0]?.result).toEqual({ text: "LATER" });
  expect([worker.lines("accepted").length, worker.droppedFrames()]).toEqual([1, []]);
});

it("[O63] a first-generation worker that is interrupted while it drains hands its work back, and another worker gets it at once", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const gate = makeGatePath();
  const leaving = await startStandIn(ws, { name: "leaving" });
  const { runId } = await api.startRun(gatedChainWorkflow(gate, "x"), "k");
  await leaving.waitForLine("started");
  const staying = await startStandIn(ws, { name: "staying" });

  await api.send("POST", "/api/v1/workers/leaving/drain");
  await leaving.waitForLine("draining");
  leaving.kill("SIGINT");
  await staying.waitForLine("started");
  writeFileSync(gate, "");

  expect((await api.waitForRunEnd(runId)).nodes?.[0]).toMatchObject({ status: "succeeded", workerName: "staying", attempt: 2 });
  expect(await withTimeout(leaving.ended, "the end of the worker")).toEqual({ code: 130, signal: null });
});
