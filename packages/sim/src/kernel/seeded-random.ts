// Random numbers from a seed, in many independent streams. A stream is identified by its name and not by how much others have drawn, so that one more
// draw in one place changes no other place. Ids are drawn from them too.

import { createHash } from "node:crypto";

/** xoshiro128** by Blackman and Vigna: 128 bits of state, seeded by a digest so that neighbouring seeds share nothing. */
export class SeededRandom {
  readonly #name: string;
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(name: string) {
    this.#name = name;
    const seed = createHash("sha256").update(name).digest();
    this.#a = seed.readUInt32LE(0);
    this.#b = seed.readUInt32LE(4);
    this.#c = seed.readUInt32LE(8);
    // All zeros would stay zeros for ever.
    this.#d = seed.readUInt32LE(12) | 1;
  }

  /** A stream of its own; the same name gives the same stream whatever was drawn before. */
  fork(name: string): SeededRandom {
    return new SeededRandom(`${this.#name}/${name}`);
  }

  /** A whole number of 32 bits. */
  nextUint32(): number {
    const five = Math.imul(this.#b, 5);
    const result = Math.imul((five << 7) | (five >>> 25), 9) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result;
  }

  /** 0 <= n < 1 */
  random(): number {
    return this.nextUint32() / 2 ** 32;
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  /** 0 <= n < most, whole. */
  integerBelow(most: number): number {
    return Math.floor(this.random() * most);
  }

  /** least <= n <= most, whole. */
  integerBetween(least: number, most: number): number {
    return least + this.integerBelow(most - least + 1);
  }

  /** Between the two, small ones as likely as large ones on a scale of orders of magnitude. */
  logUniform(least: number, most: number): number {
    return least * (most / least) ** this.random();
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.integerBelow(items.length)];
    if (item === undefined && items.length === 0) throw new Error("cannot pick from an empty list");
    return item as T;
  }

  /** One of the names, by weight. */
  pickWeighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const names = Object.keys(weights) as Name[];
    let at = this.random() * names.reduce((sum, name) => sum + weights[name], 0);
    for (const name of names) {
      at -= weights[name];
      if (at < 0) return name;
    }
    return names.at(-1) as Name;
  }
}

/** Ids that look like real ones: time-ordered ids as the engine makes them, and random ones for sessions and requests. */
export class SimulatedIds {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  /** Shaped as a UUID of version 7. */
  nextTimeOrdered(now: number): string {
    const time = now.toString(16).padStart(12, "0");
    const [a, b, c] = [this.#hex(), this.#hex(), this.#hex()];
    return `${time.slice(0, 8)}-${time.slice(8)}-7${a.slice(0, 3)}-8${a.slice(3, 6)}-${b}${c.slice(0, 4)}`;
  }

  next(): string {
    return `${this.#hex()}${this.#hex()}${this.#hex()}`;
  }

  #hex(): string {
    return this.#random.nextUint32().toString(16).padStart(8, "0");
  }
}
