import { limits } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { type OutgoingVendorFrame, VendorFrameHub } from "./vendor-frames.ts";

function connected(isTaken = true) {
  const hub = new VendorFrameHub();
  const sent: OutgoingVendorFrame[] = [];
  const listening: (readonly string[])[] = [];
  const reports: string[] = [];
  hub.connect({
    sendFrame: async (draft) => {
      sent.push(draft);
      return isTaken;
    },
    listenedTypesChanged: (types) => listening.push(types),
    reportProblem: ({ message, cause }) => reports.push(`${message}: ${(cause as Error).message}`),
  });
  return { hub, sent, listening, reports };
}

const frame = (type: string) => ({ type, id: "f-1", corr: "c", payload: { n: 1 } });

describe("vendors' frames in package code", () => {
  it("[W126] the vendor frame hub passes a frame to the link as text, with its correlation, and reports whether it was accepted", async () => {
    const { hub, sent } = connected();

    expect(await hub.handlerApi.send("ext.vendor.acme.hello", { n: 1 }, { corr: "c-1" })).toBe(true);
    expect(await connected(false).hub.handlerApi.send("ext.vendor.acme.hello", {})).toBe(false);

    expect(sent).toEqual([{ type: "ext.vendor.acme.hello", corr: "c-1", payload: '{"n":1}' }]);
  });

  it("[W126] the vendor frame hub accepts no frame before it has a link, and then announces the types that already have listeners", async () => {
    const hub = new VendorFrameHub();
    hub.handlerApi.on("ext.vendor.acme.early", () => {});

    expect(await hub.handlerApi.send("ext.vendor.acme.hello", {})).toBe(false);
    const announced: (readonly string[])[] = [];
    hub.connect({ sendFrame: async () => true, listenedTypesChanged: (types) => announced.push(types), reportProblem: () => {} });

    expect(announced).toEqual([["ext.vendor.acme.early"]]);
  });

  it("[W126] the vendor frame hub delivers a frame to every listener of its type and to no other, until the listener is removed", () => {
    const { hub, listening } = connected();
    const received: string[] = [];
    const listener = () => received.push("a");
    const stops = [hub.handlerApi.on("ext.vendor.acme.a", listener), hub.handlerApi.on("ext.vendor.acme.a", listener)];
    hub.handlerApi.on("ext.vendor.acme.b", () => received.push("b"));

    expect(hub.deliver(frame("ext.vendor.acme.a"))).toBe(true);
    expect(hub.deliver(frame("ext.vendor.acme.none"))).toBe(false);
    for (const stop of [...stops, ...stops]) stop();

    expect(hub.deliver(frame("ext.vendor.acme.a"))).toBe(false);
    expect(received).toEqual(["a", "a"]);
    expect(listening.at(-1)).toEqual(["ext.vendor.acme.b"]);
  });

  it("[W126] the vendor frame hub reports a listener that throws or rejects, and still delivers to the others", async () => {
    const { hub, reports } = connected();
    const received: string[] = [];
    hub.handlerApi.on("ext.vendor.acme.a", () => {
      throw new Error("broken");
    });
    hub.handlerApi.on("ext.vendor.acme.a", (async () => {
      throw new Error("rejected");
    }) as () => void);
    hub.handlerApi.on("ext.vendor.acme.a", ({ id }) => void received.push(id));

    hub.deliver(frame("ext.vendor.acme.a"));
    await Promise.resolve();
    await Promise.resolve();

    expect(received).toEqual(["f-1"]);
    expect(reports).toEqual([
      "a listener to ext.vendor.acme.a failed on frame f-1: broken",
      "a listener to ext.vendor.acme.a failed on frame f-1: rejected",
    ]);
  });

  it("[W127] the vendor frame hub refuses types that are not a vendor's, and payloads that are no object or too large", async () => {
    const { hub, sent } = connected();
    const circular: Record<string, unknown> = {};
    circular["self"] = circular;
    const large = { text: "x".repeat(limits.resultInlineBytesMax) };
    const bad: [string, unknown, { corr?: string }?][] = [
      ["biz.exec.result", {}],
      ["ext.vendor.", {}],
      ["ext.vendor.a\nb", {}],
      [`ext.vendor.${"x".repeat(limits.idCharsMax)}`, {}],
      ["ext.vendor.acme.a", []],
      ["ext.vendor.acme.a", null],
      ["ext.vendor.acme.a", "text"],
      ["ext.vendor.acme.a", { toJSON: () => "text" }],
      ["ext.vendor.acme.a", circular],
      ["ext.vendor.acme.a", {}, { corr: "" }],
    ];

    for (const [type, payload, options] of bad)
      await expect(hub.handlerApi.send(type, payload as never, options)).rejects.toMatchObject({ code: "E.FRAME.INVALID" });
    await expect(hub.handlerApi.send("ext.vendor.acme.a", large)).rejects.toMatchObject({ code: "E.FRAME.TOO_LARGE" });
    expect(() => hub.handlerApi.on("control.ack", () => {})).toThrow("begins with ext.vendor.");

    expect(sent).toEqual([]);
  });

  it("[W200] the vendor frame hub refuses a payload or a correlation that the scheduler could not read", async () => {
    const { hub, sent } = connected();
    const send = (payload: object, corr = "c") => hub.handlerApi.send("ext.vendor.acme.x", payload as never, { corr });

    for (const payload of [{ constructor: {} }, { "a\u0000": 1 }, { deep: JSON.parse("[".repeat(80) + "]".repeat(80)) }])
      await expect(send(payload)).rejects.toMatchObject({ code: expect.stringMatching(/^E\.FRAME\./) });
    await expect(send({}, "two\nlines")).rejects.toMatchObject({ code: "E.FRAME.INVALID" });

    expect(sent).toEqual([]);
  });
});
