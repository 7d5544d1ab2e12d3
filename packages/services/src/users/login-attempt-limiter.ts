// Limits login attempts per user and per address, in the memory of one scheduler. Counted before the check: guesses may be concurrent.

import { LruMap } from "@astraflow/protocol";

export interface LoginAttemptKey {
  readonly name: string;
  readonly triesMax: number;
}

export const loginAttemptLimits = {
  windowMs: 300_000,
  userAttemptsMax: 10,
  /** People behind one proxy share an address. */
  addressAttemptsMax: 50,
  /** Users and addresses counted at once; beyond that the oldest are dropped. */
  keysMax: 20_000,
} as const;

export class LoginAttemptLimiter {
  readonly #windows = new LruMap<string, { since: number; count: number }>({
    entriesMax: loginAttemptLimits.keysMax,
    touchOnGet: false,
  });
  readonly #ticks: () => number;

  constructor(ticks: () => number) {
    this.#ticks = ticks;
  }

  /** Counts an attempt. Returns the milliseconds to wait; 0: go on. */
  countAttempt(keys: readonly LoginAttemptKey[]): number {
    const now = this.#ticks();
    const entries = keys.map(({ name, triesMax }) => ({ entry: this.#windowOf(name, now), triesMax }));
    const full = entries.filter(({ entry, triesMax }) => entry.count >= triesMax);
    if (full.length > 0) return Math.max(...full.map(({ entry }) => entry.since + loginAttemptLimits.windowMs - now), 1);
    for (const { entry } of entries) entry.count += 1;
    return 0;
  }

  /** The password was right, so the attempt does not count. */
  uncountAttempt(keys: readonly LoginAttemptKey[]): void {
    for (const { name } of keys) {
      const entry = this.#windows.get(name);
      if (entry !== undefined && entry.count > 0) entry.count -= 1;
    }
  }

  #windowOf(name: string, now: number) {
    const found = this.#windows.get(name);
    if (found !== undefined && now - found.since < loginAttemptLimits.windowMs) return found;
    const fresh = { since: now, count: 0 };
    this.#windows.set(name, fresh);
    return fresh;
  }
}
