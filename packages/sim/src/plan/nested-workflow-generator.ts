// Random workflows with all features: nodes behind middleware chains; containers that run their body once, over a list, in parallel or while a condition
// holds, also nested; joins between them; resources that are kept at a worker and used by a later node. What a node returns is a function of its
// parameters (simulated-package.ts), so the expected results are known beforehand.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import { type HandlerBehaviour, type MiddlewareScript, writeHandlerScript } from "./handler-script.ts";
import { middlewareTypeOf, nodeTypes, packageOf } from "./simulated-package.ts";
import {
  concurrencyLimitOfKey,
  type GeneratedWorkflow,
  generateBehaviour,
  type WorkflowGeneratorOptions,
} from "./workflow-generator.ts";

export interface GeneratedNestedWorkflow extends GeneratedWorkflow {
  /** Ids of all nodes, inside and around others too. */
  readonly ids: readonly string[];
  /** Results that stand for nodes which are not run, by id; null without any. */
  readonly pins: Readonly<Record<string, unknown>> | null;
}

export interface NestedWorkflowOptions extends Omit<WorkflowGeneratorOptions, "pools"> {
  /** Nothing depends on how long something takes. */
  readonly isTimeIndependent: boolean;
}

type JsonRecord = Record<string, unknown>;

/** What is drawn in one graph, and how often it is run. */
interface GraphPosition {
  readonly depth: number;
  readonly times: number;
}

/** A run must come to its end in a simulated run: so often a node runs at most, all loops and chains around it counted. */
const nodeRunsMax = 24;
const depthMax = 2;
/** At least and at most. */
const iterationsByMode = { plain: [1, 1], forEach: [0, 5], while: [1, 3], map: [0, 12] } as const;

export function generateNestedWorkflow(random: SeededRandom, options: NestedWorkflowOptions): GeneratedNestedWorkflow {
  return new NestedWorkflowGenerator(random, options).generate();
}

class NestedWorkflowGenerator {
  readonly #random: SeededRandom;
  readonly #options: NestedWorkflowOptions;
  /** Everything goes well: what comes out is known even if processes die on the way. */
  readonly #alwaysSucceeds: boolean;
  readonly #subgraphs: JsonRecord[] = [];
  readonly #ids: string[] = [];
  #workMs = 0;

  constructor(random: SeededRandom, options: NestedWorkflowOptions) {
    this.#random = random;
    this.#options = options;
    this.#alwaysSucceeds = random.chance(0.5);
  }

  generate(): GeneratedNestedWorkflow {
    const random = this.#random;
    const top = this.#generateGraph({ depth: 0, times: 1 }, random.integerBetween(1, 5));
    const nodes = top["nodes"] as readonly { readonly id: string }[];
    const pinned = random.chance(0.12) ? random.pick(nodes).id : null;
    return {
      workflow: { ...top, subgraphs: this.#subgraphs },
      nodes: this.#ids.length,
      workMs: this.#workMs,
      ids: this.#ids,
      pins: pinned === null ? null : { [pinned]: { out: "pinned" } },
    };
  }

  #newId(): string {
    const id = `00000000-0000-4000-8000-${String(this.#ids.length).padStart(12, "0")}`;
    this.#ids.push(id);
    return id;
  }

  #generateGraph(place: GraphPosition, count: number): JsonRecord {
    const random = this.#random;
    const nodes: JsonRecord[] = [];
    const edges: JsonRecord[] = [];
    const link = (from: number, to: number, out: string, into: string): void =>
      void edges.push({
        id: `e${edges.length}`,
        source: { node: nodes[from]?.["id"], port: out },
        target: { node: nodes[to]?.["id"], port: into },
      });
    for (let at = 0; at < count; at++) {
      const isBox = place.depth < depthMax && random.chance(place.depth === 0 ? 0.5 : 0.3);
      nodes.push(isBox ? this.#generateContainer(place, count) : this.#generateLeafNode(place, count));
      for (let from = 0; from < at; from++) if (random.chance(from === at - 1 ? 0.7 : 0.3)) link(from, at, "out", `in${from}`);
      const keeper = nodes.findIndex((node, from) => from < at && node["keeps"] === true);
      if (keeper >= 0 && !isBox && random.chance(0.7)) link(keeper, at, "kept", "kept");
    }
    return {
      id: "00000000-0000-4000-8000-000000000999",
      schemaVersion: "2025-10",
      metadata: { name: `depth ${place.depth}` },
      nodes: nodes.map(({ keeps: _, ...node }) => node),
      edges,
    };
  }

