// Fences, leases and what becomes of an attempt when its worker is silent, slow, restarted, doubled or wrong.
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, harnessDigest } from "../harness/engine-harness.ts";

async function startGrantedTask(settings = {}) {
  const harness = await new EngineHarness({ settings }).start();
  const worker = await harness.joinWorker("w");
  const run = await harness.startRun(buildChain(1));
  await harness.settle();
  return { world: harness, worker, run, held: worker.lastDispatch };
}

describe("grants nobody answers", () => {
  it("[B1] a grant that is not acked in time is revoked and given to another worker under a higher fence", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    const spare = await harness.joinWorker("spare");
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });

    await harness.advance(4_999);
    expect(spare.dispatchesSent).toEqual([]);
    await harness.advance(1);

    expect(spare.lastDispatch.task).toBe(held.task);
    expect(spare.lastDispatch.fence).toBeGreaterThan(held.fence);
  });

  it("[B2] an unacked grant is revoked at its deadline: the worker gets a stop, and its late result is refused", async () => {
    const { world: harness, worker, held, run } = await startGrantedTask();

    await harness.advance(5_001);

    expect(harness.stopsSent()).toMatchObject([{ task: held.task, fence: held.fence, code: "E.SESSION.STALE_BINDING" }]);
    expect(worker.lastDispatch.fence).toBeGreaterThan(held.fence);
    await expect(worker.succeed({ out: 1 }, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect((await harness.runDetail(run)).run.phase).toBe("running");
  });

  it("[B3] an acked grant stays with its worker; heartbeats alone do not keep an unacked one", async () => {
    const { world: harness, worker, held } = await startGrantedTask();

    await harness.advance(4_000);
    await worker.heartbeat([]);
    await harness.advance(1_001);
    expect(worker.lastDispatch.fence).toBeGreaterThan(held.fence);
    await worker.ack();
    await harness.advance(6_000);

    expect(worker.dispatchesSent).toHaveLength(2);
  });

  it("[B4] a task fails with E.DISPATCH.UNAVAILABLE after max_deliveries consecutive grants that were not acked", async () => {
    const { world: harness, worker, run } = await startGrantedTask({ maxDeliveries: 3, leaseMs: 600_000, heartbeatMs: 200_000 });

    for (let round = 0; round < 3; round++) await harness.advance(5_001);

    expect(worker.dispatchesSent).toHaveLength(3);
    const { run: row, tasks } = await harness.runDetail(run);
    expect(row.phase).toBe("failed");
    expect(JSON.parse(row.error ?? "")).toMatchObject({ code: "E.DISPATCH.UNAVAILABLE", details: { deliveries: 3 } });
    expect(tasks[0]?.deliveries).toBe(3);
  });

  it("[B5] an ack that waits in the inbox is applied before the ack deadline that passed meanwhile", async () => {
    const { world: harness, worker, held } = await startGrantedTask({ turnCommandsMax: 2 });
    const beats = Array.from({ length: 6 }, () => ({
      type: "worker.beat" as const,
      tenant: "t1",
      worker: worker.worker,
      session: worker.session,
      healthy: true,
      held: null,
    }));

    harness.now += 5_001;
    await Promise.all(harness.askAll([...beats, worker.ackCommand(held)]));
    await harness.settle();

    expect(worker.dispatchesSent).toHaveLength(1);
  });
});

