import { describe, expect, it } from "vitest";
import { readManifest } from "../definitions/manifest.ts";
import { Fault } from "../faults/fault.ts";
import { readEnvelope } from "../frames/envelope.ts";
import { readPayload } from "../frames/frame-definitions.ts";
import { leastCpuMs } from "../testing/cpu-time.ts";
import * as t from "./field-types.ts";
import { createSchemaReader } from "./schema-reader.ts";

const Sample = t.object({
  key: t.id(),
  count: t.optional(t.between(0, 9)),
  kind: t.optional(t.oneOf(["a", "b"])),
  inner: t.optional(t.object({ flag: t.boolean(), note: t.optional(t.string()) })),
  many: t.optional(t.list(t.object({ n: t.integer(0) }), 3)),
  free: t.optional(t.openObject()),
  named: t.optional(t.map(t.object({ n: t.integer(0) }))),
  either: t.optional(t.union([t.integer(0), t.object({ n: t.integer(0) })])),
});
const tolerant = createSchemaReader(Sample, { code: "E.REQUEST.INVALID", subject: "body", unknownKeys: "drop" });
const strict = createSchemaReader(Sample, { code: "E.REQUEST.INVALID", subject: "body", unknownKeys: "refuse" });
const messageOf = (value: unknown) => {
  const read = tolerant.read(value);
  return read instanceof Fault ? read.message : "ok";
};

describe("shape", () => {
  it.each([
    [{}, "body must have key"],
    [{ key: "k", count: 10 }, "body.count must be at most 9"],
    [{ key: "k", count: -1 }, "body.count must be at least 0"],
    [{ key: "k", count: "1" }, "body.count must be a whole number"],
    [{ key: "k", kind: "c" }, "body.kind must be one of a, b"],
    [{ key: "k", inner: [] }, "body.inner must be an object"],
    [{ key: "k", inner: { flag: 1 } }, "body.inner.flag must be true or false"],
    [{ key: "k", many: {} }, "body.many must be a list"],
    [{ key: "k", many: [{ n: 1 }, { n: -1 }] }, "body.many.1.n must be at least 0"],
    [{ key: "k", many: Array(4).fill({ n: 1 }) }, "body.many must have at most 3 items"],
    [{ key: "k", named: { "a\nb": { n: "x" } } }, "body.named.a\\nb.n must be a whole number"],
    [{ key: "k", either: { n: "x" } }, "body.either.n must be a whole number"],
    [{ key: "k", either: "x" }, "body.either must be a whole number, or must be an object"],
    [7, "body must be an object"],
  ])("[C17] a schema reader's message names the field and what was expected (case %#)", (value, message) => {
    expect(messageOf(value)).toBe(message);
  });

  it.each([
    [{ kye: "k" }, "body must have key; it has kye, did you mean key?"],
    [{ key: "k", inner: { flga: true } }, "body.inner must have flag; it has flga, did you mean flag?"],
    [{ key: "k", either: { m: 1 } }, "body.either must be a whole number, or must have n"],
    [{ "ke\ny": "k" }, "body must have key; it has ke\\ny, did you mean key?"],
    [{ count: 1, colour: 1 }, "body must have key"],
    [{ kind: "a", inner: null }, "body must have key"],
    [{ ["key".repeat(1_000)]: 1 }, "body must have key"],
  ])("[C910] a missing field beside one that is a slip away from it is refused with both names (case %#)", (value, message) => {
    expect(messageOf(value)).toBe(message);
    expect(strict.findFaults(value, 1)[0]?.message).toBe(message);
  });

  it("[C910] several misspelt fields are named together, and looking for them among many strange ones is bounded", () => {
    const names = ["alpha", "gamma", "theta"];
    const reader = createSchemaReader(t.object(Object.fromEntries(names.map((name) => [name, t.integer(0)]))), {
      code: "E.MANIFEST.INVALID",
      subject: "manifest",
      unknownKeys: "drop",
    });
    const strangers = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`zzzzzz${index}`, 1]));

    expect(reader.read({ alhpa: 1, gamma: 1, thetta: 1 })).toMatchObject({
      message: "manifest must have alpha, theta; it has alhpa and thetta, did you mean alpha and theta?",
    });
    expect(reader.read({ ...strangers, alhpa: 1 })).toMatchObject({ message: "manifest must have alpha, gamma, theta" });
  });

  it("[C17] a schema reader never puts a value into a message, because it may be a secret", () => {
    const read = readPayload("v2", "control.handshake", {
      protocol: 2,
      auth: { mode: "hunter2-mode", token: "hunter2" },
      worker: {},
    });

    expect(JSON.stringify(read)).not.toContain("hunter2");
  });

  it("[C17] a schema reader returns the same object when there is nothing to drop, and never changes its input", () => {
    const clean = { key: "k", inner: { flag: true }, many: [{ n: 1 }], free: { any: null }, named: { a: { n: 1 } } };
    const more = {
      ...clean,
      x: 1,
      inner: { flag: true, x: 1, note: null },
      many: [{ n: 1, x: 1 }],
      named: { a: { n: 1, x: 1 } },
    };
    const before = structuredClone(more);

    expect(tolerant.read(clean)).toBe(clean);
    expect(tolerant.read(more)).toEqual(clean);
    expect(more).toEqual(before);
    expect(strict.read(clean)).toBe(clean);
  });

  it("[C17] a strict schema reader refuses unknown keys at every depth, and still treats null as absent", () => {
    expect(strict.read({ key: "k", x: 1 })).toMatchObject({ message: "body.x is not a known field" });
    expect(strict.read({ key: "k", inner: { flag: true, x: 1 } })).toMatchObject({
      message: "body.inner.x is not a known field",
    });
    expect(strict.read({ key: "k", many: [{ n: 1, x: 1 }] })).toMatchObject({ message: "body.many.0.x is not a known field" });
    expect(strict.read({ key: "k", count: null, inner: { flag: true, note: null } })).toEqual({
      key: "k",
      inner: { flag: true },
    });
    expect(strict.read({ key: null })).toMatchObject({ message: "body.key must be a string" });
  });

  it("[C17] a strict schema reader names the known key that is one slip away from an unknown one, and its path", () => {
    expect(strict.read({ key: "k", cuont: 1 })).toMatchObject({
      message: "body.cuont is not a known field; did you mean count?",
      details: { path: "body.cuont" },
    });
    expect(strict.read({ key: "k", COUNT: 1 })).toMatchObject({
      message: "body.COUNT is not a known field; did you mean count?",
    });
  });
});

