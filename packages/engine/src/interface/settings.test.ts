import { describe, expect, it } from "vitest";
import { defaultSettings, type EngineSettings, settingsForTenant, settingsProblems, workerTimings } from "./settings.ts";

const settings: EngineSettings = {
  ...defaultSettings,
  tenants: {
    fast: { heartbeatMs: 2_000, leaseMs: 6_000, drainMemPct: 70 },
    slow: { quietHeartbeatMs: 60_000, quietLeaseMs: 200_000 },
  },
};

describe("thresholds", () => {
  it("[B30] thresholds are the tenant's own where it has any, and the defaults otherwise", () => {
    expect(settingsForTenant(settings, "fast")).toMatchObject({
      heartbeatMs: 2_000,
      drainMemPct: 70,
      drainDiskPct: 95,
      saturatedMs: 60_000,
    });
    expect(settingsForTenant(settings, "other")).toMatchObject({ heartbeatMs: 10_000, leaseMs: 30_000, drainMemPct: 90 });
    expect(settingsForTenant(settings, "constructor")).toMatchObject({ heartbeatMs: 10_000 });
  });

  it("[B30] workers of dialects without a negotiated heartbeat period are judged by 35 s by default, with leases of 105 s", () => {
    for (const dialect of ["first", "v1"])
      expect(workerTimings(settings, "fast", dialect)).toEqual({ heartbeatMs: 35_000, leaseMs: 105_000 });
    expect(workerTimings(settings, "slow", "v1")).toEqual({ heartbeatMs: 60_000, leaseMs: 200_000 });
    expect(workerTimings(settings, "fast", "v2")).toMatchObject({ heartbeatMs: 2_000, leaseMs: 6_000 });
  });

  it("[B31] the default thresholds, and valid ones of tenants, are accepted without a problem", () => {
    expect(settingsProblems(defaultSettings)).toEqual([]);
    expect(settingsProblems(settings)).toEqual([]);
  });

  it("[B31] invalid thresholds are all reported at once, each with its tenant", () => {
    const problems = settingsProblems({
      ...settings,
      leaseMs: 19_999,
      tenants: {
        acme: { heartbeatMs: 20_000, leaseMs: 30_000, drainMemPct: 130 },
        beta: { leaseMs: 30_000, quietLeaseMs: 69_999, saturatedMs: 0, heartbeat: 3 } as never,
      },
    });

    expect(problems.map((problem) => problem.split(" is less")[0]?.split(" must")[0])).toEqual([
      "leaseMs 19999",
      "tenant acme: leaseMs 30000",
      "tenant acme: drainMemPct",
      "tenant beta: there is no threshold heartbeat",
      "tenant beta: saturatedMs",
      "tenant beta: quietLeaseMs 69999",
    ]);
  });
});
