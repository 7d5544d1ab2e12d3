// How long a worker may be silent, by tenant and dialect: the periods it receives, those it is checked by, and when it is lost.
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const tenants = { t2: { heartbeatMs: 2_000, leaseMs: 6_000 } };
const olderDialect = { dialect: "v1", running: null, boot: "b" } as const;

async function millisUntilLost(harness: EngineHarness, worker: TestWorker): Promise<number> {
  for (let passed = 1; passed <= 300; passed++) {
    await harness.advance(1_000);
    if ((await harness.workerRow(worker.worker)).phase === "lost") return passed;
  }
  return Number.POSITIVE_INFINITY;
}

describe("periods and leases", () => {
  it("[B30] the answer to a join contains the heartbeat period and lease of the worker's tenant and dialect", async () => {
    const harness = await new EngineHarness({ settings: { tenants } }).start();
    const joinAnswer = async (changes: Parameters<EngineHarness["joinWorker"]>[1]) => {
      await harness.joinWorker("w", changes);
      return harness.lastJoinAnswer;
    };

    expect(await joinAnswer({})).toMatchObject({ heartbeatMs: 10_000, leaseMs: 30_000 });
    expect(await joinAnswer({ tenant: "t2" })).toMatchObject({ heartbeatMs: 2_000, leaseMs: 6_000 });
    expect(await joinAnswer({ ...olderDialect, tenant: "t3" })).toMatchObject({ heartbeatMs: 35_000, leaseMs: 105_000 });
  });

  it("[B30] the lease of a silent worker ends as its tenant and dialect set it, counted from its last heartbeat", async () => {
    const harness = await new EngineHarness({ settings: { tenants } }).start();
    const own = await harness.joinWorker("w", { tenant: "t2" });
    expect(await millisUntilLost(harness, own)).toBe(6);

    const slow = await harness.joinWorker("s", { ...olderDialect });
    for (let passed = 0; passed < 34; passed++) await harness.advance(1_000);
    await slow.heartbeat(null);
    expect(await millisUntilLost(harness, slow)).toBe(105);
  });

  it("[B30] missed heartbeats are counted by the session's own period", async () => {
    const harness = await new EngineHarness({ settings: { tenants } }).start();
    const slow = await harness.joinWorker("s", { ...olderDialect });
    const own = await harness.joinWorker("w", { tenant: "t2" });
    for (let passed = 0; passed < 4; passed++) await harness.advance(1_000);

    expect(await harness.workerFacts(own.worker, "worker.liveness")).toMatchObject([{ to: "warn" }, { to: "degraded" }]);
    for (let passed = 0; passed < 36; passed++) await harness.advance(1_000);
    expect(await harness.workerFacts(slow.worker, "worker.liveness")).toEqual([{ from: "fresh", to: "warn" }]);
  });

  it("[B38] after the scheduler was away, each worker gets its own full lease again", async () => {
    const cluster = new EngineCluster();
    const before = await cluster.startEngine("r1");
    const slow = await before.joinWorker("s", { ...olderDialect });
    const run = await before.startRun(buildChain(1));
    await cluster.passSeconds(1);
    await slow.ack();
    await cluster.stopEngine(before);
    cluster.skipTime(300_000);

    const after = await cluster.startEngine("r1");
    await cluster.passSeconds(100);
    expect((await after.workerRow(slow.worker)).phase).toBe("online");
    const again = await after.joinWorker("s", { ...olderDialect, boot: null });
    await again.succeed({}, slow.lastDispatch);

    expect((await after.runDetail(run)).tasks).toMatchObject([{ phase: "succeeded", attempt: 1 }]);
  });
});
