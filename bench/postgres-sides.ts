// The sides of the postgres bench: processes of ours or of the peer on a database each, and one timed round of them. Processes stay
// up from round to round, so that all are equally warm; who is measured when, and what is shown, is in postgres.ts.

import { fileURLToPath } from "node:url";
import type { LoadShape } from "./postgres-load.ts";
import type { PeerSettings } from "./postgres-peer.ts";
import type { ChildAsk, ChildWord, SchedulerSettings, SchedulerSums } from "./postgres-scheduler.ts";
import { ask, type BenchServer } from "./postgres-server.ts";
import { endProgram, type Program, startProgram, usageOf } from "./slice-processes.ts";

export interface SideRound {
  /** Whole lives a second: submitted, granted and ended, all on disk. */
  readonly rate: number;
  /** Processor time a task, in microseconds. */
  readonly clientUs: number;
  readonly serverUs: number;
  readonly walBytes: number;
  /** Of our schedulers together, for this round; null on the peer's side. */
  readonly sums: Omit<SchedulerSums, "problems"> | null;
  readonly commitsPerSecond: number;
  readonly tasks: number;
}

export interface Side {
  readonly name: string;
  round(tasks: number): Promise<SideRound>;
  close(): Promise<void>;
}

const files = {
  scheduler: fileURLToPath(new URL("./postgres-scheduler.ts", import.meta.url)),
  peer: fileURLToPath(new URL("./postgres-peer.ts", import.meta.url)),
};
const readyMs = 30_000;
const roundMsMax = 300_000;
const pollMs = 2;

/** Processes that share a load. */
class Crew {
  readonly programs: readonly Program[];
  readonly #ended: number[];
  #waiting: { total: number; resolve: () => void; reject: (error: Error) => void } | null = null;

