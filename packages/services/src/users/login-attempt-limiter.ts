// The brake on wrong passwords: so many per user and per address within a while, counted before the password is looked at, so that
// guesses at the same time count too. In memory of one process; where several schedulers run, each has its own.

export interface LoginAttemptLimiter {
  /** Counts a try. Milliseconds to wait, or 0: go on. */
  countAttempt(keys: readonly LoginAttemptKey[]): number;
  /** The try was right after all: it does not count. */
  uncountAttempt(keys: readonly LoginAttemptKey[]): void;
}

export interface LoginAttemptKey {
  readonly name: string;
  readonly triesMax: number;
}

export const loginAttemptLimits = {
  windowMs: 300_000,
  userAttemptsMax: 10,
  /** People behind one proxy share an address. */
  addressAttemptsMax: 50,
  /** Names remembered at once. Beyond, the oldest are forgotten: who can make so many has found a slower way anyway. */
  keysMax: 20_000,
} as const;

export function createLoginAttemptLimiter(ticks: () => number): LoginAttemptLimiter {
  const windows = new Map<string, { since: number; count: number }>();

  const windowOf = (name: string, now: number) => {
    const found = windows.get(name);
    if (found !== undefined && now - found.since < loginAttemptLimits.windowMs) return found;
    windows.delete(name);
    const fresh = { since: now, count: 0 };
    windows.set(name, fresh);
    for (const oldest of windows.keys()) {
      if (windows.size <= loginAttemptLimits.keysMax) break;
      windows.delete(oldest);
    }
    return fresh;
  };

  return {
    countAttempt(keys) {
      const now = ticks();
      const entries = keys.map(({ name, triesMax }) => ({ entry: windowOf(name, now), triesMax }));
      const full = entries.filter(({ entry, triesMax }) => entry.count >= triesMax);
      if (full.length > 0) return Math.max(...full.map(({ entry }) => entry.since + loginAttemptLimits.windowMs - now), 1);
      for (const { entry } of entries) entry.count += 1;
      return 0;
    },
    uncountAttempt(keys) {
      for (const { name } of keys) {
        const entry = windows.get(name);
        if (entry !== undefined && entry.count > 0) entry.count -= 1;
      }
    },
  };
}
