// Random workflows of nested containers, and what a run of one must come to by the rules alone: the reference the engine is compared with.
// Which leaf fails is a function of the leaf and of the iterations and tries around it, so that the order in which things happen
// cannot matter.
import { type ContainerSpec, type FlowSpec, nodeName, type StepSpec } from "./flow-builder.ts";
import type { FuzzRandom } from "./fuzz-random.ts";

/** Where a leaf runs: for each frame around it, outermost first, the iteration and how often that was tried before. */
export type IterationPath = readonly { readonly index: number; readonly tries: number }[];
export type FailureRule = (node: string, path: IterationPath) => boolean;

const isContainer = (node: StepSpec | ContainerSpec): node is ContainerSpec => "body" in node;
/** A leaf that gets the index of its iteration answers with the next; any other with its name. */
const returnsIndex = (container: ContainerSpec, at: number): boolean =>
  (container.inputs ?? []).some(([from, node]) => from === "index" && node === at);

/** `layered`: how many nodes in a hundred stand behind middlewares. */
export function randomFlow(random: FuzzRandom, depth: number, layered = 0): FlowSpec {
  const nodes = Array.from({ length: 1 + random.integerBelow(depth === 0 ? 4 : 3) }, () => ({
    ...(depth < 3 && random.chance(0.5) ? randomContainer(random, depth + 1, layered) : {}),
    ...randomMiddlewares(random, layered),
  }));
  const edges = nodes.flatMap((_, to) =>
    nodes.slice(0, to).flatMap((__, from) => (random.chance(0.5) ? [[from, to] as const] : [])),
  );
  return { nodes, edges };
}

/** Middlewares that hand everything on change nothing of what a run comes to. */
const randomMiddlewares = (random: FuzzRandom, share: number): StepSpec =>
  random.chance(share / 100) ? { layers: 1 + random.integerBelow(2) } : {};

function randomContainer(random: FuzzRandom, depth: number, layered: number): ContainerSpec {
  const body = randomFlow(random, depth, layered);
  const retry = random.chance(0.5)
    ? { retry: { maxAttempts: 1 + random.integerBelow(3), backoffMs: random.pick([0, 1_000]), factor: 2 } }
    : {};
  const items = Array.from({ length: random.integerBelow(5) }, (_, at) => at);
  switch (random.integerBelow(4)) {
    case 0:
      return { body, ...retry };
    case 1:
      return { body, ...retry, loop: { mode: "forEach", items } };
    case 2:
      return { body, ...retry, loop: { mode: "map", items, parallelism: 1 + random.integerBelow(3) } };
    default: {
      // A last node that counts, so that the loop knows when to stop.
      const at = body.nodes.length;
      const counted = { nodes: [...body.nodes, {}], edges: [...(body.edges ?? []), [at - 1, at] as const] };
      const loop = { mode: "while", condition: { path: "out", op: "lt", value: 1 + random.integerBelow(3) } };
      return { body: counted, ...retry, loop, inputs: [["index", at]] };
    }
  }
}

/** What a run must come to: the values of its nodes, or null where it must fail; and every leaf that runs where nothing fails. */
export class FlowModel {
  readonly #fails: FailureRule;
  readonly stepsRun: string[] = [];

  constructor(fails: FailureRule) {
    this.#fails = fails;
  }

  /** `results.out` of each node of a shape, or null where one of them fails. */
  values(flowSpec: FlowSpec, name: string, path: IterationPath, around: ContainerSpec | null): unknown[] | null {
    const values = flowSpec.nodes.map((node, at) => {
      const id = `${name}${nodeName(at)}`;
      if (isContainer(node)) return this.#containerResult(node, id, path);
      this.stepsRun.push(id);
      if (this.#fails(id, path)) return null;
      return { out: around !== null && returnsIndex(around, at) ? (path.at(-1)?.index ?? 0) + 1 : id };
    });
    return values.includes(null) ? null : values;
  }

  /** The result of a container, or null where it fails. */
  #containerResult(container: ContainerSpec, id: string, path: IterationPath): Record<string, unknown> | null {
    const { mode, items, condition } = (container.loop ?? {}) as {
      mode?: string;
      items?: unknown[];
      condition?: { value: number };
    };
    const count = mode === "while" ? (condition?.value ?? 1) : mode === undefined ? 1 : (items?.length ?? 0);
    const outputs: Record<string, unknown>[] = [];
    for (let index = 0; index < count; index++) {
      const output = this.#iterationResult(container, id, path, index);
      if (output === null) return null;
      outputs.push(output);
    }
    if (mode === undefined) return outputs[0] ?? {};
    return mode === "while" ? { ...outputs.at(-1), iterations: count } : { items: outputs, count };
  }

  #iterationResult(container: ContainerSpec, id: string, path: IterationPath, index: number): Record<string, unknown> | null {
    const most = Number(container.retry?.["maxAttempts"] ?? 1);
    for (let tries = 0; tries < most; tries++) {
      const values = this.values(container.body, id, [...path, { index, tries }], container);
      if (values === null) continue;
      const last = values.at(-1) as { out?: unknown; items?: unknown };
      const out = last.items ?? last.out;
      return out === undefined ? {} : { out };
    }
    return null;
  }
}
