// Fuzz test of the engine: one seed drives engines, workers, callers, clock jumps and crashes, then a fault-free phase in which every
// accepted run must end. All randomness comes from the seed, nothing sleeps, and only the checkers decide what must hold.

import {
  type Command,
  defaultSettings,
  type Effect,
  type EngineSettings,
  engineFailpoints,
  type FaultData,
  type RunDetail,
  type Store,
  type WorkerRow,
} from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { MemoryCluster } from "@astraflow/store";
import { FuzzRandom, randomWorkflow } from "../harness/fuzz-random.ts";
import { type PendingCommand, visibilityProblem } from "./effect-visibility.ts";
import { FuzzWorker, type FuzzWorkerLink } from "./fuzz-worker.ts";
import { type EngineEnvironment, KillableEngine, sha256Digest } from "./killable-engine.ts";
import { LogChecker, type WorkerCapacity } from "./log-checker.ts";
import { RowChecker, unfinishedRunProblem } from "./row-checker.ts";

export interface FuzzOptions {
  readonly mode: "strong" | "weak";
  readonly engines: 1 | 2;
  /** Shares of commits that fail or get no answer, and of free roots called busy. */
  readonly rates: { readonly busy: number; readonly fail: number; readonly unknown: number };
  readonly crashes: boolean;
}

/** A turn costs this much virtual time, so that no two turns share an instant, and a clock that is slewed back still moves on. */
const virtualTurnMs = 2;
/** More turns than this without a pause: the engine chases its own tail. */
const turnsMax = 4_000;
const tenants = ["t1", "t2"] as const;

export class EngineFuzz implements EngineEnvironment, FuzzWorkerLink {
  readonly random: FuzzRandom;
  readonly settings: EngineSettings;
  /** Types of facts, codes of refusals and deaths that happened: a run in which nothing happened proves nothing. */
  readonly occurrences = new Set<string>();
  readonly #options: FuzzOptions;
  readonly #cluster: MemoryCluster;
  readonly #reader: Store;
  readonly #rates = { busy: 0, fail: 0, unknown: 0 };
  readonly #workers: FuzzWorker[] = [];
  #engines: KillableEngine[] = [];
  readonly #rows = new RowChecker();
  /** Runs whose order was answered with an id. */
  readonly #accepted = new Map<string, string>();
  readonly #pendingCommands = new Map<number, PendingCommand>();
  readonly #visibilityChecks: Promise<string | null>[] = [];
  #pausedCommits: (() => void)[] = [];
  #hasFaults = true;
  #time = 1_800_000_000_000;
  #wallClockOffset = 0;
  #turns = 0;
  #rounds = 0;
  #count = 0;
  #problem: string | null = null;

  constructor(seed: number, options: FuzzOptions) {
    this.random = new FuzzRandom(seed);
    this.#options = options;
    this.settings = this.#randomSettings();
    this.#cluster = new MemoryCluster({
      mode: options.mode,
      random: this.random,
      clock: { mono: () => (this.#time += virtualTurnMs), wall: () => this.#time + this.#wallClockOffset },
      rates: this.#rates,
      pauseAt: ({ step }) => this.#pauseAt(step),
    });
    this.#reader = this.#cluster.createHandle();
  }

