// A seeded afternoon: engines on one memory store, workers and callers with moods, virtual time, crashes; then calm, in which every
// accepted run must end. Chance comes from the seed alone, nothing sleeps, and what must hold is asked of the checkers only.

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
import { type MemoryCluster, memoryCluster } from "@astraflow/store";
import { Dice, randomGraph } from "./weather-dice.ts";
import { digest, Mortal, type Outside } from "./weather-engine.ts";
import { LogCheck, type WorkerFace } from "./weather-log.ts";
import { endProblem, RowCheck } from "./weather-rows.ts";
import { said, type Word } from "./weather-said.ts";
import { WeatherWorker, type Wire } from "./weather-worker.ts";

export interface Weather {
  readonly mode: "strong" | "weak";
  readonly engines: 1 | 2;
  /** Shares of commits that fail or get no answer, and of free roots called busy. */
  readonly rates: { readonly busy: number; readonly fail: number; readonly unknown: number };
  readonly crashes: boolean;
}

/** A turn costs this much virtual time, so that no two turns share an instant, and a clock that is slewed back still moves on. */
const turnMs = 2;
/** More turns than this without a pause: the engine chases its own tail. */
const turnsMax = 4_000;
const tenants = ["t1", "t2"] as const;

export class WeatherWorld implements Outside, Wire {
  readonly dice: Dice;
  readonly settings: EngineSettings;
  /** Types of facts, codes of refusals and deaths that happened: weather in which nothing happens proves nothing. */
  readonly seen = new Set<string>();
  readonly #weather: Weather;
  readonly #cluster: MemoryCluster;
  readonly #reader: Store;
  readonly #rates = { busy: 0, fail: 0, unknown: 0 };
  readonly #workers: WeatherWorker[] = [];
  #engines: Mortal[] = [];
  readonly #rows = new RowCheck();
  /** Runs whose order was answered with an id. */
  readonly #accepted = new Map<string, string>();
  readonly #words = new Map<number, Word>();
  readonly #late: Promise<string | null>[] = [];
  #gated: (() => void)[] = [];
  #isStormy = true;
  #time = 1_800_000_000_000;
  #wallOff = 0;
  #turns = 0;
  #settled = 0;
  #count = 0;
  #problem: string | null = null;

  constructor(seed: number, weather: Weather) {
    this.dice = new Dice(seed);
    this.#weather = weather;
    this.settings = this.#randomSettings();
    this.#cluster = memoryCluster({
      mode: weather.mode,
      dice: this.dice,
      clock: { mono: () => (this.#time += turnMs), wall: () => this.#time + this.#wallOff },
      rates: this.#rates,
      gate: ({ step }) => this.#gate(step),
    });
    this.#reader = this.#cluster.handle();
  }

