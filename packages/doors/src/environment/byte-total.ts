// One limit for what many hold together: those that hold most are ended when it is exceeded.

export interface ByteTotal<T> {
  bytesOf(holder: T): number;
  readonly bytesMax: number;
  /** Which of two is ended first; absent: the one that holds more. */
  compare?(one: T, other: T): number;
  evict(holder: T): void;
}

/** Ends holders until three quarters of the limit are left, so that it is not due again with the next byte; none while the limit is kept. */
export function evictAboveTotal<T>(
  holders: ReadonlySet<T> | readonly T[],
  { bytesOf, bytesMax, compare, evict }: ByteTotal<T>,
): void {
  let total = 0;
  for (const holder of holders) total += bytesOf(holder);
  if (total <= bytesMax) return;
  const inOrder = [...holders].map((holder) => ({ holder, bytes: bytesOf(holder) }));
  inOrder.sort((one, other) => compare?.(one.holder, other.holder) ?? other.bytes - one.bytes);
  for (const { holder, bytes } of inOrder) {
    if (total <= bytesMax * 0.75) return;
    total -= bytes;
    evict(holder);
  }
}
