// One engine that can die: the real driver on a handle of the shared store, with a switch that cuts it off from store and doors at a
// named point of a turn. A dead one never says another word, as a process after kill -9.

import { createHash } from "node:crypto";
import {
  createEngine,
  type Effect,
  type Engine,
  type EngineFailpoint,
  type EngineProblem,
  type EngineSettings,
  type Millis,
  type Store,
  type TurnRequest,
  type TurnTransaction,
  type World,
} from "@astraflow/engine";
import { createMutantEngine, type Plant } from "@astraflow/engine/testing";

export const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

export interface Outside {
  readonly settings: EngineSettings;
  nextId(now: Millis): string;
  roll(): number;
  /** Real time that has passed in this world; only differences count. */
  mono(): Millis;
  hear(mortal: Mortal, effects: readonly Effect[]): void;
  reported(mortal: Mortal, problem: EngineProblem): void;
}

const never = new Promise<never>(() => undefined);

export class Mortal {
  readonly replica: string;
  readonly engine: Engine;
  isDead = false;
  isIdle = false;
  /** The engine dies when it next passes this point. */
  diesAt: EngineFailpoint | null = null;
  readonly #outside: Outside;
  readonly #store: Store;
  #wakeAfter = 0;
  #idleSince = 0;

  constructor(replica: string, store: Store, environment: Outside, plant: Plant | null = null) {
    this.replica = replica;
    this.#outside = environment;
    this.#store = store;
    const world: World = {
      store: this.#cutOff(store),
      ids: { next: (now) => environment.nextId(now) },
      random: { next: () => environment.roll() },
      digest,
      emit: (effects) => {
        if (!this.isDead) environment.hear(this, effects);
      },
      scheduleWake: (wakeAt, now) => {
        this.isIdle = true;
        this.#wakeAfter = wakeAt - now;
        this.#idleSince = environment.mono();
      },
      failpoint: (name) => {
        if (name === this.diesAt) this.die();
      },
      reportProblem: (problem) => {
        if (!this.isDead) environment.reported(this, problem);
      },
    };
    this.engine =
      plant === null ? createEngine(world, environment.settings) : createMutantEngine(world, environment.settings, plant);
  }

  /** Asks for a turn; whoever gives the engine something to do goes through here, so that the world knows it is busy. */
  stir(work: (engine: Engine) => void): void {
    if (this.isDead) return;
    this.isIdle = false;
    work(this.engine);
  }

  /** Wakes the engine when the time it asked for has come, and not before: a deadline it forgot to name is a bug to be found. */
  tick(): void {
    if (this.isIdle && this.#outside.mono() - this.#idleSince >= this.#wakeAfter) this.stir((engine) => engine.wake());
  }

  die(): void {
    if (this.isDead) return;
    this.isDead = true;
    // Rolls back the turn under way before this returns; a commit that has left goes its own way.
    void this.#store.close();
  }

  #cutOff(store: Store): Store {
    return {
      open: (me) => store.open(me),
      begin: (want: TurnRequest): Promise<TurnTransaction> =>
        this.isDead ? never : store.begin(want).then((tx) => this.#give(tx)),
      settle: (turn) => (this.isDead ? never : store.settle(turn)),
      onHint: (hear) =>
        store.onHint((hint) => {
          if (!this.isDead && hint.type !== "log") this.stir(() => hear(hint));
        }),
      events: (query) => store.events(query),
      page: (query) => store.page(query),
      close: () => store.close(),
    };
  }

  async #give(tx: TurnTransaction): Promise<TurnTransaction> {
    if (!this.isDead) return tx;
    await tx.abort();
    return never;
  }
}
