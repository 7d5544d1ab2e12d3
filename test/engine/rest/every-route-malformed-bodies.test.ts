// Bodies of every REST route with one wound each, made from its own example: a wrong value, a missing one, one that nobody knows. The answer is
// one that the route promises; what its schema refuses is refused, and what is refused changes nothing.

import type { RouteName } from "@astraflow/protocol";
import { createMemoryFixture } from "@astraflow/store/testing";
import fc from "fast-check";
import Schema from "typebox/schema";
import { describe, expect, it } from "vitest";
import { findAnswerProblems, routeNames, routeOf } from "./answer-checker.ts";
import { openRestFixture, type RestFixture } from "./rest-fixture.ts";
import { exampleRequest } from "./route-examples.ts";

type JsonPath = readonly (string | number)[];
interface BodyMutation {
  readonly at: number;
  readonly how: "put" | "cut" | "add";
  readonly value: unknown;
}

/** Every place in a value, the root among them. */
function pathsIn(value: unknown, at: JsonPath = []): JsonPath[] {
  if (typeof value !== "object" || value === null || at.length > 6) return [at];
  return [
    at,
    ...Object.entries(value).flatMap(([key, child]) => pathsIn(child, [...at, Array.isArray(value) ? Number(key) : key])),
  ];
}

/** A copy with the wound; the original stays whole. */
function mutateBody(body: unknown, { at, how, value }: BodyMutation): { body: unknown; place: JsonPath } {
  const places = pathsIn(body);
  const place = places[at % places.length] ?? [];
  if (place.length === 0) return { body: how === "add" ? { ...(body as object), unknown: value } : value, place };
  const copy = structuredClone(body) as Record<string | number, unknown>;
  const parent = place.slice(0, -1).reduce<Record<string | number, unknown>>((one, key) => one[key] as typeof copy, copy);
  const key = place.at(-1) ?? "";
  if (how === "put") parent[key] = value;
  else if (how === "add") parent[Array.isArray(parent) ? parent.length : `x-${key}`] = value;
  else if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else delete parent[key];
  return { body: copy, place };
}

const oddValues: unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e21,
  Number.MAX_SAFE_INTEGER,
  "",
  " ",
  "\u0000",
  "a\nb",
  "\ud800",
  "x".repeat(2_000),
  "x".repeat(70_000),
  "draft",
  "../../etc/passwd",
  "00000000-0000-4000-8000-000000000000",
  [],
  {},
  [[]],
  [null],
  { a: null },
  JSON.parse('{"__proto__":{"admin":true}}'),
  { constructor: { prototype: {} } },
  Array.from({ length: 300 }, (_, n) => n),
  "2026-02-30T25:61:00Z",
  "9999-12-31T23:59:59Z",
  "+275760-09-13T00:00:00.001Z",
  "'; DROP TABLE runs; --",
  "\u202e",
  "😀",
];
const bodyMutation: fc.Arbitrary<BodyMutation> = fc.record({
  at: fc.nat(),
  how: fc.constantFrom("put", "put", "put", "cut", "add"),
  value: fc.oneof(fc.constantFrom(...oddValues), fc.jsonValue({ maxDepth: 3 })),
});

/** What a schema refuses. A null where something may be left out is as if it were, so nulls prove nothing. */
function isRefusedBySchema(name: RouteName, body: unknown, { how, value }: BodyMutation): boolean {
  // A workflow that is saved without an id is given one.
  if (value === null || how === "add" || (name === "saveWorkflow" && how === "cut")) return false;
  return !Schema.Check(routeOf(name).request as never, JSON.parse(JSON.stringify(body)));
}

/** A change of many runs that was taken goes on behind the answers to the next. */
async function checkMutatedBody(cluster: RestFixture, name: RouteName, one: BodyMutation): Promise<string[]> {
  const { body } = mutateBody(exampleRequest(name, cluster.ownSamples).body, one);
  if (body === undefined) return [];
  const before = await cluster.storedState();
  const response = await cluster.send(name, { body: JSON.stringify(body) });
  const found = findAnswerProblems(name, response);
  const isJudged = name === "validateWorkflow" && response.body.isValid === false;
  if (response.status < 400 && !isJudged && isRefusedBySchema(name, body, one))
    found.push(`${response.status}, though its schema refuses it`);
  if (response.status >= 400 && response.status < 409 && name !== "changeRuns" && (await cluster.storedState()) !== before)
    found.push(`${response.status}, and something changed`);
  return found.map((why) => `${JSON.stringify(body).slice(0, 300)}: ${why}`);
}

describe("bodies with a wound", () => {
  const names = routeNames.filter((name) => routeOf(name).request !== undefined);
  it.each(names)("[A221] %s answers a malformed body with one of its documented faults", async (name) => {
    const cluster = await openRestFixture(await createMemoryFixture("strong"));
    const problems = new Set<string>();
    const check = fc.asyncProperty(bodyMutation, async (one) => {
      for (const problem of await checkMutatedBody(cluster, name, one)) problems.add(problem);
    });
    await fc.assert(check, { numRuns: 60, seed: 7 });
    await cluster.close();
    expect([...problems].slice(0, 5)).toEqual([]);
  });
});
