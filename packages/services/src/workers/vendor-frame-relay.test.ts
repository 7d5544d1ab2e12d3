import { Fault } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import {
  type BufferedVendorFrame,
  isVendorType,
  VendorFrameRelay,
  type VendorFrameSubscription,
  type VendorRelayLimits,
  vendorRelayLimits,
} from "./vendor-frame-relay.ts";

const type = "ext.vendor.acme.ping";

function openRelay(limits: Partial<VendorRelayLimits> = {}) {
  const environment = createFakeEnvironment();
  const extensions = new VendorFrameRelay(environment, limits);
  let count = 0;
  const send = (more: { tenant?: string; type?: string; payload?: object } = {}): boolean =>
    extensions.publish({
      tenant: "default",
      worker: "default/w-1",
      instance: "w-1",
      type,
      id: `f-${++count}`,
      corr: undefined,
      payload: {},
      ...more,
    });
  const listen = (after: number | null = null, tenant = "default", of = type) => {
    const received: BufferedVendorFrame[] = [];
    let isClosed = false;
    const subscription = extensions.subscribe(tenant, of, after, {
      onFrame: (frame) => void received.push(frame),
      onClosed: () => {
        isClosed = true;
      },
    });
    return { received, subscription, isClosed: () => isClosed };
  };
  const taken = (subscription: VendorFrameSubscription | Fault): VendorFrameSubscription => {
    if (subscription instanceof Fault) throw subscription;
    return subscription;
  };
  return { outside: environment, extensions, send, listen, taken };
}

const idsIn = (frames: readonly BufferedVendorFrame[]): string[] =>
  frames.map(({ data }) => (JSON.parse(data) as { id: string }).id);

