import type { SchemaMode, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { compilePlan } from "../plan/plan-compiler.ts";
import {
  type NodeFixture,
  testContainer,
  testEdge,
  testNode,
  testSubgraph,
  testUuid,
  testWorkflow,
} from "../testing/workflow-fixtures.ts";
import { checkWorkflow } from "./check-workflow.ts";
import { type PackageCatalogue, resolveFromCatalogue } from "./package-catalogue.ts";

const objectSchema = (properties: object, rest: object = {}) => ({ type: "object", properties, ...rest });
const describeProblems = (workflow: Workflow) =>
  checkWorkflow(workflow).map(({ severity, path, message }) => `${severity} ${path}: ${message}`);
const severitiesOf = (workflow: Workflow) => checkWorkflow(workflow).map(({ severity, path }) => `${severity} ${path}`);
const enforced = (workflow: Workflow): Workflow => ({ ...workflow, schemaMode: "enforce" });

describe("checkWorkflow on values", () => {
  it("[G16] checkWorkflow warns of an edge between ports of incompatible types, refuses it where schemas are enforced, and refuses one that writes results", () => {
    const source = (type: unknown) =>
      testNode(0, { out: { page: "results.page" }, schema: { results: objectSchema({ page: { type } }) } });
    const target = testNode(1, {
      in: { text: "parameters.text", bad: "results.x" },
      schema: { parameters: objectSchema({ text: { type: "string" } }) },
    });
    const connected = (type: unknown, port = "text") => testWorkflow([source(type), target], [testEdge(0, "page", 1, port)]);
    const message = `/edges/0: Port \`page\` (object) of node ${testUuid(0)} (n0) does not fit \`text\` (string) of node ${testUuid(1)} (n1).`;

    expect(describeProblems(connected("object"))).toEqual([`warning ${message}`]);
    expect(describeProblems(enforced(connected("object")))).toEqual([`error ${message}`]);
    expect(describeProblems(connected(["object", "string"]))).toEqual([]);
    expect(describeProblems(connected(undefined))).toEqual([]);
    expect(describeProblems(connected("string", "bad"))[0]).toMatch(/^error .*edges can only write parameters/);
  });

  it("[G16] checkWorkflow refuses literal parameters of the wrong type, unless an edge or a container input writes them", () => {
    const schema = {
      parameters: objectSchema({ size: { type: "integer" }, who: objectSchema({ name: { type: "string" } }) }),
    };
    const wrong = { parameters: { size: "big", who: { name: 4 } }, schema };
    const sized = testNode(1, { ...wrong, in: { i: "parameters.size" } });
    const inner = testWorkflow([testNode(5, wrong)]);
    const config = { subgraphId: "s", inputs: [{ from: "item", node: testUuid(5), to: "parameters.who" }] };

    expect(describeProblems(testWorkflow([testNode(0, wrong)]))).toEqual([
      `error /nodes/0/parameters/size: node ${testUuid(0)} (n0): parameters.size must be a whole number`,
      `error /nodes/0/parameters/who/name: node ${testUuid(0)} (n0): parameters.who.name must be a text`,
    ]);
    expect(severitiesOf(testWorkflow([testNode(0, { out: { o: "results.o" } }), sized], [testEdge(0, "o", 1, "i")]))).toEqual([
      "error /nodes/1/parameters/who/name",
    ]);
    expect(severitiesOf(testWorkflow([testContainer(0, config)], [], { subgraphs: [testSubgraph("s", inner)] }))).toEqual([
      "error /subgraphs/0/definition/nodes/0/parameters/size",
    ]);
  });

  it("[G29] checkWorkflow warns of values that their schema forbids for another reason than their type, and of absent required parameters", () => {
    const properties = { mode: { type: "string", enum: ["up", "down"] }, count: { type: "integer", maximum: 3 }, url: {} };
    const schema = { parameters: objectSchema(properties, { required: ["url", "mode"], additionalProperties: false }) };
    const workflow = testWorkflow([testNode(0, { parameters: { mode: "left", count: 4, more: 1 }, schema })]);
    const paths = ["mode", "count", "more", "url"].map((name) => `/nodes/0/parameters/${name}`);

    expect(severitiesOf(workflow)).toEqual(paths.map((path) => `warning ${path}`));
    expect(severitiesOf(enforced(workflow))).toEqual(paths.map((path) => `error ${path}`));
    expect(checkWorkflow(workflow).at(-1)?.message).toContain("parameters.url is required");
  });

  it("[G29] checkWorkflow takes null in a required parameter for an absent one", () => {
    const schema = { parameters: objectSchema({ url: { type: "string" } }, { required: ["url"] }) };
    const workflow = testWorkflow([testNode(0, { parameters: { url: null }, schema })]);

    expect(severitiesOf(workflow)).toEqual(["warning /nodes/0/parameters/url"]);
    expect(severitiesOf(enforced(workflow))).toEqual(["error /nodes/0/parameters/url"]);
  });

  it("[G831] checkWorkflow warns of a parameter that the schema does not list, with the nearest name, even where schemas are enforced", () => {
    const schema = { parameters: objectSchema({ text: { type: "string" }, separator: { type: "string" } }) };
    const misspelt = testWorkflow([testNode(0, { parameters: { text: "a", seperator: ",", colour: 1 }, schema })]);
    const sentence = (key: string, hint: string) =>
      `warning /nodes/0/parameters/${key}: node ${testUuid(0)} (n0): demo.step has no parameter ${key}, so it has no effect${hint} (it has text, separator)`;

    expect(describeProblems(misspelt)).toEqual([sentence("seperator", "; did you mean separator?"), sentence("colour", "")]);
    expect(severitiesOf(enforced(misspelt)).map((line) => line.split(" ")[0])).toEqual(["warning", "warning"]);
  });

  it("[G831] checkWorkflow accepts an unlisted parameter that an edge, a port or a widget writes, that is reserved or null, or that the schema may allow", () => {
    const properties = { text: { type: "string" } };
    const more = { parameters: { more: 1 } };
    const withSchema = (rest: object, fixture: NodeFixture = more) =>
      testWorkflow([testNode(0, { ...fixture, schema: { parameters: objectSchema(properties, rest) } })]);
    const silent = { parameters: objectSchema(properties) };
    const fed = testWorkflow(
      [testNode(0, { out: { o: "results.o" } }), testNode(1, { ...more, in: { i: "parameters.more" }, schema: silent })],
      [testEdge(0, "o", 1, "i")],
    );

    expect(severitiesOf(withSchema({}))).toEqual(["warning /nodes/0/parameters/more"]);
    expect(severitiesOf(withSchema({}, { parameters: { __mine: 1, absent: null } }))).toEqual([]);
    expect(severitiesOf(withSchema({}, { ...more, in: { i: "parameters.more" } }))).toEqual([]);
    expect(severitiesOf(fed)).toEqual([]);
    for (const rest of [{ additionalProperties: true }, { patternProperties: { "^m": {} } }, { allOf: [{}] }, { if: {} }])
      expect(severitiesOf(withSchema(rest))).toEqual([]);
    expect(severitiesOf(testWorkflow([testNode(0, { ...more, schema: { parameters: { type: "object" } } })]))).toEqual([]);
  });

  it("[G29] checkWorkflow does not judge text with a placeholder, nor names that begin with two underscores", () => {
    const properties = { count: { type: "integer" }, who: objectSchema({ age: { type: "number" }, name: { type: "string" } }) };
    const schema = { parameters: objectSchema(properties, { required: ["__container"], additionalProperties: false }) };
    const parameters = { count: "{{ previous.count }}", who: { age: "about {{age}}", name: 3 }, __trace: { a: 1 } };

    expect(severitiesOf(enforced(testWorkflow([testNode(0, { parameters, schema })])))).toEqual([
      "error /nodes/0/parameters/who/name",
    ]);
  });

  it("[G30] checkWorkflow only warns of a literal that equals the default of its own schema", () => {
    const properties = {
      headers: { type: "object", default: "" },
      size: { type: "object", properties: { width: { type: "number" } }, default: { width: "auto" } },
      count: { type: "integer", default: 1 },
    };
    const dropped = (parameters: object) =>
      testWorkflow([testNode(0, { parameters: parameters as never, schema: { parameters: objectSchema(properties) } })]);
    const asDropped = dropped({ headers: "", size: { width: "auto" }, count: 1 });

    expect(severitiesOf(asDropped)).toEqual(["warning /nodes/0/parameters/headers", "warning /nodes/0/parameters/size/width"]);
    expect(severitiesOf(enforced(asDropped))).toEqual(severitiesOf(asDropped));
    expect(severitiesOf(dropped({ headers: "none" }))).toEqual(["error /nodes/0/parameters/headers"]);
  });

  it("[G29] checkWorkflow lists an error that comes after more warnings than it lists", () => {
    const noisy = { parameters: { a: 1, b: 1 }, schema: { parameters: objectSchema({}, { additionalProperties: false }) } };
    const wrong = { parameters: { a: "x" }, schema: { parameters: objectSchema({ a: { type: "number" } }) } };
    const nodes = Array.from({ length: 800 }, (_, at) => testNode(at, noisy));

    const problems = checkWorkflow(testWorkflow([...nodes, testNode(800, wrong)]));

    expect(problems.filter(({ severity }) => severity === "error")).toHaveLength(1);
    expect(problems.length).toBeLessThanOrEqual(1_000);
  });

  it("[G13] checkWorkflow finishes on a workflow full of schemas that expand exponentially", () => {
    const bomb = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [
        `a${at}`,
        { allOf: [{ $ref: `#/$defs/a${at + 1}` }, { $ref: `#/$defs/a${at + 1}` }] },
      ]),
    );
    const schema = { parameters: { properties: { x: { $ref: "#/$defs/a0" } }, $defs: bomb } };
    const workflow = testWorkflow(Array.from({ length: 300 }, (_, at) => testNode(at, { schema, parameters: { x: 1 } })));

    expect(describeProblems(workflow)).toEqual([
      expect.stringContaining("too many defaults"),
      expect.stringContaining("too many steps"),
    ]);
    expect(compilePlan(workflow).nodes).toHaveLength(300);
  });

  it("[G501] checkWorkflow refuses schemas that take more steps than it is given, under a code of its own and with the node", () => {
    const schema = { parameters: objectSchema({ a: { type: "number" } }) };
    const workflow = testWorkflow(Array.from({ length: 100 }, (_, at) => testNode(at, { schema, parameters: { a: at } })));

    const costly = checkWorkflow(workflow, undefined, { stepsMax: 500 });

    expect(checkWorkflow(workflow)).toEqual([]);
    expect(costly).toEqual([expect.objectContaining({ code: "E.WORKFLOW.TOO_COSTLY", severity: "error" })]);
    expect(costly[0]?.message).toMatch(/^node .*parameters cannot be checked: .* too many steps/);
    expect(checkWorkflow(workflow, undefined, { stepsMax: 500 })).toEqual(costly);
  });
});

