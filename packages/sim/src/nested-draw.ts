// Random workflows of the whole grammar: nodes behind chains of middlewares, containers that run their body once, over a list, in parallel or
// while a condition holds, inside one another, joins between them, things that are kept at a worker and used by a later node. What a node
// returns is a function of its parameters (value.ts), so that what must come out can be known beforehand.

import type { Dice } from "./dice.ts";
import { aroundType, nodeTypes, simPackage } from "./handlers.ts";
import { type Mood, type Wrap, writeMood } from "./mood.ts";
import { type DrawnWorkflow, type DrawOptions, drawMood, keyLimit } from "./workflow-draw.ts";

export interface DrawnNested extends DrawnWorkflow {
  /** Ids of all nodes, inside and around others too. */
  readonly ids: readonly string[];
  /** Results that stand for nodes which are not run, by id; null without any. */
  readonly pins: Readonly<Record<string, unknown>> | null;
}

export interface NestedOptions extends Omit<DrawOptions, "pools"> {
  /** Nothing depends on how long something takes. */
  readonly isQuiet: boolean;
}

type Json = Record<string, unknown>;

/** What is drawn in one graph, and how often it is run. */
interface Place {
  readonly depth: number;
  readonly times: number;
}

/** A run must come to its end in an afternoon: so often a node runs at most, all loops and chains around it counted. */
const timesMax = 24;
const depthMax = 2;

export function drawNested(dice: Dice, options: NestedOptions): DrawnNested {
  return new Draft(dice, options).draw();
}

class Draft {
  readonly #dice: Dice;
  readonly #options: NestedOptions;
  /** Everything goes well: what comes out is known even if processes die on the way. */
  readonly #isSteady: boolean;
  readonly #subgraphs: Json[] = [];
  readonly #ids: string[] = [];
  #workMs = 0;

  constructor(dice: Dice, options: NestedOptions) {
    this.#dice = dice;
    this.#options = options;
    this.#isSteady = dice.chance(0.5);
  }

  draw(): DrawnNested {
    const dice = this.#dice;
    const top = this.#graph({ depth: 0, times: 1 }, dice.between(1, 5));
    const nodes = top["nodes"] as readonly { readonly id: string }[];
    const pinned = dice.chance(0.12) ? dice.pick(nodes).id : null;
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

  #graph(place: Place, count: number): Json {
    const dice = this.#dice;
    const nodes: Json[] = [];
    const edges: Json[] = [];
    const link = (from: number, to: number, out: string, into: string): void =>
      void edges.push({
        id: `e${edges.length}`,
        source: { node: nodes[from]?.["id"], port: out },
        target: { node: nodes[to]?.["id"], port: into },
      });
    for (let at = 0; at < count; at++) {
      const isBox = place.depth < depthMax && dice.chance(place.depth === 0 ? 0.5 : 0.3);
      nodes.push(isBox ? this.#box(place, count) : this.#leaf(place, count));
      for (let from = 0; from < at; from++) if (dice.chance(from === at - 1 ? 0.7 : 0.3)) link(from, at, "out", `in${from}`);
      const keeper = nodes.findIndex((node, from) => from < at && node["keeps"] === true);
      if (keeper >= 0 && !isBox && dice.chance(0.7)) link(keeper, at, "kept", "kept");
    }
    return {
      id: "00000000-0000-4000-8000-000000000999",
      schemaVersion: "2025-10",
      metadata: { name: `depth ${place.depth}` },
      nodes: nodes.map(({ keeps: _, ...node }) => node),
      edges,
    };
  }

  #leaf(place: Place, count: number): Json {
    const dice = this.#dice;
    const middlewares = this.#chain(place);
    const times = middlewares.reduce((product, { factor }) => product * factor, place.times);
    const keeps = middlewares.length === 0 && dice.chance(0.15);
    const hasKey = middlewares.length === 0 && dice.chance(0.1);
    const key = hasKey ? `k${dice.below(4)}` : null;
    const affinity = !hasKey && dice.chance(0.1) ? { key: `a${dice.below(3)}`, mode: dice.pick(["sticky", "preferred"]) } : null;
    const id = this.#newId();
    const { policy, moods } = this.#behaviour(times);
    return {
      ...face(id, dice.pick(nodeTypes), count, "results.out", keeps),
      parameters: writeMood({
        moods,
        key,
        limit: key === null ? 0 : keyLimit(key),
        name: `n${Number(id.slice(-4))}`,
        ...(keeps && { keeps }),
      }),
      policy: {
        ...policy,
        ...(key !== null && { concurrency: { key, limit: keyLimit(key) } }),
        ...(affinity !== null && { affinity }),
      },
      ...(middlewares.length > 0 && { middlewares: middlewares.map(({ node }) => node) }),
      keeps,
    };
  }

  /** Outermost first. */
  #chain(place: Place): { readonly node: Json; readonly factor: number }[] {
    const dice = this.#dice;
    const count = place.times >= timesMax || !dice.chance(0.35) ? 0 : dice.between(1, 3);
    let { times } = place;
    return Array.from({ length: count }, () => {
      const calls = times * 2 > timesMax ? 1 : Number(dice.weigh({ 0: 1.5, 1: 6, 2: 2, 3: 1 }));
      const id = this.#newId();
      const { policy, moods, attempts } = this.#behaviour(times, 2);
      const isHasty = !this.#isSteady && !this.#options.isQuiet && dice.chance(0.2);
      const wrap: Wrap = {
        calls,
        mark: dice.chance(0.6) ? `by${Number(id.slice(-4))}` : null,
        timeoutMs: isHasty ? Math.round(dice.scale(50, 4_000) * this.#options.scale) : null,
        isForgiving: !this.#isSteady && dice.chance(0.5),
      };
      // Every attempt of a middleware calls anew.
      const factor = Math.max(1, calls) * attempts;
      times *= factor;
      const node = {
        ...face(id, aroundType(dice.pick(nodeTypes)), 0, dice.chance(0.25) ? "results.out" : null, false),
        role: "middleware",
        parameters: writeMood({ moods, key: null, limit: 0, name: `m${Number(id.slice(-4))}`, wrap }),
        policy,
      };
      return { node, factor };
    });
  }

