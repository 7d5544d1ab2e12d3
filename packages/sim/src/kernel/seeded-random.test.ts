import { describe, expect, it } from "vitest";
import { SeededRandom } from "./seeded-random.ts";

const drawNumbers = (random: SeededRandom, count = 8): number[] => Array.from({ length: count }, () => random.nextUint32());

describe("dice", () => {
  it("[X1] a seeded random generator gives the same stream for the same name, and another for a neighbouring name", () => {
    expect(drawNumbers(new SeededRandom("7"))).toEqual(drawNumbers(new SeededRandom("7")));
    expect(drawNumbers(new SeededRandom("7"))).not.toEqual(drawNumbers(new SeededRandom("8")));
  });

  it("[X1] a forked random stream does not depend on what was drawn from its parent or from other forks", () => {
    const busy = new SeededRandom("7");
    const lazy = new SeededRandom("7");

    drawNumbers(busy, 1_000);
    drawNumbers(busy.fork("other"), 10);

    expect(drawNumbers(busy.fork("net"))).toEqual(drawNumbers(lazy.fork("net")));
    expect(drawNumbers(busy.fork("net"))).not.toEqual(drawNumbers(busy.fork("disk")));
  });

  it("[X1] a seeded random generator spreads numbers evenly and picks by weight", () => {
    const random = new SeededRandom("spread");
    const drawn = Array.from({ length: 20_000 }, () => random.integerBelow(10));
    const tenths = Array.from({ length: 10 }, (_, tenth) => drawn.filter((one) => one === tenth).length);
    const names = Array.from({ length: 4_000 }, () => random.pickWeighted({ often: 3, seldom: 1, never: 0 }));

    for (const count of tenths) expect(Math.abs(count - 2_000)).toBeLessThan(200);
    expect(names).not.toContain("never");
    expect(names.filter((name) => name === "often").length / 4_000).toBeCloseTo(0.75, 1);
  });

  it("[X1] a seeded random generator stays within its bounds", () => {
    const random = new SeededRandom("bounds");

    for (let n = 0; n < 1_000; n++) {
      expect([3, 4, 5]).toContain(random.integerBetween(3, 5));
      const scaled = random.logUniform(0.2, 20);
      expect(scaled >= 0.2 && scaled <= 20).toBe(true);
    }
    expect(() => random.pick([])).toThrow("cannot pick from an empty list");
  });
});
