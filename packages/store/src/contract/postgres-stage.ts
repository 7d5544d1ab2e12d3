// The stage of the PostgreSQL store: a database of its own on a server that many stages share. Time stands still until it is told to
// move; commits are held back before they are sent, and broken by really cutting the connection.

import type { ChangeSet, CommitOutcome, Store, TurnRequest, TurnTransaction } from "@astraflow/engine";
import { Client } from "pg";
import type { SimulatedCommitOutcome } from "../memory/cluster.ts";
import type { PostgresOptions, PostgresStore } from "../postgres/options.ts";
import { openPostgres } from "../postgres/store.ts";
import type { PostgresServer } from "./postgres-server.ts";
import type { StoreFixture } from "./stage.ts";

/** Where a commit has to break for a fate to come true. */
const failpointOfOutcome: Readonly<Record<SimulatedCommitOutcome, string | null>> = {
  committed: null,
  failed: "postgres.commit",
  "unknown-absent": "postgres.committing",
  "unknown-committed": "postgres.committed",
};

export interface PostgresFixtureOptions extends Partial<PostgresOptions> {
  readonly handlesMax?: number;
  /** The address under which the stores reach a database: the server's own, or a pooler's. */
  readonly urlOf?: (database: string) => string;
  /** The instant at which the stage's time stands at first; by default that of its making. */
  readonly clockStartsAt?: number;
}

export async function createPostgresFixture(server: PostgresServer, options: PostgresFixtureOptions = {}): Promise<StoreFixture> {
  const { handlesMax: handles = 3, urlOf = (database) => server.url(database), clockStartsAt, ...rest } = options;
  const database = new URL(await server.createDatabase()).pathname.slice(1);
  if (clockStartsAt !== undefined) await setClockStart(server.url(database), clockStartsAt);
  const script: CommitScript = { outcomes: new Map(), delays: new Map() };
  const stores: PostgresStore[] = [];
  let aheadMs = 0;
  return {
    handlesMax: handles,
    hasConcurrentTurns: true,
    createHandle(): Store {
      const scripted = new ScriptedStore(script, (failpoint) => {
        const store = openPostgres({ url: urlOf(database), timeScale: 0, aheadMs: () => aheadMs, failpoint, ...rest });
        stores.push(store);
        return store;
      });
      return scripted;
    },
    advance(ms) {
      aheadMs += ms;
    },
    // The time is the server's: the clock on the wall of a scheduler plays no part in it.
    jumpWallClock: () => undefined,
    delayCommit(replica, turn) {
      const { promise, resolve } = Promise.withResolvers<void>();
      script.delays.set(`${replica} ${turn}`, promise);
      return resolve;
    },
    setCommitOutcome: (replica, turn, fate) => void script.outcomes.set(`${replica} ${turn}`, fate),
    async trimLog(tenant, floor) {
      while (((await stores.at(-1)?.trim(tenant, floor)) ?? 0) > 0);
    },
    async trimChunks(before) {
      while (((await stores.at(-1)?.trimChunks(before)) ?? 0) > 0);
    },
    rowsRead: () => stores.reduce((sum, store) => sum + store.stats().rows, 0),
    async close() {
      for (const store of stores) await store.close();
    },
  };
}

/** A store's birth is the zero point of its time, and written once: here before any other does. */
async function setClockStart(url: string, clockStartsAt: number): Promise<void> {
  const maker = openPostgres({ url });
  await maker.open({ replica: "maker", cluster: "test" });
  await maker.close();
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(`UPDATE astraflow.meta SET value = '${clockStartsAt}' WHERE name = 'born'`);
  await client.end();
}

interface CommitScript {
  readonly outcomes: Map<string, SimulatedCommitOutcome>;
  readonly delays: Map<string, Promise<void>>;
}

/** A store whose commits keep to the script. */
class ScriptedStore implements Store {
  readonly #script: CommitScript;
  readonly #store: PostgresStore;
  #replica = "";
  #failingStep: string | null = null;

  constructor(script: CommitScript, make: (failpoint: (name: string) => void) => PostgresStore) {
    this.#script = script;
    this.#store = make((name) => {
      if (name !== this.#failingStep) return;
      this.#failingStep = null;
      throw new Error("the network is broken, says the test");
    });
  }

  open(me: { replica: string; cluster: string }): Promise<{ epoch: number; lastTurn: number }> {
    this.#replica = me.replica;
    return this.#store.open(me);
  }

  async begin(want: TurnRequest): Promise<TurnTransaction> {
    const tx = await this.#store.begin(want);
    const commit = tx.commit.bind(tx);
    tx.commit = (turn, units) => this.#commit(commit, turn, units);
    return tx;
  }

  async #commit(commit: TurnTransaction["commit"], turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    await this.#script.delays.get(`${this.#replica} ${turn}`);
    this.#failingStep = failpointOfOutcome[this.#script.outcomes.get(`${this.#replica} ${turn}`) ?? "committed"];
    return commit(turn, units);
  }

  settle: Store["settle"] = (turn) => this.#store.settle(turn);
  events: Store["events"] = (query) => this.#store.events(query);
  page: Store["page"] = (query) => this.#store.page(query);
  onHint: Store["onHint"] = (hear) => this.#store.onHint(hear);
  close: Store["close"] = () => this.#store.close();
}
