import Schema from "typebox/schema";
import { describe, expect, it } from "vitest";
import { type Route, type RouteName, routes } from "../rest/routes/route-table.ts";
import { buildOpenapiDocument } from "./openapi-document.ts";
import { operationLinks } from "./operation-links.ts";

interface Example {
  readonly schema: object;
  readonly example?: unknown;
}
interface Operation {
  readonly parameters?: readonly ({ readonly name: string; readonly in: string } & Example)[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Example>> };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Example>>; readonly links?: object }>>;
}

const document = buildOpenapiDocument();
const byName = Object.entries(routes) as [RouteName, Route][];
const operationOf = ({ path, method }: Route) => document.paths[path]?.[method.toLowerCase()] as Operation;
const matches = (schema: object, value: unknown): boolean =>
  Schema.Compile({ ...schema, components: document.components } as never).Check(value);
const examplesOf = ({ parameters = [], requestBody, responses }: Operation): Example[] =>
  [
    ...parameters,
    ...Object.values(requestBody?.content ?? {}),
    ...Object.values(responses).flatMap(({ content = {} }) => Object.values(content)),
  ].filter(({ example }) => example !== undefined);

describe("examples of the OpenAPI document", () => {
  it("[C680] every operation has an example: of each parameter of its path and of its body, or of its answer if it takes neither", () => {
    const without = byName.filter(([, route]) => {
      const { parameters = [], requestBody, ...operation } = operationOf(route);
      const wanted = [...parameters.filter((one) => one.in === "path"), ...Object.values(requestBody?.content ?? {})];
      return (
        wanted.some(({ example }) => example === undefined) ||
        examplesOf({ parameters, ...(requestBody && { requestBody }), ...operation }).length === 0
      );
    });

    expect(without.map(([name]) => name)).toEqual([]);
  });

  it.each(byName)("[C680] the examples of %s are what its own schemas allow", (_, route) => {
    const wrong = examplesOf(operationOf(route)).filter(({ schema, example }) => !matches(schema, example));

    expect(wrong.map(({ example }) => example)).toEqual([]);
  });
});

describe("links of the OpenAPI document", () => {
  it("[C681] every operation that creates something links to the operation that reads it", () => {
    const unlinked = byName.filter(([name, route]) => route.status === 201 && operationLinks[name] === undefined);

    expect(unlinked.map(([name]) => name)).toEqual([]);
    expect(operationOf(routes.startRun).responses["202"]?.links).toMatchObject({
      getRun: { operationId: "getRun", parameters: { runId: "$response.body#/runId" } },
    });
  });

  it.each(Object.entries(operationLinks))(
    "[C681] the links of %s lead to reading operations, fill in their whole path, and name fields that every answer has",
    (name, links) => {
      const { response } = routes[name as RouteName] as Route;
      const { required = [] } = response as unknown as { required?: readonly string[] };
      for (const [target, parameters] of Object.entries(links)) {
        const { method, params = {} } = routes[target as RouteName] as Route;

        expect(method).toBe("GET");
        expect(Object.keys(parameters).sort()).toEqual(Object.keys(params).sort());
        for (const pointer of Object.values(parameters)) expect(required).toContain(pointer.replace("$response.body#/", ""));
      }
    },
  );
});

describe("rules between fields in the OpenAPI document", () => {
  const bodyOf = (route: Route): object => operationOf(route).requestBody?.content["application/json"]?.schema ?? {};
  const grant = { resourceId: "r", packageName: "demo", resourceKey: "k" };
  const filter = { clientId: "c" };
  const edit = (fields: object) => ({ base: 1, edits: [fields] });
  const pair = (route: Route, good: object, bad: object) => ({ route, good, bad });
  const rules = {
    "either a workflow or the id of one": pair(routes.startRun, { clientId: "c", workflowId: "w" }, { clientId: "c" }),
    "not both of them": pair(
      routes.startRun,
      { clientId: "c", workflowId: "w", version: 1 },
      { clientId: "c", workflowId: "w", workflow: exampleWorkflow() },
    ),
    "64 labels": pair(
      routes.startRun,
      { clientId: "c", workflowId: "w", labels: labelsOf(64) },
      { clientId: "c", workflowId: "w", labels: labelsOf(65) },
    ),
    "a workflow where the grant is for one": pair(
      routes.createResourceGrant,
      { ...grant, scope: "workflow", workflowId: "w" },
      { ...grant, scope: "workflow" },
    ),
    "none where it is for all": pair(
      routes.createResourceGrant,
      { ...grant, scope: "global" },
      { ...grant, scope: "global", workflowId: "w" },
    ),
    "a node to replay from, and only to replay": pair(
      routes.changeRuns,
      { action: "replay", filter, from: "n" },
      { action: "retry", filter, from: "n" },
    ),
    "a filter that names something": pair(routes.changeRuns, { action: "retry", filter }, { action: "retry", filter: {} }),
    "the fields of an edit": pair(
      routes.editDraft,
      edit({ op: "setNode", id: "n", path: "/label", value: 1 }),
      edit({ op: "setNode", id: "n" }),
    ),
    "the host of ordered middlewares": pair(
      routes.editDraft,
      edit({ op: "order", list: "middlewares", host: "n", ids: [] }),
      edit({ op: "order", list: "middlewares", ids: [] }),
    ),
  };

  it.each(Object.entries(rules))("[C682] the document declares %s", (_, { route, good, bad }) => {
    expect(matches(bodyOf(route), good)).toBe(true);
    expect(matches(bodyOf(route), bad)).toBe(false);
  });
});

function labelsOf(count: number): object {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`label-${at}`, "x"]));
}

function exampleWorkflow(): unknown {
  return operationOf(routes.saveWorkflow).requestBody?.content["application/json"]?.example;
}