  #generateLeafNode(place: GraphPosition, count: number): JsonRecord {
    const random = this.#random;
    const { middlewares, times } = this.#generateMiddlewares(place);
    const keeps = middlewares.length === 0 && random.chance(0.15);
    const hasKey = middlewares.length === 0 && random.chance(0.1);
    const key = hasKey ? `k${random.integerBelow(4)}` : null;
    const affinity =
      !hasKey && random.chance(0.1) ? { key: `a${random.integerBelow(3)}`, mode: random.pick(["sticky", "preferred"]) } : null;
    const id = this.#newId();
    const { policy, behaviours } = this.#generatePolicyAndBehaviours(times);
    return {
      ...nodeSkeleton(id, random.pick(nodeTypes), count, "results.out", keeps),
      parameters: writeHandlerScript({
        behaviours,
        key,
        limit: key === null ? 0 : concurrencyLimitOfKey(key),
        name: `n${Number(id.slice(-4))}`,
        ...(keeps && { keeps }),
      }),
      policy: {
        ...policy,
        ...(key !== null && { concurrency: { key, limit: concurrencyLimitOfKey(key) } }),
        ...(affinity !== null && { affinity }),
      },
      ...(middlewares.length > 0 && { middlewares }),
      keeps,
    };
  }

  /** Outermost first; `times`: how often what they wrap is run. */
  #generateMiddlewares(place: GraphPosition): { readonly middlewares: JsonRecord[]; readonly times: number } {
    const random = this.#random;
    const count = place.times >= nodeRunsMax || !random.chance(0.35) ? 0 : random.integerBetween(1, 3);
    let { times } = place;
    const middlewares = Array.from({ length: count }, () => {
      const calls = times * 2 > nodeRunsMax ? 1 : Number(random.pickWeighted({ 0: 1.5, 1: 6, 2: 2, 3: 1 }));
      const id = this.#newId();
      const { policy, behaviours, attempts } = this.#generatePolicyAndBehaviours(times, 2);
      const isHasty = !this.#alwaysSucceeds && !this.#options.isTimeIndependent && random.chance(0.2);
      const wrap: MiddlewareScript = {
        calls,
        mark: random.chance(0.6) ? `by${Number(id.slice(-4))}` : null,
        timeoutMs: isHasty ? Math.round(random.logUniform(50, 4_000) * this.#options.scale) : null,
        isForgiving: !this.#alwaysSucceeds && random.chance(0.5),
      };
      // Every attempt of a middleware calls anew.
      times *= Math.max(1, calls) * attempts;
      return {
        ...nodeSkeleton(id, middlewareTypeOf(random.pick(nodeTypes)), 0, random.chance(0.25) ? "results.out" : null),
        role: "middleware",
        parameters: writeHandlerScript({ behaviours, key: null, limit: 0, name: `m${Number(id.slice(-4))}`, wrap }),
        policy,
      };
    });
    return { middlewares, times };
  }

  #generateContainer(place: GraphPosition, count: number): JsonRecord {
    const random = this.#random;
    const { middlewares, times } = random.chance(0.2)
      ? this.#generateMiddlewares(place)
      : { middlewares: [], times: place.times };
    const room = Math.max(1, Math.floor(nodeRunsMax / times));
    const mode = room < 2 ? "plain" : random.pick(["plain", "forEach", "while", "map", "map"] as const);
    // A while loop runs once at least; a list may be empty.
    const [least, most] = iterationsByMode[mode];
    const iterations = mode === "plain" ? 1 : random.integerBetween(least, Math.min(most, room));
    const id = this.#newId();
    const attempts = random.chance(0.4) ? random.integerBetween(2, 3) : 1;
    const inner = { depth: place.depth + 1, times: times * Math.max(1, iterations) * attempts };
    const body = this.#generateGraph(inner, random.integerBetween(1, 3));
    this.#subgraphs.push({ id, definition: body });
    const nodes = body["nodes"] as readonly JsonRecord[];
    const list = Array.from({ length: iterations }, (_, at) => at * 10);
    const isWritten = random.chance(0.6);
    const out = mode === "map" || mode === "forEach" ? "results.items" : "results.out";
    return {
      ...nodeSkeleton(id, "workflow.container", count, out),
      parameters: {
        ...(!isWritten && { list }),
        __container: {
          subgraphId: id,
          ...this.#loopSettings(mode, iterations, isWritten ? list : "parameters.list"),
          ...(attempts > 1 && { retry: { maxAttempts: attempts, backoffMs: random.pick([0, 200]), factor: 2 } }),
          ...(!this.#alwaysSucceeds &&
            !this.#options.isTimeIndependent &&
            random.chance(0.1) && { timeoutSeconds: random.integerBetween(2, 12) * this.#options.scale }),
          ...containerMappings(nodes, mode, count),
        },
      },
      ...(middlewares.length > 0 && { middlewares }),
    };
  }

  #loopSettings(mode: keyof typeof iterationsByMode, iterations: number, items: unknown): JsonRecord {
    if (mode === "plain") return {};
    if (mode === "while") return { loop: { mode, condition: { path: "n", op: "lt", value: iterations } } };
    return { loop: { mode, items, ...(mode === "map" && { parallelism: this.#random.integerBetween(1, 4) }) } };
  }

  /** How a node is run and how its handler behaves; adds how long that may take in all. */
  #generatePolicyAndBehaviours(
    times: number,
    attemptsMax = 4,
  ): { readonly policy: JsonRecord; readonly behaviours: readonly HandlerBehaviour[]; readonly attempts: number } {
    const random = this.#random;
    const { scale, isTimeIndependent } = this.#options;
    const maxAttempts = random.chance(0.4) ? random.integerBetween(2, attemptsMax) : 1;
    const backoffMs = random.pick([0, 200 * scale]);
    const behaviours = Array.from({ length: random.integerBetween(1, 2) }, () => this.#generateBehaviour());
    const isHanging = behaviours.some(({ kind }) => kind === "hanging");
    const isTimed = !isTimeIndependent && !this.#alwaysSucceeds && random.chance(0.1);
    const timeoutMs = isHanging || isTimed ? Math.round(random.integerBetween(1_000, 6_000) * scale) : null;
    const longestMs = Math.max(...behaviours.map(({ ms }) => ms), timeoutMs ?? 0);
    this.#workMs += times * maxAttempts * (this.#options.maxDeliveries * longestMs + backoffMs * 8 + 200);
    return {
      behaviours,
      attempts: maxAttempts,
      policy: {
        ...(maxAttempts > 1 && { retry: { maxAttempts, backoffMs } }),
        ...(timeoutMs !== null && { timeoutMs }),
        ...(random.chance(0.2) && { priority: random.integerBelow(10) }),
      },
    };
  }

  #generateBehaviour(): HandlerBehaviour {
    const random = this.#random;
    const { scale, isTimeIndependent } = this.#options;
    if (this.#alwaysSucceeds)
      return { kind: random.pick(["quick", "quick", "slow", "chatty"]), ms: random.pick([0, 1, 20, 200]) };
    const behaviour = generateBehaviour(random, this.#options);
    // How long something hangs depends on the faults; without faults nothing hangs.
    if (isTimeIndependent && (behaviour.kind === "hanging" || behaviour.kind === "deaf")) return { kind: "quick", ms: 1 };
    return { ...behaviour, ms: Math.min(behaviour.ms, 1_500 * scale) };
  }
}

/** `out`: null for one that hands on nothing; of a middleware what it hands on is written over its host's. */
function nodeSkeleton(id: string, type: string, count: number, out: string | null, keeps = false): JsonRecord {
  const port = (key: string, path: string, mode: string) => ({ key, label: key, binding: { path, mode } });
  return {
    id,
    type,
    package: packageOf(type),
    label: `node ${Number(id.slice(-4))}`,
    position: { x: 0, y: 0 },
    ui: {
      inputPorts: [
        ...Array.from({ length: count }, (_, from) => port(`in${from}`, `parameters.in${from}`, "write")),
        port("kept", "parameters.kept", "write"),
      ],
      outputPorts: [
        ...(out === null ? [] : [port("out", out, "read")]),
        ...(keeps ? [port("kept", "results.kept", "read")] : []),
      ],
    },
  };
}

/** What enters the frames of a container and what leaves them: the first node gets what comes from around, the last hands on what it made. */
function containerMappings(nodes: readonly JsonRecord[], mode: string, count: number): JsonRecord {
  const [first, last] = [nodes[0]?.["id"], nodes.at(-1)?.["id"]];
  const into = (from: string, to: string) => ({ from, node: first, to: `parameters.${to}` });
  const isList = mode === "map" || mode === "forEach";
  const ui = nodes.at(-1)?.["ui"] as { outputPorts: readonly { readonly binding: { readonly path: string } }[] } | undefined;
  const isLastList = ui?.outputPorts[0]?.binding.path === "results.items";
  return {
    inputs: [
      ...Array.from({ length: count }, (_, at) => into(`parameters.in${at}`, `outer${at}`)),
      ...(isList ? [into("item", "item")] : []),
      ...(mode === "map" ? [] : [into("last.out", "last")]),
      // A loop that counts does so in its last node.
      ...(mode === "while" ? [{ from: "index", node: last, to: "parameters.index" }] : []),
    ],
    outputs: [
      { node: last, from: isLastList ? "results.items" : "results.out", to: "results.out" },
      ...(mode === "while" ? [{ node: last, from: "results.n", to: "results.n" }] : []),
    ],
  };
}
