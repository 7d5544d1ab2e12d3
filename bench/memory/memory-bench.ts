// `npm run bench -- memory`: how much memory a scheduler takes for runs with large parameters and for readers of events that never read.

import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type SchedulerReady, startScheduler, startWorker, stopProgram, waitUntilReady } from "../harness/child-programs.ts";
import {
  type AnswerCounts,
  type LoadTarget,
  type ResidentMemory,
  readResidentMemory,
  resetPeak,
  SilentReaders,
  startLargeRuns,
} from "./memory-load.ts";

const settleMs = 5_000;
const sampleMs = 200;

export async function memoryBench(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      runs: { type: "string", default: "250" },
      mb: { type: "string", default: "7" },
      concurrency: { type: "string", default: "8" },
      readers: { type: "string", default: "1000" },
      "log-runs": { type: "string", default: "600" },
      tokens: { type: "string", default: "20" },
      worker: { type: "boolean", default: false },
    },
  });
  const dir = mkdtempSync(join(tmpdir(), "astra-memory-"));
  try {
    await measureRuns(dir, values.worker, {
      runs: Number(values.runs),
      paramsBytes: Number(values.mb) * 1_000_000,
      concurrency: Number(values.concurrency),
    });
    const log = { runs: Number(values["log-runs"]), paramsBytes: 100, concurrency: 8 };
    await measureReaders(dir, Number(values.readers), Number(values.tokens), log);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

type LargeRuns = Parameters<typeof startLargeRuns>[1];

async function measureRuns(dir: string, hasWorker: boolean, load: LargeRuns): Promise<void> {
  await withScheduler(join(dir, "runs"), [], async (target, pid, ws) => {
    const worker = hasWorker ? startWorker({ dir: join(dir, "worker"), url: ws, maxParallel: 8, nodeFlags: [] }) : null;
    if (worker !== null) await waitUntilReady(worker);
    const figures = await watchMemory(pid, () => startLargeRuns(target, load));
    console.log(`${load.runs} runs with ${load.paramsBytes} bytes each, ${hasWorker ? "one worker" : "no worker"}: ${figures}`);
    if (worker !== null) await stopProgram(worker);
  });
}

async function measureReaders(dir: string, readers: number, tokenCount: number, log: LargeRuns): Promise<void> {
  const tokens = Array.from({ length: tokenCount }, () => randomBytes(24).toString("hex"));
  const flags = tokens.flatMap((token, at) => {
    const file = join(dir, `token-${at}`);
    writeFileSync(file, token, { mode: 0o600 });
    return ["--token", `reader${at}=@${file}`];
  });
  await withScheduler(join(dir, "readers"), flags, async (target, pid) => {
    await startLargeRuns(target, log);
    const silent = new SilentReaders();
    const figures = await watchMemory(pid, () => silent.open({ ...target, tokens }, readers));
    console.log(`${readers} readers that never read, ${log.runs} runs in the log, ${tokenCount} tokens: ${figures}`);
    silent.close();
  });
}

async function withScheduler(
  dir: string,
  flags: readonly string[],
  measure: (target: LoadTarget, pid: number, ws: string) => Promise<void>,
): Promise<void> {
  const scheduler = startScheduler({ dir, threads: 1, nodeFlags: [], flags });
  try {
    const { http, ws } = await waitUntilReady<SchedulerReady>(scheduler);
    await measure({ http, tokens: ["dev-token"] }, scheduler.pid, ws);
  } finally {
    await stopProgram(scheduler);
  }
}

/** The memory of a process while the load runs. A process that dies of it leaves its last reading. */
async function watchMemory(pid: number, load: () => Promise<AnswerCounts>): Promise<string> {
  const before = readResidentMemory(pid);
  let last: ResidentMemory | null = before;
  let highestMb = 0;
  resetPeak(pid);
  const sample = (): void => {
    last = isAlive(pid) ? readResidentMemory(pid) : null;
    highestMb = Math.max(highestMb, last?.peakMb ?? 0);
  };
  const sampling = setInterval(sample, sampleMs);
  const answers = await load();
  await pause(settleMs);
  clearInterval(sampling);
  sample();
  const statuses = [...answers].map(([status, count]) => `${count} x ${status}`).join(", ");
  const after = last === null ? "died" : `${(last as ResidentMemory).nowMb.toFixed(0)} MiB afterwards`;
  return `${before.nowMb.toFixed(0)} MiB before, peak ${highestMb.toFixed(0)} MiB, ${after}; answers ${statuses}`;
}

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}/status`);
