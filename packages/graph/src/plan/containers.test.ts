import { describe, expect, it } from "vitest";
import { testSubgraph as sub, testContainer, testEdge, testNode, testUuid, testWorkflow } from "../testing/workflow-fixtures.ts";
import { readContainerSettings } from "./container-settings.ts";
import { collectIterationOutputs, isConditionMet, resolveIterationParams, resolveLoopItems } from "./iterations.ts";
import { compilePlan, resolveParams } from "./plan-compiler.ts";
import type { ContainerLoop, ContainerPlan, NodeOutcome, Plan, PlanNode } from "./plan-types.ts";

const nodeAt = (plan: Plan | undefined, ordinal: number): PlanNode => {
  const found = plan?.nodes[ordinal];
  if (found === undefined) throw new Error(`no node ${ordinal}`);
  return found;
};
const containerOf = (found: PlanNode): ContainerPlan => {
  if (found.container === null) throw new Error(`node ${found.ordinal} is no container`);
  return found.container;
};
const noOutcome = () => null;
const outcomeOf = (value: unknown): NodeOutcome => ({ params: {}, results: value });
const iterationScope = (parameters: unknown, rest: object = {}) => ({ parameters, item: undefined, index: 0, last: {}, ...rest });

describe("compilePlan with middlewares", () => {
  const chained = compilePlan(
    testWorkflow(
      [
        testNode(0, { out: { o: "results.x" } }),
        testNode(1, {
          in: { i: "parameters.x" },
          out: { o: "results.x" },
          middlewares: [testNode(10, { in: { a: "parameters.a" }, out: { b: "results.b" } }), testNode(11)],
        }),
        testNode(2, { in: { i: "parameters.x", j: "parameters.y" } }),
      ],
      [
        testEdge(0, "o", 1, `mw:${testUuid(10)}:input:a`),
        testEdge(1, `mw:${testUuid(10)}:output:b`, 2, "i"),
        testEdge(1, "o", 2, "j"),
      ],
    ),
  );

  it("[G4] compilePlan appends middlewares after the authored nodes, outermost first, and leaves the order to their host", () => {
    expect(chained.nodes.map((one) => one.id)).toEqual([0, 1, 2, 10, 11].map(testUuid));
    expect(nodeAt(chained, 1)).toMatchObject({ chain: [3, 4], before: [0], after: [2], host: null });
    expect(nodeAt(chained, 3)).toMatchObject({
      host: 1,
      chainIndex: 0,
      before: [],
      after: [],
      chain: [],
      outputs: [{ root: "results", steps: ["b"] }],
    });
    expect(nodeAt(chained, 4)).toMatchObject({ host: 1, chainIndex: 1 });
    expect(chained.starts).toEqual([0]);
  });

  it("[G4] a plan carries values to and from the ports of a middleware", () => {
    expect(resolveParams(nodeAt(chained, 3), () => outcomeOf({ x: 7 }))).toEqual({ a: 7 });
    expect(nodeAt(chained, 1).inputs).toEqual([]);
    expect(resolveParams(nodeAt(chained, 2), (ordinal) => outcomeOf(ordinal === 3 ? { b: "mw" } : { x: "host" }))).toEqual({
      x: "mw",
      y: "host",
    });
  });
});

