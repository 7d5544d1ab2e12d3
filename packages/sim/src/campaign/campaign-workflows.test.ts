// Seeds whose runs are chains, containers and steered ones.

import { describe, expect, it } from "vitest";
import { runCampaign } from "./campaign.ts";

const hour = 3_600_000;

describe("workflows under faults", () => {
  it(
    "[X62] a campaign of chains, containers, steering and resources at workers finds no violation; every checker has something to judge",
    async () => {
      const report = await runCampaign({ from: 1, to: 80, profile: "workflow" });

      expect(report.violations.map(({ seed, checker, message }) => `seed ${seed}: ${checker}: ${message}`)).toEqual([]);
      expect(report.sawNothing).toEqual([]);
      expect(report.saw["outcome"]).toBeGreaterThan(80);
    },
    hour,
  );
});
