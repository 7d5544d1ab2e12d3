import { request } from "node:http";
import { connect } from "node:net";
import { sampleGauge } from "@astraflow/engine/testing";
import { fault } from "@astraflow/protocol";
import { sampleChain } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, emptyReader, openDoorsFixture } from "../testing/doors-fixture.ts";

describe("what every route has in common", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  const call = async (method: string, path: string, headers: Record<string, string> = {}, body?: string) => {
    const response = await fetch(`${fixture.http}${path}`, { method, headers, ...(body !== undefined && { body }) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: text === "" ? null : JSON.parse(text) };
  };
  const bearer = { authorization: "Bearer secret-a" };

  it("[A12] the REST server asks for a token on every route but the open ones, before anything is read", async () => {
    fixture = await openDoorsFixture();
    const guarded = [
      ["POST", "/api/v1/runs"],
      ["GET", "/api/v1/runs"],
      ["GET", "/api/v1/runs/r1"],
      ["GET", "/api/v1/runs/r1/definition"],
      ["POST", "/api/v1/runs/r1/cancel"],
      ["GET", "/api/v1/runs/r1/events"],
      ["GET", "/api/v1/workers"],
      ["POST", "/api/v1/workers/w/drain"],
      ["POST", "/api/v1/workers/w/undrain"],
      ["GET", "/api/v1/workers/w"],
      ["GET", "/api/v1/workers/w/diagnostics"],
      ["POST", "/api/v1/workers/w/kick"],
      ["GET", "/api/v1/scaling"],
      ["GET", "/api/v1/extensions/ext.vendor.acme.ping"],
      ["POST", "/api/v1/extensions/ext.vendor.acme.ping"],
      ["GET", "/metrics"],
    ] as const;

    for (const [method, path] of guarded) {
      const missing = await call(method, path);
      expect([path, missing.status, missing.body.error, missing.headers.get("www-authenticate")]).toEqual([
        path,
        401,
        "E.AUTH.MISSING_TOKEN",
        "Bearer",
      ]);
      for (const authorization of ["Bearer wrong", "Basic c2VjcmV0LWE=", "Bearer", "secret-a", "Bearer secret-a extra"]) {
        const wrong = await call(method, path, { authorization });
        expect([path, wrong.status, wrong.body.error]).toEqual([path, 401, "E.AUTH.INVALID_TOKEN"]);
      }
    }
    for (const path of ["/healthz", "/readyz", "/api/v1/openapi.json"]) expect((await call("GET", path)).status).toBe(200);
    expect(fixture.engine.commands).toEqual([]);
  });

  it("[A12] the REST server lets a token do only what it is granted", async () => {
    fixture = await openDoorsFixture();
    const viewer = { authorization: "Bearer viewer" };

    expect((await call("GET", "/api/v1/runs", viewer)).status).toBe(200);
    for (const [method, path] of [
      ["POST", "/api/v1/runs"],
      ["POST", "/api/v1/runs/r/cancel"],
      ["POST", "/api/v1/workers/w/drain"],
      ["POST", "/api/v1/workers/w/kick"],
      ["POST", "/api/v1/extensions/ext.vendor.acme.ping"],
      ["GET", "/metrics"],
    ] as const)
      expect((await call(method, path, viewer)).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
    expect(fixture.engine.commands).toEqual([]);
  });

  it("[A12] the REST server shows metrics without a token only if it is configured to", async () => {
    fixture = await openDoorsFixture({ isMetricsOpen: true });

    expect((await fetch(`${fixture.http}/metrics`)).status).toBe(200);
    expect((await call("GET", "/api/v1/runs")).status).toBe(401);
  });

  it("[A12] the REST server answers an unauthenticated request with a large body before it has read the body", async () => {
    fixture = await openDoorsFixture();

    const status = await new Promise<number>((resolve, reject) => {
      const sending = request(`${fixture.http}/api/v1/runs`, {
        method: "POST",
        headers: { "content-length": "8000000", "content-type": "application/json" },
      });
      sending.on("response", (response) => resolve(response.statusCode ?? 0));
      sending.on("error", reject);
      // Only the first of eight million bytes ever leaves.
      sending.write("{");
    });

    expect(status).toBe(401);
  });

  it("[A13] the REST server answers unknown routes, wrong methods and malformed paths with one error body and a stable code", async () => {
    fixture = await openDoorsFixture();
    const unknown = await call("GET", "/api/v1/nothing", bearer);
    expect(unknown.body).toEqual({
      error: "E.ROUTE.UNKNOWN",
      message: "there is no such route",
      requestId: unknown.headers.get("x-request-id"),
    });
    expect(unknown.status).toBe(404);

    const method = await call("DELETE", "/api/v1/runs/r1", bearer);
    expect([method.status, method.body.error, method.headers.get("allow")]).toEqual([405, "E.ROUTE.METHOD", "GET, HEAD"]);
    expect((await call("PUT", "/api/v1/runs", bearer)).headers.get("allow")).toBe("POST, GET, HEAD");
    expect((await call("GET", "/api/v1/runs/%zz", bearer)).body).toMatchObject({ error: "E.REQUEST.INVALID" });
    expect((await call("GET", `/api/v1/runs/${"r".repeat(3_000)}`, bearer)).body).toMatchObject({ error: "E.REQUEST.INVALID" });
  });

  it("[A13] the REST server refuses bodies of another media type and bodies that are too large", async () => {
    fixture = await openDoorsFixture();
    const json = { ...bearer, "content-type": "application/json" };

    expect((await call("POST", "/api/v1/runs", { ...bearer, "content-type": "text/plain" }, "{}")).body).toMatchObject({
      error: "E.REQUEST.MEDIA",
    });
    const large = await call("POST", "/api/v1/runs", json, `{"a":"${"x".repeat(9 * 1024 * 1024)}"}`);
    expect([large.status, large.body.error]).toEqual([413, "E.REQUEST.TOO_LARGE"]);
  });

  it("[A14] the REST server shows callers nothing of an internal failure, and logs it under the request id", async () => {
    const secret = "SELECT * FROM runs at /var/lib/astra/secret.db";
    fixture = await openDoorsFixture({
      reader: {
        ...emptyReader,
        page: async () => {
          throw new Error(secret);
        },
        events: async () => {
          throw fault("E.STORE.BUSY", secret, { statement: secret });
        },
      },
    });

    const broken = await call("GET", "/api/v1/runs", bearer);
    expect([broken.status, broken.body.error]).toEqual([500, "E.INTERNAL"]);
    const busy = await call("GET", "/api/v1/runs/r/events", bearer);
    expect([busy.status, busy.body.error]).toEqual([503, "E.STORE.BUSY"]);
    expect(busy.body).toMatchObject({ message: expect.stringMatching(/store is unavailable.*Nothing was changed; try again/) });
    expect([broken, busy].map(({ headers }) => headers.get("retry-after"))).toEqual([null, "1"]);
    for (const { text } of [broken, busy]) expect(text).not.toMatch(/SELECT|secret|\.ts|\n/);
    const logged = fixture.environment.logRecords.filter(({ event }) => event.startsWith("rest."));
    expect(logged).toMatchObject([
      { event: "rest.failed", requestId: broken.body.requestId, problem: expect.stringContaining("SELECT") },
      { event: "rest.refused", requestId: busy.body.requestId, reason: expect.stringContaining("SELECT") },
    ]);
  });

  it("[A14] the REST server answers with the engine's fault, and with 503 when the engine is gone", async () => {
    fixture = await openDoorsFixture();
    const json = { ...bearer, "content-type": "application/json" };
    const body = JSON.stringify({ workflow: sampleChain, clientId: "c" });
    fixture.engine.answerWith("run.start", () => ({ fault: { code: "E.OVERLOADED", message: "the inbox is full" } }));
    expect((await call("POST", "/api/v1/runs", json, body)).body).toMatchObject({
      error: "E.OVERLOADED",
      message: "the inbox is full",
    });

    fixture.engine.holdAnswers("run.start");
    fixture.engine.answerWith("run.start", () => ({ fault: { code: "E.INTERNAL", message: "never said" } }));
    const waiting = call("POST", "/api/v1/runs", json, body);
    await fixture.engine.nextCommand("run.start");
    await fixture.engine.nextCommand("run.start");
    fixture.engine.client.close({ code: "E.SHUTTING_DOWN", message: "the engine has stopped" });

    expect(await waiting).toMatchObject({ status: 503, body: { error: "E.SHUTTING_DOWN" } });
  });

  it("[A15] the REST server is healthy while the process lives, and ready only while it can take work", async () => {
    let why: { code: "E.STORE.BUSY"; reason: string } | null = null;
    fixture = await openDoorsFixture({ unready: () => why });

    expect((await call("GET", "/readyz")).body).toEqual({ ok: true });
    why = { code: "E.STORE.BUSY", reason: "the engine has not made a turn for 7 s" };
    const unready = await call("GET", "/readyz");
    expect([unready.status, unready.body]).toEqual([
      503,
      { ok: false, error: "E.STORE.BUSY", message: "the engine has not made a turn for 7 s" },
    ]);
    expect((await call("GET", "/healthz")).body).toEqual({ ok: true });
  });

  it("[A1] GET /metrics shows operators the metrics of the engine and the process beside those of the doors", async () => {
    fixture = await openDoorsFixture({
      gauge: () => sampleGauge({ waiting: 3, turns: 40, commands: 5, grants: 6, quarantined: 1, sessions: 2, held: 9 }),
    });

    const text = await (await fetch(`${fixture.http}/metrics`, { headers: bearer })).text();

    expect(text).toContain("engine_commands_waiting 3");
    expect(text).toContain("engine_attempts_held 9");
    expect(text).toMatch(/process_resident_memory_bytes \d+/);
  });

  it("[A16] the REST server serves the given page at the root, with a policy that allows connections to this server only", async () => {
    fixture = await openDoorsFixture({ page: "<!doctype html><title>demo</title>" });
    const response = await fetch(`${fixture.http}/`);
    expect([response.status, await response.text()]).toEqual([200, "<!doctype html><title>demo</title>"]);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("content-security-policy")).toContain("connect-src 'self'");
    await fixture.stop();

    fixture = await openDoorsFixture();
    expect((await call("GET", "/")).status).toBe(404);
  });

  it("[A13] the REST server survives input that is not HTTP", async () => {
    fixture = await openDoorsFixture();
    for (const noise of [
      "\u0000\u0001\u0002\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "POST /api/v1/runs HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
      "GET /x HTTP/1.1\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    ]) {
      const socket = connect(fixture.port, "127.0.0.1");
      socket.on("error", () => socket.destroy());
      socket.on("data", () => undefined);
      socket.end(Buffer.from(noise, "latin1"));
      await new Promise<void>((resolve) => socket.on("close", () => resolve()));
    }

    expect((await call("GET", "/healthz")).status).toBe(200);
  });
});
