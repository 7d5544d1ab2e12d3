import { describe, expect, it } from "vitest";
import payloads from "../../fixtures/payloads.json" with { type: "json" };
import { Fault } from "../faults/fault.ts";
import type { Dialect, Envelope } from "./envelope.ts";
import {
  type FrameType,
  frameDefinitions,
  readFrame,
  readPayload,
  toFrameType,
  toWireType,
  v1FrameTypes,
} from "./frame-definitions.ts";

type Plain = Record<string, unknown>;
const samples = (Object.entries(payloads) as [Dialect, Record<string, Plain>][]).flatMap(([dialect, byType]) =>
  Object.entries(byType).map(([type, payload]) => ({ dialect, type, payload })),
);
const faultMessageOf = (dialect: Dialect, type: string, payload: unknown) => {
  const read = readPayload(dialect, type, payload);
  return read instanceof Fault ? `${read.code} ${read.message}` : "ok";
};
const sample = (dialect: keyof typeof payloads, type: string) => (payloads[dialect] as Record<string, Plain>)[type] as Plain;
/** Only v1 names some fields differently; how they are translated is written out here once more, by hand. */
const toV2Payload = (dialect: Dialect, type: string, payload: Plain): unknown => {
  if (dialect !== "v1") return payload;
  if (type === "handshake") {
    const { id, ...worker } = payload["worker"] as Plain;
    return { ...payload, worker: { ...worker, worker_name: id, worker_instance_id: id } };
  }
  return JSON.parse(JSON.stringify(payload).replaceAll('"worker_id"', '"worker_name"'));
};

describe("payloads", () => {
  it.each(samples)("[C4] a payload of $dialect $type is read in full", ({ dialect, type, payload }) => {
    const read = readPayload(dialect, type, payload);

    expect(read).toEqual(toV2Payload(dialect, type, payload));
  });

  it.each(["v1", "first", "basic", "undecided", "v2"] as const)(
    "[C4] a heartbeat of %s is complete with healthy alone and may list installed packages, and a chunk may name any channel",
    (dialect) => {
      const spelled = (type: FrameType) => toWireType(dialect, type) ?? type;
      const heartbeats = [
        { healthy: true },
        { healthy: false, packages: { installed: [{ name: "a", version: "1", status: "installed" }] } },
      ];
      for (const heartbeat of heartbeats)
        expect(readPayload(dialect, spelled("control.heartbeat"), heartbeat)).toEqual(heartbeat);
      const feedback = { run_id: "r", task_id: "r.0", chunks: [{ channel: "browser", text: "opened" }] };
      expect(readPayload(dialect, spelled("biz.exec.feedback"), feedback)).toEqual(feedback);
    },
  );

  it("[C4] every row of the frame table has a sample payload", () => {
    for (const dialect of ["first", "v2"] as const)
      expect(Object.keys(payloads[dialect]).toSorted()).toEqual(Object.keys(frameDefinitions[dialect]).toSorted());
    expect(Object.keys(payloads.v1).toSorted()).toEqual(Object.keys(v1FrameTypes).toSorted());
  });

  it.each(samples.filter(({ payload }) => Object.keys(payload).length > 0))(
    "[C4] a payload of $dialect $type is refused when a known field has another type",
    ({ dialect, type, payload }) => {
      for (const field of Object.keys(payload)) {
        const wrong = { ...payload, [field]: typeof payload[field] === "object" ? "word" : { an: "object" } };
        expect(faultMessageOf(dialect, type, wrong)).toMatch(new RegExp(`^E\\.FRAME\\.INVALID payload\\.${field}`));
      }
    },
  );

  it.each(samples.filter(({ dialect }) => dialect === "first"))(
    "[C5] a first-generation payload of $type is refused when it has an unknown key",
    ({ dialect, type, payload }) => {
      expect(faultMessageOf(dialect, type, { ...payload, unforeseen: 1 })).toBe(
        "E.FRAME.INVALID payload.unforeseen is not a known field",
      );
    },
  );

  it.each(samples.filter(({ dialect }) => dialect !== "first"))(
    "[C5] the reader of $dialect $type payloads drops unknown keys",
    ({ dialect, type, payload }) => {
      const clean = readPayload(dialect, type, payload);

      expect(readPayload(dialect, type, { ...payload, tenant: "other", admin: true })).toEqual(clean);
    },
  );

  it("[C5] the payload reader drops unknown keys at every depth but keeps all keys of free-form objects such as parameters", () => {
    const dispatch = sample("v2", "biz.exec.dispatch");
    const read = readPayload("v2", "biz.exec.dispatch", {
      ...dispatch,
      constraints: { timeout_ms: 5, retries: 3 },
      resource_refs: [{ resource_id: "f", worker_name: "w", type: "file", path: "/etc" }],
      parameters: { anything: { deep: null } },
    });

    expect(read).toMatchObject({
      constraints: { timeout_ms: 5 },
      resource_refs: [{ resource_id: "f", worker_name: "w", type: "file" }],
      parameters: { anything: { deep: null } },
    });
    expect(JSON.stringify(read)).not.toMatch(/retries|etc/);
  });

  it("[C5] the payload reader keeps the extra metrics of a heartbeat in every dialect", () => {
    for (const [dialect, type] of [
      ["v1", "heartbeat"],
      ["first", "control.heartbeat"],
      ["v2", "control.heartbeat"],
    ] as const)
      expect(readPayload(dialect, type, sample(dialect, type))).toMatchObject({ metrics: { conn_state: "connected" } });
  });

  it("[C5] the payload reader treats null as an absent optional field, and keeps nulls inside results", () => {
    const result = { run_id: "r", task_id: "t", status: "FAILED", result: { a: null }, error: null, artifacts: null };

    expect(readPayload("first", "biz.exec.result", result)).toEqual({
      run_id: "r",
      task_id: "t",
      status: "FAILED",
      result: { a: null },
    });
    expect(faultMessageOf("first", "biz.exec.result", { ...result, result: null })).toContain("payload.result");
  });
});

