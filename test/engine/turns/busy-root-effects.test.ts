// A command that cannot be decided yet leaves nothing behind: no row, no slot, and no effect. Rows are in driver.test.ts.
import type { SendReset } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster, outcomeOf } from "../harness/engine-cluster.ts";
import { buildChain } from "../harness/engine-harness.ts";

describe("a command whose root is busy", () => {
  it("[U3] a command delayed by a busy root sends its effects once, after it is decided", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const harness = await cluster.startEngine("r1");
    const resets = () => harness.effects.filter((effect): effect is SendReset => effect.type === "reset");
    const old = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    await old.ack();
    const others = await cluster.holdRun(run);

    const joining = harness.joinWorker("w", { boot: old.boot, running: old.dispatchesSent });
    expect(await outcomeOf(joining)).toBe("silence");
    await cluster.passSeconds(2);
    expect(resets()).toEqual([]);
    await others.abort();
    await cluster.passSeconds(1);

    expect(await outcomeOf(joining)).toBe("done");
    expect(resets()).toMatchObject([{ session: old.session, code: "E.SESSION.SUPERSEDED" }]);
  });
});
