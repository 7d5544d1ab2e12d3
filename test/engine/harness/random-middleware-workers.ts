// Workers that act as middlewares and hosts at random: they pass, change, repeat, withhold, fail, skip and hang, crash, return, and
// repeat requests. They count what they were granted, so that a test can check slots and calls.

import type { Command, Effect, SendDispatch, SendNextAnswer } from "@astraflow/engine";
import { type EngineHarness, RefusedError, type TestWorker } from "./engine-harness.ts";
import type { FuzzRandom } from "./fuzz-random.ts";
import { nextCommand } from "./middleware-chains.ts";

type Dispatch = SendDispatch["dispatch"];

type PlannedStep =
  | { readonly do: "next"; readonly timeoutMs: number | null; readonly payload: object | null; readonly isAwaited: boolean }
  | { readonly do: "end"; readonly status: "succeeded" | "failed" | "skipped" | "cancelled" }
  /** Never sends anything again. */
  | { readonly do: "hang" };

interface RunningAttempt {
  readonly dispatch: Dispatch;
  readonly steps: PlannedStep[];
  /** Its requests without an answer yet; an attempt that waits for none of them may go on meanwhile. */
  readonly pending: Map<string, Command>;
  isBlocked: boolean;
  requestCount: number;
}

interface RandomWorker {
  readonly name: string;
  readonly slots: number;
  worker: TestWorker;
  boots: number;
  readonly attempts: Map<string, RunningAttempt>;
}

const attemptKey = ({ task, fence }: { readonly task: string; readonly fence: number }): string => `${task}#${fence}`;

export class RandomMiddlewareWorkers {
  #harness: EngineHarness;
  readonly #random: FuzzRandom;
  readonly workers: RandomWorker[] = [];
  /** What went wrong as the workers saw it. */
  readonly violations: string[] = [];
  #effectsRead = 0;
  #hasNoFaults = false;

  constructor(harness: EngineHarness, random: FuzzRandom) {
    this.#harness = harness;
    this.#random = random;
  }

  async join(name: string, slots: number): Promise<void> {
    const worker = await this.#harness.joinWorker(name, { slots, boot: `${name}-0` });
    this.workers.push({ name, slots, worker, boots: 0, attempts: new Map() });
  }

  /** Another engine on the same store: everybody joins it, names what it holds, and asks again for what it waits for. */
  async joinEngine(harness: EngineHarness): Promise<void> {
    this.#harness = harness;
    this.#effectsRead = 0;
    for (const randomWorker of this.workers) {
      const running = [...randomWorker.attempts.values()].map(({ dispatch: { task, fence } }) => ({ task, fence }));
      randomWorker.worker = await harness.joinWorker(randomWorker.name, {
        slots: randomWorker.slots,
        boot: randomWorker.worker.boot,
        running,
      });
      this.#readEffects();
      await this.#repeatRequests(randomWorker);
    }
  }

  /** From now on nobody falls over and nobody begins to hang. */
  stopFaults(): void {
    this.#hasNoFaults = true;
  }

  get isIdle(): boolean {
    return this.workers.every(({ attempts }) => attempts.size === 0);
  }

  /** Something happens to somebody. */
  async randomStep(): Promise<void> {
    this.#readEffects();
    const randomWorker = this.#random.pick(this.workers);
    const kind = this.#hasNoFaults
      ? "work"
      : this.#random.pickWeighted({ work: 30, time: 4, again: 2, die: 1, reset: 1, resume: 1 });
    if (kind === "time") await this.time(this.#random.pick([10, 200, 900]));
    else if (kind === "die") await this.#restartProcess(randomWorker);
    else if (kind === "reset" || kind === "resume") await this.#reconnect(randomWorker, kind === "resume");
    else if (kind === "again") await this.#repeatRequests(randomWorker);
    else for (const one of this.#hasNoFaults ? this.workers : [randomWorker]) await this.#workOnce(one);
    await this.#harness.settle();
    this.#readEffects();
  }

  async time(ms: number): Promise<void> {
    await this.#harness.advance(ms);
    this.#readEffects();
    for (const { worker, attempts } of this.workers)
      await this.#send(worker, () =>
        worker.heartbeat([...attempts.values()].map(({ dispatch: { task, fence } }) => ({ task, fence }))),
      );
    this.#readEffects();
  }

  async #workOnce(randomWorker: RandomWorker): Promise<void> {
    const ready = [...randomWorker.attempts.values()].filter(({ steps, isBlocked }) => steps[0]?.do !== "hang" && !isBlocked);
    if (ready.length === 0) return;
    const one = this.#random.pick(ready);
    const { worker } = randomWorker;
    if (this.#random.chance(0.3)) await this.#send(worker, () => worker.ack(one.dispatch));
    const step = one.steps.shift() ?? ({ do: "end", status: "succeeded" } as const);
    if (step.do === "next") {
      const request = `next-${++one.requestCount}`;
      const { timeoutMs, payload } = step;
      const options = { ...(timeoutMs === null ? {} : { timeoutMs }), ...(payload === null ? {} : { payload }) };
      const command = nextCommand(worker, one.dispatch, `${one.dispatch.task}:${request}`, options);
      one.pending.set(`${one.dispatch.task}:${request}`, command);
      one.isBlocked = step.isAwaited;
      await this.#send(worker, () => this.#harness.ask(command));
    } else if (step.do === "end") {
      randomWorker.attempts.delete(attemptKey(one.dispatch));
      await this.#send(worker, () =>
        this.#harness.ask(worker.resultCommand(one.dispatch, { by: one.dispatch.task }, step.status)),
      );
    }
  }

