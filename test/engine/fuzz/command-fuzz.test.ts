// Random commands about one worker with the faults of each seed: three engines on a store they share, and on PostgreSQL.

import type { Store } from "@astraflow/engine";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import type { EngineHarness } from "../harness/engine-harness.ts";
import { FuzzRandom } from "../harness/fuzz-random.ts";
import { overrideStore } from "../harness/override-store.ts";
import { PostgresEngineCluster } from "../harness/postgres-engine-cluster.ts";
import { CommandFuzz, findCommandProblems } from "./command-fuzz.ts";

const names = ["r1", "r2", "r3"];
/** Few messages per turn, so that some are processed late. */
const settings = { mailMax: 2, turnsInFlight: 3 };
const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

/** A store that is sometimes slow, so that turns of the engines meet. */
const withDelays =
  (random: FuzzRandom) =>
  (store: Store): Store => {
    const pause = (): Promise<void> | undefined => (random.chance(0.3) ? new Promise((go) => setImmediate(go)) : undefined);
    return overrideStore(store, {
      begin: async (want) => {
        await pause();
        const tx = await store.begin(want);
        const commit = tx.commit.bind(tx);
        tx.commit = async (turn, units) => {
          await pause();
          return await commit(turn, units);
        };
        return tx;
      },
    });
  };

describe("commands about a worker under random faults", () => {
  it.each(seeds(40))(
    "[E129] every accepted worker command ends once, whatever happens to the worker's sessions (seed %i)",
    async (seed) => {
      const random = new FuzzRandom(seed);
      const cluster = new EngineCluster({ mode: "weak" });
      const engines: EngineHarness[] = [];
      for (const name of names) engines.push(await cluster.startEngine(name, { settings, wrap: withDelays(random) }));
      const fuzz = new CommandFuzz(random, { engines, passSeconds: (seconds) => cluster.passSeconds(seconds) });

      await fuzz.run();

      expect(await findCommandProblems(fuzz)).toEqual([]);
      expect(cluster.isSpinning).toBe(false);
    },
  );
});

describe("commands about a worker on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it.each(seeds(3))(
    "[E129] every accepted worker command ends once on PostgreSQL, with several engines and turns in flight (seed %i)",
    async (seed) => {
      const cluster = await PostgresEngineCluster.create(server, names, settings);
      const fuzz = new CommandFuzz(new FuzzRandom(seed), cluster);

      await fuzz.run();

      expect(await findCommandProblems(fuzz)).toEqual([]);
      await cluster.close();
    },
  );
});
