import type { Workflow } from "@astraflow/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { testEdge, testNode, testSubgraph, testUuid, testWorkflow } from "../testing/workflow-fixtures.ts";
import { canonicalJson } from "../values/canonical-json.ts";
import { applyEdits, type WorkflowEdit } from "./apply-edits.ts";
import { findEditConflicts } from "./edit-conflicts.ts";
import { readEdits } from "./read-edits.ts";
import { diffWorkflows } from "./workflow-diff.ts";

const base = testWorkflow(
  [testNode(0, { parameters: { a: 1, b: { c: 2 } } }), testNode(1), testNode(2, { middlewares: [testNode(20), testNode(21)] })],
  [testEdge(0, "o", 1, "i"), testEdge(1, "o", 2, "i")],
  {
    subgraphs: [testSubgraph("s", testWorkflow([testNode(5)]), "Sub")],
  },
);
const applied = (...edits: WorkflowEdit[]): Workflow => {
  const next = applyEdits(base, edits);
  if (typeof next === "string") throw new Error(next);
  return next;
};

describe("applyEdits", () => {
  it("[G21] applyEdits sets and removes single fields, and leaves the rest and the original unchanged", () => {
    const before = canonicalJson(base);

    const next = applied(
      { op: "setNode", id: testUuid(0), path: "/parameters/b/c", value: 3 },
      { op: "setNode", id: testUuid(0), path: "/parameters/a" },
      { op: "setMeta", path: "/metadata/name", value: "new" },
      { op: "setMiddleware", host: testUuid(2), id: testUuid(21), path: "/label", value: "m" },
      { op: "setSubgraph", id: "s", path: "/metadata/label", value: "Other" },
      { op: "setNode", graph: "s", id: testUuid(5), path: "/label", value: "inner" },
    );

    expect(next.nodes[0]?.parameters).toEqual({ b: { c: 3 } });
    expect(next.metadata.name).toBe("new");
    expect(next.nodes[2]?.middlewares?.[1]?.label).toBe("m");
    expect(next.subgraphs?.[0]).toMatchObject({ metadata: { label: "Other" }, definition: { nodes: [{ label: "inner" }] } });
    expect(canonicalJson(base)).toBe(before);
  });

  it("[G21] applyEdits removes a node with its edges, adds a node at an index, and reorders lists", () => {
    expect(applied({ op: "removeNode", id: testUuid(1) })).toMatchObject({
      nodes: [{ id: testUuid(0) }, { id: testUuid(2) }],
      edges: [],
    });
    expect(applied({ op: "addNode", node: testNode(9) as never, at: 1 }).nodes.map((one) => one.id)).toEqual(
      [0, 9, 1, 2].map(testUuid),
    );
    expect(applied({ op: "order", list: "nodes", ids: [testUuid(2), testUuid(0)] }).nodes.map((one) => one.id)).toEqual(
      [2, 0, 1].map(testUuid),
    );
    expect(
      applied({ op: "order", list: "middlewares", host: testUuid(2), ids: [testUuid(21)] }).nodes[2]?.middlewares?.[0]?.id,
    ).toBe(testUuid(21));
  });

  it("[G21] applyEdits applies a repeated addition or removal only once", () => {
    const add: WorkflowEdit = { op: "addEdge", edge: testEdge(0, "x", 2, "y") };

    expect(applied(add, add).edges).toHaveLength(3);
    expect(applied({ op: "removeNode", id: testUuid(1) }, { op: "removeNode", id: testUuid(1) }).nodes).toHaveLength(2);
  });

  it.each([
    ["there is no node", { op: "setNode", id: testUuid(8), path: "/label", value: "" }],
    ["there is no subgraph t", { op: "removeNode", graph: "t", id: testUuid(8) }],
    ["there is no node", { op: "addMiddleware", host: testUuid(8), middleware: testNode(9) as never }],
    ["a different node", { op: "addNode", node: testNode(1, { label: "other" }) as never }],
    ["field id cannot be set", { op: "setNode", id: testUuid(0), path: "/id", value: testUuid(7) }],
    ["field middlewares cannot be set", { op: "setNode", id: testUuid(0), path: "/middlewares/0/label", value: "x" }],
    ["field middlewares cannot be set", { op: "setNode", id: testUuid(2), path: "/middlewares", value: [] }],
    ["field nodes cannot be set", { op: "setMeta", path: "/nodes", value: [] }],
    ["field definition cannot be set", { op: "setSubgraph", id: "s", path: "/definition/nodes", value: [] }],
  ] as [string, WorkflowEdit][])("[G21] applyEdits reports '%s' and which edit it was", (words, edit) => {
    expect(applyEdits(base, [{ op: "setMeta", path: "/tags", value: [] }, edit])).toMatch(
      new RegExp(`^edit 1 \\(${edit.op}\\): .*${words}`),
    );
  });
});

