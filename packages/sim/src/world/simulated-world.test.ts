import { execFileSync } from "node:child_process";
import { execPath } from "node:process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Observation, WorldReport } from "../observation/observation.ts";
import type { FaultProfile } from "../plan/fault-table.ts";
import { generateWorldPlan } from "../plan/world-plan.ts";
import { type PlaySeedOptions, playSeed } from "./simulated-world.ts";

interface PlayedSeed {
  readonly report: WorldReport;
  readonly observations: readonly Observation[];
}

async function play(seed: number, profile: FaultProfile, more: Partial<PlaySeedOptions> = {}): Promise<PlayedSeed> {
  const observations: Observation[] = [];
  const report = await playSeed({ seed, profile, observe: (one) => void observations.push(one), ...more });
  return { report, observations };
}

const observationsOfKind = <K extends Observation["kind"]>(
  observations: readonly Observation[],
  kind: K,
): Extract<Observation, { kind: K }>[] =>
  observations.filter((one): one is Extract<Observation, { kind: K }> => one.kind === kind);

describe("a world that is played", () => {
  it("[X10] a simulated world is byte-identical for the same seed, in this process and in another", async () => {
    const file = fileURLToPath(new URL("./simulated-world.ts", import.meta.url));
    const script = `import(${JSON.stringify(file)}).then(async ({ playSeed }) => {
      const report = await playSeed({ seed: 11, profile: "default", observe: () => undefined });
      process.stdout.write(report.traceHash);
    })`;

    const [first, second] = [await play(11, "default"), await play(11, "default")];
    const elsewhere = String(execFileSync(execPath, ["--input-type=module", "-e", script]));

    expect(first.report.traceHash).toMatch(/^[0-9a-f]{32}$/);
    expect(second.report).toEqual(first.report);
    expect(second.observations).toEqual(first.observations);
    expect(elsewhere).toBe(first.report.traceHash);
    expect((await play(12, "default")).report.traceHash).not.toBe(first.report.traceHash);
  });

  it("[X11] a simulated world without faults converges: every run has ended and no defect was reported", async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const { report, observations } = await play(seed, "calm");

      expect(report).toMatchObject({ seed, hasConverged: true, faults: {} });
      expect(observationsOfKind(observations, "broken")).toEqual([]);
      expect(observationsOfKind(observations, "phase").map(({ phase }) => phase)).toEqual(["storm", "heal", "converged", "end"]);
    }
  });

  it("[X12] a simulated world converges after every fault phase: faults end, processes restart and no worker is left draining", async () => {
    for (const profile of ["default", "crashes", "network", "session", "store", "clocks", "disk"] as const)
      for (let seed = 1; seed <= 4; seed++) {
        const { report, observations } = await play(seed, profile);
        const heal = observations.findIndex((one) => one.kind === "phase" && one.phase === "heal");
        const open = new Map<string, number>();
        for (const { name, target, event } of observationsOfKind(observations, "fault")) {
          const key = `${name} ${target}`;
          open.set(key, (open.get(key) ?? 0) + (event === "begins" ? 1 : -1));
        }

        expect(report).toMatchObject({ seed, profile, hasConverged: true });
        expect(observationsOfKind(observations, "broken")).toEqual([]);
        expect(observations.slice(heal).some((one) => one.kind === "fault" && one.event === "begins")).toBe(false);
        // Those that last have ended as often as they began; the others have no end.
        for (const count of open.values()) expect(count).toBeGreaterThanOrEqual(0);
        expect(Object.values(report.faults).reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
      }
  });

  it("[X13] a simulated world can be played with a part of its faults, and its callers start the same runs", async () => {
    const seed = [1, 2, 3, 4, 5, 6, 7, 8, 9].find((one) => generateWorldPlan(one, "default").faults.length > 8) ?? 0;
    const { faults } = generateWorldPlan(seed, "default");
    const whole = await play(seed, "default");
    const again = await play(seed, "default", { schedule: JSON.parse(JSON.stringify(faults)) as typeof faults });
    const part = await play(seed, "default", { schedule: faults.slice(0, 2) });
    const starts = ({ observations }: PlayedSeed) =>
      observationsOfKind(observations, "call")
        .filter(({ route }) => route === "startRun")
        .map(({ body }) => body);

    expect(again.report.traceHash).toBe(whole.report.traceHash);
    expect(part.report.traceHash).not.toBe(whole.report.traceHash);
    expect(new Set(starts(part))).toEqual(new Set(starts(whole)));
    await expect(play(3, "default", { schedule: [{ at: 1, kind: "no such thing", target: "w1" }] })).rejects.toThrow(
      "unknown fault kind",
    );
  });

  it("[X15] in a simulated world every handler that starts ends at most once, and every frame is sent once before it is delivered or lost", async () => {
    for (let seed = 20; seed < 26; seed++) {
      const { observations } = await play(seed, "default");
      const playing = new Map<string, number>();
      for (const one of observationsOfKind(observations, "handler")) {
        const key = `${one.boot} ${one.task} ${one.fence}`;
        expect(playing.has(key)).toBe(one.event !== "starts");
        playing.set(key, (playing.get(key) ?? 0) + (one.event === "starts" ? 1 : one.event === "told" ? 0 : -1));
        expect(one.fence).toBeGreaterThan(0);
      }
      const sent = new Set<number>();
      for (const { event, frame } of observationsOfKind(observations, "frame")) {
        expect(sent.has(frame)).toBe(event !== "sent");
        sent.add(frame);
      }

      expect([...playing.values()].every((count) => count === 0 || count === 1)).toBe(true);
      expect(playing.size).toBeGreaterThan(0);
    }
  });

  it("[X16] simulated callers repeat a request under the same idempotency key when no answer arrived", async () => {
    let repeats = 0;
    for (let seed = 1; seed <= 40 && repeats === 0; seed++) {
      const schedule = [{ at: 0, kind: "answer-lost", target: "api", ms: 20_000, rate: 0.7 }];
      const { observations } = await play(seed, "network", { schedule });
      const starts = observationsOfKind(observations, "call").filter(
        ({ route, idempotencyKey }) => route === "startRun" && idempotencyKey !== null,
      );
      const lost = new Set(
        observationsOfKind(observations, "answer")
          .filter(({ status }) => status === 0)
          .map(({ call }) => call),
      );
      for (const { call, idempotencyKey, body } of starts) {
        if (!lost.has(call)) continue;
        const later = starts.find((one) => one.call > call && one.idempotencyKey === idempotencyKey);
        if (later === undefined) continue;
        repeats++;
        expect(later.body).toBe(body);
      }
    }

    expect(repeats).toBeGreaterThan(0);
  });
});
