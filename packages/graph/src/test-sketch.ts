// Workflows sketched in a few words, for the tests of this room.

import type { Workflow } from "@astraflow/protocol";

export const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

type Bound = string | { path: string; prefix?: string; scope?: object };
const port = (key: string, bound: Bound) => ({ key, label: key, binding: typeof bound === "string" ? { path: bound } : bound });
const ports = (table: Record<string, Bound> = {}) => Object.entries(table).map(([key, bound]) => port(key, bound));

export interface Sketch {
  in?: Record<string, Bound>;
  out?: Record<string, Bound>;
  parameters?: object;
  label?: string;
  middlewares?: object[];
  [field: string]: unknown;
}

export const node = (at: number, sketch: Sketch = {}) => {
  const { in: inputs, out, ...rest } = sketch;
  return {
    id: uuid(at),
    type: "demo.step",
    package: { name: "demo", version: "1.0.0" },
    label: `n${at}`,
    position: { x: 0, y: 0 },
    ui: { inputPorts: ports(inputs), outputPorts: ports(out) },
    ...rest,
  };
};

export const container = (at: number, config: object, sketch: Sketch = {}) =>
  node(at, { type: "workflow.container", ...sketch, parameters: { ...sketch.parameters, __container: config } });

export const edge = (from: number, out: string, to: number, into: string) => ({
  id: `${from}.${out}-${to}.${into}`,
  source: { node: uuid(from), port: out },
  target: { node: uuid(to), port: into },
});

export const graph = (nodes: unknown[], edges: unknown[] = [], rest: object = {}) =>
  ({ id: uuid(99), schemaVersion: "2025-10", metadata: { name: "w" }, nodes, edges, ...rest }) as unknown as Workflow;

export const subgraph = (id: string, definition: Workflow, label?: string) => ({
  id,
  definition,
  ...(label !== undefined && { metadata: { label } }),
});
