// Workers that play middlewares and hosts by chance: they pass, change, repeat, withhold, fail, skip and hang, fall over, come back, and
// ask twice. They keep count of what they were granted, so that a test can say whether slots and calls were right.

import type { Command, Effect, SendDispatch, SendNextAnswer } from "@astraflow/engine";
import { nextCommand } from "./chains-stage.ts";
import { type Crew, type Harness, Refused } from "./harness.ts";
import type { Dice } from "./weather-dice.ts";

type Dispatch = SendDispatch["dispatch"];

type Step =
  | { readonly do: "next"; readonly timeoutMs: number | null; readonly payload: object | null; readonly isAwaited: boolean }
  | { readonly do: "end"; readonly status: "succeeded" | "failed" | "skipped" | "cancelled" }
  /** Never says anything again. */
  | { readonly do: "hang" };

interface Playing {
  readonly dispatch: Dispatch;
  readonly steps: Step[];
  /** What it asked for and has not heard of; one that waits for none of it may go on meanwhile. */
  readonly pending: Map<string, Command>;
  isBlocked: boolean;
  asked: number;
}

interface Player {
  readonly name: string;
  readonly slots: number;
  crew: Crew;
  boots: number;
  readonly playing: Map<string, Playing>;
}

const keyOf = ({ task, fence }: { readonly task: string; readonly fence: number }): string => `${task}#${fence}`;

export class Players {
  #world: Harness;
  readonly #dice: Dice;
  readonly players: Player[] = [];
  /** What went wrong as the workers saw it. */
  readonly complaints: string[] = [];
  #looked = 0;
  #isCalm = false;

  constructor(world: Harness, dice: Dice) {
    this.#world = world;
    this.#dice = dice;
  }

  async join(name: string, slots: number): Promise<void> {
    const crew = await this.#world.join(name, { slots, boot: `${name}-0` });
    this.players.push({ name, slots, crew, boots: 0, playing: new Map() });
  }

  /** Another engine on the same store: everybody joins it, names what it holds, and asks again for what it waits for. */
  async moveTo(world: Harness): Promise<void> {
    this.#world = world;
    this.#looked = 0;
    for (const player of this.players) {
      const running = [...player.playing.values()].map(({ dispatch: { task, fence } }) => ({ task, fence }));
      player.crew = await world.join(player.name, { slots: player.slots, boot: player.crew.boot, running });
      this.#hear();
      await this.#askAgain(player);
    }
  }

  /** From now on nobody falls over and nobody begins to hang. */
  calm(): void {
    this.#isCalm = true;
  }

  get isIdle(): boolean {
    return this.players.every(({ playing }) => playing.size === 0);
  }

  /** Something happens to somebody. */
  async step(): Promise<void> {
    this.#hear();
    const player = this.#dice.pick(this.players);
    const kind = this.#isCalm ? "work" : this.#dice.weigh({ work: 30, time: 4, again: 2, die: 1, reset: 1, resume: 1 });
    if (kind === "time") await this.time(this.#dice.pick([10, 200, 900]));
    else if (kind === "die") await this.#die(player);
    else if (kind === "reset" || kind === "resume") await this.#comeBack(player, kind === "resume");
    else if (kind === "again") await this.#askAgain(player);
    else for (const one of this.#isCalm ? this.players : [player]) await this.#work(one);
    await this.#world.settle();
    this.#hear();
  }

  async time(ms: number): Promise<void> {
    await this.#world.advance(ms);
    this.#hear();
    for (const { crew, playing } of this.players)
      await this.#say(crew, () => crew.beat([...playing.values()].map(({ dispatch: { task, fence } }) => ({ task, fence }))));
    this.#hear();
  }

  async #work(player: Player): Promise<void> {
    const ready = [...player.playing.values()].filter(({ steps, isBlocked }) => steps[0]?.do !== "hang" && !isBlocked);
    if (ready.length === 0) return;
    const one = this.#dice.pick(ready);
    const { crew } = player;
    if (this.#dice.chance(0.3)) await this.#say(crew, () => crew.ack(one.dispatch));
    const step = one.steps.shift() ?? ({ do: "end", status: "succeeded" } as const);
    if (step.do === "next") {
      const request = `next-${++one.asked}`;
      const { timeoutMs, payload } = step;
      const options = { ...(timeoutMs === null ? {} : { timeoutMs }), ...(payload === null ? {} : { payload }) };
      const command = nextCommand(crew, one.dispatch, `${one.dispatch.task}:${request}`, options);
      one.pending.set(`${one.dispatch.task}:${request}`, command);
      one.isBlocked = step.isAwaited;
      await this.#say(crew, () => this.#world.ask(command));
    } else if (step.do === "end") {
      player.playing.delete(keyOf(one.dispatch));
      await this.#say(crew, () => this.#world.ask(crew.resultCommand(one.dispatch, { by: one.dispatch.task }, step.status)));
    }
  }

  /** As after a reset: what was asked is asked again. */
  async #askAgain({ crew, playing }: Player): Promise<void> {
    for (const { pending } of [...playing.values()])
      for (const command of [...pending.values()])
        await this.#say(crew, () => this.#world.ask({ ...command, session: crew.session } as Command));
  }

  /** The process is gone with all it did; another takes its place. */
  async #die(player: Player): Promise<void> {
    player.playing.clear();
    player.boots++;
    player.crew = await this.#world.join(player.name, { slots: player.slots, boot: `${player.name}-${player.boots}` });
    this.#hear();
  }