describe("leases", () => {
  it("[B6] a worker whose lease ended loses all its attempts, and its late result is refused", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();
    const spare = await harness.joinWorker("spare");
    const waits = () => harness.advance(1_000);

    for (let second = 0; second < 31; second++) {
      await waits();
      await spare.heartbeat([]);
    }

    expect(spare.lastDispatch).toMatchObject({ task: held.task });
    expect(spare.lastDispatch.fence).toBeGreaterThan(held.fence);
    expect(harness.effects).toContainEqual(expect.objectContaining({ type: "reset", worker: worker.worker }));
    await expect(worker.succeed({}, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await harness.facts("t1", "worker/t1/w")).toEqual([
      "worker.joined",
      "worker.liveness",
      "worker.liveness",
      "worker.liveness",
      "worker.lost",
    ]);
  });

  it("[B7] one heartbeat that names exactly the attempts it holds renews the lease of the whole worker process", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();

    for (let beat = 0; beat < 10; beat++) {
      await harness.advance(9_000);
      await worker.heartbeat([{ task: held.task, fence: held.fence }]);
    }

    expect(worker.dispatchesSent).toHaveLength(1);
    await expect(worker.succeed()).resolves.toMatchObject({ applied: true });
  });

  it("[B8] a heartbeat that no longer lists an acked attempt requeues it; one that lists a foreign attempt gets a stop", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();
    await harness.advance(6_000);

    await worker.heartbeat([{ task: "stray.0", fence: 7 }]);
    await harness.settle();

    expect(worker.lastDispatch.fence).toBeGreaterThan(held.fence);
    expect(harness.stopsSent()).toContainEqual(expect.objectContaining({ task: "stray.0", fence: 7 }));
  });

  it("[B9] no worker lease ends within one period after the scheduler itself was away", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();

    await harness.advance(3_600_000);
    expect(worker.dispatchesSent).toHaveLength(1);
    await worker.heartbeat([{ task: held.task, fence: held.fence }]);
    await harness.advance(1_000);

    await expect(worker.succeed({}, held)).resolves.toMatchObject({ applied: true });
  });

  it("[B10] after the scheduler was away, the lease of a worker that stays silent ends once the grace period is over", async () => {
    const { world: harness, worker, held, run } = await startGrantedTask();
    await worker.ack();

    await harness.advance(3_600_000);
    for (let second = 0; second < 31; second++) await harness.advance(1_000);

    const { tasks } = await harness.runDetail(run);
    expect(tasks[0]).toMatchObject({ phase: "ready", worker: null });
    expect(tasks[0]?.fence).toBeGreaterThan(held.fence);
  });

  it("[B11] one, two and three missed heartbeats are reported as warn, degraded and unhealthy, each once", async () => {
    const harness = await new EngineHarness({ settings: { leaseMs: 60_000 } }).start();
    await harness.joinWorker("w");

    for (let second = 0; second < 31; second++) await harness.advance(1_000);

    const page = await harness.store.events({ tenant: "t1", after: 0, limit: 100 });
    expect(page.items.filter((item) => item.type === "worker.liveness").map((item) => item.data["to"])).toEqual([
      "warn",
      "degraded",
      "unhealthy",
    ]);
  });
});

