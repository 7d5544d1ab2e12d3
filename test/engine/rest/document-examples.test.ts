// What the OpenAPI document promises in its examples, links and rules between fields, tried on a server: examples are accepted, links lead to
// what was made, and a body is refused exactly if the document's schema does not allow it.

import { buildOpenapiDocument, type Route, type RouteName } from "@astraflow/protocol";
import { createMemoryFixture } from "@astraflow/store/testing";
import Schema from "typebox/schema";
import { describe, expect, it } from "vitest";
import { findAnswerProblems, routeNames, routeOf } from "./answer-checker.ts";
import { openRestFixture, type RestFixture, type TestRequest } from "./rest-fixture.ts";
import { exampleRequest, exampleUrl, type TenantSamples } from "./route-examples.ts";

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly example?: unknown }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: object; readonly example?: unknown }>> };
  readonly responses: Readonly<Record<string, { readonly links?: Readonly<Record<string, DocumentLink>> }>>;
}
interface DocumentLink {
  readonly operationId: RouteName;
  readonly parameters: Readonly<Record<string, string>>;
}

const document = buildOpenapiDocument();
const operationOf = (name: RouteName): Operation => {
  const { path, method }: Route = routeOf(name);
  return document.paths[path]?.[method.toLowerCase()] as Operation;
};

async function withRestFixture<T>(visit: (fixture: RestFixture) => Promise<T>): Promise<T> {
  const fixture = await openRestFixture(await createMemoryFixture("strong"));
  try {
    return await visit(fixture);
  } finally {
    await fixture.close();
  }
}

/** The example of a body, about the things of the fixture instead of those that the document speaks of. */
function bodyExampleOf(name: RouteName, samples: TenantSamples): unknown {
  const content = operationOf(name).requestBody?.content ?? {};
  const [example] = Object.values(content).map((one) => one.example);
  if (example === undefined) return undefined;
  // A file that reads as one in the document is no archive.
  if (name === "publishPackage") return exampleRequest(name, samples).body;
  if (routeOf(name).takes !== undefined) return toForm(example as Readonly<Record<string, string>>);
  let text = JSON.stringify(example);
  for (const { name: parameter, example: documented } of routeNames.flatMap((one) => operationOf(one).parameters ?? [])) {
    const sample = samples[parameter as keyof TenantSamples];
    if (typeof documented === "string" && sample !== undefined) text = text.replaceAll(`"${documented}"`, JSON.stringify(sample));
  }
  // The worker of the fixture has this package.
  const body = JSON.parse(text.replaceAll(`"name":${JSON.stringify(samples.packageName)}`, `"name":"test"`)) as object;
  if (name === "installPackage" || name === "startRollout") return { ...body, version: samples.packageVersion };
  if (name === "rollbackPackage") return { ...body, to: samples.packageVersion };
  return name === "login" || name === "setOwnPassword" ? { ...body, ...credentials(name, samples) } : body;
}

/** A name and a password that are those of somebody. */
const credentials = (name: RouteName, { login }: TenantSamples): object =>
  name === "login" ? login : { currentPassword: login["password"] };

const toForm = ({ file = "", ...fields }: Readonly<Record<string, string>>): string =>
  [
    ...Object.entries(fields).map(([key, value]) => `--x\r\ncontent-disposition: form-data; name="${key}"\r\n\r\n${value}\r\n`),
    `--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${file}\r\n--x--\r\n`,
  ].join("");

/** The request of the examples of an operation. */
function requestOf(name: RouteName, samples: TenantSamples): TestRequest {
  const { token, headers } = exampleRequest(name, samples);
  const { parameters = [] } = operationOf(name);
  const given = (place: string) =>
    parameters
      .filter((one) => one.in === place && one.example !== undefined)
      .map((one): [string, string] => [one.name, String(one.example)]);
  const query = new URLSearchParams(given("query")).toString();
  const media = headers?.["content-type"];
  return {
    url: `${exampleUrl(name, samples)[1]}${query === "" ? "" : `?${query}`}`,
    body: bodyExampleOf(name, samples),
    headers: {
      ...Object.fromEntries(given("header").map(([key, value]) => [key.toLowerCase(), value])),
      ...(media !== undefined && { "content-type": media }),
    },
    ...(token !== undefined && { token }),
  };
}

const isStream = (name: RouteName): boolean => routeOf(name).media === "text/event-stream";
const reading = routeNames.filter((name) => routeOf(name).method === "GET" && !isStream(name));
const changing = routeNames.filter((name) => routeOf(name).method !== "GET");

