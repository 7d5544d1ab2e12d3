import { describe, expect, it } from "vitest";
import type { Observation } from "../../observation/observation.ts";
import { generateWorldPlan } from "../../plan/world-plan.ts";
import { playSeed } from "../../world/simulated-world.ts";
import { readFirstGenerationFrame } from "./first-generation-link.ts";

const envelope = {
  type: "control.session.accept",
  id: "a3",
  ts: "2026-01-05T09:00:00.000Z",
  tenant: "t1",
  sender: { role: "scheduler", id: "scheduler-control" },
  payload: { session_id: "s-1", session_token: "P.S", worker_instance_id: "i-1" },
};
const readFrame = (more: object, payload: object = {}) =>
  readFirstGenerationFrame(JSON.stringify({ ...envelope, ...more, payload: { ...envelope.payload, ...payload } }));

async function playWithLegacyWorkers(seed: number, schedule: Parameters<typeof playSeed>[0]["schedule"]) {
  const observations: Observation[] = [];
  const report = await playSeed({
    seed,
    profile: "session",
    schedule: schedule ?? [],
    observe: (one) => void observations.push(one),
  });
  const frames = observations.flatMap((one) =>
    one.kind === "frame" && one.event === "delivered" ? [{ ...one, ...(JSON.parse(one.text) as typeof envelope) }] : [],
  );
  return { report, seen: observations, frames };
}

/** A world of such workers only. */
const seedWithDialect = (wanted: "first" | "v1" | "basic"): number =>
  Array.from({ length: 2_000 }, (_, at) => at + 1).find((one) =>
    generateWorldPlan(one, "session").workers.every(({ dialect }) => dialect === wanted),
  ) ?? 0;
const seed = seedWithDialect("first");

describe("a worker of the first generation", () => {
  it("[X59] a first-generation worker reads frames with exactly the fields it knows, and names what is wrong with any other", () => {
    expect(readFrame({})).toMatchObject({ type: "control.session.accept" });
    expect(readFrame({}, { send_window: 64 })).toBe("control.session.accept has send_window");
    expect(readFrame({ number: 1 })).toBe("the envelope has number");
    expect(readFrame({ session_seq: 1 })).toBe("control.session.accept has a number");
    expect(readFrame({ type: "biz.exec.cancel", session_seq: 0 })).toBe("biz.exec.cancel has the number 0");
    expect(readFrame({ type: "biz.exec.dispatch", session_seq: 1 })).toBe("biz.exec.dispatch lacks run_id");
  });

  it("[X59] a first-generation worker gets its first dispatch without session_seq, later ones numbered from 1, and delivers its results", async () => {
    const { report, seen: observations, frames } = await playWithLegacyWorkers(seed, []);

    expect(report).toMatchObject({ hasConverged: true });
    expect(observations.filter(({ kind }) => kind === "broken")).toEqual([]);
    const dispatches = frames.filter(({ type }) => type === "biz.exec.dispatch") as { session_seq?: number; payload: object }[];
    expect(dispatches.length).toBeGreaterThan(0);
    expect(dispatches[0]?.session_seq).toBeUndefined();
    expect(dispatches.find((one) => one.session_seq !== undefined)?.session_seq).toBe(1);
    expect(dispatches.every(({ payload }) => !("fence" in payload))).toBe(true);
  });

  it("[X59] a first-generation worker's resume is answered with no accepted session, and work lost with its socket is still completed", async () => {
    const { faultPhaseMs, workers } = generateWorldPlan(seed, "session");
    const schedule = workers.flatMap(({ worker }) =>
      Array.from({ length: 12 }, (_, at) => ({ at: (faultPhaseMs * (at + 1)) / 13, kind: "reset", target: worker })),
    );

    const { report, seen: observations, frames } = await playWithLegacyWorkers(seed, schedule);

    const resumes = frames.filter(({ type }) => type === "control.resume");
    expect(report).toMatchObject({ hasConverged: true });
    expect(observations.filter(({ kind }) => kind === "broken")).toEqual([]);
    expect(resumes.length).toBeGreaterThan(5);
    for (const { connection } of resumes)
      expect(frames.some((one) => one.connection === connection && one.type === "control.session.accept")).toBe(false);
  });
});

describe("a worker of the oldest dialect", () => {
  it("[X61] workers of the v1 dialect exchange v1 frames only and complete all runs, also after their connections are reset", async () => {
    const oldest = seedWithDialect("v1");
    const { faultPhaseMs, workers } = generateWorldPlan(oldest, "session");
    const schedule = workers.flatMap(({ worker }) =>
      Array.from({ length: 8 }, (_, at) => ({ at: (faultPhaseMs * (at + 1)) / 9, kind: "reset", target: worker })),
    );

    const { report, seen: observations, frames } = await playWithLegacyWorkers(oldest, schedule);

    expect(report).toMatchObject({ hasConverged: true });
    expect(observations.filter(({ kind }) => kind === "broken")).toEqual([]);
    const types = new Set(frames.map(({ type }) => type));
    expect([...types].filter((type) => type.includes("control.") || type.includes("biz."))).toEqual([]);
    expect(types).toContain("cmd.dispatch");
    expect(types).toContain("result");
    expect(new Set(frames.filter(({ type }) => type === "handshake").map(({ connection }) => connection)).size).toBeGreaterThan(
      8,
    );
  });
});

describe("a worker built from the specification alone", () => {
  it("[X80] workers of the specification get work numbered by seq alone, resume by seq after a cut, and complete all runs", async () => {
    const basic = seedWithDialect("basic");
    const { faultPhaseMs, workers } = generateWorldPlan(basic, "session");
    const schedule = workers.flatMap(({ worker }) =>
      Array.from({ length: 8 }, (_, at) => ({ at: (faultPhaseMs * (at + 1)) / 9, kind: "reset", target: worker })),
    );

    const { report, seen: observations, frames } = await playWithLegacyWorkers(basic, schedule);

    expect(report).toMatchObject({ hasConverged: true });
    expect(observations.filter(({ kind }) => kind === "broken")).toEqual([]);
    const dispatches = frames.filter(({ type }) => type === "biz.exec.dispatch") as { seq?: number; session_seq?: number }[];
    expect(dispatches.length).toBeGreaterThan(0);
    expect(dispatches.every(({ seq, session_seq }) => seq !== undefined && session_seq === undefined)).toBe(true);
    const resumed = frames.filter(
      ({ type, payload }) => type === "control.session.accept" && "resumed" in payload && payload.resumed,
    );
    expect(resumed.length).toBeGreaterThan(0);
  });
});
