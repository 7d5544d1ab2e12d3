// An environment that tests control: the test moves the clock, ids count up, log lines are stored.

import type { LogRecord, ServiceEnvironment } from "../environment/service-environment.ts";

export interface FakeEnvironment extends ServiceEnvironment {
  readonly isDebug: boolean;
  readonly logRecords: LogRecord[];
  /** Moves the clock and runs the timers that became due, in order. */
  advance(ms: number): void;
  /** Moves the clock without running timers, as after a suspend: for weeks in which a timer would run a million times. */
  jumpClock(ms: number): void;
}

interface Timer {
  at: number;
  readonly every: number | null;
  readonly run: () => void;
}

export function createFakeEnvironment(isDebug = false): FakeEnvironment {
  const timers = new Set<Timer>();
  const lines: LogRecord[] = [];
  let monotonicMs = 1_000;
  let names = 0;
  const add = (timer: Timer): (() => void) => {
    timers.add(timer);
    return () => timers.delete(timer);
  };
  return {
    logRecords: lines,
    isDebug,
    clock: { now: () => 1_760_000_000_000 + monotonicMs, monotonic: () => monotonicMs },
    timers: {
      every: (ms, run) => add({ at: monotonicMs + ms, every: ms, run }),
      after: (ms, run) => add({ at: monotonicMs + ms, every: null, run }),
    },
    ids: { next: () => `name-${++names}` },
    log: (line) => void lines.push(line),
    advance(ms) {
      const end = monotonicMs + ms;
      for (;;) {
        const due = [...timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
        if (due === undefined) break;
        monotonicMs = Math.max(monotonicMs, due.at);
        if (due.every === null) timers.delete(due);
        else due.at += due.every;
        due.run();
      }
      monotonicMs = end;
    },
    jumpClock(ms) {
      monotonicMs += ms;
      for (const timer of timers) if (timer.at < monotonicMs) timer.at = monotonicMs;
    },
  };
}
