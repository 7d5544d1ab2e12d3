import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const held = () => new Script().start("r1").created("r1").joined("w1").joined("w2").granted("r1.0", "w1", 10).read();
const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const done = { fence: 10, worker: "t1/w1" };

describe("fencing", () => {
  it("[X23] takes a success that its holder has said, and finds one that nobody said", () => {
    expect(
      passed(
        held().says("w1", "c1", "biz.exec.result", result, { seq: 0 }).tells("r1.0", "task.succeeded", done).read(),
        "fencing",
      ),
    ).toBe(true);
    expect(caught(held().tells("r1.0", "task.succeeded", done).read(), "fencing")).toContain(
      "t1/w1 (boot w1-b1) never said so of r1.0#10",
    );
  });

  it("[X23] finds a success under an old fence, of another worker, or of another life of it", () => {
    const said = () => held().says("w1", "c1", "biz.exec.result", result, { seq: 0 });
    const back = said().tells("r1.0", "task.requeued", { fence: 11, from: "t1/w1" }).granted("r1.0", "w2", 12, 2);

    expect(caught(back.tells("r1.0", "task.succeeded", done).read(), "fencing")).toContain("is under fence 12, not 10");
    expect(
      caught(
        said()
          .tells("r1.0", "task.succeeded", { ...done, worker: "t1/w2" })
          .read(),
        "fencing",
      ),
    ).toContain("t1/w1 held r1.0");
    const other = held().says("w1", "c1", "biz.exec.result", result, { seq: 0, boot: "w1-b2" });
    expect(caught(other.tells("r1.0", "task.succeeded", done).read(), "fencing")).toContain("never said so");
  });

  it("[X23] takes feedback that a result overtook, and finds such that nobody said or that is of another attempt", () => {
    const piece = { task_id: "r1.0", fence: 10, chunks: [] };
    const ended = (script: Script) =>
      script.says("w1", "c1", "biz.exec.result", result, { seq: 1 }).tells("r1.0", "task.succeeded", done);
    const said = () => ended(held().says("w1", "c1", "biz.exec.feedback", piece, { seq: 0 }));

    expect(passed(said().tells("r1.0", "task.feedback", { fence: 10, isLate: true }).read(), "fencing")).toBe(true);
    expect(caught(ended(held()).tells("r1.0", "task.feedback", { fence: 10, isLate: true }).read(), "fencing")).toContain(
      "nobody ever said so of r1.0#10",
    );
    expect(caught(said().tells("r1.0", "task.feedback", { fence: 9, isLate: true }).read(), "fencing")).toContain(
      "ended under fence 10, not 9",
    );
  });

  it("[X23] finds a late word that was acked and not answered with the stale code", () => {
    const late = () =>
      held()
        .tells("r1.0", "task.requeued", { fence: 11, from: "t1/w1" })
        .read()
        .link("w1", "c1")
        .says("w1", "c1", "control.register", { capabilities: { features: ["cancel"] } })
        .wait(10)
        .says("w1", "c1", "biz.exec.result", result, { seq: 0 })
        .wait(10)
        .hears("w1", "c1", "control.ack", { ack_seq: 0 });
    const stop = { task_id: "r1.0", fence: 10, reason: "E.SESSION.STALE_BINDING: no longer yours" };

    expect(caught(late().wait(10_000).read(), "fencing")).toContain("was acked and not answered as stale");
    expect(caught(late().wait(10_000).read().wait(1).read(), "fencing")).toContain("r1.0#10");
    expect(late().hears("w1", "c1", "biz.exec.cancel", stop, { seq: 1 }).wait(10_000).read().judge("fencing").violations).toEqual(
      [],
    );
    expect(late().link("w1", "c1", "closed").wait(10_000).read().judge("fencing").violations).toEqual([]);
  });
});
