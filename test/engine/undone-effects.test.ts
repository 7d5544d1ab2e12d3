// A command that cannot be decided yet leaves nothing behind: no row, no slot, and no word to anybody. Rows are in driver.test.ts.
import type { SendReset } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { chain } from "./harness.ts";
import { hear, Stage } from "./mended-stage.ts";

describe("a command whose root is busy", () => {
  it("[U3] says nothing to any session until it is decided, and then says it once", async () => {
    const stage = new Stage({ mode: "weak" });
    const world = await stage.boot("r1");
    const resets = () => world.effects.filter((effect): effect is SendReset => effect.type === "reset");
    const old = await world.join("w");
    const run = await world.run(chain(1));
    await world.settle();
    await old.ack();
    const others = await stage.hold(run);

    const joining = world.join("w", { boot: old.boot, running: old.sent });
    expect(await hear(joining)).toBe("silence");
    await stage.pass(2);
    expect(resets()).toEqual([]);
    await others.abort();
    await stage.pass(1);

    expect(await hear(joining)).toBe("done");
    expect(resets()).toMatchObject([{ session: old.session, code: "E.SESSION.SUPERSEDED" }]);
  });
});
