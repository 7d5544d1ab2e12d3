import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { createFakeEngine, createFakeEnvironment } from "@astraflow/services/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { type DoorsFixture, openDoorsFixture, sampleTokens } from "../../testing/doors-fixture.ts";
import { createFakeAuthenticator } from "../../testing/fake-authenticator.ts";
import { handshakePayload, handshakePayloadV1, olderRegisterPayload, registerPayload } from "../../testing/fake-worker.ts";
import { encodeFrame, RecordingSocket } from "../../testing/recording-socket.ts";
import { SessionServer } from "../server/session-server.ts";
import { sessionLimits } from "./session-limits.ts";

const ackRequested = { ack: { request: true } };

describe("whom and what the session door refuses", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture({ origins: ["https://console.example"] });
  });
  afterEach(() => fixture.stop());

  const auth = (token: string) => handshakePayload({ auth: { mode: "token", token } });
  const refusedHandshakes: readonly (readonly [what: string, code: string, payload: object, more?: object])[] = [
    ["a wrong token", "E.AUTH.INVALID_TOKEN", auth("wrong")],
    ["no token", "E.AUTH.MISSING_TOKEN", handshakePayload({ auth: { mode: "token" } })],
    ["an empty token", "E.AUTH.MISSING_TOKEN", auth("")],
    ["another tenant's valid token, as if it were wrong", "E.AUTH.INVALID_TOKEN", auth("secret-b")],
    ["a token that may not open sessions", "E.SESSION.DENIED", auth("viewer")],
    ["a certificate that was only named", "E.AUTH.MTLS_REQUIRED", handshakePayload({ auth: { mode: "mtls", fingerprint: "f" } })],
    [
      "a sender other than the worker named",
      "E.SESSION.TENANT_MISMATCH",
      handshakePayload(),
      { sender: { role: "worker", id: "w-9" } },
    ],
    ["a scheduler as sender", "E.SESSION.TENANT_MISMATCH", handshakePayload(), { sender: { role: "scheduler", id: "w-1" } }],
    ["a payload that is no handshake", "E.FRAME.INVALID", { protocol: 2 }],
  ];
  for (const [what, code, payload, more] of refusedHandshakes)
    it(`[D15] the session door refuses ${what} with ${code}, an audit line and close code 1011`, async () => {
      const worker = await fixture.connectWorker();

      worker.sendFrame("control.handshake", payload, { ...ackRequested, ...more });

      expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code });
      expect((await worker.closed).code).toBe(1011);
      expect(fixture.environment.logRecords).toContainEqual(
        expect.objectContaining({ event: "session.refused", audit: true, code }),
      );
      expect(JSON.stringify(fixture.environment.logRecords)).not.toMatch(/secret-b|wrong/);
      expect(fixture.engine.commands).toEqual([]);
    });

  it("[D15] the session door refuses a tenant other than the token's, even if the token registry does not check the claimed tenant", async () => {
    const trusting = await openDoorsFixture({ authenticate: (token) => sampleTokens(token, null) });
    const worker = await trusting.connectWorker({ tenant: "default" });

    worker.sendFrame("control.handshake", auth("secret-b"), ackRequested);

    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
    await trusting.stop();
  });

  const refusedFirsts: readonly (readonly [type: string, code: string, payload: object])[] = [
    ["control.register", "E.AUTH.HANDSHAKE_REQUIRED", registerPayload()],
    ["control.heartbeat", "E.AUTH.HANDSHAKE_REQUIRED", { healthy: true, metrics: { inflight: 0 } }],
    ["biz.exec.result", "E.AUTH.HANDSHAKE_REQUIRED", {}],
    ["control.resume", "E.SESSION.INVALID_TOKEN", { session_id: "s", session_token: "t", last_seen_seq: 4 }],
  ];
  for (const [type, code, payload] of refusedFirsts)
    it(`[D15] the session door refuses ${type} as the first frame with ${code} and close code 1011`, async () => {
      const worker = await fixture.connectWorker();

      worker.sendFrame(type, payload, ackRequested);

      expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code });
      expect((await worker.closed).code).toBe(1011);
    });

  const broken: readonly (readonly [what: string, text: string | Buffer])[] = [
    ["text that is no JSON", "{"],
    ["an empty frame", ""],
    ["JSON that is no object", "[1,2]"],
    [
      "an envelope without sender",
      JSON.stringify({ type: "control.heartbeat", id: "1", ts: "2025-01-01T00:00:00Z", tenant: "default", payload: {} }),
    ],
    [
      "a time without zone",
      JSON.stringify({
        type: "x",
        id: "1",
        ts: "2025-01-01T00:00:00",
        tenant: "default",
        sender: { role: "worker", id: "w-1" },
        payload: {},
      }),
    ],
    ["binary", Buffer.from("{}")],
    ["a poisoned key", '{"__proto__":{"polluted":1}}'],
    ["nesting beyond all bounds", "[".repeat(60_000)],
  ];
  for (const phase of ["before the handshake", "on a live session"])
    for (const [what, text] of broken)
      it(`[D14] the session door answers ${what} ${phase} with E.FRAME.INVALID or E.FRAME.TOO_LARGE and closes`, async () => {
        const worker = phase === "before the handshake" ? await fixture.connectWorker() : await fixture.openSession();

        worker.sendRaw(text);

        expect((await worker.nextFrame("control.reset")).payload["code"]).toMatch(/^E\.FRAME\.(INVALID|TOO_LARGE)$/);
        expect((await worker.closed).code).toBe(1011);
        expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
      });

  it("[D14] the session door ends a session whose control frame has an invalid payload, and names the field", async () => {
    const worker = await fixture.openSession();

    const id = worker.sendFrame("control.heartbeat", { healthy: "yes", metrics: { inflight: 0 } });

    expect(await worker.nextFrame("control.reset")).toMatchObject({
      corr: id,
      payload: { code: "E.FRAME.INVALID", reason: expect.stringContaining("payload.healthy") },
    });
    expect((await worker.closed).code).toBe(1011);
    expect(fixture.engine.commands.filter((command) => command.type === "worker.beat")).toEqual([]);
  });

  const doublyWrong = { healthy: "yes", metrics: 7 };
  it("[D14] the session door checks the envelope of a v2 frame before its payload: if both are wrong it names the envelope", async () => {
    const worker = await fixture.openSession();

    worker.sendFrame("control.heartbeat", doublyWrong, { sender: { role: "worker" } });

    const { payload } = await worker.nextFrame("control.reset");
    expect(payload).toMatchObject({ code: "E.FRAME.INVALID", reason: expect.stringContaining("sender") });
    expect(payload["reason"]).not.toContain("payload");
  });

  it("[D14] the session door checks the envelope of a v1 frame before its payload, and names the wrong field of a payload alone", async () => {
    const open = async () => {
      const worker = await fixture.connectWorker({ dialect: "v1" });
      worker.sendFrame("handshake", handshakePayloadV1(), ackRequested);
      worker.sendFrame("register", olderRegisterPayload(), ackRequested);
      for (let n = 0; n < 2; n += 1) await worker.nextFrame("ack");
      return worker;
    };
    const both = await open();
    both.sendFrame("heartbeat", doublyWrong, { sender: { role: "worker" } });
    const { payload } = await both.nextFrame("error");
    expect(payload).toMatchObject({ code: "E.FRAME.INVALID", message: expect.stringContaining("sender") });
    expect(payload["message"]).not.toContain("payload");

    const one = await open();
    one.sendFrame("heartbeat", doublyWrong);
    expect((await one.nextFrame("error")).payload["message"]).toContain("payload.healthy");
    expect((await one.closed).code).toBe(1011);
  });

  const bindings: readonly (readonly [what: string, more: Record<string, unknown>])[] = [
    ["tenant", { tenant: "other" }],
    ["sender id", { sender: { role: "worker", id: "w-2" } }],
    ["sender role", { sender: { role: "scheduler", id: "w-1" } }],
  ];
  for (const [what, more] of bindings)
    it(`[D11] the session door closes a connection whose ${what} changes, on its second frame and on its thousandth, with an audit line`, async () => {
      for (const before of [0, 997]) {
        const worker = await fixture.openSession();
        for (let n = 0; n < before; n += 1) worker.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });
        const beats = fixture.engine.commands.length;

        worker.sendFrame(
          "control.heartbeat",
          { healthy: true, metrics: { inflight: 77 }, held: [{ task_id: "r.0", fence: 77 }] },
          more,
        );

        expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.TENANT_MISMATCH" });
        await worker.closed;
        expect(fixture.environment.logRecords).toContainEqual(
          expect.objectContaining({ event: "session.mismatch", audit: true, tenant: "default", sender: { id: "w-1" } }),
        );
        expect(JSON.stringify(fixture.engine.commands.slice(beats))).not.toContain("77");
      }
    });

  it("[D4] the session door refuses work before register, a register while joining, and a second handshake", async () => {
    const early = await fixture.connectWorker();
    early.sendFrame("control.handshake", handshakePayload(), ackRequested);
    early.sendWorkFrame("biz.exec.result", { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: {} });
    expect((await early.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.NOT_REGISTERED" });

    const twice = await fixture.openSession();
    twice.sendFrame("control.handshake", handshakePayload(), ackRequested);
    expect((await twice.nextFrame("control.reset")).payload).toMatchObject({ code: "E.FRAME.INVALID" });

    fixture.engine.holdAnswers("worker.join");
    const hasty = await fixture.connectWorker();
    hasty.sendFrame("control.handshake", handshakePayload(), ackRequested);
    hasty.sendFrame("control.register", registerPayload(), ackRequested);
    hasty.sendFrame("control.register", registerPayload(), ackRequested);
    expect((await hasty.nextFrame("control.reset")).payload).toMatchObject({ code: "E.FRAME.INVALID" });
  });

  it("[D15] the session door closes a connection without a handshake after 10 s, and an authenticated one without a register after 15 s", async () => {
    const silent = await fixture.connectWorker();
    const lazy = await fixture.connectWorker();
    lazy.sendFrame("control.handshake", handshakePayload(), ackRequested);
    await lazy.nextFrame("control.ack");

    fixture.environment.advance(sessionLimits.handshakeTimeoutMs);
    expect((await silent.nextFrame("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
    await silent.closed;
    await lazy.untilProcessed();
    fixture.environment.advance(sessionLimits.registerTimeoutMs - sessionLimits.handshakeTimeoutMs);
    expect((await lazy.nextFrame("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[D15] the session door takes at most 64 KiB before authentication, in one frame or in many, and more from authenticated workers", async () => {
    const once = await fixture.connectWorker();
    once.sendRaw("x".repeat(sessionLimits.unauthenticatedBytesMax + 1));
    await once.closed;

    const fragments = await fixture.connectWorker();
    for (let n = 0; n < 80; n += 1) fragments.socket.send("y".repeat(1024), { fin: false });
    await fragments.closed;

    const known = await fixture.openSession();
    known.sendWorkFrame("biz.exec.result", {
      run_id: "r",
      task_id: "r.0",
      status: "SUCCEEDED",
      result: { text: "z".repeat(200_000) },
    });
    expect((await fixture.engine.nextCommand("task.result")).result.length).toBeGreaterThan(200_000);
    expect(fixture.engine.commands.filter((command) => command.type === "worker.join")).toHaveLength(1);
  });

  it("[D15] the session door refuses a browser whose origin is not listed, and a handshake without a token", async () => {
    await expect(fixture.connectWorker({ headers: { origin: "https://evil.example" } })).rejects.toThrow("403");
    const listed = await fixture.connectWorker({ headers: { origin: "https://console.example" } });
    listed.socket.close();

    const worker = await fixture.connectWorker();
    worker.sendFrame("control.handshake", handshakePayload({ auth: { mode: "token" } }), ackRequested);
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.AUTH.MISSING_TOKEN" });
  });

  it("[D15] the session door has one path for workers and answers any other upgrade with 404", async () => {
    const socket = connect(fixture.port, "127.0.0.1");
    const received: string[] = [];
    socket.on("data", (data) => void received.push(String(data)));
    socket.write(
      "GET /ws/other HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    );
    await new Promise<void>((resolve) => socket.on("close", () => resolve()));

    expect(received.join("")).toMatch(/^HTTP\/1.1 404 /);
    expect(received.join("")).toContain("E.ROUTE.UNKNOWN");
  });

  it("[D15] the session door limits the number of connections, and of unauthenticated ones among them", async () => {
    const small = await openDoorsFixture({ limits: { connectionsMax: 3, unauthenticatedMax: 1 } });
    const stranger = await small.connectWorker();
    await expect(small.connectWorker()).rejects.toThrow("503");
    stranger.socket.close();
    await stranger.closed;

    await small.openSession({ instance: "w-1" });
    await small.openSession({ instance: "w-2" });
    await small.openSession({ instance: "w-3" });
    await expect(small.connectWorker()).rejects.toThrow("503");
    await small.stop();
  });

  it("[D655] an upgrade beyond the places of its address is answered 429 with the time to wait, and one of another client behind the proxy is accepted", async () => {
    const small = await openDoorsFixture({ limits: { unauthenticatedPerAddressMax: 1 }, trustedProxies: ["127.0.0.1"] });
    const upgrade = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "A".repeat(22) + "==",
    };
    const from = (address: string) => ({ headers: { "x-forwarded-for": address } });
    await small.connectWorker(from("198.51.100.7"));

    const refused = await new Promise<IncomingMessage>((resolve) => {
      request(`${small.http}/ws/worker`, { headers: { ...upgrade, ...from("198.51.100.7").headers } }, resolve).end();
    });

    expect([refused.statusCode, refused.headers["retry-after"]]).toEqual([429, "1"]);
    refused.resume();
    await small.connectWorker(from("198.51.100.8"));
    await small.stop();
  });

  it("[D93] the session door replaces unauthenticated connections silent for a second by new ones, but none that waits for its turn", () => {
    const environment = createFakeEnvironment();
    const authenticator = createFakeAuthenticator({ authenticate: sampleTokens, now: () => environment.clock.now() });
    const limits = { unauthenticatedMax: 2, handshakesPerSecondMax: 1 };
    const sessionServer = new SessionServer({
      engineClient: createFakeEngine().client,
      authenticator,
      environment,
      metrics: createMetricsRegistry(),
      limits,
    });
    const sockets = [
      new RecordingSocket(),
      new RecordingSocket(),
      new RecordingSocket(),
      new RecordingSocket(),
      new RecordingSocket(),
    ];
    const [silent, second, third, fourth, fifth] = sockets.map((socket) => () => sessionServer.acceptSocket(socket));
    silent?.();
    environment.advance(500);
    second?.();

    expect(sessionServer.refusalReason("192.0.2.1")?.code).toBe("E.OVERLOADED");
    environment.advance(500);
    expect(sessionServer.refusalReason("192.0.2.1")).toBe(null);
    third?.().message(encodeFrame("control.handshake", handshakePayload()), false);
    expect(sockets.map((socket) => socket.calls.includes("terminate"))).toEqual([true, false, false, false, false]);

    // The first turn is taken: these two wait for theirs, each at the head of its tenant's line, and are the crowd.
    fourth?.().message(encodeFrame("control.handshake", handshakePayload()), false);
    const auth = { mode: "token", token: "secret-b" };
    fifth?.().message(encodeFrame("control.handshake", handshakePayload({ auth }), { tenant: "other" }), false);
    environment.advance(900);
    expect(sessionServer.refusalReason("192.0.2.1")?.code).toBe("E.OVERLOADED");
    expect(sockets.slice(2).flatMap((socket) => socket.calls)).not.toContain("terminate");
  });
});
