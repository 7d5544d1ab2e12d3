import { describe, expect, it } from "vitest";
import { drainMicrotasks, Timeline } from "./timeline.ts";

describe("true time", () => {
  it("[X2] the timeline runs events in order of time, and within one instant in the order they were scheduled", () => {
    const timeline = new Timeline();
    const seen: string[] = [];
    const record = (word: string) => () => void seen.push(`${word} at ${timeline.now}`);
    timeline.after(5, record("late"));
    timeline.after(1, record("first"));
    timeline.after(1, record("second"));
    const takeBack = timeline.after(2, record("never"));
    timeline.after(1, () => timeline.after(0, record("third")));

    takeBack();
    while (timeline.runNextEvent()) continue;

    expect(seen).toEqual(["first at 1", "second at 1", "third at 1", "late at 5"]);
    expect(timeline.eventCount).toBe(5);
  });

  it("[X2] the timeline runs a thousand shuffled events in order", () => {
    const timeline = new Timeline();
    const seen: number[] = [];
    for (let n = 0; n < 1_000; n++) {
      const at = (n * 7_919) % 1_000;
      timeline.after(at, () => void seen.push(at));
    }

    while (timeline.runNextEvent()) continue;

    expect(seen).toEqual([...seen].sort((a, b) => a - b));
  });

  it("[X2] drainMicrotasks waits until every promise that can settle has settled, however long the chain", async () => {
    let links = 0;
    const chain = async (): Promise<void> => {
      for (; links < 500; links++) await new Promise<void>((resolve) => queueMicrotask(resolve));
    };
    void chain();

    await drainMicrotasks();

    expect(links).toBe(500);
  });
});
