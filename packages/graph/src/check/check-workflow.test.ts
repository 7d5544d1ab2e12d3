import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { checkWorkflow } from "./check-workflow.ts";

const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

const port = (key: string, path: string) => ({ key, label: key, binding: { path, mode: "write" as const } });

function workflow(nodes: number, edges: [number, number][], change: (draft: Workflow) => void = () => undefined): Workflow {
  const draft = {
    id: uuid(99),
    schemaVersion: "2025-10",
    metadata: { name: "w" },
    nodes: Array.from({ length: nodes }, (_, at) => ({
      id: uuid(at),
      type: "demo.step",
      package: { name: "demo", version: "1.0.0" },
      label: `n${at}`,
      position: { x: 0, y: 0 },
      ui: { inputPorts: [port("in", "parameters.in")], outputPorts: [port("out", "results.out")] },
    })),
    edges: edges.map(([from, to], at) => ({
      id: `e${at}`,
      source: { node: uuid(from), port: "out" },
      target: { node: uuid(to), port: "in" },
    })),
  } as Workflow;
  change(draft);
  return draft;
}

describe("checkWorkflow", () => {
  it("[G1] checkWorkflow finds nothing wrong with an acyclic graph", () => {
    expect(
      checkWorkflow(
        workflow(4, [
          [0, 1],
          [0, 2],
          [1, 3],
          [2, 3],
        ]),
      ),
    ).toEqual([]);
  });

  it("[G1] checkWorkflow reports a cycle by the nodes on it, not by those that only depend on it", () => {
    const [problem] = checkWorkflow(
      workflow(5, [
        [0, 1],
        [1, 2],
        [2, 1],
        [2, 3],
        [3, 4],
      ]),
    );

    expect(problem?.message).toContain(`${uuid(1)} -> ${uuid(2)} -> ${uuid(1)}`);
    expect(problem?.message).not.toContain(uuid(4));
  });

  it("[G1] checkWorkflow reports a node with an edge to itself as a cycle", () => {
    expect(checkWorkflow(workflow(1, [[0, 0]]))[0]?.message).toContain("cycle");
  });

  it("[G1] checkWorkflow reports edges to missing nodes, missing ports, and duplicate ids", () => {
    const broken = workflow(
      2,
      [
        [0, 1],
        [0, 1],
      ],
      (draft) => {
        (draft.edges[0] as { target: { node: string } }).target.node = uuid(7);
        (draft.edges[1] as { source: { port: string } }).source.port = "nope";
        (draft.edges[1] as { id: string }).id = "e0";
        (draft.nodes[1] as { id: string }).id = uuid(0);
      },
    );

    const problems = checkWorkflow(broken);

    expect(problems.map((one) => one.path)).toEqual(
      expect.arrayContaining(["/edges/0/target/node", "/edges/1/source/port", "/edges/1/id", "/nodes/1/id"]),
    );
    expect(problems.find((one) => one.path === "/edges/1/source/port")?.message).toContain("it has out");
  });

  it("[G1] checkWorkflow accepts an edge to a node without ports, which only sets the order", () => {
    const bare = workflow(2, [[0, 1]], (draft) => {
      delete (draft.nodes[1] as { ui?: unknown }).ui;
    });

    expect(checkWorkflow(bare)).toEqual([]);
  });

  it("[G1] checkWorkflow refuses binding paths that leave parameters and results or reach a prototype", () => {
    const bad = workflow(1, [], (draft) => {
      const ui = draft.nodes[0]?.ui as { inputPorts: unknown[]; outputPorts: unknown[] };
      ui.inputPorts = [port("a", "secrets.x"), port("b", "parameters.__proto__.x"), port("c", "/parameters//x")];
    });

    expect(checkWorkflow(bad).map((one) => one.path)).toEqual([0, 1, 2].map((at) => `/nodes/0/ui/inputPorts/${at}/binding/path`));
  });

  it("[G1] checkWorkflow stays fast and does not overflow the stack on a chain of 20,000 nodes", () => {
    const long = workflow(
      20_000,
      Array.from({ length: 19_999 }, (_, at) => [at, at + 1] as [number, number]),
    );

    expect(checkWorkflow(long)).toEqual([]);
  });
});