describe("compilePlan with containers", () => {
  it("[G5] compilePlan compiles each subgraph once and shares it, also for containers inside containers", () => {
    const plan = compilePlan(
      testWorkflow([testContainer(0, { subgraphId: "a" }), testContainer(1, { subgraphId: "a" })], [], {
        subgraphs: [sub("a", testWorkflow([testContainer(0, { subgraphId: "b" })])), sub("b", testWorkflow([testNode(5)]))],
      }),
    );

    expect(containerOf(nodeAt(plan, 0)).body).toBe(containerOf(nodeAt(plan, 1)).body);
    expect(containerOf(nodeAt(containerOf(nodeAt(plan, 0)).body, 0)).body.nodes[0]?.id).toBe(testUuid(5));
  });

  it("[G5] compilePlan finishes on a container that contains itself, and on one whose subgraph is missing", () => {
    const plan = compilePlan(
      testWorkflow([testContainer(0, { subgraphId: "a" }), testContainer(1, { subgraphId: "none" })], [], {
        subgraphs: [sub("a", testWorkflow([testContainer(0, { subgraphId: "a" })]))],
      }),
    );

    expect(containerOf(nodeAt(plan, 1)).body.nodes).toEqual([]);
    expect(containerOf(nodeAt(plan, 0)).body.nodes).toHaveLength(1);
  });

  it("[G6] a container passes parameters, item, index and last outputs to the nodes of an iteration; values from edges override them", () => {
    const config = {
      subgraphId: "a",
      loop: { mode: "map", items: "parameters.list" },
      inputs: [
        { from: "parameters.who", node: testUuid(1), to: "parameters.to.name" },
        { from: "item.x", node: testUuid(1), to: "/parameters/x" },
        { from: "index", node: testUuid(2), to: "parameters.n" },
        { from: "last.sum", node: testUuid(2), to: "parameters.sum" },
        { from: "item", node: testUuid(2), to: "parameters.fed" },
      ],
      outputs: [{ node: testUuid(2), from: "results.sum", to: "results.total.sum" }],
    };
    const body = testWorkflow(
      [testNode(1, { parameters: { to: { a: 1 } }, out: { o: "results.o" } }), testNode(2, { in: { i: "parameters.fed" } })],
      [testEdge(1, "o", 2, "i")],
    );
    const held = containerOf(
      nodeAt(compilePlan(testWorkflow([testContainer(0, config)], [], { subgraphs: [sub("a", body)] })), 0),
    );

    const frame = iterationScope({ who: "Ada" }, { item: { x: 1 }, index: 4, last: { sum: 9 } });
    expect(resolveIterationParams(held, nodeAt(held.body, 0), frame, noOutcome)).toEqual({ to: { a: 1, name: "Ada" }, x: 1 });
    expect(resolveIterationParams(held, nodeAt(held.body, 1), frame, () => outcomeOf({ o: "edge" }))).toEqual({
      n: 4,
      sum: 9,
      fed: "edge",
    });
    expect(collectIterationOutputs(held, (ordinal) => (ordinal === 1 ? outcomeOf({ sum: 3 }) : null))).toEqual({
      total: { sum: 3 },
    });
    expect(collectIterationOutputs(held, noOutcome)).toEqual({});
  });

  it("[G7] compilePlan treats a port bound into a subgraph as an input or output of the container, by any of the container's names", () => {
    for (const alias of ["a", "Inner", "Box", testUuid(1)]) {
      const plan = compilePlan(
        testWorkflow(
          [
            testNode(0, { out: { o: "results.o" } }),
            testContainer(
              1,
              { subgraphId: "a" },
              {
                label: "Box",
                in: { i: { path: "parameters.deep.x", prefix: `@${alias}.#${testUuid(5)}` } },
                out: {
                  o: {
                    path: "results.y",
                    scope: { kind: "subgraph", subgraphAliases: [alias], nodeId: testUuid(6) },
                    prefix: "@wrong",
                  },
                },
              },
            ),
            testNode(2, { in: { i: "parameters.z" } }),
          ],
          [testEdge(0, "o", 1, "i"), testEdge(1, "o", 2, "i")],
          { subgraphs: [sub("a", testWorkflow([testNode(5), testNode(6)]), "Inner")] },
        ),
      );
      const box = containerOf(nodeAt(plan, 1));

      const params = resolveParams(nodeAt(plan, 1), () => outcomeOf({ o: 42 }));
      expect(resolveIterationParams(box, nodeAt(box.body, 0), iterationScope(params), noOutcome)).toEqual({ deep: { x: 42 } });
      const outputs = collectIterationOutputs(box, (ordinal) => (ordinal === 1 ? outcomeOf({ y: "out" }) : null));
      expect(resolveParams(nodeAt(plan, 2), () => outcomeOf(outputs))).toEqual({ z: "out" });
    }
  });

  it("[G7] compilePlan follows several aliases through nested containers, and collects lists where they loop", () => {
    const plan = compilePlan(
      testWorkflow(
        [
          testNode(0, { out: { o: "results.o" } }),
          testContainer(
            1,
            { subgraphId: "a" },
            {
              in: { i: { path: "parameters.x", prefix: `@a.b.#${testUuid(7)}` } },
              out: { o: { path: "results.y", prefix: `@a.b.#${testUuid(7)}` } },
            },
          ),
          testNode(2, { in: { i: "parameters.z" } }),
        ],
        [testEdge(0, "o", 1, "i"), testEdge(1, "o", 2, "i")],
        {
          subgraphs: [
            sub("a", testWorkflow([testContainer(5, { subgraphId: "b", loop: { mode: "forEach", items: [1, 2] } })])),
            sub("b", testWorkflow([testNode(7)])),
          ],
        },
      ),
    );
    const outer = containerOf(nodeAt(plan, 1));
    const inner = containerOf(nodeAt(outer.body, 0));

    const nested = resolveIterationParams(
      outer,
      nodeAt(outer.body, 0),
      iterationScope(resolveParams(nodeAt(plan, 1), () => outcomeOf({ o: 1 }))),
      noOutcome,
    );
    expect(resolveIterationParams(inner, nodeAt(inner.body, 0), iterationScope(nested), noOutcome)).toEqual({ x: 1 });
    const items = [1, 2].map((y) => collectIterationOutputs(inner, () => outcomeOf({ y })));
    const outputs = collectIterationOutputs(outer, () => outcomeOf({ items, count: 2 }));
    expect(resolveParams(nodeAt(plan, 2), () => outcomeOf(outputs))).toEqual({ z: [1, 2] });
  });

  it("[G7] compilePlan lets a port stand for another node of the same graph, and the target waits for that node", () => {
    const plan = compilePlan(
      testWorkflow(
        [
          testNode(0, { out: { o: { path: "results.o", prefix: `#${testUuid(1)}` } } }),
          testNode(1),
          testNode(2, { in: { i: { path: "parameters.x", prefix: `#${testUuid(3)}` } } }),
          testNode(3),
        ],
        [testEdge(0, "o", 2, "i")],
      ),
    );

    expect(nodeAt(plan, 3)).toMatchObject({ before: [1], inputs: [{ source: 1, to: ["x"] }] });
    expect(nodeAt(plan, 2)).toMatchObject({ before: [0, 1], inputs: [] });
  });
});