  constructor(programs: readonly Program[]) {
    this.programs = programs;
    this.#ended = programs.map(() => 0);
    for (const [at, program] of programs.entries()) {
      program.process.on("message", (word: ChildWord) => {
        if (word.said === "failed") this.#fail(new Error(`the ${program.name}: ${word.message}`));
        if (word.said !== "ended") return;
        this.#ended[at] = word.ended;
        if (this.#waiting !== null && this.#sum() >= this.#waiting.total) this.#waiting.resolve();
      });
      program.process.on("exit", (code) => this.#fail(new Error(`the ${program.name} ended with ${code}`)));
    }
  }

  static async start(name: string, file: string, words: readonly string[], nodeWords: readonly string[]): Promise<Crew> {
    // A line of log per job would be the peer's largest cost.
    const env = { ...process.env, NO_LOG_SUCCESS: "1" };
    const programs: Program[] = [];
    // One after the other: the first brings the tables.
    for (const [at, word] of words.entries()) {
      const program = startProgram(`${name} ${at + 1}`, [file, word], env, [...process.execArgv, ...nodeWords]);
      programs.push(program);
      await hear(program, "ready", readyMs);
    }
    return new Crew(programs);
  }

  /** Resolves when the processes together have ended so many more. */
  async run(shares: readonly number[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting = { total: this.#sum() + shares.reduce((sum, share) => sum + share, 0), resolve, reject };
    const timer = setTimeout(
      () => reject(new Error(`a round took longer than ${roundMsMax} ms: ${this.#ended.join(", ")} ended`)),
      roundMsMax,
    );
    for (const [at, program] of this.programs.entries()) program.process.send({ run: shares[at] ?? 0 } satisfies ChildAsk);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting = null;
    }
  }

  async sums(): Promise<SchedulerSums[]> {
    return Promise.all(
      this.programs.map(async (program) => {
        const word = hear(program, "sums", readyMs);
        program.process.send("sums" satisfies ChildAsk);
        return (await word).sums;
      }),
    );
  }

  cpuMs(): number {
    return this.programs.reduce((sum, { pid }) => sum + usageOf(pid).cpuMs, 0);
  }

  async end(): Promise<void> {
    for (const { process: child } of this.programs) child.removeAllListeners("exit");
    await Promise.all(this.programs.map(endProgram));
  }

  #sum(): number {
    return this.#ended.reduce((sum, count) => sum + count, 0);
  }

  #fail(error: Error): void {
    if (this.#waiting === null) console.error(error.message);
    this.#waiting?.reject(error);
  }
}

/** The next word of one kind. */
function hear<S extends ChildWord["said"]>(program: Program, said: S, ms: number): Promise<Extract<ChildWord, { said: S }>> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the ${program.name} said nothing for ${ms} ms`)), ms);
    const listen = (word: ChildWord) => {
      if (word.said !== said) return;
      clearTimeout(timer);
      program.process.off("message", listen);
      resolve(word as Extract<ChildWord, { said: S }>);
    };
    program.process.on("message", listen);
  });
}

interface Parts {
  readonly name: string;
  readonly server: BenchServer;
  readonly crew: Crew;
  /** Whole runs: a share is never a part of a chain. */
  readonly chain: number;
  /** What must be true after the last end was told before a round is over. */
  readonly over: () => Promise<void>;
  readonly readSums: () => Promise<Omit<SchedulerSums, "problems"> | null>;
}

class TimedSide implements Side {
  readonly name: string;
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.name = parts.name;
    this.#parts = parts;
  }

  async round(tasks: number): Promise<SideRound> {
    const { server, crew, chain, over, readSums } = this.#parts;
    const share = Math.ceil(tasks / crew.programs.length / chain) * chain;
    const done = share * crew.programs.length;
    const before = { sums: await readSums(), wal: await server.walBytes(), client: crew.cpuMs(), server: server.cpuMs() };
    const from = performance.now();
    await crew.run(crew.programs.map(() => share));
    await over();
    const ms = performance.now() - from;
    const client = crew.cpuMs() - before.client;
    const serverMs = server.cpuMs() - before.server;
    const after = await readSums();
    const sums = after === null || before.sums === null ? null : subtract(after, before.sums);
    return {
      tasks: done,
      rate: (done / ms) * 1_000,
      clientUs: (client / done) * 1_000,
      serverUs: (serverMs / done) * 1_000,
      walBytes: ((await server.walBytes()) - before.wal) / done,
      sums,
      commitsPerSecond: sums === null ? Number.NaN : (sums.commits / ms) * 1_000,
    };
  }

  close(): Promise<void> {
    return this.#parts.crew.end();
  }
}

const countNames = ["turns", "commits", "statements", "roundTrips", "rows"] as const;
type Counts = Omit<SchedulerSums, "problems">;

const combine = (fold: (name: (typeof countNames)[number]) => number): Counts =>
  Object.fromEntries(countNames.map((name) => [name, fold(name)])) as unknown as Counts;
const subtract = (after: Counts, before: Counts): Counts => combine((name) => after[name] - before[name]);

export interface OurSide extends LoadShape {
  readonly name: string;
  readonly url: string;
  readonly schedulers: number;
  readonly nodeWords?: readonly string[];
}

export async function openOurs(server: BenchServer, options: OurSide): Promise<Side> {
  const { name, url, schedulers, chain, inFlight, workers, turnsInFlight } = options;
  const settings = (at: number): SchedulerSettings => ({ url, replica: `s${at + 1}`, chain, inFlight, workers, turnsInFlight });
  const words = Array.from({ length: schedulers }, (_, at) => JSON.stringify(settings(at)));
  const crew = await Crew.start(`scheduler of ${name}`, files.scheduler, words, options.nodeWords ?? []);
  const readSums = async (): Promise<Counts> => {
    const sums = await crew.sums();
    for (const [at, { problems }] of sums.entries())
      if (Object.keys(problems).length > 0) console.error(`${name}, scheduler ${at + 1} so far: ${JSON.stringify(problems)}`);
    return combine((count) => sums.reduce((sum, one) => sum + one[count], 0));
  };
  return new TimedSide({ name, server, crew, chain, over: async () => undefined, readSums });
}

export interface PeerSide extends PeerSettings {
  readonly name: string;
  readonly processes: number;
}

export async function openPeer(server: BenchServer, options: PeerSide): Promise<Side> {
  const { name, processes, ...settings } = options;
  const words = Array.from({ length: processes }, () => JSON.stringify(settings));
  const crew = await Crew.start(`process of ${name}`, files.peer, words, []);
  // Ends are gathered and written a little later than they are counted; a round is over when no job is left.
  const over = () =>
    ask(settings.url, async (client) => {
      while ((await client.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1")).rowCount !== 0)
        await new Promise((resolve) => setTimeout(resolve, pollMs));
    });
  return new TimedSide({ name, server, crew, chain: 1, over, readSums: () => Promise.resolve(null) });
}
