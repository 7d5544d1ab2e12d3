import { describe, expect, it } from "vitest";
import { createMemoryFixture, createSqliteFixture } from "./fixtures/memory-and-sqlite-fixtures.ts";
import { compareStores } from "./store-comparison.ts";

describe("twins", () => {
  for (const [seed, cacheRows] of [
    [1, 50_000],
    [2, 50_000],
    [3, 0],
    [4, 12],
    [5, 40],
  ] as const)
    it(`[S51] the SQLite and memory stores give the same answers over a random history (seed ${seed}, cache of ${cacheRows})`, {
      timeout: 60_000,
    }, async () => {
      const fixtures = [
        await createMemoryFixture("strong"),
        await createSqliteFixture({ cacheRows, unindexedRunsMax: seed, searchedRows: 2 * seed, unindexedLogRowsMax: 3 * seed }),
      ] as const;

      await expect(compareStores(fixtures, seed, 120)).resolves.toBeUndefined();
    });
});
