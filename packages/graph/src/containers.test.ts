import { describe, expect, it } from "vitest";
import { readContainer } from "./container.ts";
import { frameOutputs, frameParams, holds, itemsOf } from "./frames.ts";
import { paramsOf, planOf } from "./plan.ts";
import type { Container, Loop, Outcome, Plan, PlanNode } from "./plan-types.ts";
import { container, edge, graph, node, subgraph as sub, uuid } from "./test-sketch.ts";

const at = (plan: Plan | undefined, ordinal: number): PlanNode => {
  const found = plan?.nodes[ordinal];
  if (found === undefined) throw new Error(`no node ${ordinal}`);
  return found;
};
const inside = (found: PlanNode): Container => {
  if (found.container === null) throw new Error(`node ${found.ordinal} is no container`);
  return found.container;
};
const nothing = () => null;
const results = (value: unknown): Outcome => ({ params: {}, results: value });
const values = (parameters: unknown, rest: object = {}) => ({ parameters, item: undefined, index: 0, last: {}, ...rest });

describe("planOf with middlewares", () => {
  const chained = planOf(
    graph(
      [
        node(0, { out: { o: "results.x" } }),
        node(1, {
          in: { i: "parameters.x" },
          out: { o: "results.x" },
          middlewares: [node(10, { in: { a: "parameters.a" }, out: { b: "results.b" } }), node(11)],
        }),
        node(2, { in: { i: "parameters.x", j: "parameters.y" } }),
      ],
      [edge(0, "o", 1, `mw:${uuid(10)}:input:a`), edge(1, `mw:${uuid(10)}:output:b`, 2, "i"), edge(1, "o", 2, "j")],
    ),
  );

  it("[G4] appends them after the authored nodes, outermost first, and leaves the order to their host", () => {
    expect(chained.nodes.map((one) => one.id)).toEqual([0, 1, 2, 10, 11].map(uuid));
    expect(at(chained, 1)).toMatchObject({ chain: [3, 4], before: [0], after: [2], host: null });
    expect(at(chained, 3)).toMatchObject({
      host: 1,
      chainIndex: 0,
      before: [],
      after: [],
      chain: [],
      outputs: [{ root: "results", steps: ["b"] }],
    });
    expect(at(chained, 4)).toMatchObject({ host: 1, chainIndex: 1 });
    expect(chained.starts).toEqual([0]);
  });

  it("[G4] carries values to and from the ports of a middleware", () => {
    expect(paramsOf(at(chained, 3), () => results({ x: 7 }))).toEqual({ a: 7 });
    expect(at(chained, 1).inputs).toEqual([]);
    expect(paramsOf(at(chained, 2), (ordinal) => results(ordinal === 3 ? { b: "mw" } : { x: "host" }))).toEqual({
      x: "mw",
      y: "host",
    });
  });
});