describe("fields of our own", () => {
  it.each([
    ["control.register", { boot_id: "b" }],
    ["control.session.accept", { lease_ms: 1 }],
    ["control.heartbeat", { held: [] }],
    ["biz.exec.dispatch", { fence: 1 }],
    ["biz.exec.result", { fence: 1 }],
    ["biz.exec.error", { task_id: "t" }],
  ])("[C6] a field that v2 adds to %s is read in v2 and refused in the first generation", (type, field) => {
    expect(readPayload("v2", type, { ...sample("v2", type), ...field })).toMatchObject(field);
    expect(faultMessageOf("first", type, { ...sample("first", type), ...field })).toContain("is not a known field");
  });

  it.each([2 ** 53, 2 ** 53 + 2, 1.5, -1, "7"])("[C6] a v2 result with the fence %j is refused", (fence) => {
    expect(faultMessageOf("v2", "biz.exec.result", { ...sample("v2", "biz.exec.result"), fence })).toContain("payload.fence");
  });

  it("[C6] a v2 ack can report that nothing was received, and can carry a bitmap of any window", () => {
    expect(readPayload("v2", "control.ack", { ack_seq: -1, ack_bitmap: 2 ** 53 - 1 })).toEqual({
      ack_seq: -1,
      ack_bitmap: 2 ** 53 - 1,
    });
    expect(readPayload("v2", "control.ack", { ack_bitmap: "f".repeat(256) })).toEqual({ ack_bitmap: "f".repeat(256) });
    expect(faultMessageOf("v2", "control.ack", { ack_bitmap: "F0" })).toContain("payload.ack_bitmap");
    expect(faultMessageOf("v2", "control.ack", { ack_bitmap: 2 ** 53 })).toContain("payload.ack_bitmap");
    expect(faultMessageOf("v2", "control.ack", { ack_seq: -2 })).toContain("payload.ack_seq");
    expect(faultMessageOf("first", "control.ack", { ack_seq: -1 })).toContain("payload.ack_seq");
  });

  it("[C6] a v2 batch carries one to sixty-four tasks", () => {
    const item = sample("v2", "biz.exec.result");

    expect(faultMessageOf("v2", "biz.exec.result.batch", { items: Array(64).fill(item) })).toBe("ok");
    expect(faultMessageOf("v2", "biz.exec.result.batch", { items: Array(65).fill(item) })).toContain("payload.items");
    expect(faultMessageOf("v2", "biz.exec.dispatch.batch", { items: [] })).toContain("payload.items");
    expect(faultMessageOf("v2", "biz.exec.result.batch", { items: [item, { ...item, task_id: 7 }] })).toContain(
      "payload.items.1.task_id",
    );
  });

  it("[C6] a v2 register may name runtimes and features beside its capabilities, as the specification's text does", () => {
    const read = readPayload("v2", "control.register", {
      capabilities: { concurrency: { max_parallel: 1 } },
      runtimes: ["node"],
      features: ["fence"],
    });

    expect(read).toEqual({ capabilities: { concurrency: { max_parallel: 1 }, runtimes: ["node"], features: ["fence"] } });
    expect(readPayload("v2", "control.register", { capabilities: { concurrency: { max_parallel: 1 } } })).toMatchObject({
      capabilities: { runtimes: [], features: [] },
    });
  });
});

