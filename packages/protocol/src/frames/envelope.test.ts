import { describe, expect, it } from "vitest";
import { Fault } from "../faults/fault.ts";
import { type Dialect, detectDialect, dialectOfNumber, type Envelope, readEnvelope, transportNumber } from "./envelope.ts";

const frame = {
  type: "control.handshake",
  id: "control.handshake-0",
  ts: "2026-01-05T09:00:00.000001+00:00",
  tenant: "default",
  sender: { role: "worker", id: "i-1" },
  payload: { protocol: 1 },
};
const dialects: Dialect[] = ["v1", "first", "v2"];
const faultMessageOf = (value: unknown, dialect?: Dialect) => {
  const read = readEnvelope(value, dialect);
  return read instanceof Fault ? `${read.code} ${read.message}` : "ok";
};

describe.each(dialects)("envelope of %s", (dialect) => {
  it.each(["type", "id", "ts", "tenant", "sender", "payload"])("[C1] an envelope is refused without %s", (field) => {
    expect(faultMessageOf({ ...frame, [field]: undefined }, dialect)).toContain(`must have ${field}`);
  });

  it.each([
    ["type", ""],
    ["id", 7],
    ["id", "a\u0000b"],
    ["id", "a\nb"],
    ["ts", "2026-01-05T09:00:00"],
    ["ts", "2026-13-05T09:00:00Z"],
    ["ts", "2026-01-05T09:00:00Z[Europe/Berlin]"],
    ["ts", 1_767_603_600],
    ["tenant", ""],
    ["sender", { role: "Worker", id: "i-1" }],
    ["sender", { role: "worker", id: "" }],
    ["sender", "worker"],
    ["payload", null],
    ["payload", []],
    ["seq", -1],
    ["seq", 1.5],
    ["seq", 2 ** 53],
    ["seq", "1"],
    ["corr", 7],
    ["ack", { request: "yes" }],
    ["flags", "a"],
    ["flags", [1]],
  ])("[C1] an envelope is refused when %s is %j, and the message names the field", (field, value) => {
    expect(faultMessageOf({ ...frame, [field]: value }, dialect)).toMatch(new RegExp(`^E\\.FRAME\\.INVALID frame\\.${field}`));
  });

  it("[C1] an envelope may have every optional field, and null in place of one counts as absent", () => {
    const full = { ...frame, corr: "c", seq: 0, ack: { for: "x", request: true }, flags: ["trace"] };
    const nulls = { ...frame, corr: null, seq: null, ack: null, flags: null };

    expect(readEnvelope(full, dialect)).toEqual(full);
    expect(readEnvelope(nulls, dialect)).toEqual(frame);
    expect(readEnvelope({ ...frame, ack: { for: null, request: true } }, dialect)).toEqual({ ...frame, ack: { request: true } });
  });

  it.each([null, undefined, 7, "frame", [], [frame]])("[C1] an envelope is refused when the frame is %j", (value) => {
    expect(faultMessageOf(value, dialect)).toContain("E.FRAME.INVALID");
  });
});

describe("unknown keys of an envelope", () => {
  const more = { ...frame, admin: true, sender: { ...frame.sender, fence: 1 }, ack: { request: true, more: 1 } };

  it.each(["v1", "v2"] as const)(
    "[C2] unknown keys of an envelope are dropped in %s, and the sender's object is not changed",
    (dialect) => {
      expect(readEnvelope(more, dialect)).toEqual({ ...frame, ack: { request: true } });
      expect(more.admin).toBe(true);
    },
  );

  it("[C2] unknown keys at any level of the envelope make a first-generation frame invalid", () => {
    expect(faultMessageOf({ ...frame, admin: true }, "first")).toBe("E.FRAME.INVALID frame.admin is not a known field");
    expect(faultMessageOf({ ...frame, sender: { ...frame.sender, x: 1 } }, "first")).toContain(
      "frame.sender.x is not a known field",
    );
    expect(faultMessageOf({ ...frame, ack: { x: 1 } }, "first")).toContain("frame.ack.x is not a known field");
  });

  it("[C2] the name of an unknown envelope key cannot break a log line", () => {
    expect(faultMessageOf({ ...frame, "\n{forged}\u001b[31m": 1 }, "first")).not.toMatch(/[\n\u001b]/);
  });
});

describe("dialect", () => {
  const first = (type: string, payload = {}) => detectDialect({ ...frame, type, payload } as Envelope);

  it("[C3] the first frame of a session chooses its dialect, except between the two that name protocol 1", () => {
    expect(first("handshake", { protocol: 2 })).toBe("v1");
    expect(first("control.handshake", { protocol: 1 })).toBe("undecided");
    expect(first("control.handshake", { protocol: 2 })).toBe("v2");
    expect(first("control.handshake", { protocol: 3 })).toBe("v2");
    expect(first("control.resume")).toBeUndefined();
    expect(first("biz.exec.result")).toBeUndefined();
  });

  it("[C3] the first numbered frame of an undecided worker chooses its dialect by the field that carries the number", () => {
    const shown = (numbers: object) => dialectOfNumber({ ...frame, ...numbers } as Envelope);
    expect([shown({}), shown({ seq: 0 }), shown({ session_seq: 1 }), shown({ seq: 0, session_seq: 1 })]).toEqual([
      null,
      "basic",
      "first",
      "first",
    ]);
    const numbers = (["v1", "first", "basic", "v2"] as const).map((dialect) =>
      transportNumber(dialect, { ...frame, seq: 4, session_seq: 9 } as Envelope),
    );
    expect(numbers).toEqual([9, 9, 4, 4]);
  });

  it("[C3] the number within a run is no transport number: a frame of v1, of the first generation or undecided that has only that one is unnumbered", () => {
    const numbers = (["v1", "first", "undecided"] as const).map((dialect) =>
      transportNumber(dialect, { ...frame, seq: 4 } as Envelope),
    );

    expect(numbers).toEqual([undefined, undefined, undefined]);
  });

  it("[C3] an envelope can be read while its dialect is still unknown", () => {
    expect(readEnvelope({ ...frame, session_seq: 4, more: 1 })).toEqual({ ...frame, session_seq: 4 });
  });

  it("[C3] the dialect decides which field of an envelope contains the transport number", () => {
    expect(readEnvelope({ ...frame, session_seq: 4, seq: 1 }, "first")).toMatchObject({ session_seq: 4, seq: 1 });
    expect(readEnvelope({ ...frame, session_seq: 4, seq: 1 }, "v2")).not.toHaveProperty("session_seq");
  });
});
