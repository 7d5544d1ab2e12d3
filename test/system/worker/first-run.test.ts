import { expect, it } from "vitest";
import { SchedulerApi, startScheduler, startWorker } from "../harness/installation.ts";
import { textChainWorkflow } from "../harness/workflows.ts";

for (const threads of ["0", "1"]) {
  it(`[O15] a chain runs on a connected worker and its values travel along the edges (--threads ${threads})`, async () => {
    const scheduler = await startScheduler({ flags: ["--threads", threads] });
    const api = new SchedulerApi(scheduler.http);
    await startWorker(scheduler.ws, { name: "w-berlin" });

    const ref = await api.startRun(textChainWorkflow("never odd"), "first");
    const run = await api.waitForRunEnd(ref.runId);

    expect(run).toMatchObject({ status: "succeeded", definitionHash: ref.definitionHash, clientId: "system-test" });
    expect(run.nodes?.map((node) => node.result)).toMatchObject([
      { text: "never odd" },
      { text: "NEVER ODD" },
      { text: "DDO REVEN" },
    ]);
    expect(run.nodes?.every((node) => node.workerName === "w-berlin" && node.attempt === 1 && (node.fence ?? 0) > 0)).toBe(true);
  });
}

it("[O15] runs submitted before any worker has joined wait for one, and every run succeeds", async () => {
  const scheduler = await startScheduler();
  const api = new SchedulerApi(scheduler.http);
  const refs = await Promise.all(Array.from({ length: 20 }, (_, at) => api.startRun(textChainWorkflow(`run ${at}`), `k${at}`)));
  expect((await api.getRun(refs[0]?.runId ?? "")).status).toBe("queued");

  await Promise.all([startWorker(scheduler.ws, { name: "w-1" }), startWorker(scheduler.ws, { name: "w-2" })]);

  for (const ref of refs) expect((await api.waitForRunEnd(ref.runId)).status).toBe("succeeded");
  expect((await api.listWorkers()).items.map((worker) => worker.id).sort()).toEqual(["w-1", "w-2"]);
});

it("[O7] with --time-scale the store's time passes faster, and workers still keep their leases", async () => {
  const scheduler = await startScheduler({ flags: ["--time-scale", "20"] });
  const api = new SchedulerApi(scheduler.http);
  await startWorker(scheduler.ws);

  const started = performance.now();
  const ref = await api.startRun({ ...textChainWorkflow("quick"), id: "00000000-0000-4000-8000-000000000001" }, "k");
  const first = await api.waitForRunEnd(ref.runId);
  const again = await api.waitForRunEnd((await api.startRun(textChainWorkflow("later"), "k2")).runId);
  const realMs = performance.now() - started;

  expect([first.status, again.status]).toEqual(["succeeded", "succeeded"]);
  // Twenty times as much, less what our own calls took before the first and after the last instant.
  expect(Date.parse(again.finishedAt ?? "") - Date.parse(first.createdAt ?? "")).toBeGreaterThan(realMs * 5);
});
