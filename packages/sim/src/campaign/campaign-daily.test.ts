// The public range of seeds, 1..1000, by rotation: every day another slice, so that each run of all tests stays short and ten days play all.
// `npm test` passes the day in; ASTRA_SIM_DAY=<number> plays the slice of another day.

import { describe, expect, it } from "vitest";
import { runCampaign } from "./campaign.ts";

const hour = 3_600_000;
const seedsMax = 1_000;
const daysOfRotation = 10;

/** The range of each profile that rotates. The first seeds of the default profile are played every day, in campaign.test.ts. */
const rotations = { default: { from: 241 }, crashes: { from: 1 } } as const;
type RotatingProfile = keyof typeof rotations;

/** The slice of a day, which is any whole number; both ends included. */
function dailySeeds(profile: RotatingProfile, day: number): { from: number; to: number } {
  const { from } = rotations[profile];
  const size = (seedsMax - from + 1) / daysOfRotation;
  const first = from + (((day % daysOfRotation) + daysOfRotation) % daysOfRotation) * size;
  return { from: first, to: first + size - 1 };
}

function readDay(text = "0"): number {
  if (!/^-?\d{1,9}$/.test(text)) throw new Error(`ASTRA_SIM_DAY must be a whole number, such as 20000, and is ${text}`);
  return Number(text);
}

describe("the seeds of the day", () => {
  const day = readDay(process.env["ASTRA_SIM_DAY"]);

  it.each(["default", "crashes"] as const)(
    "[X700] ten days in a row play every seed up to 1000 of the profile %s once",
    (profile) => {
      for (const firstDay of [0, 20_775, -7]) {
        const slices = Array.from({ length: daysOfRotation }, (_, at) => dailySeeds(profile, firstDay + at));
        const seeds = slices.flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, at) => from + at));

        const { from } = rotations[profile];
        expect(seeds.sort((a, b) => a - b)).toEqual(Array.from({ length: seedsMax - from + 1 }, (_, at) => from + at));
      }
    },
  );

  it.each(["default", "crashes"] as const)(
    "[X700] no seed of the day's slice of the profile %s shows a violation",
    async (profile) => {
      const slice = dailySeeds(profile, day);
      process.stdout.write(`day ${day}: astra sim --profile ${profile} --seeds ${slice.from}..${slice.to}\n`);

      const report = await runCampaign({ ...slice, profile });

      expect(report.violations.map(({ seed, checker, message }) => `seed ${seed}: ${checker}: ${message}`)).toEqual([]);
      expect(report.seeds).toBe(slice.to - slice.from + 1);
    },
    hour,
  );
});
