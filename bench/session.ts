// `npm run bench -- session`: what sessions cost. Tasks through the door with batches and with a frame per task, each beside a bare
// WebSocket echo; the memory of many idle sessions; how long a crowd takes to be back after its scheduler was killed and started again.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { noteFigures, percentile, percentiles, readOption, whole } from "./figures.ts";
import type { CrowdAsk, CrowdWord } from "./session-crowd.ts";
import { sliceBench } from "./slice.ts";
import {
  endProgram,
  hearReady,
  hearWord,
  loadAverage,
  type Program,
  type SchedulerReady,
  startProgram,
  startScheduler,
  usageOf,
} from "./slice-processes.ts";

const crowdFile = fileURLToPath(new URL("./session-crowd.ts", import.meta.url));
const parts = ["tasks", "idle", "restart"] as const;
/** How long a crowd may take to be in, or back. */
const crowdMs = 300_000;
/** Width of the buckets in which the handshake rate is looked at. */
const bucketMs = 100;

export async function sessionBench(argv: readonly string[]): Promise<void> {
  const at = argv.indexOf("--part");
  const asked = at < 0 ? parts : parts.filter((part) => part === argv[at + 1]);
  if (asked.length === 0) throw new Error(`--part takes one of ${parts.join(", ")}`);
  if (asked.includes("tasks")) {
    await sliceBench(argv);
    await sliceBench([...argv, "--plain"]);
  }
  if (asked.includes("idle")) {
    await idle(readOption(argv, "idle", 10_000), []);
    await idle(readOption(argv, "idle", 10_000), ["--max-semi-space-size=8"]);
  }
  if (asked.includes("restart")) await restart(readOption(argv, "sessions", 1_000), readOption(argv, "rounds", 3));
}

async function idle(sessions: number, nodeWords: readonly string[]): Promise<void> {
  await withCrowd(async ({ dir, start, crowd }) => {
    const scheduler = await start(dir, { nodeWords });
    const before = rssOf(scheduler.program);
    await gather(crowd, { url: scheduler.ws, sessions, perSecond: 500 });
    // Three heartbeats of each, so that what a beat leaves behind is in the figure.
    const cpu = usageOf(scheduler.program.pid).cpuMs;
    const quietMs = 30_000;
    await new Promise((resolve) => setTimeout(resolve, quietMs));
    const busy = (usageOf(scheduler.program.pid).cpuMs - cpu) / quietMs;
    const after = rssOf(scheduler.program);
    noteFigures("idle", {
      sessions,
      nodeWords,
      residentBytes: after,
      residentBytesBefore: before,
      goalBytesMax: 600e6,
      bytesPerSession: (after - before) / sessions,
      coreShare: busy,
    });
    console.log(
      `${whole(sessions)} idle sessions in one scheduler${nodeWords.length > 0 ? ` with ${nodeWords.join(" ")}` : ""}: ${whole(after / 2 ** 20)} MiB resident, ${whole(before / 2 ** 20)} before (goal < 600 MB: ${(after / 600e6).toFixed(2)} of it); ${((after - before) / sessions / 1024).toFixed(1)} KiB a session; heartbeats every 10 s take ${Math.round(busy * 100)} % of one core; load ${loadAverage()}`,
    );
  });
}

async function restart(sessions: number, rounds: number): Promise<void> {
  await withCrowd(async ({ dir, start, crowd }) => {
    let scheduler = await start(dir);
    await gather(crowd, { url: scheduler.ws, sessions, perSecond: 500 });
    for (let round = 1; round <= rounds; round++) {
      const lost = hearWord<CrowdWord>(crowd, crowdMs);
      const killedAt = performance.now();
      scheduler.program.process.kill("SIGKILL");
      await lost;
      const back = hearWord<CrowdWord>(crowd, crowdMs);
      scheduler = await start(dir, { port: new URL(scheduler.http).port });
      const upAt = performance.now();
      const word = await back;
      if (word.say !== "all-ready") throw new Error(`the crowd said ${word.say}`);
      const allMs = performance.now() - upAt;
      noteFigures("restarts", {
        sessions,
        upAfterMs: upAt - killedAt,
        allReadyMs: allMs,
        goalMsMax: 30_000,
        peakToMean: burst(word.readyAt),
        goalPeakMax: 3,
        readyAfterLossMs: percentiles(word.readyAt),
      });
      console.log(
        `restart ${round}: kill -9, up again after ${((upAt - killedAt) / 1_000).toFixed(1)} s; ${whole(sessions)} sessions READY ${(allMs / 1_000).toFixed(1)} s later (goal < 30); peak/mean of the rate in ${bucketMs} ms: ${burst(word.readyAt).toFixed(2)} (goal <= 3); p50 ${(percentile(word.readyAt, 0.5) / 1_000).toFixed(1)} s, last ${(Math.max(...word.readyAt) / 1_000).toFixed(1)} s after the loss`,
      );
    }
    console.log(`load average at the end ${loadAverage()}`);
  });
}

/** The fullest bucket beside the mean of those between the first session and the last. */
function burst(instants: readonly number[]): number {
  const from = Math.min(...instants);
  const buckets = new Map<number, number>();
  for (const at of instants) {
    const bucket = Math.floor((at - from) / bucketMs);
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
  }
  const mean = instants.length / (Math.max(...buckets.keys()) + 1);
  return Math.max(...buckets.values()) / mean;
}

interface Started {
  readonly program: Program;
  readonly http: string;
  readonly ws: string;
}

interface Scene {
  readonly dir: string;
  readonly crowd: Program;
  start(dir: string, how?: { readonly port?: string; readonly nodeWords?: readonly string[] }): Promise<Started>;
}

async function withCrowd(measure: (scene: Scene) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "astra-session-"));
  const programs: Program[] = [];
  const crowd = startProgram("crowd", [crowdFile], process.env, []);
  programs.push(crowd);
  try {
    await hearWord(crowd, 10_000);
    await measure({
      dir,
      crowd,
      async start(of, how = {}) {
        const program = startScheduler({ dir: of, threads: 1, nodeWords: [], ...how });
        programs.push(program);
        const { http, ws } = await hearReady<SchedulerReady>(program);
        return { program, http, ws };
      },
    });
  } finally {
    for (const program of programs.reverse()) await endProgram(program);
    rmSync(dir, { recursive: true, force: true });
  }
}

async function gather(crowd: Program, ask: CrowdAsk): Promise<void> {
  const ready = hearWord<CrowdWord>(crowd, crowdMs);
  crowd.process.send(ask);
  const word = await ready;
  if (word.say !== "all-ready") throw new Error(`the crowd said ${word.say}`);
}

function rssOf({ pid }: Program): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? Number.NaN) * 1024;
}