describe("workers that come back", () => {
  it("[B12] a worker that rejoins with the same boot keeps the attempts it reports as running, under the same fence", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();
    await worker.disconnect();

    const back = await harness.joinWorker("w", { boot: worker.boot, running: [{ task: held.task, fence: held.fence }] });
    await harness.settle();

    expect(harness.dispatches()).toHaveLength(1);
    await expect(back.succeed({ out: 1 }, held)).resolves.toMatchObject({ applied: true });
  });

  it("[B13] attempts that a restarted worker process cannot be running are requeued at once", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();

    const back = await harness.joinWorker("w", { boot: "another boot", running: [] });
    await harness.settle();

    expect(back.lastDispatch.task).toBe(held.task);
    expect(back.lastDispatch.fence).toBeGreaterThan(held.fence);
  });

  it("[B14] a new boot of a worker does not keep an attempt whose fence it cannot name", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();

    const back = await harness.joinWorker("w", { boot: "another boot", running: [{ task: held.task, fence: held.fence - 1 }] });

    expect(harness.stopsSent()).toContainEqual(expect.objectContaining({ session: back.session, task: held.task }));
    await expect(back.succeed({}, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[B24] a new boot of a worker can deliver the outcome of an attempt that its previous process finished, once", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();
    const back = await harness.joinWorker("w", { boot: "another boot", running: [{ task: held.task, fence: held.fence }] });

    expect(await back.succeed({ x: 1 }, held)).toMatchObject({ applied: true });
    const again = await harness.joinWorker("w", { boot: "a third boot", running: [{ task: held.task, fence: held.fence }] });

    expect(await again.succeed({ x: 1 }, held)).toMatchObject({ applied: false });
    await expect(again.succeed({ x: 2 }, held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    expect((await harness.facts()).filter((type) => type === "task.succeeded")).toHaveLength(1);
  });

  it("[B15] of two sessions of a worker that join in one turn, the first is reset as superseded", async () => {
    const harness = await new EngineHarness().start();
    const { worker, session, boot } = await harness.joinWorker("w");
    const about = JSON.parse((await harness.workerRow(worker)).about) as never;
    const join = (of: string) =>
      ({ type: "worker.join", tenant: "t1", worker, name: "w", boot, session: of, about, running: [] }) as const;

    await Promise.all(harness.askAll([join("s2"), join("s3")]));

    const resetSessions = harness.effects.flatMap((effect) => (effect.type === "reset" ? [effect.session] : []));
    expect(new Set(resetSessions)).toEqual(new Set([session, "s2"]));
  });

  it("[B15] results and heartbeats of a superseded session are refused", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    await worker.ack();

    await harness.joinWorker("w", { boot: worker.boot, running: [{ task: held.task, fence: held.fence }] });

    expect(harness.effects).toContainEqual(
      expect.objectContaining({ type: "reset", session: worker.session, reason: "superseded session" }),
    );
    await expect(worker.succeed({}, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await expect(worker.heartbeat([])).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });
});

describe("results said twice, or by the wrong one", () => {
  it("[B16] an identical repeated result is acknowledged without effect; a different result under the same fence is refused", async () => {
    const { worker, held, world: harness, run } = await startGrantedTask();
    await worker.succeed({ out: 1 }, held);
    const facts = (await harness.facts()).length;

    await expect(worker.succeed({ out: 1 }, held)).resolves.toMatchObject({ applied: false });
    expect((await harness.facts()).length).toBe(facts);
    await expect(worker.succeed({ out: 2 }, held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });

    expect((await harness.facts()).slice(facts)).toEqual(["task.refused"]);
    expect((await harness.runDetail(run)).tasks[0]?.result).toBe('{"out":1}');
  });

  it("[B560] a refused duplicate result is recorded with the digests of both, and an error after a success is a duplicate as well", async () => {
    const { worker, held, world: harness } = await startGrantedTask();
    await worker.succeed({ out: 1 }, held);

    await expect(worker.succeed({ out: 2 }, held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    await expect(worker.error("E.RUNNER.FAILURE", "it broke", held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    await expect(worker.error("E.RUNNER.CANCELLED", "not run", held)).resolves.toMatchObject({ applied: false });

    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, types: ["task.refused"] });
    const about = { task: held.task, worker: "t1/w", fence: held.fence, code: "E.RESULT.DUPLICATE" };
    const kept = { phase: "succeeded", digest: harnessDigest('{"out":1}') };
    expect(items.map(({ data }) => data)).toMatchObject([
      { ...about, kept, refused: { phase: "succeeded", digest: harnessDigest('{"out":2}') } },
      { ...about, kept, refused: { phase: "failed" } },
    ]);
  });

  it("[B560] the repeat of a result that failed its task for its schema is acknowledged without effect; another one is refused", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const results = { type: "object", properties: { out: { type: "string" } } };
    const workflow = buildChain(1);
    const nodes = (workflow["nodes"] as object[]).map((node) => ({ ...node, schema: { results } }));
    const run = await harness.startRun({ ...workflow, schemaMode: "enforce", nodes });
    await harness.settle();
    const held = worker.lastDispatch;
    await worker.succeed({ out: 1 }, held);
    const facts = (await harness.facts()).length;

    await expect(worker.succeed({ out: 1 }, held)).resolves.toMatchObject({ applied: false });
    expect((await harness.facts()).length).toBe(facts);
    await expect(worker.succeed({ out: 2 }, held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    expect((await harness.runDetail(run)).run.phase).toBe("failed");
  });

  it("[B17] a result from another worker, from another tenant or for an unknown task gets the same refusal", async () => {
    const { world: harness, held } = await startGrantedTask();
    const other = await harness.joinWorker("other");
    const foreign = await harness.joinWorker("foreign", { tenant: "t2" });

    const answers = await Promise.all(
      [other.succeed({}, held), foreign.succeed({}, held), other.succeed({}, { task: "no.0", fence: held.fence })].map((answer) =>
        answer.catch((refused) => refused.fault),
      ),
    );

    expect(new Set(answers.map((one) => one.code))).toEqual(new Set(["E.SESSION.STALE_BINDING"]));
    expect(new Set(answers.map((one) => one.message.replace("no.0", held.task))).size).toBe(1);
  });

  it("[B18] a task handed back by a stopping worker is requeued without counting a failure", async () => {
    const { world: harness, worker, held } = await startGrantedTask();
    const spare = await harness.joinWorker("spare");

    await worker.heartbeat([held], false);
    await worker.error("E.RUNNER.CANCELLED", "going down", held);
    await harness.settle();

    expect(spare.lastDispatch.task).toBe(held.task);
    expect(spare.lastDispatch.fence).toBeGreaterThan(held.fence);
  });

  it("[B18] tasks handed back count as deliveries if the worker stays, so that endless hand-backs end, but not if it is leaving", async () => {
    const { world: harness, worker, run } = await startGrantedTask({ maxDeliveries: 2 });
    for (let round = 0; round < 4; round++) {
      await worker.heartbeat([worker.lastDispatch], false);
      await worker.error("E.RUNNER.CANCELLED", "leaving");
      await worker.heartbeat([]);
      await harness.settle();
    }
    expect((await harness.runDetail(run)).run.phase).toBe("running");

    await worker.error("E.RUNNER.CANCELLED", "no slot");
    await harness.settle();
    await worker.error("E.RUNNER.CANCELLED", "no slot");

    expect(JSON.parse((await harness.runDetail(run)).run.error ?? "")).toMatchObject({ code: "E.WORKER.LOST" });
  });

  it("[B20] every grant of one task gets a strictly higher fence, even if the clock runs backwards", async () => {
    const harness = await new EngineHarness({ settings: { maxDeliveries: 50 } }).start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildWorkflow([{ policy: { retry: { maxAttempts: 20, backoffMs: 0 } } }], []));
    await harness.settle();

    for (let round = 0; round < 10; round++) {
      if (round === 5) harness.now -= 60_000;
      await worker.error("E.RUNNER.FAILURE");
      await harness.settle();
    }

    const fences = worker.dispatchesSent.map((dispatch) => dispatch.fence);
    expect(fences).toHaveLength(11);
    expect(fences.every((fence, at) => at === 0 || fence > (fences[at - 1] as number))).toBe(true);
  });
});

describe("what a session said before it left and is decided after", () => {
  it("[B80] a report sent before the session left counts as long as the worker has no newer session", async () => {
    const { world: harness, worker, held, run } = await startGrantedTask();
    await worker.ack();
    await worker.disconnect();

    const { tenant, worker: id, session } = worker;
    const { task, fence } = held;
    await harness.ask({ type: "task.feedback", tenant, worker: id, session, task, fence, data: { stage: "nearly" } });
    expect(await worker.succeed({ out: 1 }, held)).toEqual({ of: "word", applied: true });

    const { run: row, tasks } = await harness.runDetail(run);
    expect(row.phase).toBe("succeeded");
    expect(tasks[0]).toMatchObject({ fence: held.fence, result: '{"out":1}' });
    expect(await harness.facts("t1", `run/${run}`)).toContain("task.feedback");
    expect((await harness.workerRow(id)).phase).toBe("away");
  });

  it("[B80] a hand-back sent before the session left still requeues the task", async () => {
    const { world: harness, worker, held, run } = await startGrantedTask();
    await worker.ack();
    await worker.disconnect();

    expect(await worker.error("E.RUNNER.CANCELLED", "leaving", held)).toEqual({ of: "word", applied: true });
    const spare = await harness.joinWorker("spare");
    await harness.settle();
    expect(spare.lastDispatch).toMatchObject({ task: held.task });
    expect(spare.lastDispatch.fence).toBeGreaterThan(held.fence);
    expect((await harness.runDetail(run)).run.phase).toBe("running");
  });

  it("[B80] a report sent before the session left is refused once the worker is lost, was kicked or has joined with another session", async () => {
    const later = await startGrantedTask();
    await later.worker.ack();
    await later.worker.disconnect();
    for (let passed = 0; passed < 40; passed++) await later.world.advance(1_000);
    await expect(later.worker.succeed({ out: 1 }, later.held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    const kicked = await startGrantedTask();
    await kicked.world.ask({ type: "worker.kick", tenant: "t1", by: "me", worker: kicked.worker.worker, reason: "out" });
    await expect(kicked.worker.succeed({ out: 1 }, kicked.held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    const back = await startGrantedTask();
    await back.worker.ack();
    await back.worker.disconnect();
    await back.world.joinWorker("w");
    await expect(back.worker.succeed({ out: 1 }, back.held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });
});
