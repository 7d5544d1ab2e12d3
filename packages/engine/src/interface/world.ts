// What the engine needs from outside, and the engine as its users see it. Production passes the real world, the simulator its own.

import type { Store } from "../storage/port.ts";
import type { Millis, Tenant } from "../storage/rows.ts";
import type { CommandRequest } from "./command.ts";
import type { Effect } from "./effect.ts";

export interface World {
  readonly store: Store;
  /** Time-ordered ids (UUIDv7) from the store's clock. */
  readonly ids: { next(now: Millis): string };
  /** 0 <= n < 1 */
  readonly random: { next(): number };
  /** Collision-resistant digest of a text, short enough to be a key. */
  digest(text: string): string;
  /** Effects of a stored turn, in order. Must not throw. */
  emit(effects: readonly Effect[]): void;
  /** Nothing is to be done before `wakeAt` (store time; `now` is the store's present): the shell calls `wake()` then. */
  scheduleWake(wakeAt: Millis, now: Millis): void;
  /** Lets everything else that waits for this thread go first; absent: nothing else waits. */
  yieldLoop?(): Promise<void>;
  /** Named crash points; a no-op outside of tests. */
  failpoint(name: EngineFailpoint): void;
  /** A problem for operators that is not part of any answer. */
  reportProblem(problem: EngineProblem): void;
  /** The store broke a promise that the engine cannot repair. Absent: the error is thrown, which ends the process. */
  endProcess?(cause: Error): void;
}

export const engineFailpoints = ["turn.begun", "turn.decided", "turn.committed", "turn.spoken"] as const;
export type EngineFailpoint = (typeof engineFailpoints)[number];

export interface EngineProblem {
  readonly code: string;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

export interface Engine {
  /** Opens the store and takes up what was left. */
  start(me: { replica: string; cluster: string }): Promise<void>;
  /** Commands in. Each gets exactly one answer, in `world.out`. */
  push(items: readonly CommandRequest[]): void;
  /** Begins a turn if needed: a scheduled wake, a hint of the store. */
  wake(): void;
  /** Ends after the running turn; what still waits is answered E.SHUTTING_DOWN. The store stays open. */
  stop(): Promise<void>;
  /** For /metrics and /readyz. */
  gauge(): EngineGauge;
}

export interface EngineGauge {
  readonly waiting: number;
  readonly turns: number;
  readonly commands: number;
  readonly grants: number;
  readonly retriedTurns: number;
  readonly quarantined: number;
  readonly sessions: number;
  readonly held: number;
  /** Sessions here that have had no free slot for long, by tenant; tenants without any are left out. */
  readonly saturated: Readonly<Record<Tenant, number>>;
  readonly now: Millis;
}
