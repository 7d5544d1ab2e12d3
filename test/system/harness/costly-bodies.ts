// Bodies that are as costly to read, check or run as the limits allow: what a caller can send to hold up everybody else. No test lives here.

import type { Workflow } from "@astraflow/protocol";

type WorkflowNode = Workflow["nodes"][number];
type WorkflowEdge = Workflow["edges"][number];

export const uuidOf = (number: number): string => `00000000-0000-4000-8000-${number.toString(16).padStart(12, "0")}`;

const range = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, index) => make(index));
const edgeIdOffset = 1_000_000;
const nodesMax = 10_000;

function node(number: number, more: object = {}): WorkflowNode {
  return {
    id: uuidOf(number),
    type: "demo.text",
    label: `n${number}`,
    package: { name: "demo", version: "1.0.0" },
    position: { x: number, y: 0 },
    ...more,
  } as WorkflowNode;
}

const edge = (number: number, from: number, to: number): WorkflowEdge => ({
  id: uuidOf(edgeIdOffset + number),
  source: { node: uuidOf(from), port: "text" },
  target: { node: uuidOf(to), port: "text" },
});

const workflow = (
  number: number,
  nodes: readonly WorkflowNode[],
  edges: readonly WorkflowEdge[] = [],
  more: object = {},
): Workflow =>
  ({
    id: uuidOf(2 * edgeIdOffset + number),
    schemaVersion: "2025-10",
    metadata: { name: `Costly ${number}` },
    nodes,
    edges,
    ...more,
  }) as Workflow;

/** Valid and as large as they may be. */
export const largeWorkflows = {
  chain: (count = nodesMax) =>
    workflow(
      1,
      range(count, (at) => node(at)),
      range(count - 1, (at) => edge(at, at, at + 1)),
    ),
  /** One node, all others but one side by side, and one that waits for them. */
  fanOut: () =>
    workflow(
      2,
      range(nodesMax, (at) => node(at)),
      [
        ...range(nodesMax - 2, (at) => edge(at, 0, at + 1)),
        ...range(nodesMax - 2, (at) => edge(nodesMax + at, at + 1, nodesMax - 1)),
      ],
    ),
  /** As many edges as 8 MiB hold. */
  dense: (number = 3) =>
    workflow(
      number,
      range(nodesMax, (at) => node(at)),
      range(34_000, (at) => edge(at, at % 5_000, 5_000 + ((at * 7 + Math.floor(at / 5_000)) % 5_000))),
    ),
  /** A subgraph inside a subgraph, as deep as they may be, each with many nodes. */
  containers() {
    const depth = 7;
    const inner = range(depth, (level) => ({
      id: uuidOf(3 * edgeIdOffset + level),
      definition: workflow(10 + level, [
        ...range(1_200, (at) => node((level + 1) * 10_000 + at)),
        ...(level + 1 < depth ? [containerOf(level + 1)] : []),
      ]),
    }));
    return workflow(4, [...range(1_000, (at) => node(at)), containerOf(0)], [], { subgraphs: inner });
  },
  /** Every node brings a schema of its own with defaults. */
  schemas: () =>
    workflow(
      5,
      range(4_000, (at) =>
        node(at, {
          parameters: { name: `n${at}`, size: at },
          schema: { parameters: { type: "object", properties: range(12, (key) => key).reduce(addProperty, {}) } },
        }),
      ),
    ),
  /** One parameter of almost the whole body. */
  longText: (number = 6) => workflow(number, [node(0, { parameters: { text: "x".repeat(7_000_000) } })]),
  manyItems: () => workflow(7, [node(0, { parameters: { items: range(900_000, (at) => at % 10) } })]),
} as const;

function addProperty(properties: Record<string, unknown>, key: number): Record<string, unknown> {
  return { ...properties, [`p${key}`]: { type: "string", default: `value ${key}`, maxLength: 100 } };
}

function containerOf(level: number): WorkflowNode {
  return node(900_000 + level, {
    type: "workflow.container",
    package: { name: "system", version: "1.0.0" },
    parameters: { __container: { subgraphId: uuidOf(3 * edgeIdOffset + level) } },
  });
}

const withSchema = (number: number, parameters: unknown, schema: unknown): Workflow =>
  workflow(number, [node(0, { parameters, schema: { parameters: schema } })]);

/** Each of 29 schemas is one of the last one twice: a naive check takes 2^29 steps. */
function doublingSchema(depth = 29): object {
  const definitions = range(depth, (at) => {
    const inner = at === 0 ? { type: "string" } : { $ref: `#/$defs/d${at - 1}` };
    return [`d${at}`, { oneOf: [inner, inner] }] as const;
  });
  return { type: "object", properties: { x: { $ref: `#/$defs/d${depth - 1}` } }, $defs: Object.fromEntries(definitions) };
}

