import { describe, expect, it } from "vitest";
import { RestartDetector } from "./restart-detector.ts";

describe("counters in frame ids", () => {
  it("[D27] show a new process at 0, and below what was heard of the worker before", () => {
    const counters = new RestartDetector();

    expect(counters.isRestart("w", "control.handshake-0")).toBe(true);
    counters.recordFrame("w", "biz.exec.result-40");
    counters.recordFrame("w", "biz.exec.feedback-7");
    expect(counters.isRestart("w", "control.handshake-41")).toBe(false);
    expect(counters.isRestart("w", "control.handshake-2")).toBe(true);
    expect(counters.isRestart("w", "control.handshake-3")).toBe(false);
    expect(counters.isRestart("other", "control.handshake-3")).toBe(false);
  });

  it("[D27] say nothing where an id holds none", () => {
    const counters = new RestartDetector();
    counters.isRestart("w", "control.handshake-9");

    for (const id of ["hello", "hello-", "hello-007", "a-b0", "0"]) expect(counters.isRestart("w", id)).toBe(false);
    expect(counters.isRestart("w", "control.handshake-8")).toBe(true);
  });

  it("[D27] are kept for so many workers, the latest of them", () => {
    const counters = new RestartDetector();
    counters.isRestart("first", "h-50");
    for (let n = 0; n < 20_000; n += 1) counters.isRestart(`w-${n}`, "h-50");

    expect(counters.isRestart("first", "h-49")).toBe(false);
    expect(counters.isRestart("w-19999", "h-49")).toBe(true);
  });
});
