// Attacks that try to fill the scheduler's memory.

import { readResidentMemory, resetPeak, SilentReaders, startLargeRuns } from "../memory/memory-load.ts";
import { type Attack, judge, runOrdinaryWork } from "./attack.ts";

/** What a scheduler may take above what it had before, whatever callers send. */
const growthMbMax = 1_000;

const largeRuns: Attack = {
  name: "250 runs with 7 MB of parameters each",
  isQuick: false,
  async send(target) {
    const before = readResidentMemory(target.pid).nowMb;
    resetPeak(target.pid);
    const answers = await startLargeRuns(
      { http: target.http, tokens: [target.tokens.operate] },
      { runs: 250, paramsBytes: 7_000_000, concurrency: 8 },
    );
    const { peakMb } = readResidentMemory(target.pid);
    const counts = [...answers].map(([status, count]) => `${count} x ${status}`).join(", ");
    const isDone = await runOrdinaryWork(target);
    return judge(`${before.toFixed(0)} MiB before, peak ${peakMb.toFixed(0)} MiB; answers ${counts}`, {
      "memory grew with the runs": peakMb - before > growthMbMax,
      "a request was not answered": answers.has(0),
      "ordinary work did not go through": !isDone,
    });
  },
};

const silentReaders: Attack = {
  name: "1,000 readers of the events that never read",
  isQuick: false,
  async send(target) {
    const before = readResidentMemory(target.pid).nowMb;
    resetPeak(target.pid);
    const readers = new SilentReaders();
    const answers = await readers.open({ http: target.http, tokens: [target.tokens.operate, target.tokens.read] }, 1_000);
    const isDone = await runOrdinaryWork(target);
    const { peakMb } = readResidentMemory(target.pid);
    readers.close();
    const counts = [...answers].map(([status, count]) => `${count} x ${status}`).join(", ");
    return judge(`${before.toFixed(0)} MiB before, peak ${peakMb.toFixed(0)} MiB; answers ${counts}`, {
      "memory grew with the readers": peakMb - before > growthMbMax / 2,
      "every reader of one token was accepted": !answers.has(429) && !answers.has(503),
      "ordinary work did not go through": !isDone,
    });
  },
};

export const memoryAttacks: readonly Attack[] = [largeRuns, silentReaders];
