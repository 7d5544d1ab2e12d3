import { expect, it } from "vitest";
import { createScaledClock } from "./scaled-clock.ts";

it("[O7] a scaled clock runs wall and monotonic time faster alike, and starts without a jump", () => {
  let now = 1_000;
  const clock = createScaledClock(20, { wall: () => 1_700_000_000_000 + now, mono: () => now });
  const start = { wall: clock.wall(), mono: clock.mono() };

  now += 50;

  expect(clock.wall() - start.wall).toBe(1_000);
  expect(clock.mono() - start.mono).toBe(1_000);
  expect(start.wall).toBe(1_700_000_001_000);
});

it("[O7] a scaled clock converts durations for workers back to real time", () => {
  expect(createScaledClock(20).toReal(30_000)).toBe(1_500);
  expect(createScaledClock(1).toReal(30_000)).toBe(30_000);
});
