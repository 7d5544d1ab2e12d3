// How long a task pauses before its next attempt. That it is tried again at all, and how often, is in run-lifecycle.test.ts.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

/** The pauses between the failures of one task, by the engine's next wake-up time and by the log. */
async function retryPauses(retry: Record<string, number>): Promise<number[]> {
  const harness = await new EngineHarness({ settings: { idleMs: 3_600_000, leaseMs: 7_200_000 } }).start();
  const worker = await harness.joinWorker("w");
  await harness.startRun(buildChain(1, { policy: { retry } }));
  await harness.settle();
  for (let attempt = 1; attempt < (retry["maxAttempts"] ?? 1); attempt++) {
    await worker.error("E.RUNNER.FAILURE");
    await harness.advance(600_000);
  }
  const page = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000 });
  return page.items.filter((item) => item.type === "task.retrying").map((item) => Number(item.data["delayMs"]));
}

describe("the pause before a retry", () => {
  it("[E5] the retry backoff grows by its factor with every failure, up to its limit", async () => {
    expect(await retryPauses({ maxAttempts: 5, backoffMs: 1_000, factor: 3, backoffMsMax: 10_000 })).toEqual([
      1_000, 3_000, 9_000, 10_000,
    ]);
  });

  it("[E5] a retry has no backoff if the policy sets it to zero", async () => {
    expect(await retryPauses({ maxAttempts: 3, backoffMs: 0 })).toEqual([0, 0]);
  });
});
