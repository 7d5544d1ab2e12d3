import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { compilePlan, resolveParams } from "../plan/plan-compiler.ts";
import type { PlanNode } from "../plan/plan-types.ts";
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

  /** Two nodes without declared ports, joined by an edge from `from` to `to`. */
  const portless = (from: string, to: string, schema?: object) =>
    workflow(2, [[0, 1]], (draft) => {
      for (const node of draft.nodes as { ui?: unknown; schema?: unknown }[]) {
        delete node.ui;
        node.schema = schema;
      }
      Object.assign(draft.edges[0]?.source ?? {}, { port: from });
      Object.assign(draft.edges[0]?.target ?? {}, { port: to });
    });

  it("[G34] an edge between nodes without declared ports carries the result of its source port's name into the parameter of its target port's name", () => {
    const bare = portless("text", "greeting.long");

    const [, second] = compilePlan(bare).nodes;
    const params = resolveParams(second as PlanNode, () => ({ params: {}, results: { text: "hi" } }));

    expect(checkWorkflow(bare)).toEqual([]);
    expect(second?.before).toEqual([0]);
    expect(params).toMatchObject({ "greeting.long": "hi" });
  });

  it("[G34] an edge into a node without declared ports is refused with the list of names where its schema has no others, and a warning where it may", () => {
    const listed = { properties: { text: {}, times: {} } };
    const schemaOf = (part: object) => ({ parameters: { ...listed, ...part }, results: { ...listed, ...part } });

    const closed = checkWorkflow(portless("txt", "text", schemaOf({ additionalProperties: false })));
    const open = checkWorkflow(portless("text", "txt", schemaOf({})));

    expect(closed).toMatchObject([{ path: "/edges/0/source/port", severity: "error" }]);
    expect(closed[0]?.message).toMatch(
      /output port "txt" of node \S+ \(\w+\), which declares no ports; its results are text, times$/,
    );
    expect(open).toMatchObject([{ path: "/edges/0/target/port", severity: "warning" }]);
    expect(open[0]?.message).toContain("port txt is parameters.txt, and the schema of its parameters lists text, times");
  });

  it.each(["__proto__", "__container", "constructor"])(
    "[G34] an edge into port %s of a node without declared ports is refused",
    (key) => {
      expect(checkWorkflow(portless("text", key))).toMatchObject([{ path: "/edges/0/target/port", severity: "error" }]);
    },
  );

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
