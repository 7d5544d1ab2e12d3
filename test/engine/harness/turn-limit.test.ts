import { MemoryCluster } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness } from "./engine-harness.ts";
import { overrideStore } from "./override-store.ts";
import { turnsMax } from "./turn-limit.ts";

/** An engine that can be made restless: every turn then wakes it for the next one, as a decision that is never done would. */
async function startEngine() {
  const clock = { wall: () => 1_800_000_000_000, mono: () => 0 };
  const handle = new MemoryCluster({ mode: "strong", random: { random: () => 0.5 }, clock }).createHandle();
  let onTurn = (): void => undefined;
  const store = overrideStore(handle, {
    begin: (want) => {
      onTurn();
      return handle.begin(want);
    },
  });
  const harness = await new EngineHarness({ store }).start();
  const makeRestless = (): void => {
    onTurn = () => harness.engine.wake();
  };
  return { harness, makeRestless };
}

describe("an engine that never pauses", () => {
  it("[H700] a step of an engine test whose engine takes turns without end fails with the number of turns instead of hanging", async () => {
    const { harness, makeRestless } = await startEngine();
    makeRestless();

    await expect(harness.settle()).rejects.toThrow(`the engine took ${turnsMax} turns in a row without a pause`);
  });

  it("[H700] the turns of an engine test are counted anew with every step", async () => {
    const { harness } = await startEngine();
    const run = await harness.startRun(buildChain(1));

    for (let step = 0; step < turnsMax + 1; step += 1) await harness.settle();

    expect((await harness.runDetail(run)).run.phase).toBe("queued");
  });
});
