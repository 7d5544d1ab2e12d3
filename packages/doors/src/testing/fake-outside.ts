// An outside that tests hold in their hands: time moves when they say so, names count up, log lines are kept.

import type { LogLine, Outside } from "../outside.ts";

export interface FakeOutside extends Outside {
  readonly lines: LogLine[];
  /** Moves the clock and runs what became due on the way, in order. */
  advance(ms: number): void;
  /** Moves the clock alone, as a process finds it that was asleep: for weeks in which a timer would run a million times. */
  jump(ms: number): void;
}

interface Timer {
  at: number;
  readonly every: number | null;
  readonly run: () => void;
}

export function createFakeOutside(isDebug = false): FakeOutside {
  const timers = new Set<Timer>();
  const lines: LogLine[] = [];
  let ticks = 1_000;
  let names = 0;
  const add = (timer: Timer): (() => void) => {
    timers.add(timer);
    return () => timers.delete(timer);
  };
  return {
    lines,
    isDebug,
    clock: { now: () => 1_760_000_000_000 + ticks, ticks: () => ticks },
    timers: {
      every: (ms, run) => add({ at: ticks + ms, every: ms, run }),
      after: (ms, run) => add({ at: ticks + ms, every: null, run }),
    },
    ids: { next: () => `name-${++names}` },
    log: (line) => void lines.push(line),
    advance(ms) {
      const end = ticks + ms;
      for (;;) {
        const due = [...timers].filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
        if (due === undefined) break;
        ticks = Math.max(ticks, due.at);
        if (due.every === null) timers.delete(due);
        else due.at += due.every;
        due.run();
      }
      ticks = end;
    },
    jump(ms) {
      ticks += ms;
      for (const timer of timers) if (timer.at < ticks) timer.at = ticks;
    },
  };
}
