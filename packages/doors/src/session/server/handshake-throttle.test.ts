import { createFakeEngine, createFakeEnvironment } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { sampleTokens } from "../../testing/doors-fixture.ts";
import { createFakeAuthenticator } from "../../testing/fake-authenticator.ts";
import { handshakePayload } from "../../testing/fake-worker.ts";
import { encodeFrame, RecordingSocket } from "../../testing/recording-socket.ts";
import { type SessionLimits, sessionLimits } from "../connection/session-limits.ts";
import { handshakeThrottleLimits } from "./handshake-throttle.ts";
import { SessionServer } from "./session-server.ts";

const { address: addressRule, worker: workerRule, placesWhenSlowed, placesWhenSlowedAndKnown } = handshakeThrottleLimits;

function openServer(limits: Partial<SessionLimits> = {}) {
  const environment = createFakeEnvironment();
  const authenticator = createFakeAuthenticator({ authenticate: sampleTokens, now: () => environment.clock.now() });
  const metrics = createMetricsRegistry();
  const options = { engineClient: createFakeEngine().client, authenticator, environment, metrics };
  const server = new SessionServer({ ...options, limits: { resetCloseDelayMs: 0, handshakesPerSecondMax: 100_000, ...limits } });
  const connect = (address: string) => {
    const socket = new RecordingSocket(null, address);
    const events = server.acceptSocket(socket);
    return { socket, events };
  };
  const greet = (address: string, token: string, instance = "w-1") => {
    const { worker, ...payload } = handshakePayload({ auth: { mode: "token", token } });
    const text = { sender: { role: "worker", id: instance } };
    const opened = connect(address);
    opened.events.message(
      encodeFrame("control.handshake", { ...payload, worker: { ...worker, worker_instance_id: instance } }, text),
      false,
    );
    return opened;
  };
  /** The socket is closed by us, as its peer sees it. */
  const fail = (address: string, token: string, instance?: string) => {
    const opened = greet(address, token, instance);
    opened.events.closed(1011);
    return opened;
  };
  return { server, environment, metrics, connect, greet, fail };
}

const attacker = "198.51.100.7";

/** So many different wrong tokens that the next handshake has to wait for the longest time. */
function guess({ fail, environment }: Pick<ReturnType<typeof openServer>, "fail" | "environment">, address = attacker): void {
  for (let n = 0; n < addressRule.freeFailures + 5; n += 1) {
    fail(address, `wrong-${n}`, `guess-${n}`);
    environment.advance(addressRule.delayMsMax);
  }
  fail(address, "wrong-last", "guess-last");
  environment.advance(addressRule.delayMsMax);
  fail(address, "wrong-very-last", "guess-very-last");
}