describe("readEdits", () => {
  it("[G22] readEdits accepts every kind of edit", () => {
    const edits = [
      { op: "addNode", node: testNode(1), at: 0 },
      { op: "removeNode", id: "a", graph: "s" },
      { op: "setNode", id: "a", path: "/a" },
      { op: "order", list: "middlewares", host: "h", ids: ["a"] },
      { op: "addEdge", edge: testEdge(0, "o", 1, "i") },
      { op: "setGraph", value: base },
      { op: "addSubgraph", subgraph: testSubgraph("s", base) },
    ];

    expect(readEdits(edits)).toEqual(edits);
  });

  it.each([
    ["edits must be a list", {}],
    ["edits.0 must be an object", [1]],
    ["edits.0.op must be one of", [{ op: "constructor" }]],
    ["edits.0.id is missing", [{ op: "removeNode" }]],
    ["edits.0.path must be a JSON pointer", [{ op: "setMeta", path: "a" }]],
    ["edits.0.path names the reserved step", [{ op: "setMeta", path: "/a/__proto__/b", value: 1 }]],
    ["edits.0.node must have an id", [{ op: "addNode", node: {} }]],
    ["edits.0.edge must have a source", [{ op: "addEdge", edge: { id: "e" } }]],
    ["edits.0.at must be a whole number", [{ op: "addNode", node: testNode(1), at: -1 }]],
    ["edits.0.vaule is not a field", [{ op: "setMeta", path: "/a", vaule: 1 }]],
    ["edits.0.host is required", [{ op: "order", list: "middlewares", ids: [] }]],
    ["edits.0.list must be one of middlewares", [{ op: "emptyList", list: "nodes", isWritten: true }]],
    ["edits.0.graph is not allowed", [{ op: "order", list: "subgraphs", graph: "s", ids: [] }]],
    ["edits.0.value must be a workflow", [{ op: "setGraph", value: { nodes: [1], edges: [] } }]],
    ["edits must be at most 5000", Array.from({ length: 5_001 }, () => ({}))],
  ])("[G22] readEdits reports '%s'", (words, value) => {
    expect(readEdits(value)).toContain(words);
  });

  it.each([
    ["edits.0.edge is missing; it has egde, did you mean edge?", { op: "addEdge", egde: {} }],
    [
      "each with node and port; it has prot, did you mean port?",
      { op: "addEdge", edge: { id: "e", source: { node: "a", prot: "x" }, target: { node: "b", port: "y" } } },
    ],
    [
      "each with node and port; it has taregt, did you mean target?",
      { op: "addEdge", edge: { id: "e", source: { node: "a", port: "x" }, taregt: {} } },
    ],
    ["edits.0.vaule is not a field of this edit; did you mean value?", { op: "setMeta", path: "/a", vaule: 1 }],
  ])("[C910] an edit that misspells a field is refused with both names: %s", (words, edit) => {
    expect(readEdits([edit])).toContain(words);
  });
});

