import { describe, expect, it } from "vitest";
import { readyRig } from "../test/link-rig.ts";

describe("attempts of a worker", () => {
  it("[W11] stops a cancelled attempt by its signal and drops its late result", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 3 });
    rig.flush();
    const { signal } = rig.attempt("a").stop;

    rig.cancel("a", 3);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ message: "not wanted" });
    rig.finish("a");

    expect(rig.frames("biz.exec.result")).toHaveLength(0);
    expect(rig.link.view.held).toBe(0);
  });

  it("[W11] ignores a cancel that names another fence", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 3 });

    rig.cancel("a", 2);

    expect(rig.attempt("a").stop.isStopped).toBe(false);
  });

  it("[W11] holds an attempt that is cancelled after it finished until its word is acked", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 3 });
    rig.finish("a");

    rig.cancel("a", 3);
    expect(rig.link.view.held).toBe(1);
    rig.ackWords(0);

    expect(rig.link.view.held).toBe(0);
  });

  it("[W12] refuses a dispatch whose fence is below the one it knows, also after the task has left", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 5 });
    rig.finish("a");
    rig.ackWords(0);

    rig.dispatch("a", { fence: 4 });
    rig.flush();

    expect(rig.started).toHaveLength(1);
    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "a", fence: 4, code: "E.SESSION.STALE_BINDING" });
  });

  it("[W12] remembers the fences of a bounded number of tasks, the latest ones", () => {
    const rig = readyRig({ settings: { table: { slotWaitMs: 5_000, fencesMax: 4 } } });
    for (const [index, task] of ["a", "b", "c", "d", "e"].entries()) {
      rig.dispatch(task, { fence: 5 });
      rig.finish(task);
      rig.ackWords(index);
    }

    rig.dispatch("d", { fence: 4 });
    rig.dispatch("a", { fence: 4 });
    rig.flush();

    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "d", code: "E.SESSION.STALE_BINDING" });
    expect(rig.started.at(-1)).toMatchObject({ task: "a", fence: 4 });
  });

  it("[W13] acks the same grant again and starts it once, whether it runs or is done", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 5 });
    rig.dispatch("a", { fence: 5 });
    rig.flush();
    rig.finish("a");
    rig.dispatch("a", { fence: 5 });
    rig.flush();
    rig.ackWords(0);
    rig.dispatch("a", { fence: 5 });
    rig.flush();

    expect(rig.started).toHaveLength(1);
    expect(rig.frames("biz.exec.result")).toHaveLength(1);
    expect(rig.frames("biz.exec.error")).toHaveLength(0);
    expect(rig.payload("control.ack")).toMatchObject({ ack_seq: 3 });
  });

  it("[W12] gives way to a higher fence: the old attempt stops, the new one starts when the old handler is back", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 5, concurrency_key: "k" });
    const old = rig.attempt("a");

    rig.dispatch("a", { fence: 6, concurrency_key: "k" });
    expect(old.stop.isStopped).toBe(true);
    expect(rig.started).toHaveLength(1);
    rig.link.settled(old);

    expect(rig.started.map((attempt) => attempt.fence)).toEqual([5, 6]);
    rig.finish("a");
    expect(rig.payload("biz.exec.result").fence).toBe(6);
  });

  it("[W14] refuses a task whose concurrency key is taken by another, and takes it once the key is free", () => {
    const rig = readyRig();
    rig.dispatch("a", { concurrency_key: "k" });

    rig.dispatch("b", { concurrency_key: "k", fence: 2 });
    rig.flush();
    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "b", fence: 2, code: "E.CMD.CONCURRENCY_VIOLATION" });
    rig.finish("a");
    rig.dispatch("b", { concurrency_key: "k", fence: 3 });

    expect(rig.started.map((attempt) => attempt.task)).toEqual(["a", "b"]);
  });

  it("[W14] keeps the key of a stopped attempt until its handler has come back: who got the key since waits for that, held", () => {
    const rig = readyRig();
    rig.dispatch("a", { concurrency_key: "k" });
    const [stopped] = rig.started;
    if (stopped === undefined) throw new Error("a was not started");
    rig.cancel("a", 1);

    rig.dispatch("b", { concurrency_key: "k" });
    rig.flush();
    expect(rig.started.map((attempt) => attempt.task)).toEqual(["a"]);
    expect(rig.frames("biz.exec.error")).toEqual([]);
    expect(rig.link.view).toMatchObject({ held: 1, occupied: 1 });

    rig.link.settled(stopped);
    expect(rig.started.map((attempt) => attempt.task)).toEqual(["a", "b"]);
  });

  it("[W15] never runs more handlers than it has slots: what is granted beyond waits, held, for a slot", () => {
    const rig = readyRig({ maxParallel: 2 });
    for (const task of ["a", "b", "c"]) rig.dispatch(task);
    rig.flush();

    expect(rig.started.map((attempt) => attempt.task)).toEqual(["a", "b"]);
    expect(rig.link.view).toMatchObject({ held: 3, occupied: 2 });
    rig.finish("b");

    expect(rig.started.map((attempt) => attempt.task)).toEqual(["a", "b", "c"]);
  });

  it("[W15] gives work back when a stopped handler does not free its slot in time", () => {
    const rig = readyRig({ maxParallel: 1 });
    rig.dispatch("a");
    rig.cancel("a", 1);
    rig.dispatch("b", { fence: 2 });
    rig.flush();
    expect(rig.started).toHaveLength(1);

    rig.advance(5_000);

    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "b", fence: 2, code: "E.RUNNER.CANCELLED" });
    expect(rig.link.view.held).toBe(0);
    rig.link.settled(rig.attempt("a"));
    expect(rig.started).toHaveLength(1);
  });

  it("[W15] refuses at once what is more than another full load", () => {
    const rig = readyRig({ maxParallel: 1 });
    for (const task of ["a", "b", "c"]) rig.dispatch(task);
    rig.flush();

    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "c", code: "E.RUNNER.CANCELLED" });
    expect(rig.link.view.held).toBe(2);
  });

  it("[W15] does not start what was cancelled while it waited", () => {
    const rig = readyRig({ maxParallel: 1 });
    rig.dispatch("a");
    rig.dispatch("b", { fence: 2 });
    rig.cancel("b", 2);

    rig.finish("a");

    expect(rig.started.map((attempt) => attempt.task)).toEqual(["a"]);
  });

  it("[W12] tells attempts apart without fences too: held means repeat, gone means new", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: undefined } as never);
    rig.dispatch("a", { fence: undefined } as never);
    expect(rig.started).toHaveLength(1);
    rig.finish("a");
    rig.ackWords(0);

    rig.dispatch("a", { fence: undefined } as never);

    expect(rig.started).toHaveLength(2);
  });

  it("[W24] keeps no more words in flight than the scheduler takes, and goes on as they are acked", () => {
    const rig = readyRig({ maxParallel: 8 }, { recv_window: 2 });
    for (const task of ["a", "b", "c", "d"]) rig.dispatch(task);
    for (const task of ["a", "b", "c", "d"]) rig.finish(task);
    expect(rig.frames("biz.exec.result")).toHaveLength(2);

    rig.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0, recv_window: 2 });
    rig.flush();
    expect(rig.frames("biz.exec.result")).toHaveLength(3);
    rig.say("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0, recv_window: 2 });
    rig.flush();

    expect(rig.frames("biz.exec.result").map((frame) => frame.seq)).toEqual([0, 1, 2, 3]);
    expect(rig.link.view).toMatchObject({ held: 1, unacked: 1 });
  });
});
