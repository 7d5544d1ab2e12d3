// Deadlines survive what happens to sessions and processes: an attempt that is bound again, and a task that is taken back, keep the
// time they were given. That they pass at all is in run-lifecycle.test.ts.
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain } from "../harness/engine-harness.ts";

describe("deadlines", () => {
  it("[E6] an attempt that its worker reports again after reconnecting keeps the time limit of its grant", async () => {
    const cluster = new EngineCluster();
    const harness = await cluster.startEngine("r1");
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1, { policy: { timeoutMs: 10_000 } }));
    await harness.settle();
    await worker.ack();
    await cluster.passSeconds(4);

    const back = await harness.joinWorker("w", { boot: worker.boot, running: worker.dispatchesSent });
    for (let second = 0; second < 7; second++) {
      await back.heartbeat(worker.dispatchesSent);
      await cluster.passSeconds(1);
    }

    expect((await harness.runDetail(run)).run).toMatchObject({ phase: "failed", error: expect.stringContaining("E.TIMEOUT") });
  });

  it("[E6] an attempt that its worker reports again keeps its time limit across a scheduler restart", async () => {
    const cluster = new EngineCluster();
    const first = await cluster.startEngine("r1");
    const worker = await first.joinWorker("w");
    const run = await first.startRun(buildChain(1, { policy: { timeoutMs: 10_000 } }));
    await first.settle();
    await worker.ack();
    await cluster.passSeconds(2);
    await cluster.stopEngine(first);

    const second = await cluster.startEngine("r1");
    await second.joinWorker("w", { boot: worker.boot, running: worker.dispatchesSent });
    await cluster.passSeconds(9);

    expect((await second.runDetail(run)).run).toMatchObject({ phase: "failed", error: expect.stringContaining("E.TIMEOUT") });
  });

  it("[E7] a requeued task may wait in its queue as long as one that just became ready, and no longer", async () => {
    const cluster = new EngineCluster();
    const harness = await cluster.startEngine("r1");
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1, { policy: { queueTimeoutMs: 8_000 } }));
    await harness.settle();
    await worker.ack();

    await harness.joinWorker("w", { boot: "another", pool: "elsewhere", packages: [] });
    await cluster.passSeconds(7);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "ready" }]);
    await cluster.passSeconds(2);

    expect((await harness.runDetail(run)).run).toMatchObject({
      phase: "failed",
      error: expect.stringContaining("E.DISPATCH.UNAVAILABLE"),
    });
  });
});
