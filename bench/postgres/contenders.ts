// The contenders of the postgres bench: AstraFlow or graphile-worker processes on a database each, and one timed round of them. Processes stay up from
// round to round, so that all are equally warm; postgres-bench.ts decides the order and reports.

import { fileURLToPath } from "node:url";
import { type ChildProgram, readUsage, startProgram, stopProgram } from "../harness/child-programs.ts";
import { type BenchPostgresServer, withClient } from "./bench-postgres-server.ts";
import type { GraphileWorkerSettings } from "./graphile-worker-child.ts";
import type { PostgresLoadShape } from "./postgres-load.ts";
import type { ChildMessage, ChildRequest, SchedulerChildCounts, SchedulerChildSettings } from "./scheduler-child.ts";

export interface ContenderRound {
  /** Whole lives a second: submitted, granted and ended, all on disk. */
  readonly rate: number;
  /** Processor time a task, in microseconds. */
  readonly clientUs: number;
  readonly serverUs: number;
  readonly walBytes: number;
  /** Of our schedulers together, for this round; null on the peer's side. */
  readonly sums: Omit<SchedulerChildCounts, "problems"> | null;
  readonly commitsPerSecond: number;
  readonly tasks: number;
}

export interface Contender {
  readonly name: string;
  runRound(tasks: number): Promise<ContenderRound>;
  close(): Promise<void>;
}

const childFiles = {
  scheduler: fileURLToPath(new URL("./scheduler-child.ts", import.meta.url)),
  peer: fileURLToPath(new URL("./graphile-worker-child.ts", import.meta.url)),
};
const readyMs = 30_000;
const roundMsMax = 300_000;
const pollMs = 2;

/** Processes that share a load. */
class ProcessGroup {
  readonly programs: readonly ChildProgram[];
  readonly #endedByProcess: number[];
  #round: { total: number; resolve: () => void; reject: (error: Error) => void } | null = null;

