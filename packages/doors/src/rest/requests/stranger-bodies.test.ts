import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { beginSlowRequest, openSlowSender } from "../../testing/slow-sender.ts";
import { restLimits } from "./rest-call.ts";

describe("callers that send slowly", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  it("[A544] a login whose body trickles in is answered with 408 and its connection ends after ten seconds", async () => {
    fixture = await openDoorsFixture();
    const login = await beginSlowRequest(fixture.port, { method: "POST", path: "/api/v1/auth/login", bodyBytes: 1_000 });
    login.send("{");

    fixture.environment.advance(restLimits.strangerBodyMs);

    const received = await login.closed;
    expect(received).toContain("HTTP/1.1 408 Request Timeout");
    expect(received).toContain('"error":"E.REQUEST.TIMEOUT"');
  });

  it.each([
    ["without a token", "/api/v1/runs", {}, "401 Unauthorized"],
    ["with an invalid token", "/api/v1/runs", { authorization: "Bearer wrong" }, "401 Unauthorized"],
    ["without the grant", "/api/v1/runs", { authorization: "Bearer viewer" }, "403 Forbidden"],
    ["with an invalid token and a file", "/api/v1/resources", { authorization: "Bearer wrong" }, "401 Unauthorized"],
  ])(
    "[A544] a request %s whose body trickles in is refused at once and its connection ends after ten seconds",
    async (_, path, headers, status) => {
      fixture = await openDoorsFixture();
      const sender = await beginSlowRequest(fixture.port, { method: "POST", path, headers, bodyBytes: 1_000 });
      await sender.receive(status);
      sender.send("{");

      fixture.environment.advance(restLimits.strangerBodyMs);

      expect(await sender.closed).toContain(status);
    },
  );

  it("[A544] a request for an unknown path whose body trickles in ends after ten seconds", async () => {
    fixture = await openDoorsFixture();
    const sender = await beginSlowRequest(fixture.port, { method: "POST", path: "/nothing/here", bodyBytes: 1_000 });

    fixture.environment.advance(restLimits.strangerBodyMs);

    expect(await sender.closed).toMatch(/HTTP\/1\.1 (404|408) /);
  });

  it("[A544] a caller with a valid token may take longer for a body", async () => {
    fixture = await openDoorsFixture();
    const body = "{}";
    const headers = { authorization: "Bearer secret-a" };
    const sender = await beginSlowRequest(fixture.port, {
      method: "POST",
      path: "/api/v1/runs",
      headers,
      bodyBytes: body.length,
    });

    fixture.environment.advance(restLimits.strangerBodyMs + 1);
    sender.send(body);

    expect(await sender.receive('"error":"')).toContain("E.REQUEST.INVALID");
    sender.destroy();
  });

  it("[A544] a login that arrived in time is not cut off while it is answered", async () => {
    fixture = await openDoorsFixture();
    const sender = await beginSlowRequest(fixture.port, { method: "POST", path: "/api/v1/auth/login", bodyBytes: 2 });
    sender.send("{}");
    await sender.receive("E.REQUEST.INVALID");

    fixture.environment.advance(restLimits.strangerBodyMs + 1);
    sender.send("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");

    expect(await sender.receive('{"ok":true}')).toContain("200 OK");
    sender.destroy();
  });

  it("[A544] headers that trickle in end after the time for headers", async () => {
    fixture = await openDoorsFixture();
    const server = createServer({ connectionsCheckingInterval: 10 });
    await fixture.doors.attach(server);
    expect([server.headersTimeout, server.requestTimeout]).toEqual([restLimits.headersMs, restLimits.requestMs]);
    server.headersTimeout = 50;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const sender = await openSlowSender((server.address() as AddressInfo).port);

    sender.send("POST /api/v1/auth/login HTTP/1.1\r\nx-slow: ");

    expect(await sender.closed).toContain("408 Request Timeout");
    await new Promise<void>((resolve) => server.close(() => resolve()));
  });
});
