// The stages of the stores in this package: memory, strong and weak, and sqlite on a file of its own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Store } from "@astraflow/engine";
import type { ClockSource } from "../clock.ts";
import { type Fate, memoryCluster, type Plant } from "../memory/cluster.ts";
import { openSqlite, type SqliteOptions, type SqliteStore } from "../sqlite/store.ts";
import type { Stage } from "./stage.ts";

/** Time that moves when told to. */
export class HandClock implements ClockSource {
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

  jumpWall(ms: number): void {
    this.#wall += ms;
  }
}

export async function memoryStage(mode: "strong" | "weak", plant?: Plant): Promise<Stage> {
  const clock = new HandClock();
  const fates = new Map<string, Fate>();
  const gates = new Map<string, Promise<void>>();
  const cluster = memoryCluster({
    mode,
    clock,
    dice: { roll: () => 0.999 },
    script: ({ replica, turn }) => fates.get(`${replica} ${turn}`),
    gate: ({ step, replica, turn }) => (step === "commit" ? gates.get(`${replica} ${turn}`) : undefined),
    ...(plant === undefined ? {} : { plant }),
  });
  return {
    handles: 3,
    overlaps: mode === "weak",
    handle: () => cluster.handle(),
    advance: (ms) => clock.advance(ms),
    jumpWall: (ms) => clock.jumpWall(ms),
    hold(replica, turn) {
      const { promise, resolve } = Promise.withResolvers<void>();
      gates.set(`${replica} ${turn}`, promise);
      return resolve;
    },
    doom: (replica, turn, fate) => void fates.set(`${replica} ${turn}`, fate),
    trim: async (tenant, floor) => cluster.trim(tenant, floor),
    trimChunks: async (before) => cluster.trimChunks(before),
    rowsRead: () => cluster.rowsRead,
    close: async () => undefined,
  };
}

/** Where a commit has to break for a fate to come true. */
const brokenSteps: Readonly<Record<Fate, string | null>> = {
  committed: null,
  failed: "sqlite.commit",
  "unknown-absent": "sqlite.committing",
  "unknown-committed": "sqlite.committed",
};

export async function sqliteStage(options: Partial<SqliteOptions> = {}): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), "astra-store-"));
  const clock = new HandClock();
  const stores: SqliteStore[] = [];
  let broken: string | null = null;
  let rowsBefore = 0;
  const failpoint = (name: string) => {
    if (name !== broken) return;
    broken = null;
    throw new Error("the disk is broken, says the test");
  };
  return {
    handles: 1,
    overlaps: false,
    handle(): Store {
      rowsBefore += stores.at(-1)?.stats().rows ?? 0;
      const store = openSqlite({ file: join(folder, "store.db"), clock, failpoint, ...options });
      stores.push(store);
      return store;
    },
    advance: (ms) => clock.advance(ms),
    jumpWall: (ms) => clock.jumpWall(ms),
    hold() {
      throw new Error("turns on sqlite do not overlap");
    },
    // One turn at a time and one handle: the next commit is the one that is meant.
    doom(_replica, _turn, fate) {
      broken = brokenSteps[fate];
    },
    async trim(tenant, floor) {
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
