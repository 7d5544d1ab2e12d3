// How long a task pauses before its next attempt. That it is tried again at all, and how often, is in run-lifecycle.test.ts.
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "../harness/engine-harness.ts";

/** The pauses between the failures of one task, by the engine's next wake-up time and by the log. */
async function retryPauses(retry: Record<string, number>, random: () => number = () => 0.5): Promise<number[]> {
  const harness = await new EngineHarness({ settings: { idleMs: 3_600_000, leaseMs: 7_200_000 }, random }).start();
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

  it.each([
    ["the lowest random number makes every pause a fifth shorter, also at the limit", 0, [800, 2_400, 7_200, 8_000, 8_000]],
    ["the highest makes it a fifth longer, also beyond the limit", 1 - Number.EPSILON, [1_200, 3_600, 10_800, 12_000, 12_000]],
    ["one between lies between", 0.25, [900, 2_700, 8_100, 9_000, 9_000]],
  ])("[E5] a retry pause has a fifth of jitter: %s", async (_, random, expected) => {
    const retry = { maxAttempts: 6, backoffMs: 1_000, factor: 3, backoffMsMax: 10_000 };

    expect(await retryPauses(retry, () => random)).toEqual(expected);
  });

  it("[E5] a task that is retried without a pause waits no longer in its queue than its node allows", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const policy = { retry: { maxAttempts: 2, backoffMs: 0 }, queueTimeoutMs: 20_000 };
    const run = await harness.startRun(buildChain(1, { policy }));
    await harness.settle();
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "me", worker: worker.worker, on: true });

    await worker.error("E.RUNNER.FAILURE");
    for (let second = 0; second < 21; second++) {
      await harness.advance(1_000);
      await worker.heartbeat([]);
    }

    const { run: row } = await harness.runDetail(run);
    expect(JSON.parse(row.error ?? "{}")).toMatchObject({ code: "E.DISPATCH.UNAVAILABLE" });
  });
});
