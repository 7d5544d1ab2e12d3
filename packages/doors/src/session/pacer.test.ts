import { describe, expect, it } from "vitest";
import { createMetrics } from "../metrics.ts";
import { createFakeEngine } from "../testing/fake-engine.ts";
import { createFakeGate } from "../testing/fake-gate.ts";
import { createFakeOutside } from "../testing/fake-outside.ts";
import { handshake, handshakeV1, olderRegister, register } from "../testing/fake-worker.ts";
import { tokens } from "../testing/house.ts";
import { PlainSocket, say, turn } from "../testing/plain-socket.ts";
import { createSessionHall } from "./hall.ts";
import { Pacer } from "./pacer.ts";

describe("turns of a crowd", () => {
  it("[D36] are given in order, at once while there is room and never more than the rate in any second", () => {
    const outside = createFakeOutside();
    const pacer = new Pacer(200, outside);
    const start = outside.clock.ticks();
    const given: { n: number; at: number }[] = [];
    for (let n = 0; n < 1_000; n += 1) pacer.queue("a", () => given.push({ n, at: outside.clock.ticks() - start }) > 0);

    expect(given).toHaveLength(20);
    outside.advance(500);
    for (let n = 1_000; n < 1_100; n += 1) pacer.queue("a", () => given.push({ n, at: outside.clock.ticks() - start }) > 0);
    outside.advance(10_000);

    expect(given.map(({ n }) => n)).toEqual(Array.from({ length: 1_100 }, (_, n) => n));
    const most = Math.max(...given.map(({ at }) => given.filter((other) => other.at >= at && other.at < at + 1_000).length));
    expect(most).toBe(200);
    expect(given.at(-1)?.at).toBeLessThanOrEqual(5_500);
    expect(pacer.waiting).toBe(0);
  });

  it("[D36] come one by one at a low rate, and cost no wait where nobody else is", () => {
    const outside = createFakeOutside();
    const pacer = new Pacer(2, outside);
    const start = outside.clock.ticks();
    const given: number[] = [];
    const ask = () => pacer.queue("a", () => given.push(outside.clock.ticks() - start) > 0);

    ask();
    ask();
    ask();
    outside.advance(3_000);
    ask();

    expect(given).toEqual([0, 500, 1_000, 3_000]);
  });

  it("[D96] go from tenant to tenant: a crowd of one does not keep the others waiting", () => {
    const outside = createFakeOutside();
    const pacer = new Pacer(2, outside);
    const given: string[] = [];
    for (let n = 0; n < 100; n += 1) pacer.queue("a", () => given.push(`a${n}`) > 0);
    for (const name of ["b0", "b1", "c0"]) pacer.queue(name.slice(0, 1), () => given.push(name) > 0);

    expect([pacer.waiting, pacer.waitingOf("a"), pacer.waitingOf("b"), pacer.waitingOf("d")]).toEqual([102, 99, 2, 0]);
    outside.advance(4_000);

    expect(given).toEqual(["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4", "a5"]);
  });

  it("[D92] that nobody needs any more cost no time: the next one has them", () => {
    const outside = createFakeOutside();
    const pacer = new Pacer(2, outside);
    const start = outside.clock.ticks();
    const given: number[] = [];
    pacer.queue("a", () => given.push(0) > 0);
    for (let n = 0; n < 100; n += 1) pacer.queue("a", () => false);
    pacer.queue("a", () => given.push(outside.clock.ticks() - start) > 0);

    outside.advance(500);

    expect(given).toEqual([0, 500]);
    expect(pacer.waiting).toBe(0);
  });
});

