// The same session on a new socket: what it keeps, what is awaited anew, and when it must register instead. Full joins are in fences-and-leases.test.ts.
import type { SendReset } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

/** A worker with one granted attempt. */
async function startGrantedTask(): Promise<{ world: EngineHarness; worker: TestWorker; run: string }> {
  const harness = await new EngineHarness().start();
  const worker = await harness.joinWorker("w");
  const run = await harness.startRun(buildChain(1));
  await harness.settle();
  return { world: harness, worker, run };
}

const resumeSession = (
  harness: EngineHarness,
  { session, boot }: TestWorker,
  unacked: { task: string; fence: number }[] = [],
): Promise<TestWorker> => harness.joinWorker("w", { session, boot, running: null, resumed: { unacked } });

describe("a resumed session", () => {
  it("[B25] a resumed session keeps its attempts under their fences in a higher epoch after losing its socket, and the log records the resume", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.ack();
    await worker.disconnect();
    await harness.advance(20_000);

    await resumeSession(harness, worker);

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", fence: worker.lastDispatch.fence, epoch: 2 }]);
    expect(await harness.workerFacts(worker.worker, "worker.joined")).toMatchObject([{ epoch: 1 }, { epoch: 2, resumed: true }]);
    await worker.succeed({ out: 1 });
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
    expect(harness.dispatches()).toHaveLength(1);
  });

  it("[B25] the session of a worker without boot ids is resumed by its session alone", async () => {
    const harness = await new EngineHarness().start();
    const quiet = { dialect: "basic", features: [], boot: null, running: null } as const;
    const worker = await harness.joinWorker("w", quiet);
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();
    await worker.disconnect();

    await harness.joinWorker("w", { ...quiet, session: worker.session, resumed: { unacked: [] } });

    expect(await harness.workerFacts(worker.worker, "worker.joined")).toMatchObject([{ epoch: 1 }, { epoch: 2, resumed: true }]);
    await worker.succeed({ out: 1 });
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B25] a resumed session replaces its half-open socket without a reset, and its reports still count", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.ack();

    await resumeSession(harness, worker);

    expect(harness.effects.filter((effect): effect is SendReset => effect.type === "reset")).toEqual([]);
    await worker.succeed();
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B25] a resumed session gets the whole ack deadline again for an unacked dispatch, and loses the dispatch after that", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await harness.advance(4_000);
    await worker.disconnect();
    await resumeSession(harness, worker, [worker.lastDispatch]);

    await harness.advance(4_000);
    expect((await harness.runDetail(run)).tasks).toMatchObject([
      { phase: "leased", fence: worker.lastDispatch.fence, acked: false },
    ]);
    const before = worker.lastDispatch.fence;
    await harness.advance(1_001);
    await harness.settle();

    expect(worker.lastDispatch.fence).toBeGreaterThan(before);
    expect(harness.stopsSent()).toMatchObject([{ fence: before }]);
  });

  it("[B25] a dispatch acked after a resume stays with its session, even when the ack deadline of the first delivery passes", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    const { fence } = worker.lastDispatch;
    await harness.advance(4_000);
    await resumeSession(harness, worker, [worker.lastDispatch]);
    await worker.ack();

    await harness.advance(9_000);

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", fence, acked: true }]);
  });

  it("[B25] a dispatch sent after the resume request was read is not counted as acked", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    const { fence } = worker.lastDispatch;

    await resumeSession(harness, worker, []);
    await harness.advance(5_001);
    await harness.settle();

    expect((await harness.runDetail(run)).tasks[0]?.fence).toBeGreaterThan(fence);
  });

  it("[B25] a resumed session gets a stop for a dispatch that was revoked while it had no socket", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.disconnect();
    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });

    await resumeSession(harness, worker, [worker.lastDispatch]);

    expect(harness.stopsSent()).toMatchObject([
      { session: worker.session, task: worker.lastDispatch.task, fence: worker.lastDispatch.fence },
    ]);
  });

  it("[B25] a session that leaves and resumes twice in one turn ends with its worker online and its attempts kept", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.ack();
    const { tenant, worker: id, session, boot } = worker;
    const leave = { type: "worker.leave", tenant, worker: id, session, reason: "gone" } as const;
    const about = JSON.parse((await harness.workerRow(id)).about) as never;
    const join = {
      type: "worker.join",
      tenant,
      worker: id,
      name: "w",
      boot,
      session,
      about,
      running: null,
      resumed: { unacked: [] },
    } as const;

    const answer = await Promise.allSettled(harness.askAll([leave, join, leave, join]));

    expect(answer.map((one) => one.status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect((await harness.workerRow(id)).phase).toBe("online");
    await worker.succeed();
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });
});

describe("a session that cannot be resumed", () => {
  const stale = { code: "E.SESSION.STALE_BINDING" };

  it("[B26] a resume is refused if its worker is unknown or has a new process by now", async () => {
    const { world: harness, worker } = await startGrantedTask();

    await expect(resumeSession(harness, { ...worker, boot: "other" } as TestWorker)).rejects.toMatchObject(stale);
    await expect(
      harness.joinWorker("nobody", { session: "s", boot: "b", running: null, resumed: { unacked: [] } }),
    ).rejects.toMatchObject(stale);
  });

  it("[B26] a resume is refused if the worker has had a newer session at another scheduler, whether that one is live or gone", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const first = await near.joinWorker("w");
    const second = await far.joinWorker("w", { boot: first.boot, session: "far" });

    await expect(resumeSession(near, first)).rejects.toMatchObject(stale);
    await second.disconnect();
    await expect(resumeSession(near, first)).rejects.toMatchObject(stale);

    expect((await near.workerRow(first.worker)).epoch).toBe(2);
  });

  it("[B26] a resume is refused if the worker's lease is over, before and after the engine has noticed", async () => {
    const { world: harness, worker, run } = await startGrantedTask();
    await worker.ack();
    await worker.disconnect();
    for (let passed = 0; passed < 29; passed++) await harness.advance(1_000);
    harness.now += 1_500;

    await expect(resumeSession(harness, worker)).rejects.toMatchObject(stale);
    await harness.advance(1_000);
    expect((await harness.workerRow(worker.worker)).phase).toBe("lost");
    await expect(resumeSession(harness, worker)).rejects.toMatchObject(stale);

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ worker: null, phase: "ready" }]);
  });
});
