import { expect, it } from "vitest";
import { keepLedger } from "../../bench/ledger.ts";

it("[O27] a small ledger is right to the last task: two schedulers killed under load, PostgreSQL restarted once", async () => {
  const { violations, figures, logs } = await keepLedger({
    tasks: 400,
    workers: 4,
    killEveryMs: 500,
    restarts: 1,
    killsMin: 2,
    msMax: 100_000,
    note: () => undefined,
  });

  expect([...violations, logs]).toEqual([""]);
  expect(figures).toMatchObject({ runs: 40, tasks: 400, "restarts of PostgreSQL": 1 });
  expect(figures["kills -9"]).toBeGreaterThanOrEqual(2);
}, 120_000);
