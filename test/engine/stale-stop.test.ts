// A word about an attempt that is no longer its sender's is answered, and the attempt is told to stop: whatever stop was sent before may
// have gone to a session that has ended.
import { describe, expect, it } from "vitest";
import { chain, Harness } from "./harness.ts";

describe("a word that comes too late", () => {
  it("[B2] makes its sender stop the attempt it is about, in the session the word came by", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 2 });
    const run = await world.run(chain(1));
    await world.settle();
    const held = worker.last;
    await worker.ack();
    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    const back = await world.join("w", { boot: worker.boot, running: [] });
    const before = world.stops().length;

    await expect(back.error("E.RUNNER.FAILURE", "late", { task: held.task, fence: held.fence - 1 })).rejects.toMatchObject({
      code: "E.SESSION.STALE_BINDING",
    });

    expect(world.stops().slice(before)).toMatchObject([{ session: back.session, task: held.task, fence: held.fence - 1 }]);
  });
});
