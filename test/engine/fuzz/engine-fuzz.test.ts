// Bad afternoons, many of them: each seed is one, the same on every machine. A failing seed is named with the promise it broke; live
// it alone to look at it.
import { describe, expect, it } from "vitest";
import { EngineFuzz, type FuzzOptions } from "./engine-fuzz.ts";

const noStoreFaults = { busy: 0, fail: 0, unknown: 0 };
const storeFaultRates = { busy: 0.05, fail: 0.05, unknown: 0.1 };

/** What any sixty afternoons must have brought; fewer, and the seeds have become too mild to mean anything. */
const requiredOccurrences = [
  ...["run.succeeded", "run.failed", "run.cancelled", "task.parked", "task.requeued", "task.rebound", "task.retrying"],
  ...["worker.kicked", "worker.strained", "worker.relieved", "worker.saturated", "worker.unsaturated", "resumed", "rechecked"],
  ...["older outcome", "task.skipped", "task.feedback", "worker.lost", "worker.left", "worker.draining", "worker.liveness"],
  ...["E.SESSION.STALE_BINDING", "E.RESULT.DUPLICATE"],
];
const requiredKills = ["died at turn.begun", "died at turn.decided", "died at turn.committed", "died at turn.spoken"];

async function runSeeds(options: FuzzOptions, first: number, count: number): Promise<{ broken: string[]; seen: string[] }> {
  const broken: string[] = [];
  const seen = new Set<string>();
  for (let seed = first; seed < first + count; seed++) {
    const world = new EngineFuzz(seed, options);
    const problem = await world.run();
    if (problem !== null) broken.push(`seed ${seed}: ${problem}`);
    for (const one of world.occurrences) seen.add(one);
  }
  return { broken, seen: [...seen] };
}

describe("engines under random faults", () => {
  it("[U6] one engine with its own store loses no run and breaks no invariant under random workers and callers", async () => {
    const { broken, seen } = await runSeeds({ mode: "strong", engines: 1, rates: noStoreFaults, crashes: false }, 1, 60);

    expect(broken).toEqual([]);
    expect(seen).toEqual(expect.arrayContaining(requiredOccurrences));
  });

  it("[U7] an engine killed at any point of a turn recovers, also with commits that fail or whose answer is lost", async () => {
    const { broken, seen } = await runSeeds({ mode: "strong", engines: 1, rates: storeFaultRates, crashes: true }, 1_001, 60);

    expect(broken).toEqual([]);
    expect(seen).toEqual(expect.arrayContaining([...requiredOccurrences, ...requiredKills]));
  });

  it("[U8] an engine on a shared store breaks no invariant with busy roots and rows that must be loaded", async () => {
    const { broken, seen } = await runSeeds({ mode: "weak", engines: 1, rates: storeFaultRates, crashes: true }, 2_001, 60);

    expect(broken).toEqual([]);
    expect(seen).toEqual(expect.arrayContaining([...requiredOccurrences, ...requiredKills]));
  });

  it("[U9] two engines on one store break no invariant while workers move between them and either one is killed", async () => {
    const { broken, seen } = await runSeeds({ mode: "weak", engines: 2, rates: storeFaultRates, crashes: true }, 3_001, 60);

    expect(broken).toEqual([]);
    expect(seen).toEqual(expect.arrayContaining([...requiredOccurrences, ...requiredKills]));
  });
});
