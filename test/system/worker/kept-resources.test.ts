import { join } from "node:path";
import type { Run } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import {
  makeGateFile,
  makeMisbehavingPackage,
  misbehavingWorkflow,
  startMisbehavingWorker,
} from "../harness/misbehaving-package.ts";
import { makeTemporaryFolder, pollUntil, withTimeout } from "../harness/processes.ts";

const workflowUsing = (id: string) =>
  misbehavingWorkflow("use", { model: { resourceRef: { resourceId: id, workerName: "rough", type: "model" } } });

async function startInstallation() {
  const scheduler = await startScheduler();
  const api = new SchedulerApi(scheduler.http);
  const args = ["--data-dir", join(makeTemporaryFolder(), "data")];
  const packagesDir = makeMisbehavingPackage();
  const begin = () => startMisbehavingWorker(scheduler.ws, packagesDir, args);
  const worker = await begin();
  const run = async (workflow: Parameters<SchedulerApi["startRun"]>[0]) =>
    (await api.startRun(workflow, crypto.randomUUID())).runId;
  const done = async (workflow: Parameters<SchedulerApi["startRun"]>[0]): Promise<Run> => api.waitForRunEnd(await run(workflow));
  /** The run that left it shows why it is gone. */
  const removed = (runId: string) =>
    pollUntil("the resource to be gone", async () =>
      (await api.getRun(runId)).artifacts?.find((one) => one.removed !== undefined),
    );
  return { api, worker, begin, run, done, removed };
}

describe("something that a worker kept in its memory", () => {
  it("[W184] a resource in a worker's memory is lost with its process: the next process reports it, and tasks that refer to it fail at once", async () => {
    const { worker, begin, done, removed } = await startInstallation();
    const { runId, status } = await done(misbehavingWorkflow("keep", { id: "model-1" }));
    expect(status).toBe("succeeded");
    expect(await done(workflowUsing("model-1"))).toMatchObject({ status: "succeeded" });

    worker.kill("SIGKILL");
    await withTimeout(worker.ended, "the end of the worker");
    await begin();

    expect(await removed(runId)).toMatchObject({ resourceId: "model-1", removed: "lost" });
    expect((await done(workflowUsing("model-1"))).error).toMatchObject({
      code: "E.RESOURCE.MISSING",
      message: expect.stringContaining("worker rough restarted without it"),
    });
  });

  it("[W181] releasing a worker's resource fails tasks that refer to it at once, even while the worker's handler thread is blocked", async () => {
    const { api, done, run, removed } = await startInstallation();
    const { runId } = await done(misbehavingWorkflow("keep", { id: "model-2" }));
    await done(misbehavingWorkflow("drop", { id: "model-2" }));
    expect(await removed(runId)).toMatchObject({ removed: "released" });
    const { gate, open } = makeGateFile();
    const blocked = await run(misbehavingWorkflow("block", { gate }));

    const failed = await done(workflowUsing("model-2"));
    open();

    expect(failed.error).toMatchObject({
      code: "E.RESOURCE.MISSING",
      message: expect.stringContaining("worker rough released it"),
    });
    expect(await api.waitForRunEnd(blocked)).toMatchObject({ status: "succeeded" });
  });
});
