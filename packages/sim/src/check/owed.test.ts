import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const result = { task_id: "r1.0", fence: 10, status: "SUCCEEDED", result: {} };
const said = (hasDisk = false) =>
  new Script({ hasDisk })
    .phase("heal")
    .accepted("w1", "c1", "s-1")
    .says("w1", "c1", "biz.exec.result", result, { seq: 0, lost: true })
    .hears("w1", "c1", "control.reset", { code: "E.SESSION.GAP", reason: "gap" })
    .link("w1", "c1", "closed");
const later = (script: Script) => script.wait(60_000).phase("converged", true);

describe("owed", () => {
  it("[X52] finds a result that was never acked and is not sent again in the session after the reset", () => {
    const anew = () => said().accepted("w1", "c2", "s-2");

    expect(caught(later(anew()), "owed")).toContain("r1.0#10 in s-1, never heard it acked, and does not send it in s-2");
    expect(passed(later(anew().says("w1", "c2", "biz.exec.result", result, { seq: 0 })), "owed")).toBe(true);
    const acked = anew().says("w1", "c2", "biz.exec.result", result, { seq: 0 }).hears("w1", "c2", "control.ack", { ack_seq: 0 });
    expect(later(acked).judge("owed").violations).toEqual([]);
  });

  it("[X52] a result may be given up when its attempt is over, or with a process that kept it in memory", () => {
    const cancel = { run_id: "r1", task_id: "r1.0", fence: 10 };
    const told = said().accepted("w1", "c2", "s-2").hears("w1", "c2", "biz.exec.cancel", cancel, { seq: 0 });
    const next = (hasDisk: boolean) => later(said(hasDisk).accepted("w1", "c2", "s-2", {}, { boot: "w1-b2" }));

    expect(later(told).judge("owed").violations).toEqual([]);
    expect(next(false).judge("owed").violations).toEqual([]);
    expect(caught(next(true), "owed")).toContain("r1.0#10");
  });
});