describe("hostile values", () => {
  const envelope = {
    type: "t",
    id: "a",
    ts: "2026-01-05T09:00:00Z",
    tenant: "d",
    sender: { role: "worker", id: "i" },
    payload: {},
  };
  const long = "a".repeat(16_000_000);
  const keys = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`k${i}`, "x"]));
  const cases: [string, () => unknown][] = [
    ["an id of 16 MB", () => readEnvelope({ ...envelope, id: long })],
    ["an id of astral characters", () => readEnvelope({ ...envelope, id: "🌊".repeat(4_000_000) })],
    ["an instant of 16 MB", () => readEnvelope({ ...envelope, ts: `2026-01-05T09:00:00.${long}Z` })],
    ["a URL of 16 MB", () => readPayload("v2", "biz.pkg.install", { name: "a", version: "1", url: `http://${long}` })],
    ["a bitmap of 16 MB", () => readPayload("v2", "control.ack", { ack_bitmap: long })],
    [
      "200,000 wrong attempts",
      () => readPayload("v2", "control.heartbeat", { healthy: true, metrics: { inflight: 0 }, held: Array(200_000).fill(7) }),
    ],
    ["100,000 wrong metrics", () => readPayload("v2", "biz.exec.feedback", { run_id: "r", task_id: "t", metrics: keys })],
    ["100,000 unknown keys in a strict dialect", () => readPayload("first", "control.drain", keys)],
    ["a name that nearly matches, a million times", () => readManifest({ name: `${"a-".repeat(500_000)}!` })],
  ];

  it.each(cases)("[C18] hostile values are refused quickly: %s", (_, read) => {
    const text = JSON.stringify({ long, keys });

    expect(read()).toBeInstanceOf(Fault);
    // To parse as much JSON takes about as long; a search that backtracks takes seconds.
    expect(leastCpuMs(read) / leastCpuMs(() => JSON.parse(text))).toBeLessThan(10);
  });
});
