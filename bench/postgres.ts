// `npm run bench -- postgres`: whole task lives a second of real schedulers on PostgreSQL, one and two on one database, beside
// graphile-worker on the same server in the same minutes; with and without a million finished tasks; and the plans of what is asked.
// How a side works is in postgres-sides.ts, how figures are shown in postgres-figures.ts.

import { progress, readOption, whole } from "./figures.ts";
import { type PostgresFigures, showPostgres } from "./postgres-figures.ts";
import { fillHistory } from "./postgres-history.ts";
import type { PeerSettings } from "./postgres-peer.ts";
import { readPlans } from "./postgres-plans.ts";
import { BenchServer } from "./postgres-server.ts";
import { openOurs, openPeer, type Side, type SideRound } from "./postgres-sides.ts";
import { loadAverage } from "./slice-processes.ts";

interface Options {
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
const bestPeer = { addBatch: 1_000, adders: 2, concurrentJobs: 100, localQueue: 2_000, batchDelayMs: 10 } as const;
const peerWithin = (window: number) =>
  ({ addBatch: window, adders: 2, concurrentJobs: Math.min(100, window), localQueue: window, batchDelayMs: 0 }) as const;

export async function postgresBench(argv: readonly string[]): Promise<void> {
  const options = readOptions(argv);
  const server = await BenchServer.start();
  const sides: Side[] = [];
  try {
    const say = options.isJson ? () => undefined : console.log;
    const where = `${await server.describe()}, node ${process.version}`;
    say(`postgres bench: ${options.rounds} rounds of ${whole(options.tasks)} tasks a side, ${where}, load ${loadAverage()}`);
    const commitMs = await server.commitMs();
    const past = await server.createDatabase("past");
    const stored = await fillHistory(past, options.history, options.chain);
    await openSides(server, options, past, sides);
    const rounds = await measure(sides, options);
    await Promise.all(sides.splice(0).map((side) => side.close()));
    const { isJson: _, only: __, profile: ___, ...shape } = options;
    const figures: PostgresFigures = { where, shape, commitMs, stored, rounds, plans: await readPlans(past) };
    if (options.isJson) console.log(JSON.stringify(figures));
    else showPostgres(figures);
    say(`load average at the end ${loadAverage()}`);
    const bad = figures.plans.filter(({ problem }) => problem !== null);
    if (bad.length > 0)
      throw new Error(`plans that grow with the past: ${bad.map(({ asker, problem }) => `${asker} ${problem}`).join("; ")}`);
  } finally {
    await Promise.all(sides.map((side) => side.close()));
    await server.stop();
  }
}

function readOptions(argv: readonly string[]): Options {
  const isQuick = argv.includes("--quick");
  const word = (name: string) => (argv.includes(name) ? (argv[argv.indexOf(name) + 1] ?? null) : null);
  return {
    rounds: readOption(argv, "rounds", isQuick ? 1 : 5),
    tasks: readOption(argv, "tasks", isQuick ? 1_000 : 20_000),
    chain: readOption(argv, "chain", 10),
    inFlight: readOption(argv, "in-flight", 256),
    workers: readOption(argv, "workers", 8),
    turnsInFlight: readOption(argv, "turns-in-flight", 3),
    history: readOption(argv, "history", isQuick ? 20_000 : 1_000_000),
    isJson: argv.includes("--json"),
    only: word("--only")?.split(",") ?? [],
    profile: word("--profile"),
  };
}

/** Opened ones are in `sides` even when a later one fails, so that all can be closed. */
async function openSides(server: BenchServer, options: Options, past: string, sides: Side[]): Promise<void> {
  const { chain, inFlight, workers, turnsInFlight, profile } = options;
  const shape = { chain, inFlight, workers, turnsInFlight };
  const nodeWords = profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
  const ours =
    (name: string, schedulers: number, change: Partial<typeof shape> = {}, url?: string) =>
    async () =>
      openOurs(server, { ...shape, ...change, name, schedulers, url: url ?? (await server.createDatabase(name)), nodeWords });
  const peer = (name: string, processes: number, settings: Omit<PeerSettings, "url">) => async () =>
    openPeer(server, { ...settings, name, processes, url: await server.createDatabase(name) });
  const all: Record<string, () => Promise<Side>> = {
    one: ours("one", 1),
    two: ours("two", 2),
    past: ours("past", 1, {}, past),
    "one-single": ours("one-single", 1, { chain: 1 }),
    "two-single": ours("two-single", 2, { chain: 1 }),
    "one-1-turn": ours("one-1-turn", 1, { turnsInFlight: 1 }),
    peer: peer("peer", 1, bestPeer),
    "peer-two": peer("peer-two", 2, bestPeer),
    "peer-window": peer("peer-window", 1, peerWithin(inFlight)),
    "peer-window-two": peer("peer-window-two", 2, peerWithin(inFlight)),
  };
  for (const [name, open] of Object.entries(all))
    if (options.only.length === 0 || options.only.includes(name)) sides.push(await open());
}

/** All sides in turn, again and again: what disturbs the machine disturbs all of them. */
async function measure(sides: readonly Side[], options: Options): Promise<PostgresFigures["rounds"]> {
  const rounds: Record<string, SideRound[]> = Object.fromEntries(sides.map(({ name }) => [name, []]));
  for (let round = -1; round < options.rounds; round++) {
    for (const [at, side] of sides.entries()) {
      const seen = await side.round(options.tasks);
      // The first one only warms up.
      if (round >= 0) rounds[side.name]?.push(seen);
      progress("rounds", (round + 1) * sides.length + at + 1, (options.rounds + 1) * sides.length);
    }
  }
  return rounds;
}
