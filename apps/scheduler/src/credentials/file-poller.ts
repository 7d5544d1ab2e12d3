// Checks files periodically, one check at a time. Polling instead of file events, because mounted and linked folders do not send events.

/** Well below the five seconds within which a revoked credential must stop working. */
const pollMs = 1_000;

/** `check` gets whether the user asked for it explicitly. A check that throws is reported, and polling goes on. */
export function startFilePoller(check: (isExplicit: boolean) => Promise<void>, report: (problem: unknown) => void, ms = pollMs) {
  let running: Promise<void> | null = null;
  const start = (isExplicit: boolean): Promise<void> => {
    const one = check(isExplicit)
      .catch(report)
      .finally(() => {
        if (running === one) running = null;
      });
    running = one;
    return one;
  };
  const timer = setInterval(() => {
    if (running === null) void start(false);
  }, ms);
  timer.unref();
  return {
    /** Checks at once, as an explicit request; resolves when that is done. */
    async pollNow(): Promise<void> {
      // A running check may have read a file before it was changed.
      while (running !== null) await running;
      await start(true);
    },
    stop: () => clearInterval(timer),
  };
}
