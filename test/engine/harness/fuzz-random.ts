// Seeded randomness for the fuzz tests, and the random workflows that they run.

import { buildWorkflow, type NodeSpec } from "./engine-harness.ts";

export class FuzzRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 0 <= n < 1; a small generator with good mixing (mulberry32), since neighbouring seeds must not look alike. */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  integerBelow(most: number): number {
    return Math.floor(this.random() * most);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.integerBelow(items.length)] as T;
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

/** A key always comes with the same limit: what two limits for one key mean is not decided here. */
const keyLimit = (key: string): number => 1 + (Number(key.slice(1)) % 2);

const nodeTypes = ["test.step", "test.heavy", "test.light"] as const;

function randomPolicy(random: FuzzRandom): Record<string, unknown> {
  const key = `k${random.integerBelow(12)}`;
  return {
    ...(random.chance(0.35) ? { concurrency: { key, limit: keyLimit(key) } } : {}),
    ...(random.chance(0.5) ? { retry: { maxAttempts: 1 + random.integerBelow(4), backoffMs: random.pick([0, 300]) } } : {}),
    ...(random.chance(0.2) ? { timeoutMs: 2_000 + random.integerBelow(6_000) } : {}),
    ...(random.chance(0.08) ? { queueTimeoutMs: 4_000 + random.integerBelow(16_000) } : {}),
    ...(random.chance(0.2) ? { priority: random.integerBelow(10) } : {}),
    ...(random.chance(0.15) ? { pool: "gpu" } : {}),
    ...(random.chance(0.2) ? { maxDeliveries: 1 + random.integerBelow(20) } : {}),
  };
}

/** Chains, fans, joins, and anything else whose edges lead forward. */
export function randomWorkflow(random: FuzzRandom): Record<string, unknown> {
  const shape = random.pickWeighted({ chain: 3, fan: 3, join: 2, diamond: 2, flat: 2, any: 3 });
  const count = shape === "fan" || shape === "flat" ? 2 + random.integerBelow(12) : 1 + random.integerBelow(7);
  const nodes: NodeSpec[] = Array.from({ length: count }, () => ({
    type: random.pick(nodeTypes),
    ...(random.chance(0.7) ? { policy: randomPolicy(random) } : {}),
  }));
  const edges: [number, number][] = [];
  for (let to = 1; to < count; to++) {
    if (shape === "chain") edges.push([to - 1, to]);
    if (shape === "fan") edges.push([0, to]);
    if (shape === "join" && to === count - 1) for (let from = 0; from < to; from++) edges.push([from, to]);
    if (shape === "diamond") edges.push(...(to === count - 1 ? edgesIntoLast(to) : [[0, to] as [number, number]]));
    if (shape === "any") for (let from = 0; from < to; from++) if (random.chance(0.35)) edges.push([from, to]);
  }
  return buildWorkflow(nodes, edges);
}

const edgesIntoLast = (last: number): [number, number][] =>
  last === 1 ? [[0, 1]] : Array.from({ length: last - 1 }, (_, at) => [at + 1, last]);
