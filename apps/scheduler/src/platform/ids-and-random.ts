// Ids, random numbers and digests for the engine in production. The simulator has its own.

import { createHash, randomFillSync } from "node:crypto";

/** Characters of a base64url sha256 that are kept: 132 bits, far from any collision and short as a key. */
const digestChars = 22;

export function digestText(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, digestChars);
}

/** 0 <= n < 1, from a pool of 32-bit numbers, because one system call per number is slow. */
export function createRandom(fill: (into: Uint32Array) => void = randomFillSync): { next(): number } {
  const pool = new Uint32Array(1_024);
  let left = 0;
  return {
    next() {
      if (left === 0) {
        fill(pool);
        left = pool.length;
      }
      left -= 1;
      return (pool[left] ?? 0) / 2 ** 32;
    },
  };
}

/**
 * UUIDv7: 48 bits of time, then a 12-bit counter, then 62 random bits. Ids made later sort later, also within one millisecond and
 * when the time stands still or goes back: then the last instant is used and the counter is raised.
 */
export function createIdGenerator(fill: (into: Uint8Array) => void = randomFillSync): { next(now: number): string } {
  const random = new Uint8Array(8 * 256);
  let offset = random.length;
  let instant = -1;
  let counter = 0;
  return {
    next(now) {
      const ms = Math.floor(now);
      if (ms > instant) {
        instant = ms;
        counter = 0;
      } else if (counter < 0xfff) counter += 1;
      else {
        // 4096 ids in one millisecond: borrow the next one rather than break the order.
        instant += 1;
        counter = 0;
      }
      if (offset + 8 > random.length) {
        fill(random);
        offset = 0;
      }
      const tail = Buffer.from(random.buffer, offset, 8).toString("hex");
      offset += 8;
      const time = instant.toString(16).padStart(12, "0");
      // The variant's two bits are fixed: 8, 9, a or b.
      const variant = (8 + (Number.parseInt(tail[0] ?? "0", 16) & 3)).toString(16);
      return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, "0")}-${variant}${tail.slice(1, 4)}-${tail.slice(4, 16)}`;
    },
  };
}
