import type { Workflow } from "@astraflow/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compilePlan } from "../plan/plan-compiler.ts";
import { testContainer, testEdge, testNode, testSubgraph, testUuid, testWorkflow } from "../testing/workflow-fixtures.ts";
import { checkWorkflow } from "./check-workflow.ts";
import { checkPackages, type PackageCatalogue, resolveFromCatalogue } from "./package-catalogue.ts";

const messagesOf = (workflow: Workflow, catalogue?: PackageCatalogue) =>
  checkWorkflow(workflow, catalogue).map((problem) => `${problem.path}: ${problem.message}`);

const objectSchema = (properties: object, rest: object = {}) => ({ type: "object", properties, ...rest });

describe("checkWorkflow on middlewares", () => {
  it("[G14] checkWorkflow finds nothing wrong with a valid middleware chain and its ports", () => {
    const workflow = testWorkflow(
      [
        testNode(0, { out: { o: "results.o" } }),
        testNode(1, { in: {}, middlewares: [testNode(10, { in: { a: "parameters.a" } })] }),
      ],
      [testEdge(0, "o", 1, `mw:${testUuid(10)}:input:a`)],
    );

    expect(messagesOf(workflow)).toEqual([]);
  });

  it("[G14] checkWorkflow reports duplicate ids, ports that a middleware does not have, and edges in the wrong direction", () => {
    const workflow = testWorkflow(
      [
        testNode(0, { out: { o: "results.o" } }),
        testNode(1, {
          middlewares: [testNode(10, { in: { a: "parameters.a" } }), testNode(0), testContainer(11, { subgraphId: "s" })],
        }),
        testNode(2, { role: "middleware" }),
      ],
      [
        testEdge(0, "o", 1, `mw:${testUuid(10)}:input:b`),
        testEdge(0, "o", 1, `mw:${testUuid(77)}:input:a`),
        testEdge(1, `mw:${testUuid(10)}:input:a`, 2, "i"),
      ],
    );

    const problems = checkWorkflow(workflow);

    expect(problems.map((one) => one.path)).toEqual(
      expect.arrayContaining([
        "/nodes/1/middlewares/1/id",
        "/nodes/1/middlewares/2/type",
        "/nodes/2/role",
        "/edges/0/target/port",
        "/edges/1/target/port",
        "/edges/2/source/port",
        "/edges/2/target/port",
      ]),
    );
    expect(problems.find((one) => one.path === "/edges/0/target/port")).toMatchObject({ node: testUuid(1), severity: "error" });
  });

  it("[G14] checkWorkflow refuses an edge that names a middleware as its node", () => {
    const workflow = testWorkflow(
      [testNode(0, { out: { o: "results.o" }, middlewares: [testNode(10)] })],
      [testEdge(10, "o", 0, "i")],
    );

    expect(messagesOf(workflow)[0]).toContain(`/edges/0/source/node: edge 10.o-0.i names node ${testUuid(10)}`);
  });
});