describe("findEditConflicts", () => {
  const label = (value: string, id = 0): WorkflowEdit => ({ op: "setNode", id: testUuid(id), path: "/label", value });

  it.each([
    ["other fields of one node", [label("a")], [{ op: "setNode", id: testUuid(0), path: "/parameters/a", value: 1 }], 0],
    ["the same field, other values", [label("a")], [label("b")], 1],
    ["the same edit", [label("a")], [label("a")], 0],
    ["the same field of two nodes", [label("a")], [label("b", 1)], 0],
    ["the same node in two graphs", [label("a")], [{ ...label("b"), graph: "s" } as WorkflowEdit], 0],
    [
      "a field and one above it",
      [{ op: "setNode", id: testUuid(0), path: "/parameters", value: {} }],
      [{ op: "setNode", id: testUuid(0), path: "/parameters/a", value: 1 }],
      1,
    ],
    ["a change and a removal", [label("a")], [{ op: "removeNode", id: testUuid(0) }], 1],
    [
      "an edge to what was removed",
      [{ op: "addEdge", edge: testEdge(0, "o", 2, "i") }],
      [{ op: "removeNode", id: testUuid(2) }],
      1,
    ],
    [
      "a removal under a new edge",
      [{ op: "removeNode", id: testUuid(2) }],
      [{ op: "addEdge", edge: testEdge(0, "o", 2, "i") }],
      1,
    ],
    [
      "a middleware of what was removed",
      [{ op: "setMiddleware", host: testUuid(2), id: testUuid(20), path: "/label", value: "" }],
      [{ op: "removeNode", id: testUuid(2) }],
      1,
    ],
    ["anything and the whole graph", [label("a")], [{ op: "setGraph", value: base }], 1],
    [
      "a node inside and its subgraph gone",
      [{ ...label("a", 5), graph: "s" } as WorkflowEdit],
      [{ op: "removeSubgraph", id: "s" }],
      1,
    ],
    ["two orders", [{ op: "order", list: "nodes", ids: ["a"] }], [{ op: "order", list: "nodes", ids: ["b"] }], 1],
  ] as [string, WorkflowEdit[], WorkflowEdit[], number][])(
    "[G23] findEditConflicts finds the right number of conflicts for: %s",
    (_, mine, theirs, count) => {
      expect(findEditConflicts(mine, theirs)).toHaveLength(count);
    },
  );

  it("[G23] findEditConflicts names both edits and the field", () => {
    expect(findEditConflicts([label("x", 1), label("a")], [label("b")])).toEqual([
      { mine: 1, theirs: 0, field: `/nodes/${testUuid(0)}/label` },
    ]);
  });
});

