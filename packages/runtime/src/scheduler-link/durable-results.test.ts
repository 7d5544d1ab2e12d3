import { describe, expect, it } from "vitest";
import { InMemoryDurableOutbox, LinkHarness, readyLinkHarness, succeededOutcome } from "../../test/link-harness.ts";

function durableHarness(accept: object = {}) {
  const keeping = new InMemoryDurableOutbox();
  return { keeping, rig: readyLinkHarness({ durableOutbox: keeping }, accept) };
}

/** What a new process on the same disk is like. */
function restart(before: InMemoryDurableOutbox) {
  const keeping = new InMemoryDurableOutbox();
  for (const outcome of before.storedOutcomes) keeping.disk.set(outcome.key, outcome);
  const rig = new LinkHarness({ durableOutbox: keeping });
  rig.link.restoreOutcomes(keeping.storedOutcomes);
  rig.link.start();
  return { keeping, rig };
}

const outcomes = (rig: LinkHarness) =>
  [...rig.frames("biz.exec.result"), ...rig.frames("biz.exec.error")].map(({ id, corr, payload }) => ({ id, corr, payload }));

describe("a link whose results are kept on disk", () => {
  it("[W80] a worker with a durable outbox sends a handler's result or error only once it is on disk, and keeps it there until it is acked", () => {
    const { keeping, rig } = durableHarness();
    rig.dispatch("a");
    rig.dispatch("b");
    rig.finish("a", succeededOutcome({ text: "hi" }));
    rig.finish("b", { type: "error", code: "E.RUNNER.FAILURE", message: "no", where: "worker.runner" });
    rig.advance(5_000);

    expect(outcomes(rig)).toEqual([]);
    expect(rig.link.status).toMatchObject({ held: 2, unacked: 2 });
    keeping.sync();
    rig.flush();
    expect(outcomes(rig).map(({ corr }) => corr)).toEqual(["a", "b"]);
    expect(keeping.storedOutcomes.map(({ task, payload }) => [task, JSON.parse(payload)])).toEqual([
      ["a", rig.lastFrame("biz.exec.result").payload],
      ["b", rig.lastFrame("biz.exec.error").payload],
    ]);
    rig.ackUpTo(0);

    expect(keeping.storedOutcomes.map(({ task }) => task)).toEqual(["b"]);
    expect(rig.link.status).toMatchObject({ held: 1, unacked: 1 });
  });

  it("[W80] a worker with a durable outbox sends feedback, refusals and work it gives back without waiting for the disk", () => {
    const { keeping, rig } = durableHarness();
    rig.dispatch("a", { fence: 5 });
    rig.dispatch("a", { fence: 4 });
    rig.link.feedbackReceived(rig.attempt("a"), { chunks: [{ channel: "log", text: "working" }] });
    rig.flush();

    rig.link.stop();

    expect(rig.frames("biz.exec.feedback")).toHaveLength(1);
    expect(rig.frames("biz.exec.error").map(({ payload }) => payload["code"])).toEqual([
      "E.SESSION.STALE_BINDING",
      "E.RUNNER.CANCELLED",
    ]);
    keeping.sync();
    expect(keeping.storedOutcomes).toEqual([]);
  });

  it("[W80] a worker with a durable outbox leaves only once its results are on disk, sent and acked", () => {
    const { keeping, rig } = durableHarness();
    rig.dispatch("a");
    rig.finish("a");
    rig.link.drainAndClose();
    rig.ackById(rig.lastFrame("control.heartbeat").id);
    expect(rig.link.status.phase).toBe("DRAINING");

    keeping.sync();
    rig.flush();
    rig.ackUpTo(0);

    expect(rig.link.status.phase).toBe("CLOSED");
  });

  it("[W81] a restarted worker lists the results left on disk in its register, sends them unchanged, and does not run them again", () => {
    const first = durableHarness();
    first.rig.dispatch("a", { fence: 7 });
    first.rig.finish("a", succeededOutcome({ text: "once" }));
    first.keeping.sync();
    first.rig.flush();

    const { keeping, rig } = restart(first.keeping);
    rig.openSession();
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 7 }]);
    expect(outcomes(rig)).toEqual(outcomes(first.rig));
    rig.dispatch("a", { fence: 7 });
    expect(rig.started).toEqual([]);
    rig.ackUpTo(0);

    expect(keeping.storedOutcomes).toEqual([]);
    expect(rig.link.status).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W81] a restarted worker has lost only what was not on disk, and runs the next attempt of a task under a higher fence", () => {
    const first = durableHarness();
    first.rig.dispatch("a", { fence: 7 });
    first.rig.dispatch("b", { fence: 7 });
    first.rig.finish("a");
    first.keeping.sync();
    first.rig.finish("b");

    const { rig } = restart(first.keeping);
    rig.openSession();
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 7 }]);
    rig.dispatch("a", { fence: 9 });
    rig.dispatch("b", { fence: 9 });
    rig.ackUpTo(0);

    expect(rig.started.map(({ task, fence }) => [task, fence])).toEqual([
      ["a", 9],
      ["b", 9],
    ]);
    expect(rig.link.status.held).toBe(2);
  });

  it("[W81] a restarted worker sends only the last of several outcomes of one attempt, and one for each of several attempts of a task", () => {
    const before = new InMemoryDurableOutbox();
    const keep = (id: string, fence: number) => {
      const names = { run: "r", task: "a", node: "n", fence };
      const payload = JSON.stringify({ run_id: "r", task_id: "a", fence, status: "SUCCEEDED", result: { id } });
      before.persist({ ...names, type: "biz.exec.result", id, payload }, () => {});
    };
    keep("condemned", 7);
    keep("replacement", 7);
    keep("newer", 9);
    keep("older", 8);
    before.sync();

    const { keeping, rig } = restart(before);
    rig.openSession();

    expect(outcomes(rig).map(({ id }) => id)).toEqual(["replacement", "newer", "older"]);
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 9 }]);
    rig.ackUpTo(2);
    expect(keeping.storedOutcomes).toEqual([]);
    expect(rig.link.status).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W81] a worker replaces a result that the scheduler cannot read on disk too", () => {
    const { keeping, rig } = durableHarness();
    rig.dispatch("a");
    rig.finish("a");
    keeping.sync();
    rig.flush();
    for (let round = 0; round < 2; round++) {
      rig.sendToLink("control.reset", { code: "E.FRAME.INVALID", reason: "unreadable" });
      rig.advance(60_000);
      rig.openSession();
    }
    keeping.sync();
    rig.flush();

    expect(keeping.storedOutcomes.map(({ type }) => type)).toEqual(["biz.exec.error"]);
    rig.ackUpTo(0);
    expect(keeping.storedOutcomes).toEqual([]);
  });

  it("[W82] a worker reports a failing disk to the scheduler at once, takes no new work, and is healthy again when the disk is", () => {
    const { keeping, rig } = durableHarness();
    rig.dispatch("a");
    keeping.isHealthy = false;
    rig.link.healthChanged();
    expect(rig.payload("control.heartbeat").healthy).toBe(false);

    rig.dispatch("b");
    rig.flush();
    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "b", code: "E.RUNNER.CANCELLED" });
    expect(rig.link.status.held).toBe(1);
    rig.link.connectionLost("gone");
    rig.advance(0);
    rig.openSession();
    expect(rig.payload("control.heartbeat").healthy).toBe(false);
    keeping.isHealthy = true;
    rig.link.healthChanged();

    expect(rig.payload("control.heartbeat").healthy).toBe(true);
    rig.dispatch("b", { fence: 2 });
    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b"]);
  });
});
