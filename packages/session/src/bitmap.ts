// `ack_bitmap`: the settled numbers above the contiguous part, as a JSON number while a double holds it, as lowercase hex above.

import { limits } from "@astraflow/protocol";

const noPositions: readonly number[] = [];
const twoTo32 = 2 ** 32;

export function bitmapPositions(bitmap: number | string | undefined): readonly number[] {
  if (bitmap === undefined || bitmap === 0) return noPositions;
  const positions: number[] = [];
  if (typeof bitmap === "number") {
    collectBits(bitmap % twoTo32, 0, positions);
    collectBits(Math.floor(bitmap / twoTo32), 32, positions);
    return positions;
  }
  for (let at = bitmap.length - 1, offset = 0; at >= 0; at -= 1, offset += 4)
    collectBits(Number.parseInt(bitmap.charAt(at), 16), offset, positions);
  return positions;
}

function collectBits(value: number, offset: number, positions: number[]): void {
  for (let bits = value, bit = 0; bits !== 0; bits >>>= 1, bit += 1) if ((bits & 1) === 1) positions.push(offset + bit);
}

/** The bitmap of the numbers above `base`: bit i stands for base + 1 + i. */
export function buildBitmap(base: number, numbers: ReadonlySet<number>): number | string {
  let top = -1;
  for (const number of numbers) top = Math.max(top, number - base - 1);
  if (top < limits.bitmapNumberBitsMax) {
    let sum = 0;
    for (const number of numbers) sum += 2 ** (number - base - 1);
    return sum;
  }
  const digits = Array.from({ length: (top >> 2) + 1 }, () => 0);
  for (const number of numbers) {
    const bit = number - base - 1;
    const at = digits.length - 1 - (bit >> 2);
    digits[at] = (digits[at] ?? 0) | (1 << (bit & 3));
  }
  return digits.map((digit) => digit.toString(16)).join("");
}
