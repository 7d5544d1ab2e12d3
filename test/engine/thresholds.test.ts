// How long a worker may be silent, by tenant and dialect: what it is told, by what it is judged, when it is lost.
import { describe, expect, it } from "vitest";
import { type Crew, chain, Harness } from "./harness.ts";
import { Stage } from "./mended-stage.ts";

const tenants = { t2: { heartbeatMs: 2_000, leaseMs: 6_000 } };
const quiet = { dialect: "v1", running: null, boot: "b" } as const;

async function lostAfter(world: Harness, worker: Crew): Promise<number> {
  for (let passed = 1; passed <= 300; passed++) {
    await world.advance(1_000);
    if ((await world.workerRow(worker.worker)).phase === "lost") return passed;
  }
  return Number.POSITIVE_INFINITY;
}

describe("periods and leases", () => {
  it("[B30] are told at the join as the tenant and the dialect have them", async () => {
    const world = await new Harness({ settings: { tenants } }).start();
    const told = async (changes: Parameters<Harness["join"]>[1]) => {
      await world.join("w", changes);
      return world.joined;
    };

    expect(await told({})).toMatchObject({ heartbeatMs: 10_000, leaseMs: 30_000 });
    expect(await told({ tenant: "t2" })).toMatchObject({ heartbeatMs: 2_000, leaseMs: 6_000 });
    expect(await told({ ...quiet, tenant: "t3" })).toMatchObject({ heartbeatMs: 35_000, leaseMs: 105_000 });
  });

  it("[B30] end a silent worker's lease accordingly, from its last beat", async () => {
    const world = await new Harness({ settings: { tenants } }).start();
    const own = await world.join("w", { tenant: "t2" });
    expect(await lostAfter(world, own)).toBe(6);

    const slow = await world.join("s", { ...quiet });
    for (let passed = 0; passed < 34; passed++) await world.advance(1_000);
    await slow.beat(null);
    expect(await lostAfter(world, slow)).toBe(105);
  });

  it("[B30] say how alive a session looks by its own period", async () => {
    const world = await new Harness({ settings: { tenants } }).start();
    const slow = await world.join("s", { ...quiet });
    const own = await world.join("w", { tenant: "t2" });
    for (let passed = 0; passed < 4; passed++) await world.advance(1_000);

    expect(await world.told(own.worker, "worker.liveness")).toMatchObject([{ to: "warn" }, { to: "degraded" }]);
    for (let passed = 0; passed < 36; passed++) await world.advance(1_000);
    expect(await world.told(slow.worker, "worker.liveness")).toEqual([{ from: "fresh", to: "warn" }]);
  });

  it("[B38] are granted anew, each worker's own, after the scheduler was away", async () => {
    const stage = new Stage();
    const before = await stage.boot("r1");
    const slow = await before.join("s", { ...quiet });
    const run = await before.run(chain(1));
    await stage.pass(1);
    await slow.ack();
    await stage.stop(before);
    stage.skip(300_000);

    const after = await stage.boot("r1");
    await stage.pass(100);
    expect((await after.workerRow(slow.worker)).phase).toBe("online");
    const again = await after.join("s", { ...quiet, boot: null });
    await again.done({}, slow.last);

    expect((await after.detail(run)).tasks).toMatchObject([{ phase: "succeeded", attempt: 1 }]);
  });
});