describe("examples", () => {
  it("[A682] the examples of every reading operation are accepted", async () => {
    const refused: string[] = [];
    await withRestFixture(async ({ send, ownSamples }) => {
      for (const name of reading) {
        const response = await send(name, requestOf(name, ownSamples));
        if (response.status >= 300) refused.push(`${name}: ${response.status} ${JSON.stringify(response.body)}`);
        refused.push(...findAnswerProblems(name, response).map((why) => `${name}: ${why}`));
      }
    });

    expect(refused).toEqual([]);
  });

  it.each(changing)("[A682] the example of %s is accepted", async (name) => {
    const { status, body } = await withRestFixture(({ send, ownSamples }) => send(name, requestOf(name, ownSamples)));

    expect([status < 300, status >= 300 ? body : null]).toEqual([true, null]);
  });
});

describe("links", () => {
  const linksOf = (name: RouteName) => Object.values(operationOf(name).responses[routeOf(name).status]?.links ?? {});
  const linked = routeNames.filter((name) => linksOf(name).length > 0);

  it.each(linked)("[A683] the links of %s lead to what it has made", async (name) => {
    await withRestFixture(async ({ send, harness, ownSamples }) => {
      const made = await send(name, requestOf(name, ownSamples));
      await harness.settle();

      expect(made.status).toBe(routeOf(name).status);
      for (const { operationId, parameters } of linksOf(name)) {
        const valueOf = (parameter: string) => String(made.body[(parameters[parameter] ?? "").replace("$response.body#/", "")]);
        const url = routeOf(operationId).path.replaceAll(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(valueOf(key)));
        expect([operationId, (await send(operationId, { url })).status]).toEqual([operationId, 200]);
      }
    });
  });
});

describe("rules between fields", () => {
  const samplesOfRules: { readonly [N in RouteName]?: (samples: TenantSamples) => readonly object[] } = {
    startRun: ({ workflow, workflowId }) => [
      { clientId: "c", workflow },
      { clientId: "c", workflowId },
      { clientId: "c", workflowId, workflow },
      { clientId: "c" },
      { clientId: "c", workflowId, labels: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`l${at}`, "x"])) },
      { clientId: "c", workflowId, labels: { "": "x" } },
      { clientId: "c", workflowId, labels: { ["x".repeat(129)]: "x" } },
    ],
    createResourceGrant: ({ resourceId, workflowId }) =>
      [{ scope: "global" }, { scope: "workflow" }, { scope: "global", workflowId }, { scope: "workflow", workflowId }].map(
        (one) => ({ resourceId, packageName: "test", resourceKey: "other", ...one }),
      ),
    changeRuns: ({ nodeId }) => [
      { action: "replay", filter: { clientId: "nobody" }, from: nodeId, version: "same" },
      { action: "retry", filter: { clientId: "nobody" }, from: nodeId },
      { action: "cancel", filter: { clientId: "nobody" }, version: "same" },
      { action: "cancel", filter: { clientId: "nobody" } },
      { action: "cancel", filter: {} },
    ],
    commandWorker: () => [
      { type: "pkg.install", name: "more", version: "1.0.0", url: "https://packages.test/more.zip" },
      { type: "pkg.install", name: "more", version: "1.0.0", url: "ftp://packages.test/more.zip" },
      { type: "drain", name: "more" },
    ],
    createView: () => [
      { name: "many", page: "runs", query: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`k${at}`, "x"])) },
      { name: "few", page: "runs", query: Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`k${at}`, "x"])) },
    ],
    validateWorkflow: ({ workflow }) => [workflow, {}, { allowUnknown: "yes" }, [], { paramters: 1 }],
    putWorkflowPreview: () => [{ previewImage: null }, {}, { preview: "x" }],
  };

  it.each(Object.keys(samplesOfRules) as RouteName[])(
    "[A684] %s refuses a body exactly if the document's schema does not allow it",
    async (name) => {
      const { schema } = operationOf(name).requestBody?.content["application/json"] ?? {};
      const validator = Schema.Compile({ ...schema, components: document.components } as never);
      const bodies = await withRestFixture(async ({ ownSamples }) => samplesOfRules[name]?.(ownSamples) ?? []);
      const verdicts = new Set<boolean>();
      for (const at of bodies.keys())
        await withRestFixture(async ({ send, ownSamples }) => {
          const body = samplesOfRules[name]?.(ownSamples)[at];
          const isAllowed = validator.Check(body);
          const response = await send(name, { body });
          verdicts.add(isAllowed);

          expect([body, response.status < 300, response.status === 400]).toEqual([body, isAllowed, !isAllowed]);
        });
      expect(verdicts.size).toBe(2);
    },
  );
});
