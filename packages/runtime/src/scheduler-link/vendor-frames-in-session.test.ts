// Vendor frames in both directions: reliable, opaque, and never a reason to part.
import { describe, expect, it } from "vitest";
import { type LinkHarness, readyLinkHarness } from "../../test/link-harness.ts";

const note = "ext.vendor.acme.note";

/** A vendor frame of the scheduler. */
function sendVendorFrame(harness: LinkHarness, id: string, seq: number, type: string = note): void {
  harness.sendToLink(type, { text: id }, { id, seq, corr: "c", ack: { request: true } });
  harness.flush();
}

function renew(harness: LinkHarness): void {
  harness.sendToLink("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
  harness.advance(60_000);
  harness.openSession();
}

describe("vendor frames to the scheduler", () => {
  it("[W95] vendor frames to the scheduler are sent numbered, in order and unchanged, after results", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    expect(harness.link.vendorFrameSent({ type: note, id: "x1", corr: "run", payload: `{"deep":[1]}` })).toBe(true);
    harness.link.vendorFrameSent({ type: note, payload: "{}" });
    harness.finish("a");

    expect(harness.workFrames().map(({ type, seq }) => [type, seq])).toEqual([
      ["biz.exec.result", 0],
      [note, 1],
      [note, 2],
    ]);
    expect(harness.frames(note)[0]).toMatchObject({ id: "x1", corr: "run", payload: { deep: [1] }, ack: { request: true } });
    expect(harness.frames(note)[1]?.id).toMatch(/^b1-\d+$/);
  });

  it("[W95] vendor frames to the scheduler are kept while offline, keep their ids across a reset, and are dropped once they are acked", () => {
    const harness = readyLinkHarness();
    harness.link.vendorFrameSent({ type: note, id: "x1", payload: "{}" });
    harness.flush();
    harness.link.connectionLost("gone");
    harness.link.vendorFrameSent({ type: note, id: "x2", payload: "{}" });
    harness.advance(0);
    harness.openSession();

    expect(harness.frames(note).map(({ id, seq }) => [id, seq])).toEqual([
      ["x1", 0],
      ["x1", 0],
      ["x2", 1],
    ]);
    harness.ackUpTo(1);
    renew(harness);
    expect(harness.frames(note)).toHaveLength(3);
  });

  it("[W95] vendor frames to the scheduler are not accepted beyond 1,024 or a mebibyte unacked, nor once the link is closed", () => {
    const harness = readyLinkHarness();
    for (let count = 0; count < 1_024; count++) expect(harness.link.vendorFrameSent({ type: note, payload: "{}" })).toBe(true);
    expect(harness.link.vendorFrameSent({ type: note, payload: "{}" })).toBe(false);
    const heavy = readyLinkHarness();
    expect(heavy.link.vendorFrameSent({ type: note, payload: JSON.stringify({ text: "x".repeat(1024 * 1024) }) })).toBe(false);
    expect(heavy.link.vendorFrameSent({ type: note, payload: JSON.stringify({ text: "x".repeat(1024 * 1000) }) })).toBe(true);
    heavy.link.stop();

    expect(heavy.link.vendorFrameSent({ type: note, payload: "{}" })).toBe(false);
  });

  it("[W95] a vendor frame that the scheduler does not know is logged as refused, and nothing else happens", () => {
    const harness = readyLinkHarness();
    harness.link.vendorFrameSent({ type: note, id: "x1", payload: "{}" });
    harness.flush();

    harness.sendToLink("control.ack", { ok: false, for: "x1", info: "E.CMD.UNKNOWN: no subscriber", ack_seq: 0, ack_bitmap: 0 });

    expect(harness.eventsNamed("word-refused")[0]).toMatchObject({
      message: "E.CMD.UNKNOWN: no subscriber",
      details: { for: "x1" },
    });
    expect(harness.link.status).toMatchObject({ phase: "READY", unacked: 0 });
  });
});

describe("vendor frames from the scheduler", () => {
  it("[W96] a vendor frame from the scheduler reaches its listener whole, and is acked", () => {
    const harness = readyLinkHarness();
    harness.listenedVendorTypes.add(note);

    sendVendorFrame(harness, "v1", 0);

    expect(harness.deliveredVendorFrames).toEqual([{ type: note, id: "v1", corr: "c", payload: { text: "v1" } }]);
    expect(harness.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 0 });
  });

  it("[W96] a vendor frame from the scheduler without a listener is refused by id, settled all the same, and delivered to a later listener", () => {
    const harness = readyLinkHarness();

    sendVendorFrame(harness, "v1", 0);
    expect(harness.payload("control.ack")).toMatchObject({ ok: false, for: "v1", ack_seq: 0 });
    expect(harness.payload("control.ack").info).toContain("E.CMD.UNKNOWN");
    expect(harness.link.status.phase).toBe("READY");
    harness.listenedVendorTypes.add(note);
    sendVendorFrame(harness, "v1", 1);

    expect(harness.deliveredVendorFrames).toHaveLength(1);
  });

  it("[W96] a vendor frame from the scheduler is delivered once, within and across sessions, as far as the last 1,024 ids reach", () => {
    const harness = readyLinkHarness({}, { send_window: 1_024 });
    harness.listenedVendorTypes.add(note);
    sendVendorFrame(harness, "v0", 0);
    sendVendorFrame(harness, "v0", 1);
    renew(harness);
    sendVendorFrame(harness, "v0", 0);
    expect(harness.deliveredVendorFrames).toHaveLength(1);
    expect(harness.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 0 });

    for (let index = 1; index <= 1_024; index++) sendVendorFrame(harness, `v${index}`, index);
    sendVendorFrame(harness, "v1", 1_025);
    sendVendorFrame(harness, "v0", 1_026);

    expect(harness.deliveredVendorFrames).toHaveLength(1_026);
    expect(harness.deliveredVendorFrames.at(-1)?.id).toBe("v0");
  });

  it("[W96] a vendor frame from the scheduler that only fills a number is settled silently", () => {
    const harness = readyLinkHarness();

    sendVendorFrame(harness, "filler", 0, "ext.vendor.astraflow.void");

    expect(harness.payload("control.ack")).toMatchObject({ ok: true, ack_seq: 0 });
    expect(harness.eventsNamed("frame-ignored")).toEqual([]);
    expect(harness.deliveredVendorFrames).toEqual([]);
  });
});
