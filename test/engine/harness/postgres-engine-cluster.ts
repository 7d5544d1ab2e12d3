// Several engines on one PostgreSQL, with workers at each: the real driver, core and store, several turns in flight, and one manual
// clock. The test decides at which engine a worker or a caller is.

import type { EngineProblem, EngineSettings, Store, TurnTransaction } from "@astraflow/engine";
import { openPostgres, type PostgresStore } from "@astraflow/store";
import type { PostgresServer } from "@astraflow/store/testing";
import { Client } from "pg";
import type { AutoWorkers } from "./auto-workers.ts";
import { EngineHarness } from "./engine-harness.ts";
import { overrideStore } from "./override-store.ts";

const bornAt = 1_800_000_000_000;
const never = new Promise<never>(() => undefined);
/** So many rounds in a row in which no engine has sent anything new. */
const quietRounds = 2;
/** An engine that met a busy root asks to be woken after so long at most; its shell does, in real time. */
const shortPauseMs = 20;
const wakerMs = 5;
/** Nobody falls silent while a test lets seconds pass. */
const longTimeouts: Partial<EngineSettings> = { turnsInFlight: 3, leaseMs: 3_600_000, ackDeadlineMs: 3_600_000 };

export class PostgresEngineCluster {
  readonly #url: string;
  readonly #stores: PostgresStore[] = [];
  readonly engines: EngineHarness[] = [];
  readonly #waker = setInterval(() => {
    for (const { engine, wakeAt } of this.engines) if (wakeAt !== null && wakeAt <= this.now + shortPauseMs) engine.wake();
  }, wakerMs);
  now = bornAt;

  private constructor(url: string) {
    this.#url = url;
  }

  /** A town on a database of its own, with engines of these names. */
  static async create(
    server: PostgresServer,
    names: readonly string[],
    settings: Partial<EngineSettings> = {},
  ): Promise<PostgresEngineCluster> {
    const url = await server.createDatabase();
    const maker = openPostgres({ url });
    await maker.open({ replica: "maker", cluster: "c1" });
    await maker.close();
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(`UPDATE astraflow.meta SET value = '${bornAt}' WHERE name = 'born'`);
    await client.end();
    const cluster = new PostgresEngineCluster(url);
    for (const name of names) await cluster.startEngine(name, settings);
    return cluster;
  }

  async startEngine(
    name: string,
    settings: Partial<EngineSettings> = {},
    wrap: (store: Store) => Store = (store) => store,
  ): Promise<EngineHarness> {
    const store = openPostgres({ url: this.#url, timeScale: 0, aheadMs: () => this.now - bornAt });
    this.#stores.push(store);
    const engine = new EngineHarness({ store: wrap(store), name, settings: { ...longTimeouts, ...settings } });
    const clock = { get: () => this.now, set: (now: number) => void (this.now = now) };
    Object.defineProperty(engine, "now", clock);
    await engine.engine.start({ replica: name, cluster: "c1" });
    this.engines.push(engine);
    return engine;
  }

  /** It is no longer one of the town's: nobody wakes it or waits for it. */
  removeEngine(engine: EngineHarness): void {
    this.engines.splice(this.engines.indexOf(engine), 1);
  }

  /** What the store of the engine at this place has asked of its server. */
  stats(at: number): ReturnType<PostgresStore["stats"]> {
    const store = this.#stores[at];
    if (store === undefined) throw new Error(`there is no engine ${at}`);
    return { ...store.stats() };
  }

  /** Every engine does what it finds, and again what it finds because of the others, until no engine sends anything new. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < quietRounds; quiet++) {
      const before = this.#effectCount();
      await Promise.all(this.engines.map((engine) => engine.settle()));
      if (this.#effectCount() !== before) quiet = -1;
    }
  }

  /** As long as it takes until everybody has seen what the others made, hints or not: routes with one look, their lines with the next. */
  passDiscoveryTime = (): Promise<void> => this.passSeconds(2);

  async passSeconds(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      this.now += 1_000;
      await this.settle();
    }
  }

  #effectCount(): number {
    return this.engines.reduce((sum, { effects }) => sum + effects.length, 0);
  }

  /** The robots answer whatever their engines send until nothing comes any more anywhere. */
  async runWorkers(robots: readonly AutoWorkers[]): Promise<void> {
    for (;;) {
      const answers = await Promise.all(robots.map((autoWorkers) => autoWorkers.answerAll()));
      if (answers.some((count) => count > 0)) continue;
      const before = this.#effectCount();
      await this.passDiscoveryTime();
      if (this.#effectCount() === before) return;
    }
  }

  /** What was reported and is in no answer. */
  get problems(): EngineProblem[] {
    return this.engines.flatMap(({ problems }) => problems);
  }

  async close(): Promise<void> {
    clearInterval(this.#waker);
    for (const { engine } of this.engines) await engine.stop();
    for (const store of this.#stores) await store.close();
  }
}

/** A store that its engine is cut off from at a certain commit, as by kill -9: before it is sent, or after it and before any answer. */
export function createKillableStore(
  commits: number,
  when: "before" | "after",
): { wrap: (store: Store) => Store; died: Promise<void> } {
  const { promise: died, resolve } = Promise.withResolvers<void>();
  let left = commits;
  let isDead = false;
  const doomed = (tx: TurnTransaction): TurnTransaction => {
    const commit = tx.commit.bind(tx);
    tx.commit = async (turn, units) => {
      // The server notices at once that a killed process's connections are gone.
      if (isDead) return await tx.abort().then(() => never);
      if (left-- > 1) {
        const outcome = await commit(turn, units);
        return isDead ? await never : outcome;
      }
      isDead = true;
      if (when === "before") await tx.abort();
      else await commit(turn, units);
      resolve();
      return await never;
    };
    return tx;
  };
  const wrap = (store: Store): Store =>
    overrideStore(store, {
      begin: async (want) => {
        const tx = isDead ? await never : await store.begin(want);
        if (!isDead) return doomed(tx);
        await tx.abort();
        return await never;
      },
      settle: (turn) => (isDead ? never : store.settle(turn)),
    });
  return { wrap, died };
}