describe("checkWorkflow on containers", () => {
  it("[G15] checkWorkflow reports unknown subgraphs, invalid container fields, and nodes that the subgraph does not have", () => {
    const workflow = testWorkflow(
      [
        testContainer(0, { subgraphId: "none" }),
        testContainer(1, {
          subgraphId: "s",
          loop: { mode: "map", items: [], parallelism: 0 },
          outputs: [{ node: testUuid(44), from: "results.x", to: "results.x" }],
        }),
        testNode(2, { role: "container" }),
      ],
      [],
      { subgraphs: [testSubgraph("s", testWorkflow([testNode(5)])), testSubgraph("s", testWorkflow([testNode(6)]))] },
    );

    expect(checkWorkflow(workflow).map((one) => [one.path, one.node])).toEqual([
      ["/subgraphs/1/id", undefined],
      ["/nodes/0/parameters/__container/subgraphId", testUuid(0)],
      ["/nodes/1/parameters/__container/loop/parallelism", testUuid(1)],
      ["/nodes/1/parameters/__container/outputs/0/node", testUuid(1)],
      ["/nodes/2/parameters/__container/subgraphId", testUuid(2)],
    ]);
  });

  it("[G15] checkWorkflow reports cycles and invalid edges inside subgraphs, with their path", () => {
    const inner = testWorkflow(
      [
        testNode(5, { in: { i: "parameters.x" }, out: { o: "results.x" } }),
        testNode(6, { in: { i: "parameters.x" }, out: { o: "results.x" } }),
      ],
      [testEdge(5, "o", 6, "i"), testEdge(6, "o", 5, "i"), testEdge(5, "none", 6, "i")],
    );
    const problems = messagesOf(
      testWorkflow([testContainer(0, { subgraphId: "s" })], [], { subgraphs: [testSubgraph("s", inner)] }),
    );

    expect(problems[0]).toContain("/subgraphs/0/definition/edges/2/source/port");
    expect(problems[1]).toContain("/subgraphs/0/definition/edges: the edges of subgraph s form a cycle");
  });

  it("[G15] checkWorkflow refuses a container that contains itself, directly or through others", () => {
    const direct = testWorkflow([testContainer(0, { subgraphId: "a" })], [], {
      subgraphs: [testSubgraph("a", testWorkflow([testContainer(5, { subgraphId: "a" })]))],
    });
    const round = testWorkflow([testContainer(0, { subgraphId: "a" })], [], {
      subgraphs: [
        testSubgraph("a", testWorkflow([testContainer(5, { subgraphId: "b" })])),
        testSubgraph("b", testWorkflow([testContainer(6, { subgraphId: "a" })])),
      ],
    });

    expect(messagesOf(direct)[0]).toContain(
      `/subgraphs/0/definition/nodes/0/parameters/__container/subgraphId: node ${testUuid(5)} (n5) makes subgraph a contain itself: a -> a`,
    );
    expect(messagesOf(round)[0]).toMatch(/contain itself: (a -> b -> a|b -> a -> b)/);
  });

  it("[G15] checkWorkflow limits how deep containers nest and how many nodes they expand to", () => {
    const chainOf = (depth: number, width: number) =>
      testWorkflow([testContainer(0, { subgraphId: "s0" })], [], {
        subgraphs: Array.from({ length: depth }, (_, at) =>
          testSubgraph(
            `s${at}`,
            testWorkflow(
              Array.from({ length: width }, (__, n) =>
                at + 1 < depth ? testContainer(n, { subgraphId: `s${at + 1}` }) : testNode(n),
              ),
            ),
          ),
        ),
      });

    expect(messagesOf(chainOf(8, 2))).toEqual([]);
    expect(messagesOf(chainOf(9, 1))[0]).toContain("containers nest 9 deep");
    expect(messagesOf(chainOf(6, 8))[0]).toContain("with its containers opened");
  });

  it("[G7] checkWorkflow reports port prefixes that cannot be parsed, and aliases or nodes that do not exist", () => {
    const bound = (prefix: string) =>
      testWorkflow(
        [
          testNode(0, { out: { o: "results.o" } }),
          testContainer(1, { subgraphId: "s" }, { in: { i: { path: "parameters.x", prefix } } }),
          testContainer(2, { subgraphId: "s" }),
        ],
        [testEdge(0, "o", 1, "i")],
        { subgraphs: [testSubgraph("s", testWorkflow([testNode(5), testNode(6)]))] },
      );

    expect(messagesOf(bound(`@s.#${testUuid(5)}`))).toEqual([]);
    expect(messagesOf(bound("@s"))[0]).toContain("needs a #node");
    expect(messagesOf(bound(`@other.#${testUuid(5)}`))[0]).toContain('no container called "other"');
    expect(messagesOf(bound(`@s.#${testUuid(9)}`))[0]).toContain(`subgraph s has no node ${testUuid(9)}`);
    expect(messagesOf(bound(`#${testUuid(9)}`))[0]).toContain("not in the same graph");
    expect(messagesOf(bound("strange"))[0]).toContain("/nodes/1/ui/inputPorts/0/binding/prefix: node");
  });

  it("[G7] checkWorkflow detects a cycle that is closed by a port bound to another node", () => {
    const workflow = testWorkflow(
      [
        testNode(0, { out: { o: "results.o" } }),
        testNode(1, { in: { i: { path: "parameters.x", prefix: `#${testUuid(2)}` } } }),
        testNode(2, { out: { o: "results.o" } }),
        testNode(3, { in: { i: "parameters.x" } }),
      ],
      [testEdge(0, "o", 1, "i"), testEdge(2, "o", 3, "i")],
    );
    const round = {
      ...workflow,
      edges: [...workflow.edges, { ...testEdge(2, "o", 0, "x"), target: { node: testUuid(0), port: "x" } }],
    } as Workflow;
    (round.nodes[0] as { ui: { inputPorts?: unknown } }).ui.inputPorts = undefined;

    expect(messagesOf(round).join()).toContain("form a cycle");
  });
});

