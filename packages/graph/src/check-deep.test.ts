import type { Workflow } from "@astraflow/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CheckCatalogue, checkPackages, resolveWorkflow } from "./catalogue.ts";
import { checkWorkflow } from "./check.ts";
import { planOf } from "./plan.ts";
import { container, edge, graph, node, subgraph, uuid } from "./test-sketch.ts";

const said = (workflow: Workflow, catalogue?: CheckCatalogue) =>
  checkWorkflow(workflow, catalogue).map((problem) => `${problem.path}: ${problem.message}`);

const typed = (properties: object, rest: object = {}) => ({ type: "object", properties, ...rest });

describe("checkWorkflow on middlewares", () => {
  it("[G14] finds nothing wrong with a chain and its ports", () => {
    const workflow = graph(
      [node(0, { out: { o: "results.o" } }), node(1, { in: {}, middlewares: [node(10, { in: { a: "parameters.a" } })] })],
      [edge(0, "o", 1, `mw:${uuid(10)}:input:a`)],
    );

    expect(said(workflow)).toEqual([]);
  });

  it("[G14] names ids used twice, ports a middleware does not have, and edges that go the wrong way", () => {
    const workflow = graph(
      [
        node(0, { out: { o: "results.o" } }),
        node(1, { middlewares: [node(10, { in: { a: "parameters.a" } }), node(0), container(11, { subgraphId: "s" })] }),
        node(2, { role: "middleware" }),
      ],
      [
        edge(0, "o", 1, `mw:${uuid(10)}:input:b`),
        edge(0, "o", 1, `mw:${uuid(77)}:input:a`),
        edge(1, `mw:${uuid(10)}:input:a`, 2, "i"),
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
    expect(problems.find((one) => one.path === "/edges/0/target/port")).toMatchObject({ node: uuid(1), severity: "error" });
  });

  it("[G14] refuses an edge that names a middleware as its node", () => {
    const workflow = graph([node(0, { out: { o: "results.o" }, middlewares: [node(10)] })], [edge(10, "o", 0, "i")]);

    expect(said(workflow)[0]).toContain(`/edges/0/source/node: edge 10.o-0.i names node ${uuid(10)}`);
  });
});

describe("checkWorkflow on containers", () => {
  it("[G15] names unknown subgraphs, wrong fields, and nodes the subgraph does not have", () => {
    const workflow = graph(
      [
        container(0, { subgraphId: "none" }),
        container(1, {
          subgraphId: "s",
          loop: { mode: "map", items: [], parallelism: 0 },
          outputs: [{ node: uuid(44), from: "results.x", to: "results.x" }],
        }),
        node(2, { role: "container" }),
      ],
      [],
      { subgraphs: [subgraph("s", graph([node(5)])), subgraph("s", graph([node(6)]))] },
    );

    expect(checkWorkflow(workflow).map((one) => [one.path, one.node])).toEqual([
      ["/subgraphs/1/id", undefined],
      ["/nodes/0/parameters/__container/subgraphId", uuid(0)],
      ["/nodes/1/parameters/__container/loop/parallelism", uuid(1)],
      ["/nodes/1/parameters/__container/outputs/0/node", uuid(1)],
      ["/nodes/2/parameters/__container/subgraphId", uuid(2)],
    ]);
  });

  it("[G15] names cycles and wrong edges inside subgraphs, with their place", () => {
    const inner = graph(
      [
        node(5, { in: { i: "parameters.x" }, out: { o: "results.x" } }),
        node(6, { in: { i: "parameters.x" }, out: { o: "results.x" } }),
      ],
      [edge(5, "o", 6, "i"), edge(6, "o", 5, "i"), edge(5, "none", 6, "i")],
    );
    const problems = said(graph([container(0, { subgraphId: "s" })], [], { subgraphs: [subgraph("s", inner)] }));

    expect(problems[0]).toContain("/subgraphs/0/definition/edges/2/source/port");
    expect(problems[1]).toContain("/subgraphs/0/definition/edges: the edges of subgraph s form a cycle");
  });

  it("[G15] refuses a container that contains itself, directly or through others", () => {
    const direct = graph([container(0, { subgraphId: "a" })], [], {
      subgraphs: [subgraph("a", graph([container(5, { subgraphId: "a" })]))],
    });
    const round = graph([container(0, { subgraphId: "a" })], [], {
      subgraphs: [
        subgraph("a", graph([container(5, { subgraphId: "b" })])),
        subgraph("b", graph([container(6, { subgraphId: "a" })])),
      ],
    });

    expect(said(direct)[0]).toContain(
      `/subgraphs/0/definition/nodes/0/parameters/__container/subgraphId: node ${uuid(5)} makes subgraph a contain itself: a -> a`,
    );
    expect(said(round)[0]).toMatch(/contain itself: (a -> b -> a|b -> a -> b)/);
  });

  it("[G15] bounds how deep containers nest and how many nodes they open", () => {
    const chainOf = (depth: number, width: number) =>
      graph([container(0, { subgraphId: "s0" })], [], {
        subgraphs: Array.from({ length: depth }, (_, at) =>
          subgraph(
            `s${at}`,
            graph(
              Array.from({ length: width }, (__, n) => (at + 1 < depth ? container(n, { subgraphId: `s${at + 1}` }) : node(n))),
            ),
          ),
        ),
      });

    expect(said(chainOf(8, 2))).toEqual([]);
    expect(said(chainOf(9, 1))[0]).toContain("containers nest 9 deep");
    expect(said(chainOf(6, 8))[0]).toContain("with its containers opened");
  });

  it("[G7] names aliases that lead nowhere or to several containers, and prefixes that cannot be read", () => {
    const bound = (prefix: string) =>
      graph(
        [
          node(0, { out: { o: "results.o" } }),
          container(1, { subgraphId: "s" }, { in: { i: { path: "parameters.x", prefix } } }),
          container(2, { subgraphId: "s" }),
        ],
        [edge(0, "o", 1, "i")],
        { subgraphs: [subgraph("s", graph([node(5), node(6)]))] },
      );

    expect(said(bound(`@s.#${uuid(5)}`))).toEqual([]);
    expect(said(bound("@s"))[0]).toContain("needs a #node");
    expect(said(bound(`@other.#${uuid(5)}`))[0]).toContain('no container called "other"');
    expect(said(bound(`@s.#${uuid(9)}`))[0]).toContain(`subgraph s has no node ${uuid(9)}`);
    expect(said(bound(`#${uuid(9)}`))[0]).toContain("not in the same graph");
    expect(said(bound("strange"))[0]).toContain("/nodes/1/ui/inputPorts/0/binding/prefix: node");
  });

  it("[G7] sees the cycle that a port bound to another node makes", () => {
    const workflow = graph(
      [
        node(0, { out: { o: "results.o" } }),
        node(1, { in: { i: { path: "parameters.x", prefix: `#${uuid(2)}` } } }),
        node(2, { out: { o: "results.o" } }),
        node(3, { in: { i: "parameters.x" } }),
      ],
      [edge(0, "o", 1, "i"), edge(2, "o", 3, "i")],
    );
    const round = {
      ...workflow,
      edges: [...workflow.edges, { ...edge(2, "o", 0, "x"), target: { node: uuid(0), port: "x" } }],
    } as Workflow;
    (round.nodes[0] as { ui: { inputPorts?: unknown } }).ui.inputPorts = undefined;

    expect(said(round).join()).toContain("form a cycle");
  });
});

describe("checkWorkflow on values", () => {
  it("[G16] refuses an edge between ports whose types cannot fit, and one that writes results", () => {
    const source = (type: unknown) => node(0, { out: { page: "results.page" }, schema: { results: typed({ page: { type } }) } });
    const target = node(1, {
      in: { text: "parameters.text", bad: "results.x" },
      schema: { parameters: typed({ text: { type: "string" } }) },
    });

    expect(said(graph([source("object"), target], [edge(0, "page", 1, "text")]))).toEqual([
      `/edges/0: Port \`page\` (object) of node ${uuid(0)} does not fit \`text\` (string) of node ${uuid(1)}.`,
    ]);
    expect(said(graph([source(["object", "string"]), target], [edge(0, "page", 1, "text")]))).toEqual([]);
    expect(said(graph([source(undefined), target], [edge(0, "page", 1, "text")]))).toEqual([]);
    expect(said(graph([source("string"), target], [edge(0, "page", 1, "bad")]))[0]).toContain("edges write parameters alone");
  });

  it("[G16] refuses authored parameters that break their schema, unless an edge or a frame writes them", () => {
    const schema = {
      parameters: typed({ size: { type: "integer" }, who: typed({ name: { type: "string" } }) }, { required: ["size", "other"] }),
    };
    const wrong = { parameters: { size: "big", who: { name: 4 } }, schema };
    const sized = node(1, { ...wrong, in: { i: "parameters.size" } });
    const inner = graph([node(5, wrong)]);
    const config = { subgraphId: "s", inputs: [{ from: "item", node: uuid(5), to: "parameters.who" }] };

    expect(said(graph([node(0, wrong)]))).toEqual([
      `/nodes/0/parameters/size: node ${uuid(0)} (n0): parameters.size must be a whole number`,
      `/nodes/0/parameters/who/name: node ${uuid(0)} (n0): parameters.who.name must be a text`,
    ]);
    expect(said(graph([node(0, { out: { o: "results.o" } }), sized], [edge(0, "o", 1, "i")]))).toHaveLength(1);
    expect(said(graph([container(0, config)], [], { subgraphs: [subgraph("s", inner)] }))).toEqual([
      `/subgraphs/0/definition/nodes/0/parameters/size: node ${uuid(5)} (n5): parameters.size must be a whole number`,
    ]);
  });

  it("[G13] is done with a workflow full of schemas that never end", () => {
    const bomb = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [
        `a${at}`,
        { allOf: [{ $ref: `#/$defs/a${at + 1}` }, { $ref: `#/$defs/a${at + 1}` }] },
      ]),
    );
    const schema = { parameters: { properties: { x: { $ref: "#/$defs/a0" } }, $defs: bomb } };
    const workflow = graph(Array.from({ length: 300 }, (_, at) => node(at, { schema, parameters: { x: 1 } })));

    expect(said(workflow)).toEqual([expect.stringContaining("too many defaults"), expect.stringContaining("too many steps")]);
    expect(planOf(workflow).nodes).toHaveLength(300);
  });
});

