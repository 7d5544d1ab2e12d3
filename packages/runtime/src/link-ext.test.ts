// Vendor frames in both directions: reliable, opaque, and never a reason to part.
import { describe, expect, it } from "vitest";
import { type Rig, readyRig } from "../test/link-rig.ts";

const note = "ext.vendor.acme.note";

/** A vendor frame of the scheduler. */
function tell(rig: Rig, id: string, seq: number, type: string = note): void {
  rig.say(type, { text: id }, { id, seq, corr: "c", ack: { request: true } });
  rig.flush();
}

function renew(rig: Rig): void {
  rig.say("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
  rig.advance(60_000);
  rig.connect();
}

describe("vendor frames to the scheduler", () => {
  it("[W95] leave numbered, in order, as they were given, behind results", () => {
    const rig = readyRig();
    rig.dispatch("a");
    expect(rig.link.sendExt({ type: note, id: "x1", corr: "run", payload: `{"deep":[1]}` })).toBe(true);
    rig.link.sendExt({ type: note, payload: "{}" });
    rig.finish("a");

    expect(rig.work().map(({ type, seq }) => [type, seq])).toEqual([
      ["biz.exec.result", 0],
      [note, 1],
      [note, 2],
    ]);
    expect(rig.frames(note)[0]).toMatchObject({ id: "x1", corr: "run", payload: { deep: [1] }, ack: { request: true } });
    expect(rig.frames(note)[1]?.id).toMatch(/^b1-\d+$/);
  });

  it("[W95] are kept while offline, survive a reset under their ids, and go once they are acked", () => {
    const rig = readyRig();
    rig.link.sendExt({ type: note, id: "x1", payload: "{}" });
    rig.flush();
    rig.link.lost("gone");
    rig.link.sendExt({ type: note, id: "x2", payload: "{}" });
    rig.advance(0);
    rig.connect();

    expect(rig.frames(note).map(({ id, seq }) => [id, seq])).toEqual([
      ["x1", 0],
      ["x1", 0],
      ["x2", 1],
    ]);
    rig.ackWords(1);
    renew(rig);
    expect(rig.frames(note)).toHaveLength(3);
  });

  it("[W95] are not taken beyond 1,024 or a mebibyte unacked, nor once the link is closed", () => {
    const rig = readyRig();
    for (let count = 0; count < 1_024; count++) expect(rig.link.sendExt({ type: note, payload: "{}" })).toBe(true);
    expect(rig.link.sendExt({ type: note, payload: "{}" })).toBe(false);
    const heavy = readyRig();
    expect(heavy.link.sendExt({ type: note, payload: JSON.stringify({ text: "x".repeat(1024 * 1024) }) })).toBe(false);
    expect(heavy.link.sendExt({ type: note, payload: JSON.stringify({ text: "x".repeat(1024 * 1000) }) })).toBe(true);
    heavy.link.stop();

    expect(heavy.link.sendExt({ type: note, payload: "{}" })).toBe(false);
  });

  it("[W95] that the scheduler does not know are noted, and nothing else happens", () => {
    const rig = readyRig();
    rig.link.sendExt({ type: note, id: "x1", payload: "{}" });
    rig.flush();

    rig.say("control.ack", { ok: false, for: "x1", info: "E.CMD.UNKNOWN: no subscriber", ack_seq: 0, ack_bitmap: 0 });

    expect(rig.noted("word-refused")[0]).toMatchObject({ message: "E.CMD.UNKNOWN: no subscriber", details: { for: "x1" } });
    expect(rig.link.view).toMatchObject({ phase: "READY", unacked: 0 });
  });
});

describe("vendor frames from the scheduler", () => {
  it("[W96] reach who listens, whole, and are acked", () => {
    const rig = readyRig();
    rig.listening.add(note);

    tell(rig, "v1", 0);

    expect(rig.heardExt).toEqual([{ type: note, id: "v1", corr: "c", payload: { text: "v1" } }]);
    expect(rig.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 0 });
  });

  it("[W96] are refused by name where nobody listens, settled all the same, and heard when somebody does later", () => {
    const rig = readyRig();

    tell(rig, "v1", 0);
    expect(rig.payload("control.ack")).toMatchObject({ ok: false, for: "v1", ack_seq: 0 });
    expect(rig.payload("control.ack").info).toContain("E.CMD.UNKNOWN");
    expect(rig.link.view.phase).toBe("READY");
    rig.listening.add(note);
    tell(rig, "v1", 1);

    expect(rig.heardExt).toHaveLength(1);
  });

  it("[W96] are heard once, in one session and across sessions, as far as the last 1,024 ids reach", () => {
    const rig = readyRig({}, { send_window: 1_024 });
    rig.listening.add(note);
    tell(rig, "v0", 0);
    tell(rig, "v0", 1);
    renew(rig);
    tell(rig, "v0", 0);
    expect(rig.heardExt).toHaveLength(1);
    expect(rig.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 0 });

    for (let index = 1; index <= 1_024; index++) tell(rig, `v${index}`, index);
    tell(rig, "v1", 1_025);
    tell(rig, "v0", 1_026);

    expect(rig.heardExt).toHaveLength(1_026);
    expect(rig.heardExt.at(-1)?.id).toBe("v0");
  });

  it("[W96] that only fill a number are settled silently", () => {
    const rig = readyRig();

    tell(rig, "filler", 0, "ext.vendor.astraflow.void");

    expect(rig.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 0 });
    expect(rig.noted("frame-ignored")).toEqual([]);
    expect(rig.heardExt).toEqual([]);
  });
});
