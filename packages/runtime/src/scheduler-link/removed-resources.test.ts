import { describe, expect, it } from "vitest";
import { InMemoryDurableOutbox, type LinkHarness, readyLinkHarness } from "../../test/link-harness.ts";
import { findLostResources } from "./removed-resources.ts";

const items = (harness: LinkHarness) =>
  harness
    .frames("biz.resource.removed")
    .map(({ payload }) => (payload["items"] as { resource_id: string }[]).map((one) => one.resource_id));

describe("resources that are gone", () => {
  it("[W182] a worker reports removed resources in one numbered frame per tick, and again in a new session until it is acked", () => {
    const harness = readyLinkHarness();
    harness.link.resourceRemoved("a", "evicted");
    harness.link.resourceRemoved("b", "expired");
    harness.flush();
    expect(harness.payload("biz.resource.removed").items).toEqual([
      { resource_id: "a", reason: "evicted" },
      { resource_id: "b", reason: "expired" },
    ]);
    expect(harness.lastFrame("biz.resource.removed").seq).toBe(0);

    harness.sendToLink("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
    harness.advance(60_000);
    harness.openSession();
    expect(items(harness)).toEqual([
      ["a", "b"],
      ["a", "b"],
    ]);
    harness.ackUpTo(0);

    expect(harness.link.status.unacked).toBe(0);
  });

  it("[W182] a worker reports removed resources after the results that may name them, even if those wait for the disk, and before later ones", () => {
    const keeping = new InMemoryDurableOutbox();
    const harness = readyLinkHarness({ durableOutbox: keeping });
    for (const task of ["a", "b"]) harness.dispatch(task);
    harness.finish("a");
    harness.link.resourceRemoved("made by a", "evicted");
    harness.finish("b");
    harness.flush();
    expect(harness.workFrames()).toEqual([]);

    keeping.sync();
    harness.flush();

    const order = harness.workFrames().map(({ type, corr }) => corr ?? type);
    expect(order).toEqual(["a", "biz.resource.removed", "b"]);
  });

  it("[W182] a worker reports at most 64 removed resources per frame, and remembers no more than 4,096 while there is no session", () => {
    const harness = readyLinkHarness();
    harness.link.connectionLost("gone");
    for (let count = 0; count < 4_100; count++) harness.link.resourceRemoved(`r${count}`, "released");

    harness.advance(0);
    harness.openSession();
    harness.ackUpTo(63);

    expect(items(harness).flat()).toHaveLength(4_096);
    expect(items(harness)[0]).toHaveLength(64);
    expect(items(harness)[0]?.[0]).toBe("r4");
  });

  it("[W182] a register lists the resources that the worker keeps, and leaves the list out where it is too large", () => {
    const harness = readyLinkHarness();
    harness.resources.push("a", "b");
    const renew = () => {
      harness.sendToLink("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
      harness.advance(60_000);
      harness.openSession();
    };
    renew();
    expect(harness.payload("control.register").resources).toEqual(["a", "b"]);

    harness.resources.push("x".repeat(1_000).repeat(300));
    renew();

    expect(harness.payload("control.register").resources).toBeUndefined();
    expect(harness.payload("control.register").capabilities.features).toContain("resources");
  });

  it("[W182] resources that outcomes on disk name and that only the ended process held in memory count as lost", () => {
    const artifact = (resource_id: string, inline = false) => ({ resource_id, worker_name: "box", type: "model", inline });
    const payload = JSON.stringify({ artifacts: [artifact("memory"), artifact("file"), artifact("small", true)] });

    expect(findLostResources([{ payload }, { payload: "{}" }], new Set(["file"]))).toEqual(["memory"]);
  });
});
