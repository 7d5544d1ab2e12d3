// An engine that can be killed: the real driver on a handle of the shared store, with a switch that cuts it off from store and doors at a
// named point of a turn. A killed engine sends nothing more, like a process after kill -9.

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

export const sha256Digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

export interface EngineEnvironment {
  readonly settings: EngineSettings;
  nextId(now: Millis): string;
  nextRandom(): number;
  /** Real time that has passed in this world; only differences count. */
  mono(): Millis;
  receiveEffects(killable: KillableEngine, effects: readonly Effect[]): void;
  receiveProblem(killable: KillableEngine, problem: EngineProblem): void;
}

const never = new Promise<never>(() => undefined);

export class KillableEngine {
  readonly replica: string;
  readonly engine: Engine;
  isKilled = false;
  isIdle = false;
  /** The engine dies when it next passes this point. */
  killAt: EngineFailpoint | null = null;
  readonly #environment: EngineEnvironment;
  readonly #store: Store;
  #wakeAfter = 0;
  #idleSince = 0;

  constructor(replica: string, store: Store, environment: EngineEnvironment, mutant: Plant | null = null) {
    this.replica = replica;
    this.#environment = environment;
    this.#store = store;
    const world: World = {
      store: this.#wrapStore(store),
      ids: { next: (now) => environment.nextId(now) },
      random: { next: () => environment.nextRandom() },
      digest: sha256Digest,
      emit: (effects) => {
        if (!this.isKilled) environment.receiveEffects(this, effects);
      },
      scheduleWake: (wakeAt, now) => {
        this.isIdle = true;
        this.#wakeAfter = wakeAt - now;
        this.#idleSince = environment.mono();
      },
      failpoint: (name) => {
        if (name === this.killAt) this.kill();
      },
      reportProblem: (problem) => {
        if (!this.isKilled) environment.receiveProblem(this, problem);
      },
    };
    this.engine =
      mutant === null ? createEngine(world, environment.settings) : createMutantEngine(world, environment.settings, mutant);
  }

  /** Asks for a turn; whoever gives the engine something to do goes through here, so that the world knows it is busy. */
  giveWork(work: (engine: Engine) => void): void {
    if (this.isKilled) return;
    this.isIdle = false;
    work(this.engine);
  }

  /** Wakes the engine when the time it asked for has come, and not before: a deadline it forgot to name is a bug to be found. */
  wakeIfDue(): void {
    if (this.isIdle && this.#environment.mono() - this.#idleSince >= this.#wakeAfter) this.giveWork((engine) => engine.wake());
  }

  kill(): void {
    if (this.isKilled) return;
    this.isKilled = true;
    // Rolls back the turn under way before this returns; a commit that has left goes its own way.
    void this.#store.close();
  }

  #wrapStore(store: Store): Store {
    return {
      open: (me) => store.open(me),
      begin: (want: TurnRequest): Promise<TurnTransaction> =>
        this.isKilled ? never : store.begin(want).then((tx) => this.#returnOrAbort(tx)),
      settle: (turn) => (this.isKilled ? never : store.settle(turn)),
      onHint: (listener) =>
        store.onHint((hint) => {
          if (!this.isKilled && hint.type !== "log") this.giveWork(() => listener(hint));
        }),
      remove: (slice) => (this.isKilled ? never : store.remove(slice)),
      events: (query) => store.events(query),
      page: (query) => store.page(query),
      close: () => store.close(),
    };
  }

  async #returnOrAbort(tx: TurnTransaction): Promise<TurnTransaction> {
    if (!this.isKilled) return tx;
    await tx.abort();
    return never;
  }
}
