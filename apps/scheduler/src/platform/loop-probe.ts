// Measures how long the event loop of its thread is held: a timer that should fire every 20 ms notes how late it was and how much CPU time
// the thread has used since it fired last. The first shows what callers feel, the second what our own code did, on a busy machine too.

import type { LoopTimes } from "@astraflow/doors";
import type { HistogramValues } from "@astraflow/protocol";

export interface LoopProbe {
  times(): LoopTimes;
  stop(): void;
}

/** Upper bounds in ms. They are close together around the 100 ms that nothing may exceed. */
const loopBoundsMs = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 140, 170, 200, 300, 500, 1_000, 2_000, 5_000, 10_000];

/** Long enough to cost nothing: 50 calls a second of some microseconds. */
const probeIntervalMs = 20;

export function startLoopProbe(
  readWallMs: () => number = () => performance.now(),
  readCpuMs: () => number = threadCpuMs,
): LoopProbe {
  const delay = createHistogram();
  const cpu = createHistogram();
  let wallMs = readWallMs();
  let cpuMs = readCpuMs();
  const timer = setInterval(() => {
    const wall = readWallMs();
    const used = readCpuMs();
    delay.observe(Math.max(0, wall - wallMs - probeIntervalMs));
    cpu.observe(used - cpuMs);
    wallMs = wall;
    cpuMs = used;
  }, probeIntervalMs);
  timer.unref();
  return { times: () => ({ delay: delay.values(), cpu: cpu.values() }), stop: () => clearInterval(timer) };
}

/** Without a clock for threads (Node before 23.9), the time in which the loop was not waiting. */
function threadCpuMs(): number {
  if (typeof process.threadCpuUsage !== "function") return performance.eventLoopUtilization().active;
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function createHistogram() {
  const hits = loopBoundsMs.map(() => 0);
  let sum = 0;
  let count = 0;
  return {
    observe(ms: number): void {
      const index = loopBoundsMs.findIndex((bound) => ms <= bound);
      if (index >= 0) hits[index] = (hits[index] ?? 0) + 1;
      sum += ms;
      count += 1;
    },
    values: (): HistogramValues => ({ bounds: loopBoundsMs, hits: [...hits], sum, count }),
  };
}
