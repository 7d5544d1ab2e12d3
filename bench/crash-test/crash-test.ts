// `npm run ledger`: schedulers on one PostgreSQL, or one on sqlite, workers, thousands of tasks; schedulers and workers are killed with -9 and the
// database is restarted while they work. Then everything is counted from outside. The exit code is 1 if there is any violation.

import { setTimeout as pause } from "node:timers/promises";
import { printAttacks } from "../attacks/attacks.ts";
import { formatInteger, showProgress } from "../harness/statistics.ts";
import { astraCli, type CrashTestCluster, startCluster } from "./cluster.ts";
import { crashTestHelp, readCrashTestFlags } from "./flags.ts";
import { createJobs, readJournals, tasksPerRun } from "./jobs.ts";
import { RetryingApiClient, type SubmitResult } from "./retrying-api-client.ts";
import { type CrashTestEvidence, countRepeatedExecutions, findViolations } from "./violations.ts";

export interface CrashTestOptions {
  readonly tasks: number;
  readonly workers: number;
  readonly schedulers: number;
  /** Part of the kills that hits workers. */
  readonly workerShare: number;
  /** Part of the workers that are stand-ins for those of the first generation. */
  readonly firstShare: number;
  readonly killEveryMs: number;
  /** So often PostgreSQL is restarted: by a crash first, then in order, and so on in turn. */
  readonly restarts: number;
  /** At least so many kills; until then there is always work. */
  readonly killsMin: number;
  /** No more than so many; without it kills go on until all work is done. */
  readonly killsMax?: number;
  readonly msMax: number;
  /** The executable of schedulers and workers. */
  readonly program: string;
  /** Called with the number of tasks that somebody has executed to the end. */
  onProgress(done: number, all: number): void;
}

export interface CrashTestReport {
  readonly violations: readonly string[];
  readonly figures: Readonly<Record<string, number>>;
  /** The end of every log; empty without violations. */
  readonly logs: string;
}

const pollMs = 250;
const parallelReaders = 8;

export async function runCrashTest(options: CrashTestOptions): Promise<CrashTestReport> {
  const cluster = await startCluster(options);
  try {
    return await runOnCluster(cluster, options);
  } finally {
    await cluster.end();
  }
}

async function runOnCluster(cluster: CrashTestCluster, options: CrashTestOptions): Promise<CrashTestReport> {
  const begin = performance.now();
  const signal = AbortSignal.timeout(options.msMax);
  const callers = new RetryingApiClient(cluster.urls, signal);
  const faults = startFaultInjector(cluster, callers, options);
  try {
    const submitted = await submitWhileCrashing(callers, faults, options);
    while ((await callers.hasOpenRuns()) || !faults.isDone())
      await Promise.race([pause(pollMs, undefined, { signal }), faults.failed]);
    await faults.stop();
    const workedMs = performance.now() - begin;
    const evidence = await collectEvidence(cluster, callers, submitted);
    const violations = [...findViolations(evidence), ...cluster.readUnreadableFrames()];
    const figures = {
      "workers of the first generation": cluster.legacyWorkers,
      runs: evidence.accepted.length,
      tasks: evidence.accepted.length * tasksPerRun,
      ...countRepeatedExecutions(evidence),
      "stale words refused (at least)": faults.staleReports(),
      "repeated requests": submitted.retries,
      "kills -9": faults.kills(),
      "of them workers": faults.workerKills(),
      "restarts of PostgreSQL": faults.restarts(),
      "facts in the log": evidence.log.head,
      "seconds of work": Math.round(workedMs / 100) / 10,
      "tasks/s": Math.round((evidence.accepted.length * tasksPerRun) / (workedMs / 1_000)),
      violations: violations.length,
    };
    return { violations, figures, logs: violations.length > 0 ? cluster.readLogs() : "" };
  } catch (cause) {
    const ends = await Promise.allSettled([faults.stop()]);
    const why = signal.aborted ? `not everything had ended after ${options.msMax / 1_000} s` : String(cause);
    const more = ends.flatMap((end) => (end.status === "rejected" && !signal.aborted ? [String(end.reason)] : []));
    const violations = [why, ...more];
    return { violations, figures: { "kills -9": faults.kills(), violations: violations.length }, logs: cluster.readLogs() };
  }
}

/** One wave of jobs, and another while kills are still to come, so that kills always hit running work. */
async function submitWhileCrashing(
  callers: RetryingApiClient,
  faults: FaultInjector,
  options: CrashTestOptions,
): Promise<SubmitResult> {
  const accepted: SubmitResult["accepted"][number][] = [];
  let retries = 0;
  for (let wave = 0; wave === 0 || !faults.isDone(); wave++) {
    const one = await Promise.race([callers.submitAll(createJobs(options.tasks, wave)), faults.failed]);
    accepted.push(...one.accepted);
    retries += one.retries;
  }
  return { accepted, retries };
}

interface FaultInjector {
  /** Rejects when a process ends without being killed, or does not come back. */
  readonly failed: Promise<never>;
  /** All that was announced has happened. */
  isDone(): boolean;
  stop(): Promise<void>;
  kills(): number;
  workerKills(): number;
  restarts(): number;
  staleReports(): number;
}

