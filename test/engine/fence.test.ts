// Fences, leases and what becomes of an attempt when its worker is silent, slow, restarted, doubled or wrong.
import { describe, expect, it } from "vitest";
import { chain, graph, Harness } from "./harness.ts";

async function granted(settings = {}) {
  const world = await new Harness({ settings }).start();
  const worker = await world.join("w");
  const run = await world.run(chain(1));
  await world.settle();
  return { world, worker, run, held: worker.last };
}

describe("grants nobody answers", () => {
  it("[B1] takes a grant back that was not acked in time and gives it to another under a higher fence", async () => {
    const { world, worker, held } = await granted();
    const spare = await world.join("spare");
    await world.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });

    await world.advance(4_999);
    expect(spare.sent).toEqual([]);
    await world.advance(1);

    expect(spare.last.task).toBe(held.task);
    expect(spare.last.fence).toBeGreaterThan(held.fence);
  });

  it("[B2] revokes an unacked grant at its deadline, tells the worker, and refuses its late word", async () => {
    const { world, worker, held, run } = await granted();

    await world.advance(5_001);

    expect(world.stops()).toMatchObject([{ task: held.task, fence: held.fence, code: "E.SESSION.STALE_BINDING" }]);
    expect(worker.last.fence).toBeGreaterThan(held.fence);
    await expect(worker.done({ out: 1 }, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect((await world.detail(run)).run.phase).toBe("running");
  });

  it("[B3] keeps a grant that was acked, and heartbeats alone do not keep one that was not", async () => {
    const { world, worker, held } = await granted();

    await world.advance(4_000);
    await worker.beat([]);
    await world.advance(1_001);
    expect(worker.last.fence).toBeGreaterThan(held.fence);
    await worker.ack();
    await world.advance(6_000);

    expect(worker.sent).toHaveLength(2);
  });

  it("[B4] fails a task with E.DISPATCH.UNAVAILABLE after max_deliveries grants in a row that nobody acked", async () => {
    const { world, worker, run } = await granted({ maxDeliveries: 3, leaseMs: 600_000, heartbeatMs: 200_000 });

    for (let round = 0; round < 3; round++) await world.advance(5_001);

    expect(worker.sent).toHaveLength(3);
    const { run: row, tasks } = await world.detail(run);
    expect(row.phase).toBe("failed");
    expect(JSON.parse(row.error ?? "")).toMatchObject({ code: "E.DISPATCH.UNAVAILABLE", details: { deliveries: 3 } });
    expect(tasks[0]?.deliveries).toBe(3);
  });

  it("[B5] applies an ack that waits in the inbox before the deadline it meets", async () => {
    const { world, worker, held } = await granted({ turnCommandsMax: 2 });
    const beats = Array.from({ length: 6 }, () => ({
      type: "worker.beat" as const,
      tenant: "t1",
      worker: worker.worker,
      session: worker.session,
      healthy: true,
      held: null,
    }));

    world.now += 5_001;
    await Promise.all(world.askAll([...beats, worker.ackCommand(held)]));
    await world.settle();

    expect(worker.sent).toHaveLength(1);
  });
});

describe("leases", () => {
  it("[B6] takes everything back from a worker whose lease ended and refuses its late result", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();
    const spare = await world.join("spare");
    const waits = () => world.advance(1_000);

    for (let second = 0; second < 31; second++) {
      await waits();
      await spare.beat([]);
    }

    expect(spare.last).toMatchObject({ task: held.task });
    expect(spare.last.fence).toBeGreaterThan(held.fence);
    expect(world.effects).toContainEqual(expect.objectContaining({ type: "reset", worker: worker.worker }));
    await expect(worker.done({}, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await world.facts("t1", "worker/t1/w")).toEqual([
      "worker.joined",
      "worker.liveness",
      "worker.liveness",
      "worker.liveness",
      "worker.lost",
    ]);
  });

  it("[B7] renews the whole boot with one heartbeat that names exactly what it holds", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();

    for (let beat = 0; beat < 10; beat++) {
      await world.advance(9_000);
      await worker.beat([{ task: held.task, fence: held.fence }]);
    }

    expect(worker.sent).toHaveLength(1);
    await expect(worker.done()).resolves.toMatchObject({ applied: true });
  });

  it("[B8] takes back an acked attempt that a later heartbeat no longer names, and stops one it should not have", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();
    await world.advance(6_000);

    await worker.beat([{ task: "stray.0", fence: 7 }]);
    await world.settle();

    expect(worker.last.fence).toBeGreaterThan(held.fence);
    expect(world.stops()).toContainEqual(expect.objectContaining({ task: "stray.0", fence: 7 }));
  });

  it("[B9] ends no lease within one period after the scheduler itself was away", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();

    await world.advance(3_600_000);
    expect(worker.sent).toHaveLength(1);
    await worker.beat([{ task: held.task, fence: held.fence }]);
    await world.advance(1_000);

    await expect(worker.done({}, held)).resolves.toMatchObject({ applied: true });
  });

  it("[B10] ends the lease once the grace is over and the worker stayed silent", async () => {
    const { world, worker, held, run } = await granted();
    await worker.ack();

    await world.advance(3_600_000);
    for (let second = 0; second < 31; second++) await world.advance(1_000);

    const { tasks } = await world.detail(run);
    expect(tasks[0]).toMatchObject({ phase: "ready", worker: null });
    expect(tasks[0]?.fence).toBeGreaterThan(held.fence);
  });

  it("[B11] says 1x, 2x, 3x missed heartbeats as warn, degraded, unhealthy, each once", async () => {
    const world = await new Harness({ settings: { leaseMs: 60_000 } }).start();
    await world.join("w");

    for (let second = 0; second < 31; second++) await world.advance(1_000);

    const page = await world.store.events({ tenant: "t1", after: 0, limit: 100 });
    expect(page.items.filter((item) => item.type === "worker.liveness").map((item) => item.data["to"])).toEqual([
      "warn",
      "degraded",
      "unhealthy",
    ]);
  });
});

