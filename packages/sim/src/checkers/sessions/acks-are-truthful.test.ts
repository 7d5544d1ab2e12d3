import { describe, expect, it } from "vitest";
import { ObservationScript, passesChecker, violationOf } from "../testing/observation-script.ts";

const result = (task: string) => ({ task_id: task, fence: 10, status: "SUCCEEDED", result: {} });
const dispatch = (task: string) => ({ run_id: "r1", task_id: task, fence: 10 });
const heartbeat = (...tasks: readonly string[]) => ({
  healthy: true,
  metrics: { inflight: 0 },
  held: tasks.map((task_id) => ({ task_id, fence: 10 })),
});
const openSession = () => new ObservationScript().accepted("w1", "c1", "s-1");
const threeDispatches = () =>
  openSession()
    .sendToScheduler("w1", "c1", "biz.exec.result", result("r1.0"), { seq: 0 })
    .sendToScheduler("w1", "c1", "biz.exec.result", result("r1.1"), { seq: 1, lost: true })
    .sendToScheduler("w1", "c1", "biz.exec.result", result("r1.2"), { seq: 2 });

describe("acks", () => {
  it("[X51] the acks checker accepts an ack of frames that have arrived, contiguous and beyond a gap, also when repeated", () => {
    const ack = { ack_seq: 0, ack_bitmap: 2 };

    expect(
      passesChecker(
        threeDispatches().sendToWorker("w1", "c1", "control.ack", ack).sendToWorker("w1", "c1", "control.ack", ack),
        "acks",
      ),
    ).toBe(true);
  });

  it("[X51] the acks checker finds an ack that takes back what an earlier one confirmed", () => {
    const script = threeDispatches()
      .sendToScheduler("w1", "c1", "biz.exec.result", result("r1.1"), { seq: 1 })
      .sendToWorker("w1", "c1", "control.ack", { ack_seq: 2, ack_bitmap: 0 })
      .sendToWorker("w1", "c1", "control.ack", { ack_seq: 1, ack_bitmap: 0 });

    expect(violationOf(script, "acks")).toContain("acked up to 1 of s-1 towards the scheduler, and had acked 2");
  });

  it("[X51] the acks checker finds an ack over a gap, by its contiguous part or by its bits, in numbers and in hex", () => {
    expect(
      violationOf(threeDispatches().sendToWorker("w1", "c1", "control.ack", { ack_seq: 2, ack_bitmap: 0 }), "acks"),
    ).toContain("only up to 0");
    expect(
      violationOf(threeDispatches().sendToWorker("w1", "c1", "control.ack", { ack_seq: 0, ack_bitmap: 3 }), "acks"),
    ).toContain("acked 1");
    expect(
      violationOf(threeDispatches().sendToWorker("w1", "c1", "control.ack", { ack_seq: 0, ack_bitmap: "3" }), "acks"),
    ).toContain("acked 1");
  });

  it("[X51] the acks checker finds an ack of what was never sent", () => {
    expect(
      violationOf(threeDispatches().sendToWorker("w1", "c1", "control.ack", { ack_seq: 7, ack_bitmap: 0 }), "acks"),
    ).toContain("never sent");
  });

  it("[X51] the acks checker finds a frame that was taken from a socket that another had replaced", () => {
    const late = (connection: string) =>
      openSession()
        .resumed("w1", "c2", "s-1")
        .sendToScheduler("w1", connection, "biz.exec.result", result("r1.0"), { seq: 0 })
        .sendToWorker("w1", "c2", "control.ack", { ack_seq: 0, ack_bitmap: 0 });

    expect(violationOf(late("c1"), "acks")).toContain("acked 0 of s-1");
    expect(passesChecker(late("c2"), "acks")).toBe(true);
  });

  it("[X51] the acks checker finds a dispatch that its worker has acked and then does not list as held", () => {
    const taken = () =>
      openSession()
        .sendToWorker("w1", "c1", "biz.exec.dispatch", dispatch("r1.0"), { seq: 0 })
        .sendToScheduler("w1", "c1", "control.ack", { ack_seq: 0, ack_bitmap: 0 });

    expect(passesChecker(taken().sendToScheduler("w1", "c1", "control.heartbeat", heartbeat("r1.0")), "acks")).toBe(true);
    const begun = taken().handler("starts", "w1", "r1.0", 10);
    expect(violationOf(begun.sendToScheduler("w1", "c1", "control.heartbeat", heartbeat()), "acks")).toContain(
      "does not list it as held",
    );
    const ended = taken().sendToScheduler("w1", "c1", "biz.exec.result", result("r1.0"), { seq: 0 });
    expect(passesChecker(ended.sendToScheduler("w1", "c1", "control.heartbeat", heartbeat()), "acks")).toBe(true);
    const stopped = taken().sendToWorker("w1", "c1", "biz.exec.cancel", dispatch("r1.0"), { seq: 1 });
    expect(passesChecker(stopped.sendToScheduler("w1", "c1", "control.heartbeat", heartbeat()), "acks")).toBe(true);
  });
});
