import { createHmac } from "node:crypto";
import { Fault } from "@astraflow/protocol";
import { rotateKeys, type SigningKey } from "@astraflow/services";
import { describe, expect, it } from "vitest";
import { SessionTokens } from "./worker-session-tokens.ts";

const hourMs = 3_600_000;
const key = (kid: string, secret = kid.repeat(32), madeAt = 0): SigningKey => ({ kid, secret: Buffer.from(secret), madeAt });

/** Wall and monotonic time that a test moves one by one. */
function createFixture({ keys = [key("k1")], audience = "prod/east", lifeMs = hourMs } = {}) {
  const time = { wall: 1_760_000_000_000, ticks: 5_000 };
  let names = 0;
  const ring = { now: keys };
  const tokens = new SessionTokens({
    keys: { keys: () => ring.now },
    audience,
    sessionTokenMs: lifeMs,
    environment: {
      clock: { now: () => time.wall, monotonic: () => time.ticks },
      ids: { next: () => `jti-${++names}` },
    },
  });
  const pass = (ms: number): void => {
    time.wall += ms;
    time.ticks += ms;
  };
  return { tokens, time, ring, pass };
}

const session = { sid: "s-1", wid: "w-1", tenant: "acme", dialect: "v2", thumbprint: null } as const;
const isRefused = (answer: unknown): boolean => answer instanceof Fault && answer.code === "E.SESSION.INVALID_TOKEN";
const bodyOf = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString());

/** A token with other claims under a right signature, as only somebody with the key can make it. */
function forge(token: string, change: Record<string, unknown>, secret = "k1".repeat(32)): string {
  const body = Buffer.from(JSON.stringify({ ...bodyOf(token), ...change })).toString("base64url");
  return `${body}.${createHmac("sha256", secret).update(body).digest("base64url")}`;
}

describe("a session token", () => {
  it("[D82] a session token contains session, worker, tenant, dialect, type, id, times, key id and audience, and nothing else", () => {
    const { tokens, time } = createFixture();

    const issued = tokens.issue(session);

    const iat = Math.floor(time.wall / 1_000);
    const claims = { sid: "s-1", wid: "w-1", tenant: "acme", dialect: "v2", jti: "jti-1", kid: "k1", aud: "prod/east" };
    expect(bodyOf(issued.token)).toEqual({ ...claims, iat, exp: iat + 3_600, typ: "astraflow-session" });
    expect(issued).toMatchObject({ jti: "jti-1", expiresAt: time.wall + hourMs });
    expect(tokens.read(issued.token)).toEqual({ ...claims, iat, exp: iat + 3_600 });
    expect(tokens.read(forge(issued.token, {}))).toEqual({ ...claims, iat, exp: iat + 3_600 });
  });

  it("[D82] a session token names the certificate it is bound to, if there is one", () => {
    const { tokens } = createFixture();

    const issued = tokens.issue({ ...session, thumbprint: "thumb" });

    expect(tokens.read(issued.token)).toMatchObject({ cnf: "thumb" });
    expect(tokens.read(tokens.issue(session).token)).not.toHaveProperty("cnf");
  });

  it("[D83] a session token is refused if any bit of it is flipped, or if it is shortened or lengthened", () => {
    const { tokens } = createFixture();
    const { token } = tokens.issue(session);

    const accepted: string[] = [];
    for (let at = 0; at < token.length; at += 1) {
      for (let bit = 0; bit < 8; bit += 1) {
        const flipped = `${token.slice(0, at)}${String.fromCharCode(token.charCodeAt(at) ^ (1 << bit))}${token.slice(at + 1)}`;
        if (!isRefused(tokens.read(flipped))) accepted.push(flipped);
      }
      if (!isRefused(tokens.read(token.slice(0, at)))) accepted.push(token.slice(0, at));
      if (!isRefused(tokens.read(token.slice(at + 1)))) accepted.push(token.slice(at + 1));
    }
    for (const more of ["A", "=", ".", ` `, "\n", `.${token}`])
      if (!isRefused(tokens.read(token + more))) accepted.push(token + more);

    expect(accepted).toEqual([]);
  });

  it("[D83] a session token is refused without a signature, with an algorithm header, under another key and if malformed", () => {
    const { tokens } = createFixture();
    const { token } = tokens.issue(session);
    const [body = ""] = token.split(".");
    const header = Buffer.from(`{"alg":"none"}`).toString("base64url");

    const wrong = [
      body,
      `${body}.`,
      `${header}.${body}.`,
      `${header}.${token}`,
      forge(token, {}, "other"),
      "",
      ".",
      "x".repeat(9_000),
    ];

    expect(wrong.filter((one) => !isRefused(tokens.read(one)))).toEqual([]);
  });

  it.each([
    ["another audience", { aud: "prod/west" }],
    ["another kind", { typ: "JWT" }],
    ["the name of another key", { kid: "k2" }],
    ["an unknown dialect", { dialect: "v9" }],
    ["no session", { sid: undefined }],
    ["an empty worker", { wid: "" }],
    ["a tenant that is no text", { tenant: 7 }],
    ["an end that is a text", { exp: "1760003600" }],
    ["an end that is no whole number", { exp: 1_760_003_600.5 }],
    ["an end far away", { exp: 99_999_999_999 }],
    ["an end beyond all numbers", { exp: 1e300 }],
    ["an end before its beginning", { iat: 1_760_000_030, exp: 1_760_000_020 }],
    ["no end", { exp: undefined }],
    ["a beginning that is not yet", { iat: 1_760_000_066 }],
    ["a binding that is no text", { cnf: {} }],
  ])("[D83] a session token is refused with %s, though its signature is right", (_what, change) => {
    const { tokens } = createFixture();
    const { token } = tokens.issue(session);

    expect(isRefused(tokens.read(forge(token, change)))).toBe(true);
    expect(isRefused(tokens.read(token))).toBe(false);
  });

  it("[D83] a session token is valid until exactly its expiry and refused from then on", () => {
    const { tokens, pass } = createFixture();
    const { token } = tokens.issue(session);

    pass(hourMs - 1);
    expect(isRefused(tokens.read(token))).toBe(false);
    pass(1);
    expect(isRefused(tokens.read(token))).toBe(true);
  });

  it.each([hourMs, -hourMs, -1_760_000_000_000])(
    "[D84] a session token's expiry follows monotonic time when the wall clock jumps by %d ms",
    (jumpMs) => {
      const { tokens, time, pass } = createFixture();
      const { token } = tokens.issue(session);

      time.wall += jumpMs;

      expect(isRefused(tokens.read(token))).toBe(false);
      const later = tokens.issue(session);
      expect(isRefused(tokens.read(later.token))).toBe(false);
      expect(later.expiresAt).toBe(time.wall + hourMs);
      pass(hourMs);
      expect([token, later.token].map((one) => tokens.read(one)).every(isRefused)).toBe(true);
    },
  );

  it("[D84] a session token from a process whose clock was ahead by at most a minute is accepted", () => {
    const before = createFixture();
    before.pass(59_000);

    expect(isRefused(createFixture().tokens.read(before.tokens.issue(session).token))).toBe(false);
    before.pass(2_000);
    expect(isRefused(createFixture().tokens.read(before.tokens.issue(session).token))).toBe(true);
  });
});

