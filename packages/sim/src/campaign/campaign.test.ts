// A fixed range of seeds of the default profile. Other profiles and the mutants have files of their own beside this one, so that they run side
// by side.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkers } from "../checkers/checker-table.ts";
import { faultKinds } from "../plan/fault-table.ts";
import { type CampaignReport, runCampaign, type SeedOutcome } from "./campaign.ts";

/** Enough seeds that every kind of fault strikes and every checker has something to judge; more are played at night. */
const seeds = { from: 1, to: 240 };
const hour = 3_600_000;

describe("a fixed range of seeds", () => {
  let report: CampaignReport;
  const outcomes: SeedOutcome[] = [];
  beforeAll(async () => {
    report = await runCampaign({ ...seeds, profile: "default", onSeed: (outcome) => outcomes.push(outcome) });
  }, hour);
  afterAll(() => outcomes.splice(0));

  it("[X40] no seed of a fixed range shows a violation", () => {
    expect(report.violations.map(({ seed, checker, message }) => `seed ${seed}: ${checker}: ${message}`)).toEqual([]);
    expect(report.seeds).toBe(240);
  });

  it("[X40] every kind of fault occurs in a fixed range of seeds, and every checker has something to judge", () => {
    expect(report.neverStruck).toEqual([]);
    expect(report.sawNothing).toEqual([]);
    expect(Object.keys(report.faults)).toHaveLength(faultKinds.length);
    expect(Object.keys(report.saw).sort()).toEqual(Object.keys(checkers).sort());
  });

  it(
    "[X41] a seed played again, beside others and in another thread, gives the same trace",
    async () => {
      const again: SeedOutcome[] = [];

      await runCampaign({ from: 1, to: 12, profile: "default", twice: true, jobs: 2, onSeed: (outcome) => again.push(outcome) });

      const hashOf = (all: readonly SeedOutcome[], seed: number) => all.find((one) => one.report.seed === seed)?.report.traceHash;
      for (const { report: second, differs } of again) {
        expect(differs).toBeNull();
        expect(second.traceHash).toBe(hashOf(outcomes, second.seed));
      }
      expect(again).toHaveLength(12);
    },
    hour,
  );
});
