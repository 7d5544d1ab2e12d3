import { describe, expect, it } from "vitest";
import { Dice } from "./dice.ts";

const draw = (dice: Dice, count = 8): number[] => Array.from({ length: count }, () => dice.bits());

describe("dice", () => {
  it("[X1] give the same stream for the same name, and another for a neighbour", () => {
    expect(draw(new Dice("7"))).toEqual(draw(new Dice("7")));
    expect(draw(new Dice("7"))).not.toEqual(draw(new Dice("8")));
  });

  it("[X1] fork into streams that do not care what was drawn elsewhere", () => {
    const busy = new Dice("7");
    const lazy = new Dice("7");

    draw(busy, 1_000);
    draw(busy.fork("other"), 10);

    expect(draw(busy.fork("net"))).toEqual(draw(lazy.fork("net")));
    expect(draw(busy.fork("net"))).not.toEqual(draw(busy.fork("disk")));
  });

  it("[X1] spread evenly, and choose by weight", () => {
    const dice = new Dice("spread");
    const drawn = Array.from({ length: 20_000 }, () => dice.below(10));
    const tenths = Array.from({ length: 10 }, (_, tenth) => drawn.filter((one) => one === tenth).length);
    const names = Array.from({ length: 4_000 }, () => dice.weigh({ often: 3, seldom: 1, never: 0 }));

    for (const count of tenths) expect(Math.abs(count - 2_000)).toBeLessThan(200);
    expect(names).not.toContain("never");
    expect(names.filter((name) => name === "often").length / 4_000).toBeCloseTo(0.75, 1);
  });

  it("[X1] stay within the bounds they were given", () => {
    const dice = new Dice("bounds");

    for (let n = 0; n < 1_000; n++) {
      expect([3, 4, 5]).toContain(dice.between(3, 5));
      const scaled = dice.scale(0.2, 20);
      expect(scaled >= 0.2 && scaled <= 20).toBe(true);
    }
    expect(() => dice.pick([])).toThrow("nothing to pick");
  });
});
