// The run that the demo page starts: a text that forks, is changed on both ways, meets again and is counted down, so that there is
// something to watch. It needs the example package `demo` on a worker.

import type { JsonObject, Workflow } from "@astraflow/protocol";

type Node = Workflow["nodes"][number];
type Port = NonNullable<NonNullable<Node["ui"]>["inputPorts"]>[number];

const idOf = (at: number): string => `0de70000-0000-4000-8000-00000000000${at}`;

interface Step {
  readonly type: string;
  readonly label: string;
  readonly parameters: JsonObject;
  readonly takes: readonly string[];
  readonly gives: readonly string[];
  readonly x: number;
  readonly y: number;
}

const steps: readonly Step[] = [
  {
    type: "demo.text",
    label: "Write a greeting",
    parameters: { text: "Hello from AstraFlow" },
    takes: [],
    gives: ["text"],
    x: 0,
    y: 0,
  },
  {
    type: "demo.transform",
    label: "Make it loud",
    parameters: { mode: "uppercase" },
    takes: ["text"],
    gives: ["text"],
    x: 300,
    y: -80,
  },
  { type: "demo.delay", label: "Take a breath", parameters: { durationMs: 3_000 }, takes: [], gives: [], x: 300, y: 80 },
  {
    type: "demo.transform",
    label: "Turn it around",
    parameters: { mode: "reverse" },
    takes: ["text"],
    gives: ["text"],
    x: 600,
    y: 0,
  },
];

/** Edges by step: who, its port, to whom, its port. `done` and `after` carry no value, only order. */
const edges: readonly (readonly [number, string, number, string])[] = [
  [0, "text", 1, "text"],
  [0, "done", 2, "after"],
  [1, "text", 3, "text"],
  [2, "done", 3, "after"],
];

const port = (root: "parameters" | "results", key: string): Port => ({ key, label: key, binding: { path: `${root}.${key}` } });

export const demoWorkflow: Workflow = {
  id: idOf(9),
  schemaVersion: "2025-10",
  metadata: { name: "Hello from AstraFlow", description: "A text takes two ways and meets again." },
  nodes: steps.map(
    (step, at): Node => ({
      id: idOf(at),
      type: step.type,
      package: { name: "demo", version: "1.0.0" },
      label: step.label,
      position: { x: step.x, y: step.y },
      parameters: step.parameters,
      ui: {
        inputPorts: [...step.takes.map((key) => port("parameters", key)), port("parameters", "after")],
        outputPorts: [...step.gives.map((key) => port("results", key)), port("results", "done")],
      },
    }),
  ),
  edges: edges.map(([from, out, to, into], at) => ({
    id: `e${at}`,
    source: { node: idOf(from), port: out },
    target: { node: idOf(to), port: into },
  })),
};
