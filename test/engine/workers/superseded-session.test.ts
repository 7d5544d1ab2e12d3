// What an older session of a worker may still do at a scheduler that does not know of the newer one: nothing that counts. One
// scheduler, where the older session has lost its connected worker, is in fences-and-leases.test.ts; mail, which makes the older one end soon, in mail.test.ts.
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, type EngineHarness, type TestWorker } from "../harness/engine-harness.ts";
import { overrideStore } from "../harness/override-store.ts";

/** A worker with one acked attempt moves from `near`, which reads no mail and so keeps its connected worker, to `far`. */
async function moveWorker(): Promise<{
  stage: EngineCluster;
  near: EngineHarness;
  far: EngineHarness;
  old: TestWorker;
  moved: TestWorker;
  run: string;
}> {
  const cluster = new EngineCluster({ mode: "weak" });
  const near = await cluster.startEngine("r1", {
    wrap: (store) => overrideStore(store, { begin: (want) => store.begin({ ...want, mail: 0 }) }),
  });
  const far = await cluster.startEngine("r2");
  const old = await near.joinWorker("w");
  const run = await near.startRun(buildChain(1));
  await near.settle();
  await old.ack();
  const moved = await far.joinWorker("w", { boot: old.boot, running: old.dispatchesSent });
  return { stage: cluster, near, far, old, moved, run };
}

describe("an older session of a worker at another scheduler", () => {
  it("[B15] a result from an older session at another scheduler is refused as stale; the attempt stays with the newer session", async () => {
    const { far, old, moved, run } = await moveWorker();

    await expect(old.succeed({ out: 1 })).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    expect((await far.runDetail(run)).tasks).toMatchObject([{ phase: "leased", epoch: 2 }]);
    await moved.succeed({ out: 2 }, old.lastDispatch);
    expect((await far.runDetail(run)).tasks).toMatchObject([{ phase: "succeeded", result: JSON.stringify({ out: 2 }) }]);
  });

  it("[B15] an error from an older session at another scheduler is refused as stale and counts as no failure", async () => {
    const { far, old, run } = await moveWorker();

    await expect(old.error("E.RUNNER.FAILURE")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    expect((await far.runDetail(run)).tasks).toMatchObject([{ phase: "leased", failures: 0 }]);
  });

  it("[B15] heartbeats of an older session do not renew the lease of the newer one", async () => {
    const { stage: cluster, near, far, old } = await moveWorker();
    const seconds = far.settings.leaseMs / 1_000;

    for (let passed = 0; passed < seconds + 3; passed += 5) {
      await expect(old.heartbeat(old.dispatchesSent)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
      await cluster.passSeconds(5);
    }

    expect(await far.facts("t1", `worker/${old.worker}`)).toContain("worker.lost");
    expect(near.effects.filter((effect) => effect.type === "answer" && effect.body?.of === "worker")).toEqual([]);
  });

  it("[B15] a heartbeat of an older session that omits an attempt does not take it from the newer session", async () => {
    const { stage: cluster, far, old, run } = await moveWorker();
    await cluster.passSeconds(far.settings.ackDeadlineMs / 1_000 + 1);

    await expect(old.heartbeat([])).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    expect((await far.runDetail(run)).tasks).toMatchObject([{ phase: "leased", worker: old.worker, epoch: 2 }]);
  });

  it("[B15] the end of an older session does not take the worker offline", async () => {
    const { stage: cluster, far, old, moved } = await moveWorker();

    await old.disconnect();
    await cluster.passSeconds(1);

    expect(await far.facts("t1", `worker/${old.worker}`)).not.toContain("worker.left");
    await moved.succeed({}, old.lastDispatch);
    const next = await far.startRun(buildChain(1));
    await cluster.passSeconds(1);
    expect(moved.dispatchesSent).toMatchObject([{ run: next }]);
  });
});
