// Every field of every request body, misspelt: none of them counts as left out.

import type { RouteName } from "@astraflow/protocol";
import { createMemoryFixture } from "@astraflow/store/testing";
import { describe, expect, it } from "vitest";
import { routeNames, routeOf } from "./answer-checker.ts";
import { openRestFixture, type RestFixture } from "./rest-fixture.ts";
import { exampleRequest } from "./route-examples.ts";

interface BodySchema {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly anyOf?: readonly BodySchema[];
}

const withBody = routeNames.filter((name) => routeOf(name).request !== undefined);
/** Their bodies are workflows, whose unknown fields are kept for those who wrote them, and warned about. */
const definitions: readonly RouteName[] = ["saveWorkflow", "replaceWorkflow", "validateWorkflow"];
const tolerant = withBody.filter((name) => routeOf(name).takesUnknownFields === true);
const strict = withBody.filter((name) => !definitions.includes(name) && !tolerant.includes(name));

/** The fields that a body may have: of several forms, those of the form that the example has. */
function fieldsOf(name: RouteName, body: Readonly<Record<string, unknown>>): string[] {
  const { properties, anyOf = [] } = routeOf(name).request as BodySchema;
  if (properties !== undefined) return Object.keys(properties);
  const form = anyOf.find((one) => (one.properties?.["type"] as { const?: unknown } | undefined)?.const === body["type"]);
  return Object.keys(form?.properties ?? {});
}

/** With the last letter twice: one slip away from the field, and no field itself. */
const misspell = (field: string): string => `${field}${field.at(-1)}`;

async function sendMisspelt(fixture: RestFixture, name: RouteName): Promise<string[]> {
  const body = exampleRequest(name, fixture.ownSamples).body as Record<string, unknown>;
  const fields = fieldsOf(name, body);
  const problems = fields.length === 0 ? ["no field was found in its schema"] : [];
  for (const field of fields) {
    const wrong = misspell(field);
    const response = await fixture.send(name, { body: { ...body, [wrong]: body[field] ?? "x" } });
    const isNamed = String(response.body?.message).startsWith(`body.${wrong} is not a known field; did you mean ${field}?`);
    if (response.status !== 400 || response.body?.error !== "E.REQUEST.INVALID" || !isNamed)
      problems.push(`${wrong}: ${response.status} ${JSON.stringify(response.body)}`);
  }
  return problems;
}

describe("misspelt fields", () => {
  it.each(strict)(
    "[A681] %s refuses every misspelt field of its body, names the nearest one, and changes nothing",
    async (name) => {
      const fixture = await openRestFixture(await createMemoryFixture("strong"));
      const before = await fixture.storedState();

      expect(await sendMisspelt(fixture, name)).toEqual([]);
      expect(await fixture.storedState()).toBe(before);
      await fixture.close();
    },
  );

  it.each(definitions)("[A681] %s takes a workflow with a misspelt field and warns of it with the nearest name", async (name) => {
    const fixture = await openRestFixture(await createMemoryFixture("strong"));
    const body = exampleRequest(name, fixture.ownSamples).body as object;
    const response = await fixture.send(name, { body: { ...body, runtimess: {} } });

    expect(response.status).toBeLessThan(300);
    expect(JSON.stringify(response.body.problems)).toContain("did you mean runtimes?");
    await fixture.close();
  });

  it("[A681] only a worker's registration and heartbeat take fields that nobody knows", () => {
    expect(tolerant).toEqual(["enrolWorker", "signWorker"]);
    expect(strict.length).toBe(withBody.length - definitions.length - tolerant.length);
    expect(strict.length).toBeGreaterThan(25);
  });
});