describe("frames of vendors on their way to readers", () => {
  it("[A18] a vendor frame reaches every reader of its tenant and type, and nobody else", () => {
    const { send, listen } = openRelay();
    const [one, two, foreign, other] = [
      listen(),
      listen(),
      listen(null, "other"),
      listen(null, "default", "ext.vendor.acme.pong"),
    ];

    expect(send({ payload: { n: 1 } })).toBe(true);

    for (const { received } of [one, two])
      expect(received.map(({ data }) => JSON.parse(data))).toEqual([
        { id: "f-1", type, workerId: "w-1", at: expect.stringMatching(/^2025-/), payload: { n: 1 } },
      ]);
    expect([...foreign.received, ...other.received]).toEqual([]);
  });

  it("[A18] a vendor frame is not accepted where no reader of its tenant asked for its type", () => {
    const { send, listen } = openRelay();
    listen(null, "other");

    expect(send()).toBe(false);
  });

  it("[A19] vendor frames wait for a reader that returns with its last number, in order and without a gap", () => {
    const { send, listen, taken } = openRelay();
    const first = listen();
    send();
    taken(first.subscription).unsubscribe();
    expect([send(), send()]).toEqual([true, true]);

    const { buffered: kept, hasGap } = taken(listen(first.received[0]?.number ?? null).subscription);

    expect([idsIn(kept), hasGap]).toEqual([["f-2", "f-3"], false]);
    expect(first.received).toHaveLength(1);
  });

  it("[A19] vendor frames are kept from the first reader on: a reader that received none has a number to return with", () => {
    const { send, listen, taken } = openRelay();
    const { from, unsubscribe: end } = taken(listen().subscription);
    end();
    send();

    expect(idsIn(taken(listen(from).subscription).buffered)).toEqual(["f-1"]);
  });

  it("[A19] vendor frames are no longer kept, and no longer accepted, five minutes after the last reader has left", () => {
    const { outside: environment, send, listen, taken } = openRelay();
    const { from, unsubscribe: end } = taken(listen().subscription);
    end();
    environment.advance(vendorRelayLimits.keepMs - 1);
    expect(send()).toBe(true);

    environment.advance(1);

    expect(send()).toBe(false);
    expect(taken(listen(from).subscription)).toMatchObject({ hasGap: true, buffered: [] });
  });

  it("[A19] vendor frames older than five minutes or beyond the limits of count and bytes are dropped, and a cursor before them shows the gap", () => {
    const { outside: environment, send, listen, taken } = openRelay({ framesMax: 3, bytesMax: 1_000 });
    const { from } = taken(listen().subscription);
    for (let n = 0; n < 5; n++) send();
    const byCount = taken(listen(from).subscription);
    expect([byCount.hasGap, idsIn(byCount.buffered)]).toEqual([true, ["f-3", "f-4", "f-5"]]);
    expect(taken(listen(byCount.from).subscription).hasGap).toBe(false);

    send({ payload: { text: "x".repeat(800) } });
    expect(idsIn(taken(listen(from).subscription).buffered)).toEqual(["f-6"]);

    environment.advance(vendorRelayLimits.keepMs);
    expect(taken(listen(from).subscription)).toMatchObject({ hasGap: true, buffered: [] });
  });

  it("[A19] a cursor from another life of the process shows a gap, so that its vendor frames are never mistaken for those of this one", () => {
    const early = openRelay();
    early.listen();
    const late = openRelay();
    late.outside.advance(10);
    const { from } = late.taken(late.listen().subscription);
    early.send();

    expect(early.taken(early.listen(from).subscription)).toMatchObject({ hasGap: true });
    expect(late.taken(late.listen(early.taken(early.listen().subscription).from).subscription)).toMatchObject({ hasGap: true });
  });

  it("[A19] a vendor frame larger than 256 KiB is not accepted", () => {
    const { send, listen } = openRelay();
    const { received } = listen();

    expect(send({ payload: { text: "x".repeat(vendorRelayLimits.frameBytesMax) } })).toBe(false);
    expect(received).toEqual([]);
  });

  it("[A18] the vendor frame relay bounds types and readers per tenant; a type that only waits for a reader makes room", () => {
    const { listen, taken } = openRelay({ ringsPerTenantMax: 2, readersPerTenantMax: 3 });
    const waiting = taken(listen(null, "default", "ext.vendor.acme.a").subscription);
    listen(null, "default", "ext.vendor.acme.b");

    expect(listen(null, "default", "ext.vendor.acme.c").subscription).toMatchObject({ code: "E.OVERLOADED" });
    waiting.unsubscribe();
    expect(listen(null, "default", "ext.vendor.acme.c").subscription).toHaveProperty("buffered");
    listen(null, "default", "ext.vendor.acme.c");
    expect(listen(null, "default", "ext.vendor.acme.c").subscription).toMatchObject({ code: "E.OVERLOADED" });
    expect(listen(null, "other", "ext.vendor.acme.c").subscription).toHaveProperty("buffered");
  });

  it("[A18] vendor frame subscriptions end when the scheduler closes: readers are notified, and no frame is accepted any more", () => {
    const { extensions, send, listen } = openRelay();
    const { isClosed } = listen();

    extensions.close();

    expect([isClosed(), send()]).toEqual([true, false]);
    expect(listen().subscription).toMatchObject({ code: "E.SHUTTING_DOWN" });
  });

  it.each([
    ["ext.vendor.acme.ping", true],
    ["ext.vendor.a", true],
    [`ext.vendor.${"a".repeat(101)}`, true],
    [`ext.vendor.${"a".repeat(102)}`, false],
    ["ext.vendor.astraflow.void", false],
    ["ext.vendor.astraflower", true],
    ["ext.vendor.", false],
    ["ext.vendor.Acme", false],
    ["biz.exec.result", false],
    ["ext.vendor.acme\nevent: x", false],
  ])("[A18] the type %j is a vendor frame type that callers may use: %s", (word, isFor) => {
    expect(isVendorType(word)).toBe(isFor);
  });
});
