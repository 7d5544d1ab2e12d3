import { describe, expect, it } from "vitest";
import { type LinkHarness, readFramePayload, readyLinkHarness, succeededOutcome } from "../../test/link-harness.ts";

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

const sendBatch = (harness: LinkHarness, items: readonly object[], seq = 0) =>
  harness.sendToLink("biz.exec.dispatch.batch", { items }, { seq, ack: { request: true } });

/** Handlers that all come back in the same tick. */
function finishTogether(harness: LinkHarness, ...tasks: readonly string[]): void {
  for (const task of tasks) {
    harness.link.attemptFinished(harness.attempt(task), succeededOutcome({ of: task }));
    harness.link.handlerReturned(harness.attempt(task));
  }
  harness.flush();
}

describe("batches", () => {
  it("[W25] a worker starts all dispatches of a batch under the batch's one number", () => {
    const harness = readyLinkHarness();

    sendBatch(harness, [dispatchOf("a"), dispatchOf("b"), dispatchOf("c")]);
    harness.flush();

    expect(harness.started.map(({ task }) => task)).toEqual(["a", "b", "c"]);
    expect(harness.payload("control.ack")).toMatchObject({ ack_seq: 0 });
    expect(harness.link.status.held).toBe(3);
  });

  it("[W25] a worker answers with one frame for the results of one tick, and holds each attempt until that frame is acked", () => {
    const harness = readyLinkHarness({}, speaksBatch);
    sendBatch(harness, [dispatchOf("a", { fence: 7 }), dispatchOf("b", { fence: 8 })]);
    harness.flush();

    finishTogether(harness, "a", "b");
    expect(harness.lastFrame("biz.exec.result.batch")).toMatchObject({ seq: 0, ack: { request: true } });
    expect(harness.payload("biz.exec.result.batch").items).toMatchObject([
      { run_id: "r", task_id: "a", fence: 7, status: "SUCCEEDED", result: { of: "a" } },
      { run_id: "r", task_id: "b", fence: 8, status: "SUCCEEDED", result: { of: "b" } },
    ]);
    expect(harness.link.status).toMatchObject({ held: 2, unacked: 2 });
    harness.ackUpTo(0);

    expect(harness.link.status).toMatchObject({ held: 0, unacked: 0 });
  });

  it("[W25] a worker sends one result per frame to a scheduler that did not announce that it reads batches", () => {
    const harness = readyLinkHarness();
    sendBatch(harness, [dispatchOf("a"), dispatchOf("b")]);
    harness.flush();

    finishTogether(harness, "a", "b");

    expect(harness.frames("biz.exec.result").map(({ seq, corr }) => [seq, corr])).toEqual([
      [0, "a"],
      [1, "b"],
    ]);
    expect(harness.frames("biz.exec.result.batch")).toEqual([]);
  });

  it("[W25] a worker refuses only the item of a batch that it cannot read", () => {
    const harness = readyLinkHarness();

    sendBatch(harness, [dispatchOf("a"), { run_id: "r", task_id: "bad", fence: 5 }, dispatchOf("c")]);
    harness.flush();

    expect(harness.started.map(({ task }) => task)).toEqual(["a", "c"]);
    expect(harness.payload("biz.exec.error")).toMatchObject({ task_id: "bad", fence: 5, code: "E.FRAME.INVALID" });
  });

  it("[W25] a draining worker refuses every dispatch of a batch", () => {
    const harness = readyLinkHarness();
    harness.sendToLink("control.drain", {});

    sendBatch(harness, [dispatchOf("a"), dispatchOf("b")]);
    harness.flush();

    expect(harness.started).toEqual([]);
    const refused = harness.frames("biz.exec.error").map((frame) => readFramePayload("biz.exec.error", frame).task_id);
    expect(refused).toEqual(["a", "b"]);
  });

  it("[W25] a worker reads a batch whose items are as deeply nested as a single dispatch may be", () => {
    const harness = readyLinkHarness();
    // The frame, its payload, the parameters and 61 lists: 64 levels when it travels alone.
    const deep = JSON.parse(`${"[".repeat(61)}${"]".repeat(61)}`) as unknown;

    harness.dispatch("alone", { parameters: { deep } as never });
    sendBatch(harness, [dispatchOf("a", { parameters: { deep } })], 1);

    expect(harness.started.map(({ task }) => task)).toEqual(["alone", "a"]);
    expect(harness.closedConnections).toEqual([]);
  });

  it("[W18] a worker finds the result in a batch that the scheduler cannot read", () => {
    const harness = readyLinkHarness({}, speaksBatch);
    for (const task of ["fine", "poison", "good"]) harness.dispatch(task);
    finishTogether(harness, "fine", "poison", "good");
    const delivered: string[] = [];

    for (let round = 0; round < 10 && harness.link.status.unacked > 0; round++) {
      harness.sendToLink("control.reset", { code: "E.FRAME.INVALID", reason: "cannot read that" });
      harness.advance(60_000);
      const before = harness.sent.length;
      harness.openSession(speaksBatch);
      for (let seen = before; seen < harness.sent.length; seen++) {
        const frame = harness.sent[seen];
        if (frame?.seq === undefined || JSON.stringify(frame.payload).includes(`"of":"poison"`)) continue;
        delivered.push(`${frame.type} ${frame.corr}`);
        harness.ackUpTo(frame.seq);
      }
    }

    expect(delivered.sort()).toEqual(["biz.exec.error poison", "biz.exec.result fine", "biz.exec.result good"]);
    expect(harness.eventsNamed("word-condemned")).toHaveLength(1);
  });
});
