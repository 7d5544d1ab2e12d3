import { describe, expect, it } from "vitest";
import { MachineClock, worldStartWallMs } from "./machine-clock.ts";
import { ProcessEventLoop } from "./process-event-loop.ts";
import { Timeline } from "./timeline.ts";

function startProcess(driftPpm = 0) {
  const timeline = new Timeline();
  const clock = new MachineClock(timeline, { monoStart: 1_000, wallOffset: 0, driftPpm });
  const problems: unknown[] = [];
  const eventLoop = new ProcessEventLoop("p", timeline, clock, (problem) => problems.push(problem));
  const seen: string[] = [];
  const record = (word: string) => () => void seen.push(word);
  const passUntil = (at: number): void => {
    let isOver = false;
    timeline.after(at - timeline.now, () => {
      isOver = true;
    });
    while (!isOver) timeline.runNextEvent();
  };
  return { timeline, clock, life: eventLoop, seen, record, problems, passUntil };
}

describe("a process", () => {
  it("[X3] a simulated process handles events at once while it runs, on resume while it is paused, and never once it has ended", () => {
    const { life: eventLoop, seen, record, passUntil } = startProcess();
    eventLoop.deliver(record("at once"));
    eventLoop.pause();
    eventLoop.deliver(record("late"));
    expect(seen).toEqual(["at once"]);

    eventLoop.resume(false);
    passUntil(1);
    eventLoop.end();
    eventLoop.deliver(record("never"));
    passUntil(2);

    expect(seen).toEqual(["at once", "late"]);
  });

  it("[X3] a simulated process fires overdue timers once each when it resumes, and none after its end", () => {
    const { life: eventLoop, seen, record, passUntil } = startProcess();
    eventLoop.after(10, record("ten"));
    eventLoop.every(4, record("four"));
    const takeBack = eventLoop.after(5, record("never"));
    takeBack();
    passUntil(5);
    eventLoop.pause();
    passUntil(50);
    expect(seen).toEqual(["four"]);

    eventLoop.resume(true);
    passUntil(51);
    eventLoop.end();
    passUntil(100);

    expect(seen).toEqual(["four", "four", "ten"]);
  });

  it("[X3] a resumed simulated process fires its timers before it handles arrived messages, or the other way round, as requested", () => {
    for (const timersFirst of [true, false]) {
      const { life: eventLoop, seen, record, passUntil } = startProcess();
      eventLoop.after(10, record("timer"));
      eventLoop.pause();
      eventLoop.deliver(record("frame"));
      passUntil(20);

      eventLoop.resume(timersFirst);
      passUntil(21);

      expect(seen).toEqual(timersFirst ? ["timer", "frame"] : ["frame", "timer"]);
    }
  });

  it("[X3] an uncaught exception in a simulated process is passed to its error callback", () => {
    const { life: eventLoop, problems } = startProcess();

    eventLoop.deliver(() => {
      throw new Error("uncaught");
    });

    expect(problems).toEqual([new Error("uncaught")]);
  });
});

describe("a machine's clocks", () => {
  it("[X4] a jump of a simulated machine's wall clock leaves its monotonic clock unchanged", () => {
    const { clock, passUntil } = startProcess();
    passUntil(100);

    clock.jumpWallClock(-3_600_000);

    expect(clock.mono()).toBe(1_100);
    expect(clock.wall()).toBe(worldStartWallMs + 100 - 3_600_000);
  });

  it("[X4] a simulated machine's monotonic clock drifts, and its timers drift with it", () => {
    const { clock, life: eventLoop, seen, record, passUntil, timeline } = startProcess(100_000);
    eventLoop.after(110, record("rang"));

    passUntil(99);
    expect(seen).toEqual([]);
    passUntil(101);

    expect(seen).toEqual(["rang"]);
    expect(clock.mono()).toBeCloseTo(1_000 + timeline.now * 1.1);
  });

  it("[X4] a suspended machine's monotonic clock and timers stand still, and its wall clock shows the true time afterwards", () => {
    const { clock, life: eventLoop, seen, record, passUntil } = startProcess();
    eventLoop.after(10, record("rang"));
    passUntil(5);

    eventLoop.pause();
    clock.freeze();
    passUntil(1_000);
    clock.thaw();
    eventLoop.resume(true);
    passUntil(1_004);
    expect(seen).toEqual([]);
    passUntil(1_006);

    expect(seen).toEqual(["rang"]);
    expect(clock.mono()).toBeCloseTo(1_011);
    expect(clock.wall()).toBe(worldStartWallMs + 1_006);
  });
});
