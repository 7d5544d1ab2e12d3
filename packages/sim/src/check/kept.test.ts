import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const named = { capabilities: {}, running: [{ task_id: "r1.0", fence: 10 }] };
const bare = { capabilities: {}, running: [] };
const said = (hasDisk = false) => new Script({ hasDisk }).says("w1", "c1", "biz.exec.result", result, { seq: 0, lost: true });

describe("kept", () => {
  it("[X48] finds a register without a result that its worker has sent and never heard acked", () => {
    const acked = said().hears("w1", "c1", "control.ack", { ack_seq: 0, ack_bitmap: 0 });

    expect(passed(said().says("w1", "c2", "control.register", named), "kept")).toBe(true);
    expect(caught(said().says("w1", "c2", "control.register", bare), "kept")).toContain("comes back without r1.0#10");
    expect(acked.says("w1", "c2", "control.register", bare).judge("kept").violations).toEqual([]);
    const lost = said().hears("w1", "c1", "control.ack", { ack_seq: 0, ack_bitmap: 0 }, { lost: true });
    expect(caught(lost.says("w1", "c2", "control.register", bare), "kept")).toContain("never heard acked");
  });

  it("[X48] expects it of a later process where the outbox is on a disk, and there alone", () => {
    const later = { boot: "b2" };

    expect(caught(said(true).says("w1", "c2", "control.register", bare, later), "kept")).toContain(
      "(boot b2) comes back without",
    );
    expect(said().says("w1", "c2", "control.register", bare, later).judge("kept").violations).toEqual([]);
  });

  it("[X48] lets an older attempt go once a newer one of its task has come", () => {
    const newer = said(true).hears("w1", "c1", "biz.exec.dispatch", { run_id: "r1", task_id: "r1.0", fence: 20 }, { seq: 0 });

    expect(newer.says("w1", "c2", "control.register", bare).judge("kept").violations).toEqual([]);
  });
});
