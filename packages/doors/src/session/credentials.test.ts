import { afterEach, describe, expect, it } from "vitest";
import type { ShownCertificate } from "../gate.ts";
import { createMetrics } from "../metrics.ts";
import { createFakeEngine } from "../testing/fake-engine.ts";
import { createFakeGate } from "../testing/fake-gate.ts";
import { createFakeOutside } from "../testing/fake-outside.ts";
import { handshake, handshakeV1, olderRegister, register } from "../testing/fake-worker.ts";
import { type House, openHouse, tokens } from "../testing/house.ts";
import { PlainSocket, say, turn } from "../testing/plain-socket.ts";
import { createSessionHall } from "./hall.ts";
import { sessionLimits } from "./limits.ts";

const asks = { ack: { request: true } };

describe("credentials that end", () => {
  let house: House;
  afterEach(() => house.stop());

  it("[D30] revoked: every session under them hears a reset before its socket closes, at once, and cannot be resumed", async () => {
    house = await openHouse();
    const { engine } = house;
    const live = await house.worker({ instance: "w-1" });
    const gone = await house.worker({ instance: "w-2" });
    await engine.next("worker.join");
    const { session } = await engine.next("worker.join");
    gone.socket.terminate();
    await engine.next("worker.leave");
    const greeted = await house.dial({ instance: "w-3" });
    greeted.say("control.handshake", handshake({ worker: { ...handshake().worker, worker_instance_id: "w-3" } }), asks);
    await greeted.next("control.ack");
    const older = await house.dial({ instance: "w-4", dialect: "v1" });
    older.say("handshake", handshakeV1({ worker: { id: "w-4", version: "1", hostname: "box" } }), asks);
    older.say("register", olderRegister(), asks);
    await older.next("ack");
    await older.next("ack");

    house.gate.revoke("ann");

    for (const worker of [live, greeted]) {
      expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
      expect((await worker.closed).code).toBe(1011);
    }
    expect((await older.next("error")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
    const back = await house.dial({ instance: "w-2" });
    back.say("control.resume", { session_id: session, session_token: "session-token-1" }, asks);
    expect((await back.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
  });

  it("[D30] leave those alone who came with others", async () => {
    house = await openHouse();
    const other = await house.dial({ tenant: "other", instance: "w-1" });
    other.say("control.handshake", handshake({ auth: { mode: "token", token: "secret-b" } }), asks);
    other.say("control.register", register(), asks);
    await other.next("control.session.accept");

    house.gate.revoke("ann");
    await other.settle();

    expect(other.socket.readyState).toBe(other.socket.OPEN);
  });

  it("[D31] renews the session token at half its life for workers that announced renew, and for nobody else", async () => {
    house = await openHouse({ tokenMs: 60_000 });
    const able = await house.worker({ instance: "w-1", features: ["renew"] });
    const plain = await house.worker({ instance: "w-2", features: [] });
    const beat = { healthy: true, metrics: { inflight: 0 } };

    house.outside.advance(29_000);
    await able.settle();
    expect(able.frames).toHaveLength(3);
    house.outside.advance(1_000);

    const { payload } = await able.next("control.session.accept");
    expect(payload).toMatchObject({ resumed: true, session_token: "session-token-2" });
    for (const worker of [able, plain]) {
      worker.say("control.heartbeat", beat, asks);
      await worker.next("control.ack");
    }
    expect(plain.frames.filter((frame) => frame.type === "control.session.accept")).toHaveLength(1);
    const thief = await house.dial();
    thief.say("control.resume", { session_id: payload["session_id"], session_token: "session-token-0" }, asks);
    expect((await thief.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_TOKEN" });
  });
});

describe("certificates", () => {
  const now = createFakeOutside().clock.now();
  const shown = (thumbprint: string, more: Partial<ShownCertificate> = {}): ShownCertificate => ({
    thumbprint,
    problem: null,
    uris: [],
    expiresAt: now + 86_400_000,
    ...more,
  });
  const openHall = () => {
    const engine = createFakeEngine();
    const outside = createFakeOutside();
    const gate = createFakeGate({ authenticate: tokens, now: () => outside.clock.now() });
    const hall = createSessionHall({ link: engine.link, gate, outside, metrics: createMetrics() });
    return { engine, outside, gate, hall };
  };
  const join = async (hall: ReturnType<typeof openHall>["hall"], certificate: ShownCertificate | null, hello = handshake()) => {
    const socket = new PlainSocket(certificate);
    const ears = hall.welcome(socket);
    ears.message(say("control.handshake", hello), false);
    await turn();
    ears.message(say("control.register", register()), false);
    await turn();
    await turn();
    return { socket, ears };
  };

  it("[D32] demanded by a tenant and not shown, or not trusted, end in E.AUTH.MTLS_REQUIRED, whatever the mode", async () => {
    const { hall, gate } = openHall();
    gate.demandCertificate("default");

    const none = await join(hall, null);
    const bad = await join(hall, shown("t", { problem: "self-signed" }), handshake({ auth: { mode: "mtls" } }));
    const good = await join(hall, shown("t"), handshake({ auth: { mode: "mtls" } }));

    for (const { socket } of [none, bad]) {
      expect(socket.sent[0]).toMatchObject({ type: "control.reset", payload: { code: "E.AUTH.MTLS_REQUIRED" } });
      expect(socket.done).toContain("close 1011");
    }
    expect(good.socket.types).toContain("control.session.accept");
  });

  it("[D32] bind the session token: a copy of it shown with another key, or with none, resumes nothing", async () => {
    const { hall, engine } = openHall();
    const { socket, ears } = await join(hall, shown("mine"));
    const { session } = await engine.next("worker.join");
    expect(socket.types).toContain("control.session.accept");
    ears.closed(1006);
    const resume = say("control.resume", { session_id: session, session_token: "session-token-0" });

    for (const other of [shown("stolen"), null]) {
      const thief = new PlainSocket(other);
      hall.welcome(thief).message(resume, false);
      expect(thief.sent[0]).toMatchObject({ type: "control.reset", payload: { code: "E.SESSION.INVALID_TOKEN" } });
    }
    const back = new PlainSocket(shown("mine"));
    hall.welcome(back).message(resume, false);
    await turn();
    await turn();
    expect(back.types).toEqual(["control.ack", "control.session.accept"]);
  });

  it("[D32] are looked at again when they run out", async () => {
    const { hall, gate, outside } = openHall();
    let isOver = false;
    const isGood = gate.isGood;
    gate.isGood = (admitted) => isGood(admitted) && !isOver;
    const { socket } = await join(hall, shown("t", { expiresAt: now + 5_000 }), handshake({ auth: { mode: "mtls" } }));
    isOver = true;

    outside.advance(4_000);
    expect(socket.types).not.toContain("control.reset");
    outside.advance(1_000 + sessionLimits.sweepMs);

    expect(socket.sent.at(-1)).toMatchObject({ type: "control.reset", payload: { code: "E.AUTH.INVALID_TOKEN" } });
  });
});
