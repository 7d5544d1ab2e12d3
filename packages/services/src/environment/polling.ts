// Repeated work that never overlaps with itself.

/**
 * A function that runs `poll`, unless that is running already: on a slow store a poll takes longer than its interval, and a second one would
 * make it slower still. `poll` handles its own failures.
 */
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
