// Over a real socket: what a browser would see is in the headers that leave the process.
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";

const dashboard = "https://dashboard.example";
const other = "https://other.example";
const bearer = { authorization: "Bearer secret-a" };

describe("pages of other origins", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());
  const open = async (corsOrigins: readonly string[] = [dashboard, "http://localhost:5173"]) => {
    fixture = await openDoorsFixture({ corsOrigins });
  };
  const call = async (path: string, origin: string | null, init: RequestInit = {}) => {
    const headers = { ...bearer, ...(origin !== null && { origin }), ...(init.headers as Record<string, string>) };
    const response = await fetch(`${fixture.http}${path}`, { ...init, headers });
    const corsHeaders = Object.fromEntries([...response.headers].filter(([name]) => name.startsWith("access-control-")));
    return { response, status: response.status, vary: response.headers.get("vary"), corsHeaders };
  };
  const preflight = (path: string, origin: string, more: Record<string, string> = {}) =>
    call(path, origin, { method: "OPTIONS", headers: { "access-control-request-method": "POST", authorization: "", ...more } });

  it("[A384] an answer to a configured origin names that origin and allows credentials, and never names a wildcard", async () => {
    await open();

    for (const origin of [dashboard, "http://localhost:5173"]) {
      const { status, vary, corsHeaders } = await call("/api/v1/runs", origin);
      expect([status, vary]).toEqual([200, "Origin"]);
      expect(corsHeaders).toMatchObject({
        "access-control-allow-origin": origin,
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": expect.stringContaining("etag"),
      });
    }
  });

  it("[A384] an answer to any other origin, or to none, has no cross-origin headers but Vary: Origin", async () => {
    await open();

    for (const origin of [other, `${dashboard}.evil.example`, "https://DASHBOARD.example", "null", null]) {
      const { status, vary, corsHeaders } = await call("/api/v1/runs", origin);
      expect([origin, status, vary, corsHeaders]).toEqual([origin, 200, "Origin", {}]);
    }
  });

  it("[A384] without configured origins no answer has cross-origin headers, and a preflight is refused", async () => {
    await open([]);

    expect(await call("/api/v1/runs", dashboard)).toMatchObject({ status: 200, vary: null, corsHeaders: {} });
    expect(await preflight("/api/v1/runs", dashboard)).toMatchObject({ status: 405, vary: null, corsHeaders: {} });
  });

  it("[A384] a preflight of a configured origin is answered without a token, with the methods and the headers it asks for", async () => {
    await open();
    const wanted = { "access-control-request-headers": "authorization, content-type, idempotency-key" };

    for (const path of ["/api/v1/runs", "/api/v1/events", "/api/v1/no-such-route"]) {
      const { response, status, vary, corsHeaders } = await preflight(path, dashboard, wanted);
      expect([path, status, vary, await response.text()]).toEqual([path, 204, "Origin", ""]);
      expect(corsHeaders).toMatchObject({
        "access-control-allow-origin": dashboard,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": expect.stringMatching(/GET.*POST.*PUT.*PATCH.*DELETE/),
        "access-control-allow-headers": wanted["access-control-request-headers"],
        "access-control-max-age": "600",
      });
    }
    expect(fixture.engine.commands).toEqual([]);
  });

  it("[A384] a preflight of any other origin is refused", async () => {
    await open();

    expect(await preflight("/api/v1/runs", other)).toMatchObject({ status: 405, vary: "Origin", corsHeaders: {} });
  });

  it("[A384] errors of every kind carry the headers of a configured origin, so that its page can read them", async () => {
    await open();
    const refused = [
      await call("/api/v1/runs", dashboard, { headers: { authorization: "Bearer wrong" } }),
      await call("/api/v1/runs/r1", dashboard),
      await call("/api/v1/no-such-route", dashboard),
      await call("/api/v1/runs", dashboard, { method: "DELETE" }),
      await call("/api/v1/%zz", dashboard),
    ];

    expect(refused.map(({ status }) => status)).toEqual([401, 404, 404, 405, 400]);
    for (const { vary, corsHeaders } of refused) {
      expect(vary).toBe("Origin");
      expect(corsHeaders).toMatchObject({ "access-control-allow-origin": dashboard, "access-control-allow-credentials": "true" });
    }
  });

  it("[A384] the event stream carries the headers of a configured origin", async () => {
    await open();
    const { response, status, vary, corsHeaders } = await call("/api/v1/events?clientSessionId=c1", dashboard);

    expect([status, vary]).toEqual([200, "Origin"]);
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    expect(corsHeaders).toMatchObject({ "access-control-allow-origin": dashboard, "access-control-allow-credentials": "true" });
    await response.body?.cancel();
  });
});
