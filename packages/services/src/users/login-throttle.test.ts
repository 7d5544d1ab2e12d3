import { describe, expect, it } from "vitest";
import { addressBlockOf } from "../identity/address-block.ts";
import { FailureThrottle } from "../identity/failure-throttle.ts";
import { LoginThrottle, loginThrottleLimits } from "./login-throttle.ts";

const { name: nameRule, address: addressRule } = loginThrottleLimits;

function openThrottle() {
  let now = 0;
  const throttle = new LoginThrottle(() => now);
  return {
    advance: (ms: number) => void (now += ms),
    /** The milliseconds to wait; 0: the attempt is counted as a wrong one. */
    fail(username: string, address = "10.0.0.1"): number {
      const counted = throttle.countAttempt({ tenant: "default", username, address });
      return typeof counted === "number" ? counted : 0;
    },
    succeed(username: string, address = "10.0.0.1"): boolean {
      const counted = throttle.countAttempt({ tenant: "default", username, address });
      if (typeof counted !== "number") counted.reportSuccess();
      return typeof counted !== "number";
    },
    /** As many wrong attempts as the name may have without a delay. */
    useFreeFailures(username: string, address?: string): void {
      for (let n = 0; n < nameRule.freeFailures; n += 1) expect(this.fail(username, address)).toBe(0);
    },
  };
}

describe("the throttle of logins", () => {
  it("[A81] each wrong password after the first five doubles the time to wait, from one second to five minutes", () => {
    const login = openThrottle();
    login.useFreeFailures("ann");

    const waits = Array.from({ length: 11 }, () => {
      expect(login.fail("ann")).toBe(0);
      const waitMs = login.fail("ann");
      login.advance(waitMs);
      return waitMs / 1_000;
    });

    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  });

  it("[A81] an attempt that comes too early neither counts nor lengthens the delay", () => {
    const login = openThrottle();
    login.useFreeFailures("ann");
    login.fail("ann");

    for (let n = 0; n < 1_000; n += 1) expect(login.fail("ann")).toBe(1_000);

    login.advance(999);
    expect(login.fail("ann")).toBe(1);
    login.advance(1);
    expect(login.succeed("ann")).toBe(true);
  });

  it("[A81] concurrent attempts are counted before they are evaluated", () => {
    const throttle = new LoginThrottle(() => 0);
    const origin = { tenant: "default", username: "ann", address: "10.0.0.1" };

    const outcomes = Array.from({ length: 100 }, () => throttle.countAttempt(origin));

    expect(outcomes.filter((outcome) => typeof outcome !== "number")).toHaveLength(nameRule.freeFailures + 1);
  });

  it("[A81] right passwords are not counted and clear what was counted for the name at that address", () => {
    const login = openThrottle();
    login.useFreeFailures("ann");

    for (let n = 0; n < 100; n += 1) expect(login.succeed("ann")).toBe(true);

    login.useFreeFailures("ann");
  });

  it("[A81] an attempt that could not be evaluated is not counted", () => {
    const throttle = new LoginThrottle(() => 0);
    const origin = { tenant: "default", username: "ann", address: "10.0.0.1" };

    for (let n = 0; n < 100; n += 1) {
      const counted = throttle.countAttempt(origin);
      if (typeof counted === "number") throw new Error(`attempt ${n} has to wait ${counted} ms`);
      counted.withdraw();
    }

    expect(throttle.countAttempt(origin)).toBeTypeOf("object");
  });

  it("[A81] an address that tries many names waits from its 21st wrong password on, at most a minute", () => {
    const login = openThrottle();
    for (let n = 0; n <= addressRule.freeFailures; n += 1) expect(login.fail(`user-${n}`)).toBe(0);

    expect(login.fail("someone")).toBe(1_000);
    for (let n = 0; n < 20; n += 1) {
      login.advance(login.fail(`late-${n}`));
      login.fail(`late-${n}`);
    }
    expect(login.fail("someone")).toBe(addressRule.delayMsMax);
  });

  it("[A540] wrong passwords for a user from one address do not delay that user at another address", () => {
    const login = openThrottle();
    login.useFreeFailures("ann", "10.0.0.66");
    login.fail("ann", "10.0.0.66");

    expect(login.fail("ann", "10.0.0.66")).toBeGreaterThan(0);
    expect(login.succeed("ann", "10.0.0.7")).toBe(true);
  });

  it("[A540] a user who has signed in from an address does not wait for the guesses that others make at other names there", () => {
    const login = openThrottle();
    login.succeed("ann");
    for (let n = 0; n <= addressRule.freeFailures; n += 1) login.fail(`user-${n}`);

    expect(login.fail("bob")).toBeGreaterThan(0);
    expect(login.succeed("ann")).toBe(true);
    login.advance(loginThrottleLimits.knownMs);
    for (let n = 0; n <= addressRule.freeFailures; n += 1) login.fail(`user-${n}`);
    expect(login.succeed("ann")).toBe(false);
  });

  it("[A540] an account of one's own does not clear the wrong passwords that were counted for the address", () => {
    const login = openThrottle();
    for (let n = 0; n < addressRule.freeFailures; n += 1) {
      login.fail(`user-${n}`);
      expect(login.succeed("mallory")).toBe(true);
    }

    expect(login.fail("ann")).toBe(0);
    expect(login.fail("ann")).toBeGreaterThan(0);
  });

  it("[A541] names and addresses beyond those that are remembered do not push out a user or an address that has to wait", () => {
    const login = openThrottle();
    login.useFreeFailures("ann", "10.0.0.66");
    login.fail("ann", "10.0.0.66");
    for (let n = 0; n <= addressRule.freeFailures; n += 1) login.fail(`user-${n}`, "10.0.0.67");

    for (let n = 0; n < 2 * loginThrottleLimits.sizes.entriesMax; n += 1)
      login.fail(`other-${n}`, `192.${n >> 16}.${(n >> 8) & 255}.${n & 255}`);

    expect(login.fail("ann", "10.0.0.66")).toBe(1_000);
    expect(login.fail("someone", "10.0.0.67")).toBe(1_000);
  });
});

describe("the throttle of failures", () => {
  it("[A541] the throttle keeps a bounded number of names and forgets one that did not fail for an hour", () => {
    let now = 0;
    const throttle = new FailureThrottle(() => now, { entriesMax: 100, forgetMs: 3_600_000 });
    const rule = { freeFailures: 0, delayMsMax: 8_000 };
    for (let n = 0; n < 1_000; n += 1) throttle.countFailure(`name-${n}`, rule);
    for (let n = 0; n < 10; n += 1) throttle.countFailure("hot", rule);

    expect(throttle.size).toBeLessThanOrEqual(100);
    expect(throttle.waitMs("hot")).toBe(8_000);
    now = 8_000 + 3_600_000;
    throttle.countFailure("hot", rule);
    expect(throttle.waitMs("hot")).toBe(1_000);
  });

  it.each([
    ["10.1.2.3", "10.1.2.3"],
    ["::ffff:10.1.2.3", "10.1.2.3"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002::9", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["", ""],
  ])("[A541] the address %s is counted as %s", (address, block) => {
    expect(addressBlockOf(address)).toBe(block);
  });
});
