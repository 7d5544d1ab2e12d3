// Workflows with containers, written down shortly for tests: steps that a worker runs and boxes with a body inside. Ids are given by place,
// `a` for the first node of the top level, `ba` for the first inside its second, so that a test can name what it means.

export interface StepSpec {
  readonly params?: Record<string, unknown>;
  readonly policy?: Record<string, unknown>;
  /** So many middlewares stand around it. */
  readonly layers?: number;
}

export interface ContainerSpec extends StepSpec {
  readonly body: FlowSpec;
  readonly loop?: Record<string, unknown>;
  readonly retry?: Record<string, unknown>;
  readonly timeoutSeconds?: number;
  /** Into which nodes of the body which value of the frame goes; every one is written to `parameters.<root>`. */
  readonly inputs?: readonly (readonly [from: string, node: number])[];
  /** Which nodes of the body hand on their `results.out`; the last one's is `out`, the others' `out<n>`. Default: the last. */
  readonly outputs?: readonly number[];
}

export interface FlowSpec {
  readonly nodes: readonly (StepSpec | ContainerSpec)[];
  readonly edges?: readonly (readonly [number, number])[];
}

const alphabet = "abcdefghijklmnopqrstuvwxyz";
export const nodeName = (at: number): string => (at < alphabet.length ? (alphabet[at] as string) : `z${at}.`);

/** Nodes one after the other. */
export const sequence = (...nodes: (StepSpec | ContainerSpec)[]): FlowSpec => ({
  nodes,
  edges: nodes.slice(1).map((_, at) => [at, at + 1] as const),
});

/** The workflow, with one subgraph for each box. */
export function buildFlow(flowSpec: FlowSpec): Record<string, unknown> {
  const subgraphs: Record<string, unknown>[] = [];
  const top = buildGraph("", flowSpec, subgraphs);
  return { ...top, subgraphs };
}

function buildGraph(
  path: string,
  { nodes, edges = [] }: FlowSpec,
  subgraphs: Record<string, unknown>[],
): Record<string, unknown> {
  const sources = Map.groupBy(edges, ([, to]) => to);
  return {
    id: "00000000-0000-4000-8000-000000000999",
    schemaVersion: "2025-10",
    metadata: { name: path },
    nodes: nodes.map((node, at) =>
      buildNode(`${path}${nodeName(at)}`, node, sources.get(at)?.map(([from]) => from) ?? [], subgraphs),
    ),
    edges: edges.map(([from, to], at) => ({
      id: `e${at}`,
      source: { node: `${path}${nodeName(from)}`, port: "out" },
      target: { node: `${path}${nodeName(to)}`, port: (sources.get(to)?.length ?? 0) > 1 ? `in${from}` : "in" },
    })),
  };
}

function buildNode(
  id: string,
  node: StepSpec | ContainerSpec,
  sources: readonly number[],
  subgraphs: Record<string, unknown>[],
): Record<string, unknown> {
  const isBox = "body" in node;
  const isList = isBox && (node.loop?.["mode"] === "map" || node.loop?.["mode"] === "forEach");
  if (isBox) subgraphs.push({ id, definition: buildGraph(id, node.body, subgraphs) });
  const port = (key: string, path: string) => ({ key, label: key, binding: { path, mode: "write" } });
  return {
    id,
    type: isBox ? "workflow.container" : "test.step",
    package: { name: "test", version: "1.0.0" },
    label: id,
    position: { x: 0, y: 0 },
    parameters: { ...node.params, ...(isBox && { __container: containerParameters(id, node) }) },
    ...(node.policy !== undefined && { policy: node.policy }),
    ...(node.layers !== undefined && {
      middlewares: Array.from({ length: node.layers }, (_, at) => buildMiddleware(`${id}-${at}`)),
    }),
    ui: {
      inputPorts: [port("in", "parameters.in"), ...sources.map((from) => port(`in${from}`, `parameters.in${from}`))],
      outputPorts: [port("out", isList ? "results.items" : "results.out")],
    },
  };
}

const buildMiddleware = (id: string): Record<string, unknown> => ({
  id,
  type: "test.layer",
  role: "middleware",
  package: { name: "test", version: "1.0.0" },
  label: id,
  parameters: {},
});

function containerParameters(id: string, container: ContainerSpec): Record<string, unknown> {
  const last = container.body.nodes.length - 1;
  const outputs = container.outputs ?? (last >= 0 ? [last] : []);
  return {
    subgraphId: id,
    ...(container.loop !== undefined && { loop: container.loop }),
    ...(container.retry !== undefined && { retry: container.retry }),
    ...(container.timeoutSeconds !== undefined && { timeoutSeconds: container.timeoutSeconds }),
    inputs: (container.inputs ?? []).map(([from, node]) => ({
      from,
      node: `${id}${nodeName(node)}`,
      to: `parameters.${from.replace(/^parameters\./, "").split(".")[0]}`,
    })),
    outputs: outputs.map((node, at) => {
      const inner = container.body.nodes[node];
      const isList = inner !== undefined && "body" in inner && ["map", "forEach"].includes(String(inner.loop?.["mode"]));
      return {
        node: `${id}${nodeName(node)}`,
        from: isList ? "results.items" : "results.out",
        to: at === outputs.length - 1 ? "results.out" : `results.out${node}`,
      };
    }),
  };
}