describe("compilePlan with versions and defaults", () => {
  it("[G8] compilePlan takes the minimum version from the policy, else from the hints for the package, the highest of several", () => {
    const plan = compilePlan(
      testWorkflow(
        [
          testNode(0),
          testNode(1, { policy: { minVersion: "3.0.0" } }),
          testNode(2, { package: { name: "other", version: "1.0.0" } }),
        ],
        [],
        {
          runtimes: {
            python: { workerHints: { package: "demo", minVersion: "1.9.0" } },
            node: { workerHints: { package: "demo", minVersion: "1.10.0" } },
          },
        },
      ),
    );

    expect(plan.nodes.map((one) => one.minVersion)).toEqual(["1.10.0", "3.0.0", null]);
  });

  it("[G11] compilePlan fills in parameters with the defaults of their schema", () => {
    const schema = { parameters: { type: "object", properties: { a: { default: 1 }, b: { default: 2 } } } };
    const plan = compilePlan(testWorkflow([testNode(0, { schema, parameters: { b: null, c: 3 } })]));

    expect(nodeAt(plan, 0).params).toEqual({ a: 1, b: null, c: 3 });
  });
});

describe("readContainerSettings", () => {
  const read = (config: unknown) => readContainerSettings(testNode(0, { parameters: { __container: config } }) as never);

  it("[G5] readContainerSettings reads loops, retries and timeouts with their defaults", () => {
    const { settings: form, problems } = read({
      subgraphId: "a",
      loop: { mode: "map", items: [1] },
      retry: {},
      timeoutSeconds: 1.5,
    });

    expect(problems).toEqual([]);
    expect(form).toMatchObject({
      loop: { mode: "map", items: { values: [1] }, maxIterations: 10_000, parallelism: 100, condition: null },
      retry: { maxAttempts: 3, backoffMs: 1_000, factor: 2, backoffMsMax: 60_000 },
      timeoutMs: 1_500,
    });
    expect(read({ subgraphId: "a", loop: { enabled: false, mode: "?" } }).settings.loop).toBeNull();
    expect(read({ subgraphId: "a", loop: { condition: "!results.done" } }).settings.loop).toEqual({
      mode: "while",
      items: null,
      maxIterations: 100,
      parallelism: 1,
      condition: { path: ["done"], op: "falsy" },
    });
  });

  it.each([
    ["subgraphId", {}],
    ["loop/mode", { loop: {} }],
    ["loop/mode", { loop: { mode: "until" } }],
    ["loop/items", { loop: { mode: "map" } }],
    ["loop/items", { loop: { mode: "map", items: "results.x" } }],
    ["loop/maxIterations", { loop: { mode: "map", items: [], maxIterations: 10_001 } }],
    ["loop/parallelism", { loop: { mode: "map", items: [], parallelism: 0 } }],
    ["loop/condition", { loop: { mode: "while" } }],
    ["loop/condition/op", { loop: { mode: "while", condition: { path: "x", op: "like" } } }],
    ["loop/condition/path", { loop: { mode: "while", condition: { op: "eq" } } }],
    ["loop/until", { loop: { mode: "while", condition: "x", until: "y" } }],
    ["retry/maxAttempts", { retry: { maxAttempts: 0 } }],
    ["timeoutSeconds", { timeoutSeconds: "1" }],
    ["inputs/0/from", { inputs: [{ from: "results.x", node: "n", to: "parameters.x" }] }],
    ["inputs/0/to", { inputs: [{ from: "item", node: "n", to: "results.x" }] }],
    ["inputs/0/to", { inputs: [{ from: "item", node: "n", to: "parameters.__proto__" }] }],
    ["outputs/0/node", { outputs: [{ from: "results.x", to: "results.x" }] }],
    ["outputs", { outputs: {} }],
  ])("[G5] readContainerSettings names %s when it is invalid", (field, config) => {
    const { problems } = read({ ...(field === "subgraphId" ? {} : { subgraphId: "a" }), ...config });

    expect(problems.map((problem) => problem.at.join("/"))).toEqual([field]);
  });
});

