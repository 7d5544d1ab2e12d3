import { createFakeEngine, createFakeEnvironment } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { sampleTokens } from "../../testing/doors-fixture.ts";
import { createFakeAuthenticator } from "../../testing/fake-authenticator.ts";
import { handshakePayload, registerPayload } from "../../testing/fake-worker.ts";
import { encodeFrame, nextLoopTurn, RecordingSocket } from "../../testing/recording-socket.ts";
import { type SessionLimits, sessionLimits } from "../connection/session-limits.ts";
import { SessionServer } from "./session-server.ts";

function openServer(limits: Partial<SessionLimits> = {}) {
  const engine = createFakeEngine();
  const environment = createFakeEnvironment();
  const sessionServer = new SessionServer({
    engineClient: engine.client,
    authenticator: createFakeAuthenticator({ authenticate: sampleTokens, now: () => environment.clock.now() }),
    environment,
    metrics: createMetricsRegistry(),
    limits,
  });
  return { engine, environment, sessionServer };
}

describe("the session server", () => {
  it("[D21] the session server takes a session from handshake to accept and to its end over any socket", async () => {
    const { engine, sessionServer } = openServer();
    const socket = new RecordingSocket();
    const socketEvents = sessionServer.acceptSocket(socket);

    socketEvents.message(encodeFrame("control.handshake", handshakePayload()), false);
    await nextLoopTurn();
    socketEvents.message(encodeFrame("control.register", registerPayload()), false);
    const join = await engine.nextCommand("worker.join");
    await nextLoopTurn();
    socketEvents.closed(1006);

    expect(socket.types).toEqual(["control.ack", "control.ack", "control.session.accept"]);
    expect(socket.calls).toEqual(["trust"]);
    expect(await engine.nextCommand("worker.leave")).toMatchObject({ session: join.session, reason: "socket closed with 1006" });
    expect(sessionServer.connections).toBe(0);
  });

  it("[D656] the sessions that hold most are reset when all of them together hold too much, and the others go on", async () => {
    const { environment, sessionServer } = openServer({ heldBytesTotalMax: 1_000, resetCloseDelayMs: 0 });
    const sockets = await Promise.all(
      ["w-1", "w-2", "w-3"].map(async (instance) => {
        const socket = new RecordingSocket();
        const sender = { sender: { role: "worker", id: instance } };
        const greeting = handshakePayload();
        const worker = { ...greeting.worker, worker_instance_id: instance };
        const events = sessionServer.acceptSocket(socket);
        events.message(encodeFrame("control.handshake", { ...greeting, worker }, sender), false);
        await nextLoopTurn();
        events.message(encodeFrame("control.register", registerPayload(), sender), false);
        await nextLoopTurn();
        return socket;
      }),
    );
    for (const [at, bytes] of [100, 800, 90].entries()) Object.assign(sockets[at] ?? {}, { bufferedAmount: bytes });

    environment.advance(sessionLimits.sweepMs);
    expect(sockets.map(({ types }) => types.includes("control.reset"))).toEqual([false, false, false]);
    Object.assign(sockets[0] ?? {}, { bufferedAmount: 150 });
    environment.advance(sessionLimits.sweepMs);

    expect(sockets.map(({ types }) => types.includes("control.reset"))).toEqual([false, true, false]);
    expect(sockets[1]?.sent.at(-1)?.payload).toMatchObject({ code: "E.OVERLOADED" });
  });

  it("[D21] the session server limits the bytes of an unauthenticated socket, and terminates a socket that stays silent for two pings", async () => {
    const { environment, sessionServer } = openServer();
    const flood = new RecordingSocket();
    const quiet = new RecordingSocket();
    const socketEvents = sessionServer.acceptSocket(quiet);
    socketEvents.message(encodeFrame("control.handshake", handshakePayload()), false);
    socketEvents.message(encodeFrame("control.register", registerPayload()), false);
    await nextLoopTurn();

    sessionServer.acceptSocket(flood).bytesReceived(sessionLimits.unauthenticatedBytesMax + 1);
    socketEvents.bytesReceived(sessionLimits.unauthenticatedBytesMax + 1);
    environment.advance(sessionLimits.pingMs * sessionLimits.pingsMissedMax);
    expect(quiet.calls).toEqual(["trust", "ping", "ping"]);
    environment.advance(sessionLimits.pingMs);

    expect(flood.calls).toContain("terminate");
    expect(quiet.calls.at(-1)).toBe("terminate");
  });

  it("[D21] the session server answers pings without the engine, except to a peer that does not read", async () => {
    const { sessionServer } = openServer();
    const socket = new RecordingSocket();
    const socketEvents = sessionServer.acceptSocket(socket);

    socketEvents.ping(Buffer.from("a"));
    expect(socket.calls).toEqual(["pong"]);
    socket.bufferedAmount = sessionLimits.socketBytesSoft;
    socketEvents.ping(Buffer.from("b"));

    expect(socket.calls).toEqual(["pong"]);
  });

  it("[D21] the session server accepts no connection once it is closing, and is closed when the last socket is gone", async () => {
    const { sessionServer } = openServer();
    const socket = new RecordingSocket();
    const socketEvents = sessionServer.acceptSocket(socket);
    expect(sessionServer.refusalReason("192.0.2.1")).toBe(null);

    const closing = sessionServer.close();
    expect(sessionServer.refusalReason("192.0.2.1")?.code).toBe("E.SHUTTING_DOWN");
    expect(socket.calls).toEqual(["close 1001"]);
    socketEvents.closed(1001);

    await expect(closing).resolves.toBeUndefined();
  });

  it("[D27] the session server acks a handshake that a first-generation worker still repeats from its last socket, before it registers", async () => {
    const { sessionServer } = openServer();
    const socket = new RecordingSocket();
    const socketEvents = sessionServer.acceptSocket(socket);
    socketEvents.message(
      encodeFrame("control.handshake", handshakePayload({ protocol: 1 }), { id: "control.handshake-7" }),
      false,
    );
    socketEvents.message(
      encodeFrame("control.handshake", handshakePayload({ protocol: 1 }), { id: "control.handshake-4" }),
      false,
    );
    await nextLoopTurn();

    expect(socket.sent.map(({ type, payload }) => [type, payload["ok"], payload["for"]])).toEqual([
      ["control.ack", true, "control.handshake-7"],
      ["control.ack", true, "control.handshake-4"],
    ]);
    expect(socket.calls).toEqual(["trust"]);
  });
});
