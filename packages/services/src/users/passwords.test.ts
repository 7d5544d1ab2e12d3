import { describe, expect, it } from "vitest";
import { LoginAttemptLimiter, loginAttemptLimits, PasswordHasher } from "./passwords.ts";

const cheap = { n: 16, r: 1, p: 1 };
const names = () => {
  let made = 0;
  return { next: () => `salt-${++made}` };
};

describe("passwords", () => {
  it("[A82] a password is stored with its own salt and cost, and only the right one is accepted", async () => {
    const passwords = new PasswordHasher(names(), cheap);

    const [one, other] = [await passwords.hash("correct horse battery"), await passwords.hash("correct horse battery")];

    expect(one).not.toBe(other);
    expect(one).not.toContain("horse");
    expect(await passwords.verify("correct horse battery", one)).toBe(true);
    expect(await passwords.verify("correct horse batterY", one)).toBe(false);
    expect(await passwords.verify("", null)).toBe(false);
    // Another cost than today's: kept in the text, so it still fits.
    expect(await new PasswordHasher(names(), { n: 32, r: 2, p: 1 }).verify("correct horse battery", one)).toBe(true);
  });

  it("[A82] a password is the same whether typed with composed or decomposed characters", async () => {
    const passwords = new PasswordHasher(names(), cheap);

    expect(await passwords.verify("cafe\u0301 au lait ici", await passwords.hash("caf\u00e9 au lait ici"))).toBe(true);
  });

  it("[A82] password hashes are computed a few at a time, and a request beyond the queue is refused as overloaded", async () => {
    const passwords = new PasswordHasher(names(), cheap);

    const outcomes = await Promise.allSettled(Array.from({ length: 80 }, () => passwords.hash("correct horse battery")));

    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(66);
    expect(outcomes.find(({ status }) => status === "rejected")).toMatchObject({ reason: { code: "E.OVERLOADED" } });
    expect(await passwords.hash("correct horse battery")).toMatch(/^scrypt\$16\$1\$1\$/);
  });
});

describe("the brake", () => {
  const user = { name: "user a", triesMax: 3 };
  const address = { name: "address x", triesMax: 5 };

  it("[A81] the login attempt limiter refuses a user or an address after too many attempts, until the window is over", () => {
    let now = 0;
    const brake = new LoginAttemptLimiter(() => now);

    expect([1, 2, 3].map(() => brake.countAttempt([user, address]))).toEqual([0, 0, 0]);
    now = 1_000;
    expect(brake.countAttempt([user, address])).toBe(loginAttemptLimits.windowMs - 1_000);
    expect([1, 2].map(() => brake.countAttempt([{ ...user, name: "user b" }, address]))).toEqual([0, 0]);
    expect(brake.countAttempt([{ ...user, name: "user c" }, address])).toBeGreaterThan(0);
    now = loginAttemptLimits.windowMs;
    expect(brake.countAttempt([user, address])).toBe(0);
  });

  it("[A81] the login attempt limiter does not count successful attempts", () => {
    const brake = new LoginAttemptLimiter(() => 0);
    for (let n = 0; n < 20; n += 1) {
      expect(brake.countAttempt([user])).toBe(0);
      brake.uncountAttempt([user]);
    }
  });

  it("[A81] the login attempt limiter keeps a bounded number of names", () => {
    const brake = new LoginAttemptLimiter(() => 0);
    for (let n = 0; n < 3; n += 1) brake.countAttempt([user]);
    for (let n = 0; n < loginAttemptLimits.keysMax; n += 1) brake.countAttempt([{ name: `user ${n}`, triesMax: 3 }]);

    expect(brake.countAttempt([user])).toBe(0);
  });
});
