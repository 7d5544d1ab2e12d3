// What is remembered of documents that every request needs: a second old at most where somebody asks, older only while the store is away.

import type { DoorEnvironment } from "../outside.ts";

export const memoryLimits = {
  /** How old what is remembered may be when it is asked for. */
  freshMs: 1_000,
  /** While the store is away, who was in stays in for this long. */
  staleMsMax: 600_000,
  rememberedMax: 10_000,
} as const;

interface Remembered<T> {
  readonly value: T;
  readonly at: number;
}

/** A name that was forgotten while we looked is looked at again, but not for ever. */
const looksMax = 3;

/** Answers of the store by name, the oldest forgotten first; one look at a time for each name. */
export function createMemory<T>(look: (name: string) => Promise<T>, clock: DoorEnvironment["clock"]) {
  const known = new Map<string, Remembered<T>>();
  const looking = new Map<string, Promise<void>>();
  const load = (name: string): Promise<void> => {
    const under = looking.get(name);
    if (under !== undefined) return under;
    // As old as the moment it was asked for: what changes meanwhile is not in it.
    const at = clock.monotonic();
    const mine: Promise<void> = look(name)
      .then((value) => {
        // Forgotten while we looked: what we saw may be from before the change.
        if (looking.get(name) !== mine) return;
        known.delete(name);
        known.set(name, { value, at });
        for (const oldest of known.keys()) {
          if (known.size <= memoryLimits.rememberedMax) break;
          known.delete(oldest);
        }
      })
      .finally(() => {
        if (looking.get(name) === mine) looking.delete(name);
      });
    looking.set(name, mine);
    return mine;
  };
  return {
    get: (name: string) => known.get(name),
    load,
    /** Where the store is away, what is remembered has to do; where nothing is, its fault is the answer. */
    async refresh(name: string): Promise<void> {
      for (let looks = 0; looks < looksMax; looks += 1) {
        const seen = known.get(name);
        if (seen !== undefined && clock.monotonic() - seen.at <= memoryLimits.freshMs) return;
        await load(name).catch((problem: unknown) => {
          if (seen === undefined) throw problem;
        });
        if (seen !== undefined) return;
      }
    },
    forget(name: string): void {
      known.delete(name);
      looking.delete(name);
    },
  };
}
