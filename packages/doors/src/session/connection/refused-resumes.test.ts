import { joinAnswer } from "@astraflow/services/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SessionTokenClaims } from "../../auth/worker-session-tokens.ts";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload, registerPayload } from "../../testing/fake-worker.ts";
import { ackRequested, createResumeFixture, type ResumableSession, sessionTokenOf } from "../../testing/resume-fixture.ts";
import { sampleDispatch } from "../../testing/sample-dispatch.ts";
import { sessionLimits } from "./session-limits.ts";

describe("whom a resume refuses, and when a session is over", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());

  const { open, lose, ask } = createResumeFixture(() => fixture);

  /** A token signed by us whose claims differ from those of the first one. */
  const forge = (other: Partial<SessionTokenClaims>): string => {
    const [claims] = fixture.authenticator.issued;
    if (claims === undefined) throw new Error("no token was issued");
    return `session-token-${fixture.authenticator.issued.push({ ...claims, ...other }) - 1}`;
  };

  type Change = (accepted: ResumableSession) => {
    ask?: Partial<ResumableSession>;
    more?: object;
    options?: Parameters<DoorsFixture["connectWorker"]>[0];
  };
  const refusals: readonly (readonly [what: string, code: string, change: Change])[] = [
    [
      "a session nobody knows any more",
      "E.SESSION.UNKNOWN",
      () => ({ ask: { session: "no-such", token: forge({ sid: "no-such", wid: "w-9" }) }, options: { instance: "w-9" } }),
    ],
    ["a session of another tenant", "E.SESSION.TENANT_MISMATCH", () => ({ options: { tenant: "other" } })],
    ["a session that is not the worker's", "E.SESSION.MISMATCH", () => ({ ask: { session: "another" } })],
    ["another worker's session", "E.SESSION.MISMATCH", () => ({ options: { instance: "w-9" } })],
    ["another process of the worker", "E.SESSION.MISMATCH", () => ({ more: { boot_id: "boot-2" } })],
    ["a token that was never issued", "E.SESSION.INVALID_TOKEN", () => ({ ask: { token: "session-token-77" } })],
    [
      "a token that is over",
      "E.SESSION.INVALID_TOKEN",
      () => {
        fixture.authenticator.expireSessionTokens();
        return {};
      },
    ],
  ];
  for (const [what, code, change] of refusals)
    it(`[D24] a resume with ${what} is refused with ${code}, an audit line and close code 1011, and the engine is not asked`, async () => {
      const accepted = await open();
      await lose(accepted);
      const before = fixture.engine.commands.length;

      const { ask: asked, more, options } = change(accepted);
      const { worker } = await ask({ ...accepted, ...asked }, more, options);

      expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code });
      expect((await worker.closed).code).toBe(1011);
      expect(fixture.engine.commands).toHaveLength(before);
      expect(fixture.environment.logRecords).toContainEqual(
        expect.objectContaining({ event: "session.refused", audit: true, code }),
      );
      expect(JSON.stringify(fixture.environment.logRecords)).not.toContain("session-token");
    });

  it("[D24] a resume is refused with E.SESSION.NOT_REGISTERED while a newer session of the worker is not accepted yet", async () => {
    const accepted = await open();
    await lose(accepted);
    fixture.engine.holdAnswers("worker.join");
    const worker = await fixture.connectWorker();
    worker.sendFrame("control.handshake", handshakePayload(), ackRequested);
    worker.sendFrame("control.register", registerPayload(), ackRequested);
    await fixture.engine.nextCommand("worker.join");

    const { worker: other } = await ask(accepted);

    expect((await other.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.NOT_REGISTERED" });
  });

  it("[D91] a resume without a valid session token always gets the same answer, whatever workers and sessions there are", async () => {
    const live = await open({ instance: "w-1" });
    const left = await open({ instance: "w-2" });
    await lose(left);
    fixture.engine.holdAnswers("worker.join");
    const joining = await fixture.connectWorker({ instance: "w-3" });
    joining.sendFrame(
      "control.handshake",
      handshakePayload({ worker: { ...handshakePayload().worker, worker_instance_id: "w-3" } }),
      ackRequested,
    );
    joining.sendFrame("control.register", registerPayload(), ackRequested);
    const { session: unaccepted } = await fixture.engine.nextCommand("worker.join");

    const answers = new Set<string>();
    for (const session of [live.session, left.session, unaccepted, "no-such"])
      for (const instance of ["w-1", "w-2", "w-3", "w-9"])
        for (const tenant of ["default", "other"])
          for (const boot_id of ["boot-1", "boot-9"]) {
            const { worker } = await ask({ session, token: "forged" }, { boot_id }, { instance, tenant });
            answers.add(JSON.stringify((await worker.nextFrame("control.reset")).payload));
            expect((await worker.closed).code).toBe(1011);
          }

    expect(answers.size).toBe(1);
    expect([...answers].join()).toContain("E.SESSION.INVALID_TOKEN");
    await live.worker.untilProcessed();
    expect(live.worker.socket.readyState).toBe(live.worker.socket.OPEN);
  });

  it("[D91] a resume with a valid session token reveals only that token's own worker, and nothing if it shows another key", async () => {
    const mine = await open({ instance: "w-1" });
    const theirs = await open({ instance: "w-2" });

    const answers = new Set<string>();
    for (const session of [theirs.session, "no-such"])
      for (const instance of ["w-2", "w-9"]) {
        const { worker } = await ask({ session, token: mine.token }, {}, { instance });
        answers.add(JSON.stringify((await worker.nextFrame("control.reset")).payload));
      }
    expect(answers.size).toBe(1);
    expect([...answers].join()).toContain("E.SESSION.MISMATCH");

    const stolen = forge({ cnf: "thumbprint-of-another-key" });
    const { worker: thief } = await ask({ session: mine.session, token: stolen });
    const { worker: stranger } = await ask({ session: mine.session, token: "forged" });
    const codes = [await thief.nextFrame("control.reset"), await stranger.nextFrame("control.reset")].map(
      (reset) => reset.payload["code"],
    );
    expect(codes).toEqual(["E.SESSION.INVALID_TOKEN", "E.SESSION.INVALID_TOKEN"]);
  });

  it("[D24] a resume with a session token whose successor was issued is refused: a copy of it resumes nothing", async () => {
    const accepted = await open();
    await lose(accepted);
    const { worker } = await ask(accepted);
    await worker.nextFrame("control.session.accept");

    const { worker: thief } = await ask(accepted);

    expect((await thief.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_TOKEN" });
    await worker.untilProcessed();
    expect(worker.socket.readyState).toBe(worker.socket.OPEN);
  });

  for (const [other, code] of [
    [{ sid: "another" }, "E.SESSION.INVALID_TOKEN"],
    [{ wid: "w-9" }, "E.SESSION.MISMATCH"],
    [{ tenant: "other" }, "E.SESSION.TENANT_MISMATCH"],
    [{ dialect: "first" }, "E.SESSION.UNKNOWN"],
  ] as const)
    it(`[D24] a resume with a valid token whose ${Object.keys(other).join()} is not the session's is refused with ${code}`, async () => {
      const accepted = await open();
      await lose(accepted);

      const { worker } = await ask({ ...accepted, token: forge(other) });

      expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code });
    });

  it("[D24] a session ends if its resume contradicts its sequence numbers, or if the engine refuses it as a stale binding", async () => {
    const { engine } = fixture;
    const liar = await open();
    await lose(liar);
    const { worker } = await ask(liar, { last_seen_seq: 4 });
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.ACK_UNSENT" });

    const gone = await open({ instance: "w-2" });
    await lose(gone);
    engine.answerWith("worker.join", () => ({ fault: { code: "E.SESSION.STALE_BINDING", message: "the lease is over" } }));
    const { worker: late } = await ask(gone, {}, { instance: "w-2" });
    expect((await late.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    engine.answerWith("worker.join", () => ({ body: joinAnswer }));
    const { worker: again } = await ask(gone, {}, { instance: "w-2" });
    expect((await again.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
  });

  it("[D25] a session is given up after 120 s without a socket, or if it holds more than 8 MiB", async () => {
    const { engine } = fixture;
    const early = await open({ instance: "w-1" });
    await lose(early);
    fixture.environment.advance(sessionLimits.resumeTimeoutMs - 1_000);
    const { worker } = await ask(early);
    await worker.nextFrame("control.session.accept");
    const back = { ...early, worker, token: sessionTokenOf(worker) };
    await lose(back);
    fixture.environment.advance(sessionLimits.resumeTimeoutMs);
    const { worker: late } = await ask(back);
    expect((await late.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });

    const heavy = await open({ instance: "w-2" });
    const params = JSON.stringify({ text: "x".repeat(1_000_000) });
    engine.emitEffects(...Array.from({ length: 9 }, (_, n) => sampleDispatch(heavy.session, `r.${n}`, 7, { params })));
    await heavy.worker.nextFrame("biz.exec.dispatch");
    await lose(heavy);
    const { worker: refused } = await ask(heavy, {}, { instance: "w-2" });
    expect((await refused.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
  });

  it("[D25] the session door gives up the older session for the newer if too many wait for their workers to reconnect", async () => {
    await fixture.stop();
    fixture = await openDoorsFixture({ limits: { detachedMax: 1 } });
    const one = await open({ instance: "w-1" });
    const two = await open({ instance: "w-2" });
    await lose(one);
    await lose(two);

    const { worker: first } = await ask(one, {}, { instance: "w-1" });
    const { worker: second } = await ask(two, {}, { instance: "w-2" });

    expect((await first.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
    expect((await second.nextFrame("control.session.accept")).payload).toMatchObject({ resumed: true });
  });

  it("[D25] a session cannot be resumed once its worker has made a new handshake or was reset, or if the session door resumes nothing", async () => {
    const { engine } = fixture;
    const left = await open();
    await lose(left);
    const fresh = await open();
    expect(fresh.session).not.toBe(left.session);
    const { worker: stale } = await ask(left);
    expect((await stale.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.MISMATCH" });

    engine.emitEffects({
      type: "reset",
      session: fresh.session,
      worker: "default/w-1",
      code: "E.AUTH.INVALID_TOKEN",
      reason: "kicked",
    });
    expect((await fresh.worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.AUTH.INVALID_TOKEN" });
    const { worker: kicked } = await ask(fresh);
    expect((await kicked.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });

    await fixture.stop();
    fixture = await openDoorsFixture({ limits: { resumeTimeoutMs: 0 } });
    const accepted = await open();
    const { worker: hasty } = await ask(accepted);
    expect((await hasty.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
    await lose(accepted);
    const { worker } = await ask(accepted);
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });
  });

  it("[D25] a session ends at its worker's new handshake, or at the accept of the new one if its socket is lost in between", async () => {
    const { engine } = fixture;
    const early = await open({ instance: "w-1" });
    await lose(early);
    const again = await fixture.connectWorker();
    again.sendFrame("control.handshake", handshakePayload(), ackRequested);
    await again.nextFrame("control.ack");
    const { worker } = await ask(early);
    expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.UNKNOWN" });

    const late = await open({ instance: "w-1" });
    const next = await fixture.connectWorker();
    next.sendFrame("control.handshake", handshakePayload(), ackRequested);
    await next.nextFrame("control.ack");
    await lose(late);
    const ended = () =>
      fixture.environment.logRecords.some(
        (connection) => connection.event === "session.ended" && connection["session"] === late.session,
      );
    expect(ended()).toBe(false);
    next.sendFrame("control.register", registerPayload(), ackRequested);
    await next.nextFrame("control.session.accept");

    expect(ended()).toBe(true);
    expect(engine.problems).toEqual([]);
  });

  it("[D25] a live session stays when a newer one of its worker is refused, and ends when a newer one is accepted", async () => {
    const { engine } = fixture;
    const accepted = await open();
    engine.answerWith("worker.join", () => ({ fault: { code: "E.SESSION.DENIED", message: "another process is live" } }));
    const clone = await fixture.connectWorker();
    clone.sendFrame("control.handshake", handshakePayload(), ackRequested);
    clone.sendFrame("control.register", registerPayload({ boot_id: "boot-2" }), ackRequested);
    await clone.nextFrame("control.reset");
    engine.answerWith("worker.join", () => ({ body: joinAnswer }));
    await lose(accepted);
    const { worker } = await ask(accepted);
    await worker.nextFrame("control.session.accept");

    const newer = await open();
    worker.socket.terminate();
    await engine.nextCommand("worker.leave");
    const { worker: old } = await ask({ session: accepted.session, token: sessionTokenOf(worker) });

    expect((await old.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.MISMATCH" });
    expect(fixture.environment.logRecords).toContainEqual(
      expect.objectContaining({ event: "session.ended", session: accepted.session }),
    );
    expect(newer.worker.socket.readyState).toBe(newer.worker.socket.OPEN);
  });
});
