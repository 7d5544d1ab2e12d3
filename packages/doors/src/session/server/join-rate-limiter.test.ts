import { createFakeEngine, createFakeEnvironment } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { sampleTokens } from "../../testing/doors-fixture.ts";
import { createFakeAuthenticator } from "../../testing/fake-authenticator.ts";
import { handshakePayload, handshakePayloadV1, olderRegisterPayload, registerPayload } from "../../testing/fake-worker.ts";
import { encodeFrame, nextLoopTurn, RecordingSocket } from "../../testing/recording-socket.ts";
import { JoinRateLimiter } from "./admission-control.ts";
import { SessionServer } from "./session-server.ts";

describe("turns of a crowd", () => {
  it("[D36] the join rate limiter admits joins in order, at once while there is room and never more than the rate in any second", () => {
    const environment = createFakeEnvironment();
    const limiter = new JoinRateLimiter(200, environment);
    const start = environment.clock.monotonic();
    const given: { n: number; at: number }[] = [];
    for (let n = 0; n < 1_000; n += 1)
      limiter.schedule("a", () => given.push({ n, at: environment.clock.monotonic() - start }) > 0);

    expect(given).toHaveLength(20);
    environment.advance(500);
    for (let n = 1_000; n < 1_100; n += 1)
      limiter.schedule("a", () => given.push({ n, at: environment.clock.monotonic() - start }) > 0);
    environment.advance(10_000);

    expect(given.map(({ n }) => n)).toEqual(Array.from({ length: 1_100 }, (_, n) => n));
    const most = Math.max(...given.map(({ at }) => given.filter((other) => other.at >= at && other.at < at + 1_000).length));
    expect(most).toBe(200);
    expect(given.at(-1)?.at).toBeLessThanOrEqual(5_500);
    expect(limiter.waiting).toBe(0);
  });

  it("[D36] the join rate limiter admits joins one by one at a low rate, and without delay where nobody else waits", () => {
    const environment = createFakeEnvironment();
    const limiter = new JoinRateLimiter(2, environment);
    const start = environment.clock.monotonic();
    const given: number[] = [];
    const ask = () => limiter.schedule("a", () => given.push(environment.clock.monotonic() - start) > 0);

    ask();
    ask();
    ask();
    environment.advance(3_000);
    ask();

    expect(given).toEqual([0, 500, 1_000, 3_000]);
  });

  it("[D96] the join rate limiter alternates between tenants: many joins of one do not keep the others waiting", () => {
    const environment = createFakeEnvironment();
    const limiter = new JoinRateLimiter(2, environment);
    const given: string[] = [];
    for (let n = 0; n < 100; n += 1) limiter.schedule("a", () => given.push(`a${n}`) > 0);
    for (const name of ["b0", "b1", "c0"]) limiter.schedule(name.slice(0, 1), () => given.push(name) > 0);

    expect([limiter.waiting, limiter.waitingOfTenant("a"), limiter.waitingOfTenant("b"), limiter.waitingOfTenant("d")]).toEqual([
      102, 99, 2, 0,
    ]);
    environment.advance(4_000);

    expect(given).toEqual(["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4", "a5"]);
  });

  it("[D92] the join rate limiter spends no time on joins that are no longer needed: the next one takes their turn", () => {
    const environment = createFakeEnvironment();
    const limiter = new JoinRateLimiter(2, environment);
    const start = environment.clock.monotonic();
    const given: number[] = [];
    limiter.schedule("a", () => given.push(0) > 0);
    for (let n = 0; n < 100; n += 1) limiter.schedule("a", () => false);
    limiter.schedule("a", () => given.push(environment.clock.monotonic() - start) > 0);

    environment.advance(500);

    expect(given).toEqual([0, 500]);
    expect(limiter.waiting).toBe(0);
  });
});

