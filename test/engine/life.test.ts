// The life of a run through the real driver: submitted, granted, acked, answered, walked on, ended.
import { describe, expect, it } from "vitest";
import { chain, graph, Harness, nodeId } from "./harness.ts";

describe("the life of a run", () => {
  it("[E1] walks a chain node by node, carrying values along the edges, and ends succeeded", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await world.run(chain(3, { params: { fixed: 1 } }));

    await world.settle();
    expect(JSON.parse(worker.last.params)).toEqual({ fixed: 1 });
    await worker.done({ out: "a" });
    expect(worker.last.node).toBe(nodeId(1));
    expect(JSON.parse(worker.last.params)).toEqual({ fixed: 1, in: "a" });
    await worker.done({ out: "b" });
    await worker.done({ out: "c" });

    const { run: row, tasks } = await world.detail(run);
    expect(row).toMatchObject({ phase: "succeeded", open: 0 });
    expect(tasks.map((task) => task.phase)).toEqual(["succeeded", "succeeded", "succeeded"]);
    expect(tasks[2]?.result).toBe('{"out":"c"}');
  });

  it("[E2] grants the successor in the very turn that takes the result", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    await world.run(chain(2));
    await world.settle();
    const turns = world.engine.gauge().turns;

    await worker.done({ out: 1 });

    expect(worker.sent).toHaveLength(2);
    expect(world.engine.gauge().turns).toBe(turns + 1);
  });

  it("[E3] lets a join wait for every predecessor and gives it all their values", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    const run = await world.run(
      graph(
        [{}, {}, {}],
        [
          [0, 2],
          [1, 2],
        ],
      ),
    );
    await world.settle();
    const [left, right] = [worker.sent[0], worker.last];

    await worker.done({ out: "L" }, left);
    expect(worker.sent).toHaveLength(2);
    await worker.done({ out: "R" }, right);

    expect(JSON.parse(worker.last.params)).toEqual({ in0: "L", in1: "R" });
    await worker.done();
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[E3] counts two predecessors that end in one turn once each", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    await world.run(
      graph(
        [{}, {}, {}],
        [
          [0, 2],
          [1, 2],
        ],
      ),
    );
    await world.settle();

    await Promise.all(world.askAll(worker.sent.map((dispatch) => worker.resultCommand(dispatch, { out: 1 }))));

    expect(worker.sent).toHaveLength(3);
  });

  it("[E4] fails the run with the task's error and cancels what is still open, telling its holder to stop", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 2 });
    const run = await world.run(graph([{}, {}, {}], [[0, 2]]));
    await world.settle();
    const [first, second] = [worker.sent[0], worker.last];

    await worker.error("E.RUNNER.FAILURE", "no such page", first);

    const { run: row, tasks } = await world.detail(run);
    expect(row.phase).toBe("failed");
    expect(JSON.parse(row.error ?? "")).toMatchObject({
      code: "E.RUNNER.FAILURE",
      message: "no such page",
      details: { node: nodeId(0) },
    });
    expect(tasks.map((task) => task.phase)).toEqual(["failed", "cancelled"]);
    expect(world.stops()).toMatchObject([{ task: second.task, fence: second.fence, code: "E.RUNNER.CANCELLED" }]);
  });

  it("[E5] retries a failed attempt after its backoff, under a new fence, as often as the policy says", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await world.run(chain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 1_000 } } }));
    await world.settle();
    const first = worker.last;

    await worker.error("E.RUNNER.FAILURE");
    expect(worker.sent).toHaveLength(1);
    expect(world.wakeAt).toBeLessThanOrEqual(world.now + 1_000);
    await world.advance(1_001);
    const second = worker.last;
    await worker.error("E.RUNNER.FAILURE");

    expect(second.attempt).toBe(2);
    expect(second.fence).toBeGreaterThan(first.fence);
    expect((await world.detail(run)).run.phase).toBe("failed");
  });

  it("[E6] ends an attempt that outlives its time limit, tells the worker to stop, and retries or fails", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await world.run(chain(1, { policy: { timeoutMs: 2_000 } }));
    await world.settle();
    await worker.ack();

    await world.advance(2_001);

    expect(world.stops()).toMatchObject([{ task: worker.last.task, code: "E.TIMEOUT" }]);
    expect(JSON.parse((await world.detail(run)).run.error ?? "")).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[E7] fails a task that waited in queue longer than its limit with E.DISPATCH.UNAVAILABLE and each worker's reason", async () => {
    const world = await new Harness().start();
    await world.join("old", { packages: [{ name: "test", version: "0.9.0", status: "installed" }] });
    await world.join("foreign", { tenant: "t2" });
    const run = await world.run(chain(1, { policy: { queueTimeoutMs: 3_000 } }));
    await world.settle();

    await world.advance(2_999);
    expect((await world.detail(run)).run.phase).toBe("queued");
    await world.advance(2);

    const error = JSON.parse((await world.detail(run)).run.error ?? "");
    expect(error.code).toBe("E.DISPATCH.UNAVAILABLE");
    expect(error.details.reasons).toEqual([{ worker: "old", code: "package-version", has: "0.9.0", needs: "1.0.0" }]);
  });

  it("[E8] ends a run that outlives its own time limit", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await world.run(chain(2), { timeoutMs: 5_000 });
    await world.settle();
    await worker.ack();

    await world.advance(4_000);
    await worker.beat([worker.last]);
    await world.advance(1_001);

    expect((await world.detail(run)).run.phase).toBe("failed");
    expect(world.stops()).toHaveLength(1);
  });

  it("[E9] cancels a run: the outcome is cancelled, the running attempt is told, its late result changes nothing", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const run = await world.run(chain(2));
    await world.settle();
    const held = worker.last;

    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "not needed" });

    expect(world.stops()).toMatchObject([{ task: held.task, fence: held.fence }]);
    await expect(worker.done({ out: 1 }, held)).resolves.toMatchObject({ applied: false });
    expect((await world.detail(run)).run.phase).toBe("cancelled");
    await expect(world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "again" })).resolves.toMatchObject({
      phase: "cancelled",
    });
  });

  it("[E10] sweeps a large run by a cursor, some tasks a turn, and ends it when none is left", async () => {
    const world = await new Harness({ settings: { sweepTasksMax: 10 } }).start();
    const run = await world.run(
      graph(
        Array.from({ length: 35 }, () => ({})),
        [],
      ),
    );
    await world.settle();
    const turns = world.engine.gauge().turns;

    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "x" });
    await world.settle();

    const { run: row, tasks } = await world.detail(run);
    expect(row).toMatchObject({ phase: "cancelled", open: 0 });
    expect(tasks.every((task) => task.phase === "cancelled")).toBe(true);
    expect(world.engine.gauge().turns - turns).toBeGreaterThanOrEqual(4);
  });

  it("[E11] gives the same run for the same Idempotency-Key and refuses another request under it", async () => {
    const world = await new Harness().start();

    const first = await world.run(chain(1), { ask: "k" });
    const again = await world.run(chain(1), { ask: "k" });
    const [one, two] = await Promise.all(
      world.askAll([world.order(chain(1), { ask: "k2" }), world.order(chain(1), { ask: "k2" })]),
    );

    expect(again).toBe(first);
    expect(one).toMatchObject({ repeated: false });
    expect(two).toMatchObject({ repeated: true, run: (one as { run: string }).run });
    await expect(world.run(chain(2), { ask: "k" })).rejects.toMatchObject({ code: "E.IDEMPOTENCY.MISMATCH" });
    expect(await world.run(chain(1), { ask: "k", tenant: "t2" })).not.toBe(first);
  });

  it("[E12] answers about another tenant's run exactly as about a missing one", async () => {
    const world = await new Harness().start();
    const run = await world.run(chain(1));
    const cancel = (id: string) =>
      world.ask({ type: "run.cancel", tenant: "t2", by: "x", run: id, reason: "" }).catch((refused) => refused.fault);

    const foreign = await cancel(run);
    const missing = await cancel("none");

    expect(foreign.code).toBe("E.NOT_FOUND");
    expect(foreign.message.replace(run, "ID")).toBe(missing.message.replace("none", "ID"));
  });
});
