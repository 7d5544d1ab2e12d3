// Priority holds between lines too: tasks of two kinds stand in two lines, and one worker serves both. Order within one line is in place.test.ts.
import { describe, expect, it } from "vitest";
import { chain, Harness } from "./harness.ts";

describe("lines that one worker serves", () => {
  it("[P4] the lower priority number goes first, whichever line it stands in and whichever became ready first", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w");
    const first = await world.run(chain(1));
    await world.settle();
    const patient = await world.run(chain(1, { type: "test.step" }), { priority: 9 });
    const middling = await world.run(chain(1, { type: "test.other" }), { priority: 6 });
    const urgent = await world.run(chain(1, { type: "test.third" }), { priority: 1 });
    await world.settle();

    for (let served = 0; served < 3; served++) {
      await worker.done();
      await world.settle();
    }

    expect(worker.sent.map((dispatch) => dispatch.run)).toEqual([first, urgent, middling, patient]);
  });
});
