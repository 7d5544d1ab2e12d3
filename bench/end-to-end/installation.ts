// One installation of the end-to-end bench: a scheduler on a new store and a worker that has joined it, as processes, and rounds of runs through both.
// end-to-end-bench.ts decides which rounds there are and reports them.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type ChildProgram,
  type ProcessUsage,
  readFamilyUsage,
  readUsage,
  type SchedulerReady,
  startScheduler,
  startWorker,
  stopProgram,
  waitUntilReady,
} from "../harness/child-programs.ts";
import { RunSubmitter, readStoredCounts } from "./run-submitter.ts";

export interface EndToEndOptions {
  readonly rounds: number;
  readonly chain: number;
  readonly runs: number;
  readonly maxParallel: number;
  readonly threads: number;
  /** Where the worker's handlers run; absent: where they do by default. */
  readonly nodeHost?: string | undefined;
  readonly singles: number;
  readonly chains: number;
  readonly echoMs: number;
  /** Whether the worker is one that announces no batches: a frame per dispatch and per result. */
  readonly isPlain: boolean;
  /** Folder for processor profiles of scheduler and worker; figures taken with it are slower. */
  readonly profile: string | null;
}

/** Per second, and microseconds of processor time a task (or a round trip) in each process. */
export interface EndToEndRound {
  readonly rate: number;
  readonly storeRate: number;
  readonly submitShare: number;
  readonly schedulerUs: number;
  /** The part of it that the thread with the sockets took. */
  readonly mainUs: number;
  readonly workerUs: number;
  readonly submitterUs: number;
  readonly diskBytes: number;
  readonly turns: number;
  readonly eventRows: number;
}
const noBatchFile = fileURLToPath(new URL("./disable-batches.ts", import.meta.url));

/** What an installation is like, whatever rounds go through it. */
export type InstallationOptions = Pick<EndToEndOptions, "threads" | "nodeHost" | "maxParallel" | "isPlain" | "profile">;

export const profileFlags = ({ profile }: InstallationOptions): string[] =>
  profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];

/** One installation: a scheduler on a new store, and a worker that has joined it. */
export class Installation {
  readonly file: string;
  readonly #programs: ChildProgram[] = [];
  readonly #dir: string;
  scheduler: ChildProgram | null = null;
  worker: ChildProgram | null = null;
  submitter: RunSubmitter | null = null;
  #readUpTo = { lastRun: "", position: 0 };

  constructor(dir: string) {
    this.#dir = dir;
    this.file = join(dir, "scheduler", "astra.db");
  }

  async open(options: InstallationOptions, schedulerWords: readonly string[]): Promise<void> {
    const { threads, maxParallel } = options;
    this.scheduler = this.#track(startScheduler({ dir: join(this.#dir, "scheduler"), threads, nodeFlags: schedulerWords }));
    const { http, ws } = await waitUntilReady<SchedulerReady>(this.scheduler);
    const flags = [...profileFlags(options), ...(options.isPlain ? ["--import", noBatchFile] : [])];
    this.worker = this.#track(
      startWorker({ dir: join(this.#dir, "worker"), url: ws, maxParallel, nodeHost: options.nodeHost, nodeFlags: flags }),
    );
    await waitUntilReady(this.worker);
    this.submitter = new RunSubmitter(http);
  }

  #track(program: ChildProgram): ChildProgram {
    this.#programs.push(program);
    return program;
  }

  get opened(): { scheduler: ChildProgram; worker: ChildProgram; submitter: RunSubmitter } {
    const { scheduler, worker, submitter } = this;
    if (scheduler === null || worker === null || submitter === null) throw new Error("the installation has not been started");
    return { scheduler, worker, submitter };
  }

  async runRound(body: string, runs: number): Promise<EndToEndRound> {
    const { scheduler, worker, submitter } = this.opened;
    this.#readUpTo = readStoredCounts(this.file, this.#readUpTo);
    const turns = await this.#countTurns();
    const readAll = () => [readUsage(scheduler.pid), readFamilyUsage(worker.pid), readUsage(process.pid)];
    const before = readAll();
    const { ms, submitMs } = await submitter.runMany(body, runs);
    const after = readAll();
    const stored = readStoredCounts(this.file, this.#readUpTo);
    if (stored.runs !== runs) throw new Error(`${runs} runs were submitted, the store holds ${stored.runs}`);
    const perTask = (at: number, name: keyof ProcessUsage) =>
      ((after[at]?.[name] ?? 0) - (before[at]?.[name] ?? 0)) / stored.tasks;
    return {
      rate: (stored.tasks / ms) * 1_000,
      storeRate: (stored.tasks / stored.ms) * 1_000,
      submitShare: submitMs / ms,
      schedulerUs: perTask(0, "cpuMs") * 1_000,
      mainUs: perTask(0, "mainMs") * 1_000,
      workerUs: perTask(1, "cpuMs") * 1_000,
      submitterUs: perTask(2, "cpuMs") * 1_000,
      diskBytes: perTask(0, "diskBytes"),
      turns: ((await this.#countTurns()) - turns) / stored.tasks,
      eventRows: stored.events / stored.tasks,
    };
  }

  async #countTurns(): Promise<number> {
    return (await this.opened.submitter.metrics()).get("engine_turns") ?? Number.NaN;
  }

  async close(): Promise<void> {
    this.submitter?.close();
    for (const program of this.#programs.reverse()) await stopProgram(program);
  }
}