describe("diffWorkflows", () => {
  it("[G24] diffWorkflows describes in a readable summary what changed", () => {
    const to = applied(
      label0(),
      { op: "removeNode", id: testUuid(1) },
      { op: "addNode", node: testNode(9) as never },
      { op: "addEdge", edge: testEdge(0, "o", 9, "i") },
      { op: "setMeta", path: "/metadata/name", value: "new" },
      { op: "setNode", graph: "s", id: testUuid(5), path: "/parameters", value: { x: 1 } },
    );

    expect(diffWorkflows(base, to).summary.map((line) => line.text)).toEqual([
      "node n5 changed in subgraph s: parameters",
      "workflow changed: metadata.name",
      "node n1 removed",
      "node Renamed changed: label",
      "node n9 added",
      "edge Renamed -> n9 added",
    ]);
    expect(diffWorkflows(base, base)).toEqual({ edits: [], summary: [] });
  });

  function label0(): WorkflowEdit {
    return { op: "setNode", id: testUuid(0), path: "/label", value: "Renamed" };
  }

  const json = fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    fc.integer({ max: 3 }),
    fc.constantFrom("", "x"),
    fc.array(fc.nat({ max: 2 }), { maxLength: 2 }),
  );
  const bag = fc.dictionary(
    fc.constantFrom("a", "b/c", "d~e", "constructor", "0"),
    fc.oneof(json, fc.dictionary(fc.constantFrom("x", "y"), json)),
    { maxKeys: 3 },
  );
  const ids = (from: number, to: number, isClean: boolean) => {
    const numbers = Array.from({ length: to - from }, (_, at) => from + at);
    return isClean ? fc.shuffledSubarray(numbers) : fc.array(fc.constantFrom(...numbers), { maxLength: 4 });
  };
  const optional = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined });
  const strip = (value: unknown) => JSON.parse(JSON.stringify(value)) as Workflow;
  const anyNode = (at: number, isClean: boolean) =>
    fc
      .tuple(optional(bag), fc.constantFrom("n", "m"), optional(ids(20, 23, isClean)), optional(bag))
      .map(([parameters, label, chain, metadata]) => ({
        ...testNode(at),
        parameters,
        label,
        metadata,
        middlewares: chain?.map((id) => ({ ...testNode(id), label })),
      }));
  const anyGraph = (isClean: boolean): fc.Arbitrary<Workflow> =>
    fc
      .tuple(
        ids(0, 5, isClean).chain((numbers) => fc.tuple(...numbers.map((at) => anyNode(at, isClean)))),
        ids(0, 4, isClean).chain((names) =>
          fc.tuple(
            ...names.map((id) =>
              fc.tuple(fc.nat({ max: 5 }), fc.nat({ max: 5 })).map(([a, b]) => ({ ...testEdge(a, "o", b, "i"), id: `e${id}` })),
            ),
          ),
        ),
        optional(bag),
      )
      .map(([nodes, edges, runtimes]) => strip(testWorkflow(nodes, edges, { runtimes })));
  const anyWorkflow = (isClean: boolean) =>
    fc
      .tuple(
        anyGraph(isClean),
        optional(
          ids(0, 3, isClean).chain((names) =>
            fc.tuple(
              ...names.map((id) => anyGraph(isClean).map((inner) => testSubgraph(`s${id}`, inner, id === 1 ? "L" : undefined))),
            ),
          ),
        ),
      )
      .map(([root, subgraphs]) => strip({ ...root, subgraphs }));

  it("[G24] the edits of diffWorkflows turn one workflow into the other, without replacing a whole graph where ids are unique", () => {
    for (const isClean of [true, false])
      fc.assert(
        fc.property(anyWorkflow(isClean), anyWorkflow(isClean), (from, to) => {
          const { edits } = diffWorkflows(from, to);
          expect(readEdits(strip(edits))).not.toBeTypeOf("string");
          expect(canonicalJson(applyEdits(from, strip(edits) as unknown as WorkflowEdit[]))).toBe(canonicalJson(to));
          expect(isClean && edits.some((edit) => edit.op === "setGraph")).toBe(false);
        }),
        { numRuns: 100 },
      );
  });

  it("[G23] edits from two diffs that do not conflict give the same workflow in either order", () => {
    const order = (edit: WorkflowEdit) =>
      edit.op === "order" ||
      edit.op === "addNode" ||
      edit.op === "addEdge" ||
      edit.op === "addMiddleware" ||
      edit.op === "addSubgraph";
    fc.assert(
      fc.property(anyWorkflow(true), anyWorkflow(true), anyWorkflow(true), (from, one, other) => {
        const [mine, theirs] = [diffWorkflows(from, one).edits, diffWorkflows(from, other).edits].map((edits) =>
          edits.filter((edit) => !order(edit)),
        );
        if (mine === undefined || theirs === undefined) return;
        const clashing = new Set(findEditConflicts(mine, theirs).map((conflict) => conflict.mine));
        const rest = mine.filter((_, index) => !clashing.has(index));
        const first = applyEdits(from, [...theirs, ...rest]);
        const second = applyEdits(from, [...rest, ...theirs]);
        expect(first).not.toBeTypeOf("string");
        expect(canonicalJson(first)).toBe(canonicalJson(second));
      }),
      { numRuns: 100 },
    );
  });
});
