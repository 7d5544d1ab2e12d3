// A queue in which a test waits for a certain item: no sleeping, no polling.

export interface AwaitableQueue<T> {
  put(item: T): void;
  /** Takes the first item that fits; waits for it if there is none. */
  take(fits: (item: T) => boolean): Promise<T>;
  /** Items that were not taken. */
  readonly left: readonly T[];
  /** Rejects everything that waits, and everything that will wait. */
  end(why: Error): void;
}

export function createAwaitableQueue<T>(): AwaitableQueue<T> {
  const left: T[] = [];
  const waiting: { fits: (item: T) => boolean; resolve: (item: T) => void; reject: (why: Error) => void }[] = [];
  let ended: Error | null = null;
  return {
    left,
    put(item) {
      const index = waiting.findIndex((one) => one.fits(item));
      if (index < 0) left.push(item);
      else waiting.splice(index, 1)[0]?.resolve(item);
    },
    take(fits) {
      const index = left.findIndex(fits);
      if (index >= 0) return Promise.resolve(left.splice(index, 1)[0] as T);
      if (ended !== null) return Promise.reject(ended);
      return new Promise((resolve, reject) => void waiting.push({ fits, resolve, reject }));
    },
    end(why) {
      ended = why;
      for (const one of waiting.splice(0)) one.reject(why);
    },
  };
}
