// Two processes with one instance id, and an operator's commands on a session: who keeps it, who is disconnected,
// and what a connected worker receives.
import type { SendReset, SendVendorFrame } from "@astraflow/engine";
import { readCondition } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";
import { overrideStore } from "../harness/override-store.ts";

const resetsSent = (harness: EngineHarness): SendReset[] =>
  harness.effects.filter((effect): effect is SendReset => effect.type === "reset");
const vendorFramesSent = (harness: EngineHarness): SendVendorFrame[] =>
  harness.effects.filter((effect): effect is SendVendorFrame => effect.type === "tell");
const denied = { code: "E.SESSION.DENIED" };

describe("two processes with one instance id", () => {
  it("[B35] of two processes with one instance id the newest keeps the session, and the other is refused with advice to use its own id", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("w", { boot: "old" });
    const newest = await harness.joinWorker("w", { boot: "new" });
    const run = await harness.startRun(buildChain(1));
    await harness.settle();

    for (let tries = 0; tries < 3; tries++)
      await expect(harness.joinWorker("w", { boot: "old" })).rejects.toMatchObject({
        ...denied,
        message: expect.stringMatching(/has been live for 0 s; give this one its own id/) as string,
      });

    expect(resetsSent(harness)).toHaveLength(1);
    await newest.succeed();
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
    expect((await harness.workerRow(newest.worker)).epoch).toBe(2);
  });

  it("[B35] two processes with one instance id are logged once, reported to the operator once, and counted every time", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("w", { boot: "old" });
    await harness.joinWorker("w", { boot: "new" });

    for (let tries = 0; tries < 3; tries++) await expect(harness.joinWorker("w", { boot: "old" })).rejects.toMatchObject(denied);

    expect(await harness.workerFacts("t1/w", "worker.cloned")).toMatchObject([{ boot: "old", live: "new" }]);
    expect(harness.problems).toMatchObject([{ code: "E.SESSION.DENIED", details: { tenant: "t1", worker: "w" } }]);
    expect(harness.countersNamed("worker_cloned_total")).toHaveLength(3);
  });

  it("[B35] two processes with one instance id are detected by any replica", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    await near.joinWorker("w", { boot: "old" });
    await near.joinWorker("w", { boot: "new" });

    await expect(far.joinWorker("w", { boot: "old" })).rejects.toMatchObject(denied);
  });

  it("[B35] an earlier process with the same instance id may join again once the present session has ended", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("w", { boot: "one" });
    const two = await harness.joinWorker("w", { boot: "two" });
    await expect(harness.joinWorker("w", { boot: "one" })).rejects.toMatchObject(denied);
    await two.disconnect();

    await harness.joinWorker("w", { boot: "one" });

    await expect(harness.joinWorker("w", { boot: "two" })).rejects.toMatchObject(denied);
    expect(readCondition((await harness.workerRow("t1/w")).condition)).toMatchObject({ formerBoots: ["two"], clones: ["two"] });
  });

  it("[B35] a process that joins again, or one that was restarted, is not reported as a clone", async () => {
    const harness = await new EngineHarness().start();
    for (const boot of ["a", "a", "b", "b", "c"]) await harness.joinWorker("w", { boot });

    expect(await harness.facts("t1", "worker/t1/w")).not.toContain("worker.cloned");
  });
});

const kickWorker = (harness: EngineHarness, worker: string, tenant = "t1") =>
  harness.ask({ type: "worker.kick", tenant, by: "me", worker, reason: "its token leaked" });

