import { describe, expect, it } from "vitest";
import { RunSequence } from "./run-sequence.ts";

const startedAt = Date.UTC(2026, 0, 1);
/** A run born so many ms after the process started. */
function runAt(afterMs: number, suffix = 0): string {
  const hex = (startedAt + afterMs).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${suffix.toString(16).padStart(12, "0")}`;
}

describe("numbers within a run", () => {
  it("[D37] count from 1 per run, over all its workers, and know which of them each number went to", () => {
    const numbers = new RunSequence(true, startedAt);
    const run = runAt(5);

    expect([
      numbers.assignNumber(run, 40, "a"),
      numbers.assignNumber(run, 41, "b"),
      numbers.assignNumber(runAt(6), 42, "a"),
    ]).toEqual([1, 2, 1]);
    expect([1, 2, 3, 0].map((number) => numbers.isKnownWrong(run, number, "a"))).toEqual([false, true, true, true]);
  });

  it("[D37] only rise, and are never called false, for runs that others may have counted: older ones, or where others share the store", () => {
    for (const [numbers, run] of [
      [new RunSequence(true, startedAt), runAt(-5)],
      [new RunSequence(true, startedAt), "no-uuid"],
      [new RunSequence(false, startedAt), runAt(5)],
    ] as const) {
      expect([
        numbers.assignNumber(run, 40, "a"),
        numbers.assignNumber(run, 12, "a"),
        numbers.assignNumber(run, 90, "a"),
      ]).toEqual([40, 41, 90]);
      expect(numbers.isKnownWrong(run, 7, "a")).toBe(false);
    }
  });

  it("[D37] are kept for so many runs; those forgotten are not counted from 1 again", () => {
    const numbers = new RunSequence(true, startedAt);
    const first = runAt(1);
    numbers.assignNumber(first, 3, "a");
    for (let n = 0; n < 10_000; n += 1) numbers.assignNumber(runAt(2, n), 3, "a");

    expect(numbers.isKnownWrong(first, 9, "a")).toBe(false);
    expect(numbers.assignNumber(first, 8, "a")).toBe(8);
    expect(numbers.assignNumber(runAt(2, 10_001), 8, "a")).toBe(1);
  });
});