  #randomSettings(): EngineSettings {
    const { dice } = this;
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
      turnsInFlight: this.#weather.mode === "weak" ? dice.pick([1, 2, 4]) : 1,
      turnCommandsMax: dice.pick([2, 5, 1_024]),
      sweepTasksMax: dice.pick([1, 3, 500]),
      dueMax: dice.pick([2, 500]),
      claimLinesMax: dice.pick([1, 3, 64]),
      maxDeliveries: dice.pick([2, 5, 30]),
    };
  }

  /** Storm, then calm. The first broken promise, or null. */
  async live(): Promise<string | null> {
    for (let engine = 1; engine <= this.#weather.engines; engine++) await this.#boot(`r${engine}`);
    for (const tenant of tenants)
      for (let at = 0; at < 3; at++) {
        // One in three cannot report what it runs.
        const dialect = at === 2 ? "first" : "v2";
        const changes = { slots: 1 + this.dice.below(3), pool: at === 0 ? "gpu" : "default", dialect };
        this.#workers.push(new WeatherWorker(this, tenant, `w${at}`, changes));
      }
    Object.assign(this.#rates, this.#weather.rates);
    for (let step = 0; step < 60 && this.#problem === null; step++) await this.#storm();
    await this.#clear();
    for (let second = 0; second < 300 && this.#problem === null; second++) {
      for (const worker of this.#workers) worker.calm();
      await this.#pass(500);
      await this.#pass(500);
      await this.#look();
      if (second > 5 && (await this.#isOver())) break;
    }
    if (this.#problem === null) await this.#judge();
    return this.#problem;
  }

  async #storm(): Promise<void> {
    const { dice } = this;
    for (const worker of this.#workers) if (dice.chance(0.7)) worker.storm();
    if (dice.chance(0.3)) this.#order();
    if (dice.chance(0.06)) this.#cancel();
    if (dice.chance(0.06)) this.#drain(dice.pick(this.#workers), dice.chance(0.5));
    if (dice.chance(0.03)) this.#kick(dice.pick(this.#workers));
    if (this.#weather.crashes && dice.chance(0.05)) {
      const mortal = dice.pick(this.#engines);
      mortal.diesAt = dice.pick(engineFailpoints);
    }
    if (dice.chance(0.05)) this.#wallOff += dice.pick([-60_000, 60_000]);
    await this.#pass(dice.weigh({ 0: 4, 60: 4, 300: 3, 700: 2, 1_600: 1, 60_000: 0.1 }));
    for (const [at, mortal] of this.#engines.entries())
      if (mortal.isDead && dice.chance(0.5)) this.#engines[at] = await this.#boot(mortal.replica, at);
    await this.#look();
  }

  /** The storm is over: no more faults, everybody is there, nobody drains. */
  async #clear(): Promise<void> {
    this.#isStormy = false;
    Object.assign(this.#rates, { busy: 0, fail: 0, unknown: 0 });
    for (const [at, mortal] of this.#engines.entries()) {
      mortal.diesAt = null;
      if (mortal.isDead) await this.#boot(mortal.replica, at);
    }
    for (const worker of this.#workers) this.#drain(worker, false);
  }

  async #boot(replica: string, at = this.#engines.length): Promise<Mortal> {
    const mortal = new Mortal(replica, this.#cluster.handle(), this);
    this.#engines[at] = mortal;
    void mortal.engine.start({ replica, cluster: "c1" });
    await this.#settle();
    return mortal;
  }

  #order(): void {
    const to = this.somewhere();
    if (to === null) return;
    const { dice } = this;
    const tenant = dice.pick(tenants);
    const body = canonicalJson(randomGraph(dice));
    const ask = dice.chance(0.5) ? { key: `ask${++this.#count}`, digest: digest(body) } : null;
    const timeoutMs = dice.chance(0.1) ? 10_000 + dice.below(20_000) : null;
    const order: Command = {
      type: "run.start",
      tenant,
      by: "caller",
      digest: digest(body),
      body,
      client: "c",
      priority: dice.below(10),
      timeoutMs,
      ask,
    };
    this.ask(to, order);
    // A caller that did not wait for the answer: the same order again, perhaps to another scheduler.
    if (ask !== null && dice.chance(0.3)) this.ask(this.somewhere() ?? to, order);
  }

  #cancel(): void {
    const to = this.somewhere();
    const runs = [...this.#accepted];
    if (to === null || runs.length === 0) return;
    const [run, tenant] = this.dice.pick(runs);
    this.ask(to, { type: "run.cancel", tenant, by: "caller", run, reason: "changed my mind" });
  }

  #drain({ tenant, id }: WeatherWorker, on: boolean): void {
    const to = this.somewhere();
    if (to !== null) this.ask(to, { type: "worker.drain", tenant, by: "operator", worker: id, on });
  }

  #kick({ tenant, id }: WeatherWorker): void {
    const to = this.somewhere();
    if (to !== null) this.ask(to, { type: "worker.kick", tenant, by: "operator", worker: id, reason: "out" });
  }

  somewhere(): Mortal | null {
    const living = this.#engines.filter((mortal) => !mortal.isDead);
    return living.length === 0 ? null : this.dice.pick(living);
  }

  ask(to: Mortal, command: Command, heard: (fault: FaultData | null) => void = () => undefined): void {
    if (to.isDead) return;
    const ref = ++this.#count;
    this.#words.set(ref, { to, command, heard, at: this.#settled, answers: 0 });
    to.stir((engine) => engine.push([{ ref, command }]));
  }

  hear(from: Mortal, effects: readonly Effect[]): void {
    for (const effect of effects) {
      const word = effect.type === "answer" ? this.#words.get(effect.ref) : undefined;
      // Asked before anything else runs: what is said must be visible by now.
      this.#late.push(said(this.#reader, effect, word));
      if (effect.type === "answer") {
        if (word === undefined || word.to !== from || ++word.answers > 1) this.#fail(`command ${effect.ref} was answered again`);
        else {
          if (effect.body?.of === "run") this.#accepted.set(effect.body.run, word.command.tenant);
          if (effect.fault !== null) this.seen.add(effect.fault.code);
          word.heard(effect.fault);
        }
      } else if ("session" in effect) this.#deliver(from, effect);
    }
  }

  #deliver(from: Mortal, effect: Extract<Effect, { worker: string; session: string }>): void {
    const worker = this.#workers.find((one) => one.id === effect.worker);
    if (effect.type === "reset") worker?.reset(from, effect.session);
    else if (effect.type === "dispatch") worker?.receive(from, effect, this.#isStormy && this.dice.chance(0.08));
    else if (this.#isStormy && this.dice.chance(0.08))
      return; // The frame is lost on its way.
    else if (effect.type === "stop") worker?.stop(from, effect.session, effect);
  }

  /** Time passes, at most half a second at once unless the whole machine stood still. */
  async #pass(text: string | number): Promise<void> {
    const ms = Number(text);
    this.#time += ms;
    for (const mortal of this.#engines) mortal.tick();
    await this.#settle();
  }

  /** Lets the engines work until all of them idle; commits become visible in an order the dice choose. */
  async #settle(): Promise<void> {
    this.#turns = 0;
    this.#settled++;
    for (;;) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      for (const mortal of this.#engines) if (mortal.isDead) this.#bury(mortal);
      if (this.#problem !== null) return;
      const next = this.#gated.splice(this.dice.below(this.#gated.length), 1)[0];
      if (next !== undefined) {
        next();
        continue;
      }
      const busy = this.#engines.find((mortal) => !mortal.isDead && !mortal.isIdle);
      if (busy !== undefined) this.#fail(`the engine of ${busy.replica} stands still`);
      for (const one of await Promise.all(this.#late.splice(0))) if (one !== null) this.#fail(one);
      for (const [ref, word] of this.#words)
        if (word.answers > 0 || word.to.isDead) this.#words.delete(ref);
        // A store that refuses commits is given a pause, so an engine may idle over commands; but not for long.
        else if (this.#settled - word.at > 40) this.#fail(`${word.command.type} was not answered`);
      return;
    }
  }

  /** Sockets end with their process; the workers notice. */
  #bury(mortal: Mortal): void {
    this.seen.add(`died at ${mortal.diesAt}`);
    for (const worker of this.#workers) worker.cut(mortal);
  }

  #gate(step: "begin" | "commit" | "late"): Promise<void> | undefined {
    if (step === "begin" && ++this.#turns > turnsMax) {
      this.#fail(`${turnsMax} turns without a pause`);
      return new Promise(() => undefined);
    }
    if (this.#weather.mode === "strong" || this.dice.chance(0.6)) return undefined;
    return new Promise((resolve) => void this.#gated.push(resolve));
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

  async #look(): Promise<void> {
    const workers: WorkerRow[] = [];
    for (const tenant of tenants) workers.push(...(await this.#reader.page({ page: "workers", tenant })).items);
    const problem = this.#rows.look(await this.#details(), workers);
    if (problem !== null) this.#fail(problem);
  }

  async #isOver(): Promise<boolean> {
    return (await this.#details()).every((detail) => endProblem(detail) === null);
  }

  async #judge(): Promise<void> {
    const details = await this.#details();
    const stored = new Set(details.map(({ run }) => run.id));
    for (const run of this.#accepted.keys()) if (!stored.has(run)) this.#fail(`run ${run} was accepted and is gone`);
    for (const detail of details) {
      const problem = endProblem(detail);
      if (problem !== null) this.#fail(problem);
    }
    const faces = new Map<string, WorkerFace>(this.#workers.map(({ id, about }) => [id, about]));
    for (const tenant of tenants) {
      const check = new LogCheck(tenant, details, faces);
      const { items } = await this.#reader.events({ tenant, after: 0, limit: 1_000_000 });
      for (const { type } of items) this.seen.add(type);
      const problem = check.replay(items);
      if (problem !== null) this.#fail(problem);
      for (const { run } of details)
        if (run.tenant === tenant && check.endOf(run.id) !== `run.${run.phase}`)
          this.#fail(`run ${run.id} is ${run.phase}, its log says ${check.endOf(run.id)}`);
    }
  }

  nextId(now = this.#time): string {
    return `${now.toString(16).padStart(12, "0")}-${String(++this.#count).padStart(8, "0")}`;
  }
  roll(): number {
    return this.dice.roll();
  }
  mono(): number {
    return this.#time;
  }
  reported(mortal: Mortal, problem: { code: string; message: string; cause?: unknown }): void {
    this.#fail(`${mortal.replica} reported ${problem.code}: ${problem.message} (${String(problem.cause)})`);
  }
}
