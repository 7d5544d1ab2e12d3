// Workflows of the system tests, built from the nodes of the example package.

import { randomUUID } from "node:crypto";
import type { Workflow } from "@astraflow/protocol";

type WorkflowNode = Workflow["nodes"][number];

const portOf = (root: "parameters" | "results", key: string) => ({ key, label: key, binding: { path: `${root}.${key}` } });

function buildNode(
  type: string,
  parameters: NonNullable<WorkflowNode["parameters"]>,
  ports: { in?: string; out?: string } = {},
): WorkflowNode {
  return {
    id: randomUUID(),
    type,
    label: type,
    package: { name: "demo", version: "1.0.0" },
    position: { x: 0, y: 0 },
    parameters,
    ui: {
      inputPorts: ports.in === undefined ? [] : [portOf("parameters", ports.in)],
      outputPorts: ports.out === undefined ? [] : [portOf("results", ports.out)],
    },
  };
}

function buildChain(name: string, nodes: readonly WorkflowNode[], key: string): Workflow {
  const edges = nodes.slice(1).map((target, at) => ({
    id: `e${at}`,
    source: { node: nodes[at]?.id ?? "", port: key },
    target: { node: target.id, port: key },
  }));
  return { id: randomUUID(), schemaVersion: "2025-10", metadata: { name }, nodes: [...nodes], edges };
}

/** A text that is turned to capitals and then around: its last result proves that values travelled along the edges. */
export function textChainWorkflow(text: string): Workflow {
  return buildChain(
    "Text chain",
    [
      buildNode("demo.text", { text }, { out: "text" }),
      buildNode("demo.transform", { mode: "uppercase" }, { in: "text", out: "text" }),
      buildNode("demo.transform", { mode: "reverse" }, { in: "text", out: "text" }),
    ],
    "text",
  );
}

/** One node that takes its time. */
export function sleepingWorkflow(durationMs: number): Workflow {
  return buildChain("Slow", [buildNode("demo.delay", { durationMs })], "text");
}

/** One node that fails. */
export function failingWorkflow(): Workflow {
  return buildChain("Failing", [buildNode("demo.fail", { times: 1_000 })], "text");
}
