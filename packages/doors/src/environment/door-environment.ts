// What the doors need besides the engine: clock, timers, ids and a log. The app passes the real ones, tests their own.

/** One line of the log. `audit: true` marks what an operator must be able to find later. */
export interface LogRecord {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly event: string;
  readonly audit?: true;
  readonly [field: string]: unknown;
}

export interface DoorEnvironment {
  readonly clock: {
    /** Wall time in ms: for people and peers, never for deadlines. */
    now(): number;
    /** Monotonic ms: for deadlines. */
    monotonic(): number;
  };
  readonly timers: {
    /** Repeats; the returned function ends that. */
    every(ms: number, run: () => void): () => void;
    after(ms: number, run: () => void): () => void;
  };
  /** Ids that cannot be guessed: of sessions, tokens and requests. */
  readonly ids: { next(): string };
  log(line: LogRecord): void;
  /** Whether debug lines are written. Those about single frames are built only then. */
  readonly isDebug?: boolean;
}