describe("words of v1", () => {
  it("[C7] a v1 payload is translated to v2: its one id becomes name and instance id, and worker_id becomes worker_name", () => {
    expect(readPayload("v1", "handshake", sample("v1", "handshake"))).toMatchObject({
      worker: { worker_name: "w1", worker_instance_id: "w1", version: "0.1.0", hostname: "box" },
    });
    expect(readPayload("v1", "cmd.dispatch", sample("v1", "cmd.dispatch"))).toEqual(sample("first", "biz.exec.dispatch"));
    expect(readPayload("v1", "result", sample("v1", "result"))).toEqual(sample("first", "biz.exec.result"));
  });

  it("[C7] a v1 ack may leave out ok, as v1 workers do", () => {
    expect(readPayload("v1", "ack", { for: "x" })).toEqual({ for: "x", ok: true });
    expect(faultMessageOf("v1", "ack", { ok: true })).toContain("must have for");
  });

  it("[C7] a v1 register must have its package list beside its capabilities, and needs nothing else", () => {
    expect(faultMessageOf("v1", "register", { capabilities: sample("v1", "register")["capabilities"], packages: [] })).toBe("ok");
    expect(faultMessageOf("v1", "register", { capabilities: sample("v1", "register")["capabilities"] })).toContain(
      "must have packages",
    );
  });

  it("[C7] v1 frame types map onto the current types and back", () => {
    expect(toFrameType("v1", "command.error")).toBe("biz.exec.error");
    expect(toWireType("v1", "biz.exec.error")).toBe("error");
    expect(toWireType("v1", "control.drain")).toBe("cmd.drain");
    expect(toWireType("v1", "control.reset")).toBeUndefined();
    for (const type of Object.keys(frameDefinitions.v1) as FrameType[])
      expect(toFrameType("v1", toWireType("v1", type) as string)).toBe(type);
  });
});

describe("unknown types", () => {
  it.each([
    ["v1", "biz.exec.result"],
    ["v1", "toString"],
    ["first", "biz.exec.cancel"],
    ["first", "result"],
    ["v2", "control.unheard"],
    ["v2", "biz.exec.unheard"],
    ["v2", "constructor"],
    ["v2", "ext.other"],
  ] as const)("[C8] an unknown frame type is answered with E.CMD.UNKNOWN: %s %s", (dialect, type) => {
    expect(readPayload(dialect, type, {})).toMatchObject({ code: "E.CMD.UNKNOWN" });
  });

  it("[C8] vendor frame types and their payloads pass unchanged", () => {
    const payload = { any: ["thing", null] };

    expect(readPayload("v2", "ext.vendor.acme.ping", payload)).toBe(payload);
    expect(toWireType("first", "ext.vendor.acme.ping")).toBe("ext.vendor.acme.ping");
  });

  it("[C8] readFrame returns known frames under their current type and every vendor frame under the type ext", () => {
    const envelope = { type: "result", payload: sample("v1", "result") } as unknown as Envelope;
    const vendor = { type: "ext.vendor.acme.ping", payload: {} } as unknown as Envelope;

    expect(readFrame("v1", envelope)).toMatchObject({ type: "biz.exec.result", payload: { status: "SUCCEEDED" }, envelope });
    expect(readFrame("v2", vendor)).toEqual({ type: "ext", payload: {}, envelope: vendor });
    expect(readFrame("v2", envelope)).toMatchObject({ code: "E.CMD.UNKNOWN" });
  });
});