/** Schemas and values that cost far more than their length, and workflows with as many problems as there are nodes. */
export const costlyWorkflows = {
  doubling: () => withSchema(20, { x: "text" }, doublingSchema()),
  manyKeys: () => workflow(21, [node(0, { parameters: { map: Object.fromEntries(range(500_000, (at) => [`k${at}`, at])) } })]),
  largeEnum: () =>
    withSchema(
      22,
      { x: { a: -1, b: { c: [1] } } },
      { type: "object", properties: { x: { enum: range(100_000, (at) => ({ a: at, b: { c: [1] } })) } } },
    ),
  uniqueItems: () =>
    withSchema(
      23,
      { x: range(100_000, (at) => ({ a: at })) },
      { type: "object", properties: { x: { type: "array", uniqueItems: true } } },
    ),
  longPattern: () =>
    withSchema(
      24,
      { x: "a".repeat(4_000_000) },
      { type: "object", properties: { x: { type: "string", pattern: "^(a|aa|aaa)*(b|ab|aab){1,20}$" } } },
    ),
  manyPatterns: () =>
    withSchema(25, Object.fromEntries(range(20_000, (at) => [`key${at}`, at])), {
      type: "object",
      patternProperties: Object.fromEntries(range(5_000, (at) => [`^k.*${at}(x|y)*$`, { type: "number" }])),
    }),
  deepNesting: () => {
    let value: unknown = 1;
    for (let level = 0; level < 55; level++) value = [value, value === 1 ? 1 : level];
    return workflow(26, [node(0, { parameters: { value } })]);
  },
  unknownPackages: () =>
    workflow(
      27,
      range(nodesMax, (at) => node(at, { package: { name: `unknown-package-${at}`, version: "9.9.9" } })),
    ),
  unknownFields: () =>
    workflow(
      28,
      range(nodesMax, (at) => node(at, { paramters: {}, timeoutMS: 1, lable: "x" })),
    ),
  danglingEdges: () =>
    workflow(
      29,
      range(3_000, (at) => node(at)),
      range(34_000, (at) => edge(at, at, 50_000 + at)),
    ),
  sameIds: () =>
    workflow(
      30,
      range(nodesMax, () => node(1)),
    ),
  cycle: () =>
    workflow(
      31,
      range(nodesMax, (at) => node(at)),
      range(nodesMax, (at) => edge(at, at, (at + 1) % nodesMax)),
    ),
} as const;

/** Below 64 KiB each, so that they are checked where they arrive: costly only where hundreds come at once. */
export const burstWorkflows = {
  nodes: () =>
    workflow(
      50,
      range(330, (at) => node(at)),
    ),
  unknownFields: () =>
    workflow(
      51,
      range(250, (at) => node(at, { paramters: {}, timeoutMS: 1, lable: "x" })),
    ),
  unknownPackages: () =>
    workflow(
      52,
      range(280, (at) => node(at, { package: { name: `unknown-package-${at}`, version: "9.9.9" } })),
    ),
  schemas: () =>
    workflow(
      53,
      range(40, (at) => node(at, { parameters: { x: "text" }, schema: { parameters: doublingSchema(8) } })),
    ),
};

/** Texts that no JSON reader should spend long on. */
export const costlyTexts = {
  brackets: () => "[".repeat(4_000_000),
  backslashes: () => `"${"\\\\".repeat(4_000_000)}`,
  emptyObjects: () => `[${"{},".repeat(900_000)}{}]`,
  digits: () => "1".repeat(8_000_000),
  duplicateKey: () => `{${range(390_000, () => `"a":1`).join(",")}}`,
} as const;

/** As many packages as are usual, or more, with nodes that have long descriptions: `chars` in all. */
export function largeManifests(
  count: number,
  chars: number,
  name = "large",
): { name: string; version: string; manifest: object }[] {
  const nodeChars = 1_000;
  return range(count, (number) => ({
    name: `${name}-${number}`,
    version: "1.0.0",
    manifest: manifestOf(
      `${name}-${number}`,
      range(Math.max(1, Math.floor(chars / count / nodeChars)), () => ({
        type: "object",
        description: "d".repeat(nodeChars - 240),
      })),
    ),
  }));
}

/** A package with one node whose results take as many steps to check as they may. */
export const costlyResultsManifest = (): object => manifestOf("results", [{ type: "object" }], doublingSchema());

const manifestOf = (name: string, parameters: readonly object[], results: object = { type: "object" }): object => ({
  schemaVersion: "1.0.0",
  name,
  version: "1.0.0",
  description: "Nodes",
  adapters: [{ name: "main", entrypoint: "main.js", capabilities: [`${name}.n0`] }],
  node: { requires: ">=22" },
  nodes: parameters.map((schema, at) => ({
    type: `${name}.n${at}`,
    status: "published",
    category: "Costly",
    label: `n${at}`,
    adapter: "main",
    handler: "run",
    schema: { parameters: schema, results },
  })),
});

/** Nodes of one type side by side. */
export const sideBySide = (number: number, count: number, packageName: string): Workflow =>
  workflow(
    number,
    range(count, (at) => node(at, { type: `${packageName}.n0`, package: { name: packageName, version: "1.0.0" } })),
  );

/** A manifest of about a megabyte with schemas like those above. */
export function costlyManifest(number: number): object {
  return manifestOf(
    `costly-${number}`,
    range(220, () => doublingSchema()),
  );
}