describe("checkWorkflow with a catalogue", () => {
  const catalogue: PackageCatalogue = {
    names: ["demo"],
    isListed: (name, version) => name === "bare" || (name === "demo" && version === "2.0.0"),
    versions: (name) => (name === "demo" ? ["1.10.0", "1.9.0"] : []),
    node: (name, version, type) => {
      if (name !== "demo" || version === "1.9.0") return null;
      if (type === "demo.around") return { schema: {}, role: "middleware" };
      const ports = { inputPorts: [{ key: "i", label: "I", binding: { path: "parameters.a" } }] };
      return type === "demo.step" ? { schema: { parameters: objectSchema({ a: { default: 1 } }) }, ports } : null;
    },
  };
  const of = (name: string, version: string, rest: object = {}) => ({ package: { name, version }, ...rest });

  it("[G17] checkWorkflow refuses a package, version, type or role that is not in the catalogue, and lists the known versions", () => {
    const workflow = testWorkflow(
      [
        testNode(0, of("later", "1.0.0")),
        testNode(1, of("demo", "1.0.0")),
        testNode(2, of("demo", "1.10.0", { type: "demo.none" })),
        testNode(3, of("demo", "1.10.0", { type: "demo.around" })),
        testNode(4, of("demo", "1.10.0", { middlewares: [testNode(40, of("demo", "1.10.0"))] })),
        testNode(5, of("demo", "1.0.0", { policy: { minVersion: "1.2.0" } })),
        testContainer(6, { subgraphId: "s" }, of("system", "1.0.0")),
      ],
      [],
      { subgraphs: [testSubgraph("s", testWorkflow([testNode(7, of("demo", "1.10.0"))]))] },
    );

    const problems = checkWorkflow(workflow, catalogue);

    expect(problems.map((one) => [one.path, one.severity])).toEqual([
      ["/nodes/0/package/name", "error"],
      ["/nodes/1/package/version", "error"],
      ["/nodes/2/type", "error"],
      ["/nodes/3/type", "error"],
      ["/nodes/4/middlewares/0/type", "error"],
    ]);
    expect(problems[1]?.message).toContain("it has 1.9.0, 1.10.0");
    expect(checkWorkflow(workflow)).toEqual([]);
  });

  const unknown = (name: string, ...more: Parameters<typeof checkWorkflow>[2][]) =>
    checkWorkflow(testWorkflow([testNode(0, of(name, "1.0.0"))]), catalogue, ...more).map(({ severity, message }) => [
      severity,
      message,
    ]);

  it("[G25] checkWorkflow reports an unknown package with its node, the most similar known name, and what to do about it", () => {
    expect(unknown("dem0")).toEqual([
      [
        "error",
        `node ${testUuid(0)} (n0): no worker has registered package dem0 (did you mean demo?); start a worker that has it (one that cannot load it logs why), or send allowUnknown: true and the node waits for one`,
      ],
    ]);
    expect(unknown("something else")[0]?.[1]).not.toContain("did you mean");
    expect(unknown("x".repeat(1_000))[0]?.[1]?.length).toBeLessThan(300);
  });

  it.each([
    ["demo.stpe", " (did you mean demo.step?)"],
    ["step", " (did you mean demo.step?)"],
    ["something.else.entirely", ""],
  ])(
    "[G25] checkWorkflow reports the unknown node type %s with the most similar one and the types that there are",
    (type, hint) => {
      const known = { ...catalogue, nodeTypes: () => ["demo.around", "demo.step"] };

      const problems = checkWorkflow(testWorkflow([testNode(0, of("demo", "1.10.0", { type }))]), known);

      expect(problems.map(({ message }) => message)).toEqual([
        `node ${testUuid(0)} (n0): package demo 1.10.0 has no node type ${type}${hint}; it has demo.around, demo.step`,
      ]);
    },
  );

  it("[G25] checkWorkflow finds unknown packages in subgraphs and middlewares, and does not look up the packages of containers", () => {
    const inside = testSubgraph("s", testWorkflow([testNode(7, of("later", "1.0.0"))]));
    const around = testNode(
      1,
      of("demo", "1.10.0", { middlewares: [testNode(10, of("around", "1.0.0", { type: "around.it" }))] }),
    );
    const workflow = testWorkflow([testContainer(0, { subgraphId: "s" }, of("system", "1.0.0")), around], [], {
      subgraphs: [inside],
    });
    const places = ["/nodes/1/middlewares/0/package/name", "/subgraphs/0/definition/nodes/0/package/name"];

    expect(checkWorkflow(workflow, catalogue).map(({ path }) => path)).toEqual(places);
    expect(checkPackages(workflow, catalogue)).toMatchObject([
      { path: places[0], node: testUuid(10), severity: "error" },
      { path: places[1], node: testUuid(7), severity: "error" },
    ]);
  });

  it("[G26] checkWorkflow only warns of an unknown package when the catalogue is empty or allowUnknown is set", () => {
    const empty: PackageCatalogue = { names: [], isListed: () => false, versions: () => [], node: () => null };
    const fresh = checkWorkflow(testWorkflow([testNode(0, of("later", "1.0.0"))]), empty);

    expect(fresh).toMatchObject([{ severity: "warning", path: "/nodes/0/package/name" }]);
    expect(unknown("later", { allowUnknown: true })).toMatchObject([
      ["warning", expect.stringContaining("waits until one does")],
    ]);
  });

  it("[G26] checkWorkflow with allowUnknown still refuses an unknown version or type of a known package", () => {
    const workflow = testWorkflow([testNode(0, of("demo", "3.0.0")), testNode(1, of("demo", "1.10.0", { type: "demo.none" }))]);

    expect(checkWorkflow(workflow, catalogue, { allowUnknown: true }).map(({ severity }) => severity)).toEqual([
      "error",
      "error",
    ]);
  });

  it("[G27] checkWorkflow warns of a package or version that a worker lists without a manifest", () => {
    const listed = checkWorkflow(testWorkflow([testNode(0, of("demo", "2.0.0"))]), catalogue);

    expect(unknown("bare")).toEqual([["warning", expect.stringContaining("no worker has sent a manifest of package bare")]]);
    expect(listed).toMatchObject([{ severity: "warning", path: "/nodes/0/package/version", node: testUuid(0) }]);
  });

  it("[G28] checkWorkflow bounds its search for similar package names", () => {
    const names = Array.from({ length: 10_000 }, (_, at) => `package.number.${at}.of.many`);
    const crowd: PackageCatalogue = { ...catalogue, names };
    const nodes = Array.from({ length: 900 }, (_, at) => testNode(at, of(`package.numbr.${at}.of.many`, "1.0.0")));

    const problems = checkWorkflow(testWorkflow(nodes), crowd);

    expect(problems).toHaveLength(900);
    expect(problems.filter(({ message }) => message.includes("did you mean"))).toHaveLength(3);
  });

  it("[G17] checkWorkflow warns of patterns, references and keywords in schemas that are ignored", () => {
    const schema = {
      parameters: objectSchema({ a: { pattern: "(?=x)" }, b: { items: [{ $ref: "#/none" }] }, pattern: { type: "string" } }),
      results: { pattern: "^a+$", dependentSchemas: { a: { unevaluatedProperties: false } } },
    };

    const problems = checkWorkflow(testWorkflow([testNode(0, of("demo", "1.10.0", { schema }))]), catalogue);

    expect(problems.map((one) => [one.path, one.severity])).toEqual([
      ["/nodes/0/schema/parameters/properties/b/items/0", "warning"],
      ["/nodes/0/schema/parameters/properties/a", "warning"],
      ["/nodes/0/schema/results/dependentSchemas/a", "warning"],
    ]);
  });

  it("[G18] resolveFromCatalogue fills in what the author left out and overrides nothing", () => {
    const bare = {
      ...testNode(0, of("demo", "1.10.0", { middlewares: [testNode(40, of("demo", "1.10.0", { type: "demo.around" }))] })),
      ui: { outputPorts: [] },
    };
    const own = testNode(1, of("demo", "1.10.0", { in: { mine: "parameters.b" }, schema: { parameters: true } }));

    const resolved = resolveFromCatalogue(testWorkflow([bare, own, testNode(2, of("later", "1.0.0"))]), catalogue);

    expect(resolved.nodes[0]?.ui).toEqual({
      inputPorts: [{ key: "i", label: "I", binding: { path: "parameters.a" } }],
      outputPorts: [],
    });
    expect(resolved.nodes[0]?.middlewares?.[0]?.role).toBe("middleware");
    expect(resolved.nodes[1]).toEqual(own);
    expect(resolved.nodes[2]).toEqual(testNode(2, of("later", "1.0.0")));
    expect(compilePlan(resolved).nodes[0]?.params).toEqual({ a: 1 });
  });

  it("[G1155] resolveFromCatalogue writes down what the manifest declares about an adapter's idempotency, unless it is per_request, and the plan has it", () => {
    const declaring = (idempotency: string | undefined): PackageCatalogue => ({
      ...catalogue,
      node: (name, version, type) => {
        const found = catalogue.node(name, version, type);
        return found === null ? null : { ...found, idempotency };
      },
    });
    const authored = testNode(0, of("demo", "1.10.0"));
    const claimed = { ...authored, package: { ...authored.package, idempotency: "at_most_once" } };
    const planned = (node: typeof authored, idempotency: string | undefined) =>
      compilePlan(resolveFromCatalogue(testWorkflow([node]), declaring(idempotency))).nodes[0]?.idempotency;

    expect(planned(authored, "at_most_once")).toBe("at_most_once");
    for (const repeatable of ["per_request", undefined])
      for (const node of [authored, claimed]) expect(planned(node, repeatable)).toBeUndefined();
    const unknown = { ...claimed, package: { name: "later", version: "1.0.0", idempotency: "at_most_once" } };
    expect(planned(unknown, undefined)).toBe("at_most_once");
  });
});

