import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { Fault, type ResumePayload, resumeProofText } from "@astraflow/protocol";
import { sampleProvenResume } from "@astraflow/protocol/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { proofAgeToleranceMs, SessionPublicKey } from "../../auth/session-proof.ts";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { createResumeFixture, type ResumableSession, sessionTokenOf } from "../../testing/resume-fixture.ts";

function makeKey(): { readonly publicKey: string; readonly privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  return { publicKey: publicKey.export({ format: "jwk" }).x ?? "", privateKey };
}

function proofOf(
  { session, token }: Pick<ResumableSession, "session" | "token">,
  { privateKey }: { readonly privateKey: KeyObject },
  { count = 1, age_ms = 0 } = {},
): { readonly proof: NonNullable<ResumePayload["proof"]> } {
  const text = resumeProofText({ session_id: session, session_token: token, proof: { count, age_ms } });
  return { proof: { count, age_ms, signature: sign(null, Buffer.from(text), privateKey).toString("base64url") } };
}

describe("a session that was opened with a key", () => {
  let fixture: DoorsFixture;
  const key = makeKey();
  beforeEach(async () => {
    fixture = await openDoorsFixture();
  });
  afterEach(() => fixture.stop());
  const { open, lose, ask } = createResumeFixture(() => fixture);
  const openWithKey = () => open({ sessionKey: key.publicKey });

  it("[D650] a worker that brought a key in its handshake is told that proofs are asked for, and others are not", async () => {
    const features = ({ worker }: ResumableSession) =>
      worker.frames.findLast(({ type }) => type === "control.session.accept")?.payload["features"];

    expect(features(await openWithKey())).toEqual(["fence", "cancel", "held", "proof"]);
    expect(features(await open({ instance: "w-2" }))).toEqual(["fence", "cancel", "held"]);
  });

  it("[D650] a session with a key is resumed by the holder of the key, also from a socket that still looks open", async () => {
    const accepted = await openWithKey();

    const first = await ask(accepted, proofOf(accepted, key));
    await first.worker.nextFrame("control.session.accept");
    await lose({ ...accepted, worker: first.worker });
    const renewed = { ...accepted, token: sessionTokenOf(first.worker) };
    const second = await ask(renewed, proofOf(renewed, key, { count: 2 }));
    await second.worker.nextFrame("control.session.accept");

    expect(await accepted.worker.closed).toEqual({ code: 1011, reason: "superseded session" });
    expect(fixture.engine.commands.filter(({ type }) => type === "docs.write")).toEqual([]);
  });

  const wrongProofs: readonly (readonly [string, (accepted: ResumableSession) => object])[] = [
    ["no proof", () => ({})],
    ["a proof of another key", (accepted) => proofOf(accepted, makeKey())],
    ["a proof for another session", ({ token }) => proofOf({ session: "another", token }, key)],
    ["a proof for another token", ({ session }) => proofOf({ session, token: "another" }, key)],
    ["a count that was not signed", (accepted) => ({ proof: { ...proofOf(accepted, key).proof, count: 2 } })],
    ["an age that was not signed", (accepted) => ({ proof: { ...proofOf(accepted, key).proof, age_ms: 1 } })],
    ["a proof of long ago", (accepted) => proofOf(accepted, key, { age_ms: proofAgeToleranceMs + 1 })],
  ];
  it.each(wrongProofs)(
    "[D650] a resume with %s is refused while the session is live, whose socket does not notice",
    async (_what, more) => {
      const accepted = await openWithKey();

      const { worker } = await ask(accepted, more(accepted));

      expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_PROOF" });
      await accepted.worker.untilProcessed();
      expect(accepted.worker.frames.at(-1)?.type).toBe("control.session.accept");
      expect(fixture.engine.commands.map(({ type }) => type)).toEqual(["worker.join"]);
      const good = await ask(accepted, proofOf(accepted, key));
      await good.worker.nextFrame("control.session.accept");
    },
  );

  it.each(wrongProofs)(
    "[D650] a resume with %s is refused after the socket is lost, and the session stays resumable",
    async (_what, more) => {
      const accepted = await openWithKey();
      await lose(accepted);

      const { worker } = await ask(accepted, more(accepted));

      expect((await worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_PROOF" });
      const good = await ask(accepted, proofOf(accepted, key));
      await good.worker.nextFrame("control.session.accept");
    },
  );

  it("[D651] a recorded resume is refused while it is being answered, and after its session has got a new token", async () => {
    const { engine } = fixture;
    const accepted = await openWithKey();
    await lose(accepted);
    const proof = proofOf(accepted, key, { count: 7 });
    engine.holdAnswers("worker.join");
    const original = await ask(accepted, proof);
    await engine.nextCommand("worker.join");

    const early = await ask(accepted, proof);
    expect((await early.worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_PROOF" });
    const older = await ask(accepted, proofOf(accepted, key, { count: 6 }));
    expect((await older.worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_PROOF" });
    engine.releaseAnswers("worker.join");
    await original.worker.nextFrame("control.session.accept");
    const late = await ask(accepted, proof);

    expect((await late.worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_TOKEN" });
    await original.worker.untilProcessed();
    expect(original.worker.frames.at(-1)?.type).toBe("control.session.accept");
  });

  it("[D651] a proof counts by the age of the token on both clocks, whatever time of day they show", async () => {
    const accepted = await openWithKey();
    fixture.environment.advance(10_000);
    await lose(accepted);
    fixture.environment.advance(60_000);

    const kept = await ask(accepted, proofOf(accepted, key, { count: 1, age_ms: 9_000 }));
    expect((await kept.worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.INVALID_PROOF" });
    const fresh = await ask(accepted, proofOf(accepted, key, { count: 2, age_ms: 70_000 }));

    await fresh.worker.nextFrame("control.session.accept");
  });

  it("[D650] both ends mean the same text by a proof", () => {
    const verifier = new SessionPublicKey(sampleProvenResume.publicKey);

    expect(verifier.checkProof(sampleProvenResume.resume, 2_000)).toBeNull();
    expect(verifier.checkProof(sampleProvenResume.resume, 2_000)).toBeInstanceOf(Fault);
  });
});

describe("a session without a key that somebody else resumes", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());
  const { open, ask } = createResumeFixture(() => fixture);
  const from = (address: string) => ({ headers: { "x-forwarded-for": address } });

  it("[D652] a resume of a live session without a key takes over: the older socket is told, and the audit keeps both addresses", async () => {
    fixture = await openDoorsFixture({ trustedProxies: ["127.0.0.1"] });
    const accepted = await open(from("198.51.100.7"));

    const { worker } = await ask(accepted, {}, from("203.0.113.9"));
    await worker.nextFrame("control.session.accept");

    expect((await accepted.worker.nextFrame("control.reset")).payload).toMatchObject({ code: "E.SESSION.SUPERSEDED" });
    expect(await accepted.worker.closed).toEqual({ code: 1011, reason: "superseded session" });
    expect(fixture.engine.commands.find(({ type }) => type === "docs.write")).toMatchObject({
      tenant: "default",
      by: "ann",
      puts: [],
      audit: {
        action: "worker.session.takeover",
        targetType: "worker",
        target: "w-1",
        outcome: "ok",
        data: { address: "203.0.113.9", formerAddress: "198.51.100.7", session: accepted.session },
      },
    });
  });
});
