import type { AckPayload } from "@astraflow/protocol";
import { dialectRules, ReliableStream } from "@astraflow/session";
import { describe, expect, it } from "vitest";
import { Outbox, type OutboxDraft, type OutboxMessage, type OutboxSettings, type OutboxStream } from "./outbox.ts";

const types = {
  outcome: "biz.exec.result",
  feedback: "biz.exec.feedback",
  ext: "ext.vendor.acme.note",
  next: "biz.exec.next.request",
  removed: "biz.resource.removed",
  package: "biz.pkg.event",
} as const;
const word = (id: string, kind: OutboxMessage["kind"] = "outcome", payload = "{}"): OutboxDraft => ({
  kind,
  type: types[kind],
  id,
  corr: id,
  payload,
});

function openStream(sendFrames = 64, batchMax = 1, sendBytes = 1_000_000): OutboxStream {
  const batchBytesMax = 256 * 1024;
  return new ReliableStream(dialectRules.v2, {
    sendFrames,
    sendBytes,
    recvFrames: 64,
    recvBytes: 1_000_000,
    batchMax,
    batchBytesMax,
  });
}

function outbox(settings: Partial<OutboxSettings> = {}, stream: OutboxStream | null = openStream()) {
  const box = new Outbox({
    bytesInFlightMax: 1_000,
    feedbackWaitingMax: 3,
    vendorFramesMax: 2,
    vendorBytesMax: 100,
    ...settings,
  });
  if (stream !== null) box.attachStream(stream);
  const pump = (max = Number.POSITIVE_INFINITY) => {
    const sent: string[] = [];
    box.sendPending(
      0,
      () => "batch",
      ({ items, number }) => sent.push(`${number}:${items.map((one) => one.id).join("+")}`) < max,
    );
    return sent;
  };
  const acked = (ack: AckPayload) => {
    const settled = box.handleAck(ack, undefined);
    return settled === "unsent" ? settled : settled.map((one) => one.id);
  };
  return { box, pump, acked };
}

