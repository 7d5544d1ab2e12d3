// The disk under a worker's outbox: one file whose last bytes are safe only after a sync. It lasts over the lives of the process and is
// reached by each of them through its own opening, which ends with it. Bit rot is not played: that a flipped bit is found is tested
// beside the journal.

import type { OutboxDisk } from "@astraflow/runtime";
import type { Dice } from "./dice.ts";
import type { Life } from "./life.ts";
import type { Timeline } from "./timeline.ts";

const callMs = 0.05;
const syncMs = 0.8;

export class OutboxDrive {
  readonly #timeline: Timeline;
  readonly #dice: Dice;
  /** What survives a power cut; null where there is no file. */
  #durable: Uint8Array | null = null;
  /** What a reader sees. */
  #seen: Uint8Array | null = null;
  /** Faults under way. */
  readonly faults = { full: 0, append: 0, sync: 0 };
  slowMs = 0;

  constructor(timeline: Timeline, dice: Dice) {
    this.#timeline = timeline;
    this.#dice = dice;
  }

  /** The power is gone: of what was not synced any first part may have reached the platters. */
  losePower(): void {
    this.#seen = this.#settled();
    this.#durable = this.#seen;
  }

  open(life: Life): OutboxDisk {
    return {
      read: () => this.#call(life, callMs, () => (this.#seen === null ? null : this.#seen.slice())),
      append: (bytes) =>
        this.#call(life, callMs, () => {
          const isFull = this.faults.full > 0;
          if (!isFull && this.faults.append === 0) return this.#write(bytes);
          // A failed append leaves any part of its bytes behind.
          this.#write(bytes.subarray(0, this.#dice.below(bytes.length + 1)));
          throw isFull ? error("ENOSPC", "no space left on device") : error("EIO", "i/o error on append");
        }),
      sync: () =>
        this.#call(life, syncMs * this.#dice.scale(0.3, 6) + this.slowMs, () => {
          if (this.faults.sync === 0) {
            this.#durable = this.#seen;
            return;
          }
          // The kernel forgets that the pages were dirty: the next sync would succeed without writing them.
          this.#seen = this.#settled();
          this.#durable = this.#seen;
          throw error("EIO", "i/o error on sync");
        }),
      truncate: (bytes) =>
        this.#call(life, callMs, () => {
          this.#seen = (this.#seen ?? empty).slice(0, bytes);
        }),
      replace: (bytes) =>
        this.#call(life, syncMs * this.#dice.scale(1, 8) + this.slowMs, () => {
          if (this.faults.full > 0) throw error("ENOSPC", "no space left on device");
          if (this.faults.append > 0 || this.faults.sync > 0) throw error("EIO", "i/o error on replace");
          this.#seen = bytes.slice();
          this.#durable = this.#seen;
        }),
      setAside: () =>
        this.#call(life, callMs, () => {
          this.#seen = null;
          this.#durable = null;
        }),
    };
  }

  #write(bytes: Uint8Array): void {
    this.#seen = Buffer.concat([this.#seen ?? empty, bytes]);
  }

  /** Somewhere between what is safe and what is seen. */
  #settled(): Uint8Array | null {
    const { length: safe } = this.#durable ?? empty;
    const { length: seen } = this.#seen ?? empty;
    // A file that was cut is its old self or its new one; one that has grown may end anywhere in what is new.
    if (seen <= safe) return this.#dice.chance(0.5) ? this.#durable : this.#seen;
    const kept = safe + this.#dice.below(seen - safe + 1);
    return kept === 0 && this.#durable === null ? null : (this.#seen ?? empty).slice(0, kept);
  }

  /** The disk does its part whether or not the process still waits for it. */
  #call<T>(life: Life, ms: number, work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (life.isOver) return;
      this.#timeline.after(ms, () => {
        // Of a process that was killed with a write under way the kernel may have taken it or not.
        if (life.isOver && this.#dice.chance(0.5)) return;
        try {
          const value = work();
          life.hear(() => resolve(value));
        } catch (problem) {
          life.hear(() => reject(problem as Error));
        }
      });
    });
  }
}

const empty = new Uint8Array(0);
const error = (code: string, message: string): Error => Object.assign(new Error(`${code}: ${message}`), { code });
