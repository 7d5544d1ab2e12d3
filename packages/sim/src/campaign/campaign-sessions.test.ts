// Seeds of the profile that breaks connections.

import { describe, expect, it } from "vitest";
import { runCampaign } from "./campaign.ts";

const hour = 3_600_000;

describe("sessions under faults", () => {
  const range = { from: 1, to: 60, profile: "session" } as const;

  it(
    "[X58] a campaign of broken connections finds no violation: sessions are resumed, every fault occurs, every checker has something to judge",
    async () => {
      const report = await runCampaign(range);

      expect(report.violations.map(({ seed, checker, message }) => `seed ${seed}: ${checker}: ${message}`)).toEqual([]);
      expect(report.neverStruck).toEqual([]);
      expect(report.sawNothing).toEqual([]);
      expect(report.sometimes["session: resumed"]).toBeGreaterThan(100);
    },
    hour,
  );

  it(
    "[X80] a campaign with workers of all four dialects side by side finds no violation, and sessions by seq are resumed in it",
    async () => {
      const report = await runCampaign({ from: 1, to: 60, profile: "dialects" });

      expect(report.violations.map(({ seed, checker, message }) => `seed ${seed}: ${checker}: ${message}`)).toEqual([]);
      expect(report.sometimes["session: resumed"]).toBeGreaterThan(20);
    },
    hour,
  );

  it(
    "[X57] a campaign in which every resume is refused finds no violation: a reset is always enough",
    async () => {
      const report = await runCampaign({ ...range, to: 40, isResumeRefused: true });

      expect(report.violations.map(({ seed, checker, message }) => `seed ${seed}: ${checker}: ${message}`)).toEqual([]);
      expect(report.sometimes["session: reset with E.SESSION.UNKNOWN"]).toBeGreaterThan(20);
    },
    hour,
  );
});