describe("a storm of handshakes", () => {
  /** The engine's answer comes in a turn of its own. */
  const turns = async (): Promise<void> => {
    for (let n = 0; n < 3; n += 1) await turn();
  };
  const openHall = (limits: object) => {
    const engine = createFakeEngine();
    const outside = createFakeOutside();
    const gate = createFakeGate({ authenticate: tokens, now: () => outside.clock.now() });
    return { engine, outside, hall: createSessionHall({ link: engine.link, gate, outside, metrics: createMetrics(), limits }) };
  };
  const greet = (instance: string) =>
    say("control.handshake", handshake({ worker: { ...handshake().worker, worker_instance_id: instance } }), {
      sender: { role: "worker", id: instance },
    });
  const greetOther = (instance: string) =>
    say(
      "control.handshake",
      handshake({
        auth: { mode: "token", token: "secret-b" },
        worker: { ...handshake().worker, worker_instance_id: instance },
      }),
      { tenant: "other", sender: { role: "worker", id: instance } },
    );

  it("[D36] is acked late and in order, never reset; crowds of several tenants keep strangers out", async () => {
    const { hall, outside } = openHall({ handshakesPerSecondMax: 10, strangersMax: 4 });
    const sockets = Array.from({ length: 6 }, () => new PlainSocket());

    sockets.forEach((socket, n) => {
      hall.welcome(socket).message(n % 2 === 0 ? greet(`w-${n}`) : greetOther(`w-${n}`), false);
    });
    await turn();
    expect(sockets.map((socket) => socket.sent.length)).toEqual([1, 0, 0, 0, 0, 0]);
    expect(hall.refusal()?.code).toBe("E.OVERLOADED");
    outside.advance(200);
    expect(sockets.map((socket) => socket.sent.length)).toEqual([1, 1, 1, 0, 0, 0]);
    expect(hall.refusal()).toBe(null);
    outside.advance(300);

    expect(sockets.map((socket) => socket.types)).toEqual(sockets.map(() => ["control.ack"]));
  });

  it("[D36] makes what follows the handshake on its socket wait behind its ack, and forgets those who hang up", async () => {
    const { hall, outside, engine } = openHall({ handshakesPerSecondMax: 10 });
    hall.welcome(new PlainSocket()).message(greet("w-0"), false);
    const impatient = new PlainSocket();
    const ears = hall.welcome(impatient);
    const gone = new PlainSocket();
    const goneEars = hall.welcome(gone);

    ears.message(say("handshake", handshakeV1()), false);
    ears.message(say("register", olderRegister()), false);
    goneEars.message(greet("w-2"), false);
    goneEars.closed(1006);
    await turn();
    expect(engine.commands).toEqual([]);
    outside.advance(100);
    await turn();
    await turn();

    expect(impatient.sent.map((frame) => frame.payload["for"])).toEqual(["handshake", "register"]);
    outside.advance(1_000);
    expect(gone.sent).toEqual([]);
  });

  it("[D92] is no other than a storm of resumes: each is taken up in its turn", async () => {
    const { hall, outside, engine } = openHall({ handshakesPerSecondMax: 10 });
    const seats: { session: string; token: string }[] = [];
    for (let n = 0; n < 4; n += 1) {
      const socket = new PlainSocket();
      const ears = hall.welcome(socket);
      const from = { sender: { role: "worker", id: `w-${n}` } };
      ears.message(greet(`w-${n}`), false);
      ears.message(say("control.register", register(), from), false);
      await turns();
      const accept = socket.sent.find((frame) => frame.type === "control.session.accept");
      seats.push({ session: String(accept?.payload["session_id"]), token: String(accept?.payload["session_token"]) });
      ears.closed(1006);
      outside.advance(100);
    }
    await turns();
    const before = engine.commands.length;
    const sockets = seats.map(({ session, token }, n) => {
      const socket = new PlainSocket();
      const from = { sender: { role: "worker", id: `w-${n}` } };
      const ears = hall.welcome(socket);
      ears.message(say("control.resume", { session_id: session, session_token: token }, from), false);
      ears.message(say("control.heartbeat", { healthy: true, metrics: { inflight: 0 } }, { ...from, id: "beat" }), false);
      return socket;
    });
    await turns();

    const joins = () => engine.commands.slice(before).filter((command) => command.type === "worker.join").length;
    expect(joins()).toBe(1);
    expect(sockets.map((socket) => socket.types.length > 0)).toEqual([true, false, false, false]);
    for (let n = 2; n <= 4; n += 1) {
      outside.advance(100);
      await turns();
      expect(joins()).toBe(n);
    }
    await turns();
    expect(sockets.map((socket) => socket.types)).toEqual(
      sockets.map(() => ["control.ack", "control.session.accept", "control.ack"]),
    );
  });

  it("[D92] leaves a resume nothing to take up once its session went on elsewhere or ended while it waited", async () => {
    const { hall, outside, engine } = openHall({ handshakesPerSecondMax: 10 });
    const first = hall.welcome(new PlainSocket());
    first.message(greet("w-1"), false);
    first.message(say("control.register", register()), false);
    await turns();
    const [join] = engine.commands;
    if (join?.type !== "worker.join") throw new Error("nobody joined");
    first.closed(1006);
    const late = new PlainSocket();
    hall.welcome(late).message(say("control.resume", { session_id: join.session, session_token: "session-token-0" }), false);
    await turns();
    expect(late.sent).toEqual([]);

    hall.welcome(new PlainSocket()).message(greet("w-1"), false);
    outside.advance(100);
    await turns();

    expect(late.sent.map(({ type, payload }) => [type, payload["code"]])).toEqual([["control.reset", "E.SESSION.UNKNOWN"]]);
    expect(late.done).toContain("close 1011");
  });

  it("[D96] of one tenant keeps no other out, and is sent back without a word where its own line is full", async () => {
    const { hall, outside } = openHall({ handshakesPerSecondMax: 10, strangersMax: 2 });
    const sockets = Array.from({ length: 5 }, () => new PlainSocket());
    sockets.slice(0, 4).forEach((socket, n) => {
      expect(hall.refusal()).toBe(null);
      hall.welcome(socket).message(greet(`w-${n}`), false);
    });
    expect(hall.refusal()).toBe(null);
    hall.welcome(sockets[4] ?? new PlainSocket()).message(greetOther("w-4"), false);
    await turn();

    // The first had its turn at once, two wait, the fourth found its line full; the last is of another tenant.
    const closes = sockets.map((socket) => socket.done.filter((word) => word.startsWith("close")));
    expect(closes).toEqual([[], [], [], ["close 1013"], []]);
    expect(sockets[3]?.sent).toEqual([]);
    outside.advance(200);
    expect(sockets.map((socket) => socket.types.length)).toEqual([1, 1, 0, 0, 1]);
  });

  it("[D96] leaves room for other tenants among the connections, and gives a place back when a socket is gone", async () => {
    const { hall } = openHall({ connectionsPerTenantMax: 1 });
    const [first, second, other, third] = [new PlainSocket(), new PlainSocket(), new PlainSocket(), new PlainSocket()];
    const ears = hall.welcome(first);
    ears.message(greet("w-1"), false);
    hall.welcome(second).message(greet("w-2"), false);
    hall.welcome(other).message(greetOther("w-1"), false);
    expect(second.done).toContain("close 1013");
    expect([first, other].map((socket) => socket.types)).toEqual([["control.ack"], ["control.ack"]]);

    ears.closed(1006);
    hall.welcome(third).message(greet("w-3"), false);

    expect(third.types).toEqual(["control.ack"]);
  });

  it("[D92] is not read on while much follows a handshake that waits for its turn, and is read again after it", async () => {
    const { hall, outside } = openHall({ handshakesPerSecondMax: 10 });
    hall.welcome(new PlainSocket()).message(greet("w-0"), false);
    const socket = new PlainSocket();
    const ears = hall.welcome(socket);
    ears.message(greet("w-1"), false);
    expect(socket.done).not.toContain("pause");
    const blob = { name: "a", version: "1.0.0", manifest: { readme: "r".repeat(100_000) } };
    ears.message(say("control.register", { ...register(), manifests: [blob] }), false);
    expect(socket.done.slice(-1)).toEqual(["pause"]);

    outside.advance(100);
    await turns();

    expect(socket.done.slice(-1)).toEqual(["resume"]);
    expect(socket.types).toEqual(["control.ack", "control.ack", "control.session.accept"]);
  });
});