describe("the ring of session keys", () => {
  const dayMs = 24 * hourMs;
  const turn = (keys: readonly SigningKey[], now: number) =>
    rotateKeys(keys, now, { ageMs: dayMs, lifeMs: hourMs, make: () => ({ kid: `at-${now}`, secret: Buffer.from(String(now)) }) });

  it("[D85] the session key ring gets a new key when the last is old enough, and drops an old one when its last token has expired", () => {
    const first = turn([], 0);
    expect(first.map(({ kid }) => kid)).toEqual(["at-0"]);
    expect(turn(first, dayMs - 1)).toBe(first);

    const two = turn(first, dayMs);
    expect(two.map(({ kid }) => kid)).toEqual(["at-0", `at-${dayMs}`]);
    expect(turn(two, dayMs + hourMs)).toBe(two);
    expect(turn(two, dayMs + hourMs + 1).map(({ kid }) => kid)).toEqual([`at-${dayMs}`]);
  });

  it("[D85] session tokens are signed with the newest key and accepted under both; once removed, the old key is not accepted", () => {
    const { tokens, ring, pass } = createFixture();
    const old = tokens.issue(session).token;
    pass(60_000);

    ring.now = [key("k1"), key("k2")];
    const fresh = tokens.issue(session).token;

    expect(bodyOf(fresh)).toMatchObject({ kid: "k2" });
    expect([old, fresh].map((token) => tokens.read(token)).some(isRefused)).toBe(false);
    ring.now = [key("k2")];
    expect([old, fresh].map((token) => tokens.read(token)).map(isRefused)).toEqual([true, false]);
  });

  it("[D85] the session key ring replaces a key dated far in the future, and stays small however the clock jumps", () => {
    const ahead = turn(turn([], 40 * dayMs), 0);
    expect(ahead.map(({ kid }) => kid)).toEqual([`at-${40 * dayMs}`, "at-0"]);

    let keys = ahead;
    for (let step = 0; step < 50; step += 1) keys = turn(keys, step % 2 === 0 ? 90 * dayMs : 0);
    expect(keys.length).toBeLessThanOrEqual(8);
  });
});