describe("workers that come back", () => {
  it("[B12] keeps an attempt that the same boot reports running, under the same fence", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();
    await worker.leave();

    const back = await world.join("w", { boot: worker.boot, running: [{ task: held.task, fence: held.fence }] });
    await world.settle();

    expect(world.dispatches()).toHaveLength(1);
    await expect(back.done({ out: 1 }, held)).resolves.toMatchObject({ applied: true });
  });

  it("[B13] requeues at once what a restarted process cannot be running", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();

    const back = await world.join("w", { boot: "another boot", running: [] });
    await world.settle();

    expect(back.last.task).toBe(held.task);
    expect(back.last.fence).toBeGreaterThan(held.fence);
  });

  it("[B14] does not let a new boot keep an attempt whose fence it cannot name", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();

    const back = await world.join("w", { boot: "another boot", running: [{ task: held.task, fence: held.fence - 1 }] });

    expect(world.stops()).toContainEqual(expect.objectContaining({ session: back.session, task: held.task }));
    await expect(back.done({}, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[B24] lets a new boot deliver the outcome of an attempt that its last life finished, once", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();
    const back = await world.join("w", { boot: "another boot", running: [{ task: held.task, fence: held.fence }] });

    expect(await back.done({ x: 1 }, held)).toMatchObject({ applied: true });
    const again = await world.join("w", { boot: "a third boot", running: [{ task: held.task, fence: held.fence }] });

    expect(await again.done({ x: 1 }, held)).toMatchObject({ applied: false });
    await expect(again.done({ x: 2 }, held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    expect((await world.facts()).filter((type) => type === "task.succeeded")).toHaveLength(1);
  });

  it("[B15] tells the first of two sessions that are joined in one turn that it is superseded", async () => {
    const world = await new Harness().start();
    const { worker, session, boot } = await world.join("w");
    const about = JSON.parse((await world.workerRow(worker)).about) as never;
    const join = (of: string) =>
      ({ type: "worker.join", tenant: "t1", worker, name: "w", boot, session: of, about, running: [] }) as const;

    await Promise.all(world.askAll([join("s2"), join("s3")]));

    const told = world.effects.flatMap((effect) => (effect.type === "reset" ? [effect.session] : []));
    expect(new Set(told)).toEqual(new Set([session, "s2"]));
  });

  it("[B15] processes nothing of a session that another has superseded", async () => {
    const { world, worker, held } = await granted();
    await worker.ack();

    await world.join("w", { boot: worker.boot, running: [{ task: held.task, fence: held.fence }] });

    expect(world.effects).toContainEqual(
      expect.objectContaining({ type: "reset", session: worker.session, reason: "superseded session" }),
    );
    await expect(worker.done({}, held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await expect(worker.beat([])).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });
});

describe("results said twice, or by the wrong one", () => {
  it("[B16] acknowledges an equal repeat without effect and refuses another result under the same fence", async () => {
    const { worker, held, world, run } = await granted();
    await worker.done({ out: 1 }, held);
    const facts = (await world.facts()).length;

    await expect(worker.done({ out: 1 }, held)).resolves.toMatchObject({ applied: false });
    expect((await world.facts()).length).toBe(facts);
    await expect(worker.done({ out: 2 }, held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });

    expect((await world.facts()).slice(facts)).toEqual(["task.refused"]);
    expect((await world.detail(run)).tasks[0]?.result).toBe('{"out":1}');
  });

  it("[B17] gives another worker, another tenant and an unknown task one and the same answer", async () => {
    const { world, held } = await granted();
    const other = await world.join("other");
    const foreign = await world.join("foreign", { tenant: "t2" });

    const answers = await Promise.all(
      [other.done({}, held), foreign.done({}, held), other.done({}, { task: "no.0", fence: held.fence })].map((said) =>
        said.catch((refused) => refused.fault),
      ),
    );

    expect(new Set(answers.map((one) => one.code))).toEqual(new Set(["E.SESSION.STALE_BINDING"]));
    expect(new Set(answers.map((one) => one.message.replace("no.0", held.task))).size).toBe(1);
  });

  it("[B18] hands a task back without a verdict when its worker is shutting down", async () => {
    const { world, worker, held } = await granted();
    const spare = await world.join("spare");

    await worker.beat([held], false);
    await worker.error("E.RUNNER.CANCELLED", "going down", held);
    await world.settle();

    expect(spare.last.task).toBe(held.task);
    expect(spare.last.fence).toBeGreaterThan(held.fence);
  });

  it("[B18] counts hand-backs of a worker that stays, so that two sides that disagree end, but not those of one that leaves", async () => {
    const { world, worker, run } = await granted({ maxDeliveries: 2 });
    for (let round = 0; round < 4; round++) {
      await worker.beat([worker.last], false);
      await worker.error("E.RUNNER.CANCELLED", "leaving");
      await worker.beat([]);
      await world.settle();
    }
    expect((await world.detail(run)).run.phase).toBe("running");

    await worker.error("E.RUNNER.CANCELLED", "no slot");
    await world.settle();
    await worker.error("E.RUNNER.CANCELLED", "no slot");

    expect(JSON.parse((await world.detail(run)).run.error ?? "")).toMatchObject({ code: "E.WORKER.LOST" });
  });

  it("[B19] takes E.CMD.CONCURRENCY_VIOLATION as still running there", async () => {
    const { world, worker, held } = await granted();

    await worker.error("E.CMD.CONCURRENCY_VIOLATION", "busy", held);
    await world.advance(6_000);

    expect(world.dispatches()).toHaveLength(1);
    await expect(worker.done({}, held)).resolves.toMatchObject({ applied: true });
  });

  it("[B20] gives every grant of one task a strictly higher fence, whatever the clock does", async () => {
    const world = await new Harness({ settings: { maxDeliveries: 50 } }).start();
    const worker = await world.join("w");
    await world.run(graph([{ policy: { retry: { maxAttempts: 20, backoffMs: 0 } } }], []));
    await world.settle();

    for (let round = 0; round < 10; round++) {
      if (round === 5) world.now -= 60_000;
      await worker.error("E.RUNNER.FAILURE");
      await world.settle();
    }

    const fences = worker.sent.map((dispatch) => dispatch.fence);
    expect(fences).toHaveLength(11);
    expect(fences.every((fence, at) => at === 0 || fence > (fences[at - 1] as number))).toBe(true);
  });
});

describe("what a session said before it left and is decided after", () => {
  it("[B80] counts while nobody has followed the session: its outcome ends the task, its feedback is kept", async () => {
    const { world, worker, held, run } = await granted();
    await worker.ack();
    await worker.leave();

    const { tenant, worker: id, session } = worker;
    const { task, fence } = held;
    await world.ask({ type: "task.feedback", tenant, worker: id, session, task, fence, data: { stage: "nearly" } });
    expect(await worker.done({ out: 1 }, held)).toEqual({ of: "word", applied: true });

    const { run: row, tasks } = await world.detail(run);
    expect(row.phase).toBe("succeeded");
    expect(tasks[0]).toMatchObject({ fence: held.fence, result: '{"out":1}' });
    expect(await world.facts("t1", `run/${run}`)).toContain("task.feedback");
    expect((await world.workerRow(id)).phase).toBe("away");
  });

  it("[B80] hands work back and fails attempts as it would have before", async () => {
    const { world, worker, held, run } = await granted();
    await worker.ack();
    await worker.leave();

    expect(await worker.error("E.RUNNER.CANCELLED", "leaving", held)).toEqual({ of: "word", applied: true });
    const spare = await world.join("spare");
    await world.settle();
    expect(spare.last).toMatchObject({ task: held.task });
    expect(spare.last.fence).toBeGreaterThan(held.fence);
    expect((await world.detail(run)).run.phase).toBe("running");
  });

  it("[B80] is refused once the worker is lost, was kicked, or has come back in another session, and asks for nothing", async () => {
    const later = await granted();
    await later.worker.ack();
    await later.worker.leave();
    for (let passed = 0; passed < 40; passed++) await later.world.advance(1_000);
    await expect(later.worker.done({ out: 1 }, later.held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    const kicked = await granted();
    await kicked.world.ask({ type: "worker.kick", tenant: "t1", by: "me", worker: kicked.worker.worker, reason: "out" });
    await expect(kicked.worker.done({ out: 1 }, kicked.held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });

    const back = await granted();
    await back.worker.ack();
    await back.worker.leave();
    await back.world.join("w");
    await expect(back.worker.done({ out: 1 }, back.held)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });
});
