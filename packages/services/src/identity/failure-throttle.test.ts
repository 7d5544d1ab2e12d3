import { describe, expect, it } from "vitest";
import { addressBlockOf } from "./address-block.ts";
import { FailureThrottle } from "./failure-throttle.ts";
import { rotateKeys, type SigningKey } from "./signing-keys.ts";

const rule = { freeFailures: 2, delayMsMax: 5_000 };

function createThrottle(sizes: Partial<{ entriesMax: number; forgetMs: number }> = {}) {
  const clock = { now: 0 };
  return { clock, throttle: new FailureThrottle(() => clock.now, { entriesMax: 100, forgetMs: 1_000, ...sizes }) };
}

describe("the throttle of failures", () => {
  it("[A81] a name fails some times for free, then waits a second, twice as long each time, up to a limit", () => {
    const { throttle } = createThrottle();

    const waits = Array.from({ length: 8 }, () => {
      throttle.countFailure("a", rule);
      return throttle.waitMs("a");
    });

    expect(waits).toEqual([0, 0, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
    for (let count = 0; count < 200; count++) throttle.countFailure("a", rule);
    expect(throttle.waitMs("a")).toBe(5_000);
  });

  it("[A541] a name is forgotten some time after its last failure, counted from the end of its delay", () => {
    const { throttle, clock } = createThrottle();
    for (let count = 0; count < 5; count++) throttle.countFailure("a", rule);
    expect(throttle.waitMs("a")).toBe(4_000);

    clock.now = 4_999;
    throttle.countFailure("a", rule);
    expect(throttle.waitMs("a")).toBe(5_000);
    clock.now += 6_000;
    throttle.countFailure("a", rule);

    expect(throttle.waitMs("a")).toBe(0);
  });

  it("[A81] an attempt that is taken back counts no more, and leaves the delay that a later failure has set", () => {
    const { throttle } = createThrottle();
    throttle.countFailure("a", rule);
    throttle.countFailure("a", rule);
    const takeBack = throttle.countFailure("a", rule);
    throttle.countFailure("a", rule);
    expect(throttle.waitMs("a")).toBe(2_000);

    takeBack();
    expect(throttle.waitMs("a")).toBe(2_000);
    throttle.countFailure("a", rule)();
    expect(throttle.waitMs("a")).toBe(2_000);

    const single = throttle.countFailure("b", { ...rule, freeFailures: 0 });
    single();
    expect(throttle.waitMs("b")).toBe(0);
  });

  it("[A541] a full table forgets the names with the fewest failures first, the oldest of them, and none that failed often", () => {
    const { throttle, clock } = createThrottle({ entriesMax: 16, forgetMs: 1_000_000 });
    for (let count = 0; count < 9; count++) throttle.countFailure("victim", rule);
    for (let name = 0; name < 100; name++) {
      clock.now += 1;
      throttle.countFailure(`once-${name}`, rule);
      expect(throttle.size).toBeLessThanOrEqual(16);
    }

    expect(throttle.waitMs("victim")).toBeGreaterThan(0);
    throttle.countFailure("once-99", rule);
    throttle.countFailure("once-99", rule);
    expect(throttle.waitMs("once-99")).toBe(1_000);
  });
});

describe("addresses", () => {
  it.each([
    ["192.0.2.7", "192.0.2.7"],
    ["::ffff:192.0.2.7", "192.0.2.7"],
    ["::FFFF:192.0.2.7", "192.0.2.7"],
    ["2001:db8:0:1::7", "2001:db8:0:1::/64"],
    ["2001:0DB8:0000:0001:ffff:1:2:3", "2001:db8:0:1::/64"],
    ["2001:db8:0:1:0:0:192.0.2.7", "2001:db8:0:1::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["1::", "1:0:0:0::/64"],
    ["not an address", "not an address"],
  ])("[A541] the address %s counts as %s", (address, block) => {
    expect(addressBlockOf(address)).toBe(block);
  });
});

describe("a ring of signing keys", () => {
  const make = () => ({ kid: "new", secret: new Uint8Array() });
  const key = (kid: string, madeAt: number): SigningKey => ({ kid, madeAt, secret: new Uint8Array() });
  const kidsAt = (now: number, ...keys: SigningKey[]) =>
    rotateKeys(keys, now, { ageMs: 100, lifeMs: 1_000, make }).map(({ kid }) => kid);

  it("[A84] a key verifies until the last token that it can have signed has expired", () => {
    expect(kidsAt(1_050, key("a", 0), key("b", 50), key("c", 1_000))).toEqual(["a", "b", "c"]);
    expect(kidsAt(1_051, key("a", 0), key("b", 50), key("c", 1_000))).toEqual(["b", "c"]);
  });

  it("[A84] a key is replaced once it is old, or from too far in the future, as after a clock was wrong", () => {
    expect(kidsAt(99, key("a", 0))).toEqual(["a"]);
    expect(kidsAt(100, key("a", 0))).toEqual(["a", "new"]);
    expect(kidsAt(0, key("a", 99))).toEqual(["a"]);
    expect(kidsAt(0, key("a", 100))).toEqual(["a", "new"]);
  });
});
