// Random workflows: chains, fans, joins and anything else whose edges lead forward, with policies and with moods for their handlers.

import type { Dice } from "./dice.ts";
import { nodeTypes, simPackage } from "./handlers.ts";
import { type Mood, type MoodKind, writeMood } from "./mood.ts";

export interface DrawnWorkflow {
  readonly workflow: Record<string, unknown>;
  readonly nodes: number;
  /** How long its handlers may take in all, one after the other, every attempt counted. */
  readonly workMs: number;
}

export interface DrawOptions {
  /** Pools that some worker of the tenant is in. */
  readonly pools: readonly string[];
  /** Deliveries that a node without a number of its own gets. */
  readonly maxDeliveries: number;
  /** Handlers may take their process down with them. */
  readonly mayKill: boolean;
  /** More handlers give feedback. */
  readonly isTalkative: boolean;
  /** Stretches all durations: with a long lease everything takes longer. */
  readonly scale: number;
}

interface DrawnNode {
  readonly node: Record<string, unknown>;
  readonly workMs: number;
}

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
/** A key always comes with the same limit: what two limits for one key mean is not decided here. */
export const keyLimit = (key: string): number => 1 + (Number(key.slice(1)) % 2);

export function drawWorkflow(dice: Dice, options: DrawOptions): DrawnWorkflow {
  const shape = dice.weigh({ chain: 3, fan: 3, join: 2, diamond: 2, flat: 2, any: 3 });
  const count = shape === "fan" || shape === "flat" ? dice.between(2, 10) : dice.between(1, 6);
  const edges: [number, number][] = [];
  for (let to = 1; to < count; to++) {
    if (shape === "chain") edges.push([to - 1, to]);
    if (shape === "fan") edges.push([0, to]);
    if (shape === "join" && to === count - 1) for (let from = 0; from < to; from++) edges.push([from, to]);
    if (shape === "diamond") edges.push(...(to === count - 1 ? inner(to) : [[0, to] as [number, number]]));
    if (shape === "any") for (let from = 0; from < to; from++) if (dice.chance(0.35)) edges.push([from, to]);
  }
  const drawn = Array.from({ length: count }, (_, at) => drawNode(dice, at, count, options));
  const workflow = {
    id: uuid(999),
    schemaVersion: "2025-10",
    metadata: { name: shape },
    nodes: drawn.map(({ node }) => node),
    edges: edges.map(([from, to], at) => ({
      id: `e${at}`,
      source: { node: uuid(from), port: "out" },
      target: { node: uuid(to), port: `in${from}` },
    })),
  };
  return { workflow, nodes: count, workMs: drawn.reduce((sum, { workMs }) => sum + workMs, 0) };
}

const inner = (last: number): [number, number][] =>
  last === 1 ? [[0, 1]] : Array.from({ length: last - 1 }, (_, at) => [at + 1, last]);

function drawNode(dice: Dice, at: number, count: number, options: DrawOptions): DrawnNode {
  const { scale } = options;
  const key = dice.chance(0.3) ? `k${dice.below(6)}` : null;
  const maxAttempts = dice.chance(0.4) ? dice.between(1, 4) : 1;
  const backoffMs = dice.pick([0, 300 * scale]);
  const maxDeliveries = dice.chance(0.2) ? dice.between(1, 8) : null;
  const moods = Array.from({ length: dice.between(1, 3) }, () => drawMood(dice, options));
  const isHanging = moods.some(({ kind }) => kind === "hanging");
  const timeoutMs = isHanging || dice.chance(0.2) ? Math.round(dice.between(500, 5_000) * scale) : null;
  const queueTimeoutMs = dice.chance(0.06) ? Math.round(dice.between(3_000, 15_000) * scale) : null;
  const policy = {
    ...(key !== null && { concurrency: { key, limit: keyLimit(key) } }),
    ...(maxAttempts > 1 && { retry: { maxAttempts, backoffMs } }),
    ...(timeoutMs !== null && { timeoutMs }),
    ...(queueTimeoutMs !== null && { queueTimeoutMs }),
    ...(dice.chance(0.2) && { priority: dice.below(10) }),
    ...(options.pools.length > 0 && dice.chance(0.2) && { pool: dice.pick(options.pools) }),
    ...(maxDeliveries !== null && { maxDeliveries }),
  };
  const longestMs = Math.max(...moods.map(({ ms }) => ms), timeoutMs ?? 0);
  // Every attempt may be delivered as often as it is allowed to; a delivery that is lost costs its handler's time as well.
  const deliveries = maxDeliveries ?? options.maxDeliveries;
  const workMs = maxAttempts * (deliveries * longestMs + backoffMs * 8);
  const node = {
    id: uuid(at),
    type: dice.pick(nodeTypes),
    package: simPackage,
    label: `node ${at}`,
    position: { x: 0, y: 0 },
    parameters: writeMood({ moods, key, limit: key === null ? 0 : keyLimit(key) }),
    policy,
    ui: {
      inputPorts: Array.from({ length: count }, (_, from) => ({
        key: `in${from}`,
        label: "in",
        binding: { path: `parameters.in${from}`, mode: "write" },
      })),
      outputPorts: [{ key: "out", label: "out", binding: { path: "results.out", mode: "read" } }],
    },
  };
  return { node, workMs };
}

const moodWeights: Readonly<Record<MoodKind, number>> = {
  quick: 9,
  slow: 4,
  chatty: 2,
  failing: 0.8,
  throwing: 1,
  skipping: 0.4,
  hanging: 0.4,
  deaf: 0.5,
  killing: 0.25,
};

export function drawMood(dice: Dice, { mayKill, isTalkative, scale }: DrawOptions): Mood {
  const weights = { ...moodWeights, ...(!mayKill && { killing: 0 }), ...(isTalkative && { chatty: 12 }) };
  const kind = dice.weigh(weights);
  const ms = kind === "quick" ? dice.pick([0, 1, 20, 60]) : Math.round(dice.scale(100, kind === "deaf" ? 8_000 : 3_000) * scale);
  return { kind, ms, ...(isTalkative && kind === "chatty" && { words: dice.between(3, 30) }) };
}