describe("planOf with containers", () => {
  it("[G5] compiles each subgraph of the root once and shares it, also for containers inside containers", () => {
    const plan = planOf(
      graph([container(0, { subgraphId: "a" }), container(1, { subgraphId: "a" })], [], {
        subgraphs: [sub("a", graph([container(0, { subgraphId: "b" })])), sub("b", graph([node(5)]))],
      }),
    );

    expect(inside(at(plan, 0)).body).toBe(inside(at(plan, 1)).body);
    expect(inside(at(inside(at(plan, 0)).body, 0)).body.nodes[0]?.id).toBe(uuid(5));
  });

  it("[G5] ends on a container that contains itself, and on one whose subgraph is missing", () => {
    const plan = planOf(
      graph([container(0, { subgraphId: "a" }), container(1, { subgraphId: "none" })], [], {
        subgraphs: [sub("a", graph([container(0, { subgraphId: "a" })]))],
      }),
    );

    expect(inside(at(plan, 1)).body.nodes).toEqual([]);
    expect(inside(at(plan, 0)).body.nodes).toHaveLength(1);
  });

  it("[G6] hands parameters, item, index and last outputs to the nodes of a frame, under what its edges carry", () => {
    const config = {
      subgraphId: "a",
      loop: { mode: "map", items: "parameters.list" },
      inputs: [
        { from: "parameters.who", node: uuid(1), to: "parameters.to.name" },
        { from: "item.x", node: uuid(1), to: "/parameters/x" },
        { from: "index", node: uuid(2), to: "parameters.n" },
        { from: "last.sum", node: uuid(2), to: "parameters.sum" },
        { from: "item", node: uuid(2), to: "parameters.fed" },
      ],
      outputs: [{ node: uuid(2), from: "results.sum", to: "results.total.sum" }],
    };
    const body = graph(
      [node(1, { parameters: { to: { a: 1 } }, out: { o: "results.o" } }), node(2, { in: { i: "parameters.fed" } })],
      [edge(1, "o", 2, "i")],
    );
    const held = inside(at(planOf(graph([container(0, config)], [], { subgraphs: [sub("a", body)] })), 0));

    const frame = values({ who: "Ada" }, { item: { x: 1 }, index: 4, last: { sum: 9 } });
    expect(frameParams(held, at(held.body, 0), frame, nothing)).toEqual({ to: { a: 1, name: "Ada" }, x: 1 });
    expect(frameParams(held, at(held.body, 1), frame, () => results({ o: "edge" }))).toEqual({ n: 4, sum: 9, fed: "edge" });
    expect(frameOutputs(held, (ordinal) => (ordinal === 1 ? results({ sum: 3 }) : null))).toEqual({ total: { sum: 3 } });
    expect(frameOutputs(held, nothing)).toEqual({});
  });

  it("[G7] takes a port bound into the subgraph for an input or output of the container, by any of its names", () => {
    for (const alias of ["a", "Inner", "Box", uuid(1)]) {
      const plan = planOf(
        graph(
          [
            node(0, { out: { o: "results.o" } }),
            container(
              1,
              { subgraphId: "a" },
              {
                label: "Box",
                in: { i: { path: "parameters.deep.x", prefix: `@${alias}.#${uuid(5)}` } },
                out: {
                  o: {
                    path: "results.y",
                    scope: { kind: "subgraph", subgraphAliases: [alias], nodeId: uuid(6) },
                    prefix: "@wrong",
                  },
                },
              },
            ),
            node(2, { in: { i: "parameters.z" } }),
          ],
          [edge(0, "o", 1, "i"), edge(1, "o", 2, "i")],
          { subgraphs: [sub("a", graph([node(5), node(6)]), "Inner")] },
        ),
      );
      const box = inside(at(plan, 1));

      const params = paramsOf(at(plan, 1), () => results({ o: 42 }));
      expect(frameParams(box, at(box.body, 0), values(params), nothing)).toEqual({ deep: { x: 42 } });
      const outputs = frameOutputs(box, (ordinal) => (ordinal === 1 ? results({ y: "out" }) : null));
      expect(paramsOf(at(plan, 2), () => results(outputs))).toEqual({ z: "out" });
    }
  });

  it("[G7] follows several aliases through nested containers, and gathers lists where they loop", () => {
    const plan = planOf(
      graph(
        [
          node(0, { out: { o: "results.o" } }),
          container(
            1,
            { subgraphId: "a" },
            {
              in: { i: { path: "parameters.x", prefix: `@a.b.#${uuid(7)}` } },
              out: { o: { path: "results.y", prefix: `@a.b.#${uuid(7)}` } },
            },
          ),
          node(2, { in: { i: "parameters.z" } }),
        ],
        [edge(0, "o", 1, "i"), edge(1, "o", 2, "i")],
        {
          subgraphs: [
            sub("a", graph([container(5, { subgraphId: "b", loop: { mode: "forEach", items: [1, 2] } })])),
            sub("b", graph([node(7)])),
          ],
        },
      ),
    );
    const outer = inside(at(plan, 1));
    const inner = inside(at(outer.body, 0));

    const nested = frameParams(outer, at(outer.body, 0), values(paramsOf(at(plan, 1), () => results({ o: 1 }))), nothing);
    expect(frameParams(inner, at(inner.body, 0), values(nested), nothing)).toEqual({ x: 1 });
    const items = [1, 2].map((y) => frameOutputs(inner, () => results({ y })));
    const outputs = frameOutputs(outer, () => results({ items, count: 2 }));
    expect(paramsOf(at(plan, 2), () => results(outputs))).toEqual({ z: [1, 2] });
  });

  it("[G7] lets a port speak for another node of the same graph, which then is waited for", () => {
    const plan = planOf(
      graph(
        [
          node(0, { out: { o: { path: "results.o", prefix: `#${uuid(1)}` } } }),
          node(1),
          node(2, { in: { i: { path: "parameters.x", prefix: `#${uuid(3)}` } } }),
          node(3),
        ],
        [edge(0, "o", 2, "i")],
      ),
    );

    expect(at(plan, 3)).toMatchObject({ before: [1], inputs: [{ source: 1, to: ["x"] }] });
    expect(at(plan, 2)).toMatchObject({ before: [0, 1], inputs: [] });
  });
});

