// A cache of documents that every request needs: at most a second old, and older only while the store is unreachable.

import { LruMap } from "@astraflow/protocol";
import type { ServiceEnvironment } from "./service-environment.ts";

export const cacheLimits = {
  /** How old a value may be before it is read again. */
  freshMs: 1_000,
  /** How long a cached value stays valid while the store is unreachable. */
  staleMsMax: 600_000,
  entriesMax: 10_000,
} as const;

interface CachedValue<T> {
  readonly value: T;
  readonly at: number;
}

/** A value that was invalidated during its read is read again, at most this often. */
const loadAttemptsMax = 3;

/** Values by name; the oldest are dropped first, and each name is read by one reader at a time. */
export function createReadThroughCache<T>(readValue: (name: string) => Promise<T>, clock: ServiceEnvironment["clock"]) {
  const cached = new LruMap<string, CachedValue<T>>({ entriesMax: cacheLimits.entriesMax, touchOnGet: false });
  const loading = new Map<string, Promise<void>>();
  const load = (name: string): Promise<void> => {
    const inFlight = loading.get(name);
    if (inFlight !== undefined) return inFlight;
    // Its age counts from before the read: later changes are not in the value.
    const at = clock.monotonic();
    const currentLoad: Promise<void> = readValue(name)
      .then((value) => {
        // Invalidated during the read: the value may be from before the change.
        if (loading.get(name) !== currentLoad) return;
        cached.set(name, { value, at });
      })
      .finally(() => {
        if (loading.get(name) === currentLoad) loading.delete(name);
      });
    loading.set(name, currentLoad);
    return currentLoad;
  };
  return {
    get: (name: string) => cached.get(name),
    load,
    /** If the store is unreachable a cached value is used; without one the fault is thrown. */
    async refresh(name: string): Promise<void> {
      for (let attempts = 0; attempts < loadAttemptsMax; attempts += 1) {
        const cachedValue = cached.get(name);
        if (cachedValue !== undefined && clock.monotonic() - cachedValue.at <= cacheLimits.freshMs) return;
        await load(name).catch((problem: unknown) => {
          if (cachedValue === undefined) throw problem;
        });
        if (cachedValue !== undefined) return;
      }
    },
    invalidate(name: string): void {
      cached.delete(name);
      loading.delete(name);
    },
  };
}
