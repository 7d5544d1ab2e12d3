import { join } from "node:path";
import type { Run } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { Api, startScheduler } from "./installation.ts";
import { makeFolder, until, within } from "./processes.ts";
import { makeGate, makeRoughPackage, roughRun, startRoughWorker } from "./rough-package.ts";

const using = (id: string) => roughRun("use", { model: { resourceRef: { resourceId: id, workerName: "rough", type: "model" } } });

async function install() {
  const scheduler = await startScheduler();
  const api = new Api(scheduler.http);
  const words = ["--data-dir", join(makeFolder(), "data")];
  const packagesDir = makeRoughPackage();
  const begin = () => startRoughWorker(scheduler.ws, packagesDir, words);
  const worker = await begin();
  const run = async (workflow: Parameters<Api["start"]>[0]) => (await api.start(workflow, crypto.randomUUID())).runId;
  const done = async (workflow: Parameters<Api["start"]>[0]): Promise<Run> => api.ended(await run(workflow));
  /** The run that left it says why it is gone. */
  const removed = (runId: string) =>
    until("the resource to be gone", async () => (await api.run(runId)).artifacts?.find((one) => one.removed !== undefined));
  return { api, worker, begin, run, done, removed };
}

describe("something that a worker kept in its memory", () => {
  it("[W184] is lost with its process: the next one says so, and whoever refers to it fails at once", async () => {
    const { worker, begin, done, removed } = await install();
    const { runId, status } = await done(roughRun("keep", { id: "model-1" }));
    expect(status).toBe("succeeded");
    expect(await done(using("model-1"))).toMatchObject({ status: "succeeded" });

    worker.kill("SIGKILL");
    await within(worker.ended, "the end of the worker");
    await begin();

    expect(await removed(runId)).toMatchObject({ resourceId: "model-1", removed: "lost" });
    expect((await done(using("model-1"))).error).toMatchObject({
      code: "E.RESOURCE.MISSING",
      message: expect.stringContaining("worker rough came back without it"),
    });
  });

  it("[W181] and has let go ends whoever refers to it at once, though the worker's thread is blocked", async () => {
    const { api, done, run, removed } = await install();
    const { runId } = await done(roughRun("keep", { id: "model-2" }));
    await done(roughRun("drop", { id: "model-2" }));
    expect(await removed(runId)).toMatchObject({ removed: "released" });
    const { gate, open } = makeGate();
    const blocked = await run(roughRun("block", { gate }));

    const failed = await done(using("model-2"));
    open();

    expect(failed.error).toMatchObject({
      code: "E.RESOURCE.MISSING",
      message: expect.stringContaining("worker rough let it go"),
    });
    expect(await api.ended(blocked)).toMatchObject({ status: "succeeded" });
  });
});
