// What the contract needs of a store besides the port: time it can turn, commits it can hold back or break, and what it has read.
// Every store that wants to pass the contract brings one; the cases know nothing else about it.

import type { Millis, Position, Store, Tenant } from "@astraflow/engine";
import type { SimulatedCommitOutcome } from "../memory/cluster.ts";

export interface StoreFixture {
  /** How many handles may be open on the same tables at one time. */
  readonly handlesMax: number;
  /** Turns may be under way side by side, on one handle and on several. */
  readonly hasConcurrentTurns: boolean;
  /** A handle that has not been opened yet. */
  createHandle(): Store;
  advance(ms: Millis): void;
  /** Moves the wall clock alone. */
  jumpWallClock(ms: Millis): void;
  /** Keeps the commit of this turn from becoming visible until the answer is called. Only asked of stages that overlap. */
  delayCommit(replica: string, turn: number): () => void;
  /** Decides how the commit of this turn goes. */
  setCommitOutcome(replica: string, turn: number, fate: SimulatedCommitOutcome): void;
  trimLog(tenant: Tenant, floor: Position): Promise<void>;
  trimChunks(before: Millis): Promise<void>;
  /** Rows that claims have looked at so far. */
  rowsRead(): number;
  close(): Promise<void>;
}

export type MakeStoreFixture = () => Promise<StoreFixture>;

/** Throws when the store breaks the rule; the title begins with the rule's id. */
export interface ContractCase {
  readonly title: string;
  run(createFixture: MakeStoreFixture): Promise<void>;
}
