import { PassThrough, Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { FrameDecoder } from "./frame-stream.ts";
import { HostOutbox } from "./host-outbox.ts";

/** A pipe that takes nothing until the test lets it, and what it took. */
function openPipe() {
  const taken: unknown[] = [];
  const reader = new FrameDecoder();
  let isOpen = false;
  let release = (): void => {};
  const pipe = new Writable({
    highWaterMark: 1,
    write(bytes: Buffer, _, done) {
      const take = (): void => {
        taken.push(...reader.add(bytes));
        done();
      };
      if (isOpen) take();
      else release = take;
    },
  });
  const open = async (): Promise<void> => {
    isOpen = true;
    release();
    while (pipe.writableLength > 0) await new Promise(setImmediate);
  };
  return { pipe, taken, open };
}

const feedback = (call: number, text: string): string => JSON.stringify({ feedback: call, text });
const names = (taken: readonly unknown[]): string[] =>
  taken.map((frame) => Object.values(frame as object)[0] as number).map(String);

describe("the frames that leave a Node host", () => {
  it("[W775] a result overtakes the feedback of other calls in a Node host, never that of its own", async () => {
    const { pipe, taken, open } = openPipe();
    const outbox = new HostOutbox(pipe, { defer: setImmediate, pendingFeedbackMax: 100, feedbackDropped: () => {} });
    // More than the pipe may hold, so that the rest waits.
    outbox.sendFeedback(1, feedback(1, "x".repeat(100_000)));
    for (let n = 0; n < 3; n++) outbox.sendFeedback(2, feedback(2, "a"));
    outbox.sendFeedback(3, feedback(3, "b"));

    outbox.sendLast(3, { result: 33 });
    outbox.flush();
    await open();

    expect(names(taken)).toEqual(["1", "3", "33", "2", "2", "2"]);
  });

  it("[W775] feedback beyond the limit is dropped in a Node host, counted and reported once there is room", async () => {
    const { pipe, taken, open } = openPipe();
    const dropped: number[] = [];
    const outbox = new HostOutbox(pipe, { defer: setImmediate, pendingFeedbackMax: 2, feedbackDropped: (n) => dropped.push(n) });
    outbox.sendFeedback(1, feedback(1, "x".repeat(100_000)));

    for (let n = 0; n < 5; n++) outbox.sendFeedback(2, feedback(2, "a"));
    expect(dropped).toEqual([]);
    await open();

    expect(dropped).toEqual([3]);
    expect(names(taken)).toEqual(["1", "2", "2"]);
  });

  it("[W775] feedback of a call that is about to block leaves a Node host at once", () => {
    const pipe = new PassThrough();
    const outbox = new HostOutbox(pipe, { defer: () => {}, pendingFeedbackMax: 2, feedbackDropped: () => {} });

    outbox.sendFeedback(1, feedback(1, "now"));

    expect([...new FrameDecoder().add(pipe.read() as Buffer)]).toEqual([{ feedback: 1, text: "now" }]);
  });
});
