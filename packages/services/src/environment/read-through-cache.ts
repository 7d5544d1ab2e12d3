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

/** A value that was invalidated during its read is read again, at most this often. */
const loadAttemptsMax = 3;

/** Values by name; the oldest are dropped first, and each name is read by one reader at a time. */
export class ReadThroughCache<T> {
  readonly #cached = new LruMap<string, { value: T; at: number }>({ entriesMax: cacheLimits.entriesMax, touchOnGet: false });
  readonly #loading = new Map<string, Promise<void>>();
  readonly #readValue: (name: string) => Promise<T>;
  readonly #clock: ServiceEnvironment["clock"];

  constructor(readValue: (name: string) => Promise<T>, clock: ServiceEnvironment["clock"]) {
    this.#readValue = readValue;
    this.#clock = clock;
  }

  get(name: string): { readonly value: T; readonly at: number } | undefined {
    return this.#cached.get(name);
  }

  load(name: string): Promise<void> {
    const inFlight = this.#loading.get(name);
    if (inFlight !== undefined) return inFlight;
    // Its age counts from before the read: later changes are not in the value.
    const at = this.#clock.monotonic();
    const currentLoad: Promise<void> = this.#readValue(name)
      .then((value) => {
        // Otherwise invalidated during the read: the value may be from before the change.
        if (this.#loading.get(name) === currentLoad) this.#cached.set(name, { value, at });
      })
      .finally(() => {
        if (this.#loading.get(name) === currentLoad) this.#loading.delete(name);
      });
    this.#loading.set(name, currentLoad);
    return currentLoad;
  }

  /** If the store is unreachable a cached value is used; without one the fault is thrown. */
  async refresh(name: string): Promise<void> {
    for (let attempts = 0; attempts < loadAttemptsMax; attempts += 1) {
      const cachedValue = this.#cached.get(name);
      if (cachedValue !== undefined && this.#clock.monotonic() - cachedValue.at <= cacheLimits.freshMs) return;
      await this.load(name).catch((problem: unknown) => {
        if (cachedValue === undefined) throw problem;
      });
      if (cachedValue !== undefined) return;
    }
  }

  invalidate(name: string): void {
    this.#cached.delete(name);
    this.#loading.delete(name);
  }
}
