import { describe, expect, it } from "vitest";
import { PasswordHasher } from "./passwords.ts";

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
