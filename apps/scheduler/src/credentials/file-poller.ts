// Looks again and again at what may change on disk, one look at a time. Looking is the truth here, not being told by the system:
// folders that are mounted, linked or written elsewhere tell nobody. What is looked at is the caller's business.

/** Well below the five seconds within which a revoked credential must be worth nothing. */
const pollMs = 1_000;

export interface FilePoller {
  /** Looks at once and takes what it sees for sure; resolves when that is done. */
  pollNow(): Promise<void>;
  stop(): void;
}

/** `look` gets whether somebody has said that the files are as they should be. A look that throws is told of, and the next one comes. */
export function startFilePoller(
  check: (isExplicit: boolean) => Promise<void>,
  report: (problem: unknown) => void,
  ms = pollMs,
): FilePoller {
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
    async pollNow() {
      // One that is under way may have read a file before it was changed.
      while (running !== null) await running;
      await start(true);
    },
    stop: () => clearInterval(timer),
  };
}
