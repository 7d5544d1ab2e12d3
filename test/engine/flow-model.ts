// Random workflows of nested containers, and what a run of one must come to by the rules alone: the reference the engine is compared with.
// Which leaf fails is a function of the leaf and of the iterations and tries around it, so that the order in which things happen
// cannot matter.
import { type Box, letter, type Shape, type Step } from "./flow-graph.ts";
import type { Dice } from "./weather-dice.ts";

/** Where a leaf runs: for each frame around it, outermost first, the iteration and how often that was tried before. */
export type Path = readonly { readonly index: number; readonly tries: number }[];
export type Fails = (node: string, path: Path) => boolean;

const isBox = (node: Step | Box): node is Box => "body" in node;
/** A leaf that gets the index of its iteration answers with the next; any other with its name. */
const countsOn = (box: Box, at: number): boolean => (box.inputs ?? []).some(([from, node]) => from === "index" && node === at);

/** `layered`: how many nodes in a hundred stand behind middlewares. */
export function randomShape(dice: Dice, depth: number, layered = 0): Shape {
  const nodes = Array.from({ length: 1 + dice.below(depth === 0 ? 4 : 3) }, () => ({
    ...(depth < 3 && dice.chance(0.5) ? randomBox(dice, depth + 1, layered) : {}),
    ...randomLayers(dice, layered),
  }));
  const edges = nodes.flatMap((_, to) =>
    nodes.slice(0, to).flatMap((__, from) => (dice.chance(0.5) ? [[from, to] as const] : [])),
  );
  return { nodes, edges };
}

/** Middlewares that hand everything on change nothing of what a run comes to. */
const randomLayers = (dice: Dice, share: number): Step => (dice.chance(share / 100) ? { layers: 1 + dice.below(2) } : {});

function randomBox(dice: Dice, depth: number, layered: number): Box {
  const body = randomShape(dice, depth, layered);
  const retry = dice.chance(0.5)
    ? { retry: { maxAttempts: 1 + dice.below(3), backoffMs: dice.pick([0, 1_000]), factor: 2 } }
    : {};
  const items = Array.from({ length: dice.below(5) }, (_, at) => at);
  switch (dice.below(4)) {
    case 0:
      return { body, ...retry };
    case 1:
      return { body, ...retry, loop: { mode: "forEach", items } };
    case 2:
      return { body, ...retry, loop: { mode: "map", items, parallelism: 1 + dice.below(3) } };
    default: {
      // A last node that counts, so that the loop knows when to stop.
      const at = body.nodes.length;
      const counted = { nodes: [...body.nodes, {}], edges: [...(body.edges ?? []), [at - 1, at] as const] };
      const loop = { mode: "while", condition: { path: "out", op: "lt", value: 1 + dice.below(3) } };
      return { body: counted, ...retry, loop, inputs: [["index", at]] };
    }
  }
}

/** What a run must come to: the values of its nodes, or null where it must fail; and every leaf that runs where nothing fails. */
export class Model {
  readonly #fails: Fails;
  readonly ran: string[] = [];

  constructor(fails: Fails) {
    this.#fails = fails;
  }

  /** `results.out` of each node of a shape, or null where one of them fails. */
  values(shape: Shape, name: string, path: Path, around: Box | null): unknown[] | null {
    const values = shape.nodes.map((node, at) => {
      const id = `${name}${letter(at)}`;
      if (isBox(node)) return this.#box(node, id, path);
      this.ran.push(id);
      if (this.#fails(id, path)) return null;
      return { out: around !== null && countsOn(around, at) ? (path.at(-1)?.index ?? 0) + 1 : id };
    });
    return values.includes(null) ? null : values;
  }

  /** The result of a container, or null where it fails. */
  #box(box: Box, id: string, path: Path): Record<string, unknown> | null {
    const { mode, items, condition } = (box.loop ?? {}) as {
      mode?: string;
      items?: unknown[];
      condition?: { value: number };
    };
    const count = mode === "while" ? (condition?.value ?? 1) : mode === undefined ? 1 : (items?.length ?? 0);
    const outputs: Record<string, unknown>[] = [];
    for (let index = 0; index < count; index++) {
      const output = this.#iteration(box, id, path, index);
      if (output === null) return null;
      outputs.push(output);
    }
    if (mode === undefined) return outputs[0] ?? {};
    return mode === "while" ? { ...outputs.at(-1), iterations: count } : { items: outputs, count };
  }

  #iteration(box: Box, id: string, path: Path, index: number): Record<string, unknown> | null {
    const most = Number(box.retry?.["maxAttempts"] ?? 1);
    for (let tries = 0; tries < most; tries++) {
      const values = this.values(box.body, id, [...path, { index, tries }], box);
      if (values === null) continue;
      const last = values.at(-1) as { out?: unknown; items?: unknown };
      const out = last.items ?? last.out;
      return out === undefined ? {} : { out };
    }
    return null;
  }
}
