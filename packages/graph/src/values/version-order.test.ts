import { describe, expect, it } from "vitest";
import { compareVersions } from "./version-order.ts";

describe("the order of versions", () => {
  it("[G8] versions are ordered by their numbers, a release behind its pre-releases, and those by their parts", () => {
    const ordered = [
      "0.9",
      "1.0.0-alpha",
      "1.0.0-alpha.1",
      "1.0.0-alpha.1.1",
      "1.0.0-alpha.beta",
      "1.0.0-beta.2",
      "1.0.0-beta.11",
      "1.0.0-rc.1",
      "1.0.0",
      "1.0.1",
      "1.2.0",
      "1.10.0",
      "2",
      "10.0",
      "99999999999999999999.1",
      "100000000000000000000.0",
    ];

    for (const [at, one] of ordered.entries())
      for (const [to, other] of ordered.entries())
        expect([one, other, Math.sign(compareVersions(one, other))]).toEqual([one, other, Math.sign(at - to)]);
  });

  it("[G8] what follows a plus, missing zeros and leading zeros do not count", () => {
    for (const [one, other] of [
      ["1.2.3+build.7", "1.2.3+build.12"],
      ["1.2.3-rc.1+a", "1.2.3-rc.1"],
      ["1.2", "1.2.0"],
      ["1.02.0", "1.2"],
    ] as const)
      expect(compareVersions(one, other)).toBe(0);
  });
});
