import { describe, expect, it } from "vitest";
import { memoryStage, sqliteStage } from "./stages.ts";
import { compareTwins } from "./twin-history.ts";

describe("twins", () => {
  for (const [seed, cacheRows] of [
    [1, 50_000],
    [2, 50_000],
    [3, 0],
    [4, 12],
    [5, 40],
  ] as const)
    it(`[S51] sqlite and memory answer alike over a random history (seed ${seed}, cache of ${cacheRows})`, {
      timeout: 60_000,
    }, async () => {
      const stages = [
        await memoryStage("strong"),
        await sqliteStage({ cacheRows, freshRuns: seed, searchedRows: 2 * seed, tailRows: 3 * seed }),
      ] as const;

      await expect(compareTwins(stages, seed, 120)).resolves.toBeUndefined();
    });
});
