// Workflows of the system tests, built from the nodes of the example package.

import { randomUUID } from "node:crypto";
import type { Workflow } from "@astraflow/protocol";

type Node = Workflow["nodes"][number];

const port = (root: "parameters" | "results", key: string) => ({ key, label: key, binding: { path: `${root}.${key}` } });

function node(type: string, parameters: NonNullable<Node["parameters"]>, ports: { in?: string; out?: string } = {}): Node {
  return {
    id: randomUUID(),
    type,
    label: type,
    package: { name: "demo", version: "1.0.0" },
    position: { x: 0, y: 0 },
    parameters,
    ui: {
      inputPorts: ports.in === undefined ? [] : [port("parameters", ports.in)],
      outputPorts: ports.out === undefined ? [] : [port("results", ports.out)],
    },
  };
}

function chain(name: string, nodes: readonly Node[], key: string): Workflow {
  const edges = nodes.slice(1).map((target, at) => ({
    id: `e${at}`,
    source: { node: nodes[at]?.id ?? "", port: key },
    target: { node: target.id, port: key },
  }));
  return { id: randomUUID(), schemaVersion: "2025-10", metadata: { name }, nodes: [...nodes], edges };
}

/** A text that is turned to capitals and then around: its last result proves that values travelled along the edges. */
export function textChain(text: string): Workflow {
  return chain(
    "Text chain",
    [
      node("demo.text", { text }, { out: "text" }),
      node("demo.transform", { mode: "uppercase" }, { in: "text", out: "text" }),
      node("demo.transform", { mode: "reverse" }, { in: "text", out: "text" }),
    ],
    "text",
  );
}

/** One node that takes its time. */
export function slowRun(durationMs: number): Workflow {
  return chain("Slow", [node("demo.delay", { durationMs })], "text");
}

/** One node that fails. */
export function failingRun(): Workflow {
  return chain("Failing", [node("demo.fail", { times: 1_000 })], "text");
}
