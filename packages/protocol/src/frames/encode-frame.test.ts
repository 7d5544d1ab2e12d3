import { describe, expect, it } from "vitest";
import payloads from "../../fixtures/payloads.json" with { type: "json" };
import { Fault } from "../faults/fault.ts";
import { readJson } from "../json/read-json.ts";
import { createEnvelopeTemplate, encodeFrame, insertRawJson, type OutgoingFrame } from "./encode-frame.ts";
import { type Dialect, type Envelope, readEnvelope } from "./envelope.ts";
import { type FrameType, frameDefinitions, readPayload } from "./frame-definitions.ts";

const templateOf = (dialect: Dialect) =>
  createEnvelopeTemplate({ dialect, tenant: 'te"nant', sender: { role: "scheduler", id: "scheduler-control" } });
const base = { id: "m-1", ts: "2026-01-05T09:00:00.000Z" };
const encode = (dialect: Dialect, frame: Omit<OutgoingFrame, "id" | "ts">) =>
  JSON.parse(encodeFrame(templateOf(dialect), { ...base, ...frame })) as Envelope;
const pairs = (["v1", "first", "v2"] as const).flatMap((dialect) =>
  (Object.keys(frameDefinitions[dialect]) as FrameType[])
    .filter((type) => dialect !== "v1" || type !== "control.handshake") // only workers send it, and ours use v2
    .map((type) => ({ dialect, type, payload: payloads.v2[type] })),
);

describe("outgoing frames", () => {
  it.each(pairs)("[C9] an outgoing frame of type $type is accepted by the reader of $dialect", ({ dialect, type, payload }) => {
    // Our workers may report "nothing received" and send bitmaps in hex; the session door sends neither in the older dialects.
    const outgoing =
      type === "control.ack"
        ? { ok: true, for: "m-0", ack_seq: 1, ack_bitmap: 0, recv_window: 53 }
        : type === "control.resume"
          ? { ...payload, last_seen_seq: 0 }
          : type === "biz.pkg.event"
            ? { ...payload, status: "failed" }
            : payload;
    const text = encodeFrame(templateOf(dialect), {
      ...base,
      type,
      payload: outgoing,
      number: 3,
      runSeq: 1,
      corr: "c",
      ackRequest: true,
    });

    const envelope = readEnvelope(readJson(text), dialect) as Envelope;

    expect(envelope).not.toBeInstanceOf(Fault);
    expect(readPayload<string>(dialect, envelope.type, envelope.payload)).not.toBeInstanceOf(Fault);
  });

  it("[C9] an outgoing frame has each number in the field that its dialect uses for it", () => {
    const frame = { type: "biz.exec.cancel", payload: {}, number: 0, runSeq: 5 } as const;

    expect(encode("v2", frame)).toMatchObject({ seq: 0 });
    expect(encode("first", { ...frame, type: "biz.exec.dispatch" })).toMatchObject({ seq: 5, session_seq: 0 });
    expect(encode("v1", { ...frame, type: "biz.exec.dispatch" })).toMatchObject({ type: "cmd.dispatch", seq: 5 });
    expect(encode("v1", { ...frame, type: "biz.exec.dispatch" })).not.toHaveProperty("session_seq");
    expect(encode("v2", frame)).not.toHaveProperty("session_seq");
  });

  it("[C9] an outgoing frame leaves out absent fields and never contains null for them", () => {
    const plain = encode("v2", { type: "control.drain", payload: {}, corr: undefined });

    expect(plain).toEqual({
      ...base,
      type: "control.drain",
      tenant: 'te"nant',
      sender: { role: "scheduler", id: "scheduler-control" },
      payload: {},
    });
    expect(encode("v2", { type: "control.ack", payload: {}, ackFor: "m-0" }).ack).toEqual({ for: "m-0" });
    expect(encode("v2", { type: "control.drain", payload: {}, ackRequest: true }).ack).toEqual({ request: true });
  });

  it("[C9] an outgoing frame to an older worker carries only fields that it knows, whatever the payload contains", () => {
    const dispatch = { ...payloads.v2["biz.exec.dispatch"], fence: 7, attempt: 2, secret: 1 };

    expect(encode("first", { type: "biz.exec.dispatch", payload: dispatch }).payload).toEqual(
      payloads.first["biz.exec.dispatch"],
    );
    expect(encode("v1", { type: "biz.exec.dispatch", payload: dispatch }).payload).toEqual(payloads.v1["cmd.dispatch"]);
  });

  it("[C9] encoding a frame of a type that the dialect lacks is a programming error and throws", () => {
    expect(() => encode("first", { type: "biz.exec.cancel", payload: {} })).toThrow("does not exist in dialect first");
  });

  it("[C9] an outgoing frame contains stored JSON unchanged", () => {
    const text = insertRawJson({ run_id: "r" }, { parameters: '{"big":12345678901234567890}' });

    expect(text).toBe('{"run_id":"r","parameters":{"big":12345678901234567890}}');
    expect(insertRawJson({}, { a: "1", b: "[]" })).toBe('{"a":1,"b":[]}');
    expect(insertRawJson({ a: 1 }, {})).toBe('{"a":1}');
    expect(encodeFrame(templateOf("v2"), { ...base, type: "biz.exec.dispatch", payload: text })).toContain(`"payload":${text}}`);
  });
});
