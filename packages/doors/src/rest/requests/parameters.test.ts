import { parseBindingPath } from "@astraflow/graph";
import { findParameterViolation, type Route, type RouteName, routes } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";

let fixture: DoorsFixture;
afterEach(() => fixture.stop());

const bearer = { authorization: "Bearer secret-a" };
const ask = async (path: string, headers: Record<string, string> = {}, method = "GET") => {
  const response = await fetch(fixture.http + path, { method, headers: { ...bearer, ...headers } });
  return { status: response.status, body: JSON.parse(await response.text()) };
};

/** A text that is outside of what the schema allows, for each limit that it has. */
function wrongValues(schema: Readonly<Record<string, unknown>>): string[] {
  const { type, minLength, maxLength, minimum, maximum, enum: allowed } = schema as Record<string, number | undefined>;
  return [
    ...(type === ("integer" as never) ? ["x", "1.5", ""] : []),
    ...(type === ("boolean" as never) ? ["yes", ""] : []),
    ...(minLength === undefined ? [] : [""]),
    ...(maxLength === undefined ? [] : ["0".repeat(maxLength + 1)]),
    ...(minimum === undefined ? [] : [String(minimum - 1)]),
    ...(maximum === undefined || maximum > 2 ** 52 ? [] : [String(maximum + 1)]),
    ...(allowed === undefined ? [] : ["none of them"]),
  ];
}

describe("parameters of requests", () => {
  it("[A622] every limit that the document declares for a parameter of a query is kept, and the refusal names the parameter", async () => {
    fixture = await openDoorsFixture();
    const rows = (Object.entries(routes) as [RouteName, Route][]).flatMap(([name, route]) =>
      Object.entries(route.query ?? {}).flatMap(([parameter, { schema }]) =>
        wrongValues(schema as Record<string, unknown>).map((value) => ({ name, route, parameter, value })),
      ),
    );
    const accepted: string[] = [];
    for (const { name, route, parameter, value } of rows) {
      const path = route.path.replaceAll("{type}", "ext.vendor.acme.ping").replaceAll(/\{\w+\}/g, "1");
      const headers: Record<string, string> = route.method === "POST" ? { "content-type": "application/json" } : {};
      const { status, body } = await ask(`${path}?${parameter}=${encodeURIComponent(value)}`, headers, route.method);
      if (status !== 400 || body.details?.path !== `query.${parameter}`)
        accepted.push(`${name} ${parameter}=${value.slice(0, 20)}: ${status}`);
    }

    expect(rows.length).toBeGreaterThan(200);
    expect(accepted).toEqual([]);
  });

  const valuePaths = {
    allowed: ["parameters", "results.page.url", "results[0].x", "/results/a.b/0", "/parameters/x~1y"],
    refused: [
      "",
      "metadata.x",
      "results.",
      "results..x",
      "/results//x",
      "results.__proto__",
      "/results/constructor/x",
      "results.a\u0001",
      "/results/\u0000",
    ],
  };
  it("[A685] the path of a value in a node is allowed by the document exactly if it can be read: no empty or reserved step, no control character", () => {
    const { schema } = routes.getRunNode.query.path;
    const isAllowed = (path: string) => findParameterViolation(schema, path) === undefined;

    expect(valuePaths.allowed.filter((path) => !isAllowed(path) || typeof parseBindingPath(path) === "string")).toEqual([]);
    expect(valuePaths.refused.filter(isAllowed)).toEqual([]);
  });

  it("[A622] an Idempotency-Key and an If-Match that are not as the document declares them are refused by name before the body is read", async () => {
    fixture = await openDoorsFixture();

    for (const key of ["", "a b", "x".repeat(65), "ü"])
      expect((await ask("/api/v1/workers/w-1/drain", { "idempotency-key": key }, "POST")).body).toMatchObject({
        error: "E.REQUEST.INVALID",
        details: { path: "headers.Idempotency-Key" },
      });
    for (const tag of ["r3", '"r3', '"r 3"', `"${"r".repeat(255)}"`])
      expect((await ask("/api/v1/workflows/w", { "if-match": tag }, "DELETE")).body).toMatchObject({
        error: "E.REQUEST.INVALID",
        details: { path: "headers.If-Match" },
      });
    for (const tag of ["*", '"r3"', 'W/"r3", "r4"'])
      expect((await ask("/api/v1/workflows/w", { "if-match": tag }, "DELETE")).body.error).not.toBe("E.REQUEST.INVALID");
  });
});
