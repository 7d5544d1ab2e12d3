import { describe, expect, it } from "vitest";
import { createMetrics } from "../metrics.ts";
import { createFakeEngine } from "../testing/fake-engine.ts";
import { createFakeGate } from "../testing/fake-gate.ts";
import { createFakeOutside } from "../testing/fake-outside.ts";
import { handshake, register } from "../testing/fake-worker.ts";
import { tokens } from "../testing/house.ts";
import { PlainSocket, say, turn } from "../testing/plain-socket.ts";
import { createSessionHall } from "./hall.ts";
import { sessionLimits } from "./limits.ts";

function openHall() {
  const engine = createFakeEngine();
  const outside = createFakeOutside();
  const hall = createSessionHall({
    link: engine.link,
    gate: createFakeGate({ authenticate: tokens, now: () => outside.clock.now() }),
    outside,
    metrics: createMetrics(),
  });
  return { engine, outside, hall };
}

describe("the hall", () => {
  it("[D21] leads a session from handshake to accept and to its end over any socket", async () => {
    const { engine, hall } = openHall();
    const socket = new PlainSocket();
    const ears = hall.welcome(socket);

    ears.message(say("control.handshake", handshake()), false);
    await turn();
    ears.message(say("control.register", register()), false);
    const join = await engine.next("worker.join");
    await turn();
    ears.closed(1006);

    expect(socket.types).toEqual(["control.ack", "control.ack", "control.session.accept"]);
    expect(socket.done).toEqual(["trust"]);
    expect(await engine.next("worker.leave")).toMatchObject({ session: join.session, reason: "socket closed with 1006" });
    expect(hall.connections).toBe(0);
  });

  it("[D21] weighs a stranger's bytes, and ends a socket that stays silent for two pings", async () => {
    const { outside, hall } = openHall();
    const flood = new PlainSocket();
    const quiet = new PlainSocket();
    const ears = hall.welcome(quiet);
    ears.message(say("control.handshake", handshake()), false);
    ears.message(say("control.register", register()), false);
    await turn();

    hall.welcome(flood).weigh(sessionLimits.strangerBytesMax + 1);
    ears.weigh(sessionLimits.strangerBytesMax + 1);
    outside.advance(sessionLimits.pingMs * sessionLimits.pingsMissedMax);
    expect(quiet.done).toEqual(["trust", "ping", "ping"]);
    outside.advance(sessionLimits.pingMs);

    expect(flood.done).toContain("terminate");
    expect(quiet.done.at(-1)).toBe("terminate");
  });

  it("[D21] answers pings while the engine answers nothing, except to a peer that does not read", async () => {
    const { hall } = openHall();
    const socket = new PlainSocket();
    const ears = hall.welcome(socket);

    ears.ping(Buffer.from("a"));
    expect(socket.done).toEqual(["pong"]);
    socket.bufferedAmount = sessionLimits.socketBytesSoft;
    ears.ping(Buffer.from("b"));

    expect(socket.done).toEqual(["pong"]);
  });

  it("[D21] takes nobody new once it closes, and is closed when the last socket is gone", async () => {
    const { hall } = openHall();
    const socket = new PlainSocket();
    const ears = hall.welcome(socket);
    expect(hall.refusal()).toBe(null);

    const closing = hall.close();
    expect(hall.refusal()?.code).toBe("E.SHUTTING_DOWN");
    expect(socket.done).toEqual(["close 1001"]);
    ears.closed(1001);

    await expect(closing).resolves.toBeUndefined();
  });

  it("[D27] acks a handshake that a worker of the first generation still repeats from its last socket, before it registers", async () => {
    const { hall } = openHall();
    const socket = new PlainSocket();
    const ears = hall.welcome(socket);
    ears.message(say("control.handshake", handshake({ protocol: 1 }), { id: "control.handshake-7" }), false);
    ears.message(say("control.handshake", handshake({ protocol: 1 }), { id: "control.handshake-4" }), false);
    await turn();

    expect(socket.sent.map(({ type, payload }) => [type, payload["ok"], payload["for"]])).toEqual([
      ["control.ack", true, "control.handshake-7"],
      ["control.ack", true, "control.handshake-4"],
    ]);
    expect(socket.done).toEqual(["trust"]);
  });
});
