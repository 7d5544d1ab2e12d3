// The disk under a worker's outbox: one file whose last bytes are safe only after a sync. It outlasts the processes; each process opens it anew. Bit rot
// is not simulated: the journal's own tests show that a flipped bit is found.

import type { OutboxDisk } from "@astraflow/runtime";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";

const operationMs = 0.05;
const syncMs = 0.8;

export class SimulatedOutboxDisk {
  readonly #timeline: Timeline;
  readonly #random: SeededRandom;
  /** What survives a power cut; null where there is no file. */
  #syncedBytes: Uint8Array | null = null;
  /** What a reader sees. */
  #visibleBytes: Uint8Array | null = null;
  /** Faults under way. */
  readonly faults = { full: 0, append: 0, sync: 0 };
  addedSyncMs = 0;

  constructor(timeline: Timeline, random: SeededRandom) {
    this.#timeline = timeline;
    this.#random = random;
  }

  /** The power is gone: of what was not synced any first part may have reached the platters. */
  losePower(): void {
    this.#replaceAll(this.#bytesAfterCrash());
  }

  open(eventLoop: ProcessEventLoop): OutboxDisk {
    const perform = <T>(ms: number, work: () => T): Promise<T> => this.#performOperation(eventLoop, ms, work);
    return {
      read: () => perform(operationMs, () => this.#visibleBytes?.slice() ?? null),
      append: (bytes) =>
        perform(operationMs, () => {
          const isFull = this.faults.full > 0;
          if (!isFull && this.faults.append === 0) return this.#appendBytes(bytes);
          // A failed append leaves any part of its bytes behind.
          this.#appendBytes(bytes.subarray(0, this.#random.integerBelow(bytes.length + 1)));
          throw isFull ? diskError("ENOSPC", "no space left on device") : diskError("EIO", "i/o error on append");
        }),
      sync: () =>
        perform(syncMs * this.#random.logUniform(0.3, 6) + this.addedSyncMs, () => {
          if (this.faults.sync === 0) {
            this.#syncedBytes = this.#visibleBytes;
            return;
          }
          // The kernel forgets that the pages were dirty: the next sync would succeed without writing them.
          this.#replaceAll(this.#bytesAfterCrash());
          throw diskError("EIO", "i/o error on sync");
        }),
      truncate: (bytes) =>
        perform(operationMs, () => {
          this.#visibleBytes = (this.#visibleBytes ?? empty).slice(0, bytes);
        }),
      replace: (bytes) =>
        perform(syncMs * this.#random.logUniform(1, 8) + this.addedSyncMs, () => {
          if (this.faults.full > 0) throw diskError("ENOSPC", "no space left on device");
          if (this.faults.append > 0 || this.faults.sync > 0) throw diskError("EIO", "i/o error on replace");
          this.#replaceAll(bytes.slice());
        }),
      setAside: () => perform(operationMs, () => this.#replaceAll(null)),
    };
  }

  /** The whole file, at once and safely. */
  #replaceAll(bytes: Uint8Array | null): void {
    this.#visibleBytes = this.#syncedBytes = bytes;
  }

  #appendBytes(bytes: Uint8Array): void {
    this.#visibleBytes = Buffer.concat([this.#visibleBytes ?? empty, bytes]);
  }

  /** Somewhere between what is safe and what is seen. */
  #bytesAfterCrash(): Uint8Array | null {
    const { length: safe } = this.#syncedBytes ?? empty;
    const { length: seen } = this.#visibleBytes ?? empty;
    // A file that was cut is its old self or its new one; one that has grown may end anywhere in what is new.
    if (seen <= safe) return this.#random.chance(0.5) ? this.#syncedBytes : this.#visibleBytes;
    const kept = safe + this.#random.integerBelow(seen - safe + 1);
    return kept === 0 && this.#syncedBytes === null ? null : (this.#visibleBytes ?? empty).slice(0, kept);
  }

  /** The disk does its part whether or not the process still waits for it. */
  #performOperation<T>(eventLoop: ProcessEventLoop, ms: number, work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (eventLoop.hasEnded) return;
      this.#timeline.after(ms, () => {
        // Of a process that was killed with a write under way the kernel may have taken it or not.
        if (eventLoop.hasEnded && this.#random.chance(0.5)) return;
        try {
          const value = work();
          eventLoop.deliver(() => resolve(value));
        } catch (problem) {
          eventLoop.deliver(() => reject(problem as Error));
        }
      });
    });
  }
}

const empty = new Uint8Array(0);
const diskError = (code: string, message: string): Error => Object.assign(new Error(`${code}: ${message}`), { code });