describe("the schema mode of a node", () => {
  const catalogueOf = (modes: { node?: SchemaMode; tenant?: SchemaMode }): PackageCatalogue => ({
    names: ["demo"],
    isListed: () => false,
    versions: () => ["1.0.0"],
    node: () => ({ schema: {}, schemaMode: modes.node }),
    schemaMode: modes.tenant,
  });
  const modeOf = (workflow: Workflow, modes: Parameters<typeof catalogueOf>[0]) =>
    compilePlan(resolveFromCatalogue(workflow, catalogueOf(modes))).nodes[0]?.schemaMode;

  it("[G31] the schema mode of a node is that of its policy, else of its workflow, else of its manifest, else of its tenant", () => {
    const plain = testWorkflow([testNode(0)]);
    const lenient: Workflow = { ...plain, schemaMode: "warn" };
    const strictNode: Workflow = { ...lenient, nodes: [testNode(0, { policy: { schemaMode: "enforce" } })] } as Workflow;

    expect(modeOf(plain, {})).toBeUndefined();
    expect(modeOf(plain, { tenant: "enforce" })).toBe("enforce");
    expect(modeOf(plain, { tenant: "enforce", node: "warn" })).toBe("warn");
    expect(modeOf(lenient, { tenant: "enforce", node: "enforce" })).toBe("warn");
    expect(modeOf(strictNode, {})).toBe("enforce");
  });

  it("[G31] nodes of a subgraph have the schema mode of their own definition, else that of the workflow around it", () => {
    const inner = testWorkflow([testNode(5)]);
    const around = (definition: Workflow): Workflow => ({
      ...testWorkflow([testContainer(0, { subgraphId: "s" })], [], { subgraphs: [testSubgraph("s", definition)] }),
      schemaMode: "enforce",
    });
    const innerMode = (workflow: Workflow) =>
      compilePlan(resolveFromCatalogue(workflow, catalogueOf({ node: "warn" }))).nodes[0]?.container?.body.nodes[0]?.schemaMode;

    expect(innerMode(around(inner))).toBe("enforce");
    expect(innerMode(around({ ...inner, schemaMode: "warn" }))).toBe("warn");
  });
});