describe("planOf with versions and defaults", () => {
  it("[G8] takes the least version from the policy, else from the hints for the package, the highest of several", () => {
    const plan = planOf(
      graph(
        [node(0), node(1, { policy: { minVersion: "3.0.0" } }), node(2, { package: { name: "other", version: "1.0.0" } })],
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

  it("[G11] gives parameters the defaults of their schema", () => {
    const schema = { parameters: { type: "object", properties: { a: { default: 1 }, b: { default: 2 } } } };
    const plan = planOf(graph([node(0, { schema, parameters: { b: null, c: 3 } })]));

    expect(at(plan, 0).params).toEqual({ a: 1, b: null, c: 3 });
  });
});

describe("readContainer", () => {
  const read = (config: unknown) => readContainer(node(0, { parameters: { __container: config } }) as never);

  it("[G5] reads loops, retries and timeouts with their defaults", () => {
    const { form, problems } = read({ subgraphId: "a", loop: { mode: "map", items: [1] }, retry: {}, timeoutSeconds: 1.5 });

    expect(problems).toEqual([]);
    expect(form).toMatchObject({
      loop: { mode: "map", items: { values: [1] }, maxIterations: 10_000, parallelism: 100, condition: null },
      retry: { maxAttempts: 3, backoffMs: 1_000, factor: 2, backoffMsMax: 60_000 },
      timeoutMs: 1_500,
    });
    expect(read({ subgraphId: "a", loop: { enabled: false, mode: "?" } }).form.loop).toBeNull();
    expect(read({ subgraphId: "a", loop: { condition: "!results.done" } }).form.loop).toEqual({
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
  ])("[G5] names %s when it is wrong", (field, config) => {
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
  ] as [{ op: "lt"; value?: unknown }, boolean, unknown[], unknown[]][])("[G9] go on by %j, %s", (rule, isPlain, on, off) => {
    const condition = { path: ["x"], ...rule, ...(!isPlain && { isNegated: true }) };

    for (const x of on) expect(holds(condition, { x })).toBe(true);
    for (const x of off) expect(holds(condition, { x })).toBe(false);
  });

  it("[G9] go over a list of the parameters or an authored one, and say what is wrong with any other", () => {
    const loop = (items: Loop["items"], maxIterations = 3): Loop => ({
      mode: "map",
      items,
      maxIterations,
      parallelism: 1,
      condition: null,
    });

    expect(itemsOf(loop({ path: ["a", "b"] }), { a: { b: [1, 2] } })).toEqual([1, 2]);
    expect(itemsOf(loop({ values: [] }), {})).toEqual([]);
    expect(itemsOf(loop({ path: ["a"] }), {})).toBe("parameters.a is missing; the loop needs one");
    expect(itemsOf(loop({ path: ["a"] }), { a: "x" })).toContain("no list (string)");
    expect(itemsOf(loop({ path: ["a"] }), { a: [1, 2, 3, 4] })).toContain("has 4 items, more than the 3 iterations");
  });
});