  /** As after a reset: what was asked is asked again. */
  async #repeatRequests({ worker, attempts }: RandomWorker): Promise<void> {
    for (const { pending } of [...attempts.values()])
      for (const command of [...pending.values()])
        await this.#send(worker, () => this.#harness.ask({ ...command, session: worker.session } as Command));
  }

  /** The process is gone with all it did; another takes its place. */
  async #restartProcess(randomWorker: RandomWorker): Promise<void> {
    randomWorker.attempts.clear();
    randomWorker.boots++;
    randomWorker.worker = await this.#harness.joinWorker(randomWorker.name, {
      slots: randomWorker.slots,
      boot: `${randomWorker.name}-${randomWorker.boots}`,
    });
    this.#readEffects();
  }

  /** The same process on a new socket: resumed, or with a new session in which it names what it holds and asks again. */
  async #reconnect(randomWorker: RandomWorker, isResumed: boolean): Promise<void> {
    const { worker, attempts, slots } = randomWorker;
    const { boot, session } = worker;
    await worker.disconnect();
    await this.#harness.settle();
    this.#readEffects();
    const running = [...attempts.values()].map(({ dispatch: { task, fence } }) => ({ task, fence }));
    try {
      randomWorker.worker = await this.#harness.joinWorker(
        randomWorker.name,
        isResumed ? { slots, boot, session, resumed: { unacked: [] } } : { slots, boot, running },
      );
    } catch (problem) {
      if (!(problem instanceof RefusedError)) throw problem;
      randomWorker.worker = await this.#harness.joinWorker(randomWorker.name, { slots, boot, running });
    }
    this.#readEffects();
    if (randomWorker.worker.session !== session) await this.#repeatRequests(randomWorker);
  }

  /** What is no longer its own is refused; anything else that is refused is a complaint. */
  async #send(worker: TestWorker, send: () => Promise<unknown>): Promise<void> {
    try {
      await send();
    } catch (problem) {
      if (!(problem instanceof RefusedError)) throw problem;
      if (problem.code !== "E.SESSION.STALE_BINDING") this.violations.push(`${worker.worker}: ${problem.message}`);
    }
    this.#readEffects();
  }

  #readEffects(): void {
    const { effects } = this.#harness;
    for (; this.#effectsRead < effects.length; this.#effectsRead++) this.#applyEffect(effects[this.#effectsRead] as Effect);
  }

  #applyEffect(effect: Effect): void {
    if (effect.type !== "dispatch" && effect.type !== "stop" && effect.type !== "next") return;
    const player = this.workers.find(({ worker }) => worker.session === effect.session);
    if (player === undefined) return;
    if (effect.type === "stop") player.attempts.delete(attemptKey(effect));
    else if (effect.type === "next") this.#applyAnswer(player, effect);
    else this.#applyGrant(player, effect.dispatch);
  }

  #applyAnswer({ attempts }: RandomWorker, effect: SendNextAnswer): void {
    for (const one of attempts.values()) {
      if (one.dispatch.task !== effect.task || !one.pending.delete(effect.request)) continue;
      if ((effect.result === null) === (effect.error === null)) this.violations.push(`${effect.request} got both or nothing`);
      one.isBlocked = false;
      // What failed inside is made good of, or not.
      if (effect.error !== null && this.#random.chance(0.3))
        one.steps.splice(0, one.steps.length, { do: "end", status: "failed" });
    }
  }

  #applyGrant(randomWorker: RandomWorker, dispatch: Dispatch): void {
    const busy = [...randomWorker.attempts.values()].filter(({ pending }) => pending.size === 0).length;
    if (busy >= randomWorker.slots)
      this.violations.push(`${randomWorker.name} has ${randomWorker.slots} slots, ${busy} busy, and got ${dispatch.task}`);
    if (randomWorker.attempts.has(attemptKey(dispatch))) this.violations.push(`${dispatch.id} was sent twice`);
    randomWorker.attempts.set(attemptKey(dispatch), {
      dispatch,
      steps: this.#planSteps(dispatch),
      pending: new Map(),
      isBlocked: false,
      requestCount: 0,
    });
  }

  #planSteps(dispatch: Dispatch): PlannedStep[] {
    const random = this.#random;
    const end = (): PlannedStep => ({
      do: "end",
      status: random.pickWeighted({ succeeded: 12, failed: 1, skipped: 1, cancelled: this.#hasNoFaults ? 0 : 0.1 }),
    });
    if (dispatch.chainIndex === undefined) return this.#hasNoFaults || random.chance(0.9) ? [end()] : [{ do: "hang" }];
    const next = (isAwaited = true): PlannedStep => ({
      do: "next",
      timeoutMs: random.chance(0.3) ? random.pick([50, 500, 5_000]) : null,
      payload: random.chance(0.3) ? { changed: random.integerBelow(9) } : null,
      isAwaited,
    });
    switch (random.pickWeighted({ pass: 8, repeat: 3, withhold: 2, early: 1, hang: this.#hasNoFaults ? 0 : 1 })) {
      case "pass":
        return [next(), end()];
      case "repeat":
        return [...Array.from({ length: 1 + random.integerBelow(3) }, () => next()), end()];
      case "early":
        return [next(false), end()];
      case "hang":
        return [next(), { do: "hang" }];
      case "withhold":
        return [end()];
    }
  }
}