describe("the manifest of a node", () => {
  const schema = { parameters: objectSchema({ a: { type: "string" } }), results: objectSchema({}) };
  const catalogue: PackageCatalogue = {
    names: ["demo"],
    isListed: () => false,
    versions: (name) => (name === "demo" ? ["1.0.0"] : []),
    node: () => ({ schema, manifest: "m1" }),
  };
  const manifestOf = (fields: NodeFixture) =>
    compilePlan(resolveFromCatalogue(testWorkflow([testNode(0, fields)]), catalogue)).nodes[0]?.manifest;

  it("[G32] a node names the manifest that its schemas are from, unless its author wrote others, and none that its author named", () => {
    const copied = {
      results: schema.results,
      parameters: { properties: schema.parameters.properties, type: "object", required: [] },
    };
    const named = { name: "demo", version: "1.0.0", manifest: "mine" };

    expect(manifestOf({})).toBe("m1");
    expect(manifestOf({ schema: structuredClone(schema) })).toBe("m1");
    expect(manifestOf({ schema: copied })).toBeUndefined();
    expect(manifestOf({ schema: { results: true }, package: named })).toBeUndefined();
    expect(manifestOf({ package: named })).toBe("m1");
    expect(manifestOf({ package: { ...named, name: "later" } })).toBeUndefined();
  });
});