describe("a kick", () => {
  async function working(): Promise<{ world: EngineHarness; worker: TestWorker; run: string }> {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();
    return { world: harness, worker, run };
  }

  it("[B36] a kick ends the session with E.AUTH.INVALID_TOKEN, and the worker may rejoin with the attempts it held", async () => {
    const { world: harness, worker, run } = await working();

    expect(await kickWorker(harness, worker.worker)).toEqual({
      of: "worker",
      worker: worker.worker,
      draining: false,
      at: harness.now,
    });

    expect(resetsSent(harness)).toMatchObject([
      { session: worker.session, code: "E.AUTH.INVALID_TOKEN", reason: "kicked by me: its token leaked" },
    ]);
    expect(await harness.workerFacts(worker.worker, "worker.kicked")).toEqual([{ by: "me", reason: "its token leaked" }]);
    expect((await harness.workerRow(worker.worker)).phase).toBe("away");
    await expect(worker.heartbeat(null)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    const again = await harness.joinWorker("w", { boot: worker.boot, running: [worker.lastDispatch] });
    await again.succeed({}, worker.lastDispatch);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "succeeded", attempt: 1 }]);
  });

  it("[B36] a kicked session cannot be resumed, even if its socket was closed before the kick", async () => {
    for (const isGone of [false, true]) {
      const { world: harness, worker } = await working();
      if (isGone) await worker.disconnect();

      await kickWorker(harness, worker.worker);

      const resume = { session: worker.session, boot: worker.boot, running: null, resumed: { unacked: [] } };
      await expect(harness.joinWorker("w", resume)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
      expect(await harness.workerFacts(worker.worker, "worker.kicked")).toHaveLength(1);
    }
  });

  it("[B36] a kick leaves the worker's attempts to the lease: they are queued again if the worker stays away", async () => {
    const { world: harness, worker, run } = await working();
    await kickWorker(harness, worker.worker);
    for (let passed = 0; passed < 32; passed++) await harness.advance(1_000);

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "ready", worker: null }]);
  });

  it("[B36] a kick reaches the worker's socket at another scheduler", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const worker = await near.joinWorker("w");

    await kickWorker(far, worker.worker);
    await cluster.passSeconds(1);

    expect(resetsSent(near)).toMatchObject([{ session: worker.session, code: "E.AUTH.INVALID_TOKEN" }]);
    await near.joinWorker("w", { boot: worker.boot });
    await cluster.passSeconds(1);
    expect(resetsSent(near)).toHaveLength(1);
  });

  it("[B36] a kick and a join of the same worker in one turn end the new session", async () => {
    const harness = await new EngineHarness().start();
    const { worker, session, boot } = await harness.joinWorker("w");
    const about = JSON.parse((await harness.workerRow(worker)).about) as never;
    const again = { type: "worker.join", tenant: "t1", worker, name: "w", boot, session: "s2", about, running: [] } as const;
    const order = { type: "worker.kick", tenant: "t1", by: "me", worker, reason: "x" } as const;

    await Promise.all(harness.askAll([again, order]));

    expect(resetsSent(harness)).toMatchObject([
      { session, code: "E.SESSION.SUPERSEDED" },
      { session: "s2", code: "E.AUTH.INVALID_TOKEN", reason: "kicked by me: x" },
    ]);
  });

  it("[B36] a kick of an unknown worker and a kick of another tenant's worker are both answered E.NOT_FOUND", async () => {
    const { world: harness, worker } = await working();

    for (const [id, tenant] of [
      ["t1/nobody", "t1"],
      [worker.worker, "t2"],
    ] as const)
      await expect(kickWorker(harness, id, tenant)).rejects.toMatchObject({ code: "E.NOT_FOUND" });
    expect(resetsSent(harness)).toEqual([]);
  });
});

const frame = { type: "ext.vendor.acme.ping", id: "f1", corr: null, payload: '{"n":1}' };
const sendVendorFrame = (harness: EngineHarness, worker: string, tenant = "t1") =>
  harness.ask({ type: "worker.tell", tenant, by: "me", worker, frame });

describe("a vendor's frame for a worker", () => {
  it("[B37] a vendor frame is sent to the worker's session unchanged, and leaves no trace in rows or log", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const [row, facts] = [await harness.workerRow(worker.worker), await harness.facts()];

    expect(await sendVendorFrame(harness, worker.worker)).toEqual({ of: "word", applied: true });

    expect(vendorFramesSent(harness)).toEqual([
      { type: "tell", session: worker.session, worker: worker.worker, tenant: "t1", frame },
    ]);
    expect([await harness.workerRow(worker.worker), await harness.facts()]).toEqual([row, facts]);
  });

  it("[B37] a vendor frame reaches the worker's socket at another scheduler, and no later session", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    let isDeaf = false;
    const near = await cluster.startEngine("r1", {
      wrap: (store) => overrideStore(store, { begin: (want) => store.begin(isDeaf ? { ...want, mail: 0 } : want) }),
    });
    const far = await cluster.startEngine("r2");
    const worker = await near.joinWorker("w");

    await sendVendorFrame(far, worker.worker);
    await cluster.passSeconds(1);
    expect(vendorFramesSent(near)).toMatchObject([{ session: worker.session, frame }]);

    isDeaf = true;
    await sendVendorFrame(far, worker.worker);
    await near.joinWorker("w", { boot: worker.boot });
    isDeaf = false;
    await cluster.passSeconds(2);
    expect(vendorFramesSent(near)).toHaveLength(1);
  });

  it("[B37] a vendor frame for a disconnected worker is refused with that reason, and for an unknown or another tenant's worker as not found", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await worker.disconnect();

    await expect(sendVendorFrame(harness, worker.worker)).rejects.toMatchObject({
      code: "E.SESSION.UNKNOWN",
      message: "E.SESSION.UNKNOWN: worker w is not connected; nothing was sent to it",
    });
    await expect(sendVendorFrame(harness, "t1/nobody")).rejects.toMatchObject({ code: "E.NOT_FOUND" });
    await expect(sendVendorFrame(harness, worker.worker, "t2")).rejects.toMatchObject({ code: "E.NOT_FOUND" });
  });
});
