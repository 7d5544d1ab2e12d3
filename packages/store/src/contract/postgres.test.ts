import { afterAll, describe, expect, it } from "vitest";
import { startPostgres } from "./postgres-server.ts";
import { postgresStage } from "./postgres-stage.ts";
import { HandClock, memoryStage } from "./stages.ts";
import { storeContract } from "./suite.ts";
import { compareTwins } from "./twin-history.ts";

const server = startPostgres();
afterAll(async () => await (await server).stop());

storeContract("postgres, three schedulers", async () => postgresStage(await server, { searchedRows: 2 }));

describe("twins", () => {
  for (const seed of [1, 2])
    it(`[S51] PostgreSQL and memory answer alike over a random history (seed ${seed})`, { timeout: 60_000 }, async () => {
      const bornAt = new HandClock().wall();
      const stages = [await memoryStage("strong"), await postgresStage(await server, { bornAt })] as const;

      await expect(compareTwins(stages, seed, 80)).resolves.toBeUndefined();
    });
});
