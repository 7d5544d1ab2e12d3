import { expect, it } from "vitest";
import { runCrashTest } from "../../../bench/crash-test/crash-test.ts";
import { astraProgram } from "../harness/processes.ts";

it("[O27] a small ledger crash test finds no violation: two schedulers are killed under load, and PostgreSQL is restarted once", async () => {
  const { violations, figures, logs } = await runCrashTest({
    tasks: 400,
    workers: 4,
    schedulers: 2,
    workerShare: 0,
    firstShare: 0,
    killEveryMs: 900,
    restarts: 1,
    killsMin: 2,
    killsMax: 6,
    msMax: 250_000,
    program: astraProgram,
    onProgress: () => undefined,
  });

  expect([...violations, logs]).toEqual([""]);
  expect(figures["restarts of PostgreSQL"]).toBe(1);
  expect(figures["tasks"]).toBeGreaterThanOrEqual(400);
  expect(figures["kills -9"]).toBeGreaterThanOrEqual(2);
}, 300_000);

it("[O61] when one scheduler on SQLite and its workers are killed in turn under load, nothing is lost and nothing counts twice", async () => {
  const { violations, figures, logs } = await runCrashTest({
    tasks: 200,
    workers: 3,
    schedulers: 1,
    workerShare: 0.5,
    firstShare: 0,
    // Longer than a scheduler needs to start, so that every life of it does some work before it is killed.
    killEveryMs: 1_200,
    restarts: 0,
    killsMin: 6,
    killsMax: 12,
    msMax: 250_000,
    program: astraProgram,
    onProgress: () => undefined,
  });

  expect([...violations, logs]).toEqual([""]);
  expect(figures["kills -9"]).toBeGreaterThanOrEqual(6);
  expect(figures["of them workers"]).toBeGreaterThanOrEqual(3);
}, 300_000);
