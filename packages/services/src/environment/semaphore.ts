// Limits how many calls of an expensive operation run at once; the rest wait in order.

export function createSemaphore(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= max) await new Promise<void>((wake) => waiting.push(wake));
    else running += 1;
    try {
      return await work();
    } finally {
      // The next one takes over the place, so that no later call can overtake it.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
