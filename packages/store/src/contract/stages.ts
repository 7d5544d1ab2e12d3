// The stages of the stores in this package: memory, strong and weak, and sqlite on a file of its own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "@astraflow/engine";
import type { ClockSource } from "../clock.ts";
import { createMemoryCluster, type SimulatedCommitOutcome, type StoreMutant } from "../memory/cluster.ts";
import { openSqlite, type SqliteOptions, type SqliteStore } from "../sqlite/store.ts";
import type { StoreFixture } from "./stage.ts";

/** Time that moves when told to. */
export class ManualClock implements ClockSource {
  #wall = 1_700_000_000_000;
  #mono = 5_000;

  wall(): number {
    return this.#wall;
  }

  mono(): number {
    return this.#mono;
  }

  advance(ms: number): void {
    this.#wall += ms;
    this.#mono += ms;
  }

  jumpWallClock(ms: number): void {
    this.#wall += ms;
  }
}

export async function createMemoryFixture(mode: "strong" | "weak", mutant?: StoreMutant): Promise<StoreFixture> {
  const clock = new ManualClock();
  const outcomes = new Map<string, SimulatedCommitOutcome>();
  const delays = new Map<string, Promise<void>>();
  const cluster = createMemoryCluster({
    mode,
    clock,
    random: { random: () => 0.999 },
    scriptedOutcome: ({ replica, turn }) => outcomes.get(`${replica} ${turn}`),
    pauseAt: ({ step, replica, turn }) => (step === "commit" ? delays.get(`${replica} ${turn}`) : undefined),
    ...(mutant === undefined ? {} : { mutant }),
  });
  return {
    handlesMax: 3,
    hasConcurrentTurns: mode === "weak",
    createHandle: () => cluster.createHandle(),
    advance: (ms) => clock.advance(ms),
    jumpWallClock: (ms) => clock.jumpWallClock(ms),
    delayCommit(replica, turn) {
      const { promise, resolve } = Promise.withResolvers<void>();
      delays.set(`${replica} ${turn}`, promise);
      return resolve;
    },
    setCommitOutcome: (replica, turn, fate) => void outcomes.set(`${replica} ${turn}`, fate),
    trimLog: async (tenant, floor) => cluster.trim(tenant, floor),
    trimChunks: async (before) => cluster.trimChunks(before),
    rowsRead: () => cluster.rowsRead,
    close: async () => undefined,
  };
}

/** Where a commit has to break for a fate to come true. */
const failpointOfOutcome: Readonly<Record<SimulatedCommitOutcome, string | null>> = {
  committed: null,
  failed: "sqlite.commit",
  "unknown-absent": "sqlite.committing",
  "unknown-committed": "sqlite.committed",
};

export async function createSqliteFixture(options: Partial<SqliteOptions> = {}): Promise<StoreFixture> {
  const folder = mkdtempSync(join(tmpdir(), "astra-store-"));
  const clock = new ManualClock();
  const stores: SqliteStore[] = [];
  let failingStep: string | null = null;
  let rowsBefore = 0;
  const failpoint = (name: string) => {
    if (name !== failingStep) return;
    failingStep = null;
    throw new Error("the disk is broken, says the test");
  };
  return {
    handlesMax: 1,
    hasConcurrentTurns: false,
    createHandle(): Store {
      rowsBefore += stores.at(-1)?.stats().rows ?? 0;
      const store = openSqlite({ file: join(folder, "store.db"), clock, failpoint, ...options });
      stores.push(store);
      return store;
    },
    advance: (ms) => clock.advance(ms),
    jumpWallClock: (ms) => clock.jumpWallClock(ms),
    delayCommit() {
      throw new Error("turns on sqlite do not overlap");
    },
    // One turn at a time and one handle: the next commit is the one that is meant.
    setCommitOutcome(_replica, _turn, fate) {
      failingStep = failpointOfOutcome[fate];
    },
    async trimLog(tenant, floor) {
      while ((stores.at(-1)?.trim(tenant, floor) ?? 0) > 0);
    },
    async trimChunks(before) {
      while ((stores.at(-1)?.trimChunks(before) ?? 0) > 0);
    },
    rowsRead: () => rowsBefore + (stores.at(-1)?.stats().rows ?? 0),
    async close() {
      for (const store of stores) await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
