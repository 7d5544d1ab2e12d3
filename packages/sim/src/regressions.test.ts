import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CampaignViolation } from "./campaign/campaign.ts";
import { describeFault, describeViolation, type Regression, replayRegression, toRegression } from "./campaign/campaign-report.ts";

const folder = join(import.meta.dirname, "..", "regressions");
const files = readdirSync(folder).filter((name) => name.endsWith(".json"));

const found: CampaignViolation = {
  seed: 6,
  profile: "default",
  plant: "requeue-forgets-fence",
  isResumeRefused: false,
  checker: "single-lease",
  invariant: "I3",
  message: "the fence did not rise",
  at: 12.4,
  n: 9,
  about: ["r1.0"],
  schedule: [{ at: 400, kind: "worker-killed", target: "w1", ms: 900 }],
  story: [{ at: 401, text: "process w1 crashes" }],
};

describe("regressions", () => {
  it.each(files)("[X44] the recorded violation %s is fixed and does not recur", async (name) => {
    const regression = JSON.parse(readFileSync(join(folder, name), "utf8")) as Regression;

    expect(await replayRegression(regression)).toEqual([]);
  });

  it("[X44] a violation is saved under its seed and checker, in a file with all that is needed to replay it", () => {
    const { name, text } = toRegression(found);

    expect(name).toBe("6-single-lease.json");
    expect(JSON.parse(text)).toEqual({
      seed: 6,
      profile: "default",
      checker: "single-lease",
      invariant: "I3",
      found: "the fence did not rise",
      schedule: found.schedule,
    });
  });

  it("[X44] replaying a saved violation reproduces it while the bug is present, and finds nothing without the bug", async () => {
    const regression = JSON.parse(toRegression({ ...found, schedule: null }).text) as Regression;

    expect(await replayRegression(regression, "requeue-forgets-fence")).toContainEqual(
      expect.stringContaining("single-lease: the fence of"),
    );
    expect(await replayRegression(regression)).toEqual([]);
  });

  it("[X45] a violation is described with its seed, checker, time, faults and the events that led to it", () => {
    expect(describeViolation(found)).toEqual([
      "seed 6: single-lease (I3) at 12 ms: the fence did not rise",
      "  needs these faults:",
      "        400 ms worker-killed at w1 for 900 ms",
      "  what led to it:",
      "        401.0 process w1 crashes",
    ]);
    expect(describeFault({ at: 5, kind: "store-busy", target: "store", rate: 0.25, ms: 7 })).toBe(
      "      5 ms store-busy at store for 7 ms share 0.25",
    );
  });
});