describe("loops", () => {
  it.each([
    [{ op: "truthy" }, true, [1, "a", {}], [0, "", null, undefined]],
    [{ op: "eq", value: { a: [1] } }, true, [{ a: [1] }], [{ a: [2] }, undefined]],
    [{ op: "lt", value: 5 }, true, [4], [5, "4", null]],
    [{ op: "ge", value: "b" }, true, ["b", "c"], ["a", 9]],
    [{ op: "exists" }, true, [0, ""], [null, undefined]],
    [{ op: "lt", value: 5 }, false, [5, undefined], [4]],
  ] as [{ op: "lt"; value?: unknown }, boolean, unknown[], unknown[]][])(
    "[G9] the loop condition %j (not negated: %s) is met by the right values only",
    (rule, isPlain, on, off) => {
      const condition = { path: ["x"], ...rule, ...(!isPlain && { isNegated: true }) };

      for (const x of on) expect(isConditionMet(condition, { x })).toBe(true);
      for (const x of off) expect(isConditionMet(condition, { x })).toBe(false);
    },
  );

  it("[G9] a loop runs over a list in the parameters or an authored one, and reports what is wrong with any other value", () => {
    const loop = (items: ContainerLoop["items"], maxIterations = 3): ContainerLoop => ({
      mode: "map",
      items,
      maxIterations,
      parallelism: 1,
      condition: null,
    });

    expect(resolveLoopItems(loop({ path: ["a", "b"] }), { a: { b: [1, 2] } })).toEqual([1, 2]);
    expect(resolveLoopItems(loop({ values: [] }), {})).toEqual([]);
    expect(resolveLoopItems(loop({ path: ["a"] }), {})).toBe("parameters.a is missing; the loop needs one");
    expect(resolveLoopItems(loop({ path: ["a"] }), { a: "x" })).toContain("no list (string)");
    expect(resolveLoopItems(loop({ path: ["a"] }), { a: [1, 2, 3] })).toEqual([1, 2, 3]);
    expect(resolveLoopItems(loop({ path: ["a"] }), { a: [1, 2, 3, 4] })).toContain("has 4 items, more than the 3 iterations");
  });
});
