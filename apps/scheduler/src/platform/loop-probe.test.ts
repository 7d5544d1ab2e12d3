import { expect, it, vi } from "vitest";
import { startLoopProbe } from "./loop-probe.ts";

it("[O615] the probe of a loop counts how late its timer was and the CPU time in between, each under the next higher bound", () => {
  vi.useFakeTimers();
  try {
    const clock = { wall: 0, cpu: 0 };
    const probe = startLoopProbe(
      () => clock.wall,
      () => clock.cpu,
    );
    const fire = (wall: number, cpu: number) => {
      clock.wall += wall;
      clock.cpu += cpu;
      vi.advanceTimersByTime(20);
    };
    fire(20, 1);
    fire(165, 30);
    fire(20, 12_000);
    probe.stop();
    fire(20, 500);

    const { delay, cpu } = probe.times();
    const hits = ({ bounds, hits: counts }: typeof delay) =>
      Object.fromEntries(bounds.flatMap((bound, at) => (counts[at] === 0 ? [] : [[bound, counts[at]]])));
    expect(hits(delay)).toEqual({ 5: 2, 170: 1 });
    expect(hits(cpu)).toEqual({ 5: 1, 30: 1 });
    expect([delay.count, delay.sum, cpu.count, cpu.sum]).toEqual([3, 145, 3, 12_031]);
  } finally {
    vi.useRealTimers();
  }
});
