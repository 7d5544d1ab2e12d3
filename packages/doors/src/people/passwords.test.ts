import { describe, expect, it } from "vitest";
import { createPasswords } from "./passwords.ts";
import { brakeLimits, createBrake } from "./user-brake.ts";

const cheap = { n: 16, r: 1, p: 1 };
const names = () => {
  let made = 0;
  return { next: () => `salt-${++made}` };
};

describe("passwords", () => {
  it("[A82] are kept with their own salt and cost, and only the right one is right", async () => {
    const passwords = createPasswords({ ids: names(), cost: cheap });

    const [one, other] = [await passwords.hash("correct horse battery"), await passwords.hash("correct horse battery")];

    expect(one).not.toBe(other);
    expect(one).not.toContain("horse");
    expect(await passwords.isRight("correct horse battery", one)).toBe(true);
    expect(await passwords.isRight("correct horse batterY", one)).toBe(false);
    expect(await passwords.isRight("", null)).toBe(false);
    // Another cost than today's: kept in the text, so it still fits.
    expect(await createPasswords({ ids: names(), cost: { n: 32, r: 2, p: 1 } }).isRight("correct horse battery", one)).toBe(true);
  });

  it("[A82] typed with composed or decomposed letters are the same", async () => {
    const passwords = createPasswords({ ids: names(), cost: cheap });

    expect(await passwords.isRight("cafe\u0301 au lait ici", await passwords.hash("caf\u00e9 au lait ici"))).toBe(true);
  });

  it("[A82] are computed a few at a time; who comes beyond the queue hears so", async () => {
    const passwords = createPasswords({ ids: names(), cost: cheap });

    const outcomes = await Promise.allSettled(Array.from({ length: 80 }, () => passwords.hash("correct horse battery")));

    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(66);
    expect(outcomes.find(({ status }) => status === "rejected")).toMatchObject({ reason: { code: "E.OVERLOADED" } });
    expect(await passwords.hash("correct horse battery")).toMatch(/^scrypt\$16\$1\$1\$/);
  });
});

describe("the brake", () => {
  const user = { name: "user a", triesMax: 3 };
  const address = { name: "address x", triesMax: 5 };

  it("[A81] stops after so many tries for a user or from an address, until the window is over", () => {
    let now = 0;
    const brake = createBrake(() => now);

    expect([1, 2, 3].map(() => brake.press([user, address]))).toEqual([0, 0, 0]);
    now = 1_000;
    expect(brake.press([user, address])).toBe(brakeLimits.windowMs - 1_000);
    expect([1, 2].map(() => brake.press([{ ...user, name: "user b" }, address]))).toEqual([0, 0]);
    expect(brake.press([{ ...user, name: "user c" }, address])).toBeGreaterThan(0);
    now = brakeLimits.windowMs;
    expect(brake.press([user, address])).toBe(0);
  });

  it("[A81] does not count what was right", () => {
    const brake = createBrake(() => 0);
    for (let n = 0; n < 20; n += 1) {
      expect(brake.press([user])).toBe(0);
      brake.release([user]);
    }
  });

  it("[A81] remembers a bounded number of names", () => {
    const brake = createBrake(() => 0);
    for (let n = 0; n < 3; n += 1) brake.press([user]);
    for (let n = 0; n < brakeLimits.namesMax; n += 1) brake.press([{ name: `user ${n}`, triesMax: 3 }]);

    expect(brake.press([user])).toBe(0);
  });
});