  #box(place: Place, count: number): Json {
    const dice = this.#dice;
    const middlewares = dice.chance(0.2) ? this.#chain(place) : [];
    const around = middlewares.reduce((product, { factor }) => product * factor, place.times);
    const room = Math.max(1, Math.floor(timesMax / around));
    const mode = room < 2 ? "plain" : dice.pick(["plain", "forEach", "while", "map", "map"] as const);
    const most = mode === "map" ? 12 : mode === "forEach" ? 5 : 3;
    // A while loop runs once at least; a list may be empty.
    const iterations =
      mode === "plain" ? 1 : mode === "while" ? dice.between(1, Math.min(most, room)) : dice.below(Math.min(most, room) + 1);
    const id = this.#newId();
    const attempts = dice.chance(0.4) ? dice.between(2, 3) : 1;
    const inner = { depth: place.depth + 1, times: around * Math.max(1, iterations) * attempts };
    const body = this.#graph(inner, dice.between(1, 3));
    this.#subgraphs.push({ id, definition: body });
    const nodes = body["nodes"] as readonly Json[];
    const list = Array.from({ length: iterations }, (_, at) => at * 10);
    const isWritten = dice.chance(0.6);
    return {
      ...face(id, "workflow.container", count, mode === "map" || mode === "forEach" ? "results.items" : "results.out", false),
      parameters: {
        ...(!isWritten && { list }),
        __container: {
          subgraphId: id,
          ...this.#loop(mode, iterations, isWritten ? list : "parameters.list"),
          ...(attempts > 1 && { retry: { maxAttempts: attempts, backoffMs: dice.pick([0, 200]), factor: 2 } }),
          ...(!this.#isSteady &&
            !this.#options.isQuiet &&
            dice.chance(0.1) && { timeoutSeconds: dice.between(2, 12) * this.#options.scale }),
          ...flows(nodes, mode, count),
        },
      },
      ...(middlewares.length > 0 && { middlewares: middlewares.map(({ node }) => node) }),
    };
  }

  #loop(mode: "plain" | "forEach" | "while" | "map", iterations: number, items: unknown): Json {
    if (mode === "plain") return {};
    if (mode === "while") return { loop: { mode, condition: { path: "n", op: "lt", value: iterations } } };
    return { loop: { mode, items, ...(mode === "map" && { parallelism: this.#dice.between(1, 4) }) } };
  }

  /** How a node is run and how its handler behaves, and how long that may take in all. */
  #behaviour(
    times: number,
    attemptsMax = 4,
  ): { readonly policy: Json; readonly moods: readonly Mood[]; readonly attempts: number } {
    const dice = this.#dice;
    const { scale, isQuiet } = this.#options;
    const maxAttempts = dice.chance(0.4) ? dice.between(2, attemptsMax) : 1;
    const backoffMs = dice.pick([0, 200 * scale]);
    const moods = Array.from({ length: dice.between(1, 2) }, () => this.#mood());
    const isHanging = moods.some(({ kind }) => kind === "hanging");
    const isTimed = !isQuiet && !this.#isSteady && dice.chance(0.1);
    const timeoutMs = isHanging || isTimed ? Math.round(dice.between(1_000, 6_000) * scale) : null;
    const longestMs = Math.max(...moods.map(({ ms }) => ms), timeoutMs ?? 0);
    this.#workMs += times * maxAttempts * (this.#options.maxDeliveries * longestMs + backoffMs * 8 + 200);
    return {
      moods,
      attempts: maxAttempts,
      policy: {
        ...(maxAttempts > 1 && { retry: { maxAttempts, backoffMs } }),
        ...(timeoutMs !== null && { timeoutMs }),
        ...(dice.chance(0.2) && { priority: dice.below(10) }),
      },
    };
  }

  #mood(): Mood {
    const dice = this.#dice;
    const { scale, isQuiet } = this.#options;
    if (this.#isSteady) return { kind: dice.pick(["quick", "quick", "slow", "chatty"]), ms: dice.pick([0, 1, 20, 200]) };
    const mood = drawMood(dice, { ...this.#options, pools: [] });
    // How long something hangs depends on the weather; where that is left out nothing hangs.
    if (isQuiet && (mood.kind === "hanging" || mood.kind === "deaf")) return { kind: "quick", ms: 1 };
    return { ...mood, ms: Math.min(mood.ms, 1_500 * scale) };
  }
}

/** `out`: null for one that hands on nothing; of a middleware what it hands on is written over its host's. */
function face(id: string, type: string, count: number, out: string | null, keeps: boolean): Json {
  const port = (key: string, path: string, mode: string) => ({ key, label: key, binding: { path, mode } });
  return {
    id,
    type,
    package: simPackage,
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
function flows(nodes: readonly Json[], mode: string, count: number): Json {
  const [first, last] = [nodes[0]?.["id"], nodes.at(-1)?.["id"]];
  const into = (from: string, to: string) => ({ from, node: first, to: `parameters.${to}` });
  const isList = mode === "map" || mode === "forEach";
  const face = nodes.at(-1)?.["ui"] as
    | { readonly outputPorts: readonly { readonly binding: { readonly path: string } }[] }
    | undefined;
  const isLastList = face?.outputPorts[0]?.binding.path === "results.items";
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
