import { describe, expect, it } from "vitest";
import { Rig, readyRig, succeeded } from "../test/link-rig.ts";

describe("loss of the connection", () => {
  it("[W7] dials again at once, then after a second, doubling", () => {
    const rig = new Rig();
    rig.link.begin();
    const waits: number[] = [];
    for (let loss = 0; loss < 4; loss++) {
      const lostAt = rig.now;
      const dials = rig.dials;
      rig.link.lost("refused");
      while (rig.dials === dials) rig.advance(Math.max(0, rig.wakeAt - rig.now));
      waits.push(rig.now - lostAt);
    }

    expect(waits).toEqual([0, 1_000, 2_000, 4_000]);
  });

  it("[W7] starts over with an immediate retry once a session has proved itself", () => {
    const rig = new Rig();
    rig.link.begin();
    for (let loss = 0; loss < 3; loss++) {
      rig.link.lost("refused");
      rig.advance(4_000);
    }
    rig.connect();
    rig.advance(1_000);
    const dials = rig.dials;

    rig.link.lost("gone");
    rig.advance(0);

    expect(rig.dials).toBe(dials + 1);
  });

  it("[W8] reports running and finished-but-unacked attempts and sends unacked results again under their fence", () => {
    const rig = readyRig();
    rig.dispatch("a", { fence: 3 });
    rig.dispatch("b", { fence: 4 });
    rig.dispatch("c", { fence: 5 });
    rig.finish("a");
    rig.finish("b");
    rig.ackWords(0);
    const [, unacked] = rig.frames("biz.exec.result");

    rig.link.lost("gone");
    rig.advance(0);
    rig.connect();

    expect(rig.payload("control.register").running).toEqual([
      { task_id: "b", fence: 4 },
      { task_id: "c", fence: 5 },
    ]);
    const again = rig.frames("biz.exec.result").slice(2);
    expect(again).toHaveLength(1);
    expect(again[0]).toMatchObject({ seq: 0, id: unacked?.id, payload: unacked?.payload });
    expect(rig.attempt("c").stop.isStopped).toBe(false);
  });

  it("[W8] sends a result that was finished while it was offline", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.flush();
    rig.link.lost("gone");
    rig.finish("a");
    expect(rig.frames("biz.exec.result")).toHaveLength(0);

    rig.advance(0);
    rig.connect();

    expect(rig.frames("biz.exec.result")).toHaveLength(1);
  });

  it("[W9] obeys a reset: a new handshake, no sooner than it was told", () => {
    const rig = readyRig();
    rig.advance(2_000);

    rig.say("control.reset", { code: "E.OVERLOADED", reason: "later", retry_after_ms: 7_000 });
    rig.advance(6_999);
    expect(rig.dials).toBe(1);
    rig.advance(1);

    expect(rig.dials).toBe(2);
    rig.connect();
    expect(rig.link.view.phase).toBe("READY");
  });

  it("[W9] pauses when another process has taken its identity, so that the two do not fight", () => {
    const rig = readyRig();
    rig.advance(2_000);

    rig.say("control.reset", { code: "E.SESSION.SUPERSEDED", reason: "a newer connection" });
    rig.advance(4_999);

    expect(rig.dials).toBe(1);
  });

  it("[W9] tells a refusal at the door from the reset of a session", () => {
    const rig = new Rig();
    rig.link.begin();
    rig.link.opened();

    rig.say("control.reset", { code: "E.AUTH.INVALID_TOKEN", reason: "wrong token" });

    expect(rig.noted("refused")[0]?.details).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
  });

  it("[W9] goes into BACKOFF when it is refused at the door, and waits longer after each refusal", () => {
    const rig = new Rig();
    rig.link.begin();
    const waits: number[] = [];
    const phases = new Set<string>();
    for (let refusal = 0; refusal < 4; refusal++) {
      rig.link.opened();
      const { now, dials } = rig;
      rig.say("control.reset", { code: "E.AUTH.INVALID_TOKEN", reason: "wrong token" });
      phases.add(rig.link.view.phase);
      while (rig.dials === dials) rig.advance(Math.max(0, rig.wakeAt - rig.now));
      waits.push(rig.now - now);
    }

    expect([...phases]).toEqual(["BACKOFF"]);
    expect(waits).toEqual([0, 1_000, 2_000, 4_000]);
  });

  it("[W18] finds the word that the scheduler cannot read, replaces it by an error and delivers the others", () => {
    const rig = readyRig();
    for (const task of ["a", "b", "c"]) rig.dispatch(task);
    rig.finish("a", succeeded({ text: "fine" }));
    rig.finish("b", succeeded({ text: "poison" }));
    rig.finish("c", succeeded({ text: "fine" }));
    const delivered: string[] = [];

    // A scheduler that chokes on the poison, wherever it comes.
    for (let round = 0; round < 10 && rig.link.view.unacked > 0; round++) {
      rig.say("control.reset", { code: "E.FRAME.INVALID", reason: "cannot read that" });
      rig.advance(60_000);
      const before = rig.sent.length;
      rig.connect();
      for (let seen = before; seen < rig.sent.length; seen++) {
        const frame = rig.sent[seen];
        if (frame?.seq === undefined || JSON.stringify(frame.payload).includes("poison")) continue;
        delivered.push(`${frame.type} ${frame.corr}`);
        rig.ackWords(frame.seq);
      }
    }

    expect(delivered.sort()).toEqual(["biz.exec.error b", "biz.exec.result a", "biz.exec.result c"]);
    expect(rig.link.view).toMatchObject({ held: 0, unacked: 0 });
    expect(rig.noted("word-condemned")).toHaveLength(1);
  });
});
