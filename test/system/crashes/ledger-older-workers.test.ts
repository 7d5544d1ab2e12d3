import { expect, it } from "vitest";
import { runCrashTest } from "../../../bench/crash-test/crash-test.ts";
import { astraProgram } from "../harness/processes.ts";

it("[O68] when current and first-generation workers and their scheduler are killed in turn under load, nothing is lost, counted twice or dropped", async () => {
  const { violations, figures, logs } = await runCrashTest({
    tasks: 200,
    workers: 4,
    schedulers: 1,
    workerShare: 0.5,
    firstShare: 0.5,
    // Results that such a worker lost are asked for 2 s after it came back; a scheduler that never lives that long cannot.
    killEveryMs: 4_000,
    restarts: 0,
    killsMin: 3,
    msMax: 150_000,
    program: astraProgram,
    onProgress: () => undefined,
  });

  expect([...violations, logs]).toEqual([""]);
  expect(figures["kills -9"]).toBeGreaterThanOrEqual(3);
  expect(figures["workers of the first generation"]).toBe(2);
}, 170_000);
