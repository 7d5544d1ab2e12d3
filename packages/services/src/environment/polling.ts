// Repeated reads that never overlap.

import type { ServiceEnvironment } from "./service-environment.ts";

/**
 * Runs `poll` every so often until the returned function is called. On a slow store a poll takes longer than the interval; a second one
 * would make it slower still. `poll` handles its own failures.
 */
export function pollAlone({ timers }: Pick<ServiceEnvironment, "timers">, ms: number, poll: () => Promise<void>): () => void {
  let isPolling = false;
  return timers.every(ms, () => {
    if (isPolling) return;
    isPolling = true;
    void poll().finally(() => {
      isPolling = false;
    });
  });
}
