// `npm run bench -- postgres`: whole tasks per second of real schedulers on PostgreSQL, one and two on one database, beside graphile-worker on the same
// server; with and without a million finished tasks; and the query plans. contenders.ts runs them, postgres-report.ts prints the figures.

import { loadAverage } from "../harness/child-programs.ts";
import { formatInteger, readNumberOption, showProgress } from "../harness/statistics.ts";
import { BenchPostgresServer } from "./bench-postgres-server.ts";
import { type Contender, type ContenderRound, openGraphileWorker, openSchedulers } from "./contenders.ts";
import { fillFinishedRuns } from "./finished-runs.ts";
import type { GraphileWorkerSettings } from "./graphile-worker-child.ts";
import { type PostgresFigures, showPostgres } from "./postgres-report.ts";
import { collectQueryPlans } from "./query-plans.ts";

interface PostgresBenchOptions {
  readonly rounds: number;
  readonly tasks: number;
  readonly chain: number;
  readonly inFlight: number;
  readonly workers: number;
  readonly turnsInFlight: number;
  readonly history: number;
  readonly isJson: boolean;
  /** Names of sides to open; empty: all. */
  readonly only: readonly string[];
  /** A folder for processor profiles of the schedulers of side `one`. */
  readonly profile: string | null;
}

/**
 * The peer as fast as we could make it: jobs added 1,000 at a time by two callers while the pool runs, 2,000 brought by one fetch, ends
 * gathered for 10 ms. And once more with as many jobs a fetch as ours has in flight, since a window has its price in latency.
 */
const fastestGraphileSettings = { addBatch: 1_000, adders: 2, concurrentJobs: 100, localQueue: 2_000, batchDelayMs: 10 } as const;
const graphileSettingsFor = (window: number) =>
  ({ addBatch: window, adders: 2, concurrentJobs: Math.min(100, window), localQueue: window, batchDelayMs: 0 }) as const;

export async function postgresBench(argv: readonly string[]): Promise<void> {
  const options = readOptions(argv);
  const server = await BenchPostgresServer.start();
  const contenders: Contender[] = [];
  try {
    const say = options.isJson ? () => undefined : console.log;
    const where = `${await server.describe()}, node ${process.version}`;
    say(
      `postgres bench: ${options.rounds} rounds of ${formatInteger(options.tasks)} tasks a side, ${where}, load ${loadAverage()}`,
    );
    const commitMs = await server.commitMs();
    const past = await server.createDatabase("past");
    const stored = await fillFinishedRuns(past, options.history, options.chain);
    await openContenders(server, options, past, contenders);
    const rounds = await measure(contenders, options);
    await Promise.all(contenders.splice(0).map((contender) => contender.close()));
    const { isJson: _, only: __, profile: ___, ...shape } = options;
    const figures: PostgresFigures = { where, shape, commitMs, stored, rounds, plans: await collectQueryPlans(past) };
    if (options.isJson) console.log(JSON.stringify(figures));
    else showPostgres(figures);
    say(`load average at the end ${loadAverage()}`);
    const bad = figures.plans.filter(({ problem }) => problem !== null);
    if (bad.length > 0)
      throw new Error(
        `plans that grow with the number of finished runs: ${bad.map(({ asker, problem }) => `${asker} ${problem}`).join("; ")}`,
      );
  } finally {
    await Promise.all(contenders.map((contender) => contender.close()));
    await server.stop();
  }
}

function readOptions(argv: readonly string[]): PostgresBenchOptions {
  const isQuick = argv.includes("--quick");
  const word = (name: string) => (argv.includes(name) ? (argv[argv.indexOf(name) + 1] ?? null) : null);
  return {
    rounds: readNumberOption(argv, "rounds", isQuick ? 1 : 5),
    tasks: readNumberOption(argv, "tasks", isQuick ? 1_000 : 20_000),
    chain: readNumberOption(argv, "chain", 10),
    inFlight: readNumberOption(argv, "in-flight", 256),
    workers: readNumberOption(argv, "workers", 8),
    turnsInFlight: readNumberOption(argv, "turns-in-flight", 3),
    history: readNumberOption(argv, "history", isQuick ? 20_000 : 1_000_000),
    isJson: argv.includes("--json"),
    only: word("--only")?.split(",") ?? [],
    profile: word("--profile"),
  };
}

/** Opened ones are in `sides` even when a later one fails, so that all can be closed. */
async function openContenders(
  server: BenchPostgresServer,
  options: PostgresBenchOptions,
  past: string,
  contenders: Contender[],
): Promise<void> {
  const { chain, inFlight, workers, turnsInFlight, profile } = options;
  const shape = { chain, inFlight, workers, turnsInFlight };
  const nodeWords = profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
  const ours =
    (name: string, schedulers: number, change: Partial<typeof shape> = {}, url?: string) =>
    async () =>
      openSchedulers(server, {
        ...shape,
        ...change,
        name,
        schedulers,
        url: url ?? (await server.createDatabase(name)),
        nodeFlags: nodeWords,
      });
  const peer = (name: string, processes: number, settings: Omit<GraphileWorkerSettings, "url">) => async () =>
    openGraphileWorker(server, { ...settings, name, processes, url: await server.createDatabase(name) });
  const all: Record<string, () => Promise<Contender>> = {
    one: ours("one", 1),
    two: ours("two", 2),
    past: ours("past", 1, {}, past),
    "one-single": ours("one-single", 1, { chain: 1 }),
    "two-single": ours("two-single", 2, { chain: 1 }),
    "one-1-turn": ours("one-1-turn", 1, { turnsInFlight: 1 }),
    peer: peer("peer", 1, fastestGraphileSettings),
    "peer-two": peer("peer-two", 2, fastestGraphileSettings),
    "peer-window": peer("peer-window", 1, graphileSettingsFor(inFlight)),
    "peer-window-two": peer("peer-window-two", 2, graphileSettingsFor(inFlight)),
  };
  for (const [name, open] of Object.entries(all))
    if (options.only.length === 0 || options.only.includes(name)) contenders.push(await open());
}

/** All sides in turn, again and again: what disturbs the machine disturbs all of them. */
async function measure(contenders: readonly Contender[], options: PostgresBenchOptions): Promise<PostgresFigures["rounds"]> {
  const rounds: Record<string, ContenderRound[]> = Object.fromEntries(contenders.map(({ name }) => [name, []]));
  for (let round = -1; round < options.rounds; round++) {
    for (const [at, contender] of contenders.entries()) {
      const measured = await contender.runRound(options.tasks);
      // The first one only warms up.
      if (round >= 0) rounds[contender.name]?.push(measured);
      showProgress("rounds", (round + 1) * contenders.length + at + 1, (options.rounds + 1) * contenders.length);
    }
  }
  return rounds;
}
