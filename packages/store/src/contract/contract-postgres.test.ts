import { afterAll, describe, expect, it } from "vitest";
import { describeStoreContract } from "./contract.ts";
import { createMemoryFixture, ManualClock } from "./fixtures/memory-and-sqlite-fixtures.ts";
import { createPostgresFixture } from "./fixtures/postgres-fixture.ts";
import { startPostgres } from "./servers/postgres-server.ts";
import { compareStores } from "./store-comparison.ts";

const server = startPostgres();
afterAll(async () => await (await server).stop());

describeStoreContract("postgres, three schedulers", async () => createPostgresFixture(await server, { searchedRows: 2 }));

describe("twins", () => {
  for (const seed of [1, 2])
    it(`[S51] the PostgreSQL and memory stores give the same answers over a random history (seed ${seed})`, {
      timeout: 60_000,
    }, async () => {
      const clockStartsAt = new ManualClock().wall();
      const fixtures = [
        await createMemoryFixture("strong"),
        await createPostgresFixture(await server, { clockStartsAt }),
      ] as const;

      await expect(compareStores(fixtures, seed, 80)).resolves.toBeUndefined();
    });
});