describe("check and plan together", () => {
  /** Mostly sound: edges lead forward between nodes that are there; now and then a port names another node, or an edge is wrong. */
  const anyGraph = (inside: readonly string[]) => {
    const rarely = <T>(value: fc.Arbitrary<T>) =>
      fc.oneof({ weight: 8, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
    const prefix = rarely(
      fc.constantFrom(...inside.map((name) => `@${name}.#${testUuid(0)}`), ...[0, 1, 2].map((n) => `#${testUuid(n)}`), "@b.a"),
    );
    const sketch = fc.tuple(prefix, prefix, rarely(fc.constantFrom(...inside, "a")), fc.boolean());
    const ends = fc.tuple(fc.nat({ max: 5 }), fc.nat({ max: 5 }), fc.boolean(), fc.nat({ max: 30 }));
    return fc.tuple(fc.array(sketch, { minLength: 1, maxLength: 6 }), fc.array(ends, { maxLength: 6 })).map(([nodes, edges]) =>
      testWorkflow(
        nodes.map(([into, out, name, isAround], at) => {
          const bound = (path: string, scope: string | undefined) => ({ path, ...(scope && { prefix: scope }) });
          const around = [testNode(at + 50, { in: { i: "parameters.i" }, out: { o: "results.o" } })];
          const parts = {
            in: { i: bound("parameters.i", into) },
            out: { o: bound("results.o", out) },
            ...(isAround && { middlewares: around }),
          };
          return name === undefined || !inside.includes(name)
            ? testNode(at, parts)
            : testContainer(at, { subgraphId: name }, parts);
        }),
        edges.flatMap(([one, other, isMiddle, luck], at) => {
          const [low, high] = [Math.min(one, other) % nodes.length, Math.max(one, other) % nodes.length];
          const [from, to] = luck === 0 ? [one, other] : [Math.min(low, high), Math.max(low, high)];
          if (from === to && luck > 0) return [];
          const hasBoth = isMiddle && nodes[from]?.[3] === true && nodes[to]?.[3] === true;
          const ports = hasBoth ? [`mw:${testUuid(from + 50)}:output:o`, `mw:${testUuid(to + 50)}:input:i`] : ["o", "i"];
          return [{ ...testEdge(from, ports[0] ?? "", to, ports[1] ?? ""), id: `e${at}` }];
        }),
      ),
    );
  };

  it("[G19] the plan of every graph that passes checkWorkflow can be run in order, and check and plan finish on every other graph", () => {
    let sound = 0;
    fc.assert(
      fc.property(anyGraph(["a", "b"]), anyGraph(["b"]), anyGraph(["b"].slice(1)), (root, a, b) => {
        const workflow = { ...root, subgraphs: [testSubgraph("a", a), testSubgraph("b", b)] } as Workflow;
        const problems = checkWorkflow(workflow);
        const plan = compilePlan(workflow);
        expect(plan.nodes.slice(0, root.nodes.length).map((one) => one.id)).toEqual(root.nodes.map((one) => one.id));
        for (const one of plan.nodes) {
          for (const before of one.before) expect(plan.nodes[before]?.after).toContain(one.ordinal);
          expect(one.host === null || one.before.length + one.after.length === 0).toBe(true);
        }
        if (problems.length > 0) return;
        sound += root.edges.length > 0 ? 1 : 0;
        const ended = new Set<number>();
        const open = [...plan.starts];
        for (let next = open.pop(); next !== undefined; next = open.pop()) {
          ended.add(next);
          for (const after of plan.nodes[next]?.after ?? [])
            if (plan.nodes[after]?.before.every((before) => ended.has(before))) open.push(after);
        }
        expect(ended.size).toBe(root.nodes.length);
        // What a node reads has ended by then: a middleware with its host, all others before.
        for (const one of plan.nodes)
          for (const input of one.inputs) {
            const source = plan.nodes[input.source];
            expect(plan.nodes[one.host ?? one.ordinal]?.before).toContain(source?.host ?? source?.ordinal);
          }
      }),
      { numRuns: 300 },
    );
    expect(sound).toBeGreaterThan(50);
  });
});
