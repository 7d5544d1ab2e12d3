import { describe, expect, it } from "vitest";
import { createSigner } from "../identity.ts";
import { createMetrics } from "../metrics.ts";
import { createFakeEngine } from "../testing/fake-engine.ts";
import { createFakeOutside } from "../testing/fake-outside.ts";
import { handshake, register } from "../testing/fake-worker.ts";
import { tokens } from "../testing/house.ts";
import { createSessionHall } from "./hall.ts";
import { sessionLimits } from "./limits.ts";
import type { PeerSocket } from "./peer-socket.ts";

interface Frame {
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

function openHall() {
  const engine = createFakeEngine();
  const outside = createFakeOutside();
  const hall = createSessionHall({
    link: engine.link,
    authenticate: tokens,
    sign: createSigner("a secret of this test"),
    outside,
    metrics: createMetrics(),
  });
  return { engine, outside, hall };
}

/** A socket that is nothing but a list of what was done to it. */
class PlainSocket implements PeerSocket {
  readonly sent: Frame[] = [];
  readonly done: string[] = [];
  isOpen = true;
  bufferedAmount = 0;
  send(text: string): void {
    this.sent.push(JSON.parse(text) as Frame);
  }
  ping = () => void this.done.push("ping");
  pong = () => void this.done.push("pong");
  pause = () => void this.done.push("pause");
  resume = () => void this.done.push("resume");
  trust = () => void this.done.push("trust");
  close = (code: number) => void this.done.push(`close ${code}`);
  terminate = () => void this.done.push("terminate");
  together = (work: () => void) => work();
}

const say = (type: string, payload: object): Buffer => {
  const sender = { role: "worker", id: "w-1" };
  const ts = new Date(0).toISOString();
  return Buffer.from(JSON.stringify({ type, id: type, ts, tenant: "default", sender, ack: { request: true }, payload }));
};
const types = (socket: PlainSocket) => socket.sent.map((frame) => frame.type);
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

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

    expect(types(socket)).toEqual(["control.ack", "control.ack", "control.session.accept"]);
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
});
