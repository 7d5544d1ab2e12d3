import type { Workflow } from "@astraflow/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseBindingPath, valueAt, withValueAt } from "../values/binding-path.ts";
import { canonicalJson } from "../values/canonical-json.ts";
import { compilePlan, compilePlanInSteps, resolveParams } from "./plan-compiler.ts";

const uuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

const node = (at: number, inputs: string[], outputs: string[], parameters: Record<string, unknown> = {}) => ({
  id: uuid(at),
  type: "demo.step",
  package: { name: "demo", version: "1.0.0" },
  label: `n${at}`,
  position: { x: 0, y: 0 },
  parameters,
  ui: {
    inputPorts: inputs.map((path, port) => ({ key: `i${port}`, label: "", binding: { path, mode: "write" } })),
    outputPorts: outputs.map((path, port) => ({ key: `o${port}`, label: "", binding: { path, mode: "read" } })),
  },
});

const edge = (id: string, from: number, out: string, to: number, into: string) => ({
  id,
  source: { node: uuid(from), port: out },
  target: { node: uuid(to), port: into },
});

const workflow = (nodes: unknown[], edges: unknown[]) =>
  ({ id: uuid(99), schemaVersion: "2025-10", metadata: { name: "w" }, nodes, edges }) as Workflow;

describe("compilePlan", () => {
  it("[G2] compilePlan counts a node's distinct predecessors, however many edges join them", () => {
    const plan = compilePlan(
      workflow(
        [node(0, [], ["results.a", "results.b"]), node(1, ["parameters.x", "parameters.y"], [])],
        [edge("1", 0, "o0", 1, "i0"), edge("2", 0, "o1", 1, "i1")],
      ),
    );

    expect(plan.nodes[1]).toMatchObject({ before: [0], after: [] });
    expect(plan.nodes[1]?.inputs).toHaveLength(2);
    expect(plan.starts).toEqual([0]);
  });

  it("[G2] resolveParams writes edge values into the authored parameters, by dotted path or pointer, and leaves the rest as authored", () => {
    const plan = compilePlan(
      workflow(
        [
          node(0, [], ["results.page.url", "/results/list"]),
          node(1, ["parameters.target.url", "/parameters/items"], [], { target: { keep: 1 }, other: true }),
        ],
        [edge("1", 0, "o0", 1, "i0"), edge("2", 0, "o1", 1, "i1")],
      ),
    );

    const params = resolveParams(plan.nodes[1] as never, () => ({ params: {}, results: { page: { url: "u" }, list: [1, 2] } }));

    expect(params).toEqual({ target: { keep: 1, url: "u" }, other: true, items: [1, 2] });
    expect(plan.nodes[1]?.params).toEqual({ target: { keep: 1 }, other: true });
  });

  it("[G2] resolveParams writes nothing for a value the source does not have, and reads the source's parameters where the port names them", () => {
    const plan = compilePlan(
      workflow(
        [node(0, [], ["results.none", "parameters.p"]), node(1, ["parameters.a", "parameters.b"], [], { a: "authored" })],
        [edge("1", 0, "o0", 1, "i0"), edge("2", 0, "o1", 1, "i1")],
      ),
    );

    expect(resolveParams(plan.nodes[1] as never, () => ({ params: { p: 7 }, results: {} }))).toEqual({ a: "authored", b: 7 });
  });
});

describe("paths", () => {
  it("[G2] a value written at a path is read back from it, and the original object is unchanged", () => {
    const step = fc.string({ minLength: 1 }).filter((text) => !["__proto__", "constructor", "prototype"].includes(text));
    fc.assert(
      fc.property(fc.object(), fc.array(step, { minLength: 1, maxLength: 4 }), fc.jsonValue(), (target, steps, value) => {
        const before = JSON.stringify(target);
        const written = withValueAt(target, steps, value);
        expect(valueAt(written, steps)).toEqual(value);
        expect(JSON.stringify(target)).toBe(before);
      }),
    );
  });

  it("[G2] binding paths support pointers with escapes and indexed steps", () => {
    expect(parseBindingPath("/results/a~1b/c~0d")).toEqual({ root: "results", steps: ["a/b", "c~d"] });
    expect(parseBindingPath("results.list[2].x")).toEqual({ root: "results", steps: ["list", "2", "x"] });
    expect(withValueAt({ list: [1, 2, 3] }, ["list", "1"], 9)).toEqual({ list: [1, 9, 3] });
  });
});

describe("canonicalJson", () => {
  it("[G3] canonicalJson gives one text for equal values, whatever the order of keys, and it parses back to the value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
    expect(canonicalJson({ b: 1, a: { d: undefined, c: [null, 2] } })).toBe(canonicalJson({ a: { c: [null, 2] }, b: 1 }));
  });
});

describe("compilePlanInSteps", () => {
  it("[G610] a large workflow is compiled in many steps and becomes the same plan as at once", () => {
    const count = 6_000;
    const large = workflow(
      Array.from({ length: count }, (_, at) => node(at, ["parameters.x"], ["results.a"])),
      Array.from({ length: count - 1 }, (_, at) => edge(String(at), at, "o0", at + 1, "i0")),
    );

    const steps = compilePlanInSteps(large);
    let pauses = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) pauses += 1;

    expect(step.value).toEqual(compilePlan(large));
    expect(pauses).toBeGreaterThan(8);
  });
});
