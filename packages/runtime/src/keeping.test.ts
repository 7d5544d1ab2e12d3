import { describe, expect, it } from "vitest";
import { PlainKeeping, Rig, readyRig, succeeded } from "../test/link-rig.ts";

function keepingRig(accept: object = {}) {
  const keeping = new PlainKeeping();
  return { keeping, rig: readyRig({ keeping }, accept) };
}

/** What a new process on the same disk is like. */
function restart(before: PlainKeeping) {
  const keeping = new PlainKeeping();
  for (const word of before.left) keeping.disk.set(word.key, word);
  const rig = new Rig({ keeping });
  rig.link.recall(keeping.left);
  rig.link.begin();
  return { keeping, rig };
}

const outcomes = (rig: Rig) =>
  [...rig.frames("biz.exec.result"), ...rig.frames("biz.exec.error")].map(({ id, corr, payload }) => ({ id, corr, payload }));

describe("a link whose results are kept on disk", () => {
  it("[W80] sends a result or an error of a handler only once it is on disk, and keeps it there until it is acked", () => {
    const { keeping, rig } = keepingRig();
    rig.dispatch("a");
    rig.dispatch("b");
    rig.finish("a", succeeded({ text: "hi" }));
    rig.finish("b", { type: "error", code: "E.RUNNER.FAILURE", message: "no", where: "worker.runner" });
    rig.advance(5_000);

    expect(outcomes(rig)).toEqual([]);
    expect(rig.link.view).toMatchObject({ held: 2, unacked: 2 });
    keeping.sync();
    rig.flush();
    expect(outcomes(rig).map(({ corr }) => corr)).toEqual(["a", "b"]);
    expect(keeping.left.map(({ task, payload }) => [task, JSON.parse(payload)])).toEqual([
      ["a", rig.last("biz.exec.result").payload],
      ["b", rig.last("biz.exec.error").payload],
    ]);
    rig.ackWords(0);

    expect(keeping.left.map(({ task }) => task)).toEqual(["b"]);
    expect(rig.link.view).toMatchObject({ held: 1, unacked: 1 });
  });

  it("[W80] lets feedback, refusals and what is given back leave without waiting for the disk", () => {
    const { keeping, rig } = keepingRig();
    rig.dispatch("a", { fence: 5 });
    rig.dispatch("a", { fence: 4 });
    rig.link.feedback(rig.attempt("a"), { chunks: [{ channel: "log", text: "working" }] });
    rig.flush();

    rig.link.stop();

    expect(rig.frames("biz.exec.feedback")).toHaveLength(1);
    expect(rig.frames("biz.exec.error").map(({ payload }) => payload["code"])).toEqual([
      "E.SESSION.STALE_BINDING",
      "E.RUNNER.CANCELLED",
    ]);
    keeping.sync();
    expect(keeping.left).toEqual([]);
  });

  it("[W80] leaves only once what it knows is on disk, sent and acked", () => {
    const { keeping, rig } = keepingRig();
    rig.dispatch("a");
    rig.finish("a");
    rig.link.leave();
    rig.ackNamed(rig.last("control.heartbeat").id);
    expect(rig.link.view.phase).toBe("DRAINING");

    keeping.sync();
    rig.flush();
    rig.ackWords(0);

    expect(rig.link.view.phase).toBe("CLOSED");
  });

  it("[W81] names what an earlier process has left in its register, sends it as it was, and does not run it again", () => {
    const first = keepingRig();
    first.rig.dispatch("a", { fence: 7 });
    first.rig.finish("a", succeeded({ text: "once" }));
    first.keeping.sync();
    first.rig.flush();

    const { keeping, rig } = restart(first.keeping);
    rig.connect();
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 7 }]);
    expect(outcomes(rig)).toEqual(outcomes(first.rig));
    rig.dispatch("a", { fence: 7 });
    expect(rig.started).toEqual([]);
    rig.ackWords(0);

    expect(keeping.left).toEqual([]);
    expect(rig.link.view).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W81] has lost nothing but what was not on disk, and runs the next attempt of a task under a higher fence", () => {
    const first = keepingRig();
    first.rig.dispatch("a", { fence: 7 });
    first.rig.dispatch("b", { fence: 7 });
    first.rig.finish("a");
    first.keeping.sync();
    first.rig.finish("b");

    const { rig } = restart(first.keeping);
    rig.connect();
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 7 }]);
    rig.dispatch("a", { fence: 9 });
    rig.dispatch("b", { fence: 9 });
    rig.ackWords(0);

    expect(rig.started.map(({ task, fence }) => [task, fence])).toEqual([
      ["a", 9],
      ["b", 9],
    ]);
    expect(rig.link.view.held).toBe(2);
  });

  it("[W81] says of several outcomes of one attempt only the last, and of several attempts of one task each", () => {
    const before = new PlainKeeping();
    const keep = (id: string, fence: number) => {
      const names = { run: "r", task: "a", node: "n", fence };
      const payload = JSON.stringify({ run_id: "r", task_id: "a", fence, status: "SUCCEEDED", result: { id } });
      before.keep({ ...names, type: "biz.exec.result", id, payload }, () => {});
    };
    keep("condemned", 7);
    keep("replacement", 7);
    keep("newer", 9);
    keep("older", 8);
    before.sync();

    const { keeping, rig } = restart(before);
    rig.connect();

    expect(outcomes(rig).map(({ id }) => id)).toEqual(["replacement", "newer", "older"]);
    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 9 }]);
    rig.ackWords(2);
    expect(keeping.left).toEqual([]);
    expect(rig.link.view).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W81] replaces a result that the scheduler cannot read on disk too", () => {
    const { keeping, rig } = keepingRig();
    rig.dispatch("a");
    rig.finish("a");
    keeping.sync();
    rig.flush();
    for (let round = 0; round < 2; round++) {
      rig.say("control.reset", { code: "E.FRAME.INVALID", reason: "unreadable" });
      rig.advance(60_000);
      rig.connect();
    }
    keeping.sync();
    rig.flush();

    expect(keeping.left.map(({ type }) => type)).toEqual(["biz.exec.error"]);
    rig.ackWords(0);
    expect(keeping.left).toEqual([]);
  });

  it("[W82] tells the scheduler at once that its disk fails, takes no new work, and is well again when the disk is", () => {
    const { keeping, rig } = keepingRig();
    rig.dispatch("a");
    keeping.isHealthy = false;
    rig.link.healthChanged();
    expect(rig.payload("control.heartbeat").healthy).toBe(false);

    rig.dispatch("b");
    rig.flush();
    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "b", code: "E.RUNNER.CANCELLED" });
    expect(rig.link.view.held).toBe(1);
    rig.link.lost("gone");
    rig.advance(0);
    rig.connect();
    expect(rig.payload("control.heartbeat").healthy).toBe(false);
    keeping.isHealthy = true;
    rig.link.healthChanged();

    expect(rig.payload("control.heartbeat").healthy).toBe(true);
    rig.dispatch("b", { fence: 2 });
    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b"]);
  });
});
