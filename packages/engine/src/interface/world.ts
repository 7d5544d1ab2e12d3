// All the engine may ask of the outside, and all that can be set about it. Production passes the real ones, the simulator its own.

import type { Store } from "../storage/port.ts";
import type { Millis, Tenant } from "../storage/rows.ts";
import type { CommandRequest } from "./command.ts";
import type { Effect } from "./effect.ts";
import type { TenantSettings } from "./tenant-settings.ts";

export interface World {
  readonly store: Store;
  /** Time-ordered ids (UUIDv7) from the store's clock. */
  readonly ids: { next(now: Millis): string };
  /** 0 <= n < 1 */
  readonly random: { next(): number };
  /** Collision-resistant digest of a text, short enough to be a key. */
  digest(text: string): string;
  /** Effects of a turn that is on disk, in order. Must not throw. */
  emit(effects: readonly Effect[]): void;
  /** Nothing is to be done before `wakeAt` (store time; `now` is the store's present): the shell calls `wake()` then. */
  scheduleWake(wakeAt: Millis, now: Millis): void;
  /** Named crash points; a no-op outside of tests. */
  failpoint(name: EngineFailpoint): void;
  /** Something went wrong that no caller will hear of. */
  reportProblem(problem: EngineProblem): void;
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
  /** A reason to look: a timer set by `idle`, a hint of the store. */
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
  /** Sessions here that have had no free slot for long, by tenant; who has none is not named. */
  readonly saturated: Readonly<Record<Tenant, number>>;
  readonly now: Millis;
}

/** Thresholds stand here for everybody and in `tenants` for those that have their own. */
export interface EngineSettings extends TenantSettings {
  readonly tenants: Readonly<Record<Tenant, Partial<TenantSettings>>>;
  readonly turnCommandsMax: number;
  readonly turnBytesMax: number;
  /** Turns whose commits may be under way at once, on different roots. More than one only where the store allows it. */
  readonly turnsInFlight: number;
  /** Rows one turn may sweep for a cursor (ending a run, a lost worker). */
  readonly sweepTasksMax: number;
  readonly dueMax: number;
  readonly mailMax: number;
  /** Lines asked for in one turn; more hot lines take turns. */
  readonly claimLinesMax: number;
  /** Commands that may wait; more are refused with E.OVERLOADED. */
  readonly inboxMax: number;
  readonly ackDeadlineMs: number;
  /** Attempts acked and older than this have their ack stored. */
  readonly ackStoreMs: number;
  /** How long after its join a worker that cannot report is asked, by the same dispatch again, about what it holds. */
  readonly recheckMs: number;
  /** The engine looks at least this often, so that it notices having been away. */
  readonly idleMs: number;
  readonly maxDeliveries: number;
  readonly queueTimeoutMs: number | null;
  readonly attemptTimeoutMs: number | null;
  readonly runTimeoutMs: number | null;
  readonly retry: {
    readonly maxAttempts: number;
    readonly backoffMs: number;
    readonly factor: number;
    readonly backoffMsMax: number;
  };
}

export const defaultSettings: EngineSettings = {
  turnCommandsMax: 1024,
  turnBytesMax: 4 * 1024 * 1024,
  turnsInFlight: 1,
  sweepTasksMax: 500,
  dueMax: 500,
  mailMax: 200,
  claimLinesMax: 64,
  inboxMax: 100_000,
  ackDeadlineMs: 5_000,
  ackStoreMs: 1_000,
  recheckMs: 2_000,
  leaseMs: 30_000,
  heartbeatMs: 10_000,
  quietHeartbeatMs: 35_000,
  quietLeaseMs: 105_000,
  drainMemPct: 90,
  drainDiskPct: 95,
  saturatedMs: 60_000,
  tenants: {},
  idleMs: 1_000,
  maxDeliveries: 5,
  queueTimeoutMs: null,
  attemptTimeoutMs: null,
  runTimeoutMs: null,
  retry: { maxAttempts: 1, backoffMs: 1_000, factor: 2, backoffMsMax: 60_000 },
};