/** Kills schedulers and workers, each in turn, and restarts the server when its share of the first wave is done. */
function startFaultInjector(cluster: CrashTestCluster, callers: RetryingApiClient, options: CrashTestOptions): FaultInjector {
  const tasks = Math.ceil(options.tasks / tasksPerRun) * tasksPerRun;
  const failed = Promise.withResolvers<never>();
  const stopping = new AbortController();
  let kills = 0;
  let workerKills = 0;
  let restarts = 0;
  let stale = 0;
  const killOn = async () => {
    let dueAt = performance.now();
    while (kills < (options.killsMax ?? Number.POSITIVE_INFINITY)) {
      // By the clock, not after the last one came back; but never both at once.
      dueAt = Math.max(performance.now(), dueAt + options.killEveryMs);
      await pause(Math.max(0, dueAt - performance.now()), undefined, { signal: stopping.signal });
      if (workerKills < Math.floor((kills + 1) * options.workerShare)) await cluster.killWorker(workerKills++ % options.workers);
      else {
        const at = (kills - workerKills) % options.schedulers;
        stale += await callers.countStaleReports(at);
        await cluster.killScheduler(at);
      }
      kills++;
    }
  };
  const restartOn = async () => {
    for (;;) {
      await pause(pollMs, undefined, { signal: stopping.signal });
      const done = new Set(readJournals(cluster.folder).flatMap((one) => (one.what === "end" ? [one.task] : []))).size;
      options.onProgress(done, tasks);
      if (restarts >= options.restarts || done < ((restarts + 1) * tasks) / (options.restarts + 1)) continue;
      await cluster.restartPostgres(restarts % 2 === 0 ? "immediate" : "fast");
      restarts++;
    }
  };
  const over = [killOn(), restartOn()].map((loop) =>
    loop.catch((cause: unknown) => {
      const isStopped = cause instanceof Error && cause.name === "AbortError";
      if (!isStopped) failed.reject(cause);
    }),
  );
  failed.promise.catch(() => undefined); // awaited elsewhere; ignored after the end
  return {
    failed: failed.promise,
    isDone: () => kills >= options.killsMin && restarts >= options.restarts,
    async stop() {
      stopping.abort();
      await Promise.all(over);
      // Report a failed kill or restart even if all work finished.
      await Promise.race([failed.promise, Promise.resolve()]);
      for (const at of cluster.urls.keys()) stale += await callers.countStaleReports(at);
    },
    kills: () => kills,
    workerKills: () => workerKills,
    restarts: () => restarts,
    staleReports: () => stale,
  };
}

/** Only what anybody could ask: the API of both schedulers, the log as a reader sees it, and the workers' own journals. */
async function collectEvidence(
  cluster: CrashTestCluster,
  callers: RetryingApiClient,
  { accepted }: SubmitResult,
): Promise<CrashTestEvidence> {
  const runs = new Map<string, CrashTestEvidence["runs"] extends ReadonlyMap<string, infer R> ? R : never>();
  const ids = accepted.flatMap((one) => [...one.runIds]);
  let next = 0;
  const readOn = async () => {
    for (let at = next++; at < ids.length; at = next++) {
      const id = ids[at] ?? "";
      // The run from one scheduler, its facts from the other: they must agree.
      runs.set(id, { run: await callers.read(`/api/v1/runs/${id}`, at), facts: await callers.readFacts(id, at + 1) });
    }
  };
  await Promise.all(Array.from({ length: parallelReaders }, readOn));
  const lists = await Promise.all(cluster.urls.map((_, at) => callers.listRuns(at)));
  return { accepted, runs, lists, log: await readLogPositions(cluster), executions: readJournals(cluster.folder) };
}

async function readLogPositions(cluster: CrashTestCluster): Promise<CrashTestEvidence["log"]> {
  const reader = cluster.openReader();
  try {
    const positions: number[] = [];
    for (let after = 0; ; ) {
      const page = await reader.events({ tenant: "default", after, limit: 1_000 });
      for (const entry of page.items) positions.push(entry.position);
      if (page.items.length === 0) return { positions, head: page.head };
      after = page.next;
    }
  } finally {
    await reader.close();
  }
}

async function main(argv: readonly string[]): Promise<number> {
  const flags = readCrashTestFlags(argv);
  if (flags === "help") {
    console.log(crashTestHelp);
    return 0;
  }
  if ("problem" in flags) {
    console.error(`ledger: ${flags.problem}`);
    return 2;
  }
  const { killEverySeconds, secondsMax, kills, attacks, ...rest } = flags;
  const options = {
    ...rest,
    killEveryMs: killEverySeconds * 1_000,
    killsMin: kills,
    msMax: secondsMax * 1_000,
    program: astraCli,
  };
  const store = options.schedulers === 1 ? "sqlite" : "one PostgreSQL";
  console.log(
    `ledger: waves of ${formatInteger(options.tasks)} tasks on ${options.schedulers} schedulers and ${store}, ${options.workers} workers, ${Math.round(options.firstShare * 100)} % of the first generation; a kill every ${killEverySeconds} s, at least ${kills}, ${Math.round(options.workerShare * 100)} % of them of workers; PostgreSQL restarted ${options.restarts} times`,
  );
  const { violations, figures, logs } = await runCrashTest({
    ...options,
    onProgress: (done, all) => showProgress("tasks executed", done, all),
  });
  for (const [name, value] of Object.entries(figures)) console.log(`  ${name.padEnd(32)} ${formatInteger(value).padStart(10)}`);
  for (const violation of violations.slice(0, 50)) console.error(`violation: ${violation}`);
  if (violations.length > 50) console.error(`and ${violations.length - 50} more`);
  if (logs !== "") console.error(logs);
  console.log(violations.length === 0 ? "ledger: everything accepted ended once" : `ledger: ${violations.length} violations`);
  const broken = attacks === 0 ? 0 : await printAttacks({ isQuickOnly: false });
  return violations.length === 0 && broken === 0 ? 0 : 1;
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
