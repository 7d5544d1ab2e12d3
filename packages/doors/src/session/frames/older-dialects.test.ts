import { describe, expect, it } from "vitest";
import { RecentIds, RestartDetector, RunSequence } from "./older-dialects.ts";

describe("ids heard lately", () => {
  it("[D27] a recent frame id is remembered until the fixed number of other ids has followed it", () => {
    const ids = new RecentIds();
    ids.add("first");
    for (let n = 1; n < 4_096; n += 1) ids.add(`id-${n}`);
    ids.add("id-1");
    expect(ids.has("first")).toBe(true);

    ids.add("one more");

    expect([ids.has("first"), ids.has("id-1"), ids.has("one more")]).toEqual([false, true, true]);
  });
});

describe("counters in frame ids", () => {
  const handshake = (count: number) => ({ type: "control.handshake", id: `control.handshake-${count}` });

  it("[D27] the restart detector reports a new process when the counter in a frame id is 0 or below the last one seen from that worker", () => {
    const counters = new RestartDetector();

    expect(counters.isRestart("w", handshake(0))).toBe(true);
    counters.recordFrame("w", { type: "biz.exec.result", id: "biz.exec.result-40" });
    counters.recordFrame("w", { type: "biz.exec.feedback", id: "biz.exec.feedback-7" });
    expect(counters.isRestart("w", handshake(41))).toBe(false);
    expect(counters.isRestart("w", handshake(2))).toBe(true);
    expect(counters.isRestart("w", handshake(3))).toBe(false);
    expect(counters.isRestart("other", handshake(3))).toBe(false);
  });

  it("[D27] the restart detector ignores a frame id that is not the frame's type and a counter", () => {
    const counters = new RestartDetector();
    counters.isRestart("w", handshake(9));

    for (const id of [
      "hello",
      "hello-0",
      "control.handshake",
      "control.handshake-",
      "control.handshake-007",
      "w1-control.handshake-0",
    ])
      expect(counters.isRestart("w", { type: "control.handshake", id })).toBe(false);
    expect(counters.isRestart("w", handshake(8))).toBe(true);
  });

  it("[D27] the restart detector remembers the counters of a bounded number of workers, the latest ones", () => {
    const counters = new RestartDetector();
    counters.isRestart("first", handshake(50));
    for (let n = 0; n < 20_000; n += 1) counters.isRestart(`w-${n}`, handshake(50));

    expect(counters.isRestart("first", handshake(49))).toBe(false);
    expect(counters.isRestart("w-19999", handshake(49))).toBe(true);
  });
});

const startedAt = Date.UTC(2026, 0, 1);
/** A run born so many ms after the process started. */
function runAt(afterMs: number, suffix = 0): string {
  const hex = (startedAt + afterMs).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${suffix.toString(16).padStart(12, "0")}`;
}

describe("numbers within a run", () => {
  it("[D37] dispatch numbers count from 1 per run across all its workers, and the worker each number was sent to is known", () => {
    const numbers = new RunSequence(true, startedAt);
    const run = runAt(5);

    expect([
      numbers.assignNumber(run, 40, "a"),
      numbers.assignNumber(run, 41, "b"),
      numbers.assignNumber(runAt(6), 42, "a"),
    ]).toEqual([1, 2, 1]);
    expect([1, 2, 3, 0].map((number) => numbers.isKnownWrong(run, number, "a"))).toEqual([false, true, true, true]);
  });

  it("[D37] dispatch numbers only rise, and none is judged wrong, for runs older than the process and where others share the store", () => {
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

  it("[D37] dispatch numbers are remembered for a bounded number of runs, and a forgotten run does not start from 1 again", () => {
    const numbers = new RunSequence(true, startedAt);
    const first = runAt(1);
    numbers.assignNumber(first, 3, "a");
    for (let n = 0; n < 10_000; n += 1) numbers.assignNumber(runAt(2, n), 3, "a");

    expect(numbers.isKnownWrong(first, 9, "a")).toBe(false);
    expect(numbers.assignNumber(first, 8, "a")).toBe(8);
    expect(numbers.assignNumber(runAt(2, 10_001), 8, "a")).toBe(1);
  });
});
