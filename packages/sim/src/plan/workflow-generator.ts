// Random flat workflows: chains, fans, joins and any other acyclic graph, with policies and handler scripts.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import { type HandlerBehaviour, writeHandlerScript } from "./handler-script.ts";
import { nodeTypes, packageOf, unrepeatableType } from "./simulated-package.ts";

export interface GeneratedWorkflow {
  readonly workflow: Record<string, unknown>;
  readonly nodes: number;
  /** How long its handlers may take in all, one after the other, every attempt counted. */
  readonly workMs: number;
}

export interface WorkflowGeneratorOptions {
  /** Pools that some worker of the tenant is in. */
  readonly pools: readonly string[];
  /** Deliveries that a node without a number of its own gets. */
  readonly maxDeliveries: number;
  /** Handlers may take their process down with them. */
  readonly mayKillProcess: boolean;
  /** More handlers give feedback. */
  readonly hasMuchFeedback: boolean;
  /** Stretches all durations: with a long lease everything takes longer. */
  readonly scale: number;
}

const nodeIdAt = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
/** A key always comes with the same limit: what two limits for one key mean is not decided here. */
export const concurrencyLimitOfKey = (key: string): number => 1 + (Number(key.slice(1)) % 2);

export function generateWorkflow(random: SeededRandom, options: WorkflowGeneratorOptions): GeneratedWorkflow {
  const shape = random.pickWeighted({ chain: 3, fan: 3, join: 2, diamond: 2, flat: 2, any: 3 });
  const count = shape === "fan" || shape === "flat" ? random.integerBetween(2, 10) : random.integerBetween(1, 6);
  const edges: [number, number][] = [];
  for (let to = 1; to < count; to++) {
    if (shape === "chain") edges.push([to - 1, to]);
    if (shape === "fan") edges.push([0, to]);
    if (shape === "join" && to === count - 1) for (let from = 0; from < to; from++) edges.push([from, to]);
    if (shape === "diamond") edges.push(...(to === count - 1 ? edgesIntoLast(to) : [[0, to] as [number, number]]));
    if (shape === "any") for (let from = 0; from < to; from++) if (random.chance(0.35)) edges.push([from, to]);
  }
  const drawn = Array.from({ length: count }, (_, at) => generateNode(random, at, count, options));
  const workflow = {
    id: nodeIdAt(999),
    schemaVersion: "2025-10",
    metadata: { name: shape },
    nodes: drawn.map(({ node }) => node),
    edges: edges.map(([from, to], at) => ({
      id: `e${at}`,
      source: { node: nodeIdAt(from), port: "out" },
      target: { node: nodeIdAt(to), port: `in${from}` },
    })),
  };
  return { workflow, nodes: count, workMs: drawn.reduce((sum, { workMs }) => sum + workMs, 0) };
}

const edgesIntoLast = (last: number): [number, number][] =>
  last === 1 ? [[0, 1]] : Array.from({ length: last - 1 }, (_, at) => [at + 1, last]);

function generateNode(random: SeededRandom, at: number, count: number, options: WorkflowGeneratorOptions) {
  const { scale } = options;
  const key = random.chance(0.3) ? `k${random.integerBelow(6)}` : null;
  const maxAttempts = random.chance(0.4) ? random.integerBetween(1, 4) : 1;
  const backoffMs = random.pick([0, 300 * scale]);
  const maxDeliveries = random.chance(0.2) ? random.integerBetween(1, 8) : null;
  const behaviours = Array.from({ length: random.integerBetween(1, 3) }, () => generateBehaviour(random, options));
  const isHanging = behaviours.some(({ kind }) => kind === "hanging");
  const timeoutMs = isHanging || random.chance(0.2) ? Math.round(random.integerBetween(500, 5_000) * scale) : null;
  const queueTimeoutMs = random.chance(0.06) ? Math.round(random.integerBetween(3_000, 15_000) * scale) : null;
  const policy = {
    ...(key !== null && { concurrency: { key, limit: concurrencyLimitOfKey(key) } }),
    ...(maxAttempts > 1 && { retry: { maxAttempts, backoffMs } }),
    ...(timeoutMs !== null && { timeoutMs }),
    ...(queueTimeoutMs !== null && { queueTimeoutMs }),
    ...(random.chance(0.2) && { priority: random.integerBelow(10) }),
    ...(options.pools.length > 0 && random.chance(0.2) && { pool: random.pick(options.pools) }),
    ...(maxDeliveries !== null && { maxDeliveries }),
  };
  const longestMs = Math.max(...behaviours.map(({ ms }) => ms), timeoutMs ?? 0);
  // Every attempt may be delivered as often as it is allowed to; a delivery that is lost costs its handler's time as well.
  const deliveries = maxDeliveries ?? options.maxDeliveries;
  const workMs = maxAttempts * (deliveries * longestMs + backoffMs * 8);
  const type = random.pick(nodeTypes);
  // An older worker that may have lost such an attempt is not asked for it: only its deadline ends it then.
  const isUnbounded = type === unrepeatableType && timeoutMs === null;
  const node = {
    id: nodeIdAt(at),
    type,
    package: packageOf(type),
    label: `node ${at}`,
    position: { x: 0, y: 0 },
    parameters: writeHandlerScript({ behaviours, key, limit: key === null ? 0 : concurrencyLimitOfKey(key) }),
    policy: isUnbounded ? { ...policy, timeoutMs: Math.round(10_000 * scale) } : policy,
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

const behaviourWeights: Readonly<Record<HandlerBehaviour["kind"], number>> = {
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

export function generateBehaviour(
  random: SeededRandom,
  { mayKillProcess, hasMuchFeedback, scale }: Omit<WorkflowGeneratorOptions, "pools">,
): HandlerBehaviour {
  const weights = { ...behaviourWeights, ...(!mayKillProcess && { killing: 0 }), ...(hasMuchFeedback && { chatty: 12 }) };
  const kind = random.pickWeighted(weights);
  const ms =
    kind === "quick" ? random.pick([0, 1, 20, 60]) : Math.round(random.logUniform(100, kind === "deaf" ? 8_000 : 3_000) * scale);
  return { kind, ms, ...(hasMuchFeedback && kind === "chatty" && { words: random.integerBetween(3, 30) }) };
}
