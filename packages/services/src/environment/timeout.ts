// A bound on waiting.

import type { ServiceEnvironment } from "./service-environment.ts";

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
