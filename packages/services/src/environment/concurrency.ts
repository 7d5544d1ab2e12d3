// Bounds on concurrent work: how many calls run at once, polls that do not overlap, and how long to wait.

import { FifoQueue } from "@astraflow/protocol";
import type { ServiceEnvironment } from "./service-environment.ts";

/** `queuedMax` calls may wait, one more rejects with `overloadFault`; without options the number is not limited. */
export function createSemaphore(
  max: number,
  options?: { readonly queuedMax: number; readonly overloadFault: () => Error },
): <T>(work: () => Promise<T>) => Promise<T> {
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

/** Runs `poll` unless it is running already: on a slow store it may take longer than its interval. It handles its own failures. */
export function withoutOverlap(poll: () => Promise<void>): () => void {
  let isPolling = false;
  return () => {
    if (isPolling) return;
    isPolling = true;
    void poll().finally(() => {
      isPolling = false;
    });
  };
}

/** Rejects when the work takes longer than this; the work itself goes on. */
export async function withTimeout<T>({ timers }: Pick<ServiceEnvironment, "timers">, ms: number, work: Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>();
  const cancelTimeout = timers.after(ms, () => timeout.reject(new Error(`no answer within ${ms} ms`)));
  try {
    return await Promise.race([work, timeout.promise]);
  } finally {
    cancelTimeout();
  }
}
