import { describe, expect, it } from "vitest";
import { LinkHarness, readyLinkHarness, succeededOutcome } from "../../test/link-harness.ts";

describe("loss of the connection", () => {
  it("[W7] a worker that lost its connection dials again at once, then after a second, doubling", () => {
    const harness = new LinkHarness();
    harness.link.start();
    const waits: number[] = [];
    for (let loss = 0; loss < 4; loss++) {
      const lostAt = harness.now;
      const dials = harness.dials;
      harness.link.connectionLost("refused");
      while (harness.dials === dials) harness.advance(Math.max(0, harness.wakeAt - harness.now));
      waits.push(harness.now - lostAt);
    }

    expect(waits).toEqual([0, 1_000, 2_000, 4_000]);
  });

  it("[W7] a worker starts over with an immediate retry once a session has proved stable", () => {
    const harness = new LinkHarness();
    harness.link.start();
    for (let loss = 0; loss < 3; loss++) {
      harness.link.connectionLost("refused");
      harness.advance(4_000);
    }
    harness.openSession();
    harness.advance(1_000);
    const dials = harness.dials;

    harness.link.connectionLost("gone");
    harness.advance(0);

    expect(harness.dials).toBe(dials + 1);
  });

  it("[W7] a worker whose sessions end as soon as they begin waits longer each time", () => {
    const harness = new LinkHarness();
    harness.link.start();
    const waits: number[] = [];
    for (let loss = 0; loss < 4; loss++) {
      harness.openSession();
      const { now, dials } = harness;
      harness.link.connectionLost("gone");
      while (harness.dials === dials) harness.advance(Math.max(0, harness.wakeAt - harness.now));
      waits.push(harness.now - now);
    }

    expect(waits).toEqual([0, 1_000, 2_000, 4_000]);
  });

  it("[W8] a reconnected worker reports running and finished-but-unacked attempts and sends unacked results again under their fence", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { fence: 3 });
    harness.dispatch("b", { fence: 4 });
    harness.dispatch("c", { fence: 5 });
    harness.finish("a");
    harness.finish("b");
    harness.ackUpTo(0);
    const [, unacked] = harness.frames("biz.exec.result");

    harness.link.connectionLost("gone");
    harness.advance(0);
    harness.openSession();

    expect(harness.payload("control.register").running).toEqual([
      { task_id: "b", fence: 4 },
      { task_id: "c", fence: 5 },
    ]);
    const again = harness.frames("biz.exec.result").slice(2);
    expect(again).toHaveLength(1);
    expect(again[0]).toMatchObject({ seq: 0, id: unacked?.id, payload: unacked?.payload });
    expect(harness.attempt("c").stopSignal.isStopped).toBe(false);
  });

  it("[W8] a reconnected worker sends a result that was finished while it was offline", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.flush();
    harness.link.connectionLost("gone");
    harness.finish("a");
    expect(harness.frames("biz.exec.result")).toHaveLength(0);

    harness.advance(0);
    harness.openSession();

    expect(harness.frames("biz.exec.result")).toHaveLength(1);
  });

  it("[W9] a worker that is reset makes a new handshake, no sooner than the reset allows", () => {
    const harness = readyLinkHarness();
    harness.advance(2_000);

    harness.sendToLink("control.reset", { code: "E.OVERLOADED", reason: "later", retry_after_ms: 7_000 });
    harness.advance(6_999);
    expect(harness.dials).toBe(1);
    harness.advance(1);

    expect(harness.dials).toBe(2);
    harness.openSession();
    expect(harness.link.status.phase).toBe("READY");
  });

  it("[W9] a worker pauses when another process has taken its identity, so that the two do not fight", () => {
    for (const code of ["E.SESSION.SUPERSEDED", "E.SESSION.DENIED"]) {
      const harness = readyLinkHarness();
      harness.advance(2_000);

      harness.sendToLink("control.reset", { code, reason: "a newer connection" });
      harness.advance(4_999);

      expect(harness.dials).toBe(1);
    }
  });

  it("[W9] a worker logs a reset during the handshake as a refusal at the session door, not as the reset of a session", () => {
    const harness = new LinkHarness();
    harness.link.start();
    harness.link.connectionOpened();

    harness.sendToLink("control.reset", { code: "E.AUTH.INVALID_TOKEN", reason: "wrong token" });

    expect(harness.eventsNamed("refused")[0]?.details).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
  });

  it("[W9] a worker enters BACKOFF when it is refused at the session door, and waits longer after each refusal", () => {
    const harness = new LinkHarness();
    harness.link.start();
    const waits: number[] = [];
    const phases = new Set<string>();
    for (let refusal = 0; refusal < 4; refusal++) {
      harness.link.connectionOpened();
      const { now, dials } = harness;
      harness.sendToLink("control.reset", { code: "E.AUTH.INVALID_TOKEN", reason: "wrong token" });
      phases.add(harness.link.status.phase);
      while (harness.dials === dials) harness.advance(Math.max(0, harness.wakeAt - harness.now));
      waits.push(harness.now - now);
    }

    expect([...phases]).toEqual(["BACKOFF"]);
    expect(waits).toEqual([0, 1_000, 2_000, 4_000]);
  });

  it("[W18] a worker finds the result that the scheduler cannot read, replaces it by an error and delivers the others", () => {
    const harness = readyLinkHarness();
    for (const task of ["a", "b", "c"]) harness.dispatch(task);
    harness.finish("a", succeededOutcome({ text: "fine" }));
    harness.finish("b", succeededOutcome({ text: "poison" }));
    harness.finish("c", succeededOutcome({ text: "fine" }));
    const delivered: string[] = [];

    // A scheduler that chokes on the poison, wherever it comes.
    for (let round = 0; round < 10 && harness.link.status.unacked > 0; round++) {
      harness.sendToLink("control.reset", { code: "E.FRAME.INVALID", reason: "cannot read that" });
      harness.advance(60_000);
      const before = harness.sent.length;
      harness.openSession();
      for (let seen = before; seen < harness.sent.length; seen++) {
        const frame = harness.sent[seen];
        if (frame?.seq === undefined || JSON.stringify(frame.payload).includes("poison")) continue;
        delivered.push(`${frame.type} ${frame.corr}`);
        harness.ackUpTo(frame.seq);
      }
    }

    expect(delivered.sort()).toEqual(["biz.exec.error b", "biz.exec.result a", "biz.exec.result c"]);
    expect(harness.link.status).toMatchObject({ held: 0, unacked: 0 });
    expect(harness.eventsNamed("word-condemned")).toHaveLength(1);
  });
});
