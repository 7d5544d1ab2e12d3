import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createMetrics } from "../metrics.ts";
import { createFakeEngine } from "../testing/fake-engine.ts";
import { createFakeGate } from "../testing/fake-gate.ts";
import { createFakeOutside } from "../testing/fake-outside.ts";
import { handshake, handshakeV1, olderRegister, register } from "../testing/fake-worker.ts";
import { type House, openHouse, tokens } from "../testing/house.ts";
import { PlainSocket, say } from "../testing/plain-socket.ts";
import { createSessionHall } from "./hall.ts";
import { sessionLimits } from "./limits.ts";

const asks = { ack: { request: true } };

describe("whom and what the session door refuses", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse({ origins: ["https://console.example"] });
  });
  afterEach(() => house.stop());

  const auth = (token: string) => handshake({ auth: { mode: "token", token } });
  const refusedHandshakes: readonly (readonly [what: string, code: string, payload: object, more?: object])[] = [
    ["a wrong token", "E.AUTH.INVALID_TOKEN", auth("wrong")],
    ["no token", "E.AUTH.MISSING_TOKEN", handshake({ auth: { mode: "token" } })],
    ["an empty token", "E.AUTH.MISSING_TOKEN", auth("")],
    ["another tenant's valid token, as if it were wrong", "E.AUTH.INVALID_TOKEN", auth("secret-b")],
    ["a token that may not open sessions", "E.SESSION.DENIED", auth("viewer")],
    ["a certificate that was only named", "E.AUTH.MTLS_REQUIRED", handshake({ auth: { mode: "mtls", fingerprint: "f" } })],
    ["a sender other than the worker named", "E.SESSION.TENANT_MISMATCH", handshake(), { sender: { role: "worker", id: "w-9" } }],
    ["a scheduler as sender", "E.SESSION.TENANT_MISMATCH", handshake(), { sender: { role: "scheduler", id: "w-1" } }],
    ["a payload that is no handshake", "E.FRAME.INVALID", { protocol: 2 }],
  ];
  for (const [what, code, payload, more] of refusedHandshakes)
    it(`[D15] refuses ${what} with ${code}, an audit line and 1011`, async () => {
      const worker = await house.dial();

      worker.say("control.handshake", payload, { ...asks, ...more });

      expect((await worker.next("control.reset")).payload).toMatchObject({ code });
      expect((await worker.closed).code).toBe(1011);
      expect(house.outside.lines).toContainEqual(expect.objectContaining({ event: "session.refused", audit: true, code }));
      expect(JSON.stringify(house.outside.lines)).not.toMatch(/secret-b|wrong/);
      expect(house.engine.commands).toEqual([]);
    });

  it("[D15] refuses a tenant that is not the token's, even when the token book does not look at the claim", async () => {
    const trusting = await openHouse({ authenticate: (token) => tokens(token, null) });
    const worker = await trusting.dial({ tenant: "default" });

    worker.say("control.handshake", auth("secret-b"), asks);

    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
    await trusting.stop();
  });

  const refusedFirsts: readonly (readonly [type: string, code: string, payload: object])[] = [
    ["control.register", "E.AUTH.HANDSHAKE_REQUIRED", register()],
    ["control.heartbeat", "E.AUTH.HANDSHAKE_REQUIRED", { healthy: true, metrics: { inflight: 0 } }],
    ["biz.exec.result", "E.AUTH.HANDSHAKE_REQUIRED", {}],
    ["control.resume", "E.SESSION.INVALID_TOKEN", { session_id: "s", session_token: "t", last_seen_seq: 4 }],
  ];
  for (const [type, code, payload] of refusedFirsts)
    it(`[D15] refuses ${type} as the first frame with ${code} and 1011`, async () => {
      const worker = await house.dial();

      worker.say(type, payload, asks);

      expect((await worker.next("control.reset")).payload).toMatchObject({ code });
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
      it(`[D14] answers ${what} ${phase} with E.FRAME.INVALID and closes`, async () => {
        const worker = phase === "before the handshake" ? await house.dial() : await house.worker();

        worker.raw(text);

        expect((await worker.next("control.reset")).payload["code"]).toMatch(/^E\.FRAME\.(INVALID|TOO_LARGE)$/);
        expect((await worker.closed).code).toBe(1011);
        expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
      });

  it("[D14] ends a session whose control frame has a payload that does not fit, and names the field", async () => {
    const worker = await house.worker();

    const id = worker.say("control.heartbeat", { healthy: "yes", metrics: { inflight: 0 } });

    expect(await worker.next("control.reset")).toMatchObject({
      corr: id,
      payload: { code: "E.FRAME.INVALID", reason: expect.stringContaining("payload.healthy") },
    });
    expect((await worker.closed).code).toBe(1011);
    expect(house.engine.commands.filter((command) => command.type === "worker.beat")).toEqual([]);
  });

  const doublyWrong = { healthy: "yes", metrics: 7 };
  it("[D14] looks at the envelope of a v2 frame before its payload: where both are wrong the envelope is named", async () => {
    const worker = await house.worker();

    worker.say("control.heartbeat", doublyWrong, { sender: { role: "worker" } });

    const { payload } = await worker.next("control.reset");
    expect(payload).toMatchObject({ code: "E.FRAME.INVALID", reason: expect.stringContaining("sender") });
    expect(payload["reason"]).not.toContain("payload");
  });

  it("[D14] looks at the envelope of a v1 frame before its payload, and says of a payload alone which field is wrong", async () => {
    const open = async () => {
      const worker = await house.dial({ dialect: "v1" });
      worker.say("handshake", handshakeV1(), asks);
      worker.say("register", olderRegister(), asks);
      for (let n = 0; n < 2; n += 1) await worker.next("ack");
      return worker;
    };
    const both = await open();
    both.say("heartbeat", doublyWrong, { sender: { role: "worker" } });
    const { payload } = await both.next("error");
    expect(payload).toMatchObject({ code: "E.FRAME.INVALID", message: expect.stringContaining("sender") });
    expect(payload["message"]).not.toContain("payload");

    const one = await open();
    one.say("heartbeat", doublyWrong);
    expect((await one.next("error")).payload["message"]).toContain("payload.healthy");
    expect((await one.closed).code).toBe(1011);
  });

  const bindings: readonly (readonly [what: string, more: Record<string, unknown>])[] = [
    ["tenant", { tenant: "other" }],
    ["sender id", { sender: { role: "worker", id: "w-2" } }],
    ["sender role", { sender: { role: "scheduler", id: "w-1" } }],
  ];
  for (const [what, more] of bindings)
    it(`[D11] closes a connection whose ${what} changes, on its second frame and on its thousandth, with an audit line`, async () => {
      for (const before of [0, 997]) {
        const worker = await house.worker();
        for (let n = 0; n < before; n += 1) worker.say("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });
        const beats = house.engine.commands.length;

        worker.say(
          "control.heartbeat",
          { healthy: true, metrics: { inflight: 77 }, held: [{ task_id: "r.0", fence: 77 }] },
          more,
        );

        expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.TENANT_MISMATCH" });
        await worker.closed;
        expect(house.outside.lines).toContainEqual(
          expect.objectContaining({ event: "session.mismatch", audit: true, tenant: "default", sender: { id: "w-1" } }),
        );
        expect(JSON.stringify(house.engine.commands.slice(beats))).not.toContain("77");
      }
    });

  it("[D4] refuses work before register, a register while joining, and a second handshake", async () => {
    const early = await house.dial();
    early.say("control.handshake", handshake(), asks);
    early.work("biz.exec.result", { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: {} });
    expect((await early.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.NOT_REGISTERED" });

    const twice = await house.worker();
    twice.say("control.handshake", handshake(), asks);
    expect((await twice.next("control.reset")).payload).toMatchObject({ code: "E.FRAME.INVALID" });

    house.engine.hold("worker.join");
    const hasty = await house.dial();
    hasty.say("control.handshake", handshake(), asks);
    hasty.say("control.register", register(), asks);
    hasty.say("control.register", register(), asks);
    expect((await hasty.next("control.reset")).payload).toMatchObject({ code: "E.FRAME.INVALID" });

    const unpacked = await house.dial();
    unpacked.say("control.handshake", handshake(), asks);
    unpacked.say("control.register", { capabilities: { concurrency: { max_parallel: 1 } } }, asks);
    unpacked.work("biz.exec.result", { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: {} });
    expect((await unpacked.next("control.reset")).payload).toMatchObject({ code: "E.SESSION.NOT_REGISTERED" });
  });

  it("[D15] gives a stranger 10 s and an authenticated worker 15 s to register", async () => {
    const silent = await house.dial();
    const lazy = await house.dial();
    lazy.say("control.handshake", handshake(), asks);
    await lazy.next("control.ack");

    house.outside.advance(sessionLimits.strangerMs);
    expect((await silent.next("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
    await silent.closed;
    await lazy.settle();
    house.outside.advance(sessionLimits.registerMs - sessionLimits.strangerMs);
    expect((await lazy.next("control.reset")).payload).toMatchObject({ code: "E.TIMEOUT" });
  });

  it("[D15] takes no more than 64 KiB from a stranger, in one frame or in many, and lets authenticated workers send more", async () => {
    const once = await house.dial();
    once.raw("x".repeat(sessionLimits.strangerBytesMax + 1));
    await once.closed;

    const fragments = await house.dial();
    for (let n = 0; n < 80; n += 1) fragments.socket.send("y".repeat(1024), { fin: false });
    await fragments.closed;

    const known = await house.worker();
    known.work("biz.exec.result", { run_id: "r", task_id: "r.0", status: "SUCCEEDED", result: { text: "z".repeat(200_000) } });
    expect((await house.engine.next("task.result")).result.length).toBeGreaterThan(200_000);
    expect(house.engine.commands.filter((command) => command.type === "worker.join")).toHaveLength(1);
  });

  it("[D15] refuses browsers unless their origin is listed, and tokens in the address", async () => {
    await expect(house.dial({ headers: { origin: "https://evil.example" } })).rejects.toThrow("403");
    const listed = await house.dial({ headers: { origin: "https://console.example" } });
    listed.socket.close();

    const worker = await house.dial();
    worker.say("control.handshake", handshake({ auth: { mode: "token" } }), asks);
    expect((await worker.next("control.reset")).payload).toMatchObject({ code: "E.AUTH.MISSING_TOKEN" });
  });

  it("[D15] knows one path for workers and answers any other upgrade with 404", async () => {
    const socket = connect(house.port, "127.0.0.1");
    const heard: string[] = [];
    socket.on("data", (data) => void heard.push(String(data)));
    socket.write(
      "GET /ws/other HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    );
    await new Promise<void>((resolve) => socket.on("close", () => resolve()));

    expect(heard.join("")).toMatch(/^HTTP\/1.1 404 /);
    expect(heard.join("")).toContain("E.ROUTE.UNKNOWN");
  });

  it("[D15] has room for a named number of connections and of strangers among them", async () => {
    const small = await openHouse({ limits: { connectionsMax: 3, strangersMax: 1 } });
    const stranger = await small.dial();
    await expect(small.dial()).rejects.toThrow("503");
    stranger.socket.close();
    await stranger.closed;

    await small.worker({ instance: "w-1" });
    await small.worker({ instance: "w-2" });
    await small.worker({ instance: "w-3" });
    await expect(small.dial()).rejects.toThrow("503");
    await small.stop();
  });

  it("[D93] lets newcomers in for strangers that have said nothing for a second, and never for those who wait their turn", () => {
    const outside = createFakeOutside();
    const gate = createFakeGate({ authenticate: tokens, now: () => outside.clock.now() });
    const limits = { strangersMax: 2, handshakesPerSecondMax: 1 };
    const hall = createSessionHall({ link: createFakeEngine().link, gate, outside, metrics: createMetrics(), limits });
    const sockets = [new PlainSocket(), new PlainSocket(), new PlainSocket(), new PlainSocket(), new PlainSocket()];
    const [silent, second, third, fourth, fifth] = sockets.map((socket) => () => hall.welcome(socket));
    silent?.();
    outside.advance(500);
    second?.();

    expect(hall.refusal()?.code).toBe("E.OVERLOADED");
    outside.advance(500);
    expect(hall.refusal()).toBe(null);
    third?.().message(say("control.handshake", handshake()), false);
    expect(sockets.map((socket) => socket.done.includes("terminate"))).toEqual([true, false, false, false, false]);

    // The first turn is taken: these two wait for theirs, each at the head of its tenant's line, and are the crowd.
    fourth?.().message(say("control.handshake", handshake()), false);
    const auth = { mode: "token", token: "secret-b" };
    fifth?.().message(say("control.handshake", handshake({ auth }), { tenant: "other" }), false);
    outside.advance(900);
    expect(hall.refusal()?.code).toBe("E.OVERLOADED");
    expect(sockets.slice(2).flatMap((socket) => socket.done)).not.toContain("terminate");
  });
});
