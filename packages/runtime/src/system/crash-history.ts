// When to start again what crashed: at once, then with pauses that double, so that a crash loop does not take the machine.

export const restartPolicy = {
  /** So many crashes within the window are a loop. */
  crashesMax: 5,
  crashWindowMs: 60_000,
  /** Pause before the second start within the window; doubles up to the second. The first start is at once. */
  restartDelayMs: 250,
  restartDelayMsMax: 30_000,
} as const;

/** The crashes of one thing that is restarted, within the window. */
export class CrashHistory {
  #crashTimes: number[] = [];

  /** Notes a crash. Gives how many there were within the window, and how long to wait before the next start. */
  add(now: number): { readonly crashes: number; readonly pauseMs: number } {
    this.#crashTimes.push(now);
    const crashes = this.countRecent(now);
    const doubled = restartPolicy.restartDelayMs * 2 ** Math.min(Math.max(0, crashes - 2), 20);
    return { crashes, pauseMs: crashes <= 1 ? 0 : Math.min(restartPolicy.restartDelayMsMax, doubled) };
  }

  countRecent(now: number): number {
    this.#crashTimes = this.#crashTimes.filter((at) => at > now - restartPolicy.crashWindowMs);
    return this.#crashTimes.length;
  }
}