describe("addresses that guess worker tokens", () => {
  it("[D653] handshakes from an address wait longer and longer after many different wrong tokens, and none is refused unread", () => {
    const { environment, greet } = openServer();
    const waits: number[] = [];

    for (let n = 0; n < addressRule.freeFailures + 6; n += 1) {
      const { socket } = greet(attacker, `wrong-${n}`, `w-${n}`);
      let waited = 0;
      for (; socket.types.length === 0 && waited < 60_000; waited += 500) environment.advance(500);
      expect(socket.sent.at(-1)?.payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
      waits.push(waited);
    }

    expect(waits.slice(0, addressRule.freeFailures)).toEqual(waits.slice(0, addressRule.freeFailures).map(() => 0));
    expect(waits.slice(-5)).toEqual([1_000, 2_000, 4_000, addressRule.delayMsMax, addressRule.delayMsMax]);
  });

  it("[D653] a new worker with the right token is admitted from a slowed address after the delay, and from other addresses at once", () => {
    const opened = openServer();
    const { environment, greet, metrics } = opened;
    guess(opened);

    const late = greet(attacker, "secret-a", "w-new");
    const elsewhere = greet("198.51.100.8", "secret-a", "w-other");

    expect(elsewhere.socket.types).toEqual(["control.ack"]);
    expect(late.socket.types).toEqual([]);
    environment.advance(addressRule.delayMsMax);
    expect(late.socket.types).toEqual(["control.ack"]);
    expect(metrics.render()).toMatch(/ws_handshake_delayed_total [1-9]/);
  });

  it("[D654] workers that joined from an address before do not wait for what others do there", () => {
    const opened = openServer();
    const { greet } = opened;
    for (let n = 0; n < 50; n += 1) greet(attacker, "secret-a", `w-${n}`);
    guess(opened);

    const back = Array.from({ length: 50 }, (_, n) => greet(attacker, "secret-a", `w-${n}`));

    expect(back.map(({ socket }) => socket.types)).toEqual(back.map(() => ["control.ack"]));
  });

  it("[D654] a guess at the name of a known worker waits after a few failures, and then so does that worker, but for seconds only", () => {
    const { environment, greet, fail } = openServer();
    greet(attacker, "secret-a", "w-1");
    for (let n = 0; n < workerRule.freeFailures + 4; n += 1) {
      fail(attacker, `wrong-${n}`, "w-1");
      environment.advance(workerRule.delayMsMax);
    }
    fail(attacker, "wrong-last", "w-1");

    const { socket } = greet(attacker, "secret-a", "w-1");

    expect(socket.types).toEqual([]);
    environment.advance(workerRule.delayMsMax);
    expect(socket.types).toEqual(["control.ack"]);
  });

  it("[D654] a fleet behind one gateway that keeps showing one expired token slows nobody else down", () => {
    const { environment, greet, fail } = openServer();
    for (let n = 0; n < 200; n += 1) fail(attacker, "expired-token", `w-${n % 40}`);
    environment.advance(workerRule.delayMsMax);

    expect(greet(attacker, "secret-a", "w-new").socket.types).toEqual(["control.ack"]);
  });

  it("[D653] an IPv6 network counts as one address, and names and addresses that are counted are bounded", () => {
    const { environment, greet, fail } = openServer();
    for (let n = 0; n < addressRule.freeFailures + 3; n += 1) fail(`2001:db8:7:7::${n.toString(16)}`, `wrong-${n}`, `w-${n}`);

    expect(greet("2001:db8:7:7:ffff::1", "secret-a").socket.types).toEqual([]);
    expect(greet("2001:db8:7:8::1", "secret-a", "w-2").socket.types).toEqual(["control.ack"]);
    environment.advance(addressRule.delayMsMax);
  });
});

describe("sockets without a handshake", () => {
  it("[D655] an address whose sockets send no handshake gets few places, with the time to wait, and others are not affected", () => {
    const { server, environment, connect } = openServer();
    for (let n = 0; n < addressRule.freeFailures + 4; n += 1) {
      const { events } = connect(attacker);
      environment.advance(sessionLimits.handshakeTimeoutMs + sessionLimits.sweepMs);
      events.closed(1011);
    }

    const accepted = Array.from({ length: placesWhenSlowed }, () => {
      const why = server.refusalReason(attacker);
      if (why === null) connect(attacker);
      return why;
    });

    expect(accepted).toEqual(accepted.map(() => null));
    expect(server.refusalReason(attacker)).toMatchObject({
      code: "E.AUTH.THROTTLED",
      details: { retryAfterMs: expect.any(Number) },
    });
    expect(server.refusalReason("198.51.100.8")).toBeNull();
    environment.advance(addressRule.delayMsMax);
    expect(server.refusalReason(attacker)).toBeNull();
  });

  it("[D655] an address that workers have joined from keeps more places while it is slowed", () => {
    const opened = openServer();
    const { server, connect, greet } = opened;
    greet(attacker, "secret-a", "w-1");
    guess(opened);

    for (let n = 0; n < placesWhenSlowedAndKnown; n += 1) {
      expect(server.refusalReason(attacker)).toBeNull();
      connect(attacker);
    }

    expect(server.refusalReason(attacker)?.code).toBe("E.AUTH.THROTTLED");
  });

  it("[D655] one address takes at most half of the places of sockets without a session, and all together no more than there are", () => {
    const { server, connect } = openServer({ unauthenticatedMax: 8, unauthenticatedPerAddressMax: 4 });
    for (let n = 0; n < 4; n += 1) connect(attacker);

    expect(server.refusalReason(attacker)?.code).toBe("E.AUTH.THROTTLED");
    for (let n = 0; n < 4; n += 1) {
      expect(server.refusalReason(`198.51.100.${100 + n}`)).toBeNull();
      connect(`198.51.100.${100 + n}`);
    }
    expect(server.refusalReason("198.51.100.200")?.code).toBe("E.OVERLOADED");
  });

  it("[D655] a newcomer takes the place of a silent socket of the address that has most of them", () => {
    const { server, environment, connect } = openServer({ unauthenticatedMax: 4 });
    const early = connect("198.51.100.8");
    const crowd = [connect(attacker), connect(attacker), connect(attacker)];
    environment.advance(sessionLimits.unauthenticatedGraceMs);

    expect(server.refusalReason("198.51.100.9")).toBeNull();
    connect("198.51.100.9");

    expect(early.socket.calls).not.toContain("terminate");
    expect(crowd.map(({ socket }) => socket.calls.includes("terminate"))).toEqual([true, false, false]);
  });
});
