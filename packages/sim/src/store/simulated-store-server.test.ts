import { describe, expect, it } from "vitest";
import { Timeline } from "../kernel/timeline.ts";
import { TurnLoopDetector } from "./simulated-store-server.ts";

function runTurns(turnMs: number, turns: number): string[] {
  const timeline = new Timeline();
  const found: string[] = [];
  const spin = new TurnLoopDetector(timeline, (replica, message) => void found.push(`${replica}: ${message}`));
  for (let n = 0; n < turns; n++) {
    timeline.after(turnMs, () => spin.recordTurn("s1"));
    timeline.runNextEvent();
  }
  return found;
}

describe("the watch for spinning engines", () => {
  it("[X14] the turn loop detector reports an engine that takes turn after turn while hardly any time passes", () => {
    expect(runTurns(0.1, 20_000)).toEqual([expect.stringMatching(/^s1: 2500 turns in \d+ ms$/), expect.anything()]);
    expect(runTurns(0, 3_000)).toEqual(["s1: 2500 turns in 0 ms"]);
  });

  it("[X14] the turn loop detector does not report an engine that is merely busy", () => {
    expect(runTurns(1, 20_000)).toEqual([]);
  });
});
