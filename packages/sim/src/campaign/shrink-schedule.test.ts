import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shrinkSchedule, shrinkTriesMax } from "./campaign.ts";

const numbers = (count: number) => Array.from({ length: count }, (_, at) => at);

describe("shrinking", () => {
  it("[X43] shrinking a schedule leaves exactly the events that are needed, wherever they stand", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 40 }), fc.uniqueArray(fc.nat(39), { maxLength: 3 }), async (count, wanted) => {
        const needed = wanted.map((at) => at % count);

        const { items } = await shrinkSchedule(numbers(count), async (fewer) => needed.every((one) => fewer.includes(one)));

        expect(items).toEqual([...new Set(needed)].sort((a, b) => a - b));
      }),
      { numRuns: 100 },
    );
  });

  it("[X43] a shrunk schedule still fails, even where some smaller schedules fail and others do not", async () => {
    const fails = async (items: readonly number[]) => items.includes(7) && (items.includes(3) || items.length % 2 === 0);

    const { items } = await shrinkSchedule(numbers(20), fails);

    expect(await fails(items)).toBe(true);
    expect(items.length).toBeLessThanOrEqual(2);
  });

  it("[X43] shrinking a schedule runs a bounded number of simulations", async () => {
    let played = 0;

    const { tries } = await shrinkSchedule(numbers(2_000), async (items) => {
      played++;
      return items.length === 2_000;
    });

    expect(played).toBe(shrinkTriesMax);
    expect(tries).toBe(shrinkTriesMax);
  });
});
