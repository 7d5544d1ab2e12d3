// Many afternoons of commands about one worker, each the weather of its seed: three engines on a store they share, and on PostgreSQL.

import type { Store } from "@astraflow/engine";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Afternoon, wrongs } from "./command-weather.ts";
import type { Harness } from "./harness.ts";
import { passThrough, Stage } from "./mended-stage.ts";
import { Town } from "./postgres-town.ts";
import { Dice } from "./weather-dice.ts";

const names = ["r1", "r2", "r3"];
/** Few letters a turn, so that some are heard late. */
const settings = { mailMax: 2, turnsInFlight: 3 };
const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

/** A store that is sometimes slow, so that turns of the engines meet. */
const slowly =
  (dice: Dice) =>
  (store: Store): Store => {
    const pause = (): Promise<void> | undefined => (dice.chance(0.3) ? new Promise((go) => setImmediate(go)) : undefined);
    return passThrough(store, {
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

describe("commands about a worker in random weather", () => {
  it.each(seeds(40))(
    "[E129] each that was taken ends once, whatever becomes of the worker's sessions (seed %i)",
    async (seed) => {
      const dice = new Dice(seed);
      const stage = new Stage({ mode: "weak" });
      const engines: Harness[] = [];
      for (const name of names) engines.push(await stage.boot(name, { settings, wrap: slowly(dice) }));
      const day = new Afternoon(dice, { engines, pass: (seconds) => stage.pass(seconds) });

      await day.live();

      expect(await wrongs(day)).toEqual([]);
      expect(stage.isSpinning).toBe(false);
    },
  );
});

describe("commands about a worker on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it.each(seeds(3))("[E129] end once there too, with several engines and several turns in flight (seed %i)", async (seed) => {
    const town = await Town.found(server, names, settings);
    const day = new Afternoon(new Dice(seed), town);

    await day.live();

    expect(await wrongs(day)).toEqual([]);
    await town.close();
  });
});
