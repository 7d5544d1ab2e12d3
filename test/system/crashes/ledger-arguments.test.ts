import { expect, it } from "vitest";
import { crashTestHelp, readCrashTestFlags } from "../../../bench/crash-test/flags.ts";

it("[O27] the ledger crash test takes numbers as flags, requires none of them, and has a help text", () => {
  const usual = {
    tasks: 10_000,
    workers: 8,
    schedulers: 2,
    kills: 2,
    workerShare: 0,
    firstShare: 0,
    killEverySeconds: 3,
    restarts: 2,
    secondsMax: 600,
    attacks: 1,
  };

  expect(readCrashTestFlags([])).toEqual(usual);
  expect(readCrashTestFlags(["--tasks", "40", "--kill-every", "0.5", "--restarts", "0"])).toEqual({
    ...usual,
    tasks: 40,
    killEverySeconds: 0.5,
    restarts: 0,
  });
  expect(readCrashTestFlags(["--schedulers", "1", "--worker-share", "0.5"])).toEqual({
    ...usual,
    schedulers: 1,
    workerShare: 0.5,
    restarts: 0,
  });
  expect(readCrashTestFlags(["--tasks", "40", "--help"])).toBe("help");
  expect(crashTestHelp).toContain("--tasks N");
});

it("[O27] the ledger crash test names an unknown flag and a value that is not a valid number", () => {
  expect(readCrashTestFlags(["--tasks", "abc"])).toEqual({ problem: '--tasks takes a whole number of at least 1, not "abc"' });
  expect(readCrashTestFlags(["--workers", "1.5"])).toMatchObject({ problem: expect.stringContaining("--workers") });
  expect(readCrashTestFlags(["--workers"])).toMatchObject({ problem: expect.stringContaining("--workers") });
  expect(readCrashTestFlags(["--task", "1"])).toMatchObject({ problem: expect.stringContaining("unknown flag --task") });
  expect(readCrashTestFlags(["--schedulers", "1", "--restarts", "1"])).toMatchObject({
    problem: expect.stringContaining("--restarts is about PostgreSQL"),
  });
  expect(readCrashTestFlags(["toString", "1"])).toMatchObject({ problem: expect.stringContaining("unknown flag toString") });
});
