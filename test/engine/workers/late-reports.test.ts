// A report on an attempt that is no longer its sender's is answered, and a stop is sent for the attempt: whatever stop was sent before may
// have gone to a session that has ended.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

describe("a word that comes too late", () => {
  it("[B2] a report under an older fence is answered with a stop in the same session", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    const held = worker.lastDispatch;
    await worker.ack();
    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    const back = await harness.joinWorker("w", { boot: worker.boot, running: [] });
    const before = harness.stopsSent().length;

    await expect(back.error("E.RUNNER.FAILURE", "late", { task: held.task, fence: held.fence - 1 })).rejects.toMatchObject({
      code: "E.SESSION.STALE_BINDING",
    });

    expect(harness.stopsSent().slice(before)).toMatchObject([{ session: back.session, task: held.task, fence: held.fence - 1 }]);
  });
});
