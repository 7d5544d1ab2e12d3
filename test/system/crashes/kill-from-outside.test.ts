// kill -9 of a scheduler and of a worker from outside, at whatever moment it falls. The named points are in kill-at-failpoints.test.ts.

import type { RunRef } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { expectEachRunEndedOnce, submitUntilAccepted } from "../harness/accepted-runs.ts";
import { SchedulerApi, startScheduler, startWorker, type TestScheduler } from "../harness/installation.ts";
import { pollUntil } from "../harness/processes.ts";
import { sleepingWorkflow } from "../harness/workflows.ts";

describe("kill -9 of the scheduler", () => {
  it("[O14] repeated kill -9 of the scheduler from outside under load loses no accepted run and ends none twice", async () => {
    let scheduler: TestScheduler = await startScheduler();
    const api = new SchedulerApi(scheduler.http);
    await startWorker(scheduler.ws);
    const refs: Promise<RunRef>[] = [];
    for (let round = 0; round < 4; round += 1) {
      const batch = Array.from({ length: 15 }, (_, at) => submitUntilAccepted(api, round * 15 + at));
      refs.push(...batch);
      // After the first few are accepted: the others, and most of the work, are under way.
      await Promise.any(batch);

      scheduler.process.kill("SIGKILL");
      await scheduler.process.ended;
      scheduler = await startScheduler({ dataDir: scheduler.dataDir, listen: scheduler.listen });
    }

    await expectEachRunEndedOnce(api, await Promise.all(refs));
  });
});

/** A task must not be over before the kill, however late the test learns that it runs; and it is done once more afterwards. */
const sleepMs = 4_000;

describe("kill -9 of a worker", () => {
  it("[O16] the work of a killed worker is given to another once its lease is over, under a higher fence", async () => {
    const scheduler = await startScheduler({ flags: ["--lease", "4000", "--heartbeat", "1000"] });
    const api = new SchedulerApi(scheduler.http);
    const doomed = await startWorker(scheduler.ws, { name: "doomed" });
    const ref = await api.startRun(sleepingWorkflow(sleepMs), "k");
    const before = await pollUntil("the worker to hold the task", async () =>
      (await api.getRun(ref.runId)).nodes?.find((node) => node.status === "running"),
    );

    doomed.kill("SIGKILL");
    await doomed.ended;
    await startWorker(scheduler.ws, { name: "spare" });

    const run = await api.waitForRunEnd(ref.runId);
    expect(run.status).toBe("succeeded");
    expect(run.nodes?.[0]).toMatchObject({ workerName: "spare", attempt: 2 });
    expect(run.nodes?.[0]?.fence).toBeGreaterThan(before.fence ?? Number.POSITIVE_INFINITY);
    expect((await api.listRunFacts(ref.runId)).map((fact) => fact.type)).toContain("task.requeued");
  });

  it("[O16] the work of a killed worker is given at once to the next process of the same worker", async () => {
    const scheduler = await startScheduler({ flags: ["--lease", "600000", "--heartbeat", "10000"] });
    const api = new SchedulerApi(scheduler.http);
    const dataDir = `${scheduler.dataDir}-worker`;
    const first = await startWorker(scheduler.ws, { name: "phoenix", dataDir });
    const ref = await api.startRun(sleepingWorkflow(sleepMs), "k");
    await pollUntil("the worker to hold the task", async () =>
      (await api.getRun(ref.runId)).nodes?.some((node) => node.status === "running"),
    );

    first.kill("SIGKILL");
    await first.ended;
    await startWorker(scheduler.ws, { name: "phoenix", dataDir });

    expect((await api.waitForRunEnd(ref.runId)).nodes?.[0]).toMatchObject({ status: "succeeded", attempt: 2 });
    expect((await api.listWorkers()).items).toHaveLength(1);
  });
});
