import { describe, expect, it } from "vitest";
import { PlainKeeping, type Rig, readyRig } from "../test/link-rig.ts";
import { lostWith } from "./removed-resources.ts";

const items = (rig: Rig) =>
  rig
    .frames("biz.resource.removed")
    .map(({ payload }) => (payload["items"] as { resource_id: string }[]).map((one) => one.resource_id));

describe("resources that are gone", () => {
  it("[W182] are told in one frame a tick, under a number, again in a new session until it is acked", () => {
    const rig = readyRig();
    rig.link.removed("a", "evicted");
    rig.link.removed("b", "expired");
    rig.flush();
    expect(rig.payload("biz.resource.removed").items).toEqual([
      { resource_id: "a", reason: "evicted" },
      { resource_id: "b", reason: "expired" },
    ]);
    expect(rig.last("biz.resource.removed").seq).toBe(0);

    rig.say("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
    rig.advance(60_000);
    rig.connect();
    expect(items(rig)).toEqual([
      ["a", "b"],
      ["a", "b"],
    ]);
    rig.ackWords(0);

    expect(rig.link.view.unacked).toBe(0);
  });

  it("[W182] are told behind the results that may name them, also where those wait for the disk, and before any later one", () => {
    const keeping = new PlainKeeping();
    const rig = readyRig({ keeping });
    for (const task of ["a", "b"]) rig.dispatch(task);
    rig.finish("a");
    rig.link.removed("made by a", "evicted");
    rig.finish("b");
    rig.flush();
    expect(rig.work()).toEqual([]);

    keeping.sync();
    rig.flush();

    const order = rig.work().map(({ type, corr }) => corr ?? type);
    expect(order).toEqual(["a", "biz.resource.removed", "b"]);
  });

  it("[W182] leave at most 64 to a frame, and no more than 4,096 are remembered while there is no session", () => {
    const rig = readyRig();
    rig.link.lost("gone");
    for (let count = 0; count < 4_100; count++) rig.link.removed(`r${count}`, "released");

    rig.advance(0);
    rig.connect();
    rig.ackWords(63);

    expect(items(rig).flat()).toHaveLength(4_096);
    expect(items(rig)[0]).toHaveLength(64);
    expect(items(rig)[0]?.[0]).toBe("r4");
  });

  it("[W182] are known by what a register does not name; one that keeps more than it can say says nothing", () => {
    const rig = readyRig();
    rig.resources.push("a", "b");
    const renew = () => {
      rig.say("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
      rig.advance(60_000);
      rig.connect();
    };
    renew();
    expect(rig.payload("control.register").resources).toEqual(["a", "b"]);

    rig.resources.push("x".repeat(1_000).repeat(300));
    renew();

    expect(rig.payload("control.register").resources).toBeUndefined();
    expect(rig.payload("control.register").capabilities.features).toContain("resources");
  });

  it("[W182] are also those that outcomes on disk name and that went with the process that made them", () => {
    const artifact = (resource_id: string, inline = false) => ({ resource_id, worker_name: "box", type: "model", inline });
    const payload = JSON.stringify({ artifacts: [artifact("memory"), artifact("file"), artifact("small", true)] });

    expect(lostWith([{ payload }, { payload: "{}" }], new Set(["file"]))).toEqual(["memory"]);
  });
});
