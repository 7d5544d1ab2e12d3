// Deadlines survive what happens to sessions and processes: an attempt that is bound again, and a task that is taken back, keep the
// time they were given. That they pass at all is in life.test.ts.
import { describe, expect, it } from "vitest";
import { chain } from "./harness.ts";
import { Stage } from "./mended-stage.ts";

describe("deadlines", () => {
  it("[E6] an attempt that its worker reports after coming back keeps the time limit of its grant", async () => {
    const stage = new Stage();
    const world = await stage.boot("r1");
    const worker = await world.join("w");
    const run = await world.run(chain(1, { policy: { timeoutMs: 10_000 } }));
    await world.settle();
    await worker.ack();
    await stage.pass(4);

    const back = await world.join("w", { boot: worker.boot, running: worker.sent });
    for (let second = 0; second < 7; second++) {
      await back.beat(worker.sent);
      await stage.pass(1);
    }

    expect((await world.detail(run)).run).toMatchObject({ phase: "failed", error: expect.stringContaining("E.TIMEOUT") });
  });

  it("[E6] also when the scheduler was restarted in between", async () => {
    const stage = new Stage();
    const first = await stage.boot("r1");
    const worker = await first.join("w");
    const run = await first.run(chain(1, { policy: { timeoutMs: 10_000 } }));
    await first.settle();
    await worker.ack();
    await stage.pass(2);
    await stage.stop(first);

    const second = await stage.boot("r1");
    await second.join("w", { boot: worker.boot, running: worker.sent });
    await stage.pass(9);

    expect((await second.detail(run)).run).toMatchObject({ phase: "failed", error: expect.stringContaining("E.TIMEOUT") });
  });

  it("[E7] a task that was taken back may wait as long in line as one that just became ready, and no longer", async () => {
    const stage = new Stage();
    const world = await stage.boot("r1");
    const worker = await world.join("w");
    const run = await world.run(chain(1, { policy: { queueTimeoutMs: 8_000 } }));
    await world.settle();
    await worker.ack();

    await world.join("w", { boot: "another", pool: "elsewhere", packages: [] });
    await stage.pass(7);
    expect((await world.detail(run)).tasks).toMatchObject([{ phase: "ready" }]);
    await stage.pass(2);

    expect((await world.detail(run)).run).toMatchObject({
      phase: "failed",
      error: expect.stringContaining("E.DISPATCH.UNAVAILABLE"),
    });
  });
});
