import { describe, expect, it } from "vitest";
import { readyLinkHarness } from "../../test/link-harness.ts";

describe("attempts of a worker", () => {
  it("[W11] a worker stops a cancelled attempt by its signal and drops its late result", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 3 });
    harness.flush();
    const { signal } = harness.attempt("a").stopSignal;

    harness.cancel("a", 3);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ message: "not wanted" });
    harness.finish("a");

    expect(harness.frames("biz.exec.result")).toHaveLength(0);
    expect(harness.link.status.held).toBe(0);
  });

  it("[W11] a worker ignores a cancel that names another fence", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 3 });

    harness.cancel("a", 2);

    expect(harness.attempt("a").stopSignal.isStopped).toBe(false);
  });

  it("[W11] a worker holds an attempt that is cancelled after it finished until its result is acked", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 3 });
    harness.finish("a");

    harness.cancel("a", 3);
    expect(harness.link.status.held).toBe(1);
    harness.ackUpTo(0);

    expect(harness.link.status.held).toBe(0);
  });

  it("[W12] a worker refuses a dispatch whose fence is below the one it knows, even after the task has ended", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 5 });
    harness.finish("a");
    harness.ackUpTo(0);

    harness.dispatch("a", { fence: 4 });
    harness.flush();

    expect(harness.started).toHaveLength(1);
    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "a", fence: 4, code: "E.SESSION.STALE_BINDING" });
  });

  it("[W12] a worker remembers the fences of a bounded number of tasks, the latest ones", () => {
    const harness = readyLinkHarness({ settings: { attemptTable: { slotWaitMs: 5_000, rememberedFencesMax: 4 } } });
    for (const [index, task] of ["a", "b", "c", "d", "e"].entries()) {
      harness.dispatch(task, { fence: 5 });
      harness.finish(task);
      harness.ackUpTo(index);
    }

    harness.dispatch("d", { fence: 4 });
    harness.dispatch("a", { fence: 4 });
    harness.flush();

    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "d", code: "E.SESSION.STALE_BINDING" });
    expect(harness.started.at(-1)).toMatchObject({ task: "a", fence: 4 });
  });

  it("[W13] a worker acks a repeated grant again and starts it only once, whether it is running or done", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 5 });
    harness.dispatch("a", { fence: 5 });
    harness.flush();
    harness.finish("a");
    harness.dispatch("a", { fence: 5 });
    harness.flush();
    harness.ackUpTo(0);
    harness.dispatch("a", { fence: 5 });
    harness.flush();

    expect(harness.started).toHaveLength(1);
    expect(harness.frames("biz.exec.result")).toHaveLength(1);
    expect(harness.frames("biz.exec.error")).toHaveLength(0);
    expect(harness.payload("control.ack")).toMatchObject({ ack_seq: 3 });
  });

  it("[W12] a dispatch with a higher fence stops the old attempt, and the new one starts when the old handler has returned", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 5, concurrency_key: "k" });
    const old = harness.attempt("a");

    harness.dispatch("a", { fence: 6, concurrency_key: "k" });
    expect(old.stopSignal.isStopped).toBe(true);
    expect(harness.started).toHaveLength(1);
    harness.link.handlerReturned(old);

    expect(harness.started.map((attempt) => attempt.fence)).toEqual([5, 6]);
    harness.finish("a");
    expect(harness.payload("biz.exec.result").fence).toBe(6);
  });

  it("[W14] a worker refuses a task whose concurrency key is taken by another, and accepts it once the key is free", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { concurrency_key: "k" });

    harness.dispatch("b", { concurrency_key: "k", fence: 2 });
    harness.flush();
    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "b", fence: 2, code: "E.CMD.CONCURRENCY_VIOLATION" });
    harness.finish("a");
    harness.dispatch("b", { concurrency_key: "k", fence: 3 });

    expect(harness.started.map((attempt) => attempt.task)).toEqual(["a", "b"]);
  });

  it("[W14] a stopped attempt keeps its concurrency key until its handler returns; the next attempt with the key is held until then", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { concurrency_key: "k" });
    const [stopped] = harness.started;
    if (stopped === undefined) throw new Error("a was not started");
    harness.cancel("a", 1);

    harness.dispatch("b", { concurrency_key: "k" });
    harness.flush();
    expect(harness.started.map((attempt) => attempt.task)).toEqual(["a"]);
    expect(harness.frames("biz.exec.error")).toEqual([]);
    expect(harness.link.status).toMatchObject({ held: 1, occupied: 1 });

    harness.link.handlerReturned(stopped);
    expect(harness.started.map((attempt) => attempt.task)).toEqual(["a", "b"]);
  });

  it("[W15] a worker never runs more handlers than it has slots; an attempt granted beyond that is held until a slot is free", () => {
    const harness = readyLinkHarness({ maxParallel: 2 });
    for (const task of ["a", "b", "c"]) harness.dispatch(task);
    harness.flush();

    expect(harness.started.map((attempt) => attempt.task)).toEqual(["a", "b"]);
    expect(harness.link.status).toMatchObject({ held: 3, occupied: 2 });
    harness.finish("b");

    expect(harness.started.map((attempt) => attempt.task)).toEqual(["a", "b", "c"]);
  });

  it("[W15] a worker gives a waiting attempt back when a stopped handler does not free its slot in time", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    harness.dispatch("a");
    harness.cancel("a", 1);
    harness.dispatch("b", { fence: 2 });
    harness.flush();
    expect(harness.started).toHaveLength(1);

    harness.advance(5_000);

    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "b", fence: 2, code: "E.RUNNER.CANCELLED" });
    expect(harness.link.status.held).toBe(0);
    harness.link.handlerReturned(harness.attempt("a"));
    expect(harness.started).toHaveLength(1);
  });

  it("[W15] a worker refuses a dispatch at once when as many attempts already wait as it has slots", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    for (const task of ["a", "b", "c"]) harness.dispatch(task);
    harness.flush();

    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "c", code: "E.RUNNER.CANCELLED" });
    expect(harness.link.status.held).toBe(2);
  });

  it("[W1105] a refused task or package command is in the log with its code and the type, id, corr and seq of the frame that brought it", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    for (const task of ["a", "b", "c"]) harness.dispatch(task);
    harness.sendToLink("biz.exec.dispatch", { run_id: "r", task_id: "bad" }, { id: "f-3", seq: 3 });
    harness.sendToLink("biz.pkg.install", { name: "extra", version: "1.0.0", command_id: "c-1" }, { id: "f-4", seq: 4 });

    const refusals = harness.eventsNamed("attempt-refused").map(({ level, details }) => ({ level, ...details }));
    expect(refusals).toMatchObject([
      { level: "warn", type: "biz.exec.dispatch", id: expect.any(String), seq: 2, corr: "c", code: "E.RUNNER.CANCELLED" },
      { level: "warn", type: "biz.exec.dispatch", id: "f-3", seq: 3, corr: "bad", code: "E.FRAME.INVALID" },
    ]);
    expect(harness.eventsNamed("package-refused").map(({ details }) => details)).toEqual([
      { type: "biz.pkg.install", id: "f-4", corr: "c-1", seq: 4, package: "extra", version: "1.0.0", code: "E.CMD.UNKNOWN" },
    ]);
  });

  it("[W15] a worker does not start an attempt that was cancelled while it waited", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    harness.dispatch("a");
    harness.dispatch("b", { fence: 2 });
    harness.cancel("b", 2);

    harness.finish("a");

    expect(harness.started.map((attempt) => attempt.task)).toEqual(["a"]);
  });

  it("[W12] a worker distinguishes attempts without fences too: a dispatch of a held task is a repeat, of one no longer held a new attempt", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: undefined } as never);
    harness.dispatch("a", { fence: undefined } as never);
    expect(harness.started).toHaveLength(1);
    harness.finish("a");
    harness.ackUpTo(0);

    harness.dispatch("a", { fence: undefined } as never);

    expect(harness.started).toHaveLength(2);
  });

  it("[W24] a worker keeps no more results in flight than the scheduler's window allows, and sends more as they are acked", () => {
    const harness = readyLinkHarness({ maxParallel: 8 }, { recv_window: 2 });
    for (const task of ["a", "b", "c", "d"]) harness.dispatch(task);
    for (const task of ["a", "b", "c", "d"]) harness.finish(task);
    expect(harness.frames("biz.exec.result")).toHaveLength(2);

    harness.sendToLink("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 2 });
    harness.flush();
    expect(harness.frames("biz.exec.result")).toHaveLength(3);
    harness.sendToLink("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0, recv_window: 2 });
    harness.flush();

    expect(harness.frames("biz.exec.result").map((frame) => frame.seq)).toEqual([0, 1, 2, 3]);
    expect(harness.link.status).toMatchObject({ held: 1, unacked: 1 });
  });
});
