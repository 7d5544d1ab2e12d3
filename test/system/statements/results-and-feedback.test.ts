// Feedback, artifacts and affinity with all their fields, over a real socket, as the API shows them.

import type { Run, RunLog } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { attemptOf, HandDrivenWorker, taskOf } from "../harness/hand-driven-worker.ts";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { makeMisbehavingPackage, misbehavingWorkflow, startMisbehavingWorker } from "../harness/misbehaving-package.ts";
import { pollUntil } from "../harness/processes.ts";
import { sleepingWorkflow, textChainWorkflow } from "../harness/workflows.ts";

it("[O75] feedback over a socket keeps stage, progress, message, metrics and the order of each channel's text and data, and ends nothing", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await HandDrivenWorker.join(ws);
  const { runId } = await api.startRun(sleepingWorkflow(1), "k");
  const dispatch = await worker.takeDispatch();
  const feed = (fields: object) => worker.sendWork("biz.exec.feedback", { ...attemptOf(dispatch), ...fields }, taskOf(dispatch));
  feed({ stage: "waiting_inputs", progress: 0 });
  feed({ stage: "streaming", chunks: [{ channel: "llm", text: "one\n" }] });
  feed({
    progress: 0.75,
    message: "nearly",
    metrics: { loss: 0.2, iterations: 7 },
    chunks: [
      { channel: "llm", text: "two\n" },
      { channel: "stdout", text: "out\n" },
      { channel: "stderr", text: "err\n" },
      { channel: "log", data_base64: "AAE=", mime_type: "image/png", metadata: { name: "pixel" } },
    ],
  });

  const node = await pollUntil("the last feedback", async () => {
    const [first] = (await api.getRun(runId)).nodes ?? [];
    return first?.state?.message === "nearly" ? first : null;
  });
  expect(node).toMatchObject({
    status: "running",
    metrics: { loss: 0.2, iterations: 7 },
    state: { stage: "streaming", progress: 0.75, message: "nearly" },
  });
  const linesOf = async (channel: string) => (await api.get<RunLog>(`/api/v1/runs/${runId}/logs?channel=${channel}`)).items;
  expect((await linesOf("llm")).map(({ text }) => text)).toEqual(["one", "two"]);
  expect((await linesOf("stdout")).map(({ text }) => text)).toEqual(["out"]);
  expect((await linesOf("stderr")).map(({ text }) => text)).toEqual(["err"]);
  expect(await linesOf("log")).toMatchObject([{ text: "AAE=", mimeType: "image/png" }]);
  worker.succeed(dispatch, { text: "done" });
  expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded", nodes: [{ result: { text: "done" } }] });
});

it("[O75] artifacts of a result over a socket are shown with their id, worker, type, size, expiry, metadata and whether they are inline", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = await HandDrivenWorker.join(ws);
  const { runId } = await api.startRun(sleepingWorkflow(1), "k");
  const dispatch = await worker.takeDispatch();
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const artifacts = [
    { resource_id: "shot", worker_name: "bare", type: "image", size_bytes: 12, expires_at: expiresAt, metadata: { w: 1 } },
    { resource_id: "text", worker_name: "bare", type: "text", inline: true },
  ];
  const outcome = { ...attemptOf(dispatch), status: "SUCCEEDED", result: {}, duration_ms: 1, artifacts };
  worker.sendWork("biz.exec.result", outcome, taskOf(dispatch));

  const run = await api.waitForRunEnd(runId);
  expect(run.artifacts).toMatchObject([
    { resourceId: "shot", workerName: "bare", type: "image", sizeBytes: 12, expiresAt, metadata: { w: 1 } },
    { resourceId: "text", workerName: "bare", type: "text", inline: true },
  ]);
});

it("[O75] a worker marks an artifact as inline if only its result holds the data", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  await startMisbehavingWorker(ws, makeMisbehavingPackage());
  const { runId } = await api.startRun(misbehavingWorkflow("inline"), "k");

  const run: Run = await api.waitForRunEnd(runId);
  expect(run).toMatchObject({ status: "succeeded", artifacts: [{ resourceId: "text", type: "text", inline: true }] });
});

it("[O75] tasks with one sticky affinity key all go to the worker that had the first, and their dispatches name the key", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const workers = [await HandDrivenWorker.join(ws, { instance: "w-1" }), await HandDrivenWorker.join(ws, { instance: "w-2" })];
  const affinity = { key: "browser-7", mode: "sticky" as const };
  const workflow = textChainWorkflow("x");
  const nodes = workflow.nodes.map((node) => ({ ...node, policy: { affinity } }));
  const { runId } = await api.startRun({ ...workflow, nodes }, "k");
  const findHolder = () =>
    pollUntil("a dispatch", async () => workers.find(({ socket }) => socket.hasFrame("biz.exec.dispatch")));
  const holders = [];
  for (let n = 0; n < 3; n += 1) {
    const holder = await findHolder();
    const dispatch = await holder.takeDispatch();
    expect(dispatch.payload["affinity"]).toMatchObject(affinity);
    holder.succeed(dispatch, { text: `${n}` });
    holders.push(holder);
  }

  expect(new Set(holders).size).toBe(1);
  expect(await api.waitForRunEnd(runId)).toMatchObject({ status: "succeeded" });
});
