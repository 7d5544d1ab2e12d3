// `npm run ledger`: two schedulers on one PostgreSQL, workers at both, thousands of tasks; one scheduler after the other is killed
// with -9 and the database restarted while they work. Then everything is counted from outside. One violation, and it ends with 1.

import { setTimeout as pause } from "node:timers/promises";
import { openPostgresReader } from "@astraflow/store";
import { progress, whole } from "./figures.ts";
import { type Bed, makeBed } from "./ledger-bed.ts";
import { Callers, type Submitted } from "./ledger-callers.ts";
import { countRepeats, type Evidence, judge } from "./ledger-judge.ts";
import { ledgerHelp, readLedgerWords } from "./ledger-words.ts";
import { makeJobs, readJournals, tasksPerRun } from "./ledger-work.ts";

export interface LedgerOptions {
  readonly tasks: number;
  readonly workers: number;
  readonly killEveryMs: number;
  /** So often PostgreSQL is restarted: by a crash first, then in order, and so on in turn. */
  readonly restarts: number;
  /** At least so many kills, however soon the work is done. */
  readonly killsMin: number;
  readonly msMax: number;
  /** Called with the number of tasks that somebody has executed to the end. */
  note(done: number, all: number): void;
}

export interface LedgerReport {
  readonly violations: readonly string[];
  readonly figures: Readonly<Record<string, number>>;
  /** Everybody's last words; empty when there is nothing to explain. */
  readonly logs: string;
}

const lookMs = 250;
const readersMax = 8;

export async function keepLedger(options: LedgerOptions): Promise<LedgerReport> {
  const bed = await makeBed(options);
  try {
    return await keepOn(bed, options);
  } finally {
    await bed.end();
  }
}

async function keepOn(bed: Bed, options: LedgerOptions): Promise<LedgerReport> {
  const begin = performance.now();
  const signal = AbortSignal.timeout(options.msMax);
  const callers = new Callers(bed.urls, signal);
  const jobs = makeJobs(options.tasks);
  const weather = startWeather(bed, callers, options, jobs.length * tasksPerRun);
  try {
    const submitted = await Promise.race([callers.submitAll(jobs), weather.failed]);
    while ((await callers.hasOpenRuns()) || !weather.isOver())
      await Promise.race([pause(lookMs, undefined, { signal }), weather.failed]);
    await weather.stop();
    const workedMs = performance.now() - begin;
    const evidence = await gather(bed, callers, submitted);
    const violations = judge(evidence);
    const figures = {
      runs: evidence.accepted.length,
      tasks: evidence.accepted.length * tasksPerRun,
      ...countRepeats(evidence),
      "stale words refused (at least)": weather.staleWords(),
      "repeated requests": submitted.retries,
      "kills -9": weather.kills(),
      "restarts of PostgreSQL": weather.restarts(),
      "facts in the log": evidence.log.head,
      "seconds of work": Math.round(workedMs / 100) / 10,
      "tasks/s": Math.round((evidence.accepted.length * tasksPerRun) / (workedMs / 1_000)),
      violations: violations.length,
    };
    return { violations, figures, logs: violations.length > 0 ? bed.readLogs() : "" };
  } catch (cause) {
    const ends = await Promise.allSettled([weather.stop()]);
    const why = signal.aborted ? `not everything had ended after ${options.msMax / 1_000} s` : String(cause);
    const more = ends.flatMap((end) => (end.status === "rejected" && !signal.aborted ? [String(end.reason)] : []));
    const violations = [why, ...more];
    return { violations, figures: { "kills -9": weather.kills(), violations: violations.length }, logs: bed.readLogs() };
  }
}

interface Weather {
  /** Rejects when something ends that nobody killed, or does not come back. */
  readonly failed: Promise<never>;
  /** All that was announced has happened. */
  isOver(): boolean;
  stop(): Promise<void>;
  kills(): number;
  restarts(): number;
  staleWords(): number;
}

