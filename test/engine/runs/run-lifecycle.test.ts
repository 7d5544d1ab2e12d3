// The life of a run through the real driver: submitted, granted, acked, answered, walked on, ended.
import type { Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, nodeId } from "../harness/engine-harness.ts";

describe("the life of a run", () => {
  it("[E1] a run of a chain executes node by node, carries values along the edges and ends succeeded", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(3, { params: { fixed: 1 } }));

    await harness.settle();
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ fixed: 1 });
    await worker.succeed({ out: "a" });
    expect(worker.lastDispatch.node).toBe(nodeId(1));
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ fixed: 1, in: "a" });
    await worker.succeed({ out: "b" });
    await worker.succeed({ out: "c" });

    const { run: row, tasks } = await harness.runDetail(run);
    expect(row).toMatchObject({ phase: "succeeded", open: 0 });
    expect(tasks.map((task) => task.phase)).toEqual(["succeeded", "succeeded", "succeeded"]);
    expect(tasks[2]?.result).toBe('{"out":"c"}');
  });

  it("[E2] the engine grants the successor in the same turn that takes the result", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(2));
    await harness.settle();
    const turns = harness.engine.gauge().turns;

    await worker.succeed({ out: 1 });

    expect(worker.dispatchesSent).toHaveLength(2);
    expect(harness.engine.gauge().turns).toBe(turns + 1);
  });

  it("[E3] a join waits for every predecessor and gets all their values", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const run = await harness.startRun(
      buildWorkflow(
        [{}, {}, {}],
        [
          [0, 2],
          [1, 2],
        ],
      ),
    );
    await harness.settle();
    const [left, right] = [worker.dispatchesSent[0], worker.lastDispatch];

    await worker.succeed({ out: "L" }, left);
    expect(worker.dispatchesSent).toHaveLength(2);
    await worker.succeed({ out: "R" }, right);

    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in0: "L", in1: "R" });
    await worker.succeed();
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[E3] a join counts two predecessors that end in one turn once each", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    await harness.startRun(
      buildWorkflow(
        [{}, {}, {}],
        [
          [0, 2],
          [1, 2],
        ],
      ),
    );
    await harness.settle();

    await Promise.all(harness.askAll(worker.dispatchesSent.map((dispatch) => worker.resultCommand(dispatch, { out: 1 }))));

    expect(worker.dispatchesSent).toHaveLength(3);
  });

  it("[E4] a failed task fails its run with its error, and tasks still open are cancelled and stopped at their worker", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await harness.startRun(buildWorkflow([{}, {}, {}], [[0, 2]]));
    await harness.settle();
    const [first, second] = [worker.dispatchesSent[0], worker.lastDispatch];

    await worker.error("E.RUNNER.FAILURE", "no such page", first);

    const { run: row, tasks } = await harness.runDetail(run);
    expect(row.phase).toBe("failed");
    expect(JSON.parse(row.error ?? "")).toMatchObject({
      code: "E.RUNNER.FAILURE",
      message: "no such page",
      details: { node: nodeId(0) },
    });
    expect(tasks.map((task) => task.phase)).toEqual(["failed", "cancelled"]);
    expect(harness.stopsSent()).toMatchObject([{ task: second.task, fence: second.fence, code: "E.RUNNER.CANCELLED" }]);
  });

  it("[E5] a failed attempt is retried after its backoff, under a new fence, as often as the policy allows", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 1_000 } } }));
    await harness.settle();
    const first = worker.lastDispatch;

    await worker.error("E.RUNNER.FAILURE");
    expect(worker.dispatchesSent).toHaveLength(1);
    expect(harness.wakeAt).toBeLessThanOrEqual(harness.now + 1_000);
    await harness.advance(1_001);
    const second = worker.lastDispatch;
    await worker.error("E.RUNNER.FAILURE");

    expect(second.attempt).toBe(2);
    expect(second.fence).toBeGreaterThan(first.fence);
    expect((await harness.runDetail(run)).run.phase).toBe("failed");
  });

  it("[E6] an attempt that exceeds its time limit fails with E.TIMEOUT, and its worker is sent a stop", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1, { policy: { timeoutMs: 2_000 } }));
    await harness.settle();
    await worker.ack();

    await harness.advance(2_001);

    expect(harness.stopsSent()).toMatchObject([{ task: worker.lastDispatch.task, code: "E.TIMEOUT" }]);
    expect(JSON.parse((await harness.runDetail(run)).run.error ?? "")).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[E7] a task that waits in its queue longer than its limit fails with E.DISPATCH.UNAVAILABLE and each worker's reason", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("old", { packages: [{ name: "test", version: "0.9.0", status: "installed" }] });
    await harness.joinWorker("foreign", { tenant: "t2" });
    const run = await harness.startRun(buildChain(1, { policy: { queueTimeoutMs: 3_000 } }));
    await harness.settle();

    await harness.advance(2_999);
    expect((await harness.runDetail(run)).run.phase).toBe("queued");
    await harness.advance(2);

    const error = JSON.parse((await harness.runDetail(run)).run.error ?? "");
    expect(error.code).toBe("E.DISPATCH.UNAVAILABLE");
    expect(error.details.reasons).toEqual([{ worker: "old", code: "package-version", has: "0.9.0", needs: "1.0.0" }]);
  });

  it("[E8] a run that exceeds its own time limit fails, and its running attempt is stopped", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(2), { timeoutMs: 5_000 });
    await harness.settle();
    await worker.ack();

    await harness.advance(4_000);
    await worker.heartbeat([worker.lastDispatch]);
    await harness.advance(1_001);

    expect((await harness.runDetail(run)).run.phase).toBe("failed");
    expect(harness.stopsSent()).toHaveLength(1);
  });

  it("[E9] cancelling a run ends it as cancelled and stops the running attempt, whose late result changes nothing", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(2));
    await harness.settle();
    const held = worker.lastDispatch;

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "not needed" });

    expect(harness.stopsSent()).toMatchObject([{ task: held.task, fence: held.fence }]);
    await expect(worker.succeed({ out: 1 }, held)).resolves.toMatchObject({ applied: false });
    expect((await harness.runDetail(run)).run.phase).toBe("cancelled");
  });

  it("[E560] a cancel of a run that has succeeded, failed or been cancelled is refused with E.RUN.TERMINAL and changes nothing", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const cancel = (run: string, key: string | null = null) =>
      harness.ask({
        type: "run.cancel",
        tenant: "t1",
        by: "me",
        run,
        reason: "x",
        ask: key === null ? null : { key, digest: run },
      });
    const succeeded = await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.succeed({ out: 1 });
    const failed = await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.error("E.RUNNER.FAILURE");
    const cancelled = await harness.startRun(buildChain(1));
    const first = await cancel(cancelled, "k");

    for (const [run, phase] of Object.entries({ [succeeded]: "succeeded", [failed]: "failed", [cancelled]: "cancelled" })) {
      const before = await harness.runDetail(run);
      const message = `run ${run} is ${phase}; nothing is left to cancel`;
      await expect(cancel(run)).rejects.toMatchObject({ fault: { code: "E.RUN.TERMINAL", message, details: { run, phase } } });
      expect(await harness.runDetail(run)).toEqual(before);
    }
    expect(await cancel(cancelled, "k")).toEqual({ ...first, repeated: true });
  });

  it("[E560] a cancel of a run that is being cancelled is answered like the first, and of one that is being stopped as failed it is refused", async () => {
    const harness = await new EngineHarness({ settings: { sweepTasksMax: 1 } }).start();
    const wide = buildWorkflow([{}, {}, {}, {}], []);
    const cancel = (run: string): Command => ({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "x" });
    const outcomeOf = (answer: Promise<unknown>) => answer.catch((refused) => refused.fault.message);
    const first = await harness.startRun(wide);
    const [one, two] = harness.askAll([cancel(first), cancel(first)]);

    expect(await one).toMatchObject({ phase: "ending", repeated: false });
    expect(await two).toMatchObject({ phase: "ending", repeated: true });
    await harness.settle();
    expect((await harness.facts()).filter((type) => type === "run.cancelling")).toHaveLength(1);

    const worker = await harness.joinWorker("w");
    const second = await harness.startRun(wide);
    await harness.settle();
    const error = worker.resultCommand(worker.lastDispatch, {}, "failed");
    const [reported, late] = harness.askAll([error, cancel(second)]).map(outcomeOf);

    expect(await reported).toMatchObject({ applied: true });
    expect(await late).toBe(`run ${second} has failed and its open tasks are being stopped; nothing is left to cancel`);
    await harness.settle();
    expect((await harness.runDetail(second)).run.phase).toBe("failed");
  });

  it("[E10] the cancellation of a large run sweeps a bounded number of tasks per turn and ends the run when none is left", async () => {
    const harness = await new EngineHarness({ settings: { sweepTasksMax: 10 } }).start();
    const run = await harness.startRun(
      buildWorkflow(
        Array.from({ length: 35 }, () => ({})),
        [],
      ),
    );
    await harness.settle();
    const turns = harness.engine.gauge().turns;

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "x" });
    await harness.settle();

    const { run: row, tasks } = await harness.runDetail(run);
    expect(row).toMatchObject({ phase: "cancelled", open: 0 });
    expect(tasks.every((task) => task.phase === "cancelled")).toBe(true);
    expect(harness.engine.gauge().turns - turns).toBeGreaterThanOrEqual(4);
  });

  it("[E11] a start repeated under its Idempotency-Key returns the same run; another request under the key is refused", async () => {
    const harness = await new EngineHarness().start();

    const first = await harness.startRun(buildChain(1), { ask: "k" });
    const again = await harness.startRun(buildChain(1), { ask: "k" });
    const [one, two] = await Promise.all(
      harness.askAll([harness.startCommand(buildChain(1), { ask: "k2" }), harness.startCommand(buildChain(1), { ask: "k2" })]),
    );

    expect(again).toBe(first);
    expect(one).toMatchObject({ repeated: false });
    expect(two).toMatchObject({ repeated: true, run: (one as { run: string }).run });
    await expect(harness.startRun(buildChain(2), { ask: "k" })).rejects.toMatchObject({ code: "E.IDEMPOTENCY.MISMATCH" });
    expect(await harness.startRun(buildChain(1), { ask: "k", tenant: "t2" })).not.toBe(first);
  });

  it("[E12] a cancel of another tenant's run is answered exactly like one of a missing run", async () => {
    const harness = await new EngineHarness().start();
    const run = await harness.startRun(buildChain(1));
    const cancel = (id: string) =>
      harness.ask({ type: "run.cancel", tenant: "t2", by: "x", run: id, reason: "" }).catch((refused) => refused.fault);

    const foreign = await cancel(run);
    const missing = await cancel("none");

    expect(foreign.code).toBe("E.NOT_FOUND");
    expect(foreign.message.replace(run, "ID")).toBe(missing.message.replace("none", "ID"));
  });
});