  #randomSettings(): EngineSettings {
    const { random } = this;
    return {
      ...defaultSettings,
      leaseMs: 6_000,
      heartbeatMs: 2_000,
      quietLeaseMs: 20_000,
      quietHeartbeatMs: 6_000,
      saturatedMs: 3_000,
      idleMs: 500,
      ackDeadlineMs: 1_500,
      ackStoreMs: 400,
      turnsInFlight: this.#options.mode === "weak" ? random.pick([1, 2, 4]) : 1,
      turnCommandsMax: random.pick([2, 5, 1_024]),
      sweepTasksMax: random.pick([1, 3, 500]),
      dueMax: random.pick([2, 500]),
      claimLinesMax: random.pick([1, 3, 64]),
      maxDeliveries: random.pick([2, 5, 30]),
    };
  }

  /** Fault phase, then calm. The first broken promise, or null. */
  async run(): Promise<string | null> {
    for (let engine = 1; engine <= this.#options.engines; engine++) await this.#startEngine(`r${engine}`);
    for (const tenant of tenants)
      for (let at = 0; at < 3; at++) {
        // One in three cannot report what it runs.
        const dialect = at === 2 ? "first" : "v2";
        const changes = { slots: 1 + this.random.integerBelow(3), pool: at === 0 ? "gpu" : "default", dialect };
        this.#workers.push(new FuzzWorker(this, tenant, `w${at}`, changes));
      }
    Object.assign(this.#rates, this.#options.rates);
    for (let step = 0; step < 60 && this.#problem === null; step++) await this.#faultStep();
    await this.#endFaults();
    for (let second = 0; second < 300 && this.#problem === null; second++) {
      for (const worker of this.#workers) worker.actCorrectly();
      await this.#passTime(500);
      await this.#passTime(500);
      await this.#checkRows();
      if (second > 5 && (await this.#isOver())) break;
    }
    if (this.#problem === null) await this.#checkFinalState();
    return this.#problem;
  }

  async #faultStep(): Promise<void> {
    const { random } = this;
    for (const worker of this.#workers) if (random.chance(0.7)) worker.actRandomly();
    if (random.chance(0.3)) this.#startRandomRun();
    if (random.chance(0.06)) this.#cancelRandomRun();
    if (random.chance(0.06)) this.#drain(random.pick(this.#workers), random.chance(0.5));
    if (random.chance(0.03)) this.#kick(random.pick(this.#workers));
    if (this.#options.crashes && random.chance(0.05)) {
      const killable = random.pick(this.#engines);
      killable.killAt = random.pick(engineFailpoints);
    }
    if (random.chance(0.05)) this.#wallClockOffset += random.pick([-60_000, 60_000]);
    await this.#passTime(random.pickWeighted({ 0: 4, 60: 4, 300: 3, 700: 2, 1_600: 1, 60_000: 0.1 }));
    for (const [at, killable] of this.#engines.entries())
      if (killable.isKilled && random.chance(0.5)) this.#engines[at] = await this.#startEngine(killable.replica, at);
    await this.#checkRows();
  }

  /** The fault phase is over: no more faults, everybody is there, nobody drains. */
  async #endFaults(): Promise<void> {
    this.#hasFaults = false;
    Object.assign(this.#rates, { busy: 0, fail: 0, unknown: 0 });
    for (const [at, killable] of this.#engines.entries()) {
      killable.killAt = null;
      if (killable.isKilled) await this.#startEngine(killable.replica, at);
    }
    for (const worker of this.#workers) this.#drain(worker, false);
  }

  async #startEngine(replica: string, at = this.#engines.length): Promise<KillableEngine> {
    const killable = new KillableEngine(replica, this.#cluster.createHandle(), this);
    this.#engines[at] = killable;
    void killable.engine.start({ replica, cluster: "c1" });
    await this.#settle();
    return killable;
  }

  #startRandomRun(): void {
    const to = this.pickEngine();
    if (to === null) return;
    const { random } = this;
    const tenant = random.pick(tenants);
    const body = canonicalJson(randomWorkflow(random));
    const ask = random.chance(0.5) ? { key: `ask${++this.#count}`, digest: sha256Digest(body) } : null;
    const timeoutMs = random.chance(0.1) ? 10_000 + random.integerBelow(20_000) : null;
    const order: Command = {
      type: "run.start",
      tenant,
      by: "caller",
      digest: sha256Digest(body),
      body,
      client: "c",
      priority: random.integerBelow(10),
      timeoutMs,
      ask,
    };
    this.send(to, order);
    // A caller that did not wait for the answer: the same order again, perhaps to another scheduler.
    if (ask !== null && random.chance(0.3)) this.send(this.pickEngine() ?? to, order);
  }

  #cancelRandomRun(): void {
    const to = this.pickEngine();
    const runs = [...this.#accepted];
    if (to === null || runs.length === 0) return;
    const [run, tenant] = this.random.pick(runs);
    this.send(to, { type: "run.cancel", tenant, by: "caller", run, reason: "changed my mind" });
  }

  #drain({ tenant, id }: FuzzWorker, on: boolean): void {
    const to = this.pickEngine();
    if (to !== null) this.send(to, { type: "worker.drain", tenant, by: "operator", worker: id, on });
  }

  #kick({ tenant, id }: FuzzWorker): void {
    const to = this.pickEngine();
    if (to !== null) this.send(to, { type: "worker.kick", tenant, by: "operator", worker: id, reason: "out" });
  }

  pickEngine(): KillableEngine | null {
    const living = this.#engines.filter((killable) => !killable.isKilled);
    return living.length === 0 ? null : this.random.pick(living);
  }

  send(to: KillableEngine, command: Command, onAnswer: (fault: FaultData | null) => void = () => undefined): void {
    if (to.isKilled) return;
    const ref = ++this.#count;
    this.#pendingCommands.set(ref, { engine: to, command, onAnswer, sentInRound: this.#rounds, answers: 0 });
    to.giveWork((engine) => engine.push([{ ref, command }]));
  }

  receiveEffects(from: KillableEngine, effects: readonly Effect[]): void {
    for (const effect of effects) {
      const word = effect.type === "answer" ? this.#pendingCommands.get(effect.ref) : undefined;
      // Checked before anything else runs: what an effect reports must be visible by now.
      this.#visibilityChecks.push(visibilityProblem(this.#reader, effect, word));
      if (effect.type === "answer") {
        if (word === undefined || word.engine !== from || ++word.answers > 1)
          this.#fail(`command ${effect.ref} was answered again`);
        else {
          if (effect.body?.of === "run") this.#accepted.set(effect.body.run, word.command.tenant);
          if (effect.fault !== null) this.occurrences.add(effect.fault.code);
          word.onAnswer(effect.fault);
        }
      } else if ("session" in effect) this.#deliver(from, effect);
    }
  }

  #deliver(from: KillableEngine, effect: Extract<Effect, { worker: string; session: string }>): void {
    const worker = this.#workers.find((one) => one.id === effect.worker);
    if (effect.type === "reset") worker?.receiveReset(from, effect.session);
    else if (effect.type === "dispatch") worker?.receiveDispatch(from, effect, this.#hasFaults && this.random.chance(0.08));
    else if (this.#hasFaults && this.random.chance(0.08))
      return; // The frame is lost on its way.
    else if (effect.type === "stop") worker?.receiveStop(from, effect.session, effect);
  }

  /** Time passes, at most half a second at once unless the whole machine stood still. */
  async #passTime(text: string | number): Promise<void> {
    const ms = Number(text);
    this.#time += ms;
    for (const killable of this.#engines) killable.wakeIfDue();
    await this.#settle();
  }

  /** Lets the engines work until all of them idle; commits become visible in an order the dice choose. */
  async #settle(): Promise<void> {
    this.#turns = 0;
    this.#rounds++;
    for (;;) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      for (const killable of this.#engines) if (killable.isKilled) this.#cutConnectionsTo(killable);
      if (this.#problem !== null) return;
      const next = this.#pausedCommits.splice(this.random.integerBelow(this.#pausedCommits.length), 1)[0];
      if (next !== undefined) {
        next();
        continue;
      }
      const busy = this.#engines.find((killable) => !killable.isKilled && !killable.isIdle);
      if (busy !== undefined) this.#fail(`the engine of ${busy.replica} stands still`);
      for (const one of await Promise.all(this.#visibilityChecks.splice(0))) if (one !== null) this.#fail(one);
      for (const [ref, word] of this.#pendingCommands)
        if (word.answers > 0 || word.engine.isKilled) this.#pendingCommands.delete(ref);
        // A store that refuses commits is given a pause, so an engine may idle over commands; but not for long.
        else if (this.#rounds - word.sentInRound > 40) this.#fail(`${word.command.type} was not answered`);
      return;
    }
  }

  /** Sockets end with their process; the workers notice. */
  #cutConnectionsTo(killable: KillableEngine): void {
    this.occurrences.add(`died at ${killable.killAt}`);
    for (const worker of this.#workers) worker.loseConnection(killable);
  }

  #pauseAt(step: "begin" | "commit" | "late"): Promise<void> | undefined {
    if (step === "begin" && ++this.#turns > turnsMax) {
      this.#fail(`${turnsMax} turns without a pause`);
      return new Promise(() => undefined);
    }
    if (this.#options.mode === "strong" || this.random.chance(0.6)) return undefined;
    return new Promise((resolve) => void this.#pausedCommits.push(resolve));
  }

  #fail(problem: string): void {
    this.#problem ??= problem;
  }

  async #details(): Promise<RunDetail[]> {
    const details: RunDetail[] = [];
    for (const tenant of tenants)
      for (const { id } of (await this.#reader.page({ page: "runs", tenant, limit: 1_000 })).items) {
        const { detail } = await this.#reader.page({ page: "run", tenant, run: id });
        if (detail !== null) details.push(detail);
      }
    return details;
  }

  async #checkRows(): Promise<void> {
    const workers: WorkerRow[] = [];
    for (const tenant of tenants) workers.push(...(await this.#reader.page({ page: "workers", tenant })).items);
    const problem = this.#rows.check(await this.#details(), workers);
    if (problem !== null) this.#fail(problem);
  }

  async #isOver(): Promise<boolean> {
    return (await this.#details()).every((detail) => unfinishedRunProblem(detail) === null);
  }

  async #checkFinalState(): Promise<void> {
    const details = await this.#details();
    const stored = new Set(details.map(({ run }) => run.id));
    for (const run of this.#accepted.keys()) if (!stored.has(run)) this.#fail(`run ${run} was accepted and is gone`);
    for (const detail of details) {
      const problem = unfinishedRunProblem(detail);
      if (problem !== null) this.#fail(problem);
    }
    const capacities = new Map<string, WorkerCapacity>(this.#workers.map(({ id, about }) => [id, about]));
    for (const tenant of tenants) {
      const check = new LogChecker(tenant, details, capacities);
      const { items } = await this.#reader.events({ tenant, after: 0, limit: 1_000_000 });
      for (const { type } of items) this.occurrences.add(type);
      const problem = check.replay(items);
      if (problem !== null) this.#fail(problem);
      for (const { run } of details)
        if (run.tenant === tenant && check.endFactOf(run.id) !== `run.${run.phase}`)
          this.#fail(`run ${run.id} is ${run.phase}, its log says ${check.endFactOf(run.id)}`);
    }
  }

  nextId(now = this.#time): string {
    return `${now.toString(16).padStart(12, "0")}-${String(++this.#count).padStart(8, "0")}`;
  }
  nextRandom(): number {
    return this.random.random();
  }
  mono(): number {
    return this.#time;
  }
  receiveProblem(killable: KillableEngine, problem: { code: string; message: string; cause?: unknown }): void {
    this.#fail(`${killable.replica} reported ${problem.code}: ${problem.message} (${String(problem.cause)})`);
  }
}
