import { describe, expect, it } from "vitest";
import { ManualClock } from "../contract/fixtures/memory-and-sqlite-fixtures.ts";
import { slewedClock } from "./slewed-clock.ts";

describe("store clock", () => {
  it("[S17] the store clock starts at the wall clock's time, or at the stored time if that is later", () => {
    const source = new ManualClock();

    expect(slewedClock(source, 0).now()).toBe(source.wall());
    expect(slewedClock(source, source.wall() + 5_000).now()).toBe(source.wall() + 5_000);
  });

  it("[S17] the store clock follows a jump of the wall clock by at most 1 ms in 20, forward and backward, until it has caught up", () => {
    const source = new ManualClock();
    const clock = slewedClock(source, 0);
    const start = clock.now();

    source.jumpWallClock(100);
    source.advance(1_000);
    expect(clock.now() - start).toBe(1_050);
    source.advance(1_000);
    expect(clock.now()).toBe(source.wall());
    source.jumpWallClock(-3_600_000);
    source.advance(2_000);
    expect(clock.now() - start).toBe(2_100 + 1_900);
  });

  it("[S17] the store clock stands still while the monotonic clock does, and does not go back when the monotonic clock does", () => {
    let mono = 1_000;
    const clock = slewedClock({ wall: () => 50_000, mono: () => mono }, 0);
    const start = clock.now();

    expect(clock.now()).toBe(start);
    mono = 500;
    expect(clock.now()).toBe(start);
    mono = 1_010;
    expect(clock.now()).toBeGreaterThanOrEqual(start);
  });
});
