import { describe, expect, it } from "vitest";
import { SpinWatch } from "./spin-watch.ts";
import { Timeline } from "./timeline.ts";

function watch(turnMs: number, turns: number): string[] {
  const timeline = new Timeline();
  const found: string[] = [];
  const spin = new SpinWatch(timeline, (replica, message) => void found.push(`${replica}: ${message}`));
  for (let n = 0; n < turns; n++) {
    timeline.after(turnMs, () => spin.turn("s1"));
    timeline.step();
  }
  return found;
}

describe("the watch for spinning engines", () => {
  it("[X14] finds one that takes turn after turn while hardly any time passes", () => {
    expect(watch(0.1, 20_000)).toEqual([expect.stringMatching(/^s1: 2500 turns in \d+ ms$/), expect.anything()]);
    expect(watch(0, 3_000)).toEqual(["s1: 2500 turns in 0 ms"]);
  });

  it("[X14] leaves a busy one alone", () => {
    expect(watch(1, 20_000)).toEqual([]);
  });
});
