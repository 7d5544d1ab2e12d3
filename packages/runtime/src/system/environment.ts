// Time and chance as the worker sees them: the app passes the real ones, tests and the simulator their own.

export interface WorkerEnvironment {
  /** Milliseconds of a clock that never jumps. */
  now(): number;
  /** Milliseconds of the time of day; shown, never used for a decision. */
  wallClock(): number;
  /** 0 <= n < 1 */
  random(): number;
  /** Random bytes that nobody can guess, for keys. */
  randomBytes(count: number): Uint8Array;
  /** Calls back after so many milliseconds; the answer takes that back. */
  after(ms: number, call: () => void): () => void;
  /** Calls back once all that has arrived by now was taken in. */
  defer(call: () => void): void;
}
