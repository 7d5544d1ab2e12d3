// `npm run bench -- session`: the cost of sessions. Tasks with batches and with one frame per task, each beside a plain WebSocket echo; the memory of many
// idle sessions; how long idle workers take to reconnect after their scheduler was killed and restarted.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { endToEndBench } from "../end-to-end/end-to-end-bench.ts";
import {
  type ChildProgram,
  loadAverage,
  readUsage,
  type SchedulerReady,
  startProgram,
  startScheduler,
  stopProgram,
  waitForMessage,
  waitUntilReady,
} from "../harness/child-programs.ts";
import { formatInteger, percentile, percentiles, readNumberOption, recordFigures } from "../harness/statistics.ts";
import type { IdleWorkersMessage, IdleWorkersRequest } from "./idle-workers.ts";

const idleWorkersFile = fileURLToPath(new URL("./idle-workers.ts", import.meta.url));
const benchParts = ["tasks", "idle", "restart"] as const;
/** How long the idle workers may take to connect or reconnect. */
const sessionsWaitMs = 300_000;
/** Width of the buckets in which the handshake rate is looked at. */
const bucketMs = 100;

export async function sessionBench(argv: readonly string[]): Promise<void> {
  const at = argv.indexOf("--part");
  const asked = at < 0 ? benchParts : benchParts.filter((part) => part === argv[at + 1]);
  if (asked.length === 0) throw new Error(`--part takes one of ${benchParts.join(", ")}`);
  if (asked.includes("tasks")) {
    await endToEndBench(argv);
    await endToEndBench([...argv, "--plain"]);
  }
  if (asked.includes("idle")) {
    await measureIdleMemory(readNumberOption(argv, "idle", 10_000), []);
    await measureIdleMemory(readNumberOption(argv, "idle", 10_000), ["--max-semi-space-size=8"]);
  }
  if (asked.includes("restart"))
    await measureReconnect(readNumberOption(argv, "sessions", 1_000), readNumberOption(argv, "rounds", 3));
}

async function measureIdleMemory(sessions: number, nodeWords: readonly string[]): Promise<void> {
  await withIdleWorkers(async ({ dir, start, idleWorkers }) => {
    const scheduler = await start(dir, { nodeWords });
    const before = residentBytesOf(scheduler.program);
    await connectAll(idleWorkers, { url: scheduler.ws, sessions, perSecond: 500 });
    // Three heartbeats of each, so that the memory of heartbeats is included.
    const cpu = readUsage(scheduler.program.pid).cpuMs;
    const quietMs = 30_000;
    await new Promise((resolve) => setTimeout(resolve, quietMs));
    const busy = (readUsage(scheduler.program.pid).cpuMs - cpu) / quietMs;
    const after = residentBytesOf(scheduler.program);
    recordFigures("idle", {
      sessions,
      nodeWords,
      residentBytes: after,
      residentBytesBefore: before,
      goalBytesMax: 600e6,
      bytesPerSession: (after - before) / sessions,
      coreShare: busy,
    });
    console.log(
      `${formatInteger(sessions)} idle sessions in one scheduler${nodeWords.length > 0 ? ` with ${nodeWords.join(" ")}` : ""}: ${formatInteger(after / 2 ** 20)} MiB resident, ${formatInteger(before / 2 ** 20)} before (goal < 600 MB: ${(after / 600e6).toFixed(2)} of it); ${((after - before) / sessions / 1024).toFixed(1)} KiB a session; heartbeats every 10 s take ${Math.round(busy * 100)} % of one core; load ${loadAverage()}`,
    );
  });
}

async function measureReconnect(sessions: number, rounds: number): Promise<void> {
  await withIdleWorkers(async ({ dir, start, idleWorkers }) => {
    let scheduler = await start(dir);
    await connectAll(idleWorkers, { url: scheduler.ws, sessions, perSecond: 500 });
    for (let round = 1; round <= rounds; round++) {
      const lost = waitForMessage<IdleWorkersMessage>(idleWorkers, sessionsWaitMs);
      const killedAt = performance.now();
      scheduler.program.process.kill("SIGKILL");
      await lost;
      const back = waitForMessage<IdleWorkersMessage>(idleWorkers, sessionsWaitMs);
      scheduler = await start(dir, { port: new URL(scheduler.http).port });
      const upAt = performance.now();
      const message = await back;
      if (message.say !== "all-ready") throw new Error(`expected "all-ready" from the idle workers, got ${message.say}`);
      const allMs = performance.now() - upAt;
      recordFigures("restarts", {
        sessions,
        upAfterMs: upAt - killedAt,
        allReadyMs: allMs,
        goalMsMax: 30_000,
        peakToMean: peakToMeanRate(message.readyAt),
        goalPeakMax: 3,
        readyAfterLossMs: percentiles(message.readyAt),
      });
      console.log(
        `restart ${round}: kill -9, up again after ${((upAt - killedAt) / 1_000).toFixed(1)} s; ${formatInteger(sessions)} sessions READY ${(allMs / 1_000).toFixed(1)} s later (goal < 30); peak/mean of the rate in ${bucketMs} ms: ${peakToMeanRate(message.readyAt).toFixed(2)} (goal <= 3); p50 ${(percentile(message.readyAt, 0.5) / 1_000).toFixed(1)} s, last ${(Math.max(...message.readyAt) / 1_000).toFixed(1)} s after the loss`,
      );
    }
    console.log(`load average at the end ${loadAverage()}`);
  });
}

/** The fullest bucket beside the mean of those between the first session and the last. */
function peakToMeanRate(instants: readonly number[]): number {
  const from = Math.min(...instants);
  const buckets = new Map<number, number>();
  for (const at of instants) {
    const bucket = Math.floor((at - from) / bucketMs);
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
  }
  const mean = instants.length / (Math.max(...buckets.keys()) + 1);
  return Math.max(...buckets.values()) / mean;
}

interface StartedScheduler {
  readonly program: ChildProgram;
  readonly http: string;
  readonly ws: string;
}

interface SessionFixture {
  readonly dir: string;
  readonly idleWorkers: ChildProgram;
  start(dir: string, how?: { readonly port?: string; readonly nodeWords?: readonly string[] }): Promise<StartedScheduler>;
}

async function withIdleWorkers(measure: (scene: SessionFixture) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "astra-session-"));
  const programs: ChildProgram[] = [];
  const idleWorkers = startProgram("crowd", [idleWorkersFile], process.env, []);
  programs.push(idleWorkers);
  try {
    await waitForMessage(idleWorkers, 10_000);
    await measure({
      dir,
      idleWorkers,
      async start(of, how = {}) {
        const program = startScheduler({ dir: of, threads: 1, nodeFlags: [], ...how });
        programs.push(program);
        const { http, ws } = await waitUntilReady<SchedulerReady>(program);
        return { program, http, ws };
      },
    });
  } finally {
    for (const program of programs.reverse()) await stopProgram(program);
    rmSync(dir, { recursive: true, force: true });
  }
}

async function connectAll(idleWorkers: ChildProgram, request: IdleWorkersRequest): Promise<void> {
  const ready = waitForMessage<IdleWorkersMessage>(idleWorkers, sessionsWaitMs);
  idleWorkers.process.send(request);
  const message = await ready;
  if (message.say !== "all-ready") throw new Error(`expected "all-ready" from the idle workers, got ${message.say}`);
}

function residentBytesOf({ pid }: ChildProgram): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? Number.NaN) * 1024;
}
