// What is remembered of documents that every request needs: a second old at most where somebody asks, older only while the store is away.

import type { ServiceEnvironment } from "./service-environment.ts";

export const cacheLimits = {
  /** How old what is remembered may be when it is asked for. */
  freshMs: 1_000,
  /** While the store is away, who was in stays in for this long. */
  staleMsMax: 600_000,
  entriesMax: 10_000,
} as const;

interface CachedValue<T> {
  readonly value: T;
  readonly at: number;
}

/** A name that was forgotten while we looked is looked at again, but not for ever. */
const loadAttemptsMax = 3;

/** Answers of the store by name, the oldest forgotten first; one look at a time for each name. */
export function createReadThroughCache<T>(readValue: (name: string) => Promise<T>, clock: ServiceEnvironment["clock"]) {
  const cached = new Map<string, CachedValue<T>>();
  const loading = new Map<string, Promise<void>>();
  const load = (name: string): Promise<void> => {
    const inFlight = loading.get(name);
    if (inFlight !== undefined) return inFlight;
    // As old as the moment it was asked for: what changes meanwhile is not in it.
    const at = clock.monotonic();
    const currentLoad: Promise<void> = readValue(name)
      .then((value) => {
        // Forgotten while we looked: what we saw may be from before the change.
        if (loading.get(name) !== currentLoad) return;
        cached.delete(name);
        cached.set(name, { value, at });
        for (const oldest of cached.keys()) {
          if (cached.size <= cacheLimits.entriesMax) break;
          cached.delete(oldest);
        }
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
    /** Where the store is away, what is remembered has to do; where nothing is, its fault is the answer. */
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
