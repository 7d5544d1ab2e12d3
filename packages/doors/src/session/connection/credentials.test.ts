import { createFakeEngine, createFakeEnvironment } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import type { PeerCertificate } from "../../auth/certificates.ts";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { type DoorsFixture, openDoorsFixture, sampleTokens } from "../../testing/doors-fixture.ts";
import { createFakeAuthenticator } from "../../testing/fake-authenticator.ts";
import { handshakePayload, handshakePayloadV1, olderRegisterPayload, registerPayload } from "../../testing/fake-worker.ts";
import { encodeFrame, nextLoopTurn, RecordingSocket } from "../../testing/recording-socket.ts";
import { SessionServer } from "../server/session-server.ts";
import { sessionLimits } from "./session-limits.ts";

const ackRequested = { ack: { request: true } };

describe("credentials that end", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  it("[D30] revoking a credential at once sends every session under it a reset before its socket closes, and none can be resumed", async () => {
    fixture = await openDoorsFixture();
    const { engine } = fixture;
    const live = await fixture.openSession({ instance: "w-1" });
    const gone = await fixture.openSession({ instance: "w-2" });
    await engine.nextCommand("worker.join");
    const { session } = await engine.nextCommand("worker.join");
    gone.socket.terminate();
    await engine.nextCommand("worker.leave");
    const greeted = await fixture.connectWorker({ instance: "w-3" });
    greeted.sendFrame(
      "control.handshake",
      handshakePayload({ worker: { ...handshakePayload().worker, worker_instance_id: "w-3" } }),
      ackRequested,
    );
    await greeted.nextFrame("control.ack");
    const older = await fixture.connectWorker({ instance: "w-4", dialect: "v1" });
    older.sendFrame("handshake", handshakePayloadV1({ worker: { id: "w-4", version: "1", hostname: "box" } }), ackRequested);
    older.sendFrame("register", olderRegisterPayload(), ackRequested);
    await older.nextFrame("ack");
    await older.nextFrame("ack");

    fixture.authenticator.revoke("ann");

    for (const worker of [live, greeted]) {
      expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
      expect((await worker.closed).code).toBe(1011);
    }
    expect((await older.nextFrame("error")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
    const back = await fixture.connectWorker({ instance: "w-2" });
    back.sendFrame("control.resume", { session_id: session, session_token: "session-token-1" }, ackRequested);
    expect((await back.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
  });

  it("[D30] revoking a credential leaves sessions under other credentials open", async () => {
    fixture = await openDoorsFixture();
    const other = await fixture.connectWorker({ tenant: "other", instance: "w-1" });
    other.sendFrame("control.handshake", handshakePayload({ auth: { mode: "token", token: "secret-b" } }), ackRequested);
    other.sendFrame("control.register", registerPayload(), ackRequested);
    await other.nextFrame("control.session.accept");

    fixture.authenticator.revoke("ann");
    await other.untilProcessed();

    expect(other.socket.readyState).toBe(other.socket.OPEN);
  });

  it("[D31] the session door renews the session token at half its lifetime for workers that announced renew, and for no others", async () => {
    fixture = await openDoorsFixture({ tokenMs: 60_000 });
    const able = await fixture.openSession({ instance: "w-1", features: ["renew"] });
    const plain = await fixture.openSession({ instance: "w-2", features: [] });
    const beat = { healthy: true, metrics: { inflight: 0 } };

    fixture.environment.advance(29_000);
    await able.untilProcessed();
    expect(able.frames).toHaveLength(3);
    fixture.environment.advance(1_000);

    const { payload } = await able.nextFrame("control.session.accept");
    expect(payload).toMatchObject({ resumed: true, session_token: "session-token-2" });
    for (const worker of [able, plain]) {
      worker.sendFrame("control.heartbeat", beat, ackRequested);
      await worker.nextFrame("control.ack");
    }
    expect(plain.frames.filter((frame) => frame.type === "control.session.accept")).toHaveLength(1);
    const thief = await fixture.connectWorker();
    thief.sendFrame("control.resume", { session_id: payload["session_id"], session_token: "session-token-0" }, ackRequested);
    expect((await thief.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_TOKEN" });
  });
});

describe("certificates", () => {
  const now = createFakeEnvironment().clock.now();
  const shown = (thumbprint: string, more: Partial<PeerCertificate> = {}): PeerCertificate => ({
    thumbprint,
    problem: null,
    uris: [],
    expiresAt: now + 86_400_000,
    ...more,
  });
  const openServer = () => {
    const engine = createFakeEngine();
    const environment = createFakeEnvironment();
    const authenticator = createFakeAuthenticator({ authenticate: sampleTokens, now: () => environment.clock.now() });
    const sessionServer = new SessionServer({
      engineClient: engine.client,
      authenticator,
      environment,
      metrics: createMetricsRegistry(),
      limits: { resetCloseDelayMs: 0 },
    });
    return { engine, environment, authenticator, sessionServer };
  };
  const join = async (
    sessionServer: ReturnType<typeof openServer>["sessionServer"],
    certificate: PeerCertificate | null,
    hello = handshakePayload(),
  ) => {
    const socket = new RecordingSocket(certificate);
    const socketEvents = sessionServer.acceptSocket(socket);
    socketEvents.message(encodeFrame("control.handshake", hello), false);
    await nextLoopTurn();
    socketEvents.message(encodeFrame("control.register", registerPayload()), false);
    await nextLoopTurn();
    await nextLoopTurn();
    return { socket, socketEvents };
  };

  it("[D32] a certificate that the tenant requires and that is missing or untrusted ends in E.AUTH.MTLS_REQUIRED, whatever the mode", async () => {
    const { sessionServer, authenticator } = openServer();
    authenticator.requireCertificate("default");

    const none = await join(sessionServer, null);
    const bad = await join(sessionServer, shown("t", { problem: "self-signed" }), handshakePayload({ auth: { mode: "mtls" } }));
    const good = await join(sessionServer, shown("t"), handshakePayload({ auth: { mode: "mtls" } }));

    for (const { socket } of [none, bad]) {
      expect(socket.sent[0]).toMatchObject({ type: "control.reset", payload: { code: "E.AUTH.MTLS_REQUIRED" } });
      expect(socket.calls).toContain("close 1011");
    }
    expect(good.socket.types).toContain("control.session.accept");
  });

  it("[D32] a certificate binds the session token: a copy of the token with another key, or with none, resumes nothing", async () => {
    const { sessionServer, engine } = openServer();
    const { socket, socketEvents } = await join(sessionServer, shown("mine"));
    const { session } = await engine.nextCommand("worker.join");
    expect(socket.types).toContain("control.session.accept");
    socketEvents.closed(1006);
    const resume = encodeFrame("control.resume", { session_id: session, session_token: "session-token-0" });

    for (const other of [shown("stolen"), null]) {
      const thief = new RecordingSocket(other);
      sessionServer.acceptSocket(thief).message(resume, false);
      expect(thief.sent[0]).toMatchObject({ type: "control.reset", payload: { code: "E.SESSION.INVALID_TOKEN" } });
    }
    const back = new RecordingSocket(shown("mine"));
    sessionServer.acceptSocket(back).message(resume, false);
    await nextLoopTurn();
    await nextLoopTurn();
    expect(back.types).toEqual(["control.ack", "control.session.accept"]);
  });

  it("[D32] a certificate is checked again when it expires", async () => {
    const { sessionServer, authenticator, environment } = openServer();
    let isOver = false;
    const isGood = authenticator.isStillValid;
    authenticator.isStillValid = (admitted) => isGood(admitted) && !isOver;
    const { socket } = await join(
      sessionServer,
      shown("t", { expiresAt: now + 5_000 }),
      handshakePayload({ auth: { mode: "mtls" } }),
    );
    isOver = true;

    environment.advance(4_000);
    expect(socket.types).not.toContain("control.reset");
    environment.advance(1_000 + sessionLimits.sweepMs);

    expect(socket.sent.at(-1)).toMatchObject({ type: "control.reset", payload: { code: "E.AUTH.INVALID_TOKEN" } });
  });
});
