// The brake on wrong passwords: so many per user and per address within a while, counted before the password is looked at, so that
// guesses at the same time count too. In memory of one process; where several schedulers run, each has its own.

export interface Brake {
  /** Counts a try. Milliseconds to wait, or 0: go on. */
  press(keys: readonly BrakeKey[]): number;
  /** The try was right after all: it does not count. */
  release(keys: readonly BrakeKey[]): void;
}

export interface BrakeKey {
  readonly name: string;
  readonly triesMax: number;
}

export const brakeLimits = {
  windowMs: 300_000,
  userTriesMax: 10,
  /** People behind one proxy share an address. */
  addressTriesMax: 50,
  /** Names remembered at once. Beyond, the oldest are forgotten: who can make so many has found a slower way anyway. */
  namesMax: 20_000,
} as const;

export function createBrake(ticks: () => number): Brake {
  const tries = new Map<string, { since: number; count: number }>();

  const entryOf = (name: string, now: number) => {
    const found = tries.get(name);
    if (found !== undefined && now - found.since < brakeLimits.windowMs) return found;
    tries.delete(name);
    const fresh = { since: now, count: 0 };
    tries.set(name, fresh);
    for (const oldest of tries.keys()) {
      if (tries.size <= brakeLimits.namesMax) break;
      tries.delete(oldest);
    }
    return fresh;
  };

  return {
    press(keys) {
      const now = ticks();
      const entries = keys.map(({ name, triesMax }) => ({ entry: entryOf(name, now), triesMax }));
      const full = entries.filter(({ entry, triesMax }) => entry.count >= triesMax);
      if (full.length > 0) return Math.max(...full.map(({ entry }) => entry.since + brakeLimits.windowMs - now), 1);
      for (const { entry } of entries) entry.count += 1;
      return 0;
    },
    release(keys) {
      for (const { name } of keys) {
        const entry = tries.get(name);
        if (entry !== undefined && entry.count > 0) entry.count -= 1;
      }
    },
  };
}