/** Kills one scheduler after the other, and restarts the server when its share of the work is done. */
function startWeather(bed: Bed, callers: Callers, options: LedgerOptions, tasks: number): Weather {
  const failed = Promise.withResolvers<never>();
  const stopping = new AbortController();
  let kills = 0;
  let restarts = 0;
  let stale = 0;
  const killOn = async () => {
    let dueAt = performance.now();
    for (let at = 0; ; at = 1 - at) {
      // By the clock, not after the last one came back; but never both at once.
      dueAt = Math.max(performance.now(), dueAt + options.killEveryMs);
      await pause(Math.max(0, dueAt - performance.now()), undefined, { signal: stopping.signal });
      stale += await callers.staleWords(at);
      await bed.killScheduler(at);
      kills++;
    }
  };
  const restartOn = async () => {
    for (;;) {
      await pause(lookMs, undefined, { signal: stopping.signal });
      const done = new Set(readJournals(bed.folder).flatMap((one) => (one.what === "end" ? [one.task] : []))).size;
      options.note(done, tasks);
      if (restarts >= options.restarts || done < ((restarts + 1) * tasks) / (options.restarts + 1)) continue;
      await bed.restartPostgres(restarts % 2 === 0 ? "immediate" : "fast");
      restarts++;
    }
  };
  const over = [killOn(), restartOn()].map((loop) =>
    loop.catch((cause: unknown) => {
      const isStopped = cause instanceof Error && cause.name === "AbortError";
      if (!isStopped) failed.reject(cause);
    }),
  );
  failed.promise.catch(() => undefined); // whoever waits for it hears of it; after the end nobody does
  return {
    failed: failed.promise,
    isOver: () => kills >= options.killsMin && restarts >= options.restarts,
    async stop() {
      stopping.abort();
      await Promise.all(over);
      // What went wrong with the last kill or restart is no secret because the work was done meanwhile.
      await Promise.race([failed.promise, Promise.resolve()]);
      for (const at of bed.urls.keys()) stale += await callers.staleWords(at);
    },
    kills: () => kills,
    restarts: () => restarts,
    staleWords: () => stale,
  };
}

/** Only what anybody could ask: the API of both schedulers, the log as a reader sees it, and the workers' own journals. */
async function gather(bed: Bed, callers: Callers, { accepted }: Submitted): Promise<Evidence> {
  const runs = new Map<string, Evidence["runs"] extends ReadonlyMap<string, infer R> ? R : never>();
  const ids = accepted.flatMap((one) => [...one.runIds]);
  let next = 0;
  const readOn = async () => {
    for (let at = next++; at < ids.length; at = next++) {
      const id = ids[at] ?? "";
      // The run from one scheduler, its facts from the other: they must agree.
      runs.set(id, { run: await callers.read(`/api/v1/runs/${id}`, at), facts: await callers.readFacts(id, at + 1) });
    }
  };
  await Promise.all(Array.from({ length: readersMax }, readOn));
  const lists = await Promise.all(bed.urls.map((_, at) => callers.listRuns(at)));
  return { accepted, runs, lists, log: await readLog(bed.storeUrl), executions: readJournals(bed.folder) };
}

async function readLog(url: string): Promise<Evidence["log"]> {
  const reader = openPostgresReader({ url });
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
  const words = readLedgerWords(argv);
  if (words === "help") {
    console.log(ledgerHelp);
    return 0;
  }
  if ("problem" in words) {
    console.error(`ledger: ${words.problem}`);
    return 2;
  }
  const { tasks, workers, restarts } = words;
  const killEveryMs = words.killEverySeconds * 1_000;
  const options = { tasks, workers, killEveryMs, restarts, killsMin: 2, msMax: words.secondsMax * 1_000 };
  console.log(
    `ledger: ${whole(options.tasks)} tasks on 2 schedulers, ${options.workers} workers and one PostgreSQL; a scheduler is killed every ${options.killEveryMs / 1_000} s, PostgreSQL restarted ${options.restarts} times`,
  );
  const { violations, figures, logs } = await keepLedger({
    ...options,
    note: (done, all) => progress("tasks executed", done, all),
  });
  for (const [name, value] of Object.entries(figures)) console.log(`  ${name.padEnd(32)} ${whole(value).padStart(10)}`);
  for (const violation of violations.slice(0, 50)) console.error(`violation: ${violation}`);
  if (violations.length > 50) console.error(`and ${violations.length - 50} more`);
  if (logs !== "") console.error(logs);
  console.log(violations.length === 0 ? "ledger: everything accepted ended once" : `ledger: ${violations.length} violations`);
  return violations.length === 0 ? 0 : 1;
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2));
