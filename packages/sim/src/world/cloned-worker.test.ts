import { describe, expect, it } from "vitest";
import { checkSeed } from "../campaign/campaign.ts";
import type { Observation } from "../observation/observation.ts";
import { generateWorldPlan } from "../plan/world-plan.ts";
import { playSeed } from "./simulated-world.ts";

/** A world whose first worker is one that can be cloned, with time for it. */
const seed =
  Array.from({ length: 200 }, (_, at) => at + 1).find((one) => {
    const { workers, faultPhaseMs } = generateWorldPlan(one, "session");
    return faultPhaseMs > 15_000 && workers.every(({ dialect }) => dialect === undefined);
  }) ?? 0;
const schedule = [{ at: 1_000, kind: "cloned", target: "w1", ms: 9_000 }];

describe("a worker that was cloned", () => {
  it("[X60] a cloned worker is a second process with the same instance id, which ends with its fault and does not return", async () => {
    const observations: Observation[] = [];
    await playSeed({ seed, profile: "session", schedule, observe: (one) => void observations.push(one) });

    const clone = observations.flatMap((one) => (one.kind === "process" && one.process === "w1b" ? [one] : []));
    const greetings = observations.flatMap((one) =>
      one.kind === "frame" && one.text.includes('"control.handshake"') ? [one] : [],
    );
    expect(clone[0]).toMatchObject({ event: "starts", at: 1_000 });
    expect(clone.at(-1)).toMatchObject({ event: "crashes", detail: "retired", at: 10_000 });
    expect(new Set(greetings.filter(({ instance }) => instance === "instance-1").map(({ worker }) => worker))).toEqual(
      new Set(["w1", "w1b"]),
    );
  });

  it("[X60] a cloned worker causes no violation, and the schedulers detect it", async () => {
    const { violations, report } = await checkSeed({ seed, profile: "session", schedule });

    expect(violations).toEqual([]);
    expect(report.sometimes["a cloned worker was found"]).toBeGreaterThanOrEqual(1);
  });
});
