// What services and doors need from outside: time, timers, ids, a log, the engine and its store. Tests pass fakes.

import type { StoreReader } from "@astraflow/engine";
import type { SchemaMode } from "@astraflow/protocol";
import type { EngineClient } from "./engine-client.ts";
import type { InPlaceLimits } from "./in-place-limits.ts";

/** One line of the log, as data. `audit: true` marks lines that an operator must be able to find later. */
export interface LogRecord {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly event: string;
  readonly audit?: true;
  readonly [field: string]: unknown;
}

export interface ServiceEnvironment {
  readonly clock: {
    /** Wall time in ms: shown to people and peers, never used for a deadline. */
    now(): number;
    /** Monotonic ms: for deadlines. */
    monotonic(): number;
  };
  readonly timers: {
    /** Runs again and again; the returned function ends that. */
    every(ms: number, run: () => void): () => void;
    after(ms: number, run: () => void): () => void;
  };
  /** Unguessable ids: of sessions, tokens, requests. */
  readonly ids: { next(): string };
  /** Whether debug lines are written. Those about single frames are built only then. */
  readonly isDebug?: boolean;
  /** Lets everything else that waits for this thread go first; absent: nothing else waits. */
  readonly yieldLoop?: () => Promise<void>;
  log(line: LogRecord): void;
}

/** What every service works with. */
export interface ServiceContext {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  /** What is set for a tenant; without it, values that do not match their schema are warnings. */
  readonly schemaModeOf?: (tenant: string) => SchemaMode;
  /** What may be done for one caller on this thread; absent: everything, since the thread serves one request at a time. */
  readonly inPlace?: InPlaceLimits;
}