describe("outbox", () => {
  it("[W6] the outbox keeps a message until it is acked, by number or by bitmap", () => {
    const { box, pump, acked } = outbox();
    for (const name of ["a", "b", "c", "d"]) box.addMessage(word(name));
    pump();

    expect(acked({ ack_seq: 0, ack_bitmap: 0b100 })).toEqual(["a", "d"]);
    expect([box.messageCount, box.outcomeCount]).toEqual([2, 2]);
    box.detachStream();
    box.attachStream(openStream());

    expect(pump()).toEqual(["0:b", "1:c"]);
  });

  it("[W91] the outbox releases nothing for an ack of numbers that were never sent", () => {
    const { box, pump, acked } = outbox();
    box.addMessage(word("a"));
    pump();

    expect(acked({ ack_seq: 7 })).toBe("unsent");
    expect(acked({ ack_seq: -1, ack_bitmap: 0b1000 })).toBe("unsent");
    expect(box.messageCount).toBe(1);
  });

  it("[W101] the outbox moves what one session did not deliver into the next: outcomes first, each kind from oldest to newest", () => {
    const { box, pump } = outbox({ feedbackWaitingMax: 10, vendorFramesMax: 10 }, openStream(4));
    for (const name of ["f0", "f1"]) box.addMessage(word(name, "feedback"));
    box.addMessage(word("e0", "ext"));
    expect(pump()).toEqual(["0:e0", "1:f0", "2:f1"]);
    for (const name of ["r0", "r1"]) box.addMessage(word(name));
    for (const name of ["f2", "f3"]) box.addMessage(word(name, "feedback"));
    box.addMessage(word("e1", "ext"));
    expect(pump()).toEqual(["3:r0"]);

    box.detachStream();
    box.addMessage(word("r2"));
    expect(pump()).toEqual([]);
    box.attachStream(openStream());

    expect(pump()).toEqual(["0:r0", "1:r1", "2:r2", "3:e0", "4:e1", "5:f0", "6:f1", "7:f2", "8:f3"]);
    expect(box.messageCount).toBe(9);
  });

  it("[W23] the outbox sends results ahead of waiting feedback and reserves a quarter of the window for them", () => {
    const { box, pump } = outbox({ feedbackWaitingMax: 100 }, openStream(4));
    for (let index = 0; index < 5; index++) box.addMessage(word(`f${index}`, "feedback"));
    expect(pump()).toEqual(["0:f0", "1:f1", "2:f2"]);

    box.addMessage(word("r"));

    expect(pump()).toEqual(["3:r"]);
  });

  it("[W23] the outbox drops the oldest feedback when too much waits, never a result or a vendor frame", () => {
    const { box } = outbox({ feedbackWaitingMax: 1 }, null);
    for (let index = 0; index < 100; index++) expect(box.addMessage(word(`r${index}`))).toBeUndefined();
    expect(box.addMessage(word("e0", "ext"))).toBeUndefined();

    expect(box.addMessage(word("f0", "feedback"))).toBeUndefined();
    expect(box.addMessage(word("f1", "feedback"))?.id).toBe("f0");
    expect(box.messageCount).toBe(102);
  });

  it("[W169] the outbox sends an attempt's last feedback ahead of that of others, never ahead of its own, also in the next session", () => {
    const { box, pump } = outbox({ feedbackWaitingMax: 10 }, null);
    const addFeedback = (id: string, corr: string, isUrgent = false) =>
      box.addMessage({ kind: "feedback", type: types.feedback, id, corr, payload: "{}", isUrgent });
    addFeedback("other", "t2");
    addFeedback("first", "t1");
    addFeedback("second", "t1");
    addFeedback("last", "t1", true);
    box.addMessage(word("result"));
    box.attachStream(openStream());

    expect(pump()).toEqual(["0:first", "1:second", "2:last", "3:result", "4:other"]);
    box.detachStream();
    box.attachStream(openStream());

    expect(pump()).toEqual(["0:first", "1:second", "2:last", "3:result", "4:other"]);
  });

  it("[W169] the last feedback of an attempt follows what waits of its own while a session is open, and what was sent and not acked in the one before", () => {
    const { box, pump } = outbox({ feedbackWaitingMax: 10 });
    const addFeedback = (id: string, corr: string, isUrgent = false) =>
      box.addMessage({ kind: "feedback", type: types.feedback, id, corr, payload: "{}", isUrgent });
    addFeedback("flown", "t1");
    expect(pump()).toEqual(["0:flown"]);
    addFeedback("other", "t2");
    addFeedback("waiting", "t1");
    addFeedback("last", "t1", true);
    box.addMessage(word("result"));
    expect(pump()).toEqual(["1:waiting", "2:last", "3:result", "4:other"]);

    box.detachStream();
    box.attachStream(openStream());

    expect(pump()).toEqual(["0:flown", "1:waiting", "2:last", "3:result", "4:other"]);
  });

  it("[W95] the outbox accepts no more vendor frames than it may keep, in number and in bytes, until some are acked", () => {
    const { box, pump, acked } = outbox();
    expect([box.hasRoomForVendorFrame(100), box.hasRoomForVendorFrame(101)]).toEqual([true, false]);
    box.addMessage(word("e0", "ext", `"${"x".repeat(58)}"`));
    expect([box.hasRoomForVendorFrame(40), box.hasRoomForVendorFrame(41)]).toEqual([true, false]);
    box.addMessage(word("e1", "ext"));
    expect(box.hasRoomForVendorFrame(1)).toBe(false);
    pump();
    acked({ ack_seq: 0 });

    expect(box.hasRoomForVendorFrame(98)).toBe(true);
  });

  it("[W25] the outbox packs waiting results into one frame, and only results, as many as the session allows", () => {
    const { box, pump } = outbox({}, openStream(64, 3));
    for (const name of ["a", "b", "c", "d"]) box.addMessage(word(name));
    box.addMessage({ kind: "outcome", type: "biz.exec.error", id: "e", corr: "e", payload: "{}" });
    for (const name of ["f", "g"]) box.addMessage(word(name));
    for (const name of ["x", "y"]) box.addMessage(word(name, "feedback"));

    expect(pump()).toEqual(["0:a+b+c", "1:d", "2:e", "3:f+g", "4:x", "5:y"]);
  });

  it("[W25] the outbox settles all messages of a frame together, and sends all messages of an unacked frame again", () => {
    const { box, pump, acked } = outbox({}, openStream(64, 2));
    for (const name of ["a", "b", "c", "d"]) box.addMessage(word(name));
    pump();

    expect(acked({ ack_seq: -1, ack_bitmap: 0b10 })).toEqual(["c", "d"]);
    expect(box.messageCount).toBe(2);
    box.detachStream();
    box.attachStream(openStream());

    expect(pump()).toEqual(["0:a", "1:b"]);
  });

  it("[W18] the outbox sends a refused batch one by one, takes out the message that is refused alone, and then batches as before", () => {
    const { box, pump, acked } = outbox({}, openStream(64, 8));
    for (const name of ["good", "bad", "fine"]) box.addMessage(word(name));
    expect(pump()).toEqual(["0:good+bad+fine"]);

    expect(box.isolateRejected()).toBeUndefined();
    box.attachStream(openStream(64, 8));
    box.addMessage(word("later"));
    expect(pump()).toEqual(["0:good"]);
    expect(pump()).toEqual([]);
    acked({ ack_seq: 0 });
    expect(pump()).toEqual(["1:bad"]);
    expect(box.isolateRejected()?.id).toBe("bad");
    box.attachStream(openStream(64, 8));
    expect(pump()).toEqual(["0:fine"]);
    acked({ ack_seq: 0 });
    for (const name of ["x", "y"]) box.addMessage(word(name));

    expect(pump()).toEqual(["1:later+x+y"]);
    expect(box.messageCount).toBe(3);
  });

  it("[W18] a message that was alone in flight when the scheduler ended the session is sent once more before it is taken out", () => {
    const { box, pump } = outbox();
    box.addMessage(word("only"));
    pump();

    expect(box.isolateRejected()).toBeUndefined();
    box.attachStream(openStream());
    expect(pump()).toEqual(["0:only"]);

    expect(box.isolateRejected()?.id).toBe("only");
    expect(box.messageCount).toBe(0);
  });

  it("[W24] the outbox limits the bytes in flight as well as the frames", () => {
    const heavy = "x".repeat(400);
    const { box, pump, acked } = outbox({}, openStream(64, 1, 1_500));
    for (const name of ["a", "b", "c"]) box.addMessage(word(name, "outcome", `"${heavy}"`));

    expect(pump()).toEqual(["0:a", "1:b"]);
    acked({ ack_seq: 0 });

    expect(pump()).toEqual(["2:c"]);
  });

  it("[W99] the outbox hands out no further frame once the sender has enough", () => {
    const { box, pump } = outbox();
    for (const name of ["a", "b", "c"]) box.addMessage(word(name));

    expect(pump(2)).toEqual(["0:a", "1:b"]);
    expect(pump()).toEqual(["2:c"]);
  });
});
