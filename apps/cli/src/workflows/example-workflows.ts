// The small workflows that `astra workflows new` writes. They use the packages of the examples, leave out what the manifests say, and run as they are.

import type { Edge, Workflow, WorkflowNode } from "@astraflow/protocol";

export const exampleNames = ["hello", "retry", "map"] as const;
export type ExampleName = (typeof exampleNames)[number];

interface ExampleNode {
  readonly type: string;
  readonly label: string;
  readonly parameters: WorkflowNode["parameters"];
  readonly policy?: WorkflowNode["policy"];
}

const examplePackages = { "workflow.container": "system", "system.input_generator": "system" } as Readonly<
  Record<string, string>
>;

/** Ids are new each time, so that two workflows that were written can be stored side by side. */
export function createExampleWorkflow(example: ExampleName, newId: () => string): Workflow {
  switch (example) {
    case "hello":
      return chainNodes("Hello", newId, [
        { type: "demo.text", label: "Say hello", parameters: { text: "hello from my first workflow" } },
        { type: "demo.transform", label: "Shout it", parameters: { mode: "uppercase" } },
      ]);
    case "retry":
      return chainNodes("Retry", newId, [
        {
          type: "demo.fail",
          label: "Fail twice",
          parameters: { times: 2 },
          policy: { retry: { maxAttempts: 3, backoffMs: 200 } },
        },
      ]);
    case "map":
      return createMapWorkflow(newId);
  }
}

/** Nodes in a row; the text of one is the text of the next. */
function chainNodes(name: string, newId: () => string, nodes: readonly ExampleNode[]): Workflow {
  const built = nodes.map((node, at) => buildNode(node, newId(), at));
  const edges = built.slice(1).map((target, at): Edge => connect(built[at] as WorkflowNode, "text", target, "text", newId()));
  return buildWorkflow(name, newId(), built, edges);
}

function createMapWorkflow(newId: () => string): Workflow {
  const change = buildNode({ type: "demo.transform", label: "Change it", parameters: { mode: "uppercase" } }, newId(), 0);
  const words = buildNode(
    { type: "system.input_generator", label: "Words", parameters: { type: "json", value: '["one", "two", "three"]' } },
    newId(),
    0,
  );
  const each = buildNode(
    {
      type: "workflow.container",
      label: "Each word",
      parameters: {
        __container: {
          subgraphId: "each",
          loop: { mode: "map", items: "parameters.items" },
          inputs: [{ from: "item", node: change.id, to: "parameters.text" }],
          outputs: [{ node: change.id, from: "results.text", to: "results.word" }],
        },
      },
    },
    newId(),
    1,
  );
  return {
    ...buildWorkflow("Map", newId(), [words, { ...each, role: "container" }], [connect(words, "value", each, "items", newId())]),
    subgraphs: [{ id: "each", definition: buildWorkflow("One word", newId(), [change], []) }],
  };
}

const buildWorkflow = (name: string, id: string, nodes: WorkflowNode[], edges: Edge[]): Workflow => ({
  id,
  schemaVersion: "2025-10",
  metadata: { name },
  nodes,
  edges,
});

const buildNode = ({ type, label, parameters, policy }: ExampleNode, id: string, at: number): WorkflowNode => ({
  id,
  type,
  label,
  package: { name: examplePackages[type] ?? "demo", version: "1.0.0" },
  position: { x: 80 + 260 * at, y: 160 },
  ...(parameters !== undefined && { parameters }),
  ...(policy !== undefined && { policy }),
});

const connect = (source: WorkflowNode, from: string, target: WorkflowNode, to: string, id: string): Edge => ({
  id,
  source: { node: source.id, port: from },
  target: { node: target.id, port: to },
});