  /** The same process on a new socket: resumed, or with a new session in which it names what it holds and asks again. */
  async #comeBack(player: Player, isResumed: boolean): Promise<void> {
    const { crew, playing, slots } = player;
    const { boot, session } = crew;
    await crew.leave();
    await this.#world.settle();
    this.#hear();
    const running = [...playing.values()].map(({ dispatch: { task, fence } }) => ({ task, fence }));
    try {
      player.crew = await this.#world.join(
        player.name,
        isResumed ? { slots, boot, session, resumed: { unacked: [] } } : { slots, boot, running },
      );
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      player.crew = await this.#world.join(player.name, { slots, boot, running });
    }
    this.#hear();
    if (player.crew.session !== session) await this.#askAgain(player);
  }

  /** What is no longer its own is refused; anything else that is refused is a complaint. */
  async #say(crew: Crew, say: () => Promise<unknown>): Promise<void> {
    try {
      await say();
    } catch (problem) {
      if (!(problem instanceof Refused)) throw problem;
      if (problem.code !== "E.SESSION.STALE_BINDING") this.complaints.push(`${crew.worker}: ${problem.message}`);
    }
    this.#hear();
  }

  #hear(): void {
    const { effects } = this.#world;
    for (; this.#looked < effects.length; this.#looked++) this.#take(effects[this.#looked] as Effect);
  }

  #take(effect: Effect): void {
    if (effect.type !== "dispatch" && effect.type !== "stop" && effect.type !== "next") return;
    const player = this.players.find(({ crew }) => crew.session === effect.session);
    if (player === undefined) return;
    if (effect.type === "stop") player.playing.delete(keyOf(effect));
    else if (effect.type === "next") this.#answered(player, effect);
    else this.#granted(player, effect.dispatch);
  }

  #answered({ playing }: Player, effect: SendNextAnswer): void {
    for (const one of playing.values()) {
      if (one.dispatch.task !== effect.task || !one.pending.delete(effect.request)) continue;
      if ((effect.result === null) === (effect.error === null)) this.complaints.push(`${effect.request} got both or nothing`);
      one.isBlocked = false;
      // What failed inside is made good of, or not.
      if (effect.error !== null && this.#dice.chance(0.3)) one.steps.splice(0, one.steps.length, { do: "end", status: "failed" });
    }
  }

  #granted(player: Player, dispatch: Dispatch): void {
    const busy = [...player.playing.values()].filter(({ pending }) => pending.size === 0).length;
    if (busy >= player.slots)
      this.complaints.push(`${player.name} has ${player.slots} slots, ${busy} busy, and got ${dispatch.task}`);
    if (player.playing.has(keyOf(dispatch))) this.complaints.push(`${dispatch.id} was sent twice`);
    player.playing.set(keyOf(dispatch), {
      dispatch,
      steps: this.#script(dispatch),
      pending: new Map(),
      isBlocked: false,
      asked: 0,
    });
  }

  #script(dispatch: Dispatch): Step[] {
    const dice = this.#dice;
    const end = (): Step => ({
      do: "end",
      status: dice.weigh({ succeeded: 12, failed: 1, skipped: 1, cancelled: this.#isCalm ? 0 : 0.1 }),
    });
    if (dispatch.chainIndex === undefined) return this.#isCalm || dice.chance(0.9) ? [end()] : [{ do: "hang" }];
    const next = (isAwaited = true): Step => ({
      do: "next",
      timeoutMs: dice.chance(0.3) ? dice.pick([50, 500, 5_000]) : null,
      payload: dice.chance(0.3) ? { changed: dice.below(9) } : null,
      isAwaited,
    });
    switch (dice.weigh({ pass: 8, repeat: 3, withhold: 2, early: 1, hang: this.#isCalm ? 0 : 1 })) {
      case "pass":
        return [next(), end()];
      case "repeat":
        return [...Array.from({ length: 1 + dice.below(3) }, () => next()), end()];
      case "early":
        return [next(false), end()];
      case "hang":
        return [next(), { do: "hang" }];
      case "withhold":
        return [end()];
    }
  }
}