describe("a storm of handshakes", () => {
  /** The engine's answer comes in a turn of its own. */
  const turns = async (): Promise<void> => {
    for (let n = 0; n < 3; n += 1) await nextLoopTurn();
  };
  const openServer = (limits: object) => {
    const engine = createFakeEngine();
    const environment = createFakeEnvironment();
    const authenticator = createFakeAuthenticator({ authenticate: sampleTokens, now: () => environment.clock.now() });
    return {
      engine,
      environment,
      sessionServer: new SessionServer({
        engineClient: engine.client,
        authenticator,
        environment,
        metrics: createMetricsRegistry(),
        limits: { resetCloseDelayMs: 0, ...limits },
      }),
    };
  };
  const greet = (instance: string) =>
    encodeFrame(
      "control.handshake",
      handshakePayload({ worker: { ...handshakePayload().worker, worker_instance_id: instance } }),
      {
        sender: { role: "worker", id: instance },
      },
    );
  const greetOther = (instance: string) =>
    encodeFrame(
      "control.handshake",
      handshakePayload({
        auth: { mode: "token", token: "secret-b" },
        worker: { ...handshakePayload().worker, worker_instance_id: instance },
      }),
      { tenant: "other", sender: { role: "worker", id: instance } },
    );

  it("[D36] handshakes above the rate are acked late and in order, never reset; many from several tenants keep new connections out", async () => {
    const { sessionServer, environment } = openServer({ handshakesPerSecondMax: 10, unauthenticatedMax: 4 });
    const sockets = Array.from({ length: 6 }, () => new RecordingSocket());

    sockets.forEach((socket, n) => {
      sessionServer.acceptSocket(socket).message(n % 2 === 0 ? greet(`w-${n}`) : greetOther(`w-${n}`), false);
    });
    await nextLoopTurn();
    expect(sockets.map((socket) => socket.sent.length)).toEqual([1, 0, 0, 0, 0, 0]);
    expect(sessionServer.refusalReason("192.0.2.1")?.code).toBe("E.OVERLOADED");
    environment.advance(200);
    expect(sockets.map((socket) => socket.sent.length)).toEqual([1, 1, 1, 0, 0, 0]);
    expect(sessionServer.refusalReason("192.0.2.1")).toBe(null);
    environment.advance(300);

    expect(sockets.map((socket) => socket.types)).toEqual(sockets.map(() => ["control.ack"]));
  });

  it("[D36] frames that follow a waiting handshake are processed after its ack, and a closed socket's handshake is dropped", async () => {
    const { sessionServer, environment, engine } = openServer({ handshakesPerSecondMax: 10 });
    sessionServer.acceptSocket(new RecordingSocket()).message(greet("w-0"), false);
    const impatient = new RecordingSocket();
    const socketEvents = sessionServer.acceptSocket(impatient);
    const gone = new RecordingSocket();
    const goneSocketEvents = sessionServer.acceptSocket(gone);

    socketEvents.message(encodeFrame("handshake", handshakePayloadV1()), false);
    socketEvents.message(encodeFrame("register", olderRegisterPayload()), false);
    goneSocketEvents.message(greet("w-2"), false);
    goneSocketEvents.closed(1006);
    await nextLoopTurn();
    expect(engine.commands).toEqual([]);
    environment.advance(100);
    await nextLoopTurn();
    await nextLoopTurn();

    expect(impatient.sent.map((frame) => frame.payload["for"])).toEqual(["handshake", "register"]);
    environment.advance(1_000);
    expect(gone.sent).toEqual([]);
  });

  it("[D92] resumes are rate limited like handshakes: each is processed in its turn", async () => {
    const { sessionServer, environment, engine } = openServer({ handshakesPerSecondMax: 10 });
    const seats: { session: string; token: string }[] = [];
    for (let n = 0; n < 4; n += 1) {
      const socket = new RecordingSocket();
      const socketEvents = sessionServer.acceptSocket(socket);
      const from = { sender: { role: "worker", id: `w-${n}` } };
      socketEvents.message(greet(`w-${n}`), false);
      socketEvents.message(encodeFrame("control.register", registerPayload(), from), false);
      await turns();
      const accept = socket.sent.find((frame) => frame.type === "control.session.accept");
      seats.push({ session: String(accept?.payload["session_id"]), token: String(accept?.payload["session_token"]) });
      socketEvents.closed(1006);
      environment.advance(100);
    }
    await turns();
    const before = engine.commands.length;
    const sockets = seats.map(({ session, token }, n) => {
      const socket = new RecordingSocket();
      const from = { sender: { role: "worker", id: `w-${n}` } };
      const socketEvents = sessionServer.acceptSocket(socket);
      socketEvents.message(encodeFrame("control.resume", { session_id: session, session_token: token }, from), false);
      socketEvents.message(
        encodeFrame("control.heartbeat", { healthy: true, metrics: { inflight: 0 } }, { ...from, id: "beat" }),
        false,
      );
      return socket;
    });
    await turns();

    const joins = () => engine.commands.slice(before).filter((command) => command.type === "worker.join").length;
    expect(joins()).toBe(1);
    expect(sockets.map((socket) => socket.types.length > 0)).toEqual([true, false, false, false]);
    for (let n = 2; n <= 4; n += 1) {
      environment.advance(100);
      await turns();
      expect(joins()).toBe(n);
    }
    await turns();
    expect(sockets.map((socket) => socket.types)).toEqual(
      sockets.map(() => ["control.ack", "control.session.accept", "control.ack"]),
    );
  });

  it("[D92] a resume that waits for its turn is reset with E.SESSION.UNKNOWN when its worker has sent a new handshake meanwhile", async () => {
    const { sessionServer, environment, engine } = openServer({ handshakesPerSecondMax: 10 });
    const first = sessionServer.acceptSocket(new RecordingSocket());
    first.message(greet("w-1"), false);
    first.message(encodeFrame("control.register", registerPayload()), false);
    await turns();
    const [join] = engine.commands;
    if (join?.type !== "worker.join") throw new Error("nobody joined");
    first.closed(1006);
    const late = new RecordingSocket();
    sessionServer
      .acceptSocket(late)
      .message(encodeFrame("control.resume", { session_id: join.session, session_token: "session-token-0" }), false);
    await turns();
    expect(late.sent).toEqual([]);

    sessionServer.acceptSocket(new RecordingSocket()).message(greet("w-1"), false);
    environment.advance(100);
    await turns();

    expect(late.sent.map(({ type, payload }) => [type, payload["code"]])).toEqual([["control.reset", "E.SESSION.UNKNOWN"]]);
    expect(late.calls).toContain("close 1011");
  });

  it("[D96] many handshakes of one tenant keep no other tenant out, and those beyond its own queue are closed without a frame", async () => {
    const { sessionServer, environment } = openServer({ handshakesPerSecondMax: 10, unauthenticatedMax: 2 });
    const sockets = Array.from({ length: 5 }, () => new RecordingSocket());
    sockets.slice(0, 4).forEach((socket, n) => {
      expect(sessionServer.refusalReason("192.0.2.1")).toBe(null);
      sessionServer.acceptSocket(socket).message(greet(`w-${n}`), false);
    });
    expect(sessionServer.refusalReason("192.0.2.1")).toBe(null);
    sessionServer.acceptSocket(sockets[4] ?? new RecordingSocket()).message(greetOther("w-4"), false);
    await nextLoopTurn();

    // The first had its turn at once, two wait, the fourth found its line full; the last is of another tenant.
    const closes = sockets.map((socket) => socket.calls.filter((word) => word.startsWith("close")));
    expect(closes).toEqual([[], [], [], ["close 1013"], []]);
    expect(sockets[3]?.sent).toEqual([]);
    environment.advance(200);
    expect(sockets.map((socket) => socket.types.length)).toEqual([1, 1, 0, 0, 1]);
  });

  it("[D96] a tenant at its connection limit is refused while others connect, and a closed socket frees its place", async () => {
    const { sessionServer } = openServer({ connectionsPerTenantMax: 1 });
    const [first, second, other, third] = [
      new RecordingSocket(),
      new RecordingSocket(),
      new RecordingSocket(),
      new RecordingSocket(),
    ];
    const socketEvents = sessionServer.acceptSocket(first);
    socketEvents.message(greet("w-1"), false);
    sessionServer.acceptSocket(second).message(greet("w-2"), false);
    sessionServer.acceptSocket(other).message(greetOther("w-1"), false);
    expect(second.calls).toContain("close 1013");
    expect([first, other].map((socket) => socket.types)).toEqual([["control.ack"], ["control.ack"]]);

    socketEvents.closed(1006);
    sessionServer.acceptSocket(third).message(greet("w-3"), false);

    expect(third.types).toEqual(["control.ack"]);
  });

  it("[D92] a socket is paused while much data follows a handshake that waits for its turn, and is read again after it", async () => {
    const { sessionServer, environment } = openServer({ handshakesPerSecondMax: 10 });
    sessionServer.acceptSocket(new RecordingSocket()).message(greet("w-0"), false);
    const socket = new RecordingSocket();
    const socketEvents = sessionServer.acceptSocket(socket);
    socketEvents.message(greet("w-1"), false);
    expect(socket.calls).not.toContain("pause");
    const blob = { name: "a", version: "1.0.0", manifest: { readme: "r".repeat(100_000) } };
    socketEvents.message(encodeFrame("control.register", { ...registerPayload(), manifests: [blob] }), false);
    expect(socket.calls.slice(-1)).toEqual(["pause"]);

    environment.advance(100);
    await turns();

    expect(socket.calls.slice(-1)).toEqual(["resume"]);
    expect(socket.types).toEqual(["control.ack", "control.ack", "control.session.accept"]);
  });
});
