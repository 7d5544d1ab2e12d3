import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const dispatch = (at: number) => ({ run_id: "r1", task_id: `r1.${at}`, fence: 10 });
const sessionAccepted = (more = {}) =>
  new ObservationScript().accepted("w1", "c1", "s-1", { send_window: 2, recv_window: 2, ...more });
const sendToWorker = (script: ObservationScript, ...numbers: readonly number[]) => {
  for (const seq of numbers) script.sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch(seq), { seq });
  return script;
};
const sendToScheduler = (script: ObservationScript, ...numbers: readonly number[]) => {
  for (const seq of numbers)
    script.sendToScheduler("w1", "c1", "biz.exec.result", { task_id: `r1.${seq}`, fence: 10, status: "SUCCEEDED" }, { seq });
  return script;
};

describe("window", () => {
  it("[X50] the window checker finds more frames in flight than was announced, in either direction", () => {
    expect(passesChecker(sendToWorker(sessionAccepted(), 0, 1), "window")).toBe(true);
    expect(violationOf(sendToWorker(sessionAccepted(), 0, 1, 2), "window")).toContain(
      "3 frames are in flight on s-1 towards the worker",
    );
    expect(passesChecker(sendToScheduler(sessionAccepted(), 0, 1), "window")).toBe(true);
    expect(violationOf(sendToScheduler(sessionAccepted(), 0, 1, 2), "window")).toContain(
      "towards the scheduler, whose window is 2",
    );
  });

  it("[X50] the window checker counts a frame as in flight until its ack has arrived, and a repeat once", () => {
    const acked = sendToWorker(sessionAccepted(), 0, 1).sendToScheduler("w1", "c1", "control.ack", {
      ack_seq: -1,
      ack_bitmap: 2,
    });

    expect(passesChecker(sendToWorker(acked, 0, 2), "window")).toBe(true);
    const lost = sendToWorker(sessionAccepted(), 0, 1).sendToScheduler(
      "w1",
      "c1",
      "control.ack",
      { ack_seq: 0, ack_bitmap: 0 },
      { lost: true },
    );
    expect(violationOf(sendToWorker(lost, 2), "window")).toContain("3 frames");
    const resumed = sendToWorker(sessionAccepted(), 0, 1).resumed("w1", "c2", "s-1", 0);
    expect(passesChecker(resumed.sendToWorker("w1", "c2", "biz.exec.dispatch", dispatch(2), { seq: 2 }), "window")).toBe(true);
  });

  it("[X50] the window checker uses the smaller of the sender's and the receiver's window", () => {
    const small = sendToWorker(sessionAccepted(), 0).sendToScheduler("w1", "c1", "control.ack", {
      ack_seq: 0,
      ack_bitmap: 0,
      recv_window: 1,
    });

    expect(violationOf(sendToWorker(small, 1, 2), "window")).toContain("whose window is 1");
  });
});
