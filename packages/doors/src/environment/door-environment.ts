// All that the doors ask of the outside besides the engine: time, names, a place for log lines. The app passes the real ones, tests theirs.

/** One line of the log, as data. `audit: true` marks what an operator must be able to find later. */
export interface LogRecord {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly event: string;
  readonly audit?: true;
  readonly [field: string]: unknown;
}

export interface DoorEnvironment {
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
  /** Names that nobody can guess: session ids, token ids, request ids. */
  readonly ids: { next(): string };
  log(line: LogRecord): void;
  /** Whether lines at debug are kept. Those that would cost something on every frame are built only then. */
  readonly isDebug?: boolean;
}