describe("checkWorkflow with a catalogue", () => {
  const catalogue: CheckCatalogue = {
    names: ["demo"],
    isListed: (name, version) => name === "bare" || (name === "demo" && version === "2.0.0"),
    versions: (name) => (name === "demo" ? ["1.10.0", "1.9.0"] : []),
    node: (name, version, type) => {
      if (name !== "demo" || version === "1.9.0") return null;
      if (type === "demo.around") return { schema: {}, role: "middleware" };
      const ports = { inputPorts: [{ key: "i", label: "I", binding: { path: "parameters.a" } }] };
      return type === "demo.step" ? { schema: { parameters: typed({ a: { default: 1 } }) }, ports } : null;
    },
  };
  const of = (name: string, version: string, rest: object = {}) => ({ package: { name, version }, ...rest });

  it("[G17] refuses an unknown package, version, type or role, naming what there is", () => {
    const workflow = graph(
      [
        node(0, of("later", "1.0.0")),
        node(1, of("demo", "1.0.0")),
        node(2, of("demo", "1.10.0", { type: "demo.none" })),
        node(3, of("demo", "1.10.0", { type: "demo.around" })),
        node(4, of("demo", "1.10.0", { middlewares: [node(40, of("demo", "1.10.0"))] })),
        node(5, of("demo", "1.0.0", { policy: { minVersion: "1.2.0" } })),
        container(6, { subgraphId: "s" }, of("system", "1.0.0")),
      ],
      [],
      { subgraphs: [subgraph("s", graph([node(7, of("demo", "1.10.0"))]))] },
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
    checkWorkflow(graph([node(0, of(name, "1.0.0"))]), catalogue, ...more).map(({ severity, message }) => [severity, message]);

  it("[G25] names an unknown package with its node, the nearest that is known, and the way out", () => {
    expect(unknown("dem0")).toEqual([
      [
        "error",
        `node ${uuid(0)}: no worker has brought package dem0 (did you mean demo?); start a worker that brings it, or send allowUnknown: true and the node waits for one`,
      ],
    ]);
    expect(unknown("something else")[0]?.[1]).not.toContain("did you mean");
    expect(unknown("x".repeat(1_000))[0]?.[1]?.length).toBeLessThan(300);
  });

  it("[G25] finds it in subgraphs and among middlewares, and leaves containers to the scheduler", () => {
    const inside = subgraph("s", graph([node(7, of("later", "1.0.0"))]));
    const around = node(1, of("demo", "1.10.0", { middlewares: [node(10, of("around", "1.0.0", { type: "around.it" }))] }));
    const workflow = graph([container(0, { subgraphId: "s" }, of("system", "1.0.0")), around], [], { subgraphs: [inside] });
    const places = ["/nodes/1/middlewares/0/package/name", "/subgraphs/0/definition/nodes/0/package/name"];

    expect(checkWorkflow(workflow, catalogue).map(({ path }) => path)).toEqual(places);
    expect(checkPackages(workflow, catalogue)).toMatchObject([
      { path: places[0], node: uuid(10), severity: "error" },
      { path: places[1], node: uuid(7), severity: "error" },
    ]);
  });

  it("[G26] warns of an unknown package where nobody has brought any, or where it is allowed", () => {
    const empty: CheckCatalogue = { names: [], isListed: () => false, versions: () => [], node: () => null };
    const fresh = checkWorkflow(graph([node(0, of("later", "1.0.0"))]), empty);

    expect(fresh).toMatchObject([{ severity: "warning", path: "/nodes/0/package/name" }]);
    expect(unknown("later", { allowUnknown: true })).toMatchObject([
      ["warning", expect.stringContaining("waits until one does")],
    ]);
  });

  it("[G26] allows nothing else: an unknown version or type of a known package stays refused", () => {
    const workflow = graph([node(0, of("demo", "3.0.0")), node(1, of("demo", "1.10.0", { type: "demo.none" }))]);

    expect(checkWorkflow(workflow, catalogue, { allowUnknown: true }).map(({ severity }) => severity)).toEqual([
      "error",
      "error",
    ]);
  });

  it("[G27] warns of a package or version that a worker lists without a manifest: its nodes cannot be checked", () => {
    const listed = checkWorkflow(graph([node(0, of("demo", "2.0.0"))]), catalogue);

    expect(unknown("bare")).toEqual([["warning", expect.stringContaining("nobody has shown a manifest of package bare")]]);
    expect(listed).toMatchObject([{ severity: "warning", path: "/nodes/0/package/version", node: uuid(0) }]);
  });

  it("[G28] looks for the names that were meant in bounded time", () => {
    const names = Array.from({ length: 10_000 }, (_, at) => `package.number.${at}.of.many`);
    const crowd: CheckCatalogue = { ...catalogue, names };
    const nodes = Array.from({ length: 900 }, (_, at) => node(at, of(`package.numbr.${at}.of.many`, "1.0.0")));

    const problems = checkWorkflow(graph(nodes), crowd);

    expect(problems).toHaveLength(900);
    expect(problems.filter(({ message }) => message.includes("did you mean"))).toHaveLength(3);
  });

  it("[G17] warns of patterns and references in schemas that nobody will heed", () => {
    const schema = {
      parameters: typed({ a: { pattern: "(?=x)" }, b: { items: [{ $ref: "#/none" }] }, pattern: { type: "string" } }),
      results: { pattern: "^a+$" },
    };

    const problems = checkWorkflow(graph([node(0, of("demo", "1.10.0", { schema }))]), catalogue);

    expect(problems.map((one) => [one.path, one.severity])).toEqual([
      ["/nodes/0/schema/parameters/properties/b/items/0", "warning"],
      ["/nodes/0/schema/parameters/properties/a", "warning"],
    ]);
  });

  it("[G18] fills in what the author left out and overrides nothing", () => {
    const bare = {
      ...node(0, of("demo", "1.10.0", { middlewares: [node(40, of("demo", "1.10.0", { type: "demo.around" }))] })),
      ui: { outputPorts: [] },
    };
    const own = node(1, of("demo", "1.10.0", { in: { mine: "parameters.b" }, schema: { parameters: true } }));

    const resolved = resolveWorkflow(graph([bare, own, node(2, of("later", "1.0.0"))]), catalogue);

    expect(resolved.nodes[0]?.ui).toEqual({
      inputPorts: [{ key: "i", label: "I", binding: { path: "parameters.a" } }],
      outputPorts: [],
    });
    expect(resolved.nodes[0]?.middlewares?.[0]?.role).toBe("middleware");
    expect(resolved.nodes[1]).toEqual(own);
    expect(resolved.nodes[2]).toEqual(node(2, of("later", "1.0.0")));
    expect(planOf(resolved).nodes[0]?.params).toEqual({ a: 1 });
  });
});

describe("check and plan together", () => {
  /** Mostly sound: edges lead forward between nodes that are there; now and then a port speaks for another node, or an edge is wrong. */
  const anyGraph = (inside: readonly string[]) => {
    const rarely = <T>(value: fc.Arbitrary<T>) =>
      fc.oneof({ weight: 8, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value });
    const prefix = rarely(
      fc.constantFrom(...inside.map((name) => `@${name}.#${uuid(0)}`), ...[0, 1, 2].map((n) => `#${uuid(n)}`), "@b.a"),
    );
    const sketch = fc.tuple(prefix, prefix, rarely(fc.constantFrom(...inside, "a")), fc.boolean());
    const ends = fc.tuple(fc.nat({ max: 5 }), fc.nat({ max: 5 }), fc.boolean(), fc.nat({ max: 30 }));
    return fc.tuple(fc.array(sketch, { minLength: 1, maxLength: 6 }), fc.array(ends, { maxLength: 6 })).map(([nodes, edges]) =>
      graph(
        nodes.map(([into, out, name, isAround], at) => {
          const bound = (path: string, scope: string | undefined) => ({ path, ...(scope && { prefix: scope }) });
          const around = [node(at + 50, { in: { i: "parameters.i" }, out: { o: "results.o" } })];
          const parts = {
            in: { i: bound("parameters.i", into) },
            out: { o: bound("results.o", out) },
            ...(isAround && { middlewares: around }),
          };
          return name === undefined || !inside.includes(name) ? node(at, parts) : container(at, { subgraphId: name }, parts);
        }),
        edges.flatMap(([one, other, isMiddle, luck], at) => {
          const [low, high] = [Math.min(one, other) % nodes.length, Math.max(one, other) % nodes.length];
          const [from, to] = luck === 0 ? [one, other] : [Math.min(low, high), Math.max(low, high)];
          if (from === to && luck > 0) return [];
          const hasBoth = isMiddle && nodes[from]?.[3] === true && nodes[to]?.[3] === true;
          const ports = hasBoth ? [`mw:${uuid(from + 50)}:output:o`, `mw:${uuid(to + 50)}:input:i`] : ["o", "i"];
          return [{ ...edge(from, ports[0] ?? "", to, ports[1] ?? ""), id: `e${at}` }];
        }),
      ),
    );
  };

  it("[G19] a plan has an order, whatever graph the check lets through, and both end on whatever it does not", () => {
    let sound = 0;
    fc.assert(
      fc.property(anyGraph(["a", "b"]), anyGraph(["b"]), anyGraph(["b"].slice(1)), (root, a, b) => {
        const workflow = { ...root, subgraphs: [subgraph("a", a), subgraph("b", b)] } as Workflow;
        const problems = checkWorkflow(workflow);
        const plan = planOf(workflow);
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
