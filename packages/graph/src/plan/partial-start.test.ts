import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type NodeFixture, testEdge, testNode, testUuid, testWorkflow } from "../testing/workflow-fixtures.ts";
import { planStart } from "./partial-start.ts";
import { compilePlan } from "./plan-compiler.ts";

const nodeWithoutPorts = (at: number, rest: NodeFixture = {}) => ({ ...testNode(at, rest), ui: undefined });
const planFor = (count: number, edges: [number, number][]) =>
  compilePlan(
    testWorkflow(
      Array.from({ length: count }, (_, at) => nodeWithoutPorts(at)),
      edges.map(([from, to]) => testEdge(from, "o", to, "i")),
    ),
  );
// 0 -> 1 -> 2 -> 3, 4 -> 3, 5 alone
const plan = planFor(6, [
  [0, 1],
  [1, 2],
  [2, 3],
  [4, 3],
]);
const reasonsOf = (start: ReturnType<typeof planStart>) =>
  Object.fromEntries(Object.entries(start.given).map(([at, given]) => [at, given.why]));
const reuse =
  (...known: number[]) =>
  (id: string) =>
    known.map(testUuid).includes(id) ? { result: '{"old":1}', params: "{}" } : null;

describe("planStart", () => {
  it("[G20] planStart runs every node when nothing is specified", () => {
    expect(planStart(plan, {})).toEqual({ given: {}, run: [0, 1, 2, 3, 4, 5], problems: [], warnings: [] });
  });

  it("[G20] planStart uses pins as results, and runs all other nodes", () => {
    const start = planStart(plan, { pins: { [testUuid(1)]: { a: 1 } } });

    expect(start.given).toEqual({ 1: { status: "succeeded", result: '{"a":1}', why: "pin" } });
    expect(start.run).toEqual([0, 2, 3, 4, 5]);
  });

  it("[G20] planStart runs a node and everything after it, and reports the inputs that are not given", () => {
    const short = planStart(plan, { from: testUuid(2), pins: { [testUuid(1)]: {} } });
    const whole = planStart(plan, { from: testUuid(2), pins: { [testUuid(1)]: {} }, reuse: reuse(0, 4) });

    expect(short.problems).toEqual([
      { field: "reuse", node: testUuid(4), message: expect.stringContaining(`node ${testUuid(4)}`) as string },
    ]);
    expect(whole.problems).toEqual([]);
    expect(whole.run).toEqual([2, 3]);
    expect(reasonsOf(whole)).toEqual({ 0: "reuse", 1: "pin", 4: "reuse", 5: "excluded" });
    expect(whole.given[0]).toEqual({ status: "succeeded", result: '{"old":1}', params: "{}", why: "reuse" });
  });

  it("[G20] planStart runs only what the target node needs, no further back than what is given", () => {
    expect(planStart(plan, { to: testUuid(2) })).toMatchObject({ run: [0, 1, 2], problems: [] });
    expect(planStart(plan, { to: testUuid(2), pins: { [testUuid(1)]: {} } })).toMatchObject({ run: [2], problems: [] });
    expect(planStart(plan, { from: testUuid(1), to: testUuid(2), reuse: reuse(0) })).toMatchObject({ run: [1, 2], problems: [] });
    expect(planStart(plan, { from: testUuid(2), to: testUuid(4) }).problems[0]).toMatchObject({ field: "to", node: testUuid(4) });
  });

  it("[G20] planStart reuses results only where nothing before them runs again or is pinned", () => {
    expect(planStart(plan, { reuse: reuse(0, 2, 4, 5) })).toMatchObject({ run: [1, 2, 3], problems: [] });
    expect(planStart(plan, { reuse: reuse(0, 1, 2, 3, 4, 5), pins: { [testUuid(1)]: {} } }).run).toEqual([2, 3]);
    expect(planStart(plan, { reuse: reuse(0, 1, 2, 3, 4, 5) }).run).toEqual([]);
  });

  it("[G20] planStart refuses unknown nodes, middlewares, pins that are no valid results of a node that enforces its schema, and a pinned start node", () => {
    const strict = { results: { type: "object", properties: { n: { type: "number" } } } };
    const node = nodeWithoutPorts(0, { middlewares: [nodeWithoutPorts(9)], schema: strict });
    const chained = compilePlan({ ...testWorkflow([node]), schemaMode: "enforce" });
    const lenient = compilePlan(testWorkflow([node]));

    expect(planStart(chained, { from: testUuid(7) }).problems[0]?.message).toContain(`no node ${testUuid(7)}`);
    expect(planStart(chained, { to: testUuid(9) }).problems[0]?.message).toContain("is a middleware");
    expect(planStart(chained, { pins: { [testUuid(0)]: { n: "x" } } }).problems[0]?.message).toContain(
      "results.n must be a number",
    );
    expect(planStart(lenient, { pins: { [testUuid(0)]: { n: "x" } } })).toMatchObject({
      problems: [],
      warnings: [{ field: "pins", node: testUuid(0), message: expect.stringContaining("results.n must be a number") as string }],
    });
    expect(planStart(chained, { pins: { [testUuid(0)]: [1] } }).problems[0]?.message).toContain("must be an object");
    expect(planStart(chained, { pins: { [testUuid(0)]: {} }, from: testUuid(0) }).problems[0]?.message).toContain("is pinned");
  });

  it("[G20] planStart never excludes a node that a running node waits for, on any graph", () => {
    const pairs = fc.array(fc.tuple(fc.nat({ max: 7 }), fc.nat({ max: 7 })), { maxLength: 12 });
    const some = fc.option(fc.nat({ max: 7 }), { nil: undefined });
    fc.assert(
      fc.property(
        pairs,
        some,
        some,
        fc.subarray([0, 1, 2, 3, 4, 5, 6, 7]),
        fc.subarray([0, 1, 2, 3, 4, 5, 6, 7]),
        (edges, from, to, pins, old) => {
          const any = planFor(
            8,
            edges.filter(([a, b]) => a < b),
          );
          const start = planStart(any, {
            ...(from !== undefined && { from: testUuid(from) }),
            ...(to !== undefined && { to: testUuid(to) }),
            pins: Object.fromEntries(pins.map((at) => [testUuid(at), {}])),
            reuse: reuse(...old),
          });
          expect([...start.run, ...Object.keys(start.given).map(Number)].sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
          if (start.problems.length > 0) return;
          for (const ordinal of start.run)
            for (const before of any.nodes[ordinal]?.before ?? []) expect(start.given[before]?.why).not.toBe("excluded");
        },
      ),
    );
  });
});
