// Priority holds between lines too: tasks of two kinds stand in two lines, and one worker serves both. Order within one line is in placement.test.ts.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

describe("lines that one worker serves", () => {
  it("[P4] the task with the lower priority number is granted first, whichever queue it is in and whichever became ready first", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const first = await harness.startRun(buildChain(1));
    await harness.settle();
    const patient = await harness.startRun(buildChain(1, { type: "test.step" }), { priority: 9 });
    const middling = await harness.startRun(buildChain(1, { type: "test.other" }), { priority: 6 });
    const urgent = await harness.startRun(buildChain(1, { type: "test.third" }), { priority: 1 });
    await harness.settle();

    for (let served = 0; served < 3; served++) {
      await worker.succeed();
      await harness.settle();
    }

    expect(worker.dispatchesSent.map((dispatch) => dispatch.run)).toEqual([first, urgent, middling, patient]);
  });
});
