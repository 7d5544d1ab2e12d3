// What a store on PostgreSQL is opened with and what it offers beyond the engine's port.

import type { Millis, Position, Store, Tenant } from "@astraflow/engine";
import type { PostgresStats } from "./connection/connection.ts";

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: string;
  /** Turns in flight at one time; each has a connection of its own. */
  readonly connections?: number;
  /** How fast the store's clock runs, for tests; counted from the store's birth. */
  readonly timeScale?: number;
  /** Called with the name of each step; a test kills the process there, or throws as a broken network would. */
  readonly failpoint?: (name: string) => void;
  /** For tests: how far the store's clock is ahead of the server's. */
  readonly aheadMs?: () => number;
  /** How many runs a search compares before it asks the index of words. */
  readonly searchedRows?: number;
}

export interface PostgresStore extends Store {
  stats(): Readonly<PostgresStats>;
  /** Removes the log of a tenant up to a position; answers how many rows went. Call again until it answers 0. */
  trim(tenant: Tenant, floor: Position): Promise<number>;
  /** Removes what tasks printed before an instant; answers how many rows went. Call again until it answers 0. */
  trimChunks(before: Millis): Promise<number>;
}

export const postgresFailpoints = [
  "postgres.migrate",
  "postgres.migrated",
  "postgres.begin",
  "postgres.begun",
  "postgres.commit",
  "postgres.committing",
  "postgres.committed",
] as const;
