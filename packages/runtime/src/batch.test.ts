import { describe, expect, it } from "vitest";
import { payloadOf, type Rig, readyRig, succeeded } from "../test/link-rig.ts";

const speaksBatch = { features: ["fence", "batch"] };

const dispatchOf = (task: string, part: object = {}) => ({
  run_id: "r",
  task_id: task,
  node_id: "n",
  node_type: "demo.noop",
  package_name: "demo",
  package_version: "1.0.0",
  parameters: {},
  constraints: {},
  fence: 1,
  ...part,
});

const sayBatch = (rig: Rig, items: readonly object[], seq = 0) =>
  rig.say("biz.exec.dispatch.batch", { items }, { seq, ack: { request: true } });

/** Handlers that all come back in the same tick. */
function finishTogether(rig: Rig, ...tasks: readonly string[]): void {
  for (const task of tasks) {
    rig.link.finished(rig.attempt(task), succeeded({ of: task }));
    rig.link.settled(rig.attempt(task));
  }
  rig.flush();
}

describe("batches", () => {
  it("[W25] starts all dispatches of a batch under its one number", () => {
    const rig = readyRig();

    sayBatch(rig, [dispatchOf("a"), dispatchOf("b"), dispatchOf("c")]);
    rig.flush();

    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b", "c"]);
    expect(rig.payload("control.ack")).toMatchObject({ ack_seq: 0 });
    expect(rig.link.view.held).toBe(3);
  });

  it("[W25] answers with one frame for results of one tick, and holds each attempt until that frame is acked", () => {
    const rig = readyRig({}, speaksBatch);
    sayBatch(rig, [dispatchOf("a", { fence: 7 }), dispatchOf("b", { fence: 8 })]);
    rig.flush();

    finishTogether(rig, "a", "b");
    expect(rig.last("biz.exec.result.batch")).toMatchObject({ seq: 0, ack: { request: true } });
    expect(rig.payload("biz.exec.result.batch").items).toMatchObject([
      { run_id: "r", task_id: "a", fence: 7, status: "SUCCEEDED", result: { of: "a" } },
      { run_id: "r", task_id: "b", fence: 8, status: "SUCCEEDED", result: { of: "b" } },
    ]);
    expect(rig.link.view).toMatchObject({ held: 2, unacked: 2 });
    rig.ackWords(0);

    expect(rig.link.view).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W25] sends one result in a frame to a scheduler that did not say that it reads batches", () => {
    const rig = readyRig();
    sayBatch(rig, [dispatchOf("a"), dispatchOf("b")]);
    rig.flush();

    finishTogether(rig, "a", "b");

    expect(rig.frames("biz.exec.result").map(({ seq, corr }) => [seq, corr])).toEqual([
      [0, "a"],
      [1, "b"],
    ]);
    expect(rig.frames("biz.exec.result.batch")).toEqual([]);
  });

  it("[W25] refuses only the item of a batch that it cannot read", () => {
    const rig = readyRig();

    sayBatch(rig, [dispatchOf("a"), { run_id: "r", task_id: "bad", fence: 5 }, dispatchOf("c")]);
    rig.flush();

    expect(rig.started.map(({ task }) => task)).toEqual(["a", "c"]);
    expect(rig.payload("biz.exec.error")).toMatchObject({ task_id: "bad", fence: 5, code: "E.FRAME.INVALID" });
  });

  it("[W25] turns every dispatch of a batch away while it drains", () => {
    const rig = readyRig();
    rig.say("control.drain", {});

    sayBatch(rig, [dispatchOf("a"), dispatchOf("b")]);
    rig.flush();

    expect(rig.started).toEqual([]);
    const refused = rig.frames("biz.exec.error").map((frame) => payloadOf("biz.exec.error", frame).task_id);
    expect(refused).toEqual(["a", "b"]);
  });

  it("[W25] reads a batch whose items are as deep as they may be alone", () => {
    const rig = readyRig();
    // The frame, its payload, the parameters and 61 lists: 64 levels when it travels alone.
    const deep = JSON.parse(`${"[".repeat(61)}${"]".repeat(61)}`) as unknown;

    rig.dispatch("alone", { parameters: { deep } as never });
    sayBatch(rig, [dispatchOf("a", { parameters: { deep } })], 1);

    expect(rig.started.map(({ task }) => task)).toEqual(["alone", "a"]);
    expect(rig.hangUps).toEqual([]);
  });

  it("[W18] finds the word in a batch that the scheduler cannot read", () => {
    const rig = readyRig({}, speaksBatch);
    for (const task of ["fine", "poison", "good"]) rig.dispatch(task);
    finishTogether(rig, "fine", "poison", "good");
    const delivered: string[] = [];

    for (let round = 0; round < 10 && rig.link.view.unacked > 0; round++) {
      rig.say("control.reset", { code: "E.FRAME.INVALID", reason: "cannot read that" });
      rig.advance(60_000);
      const before = rig.sent.length;
      rig.connect(speaksBatch);
      for (let seen = before; seen < rig.sent.length; seen++) {
        const frame = rig.sent[seen];
        if (frame?.seq === undefined || JSON.stringify(frame.payload).includes(`"of":"poison"`)) continue;
        delivered.push(`${frame.type} ${frame.corr}`);
        rig.ackWords(frame.seq);
      }
    }

    expect(delivered.sort()).toEqual(["biz.exec.error poison", "biz.exec.result fine", "biz.exec.result good"]);
    expect(rig.noted("word-condemned")).toHaveLength(1);
  });
});
