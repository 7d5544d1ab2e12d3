// One installation for the slice bench: a scheduler on a new store and a worker that has joined it, as processes, and rounds of runs
// through both. Which rounds there are, and what is said about them, is in slice.ts.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readKept, Submitter } from "./slice-client.ts";
import {
  endProgram,
  hearReady,
  type Program,
  type SchedulerReady,
  startScheduler,
  startWorker,
  type Usage,
  usageOf,
} from "./slice-processes.ts";

export interface Options {
  readonly rounds: number;
  readonly chain: number;
  readonly runs: number;
  readonly maxParallel: number;
  readonly threads: number;
  readonly singles: number;
  readonly chains: number;
  readonly echoMs: number;
  /** Whether the worker is one that announces no batches: a frame per dispatch and per result. */
  readonly isPlain: boolean;
  /** Folder for processor profiles of scheduler and worker; figures taken with it are slower. */
  readonly profile: string | null;
}

/** Per second, and microseconds of processor time a task (or a round trip) in each process. */
export interface SliceRound {
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
const plainFile = fileURLToPath(new URL("./slice-plain.ts", import.meta.url));

/** What an installation is like, whatever rounds go through it. */
export type BedOptions = Pick<Options, "threads" | "maxParallel" | "isPlain" | "profile">;

export const profileWords = ({ profile }: BedOptions): string[] =>
  profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];

/** One installation: a scheduler on a new store, and a worker that has joined it. */
export class Bed {
  readonly file: string;
  readonly #programs: Program[] = [];
  readonly #dir: string;
  scheduler: Program | null = null;
  worker: Program | null = null;
  submitter: Submitter | null = null;
  #seen = { lastRun: "", position: 0 };

  constructor(dir: string) {
    this.#dir = dir;
    this.file = join(dir, "scheduler", "astra.db");
  }

  async open(options: BedOptions, schedulerWords: readonly string[]): Promise<void> {
    const { threads, maxParallel } = options;
    this.scheduler = this.#own(startScheduler({ dir: join(this.#dir, "scheduler"), threads, nodeWords: schedulerWords }));
    const { http, ws } = await hearReady<SchedulerReady>(this.scheduler);
    const words = [...profileWords(options), ...(options.isPlain ? ["--import", plainFile] : [])];
    this.worker = this.#own(startWorker({ dir: join(this.#dir, "worker"), url: ws, maxParallel, nodeWords: words }));
    await hearReady(this.worker);
    this.submitter = new Submitter(http);
  }

  #own(program: Program): Program {
    this.#programs.push(program);
    return program;
  }

  get parts(): { scheduler: Program; worker: Program; submitter: Submitter } {
    const { scheduler, worker, submitter } = this;
    if (scheduler === null || worker === null || submitter === null) throw new Error("the bed is not open");
    return { scheduler, worker, submitter };
  }

  async round(body: string, runs: number): Promise<SliceRound> {
    const { scheduler, worker, submitter } = this.parts;
    this.#seen = readKept(this.file, this.#seen);
    const turns = await this.#turns();
    const before = [scheduler, worker, process].map(({ pid }) => usageOf(pid));
    const { ms, submitMs } = await submitter.runMany(body, runs);
    const after = [scheduler, worker, process].map(({ pid }) => usageOf(pid));
    const kept = readKept(this.file, this.#seen);
    if (kept.runs !== runs) throw new Error(`${runs} runs were submitted, the store holds ${kept.runs}`);
    const perTask = (at: number, name: keyof Usage) => ((after[at]?.[name] ?? 0) - (before[at]?.[name] ?? 0)) / kept.tasks;
    return {
      rate: (kept.tasks / ms) * 1_000,
      storeRate: (kept.tasks / kept.ms) * 1_000,
      submitShare: submitMs / ms,
      schedulerUs: perTask(0, "cpuMs") * 1_000,
      mainUs: perTask(0, "mainMs") * 1_000,
      workerUs: perTask(1, "cpuMs") * 1_000,
      submitterUs: perTask(2, "cpuMs") * 1_000,
      diskBytes: perTask(0, "diskBytes"),
      turns: ((await this.#turns()) - turns) / kept.tasks,
      eventRows: kept.events / kept.tasks,
    };
  }

  async #turns(): Promise<number> {
    return (await this.parts.submitter.metrics()).get("engine_turns") ?? Number.NaN;
  }

  async close(): Promise<void> {
    this.submitter?.close();
    for (const program of this.#programs.reverse()) await endProgram(program);
  }
}
