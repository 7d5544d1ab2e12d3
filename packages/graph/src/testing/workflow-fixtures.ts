// Short builders of workflows for the tests of this package.

import type { Workflow } from "@astraflow/protocol";

export const testUuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

type PortPath = string | { path: string; prefix?: string; scope?: object };
const testPort = (key: string, bound: PortPath) => ({
  key,
  label: key,
  binding: typeof bound === "string" ? { path: bound } : bound,
});
const testPorts = (table: Record<string, PortPath> = {}) => Object.entries(table).map(([key, bound]) => testPort(key, bound));

export interface NodeFixture {
  in?: Record<string, PortPath>;
  out?: Record<string, PortPath>;
  parameters?: object;
  label?: string;
  middlewares?: object[];
  [field: string]: unknown;
}

export const testNode = (at: number, fields: NodeFixture = {}) => {
  const { in: inputs, out, ...rest } = fields;
  return {
    id: testUuid(at),
    type: "demo.step",
    package: { name: "demo", version: "1.0.0" },
    label: `n${at}`,
    position: { x: 0, y: 0 },
    ui: { inputPorts: testPorts(inputs), outputPorts: testPorts(out) },
    ...rest,
  };
};

export const testContainer = (at: number, config: object, fields: NodeFixture = {}) =>
  testNode(at, { type: "workflow.container", ...fields, parameters: { ...fields.parameters, __container: config } });

export const testEdge = (from: number, out: string, to: number, into: string) => ({
  id: `${from}.${out}-${to}.${into}`,
  source: { node: testUuid(from), port: out },
  target: { node: testUuid(to), port: into },
});

export const testWorkflow = (nodes: unknown[], edges: unknown[] = [], rest: object = {}) =>
  ({ id: testUuid(99), schemaVersion: "2025-10", metadata: { name: "w" }, nodes, edges, ...rest }) as unknown as Workflow;

export const testSubgraph = (id: string, definition: Workflow, label?: string) => ({
  id,
  definition,
  ...(label !== undefined && { metadata: { label } }),
});
