// Limits how many calls of an expensive operation run at once; the rest wait in order.

import { FifoQueue } from "@astraflow/protocol";

export interface SemaphoreOptions {
  /** Calls that may wait; one more rejects with `overloadFault`. Without it the number is not limited. */
  readonly queuedMax: number;
  readonly overloadFault: () => Error;
}

export function createSemaphore(max: number, options?: SemaphoreOptions): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting = new FifoQueue<() => void>();
  let running = 0;
  return async (work) => {
    if (running >= max) {
      if (options !== undefined && waiting.size >= options.queuedMax) throw options.overloadFault();
      await new Promise<void>((wake) => waiting.push(wake));
    } else running += 1;
    try {
      return await work();
    } finally {
      // The next in the queue takes over the slot, so that no new call gets in between.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