  constructor(programs: readonly ChildProgram[]) {
    this.programs = programs;
    this.#endedByProcess = programs.map(() => 0);
    for (const [at, program] of programs.entries()) {
      program.process.on("message", (message: ChildMessage) => {
        if (message.said === "failed") this.#fail(new Error(`the ${program.name}: ${message.message}`));
        if (message.said !== "ended") return;
        this.#endedByProcess[at] = message.ended;
        if (this.#round !== null && this.#totalEnded() >= this.#round.total) this.#round.resolve();
      });
      program.process.on("exit", (code) => this.#fail(new Error(`the ${program.name} ended with ${code}`)));
    }
  }

  static async start(name: string, file: string, flags: readonly string[], nodeWords: readonly string[]): Promise<ProcessGroup> {
    // A line of log per job would be the peer's largest cost.
    const env = { ...process.env, NO_LOG_SUCCESS: "1" };
    const programs: ChildProgram[] = [];
    // One after the other: the first brings the tables.
    for (const [at, word] of flags.entries()) {
      const program = startProgram(`${name} ${at + 1}`, [file, word], env, [...process.execArgv, ...nodeWords]);
      programs.push(program);
      await waitForMessage(program, "ready", readyMs);
    }
    return new ProcessGroup(programs);
  }

  /** Resolves when the processes together have ended so many more. */
  async run(shares: readonly number[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#round = { total: this.#totalEnded() + shares.reduce((sum, share) => sum + share, 0), resolve, reject };
    const timer = setTimeout(
      () => reject(new Error(`a round took longer than ${roundMsMax} ms: ${this.#endedByProcess.join(", ")} ended`)),
      roundMsMax,
    );
    for (const [at, program] of this.programs.entries()) program.process.send({ run: shares[at] ?? 0 } satisfies ChildRequest);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#round = null;
    }
  }

  async readCounts(): Promise<SchedulerChildCounts[]> {
    return Promise.all(
      this.programs.map(async (program) => {
        const message = waitForMessage(program, "sums", readyMs);
        program.process.send("sums" satisfies ChildRequest);
        return (await message).sums;
      }),
    );
  }

  cpuMs(): number {
    return this.programs.reduce((sum, { pid }) => sum + readUsage(pid).cpuMs, 0);
  }

  async end(): Promise<void> {
    for (const { process: child } of this.programs) child.removeAllListeners("exit");
    await Promise.all(this.programs.map(stopProgram));
  }

  #totalEnded(): number {
    return this.#endedByProcess.reduce((sum, count) => sum + count, 0);
  }

  #fail(error: Error): void {
    if (this.#round === null) console.error(error.message);
    this.#round?.reject(error);
  }
}

/** The next message of one kind. */
function waitForMessage<S extends ChildMessage["said"]>(
  program: ChildProgram,
  said: S,
  ms: number,
): Promise<Extract<ChildMessage, { said: S }>> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the ${program.name} sent nothing for ${ms} ms`)), ms);
    const listen = (message: ChildMessage) => {
      if (message.said !== said) return;
      clearTimeout(timer);
      program.process.off("message", listen);
      resolve(message as Extract<ChildMessage, { said: S }>);
    };
    program.process.on("message", listen);
  });
}

interface ContenderParts {
  readonly name: string;
  readonly server: BenchPostgresServer;
  readonly processes: ProcessGroup;
  /** Whole runs: a share is never a part of a chain. */
  readonly chain: number;
  /** What must be true after the last end was reported before a round is over. */
  readonly waitUntilFlushed: () => Promise<void>;
  readonly readSums: () => Promise<Omit<SchedulerChildCounts, "problems"> | null>;
}

class TimedContender implements Contender {
  readonly name: string;
  readonly #parts: ContenderParts;

  constructor(parts: ContenderParts) {
    this.name = parts.name;
    this.#parts = parts;
  }

  async runRound(tasks: number): Promise<ContenderRound> {
    const { server, processes: processGroup, chain, waitUntilFlushed: over, readSums } = this.#parts;
    const share = Math.ceil(tasks / processGroup.programs.length / chain) * chain;
    const done = share * processGroup.programs.length;
    const before = { sums: await readSums(), wal: await server.walBytes(), client: processGroup.cpuMs(), server: server.cpuMs() };
    const from = performance.now();
    await processGroup.run(processGroup.programs.map(() => share));
    await over();
    const ms = performance.now() - from;
    const client = processGroup.cpuMs() - before.client;
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
    return this.#parts.processes.end();
  }
}

const countNames = ["turns", "commits", "statements", "roundTrips", "rows"] as const;
type StoreCounts = Omit<SchedulerChildCounts, "problems">;

const mapCounts = (fold: (name: (typeof countNames)[number]) => number): StoreCounts =>
  Object.fromEntries(countNames.map((name) => [name, fold(name)])) as unknown as StoreCounts;
const subtract = (after: StoreCounts, before: StoreCounts): StoreCounts => mapCounts((name) => after[name] - before[name]);

export interface SchedulerContenderOptions extends PostgresLoadShape {
  readonly name: string;
  readonly url: string;
  readonly schedulers: number;
  readonly nodeFlags?: readonly string[];
}

export async function openSchedulers(server: BenchPostgresServer, options: SchedulerContenderOptions): Promise<Contender> {
  const { name, url, schedulers, chain, inFlight, workers, turnsInFlight } = options;
  const settings = (at: number): SchedulerChildSettings => ({
    url,
    replica: `s${at + 1}`,
    chain,
    inFlight,
    workers,
    turnsInFlight,
  });
  const flags = Array.from({ length: schedulers }, (_, at) => JSON.stringify(settings(at)));
  const processGroup = await ProcessGroup.start(`scheduler of ${name}`, childFiles.scheduler, flags, options.nodeFlags ?? []);
  const readSums = async (): Promise<StoreCounts> => {
    const sums = await processGroup.readCounts();
    for (const [at, { problems }] of sums.entries())
      if (Object.keys(problems).length > 0) console.error(`${name}, scheduler ${at + 1} so far: ${JSON.stringify(problems)}`);
    return mapCounts((count) => sums.reduce((sum, one) => sum + one[count], 0));
  };
  return new TimedContender({ name, server, processes: processGroup, chain, waitUntilFlushed: async () => undefined, readSums });
}

export interface GraphileContenderOptions extends GraphileWorkerSettings {
  readonly name: string;
  readonly processes: number;
}

export async function openGraphileWorker(server: BenchPostgresServer, options: GraphileContenderOptions): Promise<Contender> {
  const { name, processes, ...settings } = options;
  const flags = Array.from({ length: processes }, () => JSON.stringify(settings));
  const processGroup = await ProcessGroup.start(`process of ${name}`, childFiles.peer, flags, []);
  // Ends are gathered and written a little later than they are counted; a round is over when no job is left.
  const over = () =>
    withClient(settings.url, async (client) => {
      while ((await client.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1")).rowCount !== 0)
        await new Promise((resolve) => setTimeout(resolve, pollMs));
    });
  return new TimedContender({
    name,
    server,
    processes: processGroup,
    chain: 1,
    waitUntilFlushed: over,
    readSums: () => Promise.resolve(null),
  });
}
