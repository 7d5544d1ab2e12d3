import { describe, expect, it } from "vitest";
import { type FaultProfile, faultKinds, faultTable, profiles } from "./fault-table.ts";
import { missingPackageRunPrefix } from "./planned-calls.ts";
import { generateWorldPlan } from "./world-plan.ts";

const seeds = Array.from({ length: 400 }, (_, n) => n + 1);

describe("the plan of a world", () => {
  it("[X9] a world plan is the same for the same seed, and is plain JSON data", () => {
    const plan = generateWorldPlan(17, "default");

    expect(generateWorldPlan(17, "default")).toEqual(plan);
    expect(JSON.parse(JSON.stringify(plan))).toEqual(plan);
    expect(generateWorldPlan(18, "default")).not.toEqual(plan);
  });

  it("[X9] a world plan has faults of its profile only, in order of time, before the fault phase ends", () => {
    for (const profile of Object.keys(profiles) as FaultProfile[]) {
      const groups: readonly string[] = profiles[profile];
      for (const seed of seeds.slice(0, 50)) {
        const { faults, faultPhaseMs } = generateWorldPlan(seed, profile);
        for (const { kind } of faults) expect(groups).toContain(faultTable[kind as keyof typeof faultTable].group);
        expect(faults.map(({ at }) => at)).toEqual(faults.map(({ at }) => at).sort((a, b) => a - b));
        expect(faults.every(({ at }) => at < faultPhaseMs)).toBe(true);
      }
    }
    expect(seeds.every((seed) => generateWorldPlan(seed, "calm").faults.length === 0)).toBe(true);
  });

  it("[X9] world plans of one seed in two profiles differ only in faults, planned calls and guarantees", () => {
    const { faults: _, profile: __, plannedCalls: ___, guarantees: ____, ...stormy } = generateWorldPlan(5, "network");
    const { faults: _a, profile: _b, plannedCalls: _c, guarantees: _d, ...store } = generateWorldPlan(5, "store");

    expect(store).toEqual(stormy);
  });

  it("[X9] world plans of a few hundred seeds cover every kind of fault, every size of world and every setting", () => {
    const plans = seeds.map((seed) => generateWorldPlan(seed, "default"));
    const kinds = new Set(plans.flatMap(({ faults }) => faults.map(({ kind }) => kind)));
    const sizes = (of: (plan: (typeof plans)[number]) => number): number[] => [...new Set(plans.map(of))].sort((a, b) => a - b);

    expect([...kinds].sort()).toEqual([...faultKinds].sort());
    expect(sizes(({ schedulers }) => schedulers.length)).toEqual([1, 2, 3]);
    expect(sizes(({ tenants }) => tenants.length)).toEqual([1, 2, 3, 4]);
    expect(sizes(({ workers }) => workers.length)).toEqual(expect.arrayContaining([1, 2, 3, 5, 8, 14]));
    expect(sizes(({ engineSettings: engine }) => engine.turnsInFlight)).toEqual([1, 2, 4]);
    expect(sizes(({ sessionLimits: doors }) => doors.sendWindow ?? 0)).toEqual([1, 2, 7, 64, 1_024]);
    expect(sizes(({ hintsLostShare }) => hintsLostShare)).toEqual([0, 0.1, 1]);
  });

  it("[X9] a world plan has a worker for every task it will start, except those of a package that no worker has", () => {
    for (const seed of seeds.slice(0, 100)) {
      const { plannedCalls: calls, workers } = generateWorldPlan(seed, "default");
      for (const call of calls) {
        if (call.what !== "start" || call.name.startsWith(missingPackageRunPrefix)) continue;
        const { workflow } = JSON.parse(call.body) as { workflow: { nodes: { type: string; policy: { pool?: string } }[] } };
        for (const { type, policy } of workflow.nodes) {
          const fits = workers.some(
            (worker) =>
              worker.tenant === call.tenant &&
              worker.nodeTypes.includes(type) &&
              (policy.pool === undefined || worker.pool === policy.pool),
          );
          expect(fits).toBe(true);
        }
      }
    }
  });

  it("[X56] session-profile plans cover windows of 1 to 64, lossy and lossless networks, tokens that expire, refused resumes and older workers", () => {
    const plans = seeds.map((seed) => generateWorldPlan(seed, "session"));
    const values = (of: (plan: (typeof plans)[number]) => number | boolean | undefined) => new Set(plans.map(of));

    for (const { wideSendWindow = 0, wideRecvWindow = 0 } of plans.map(({ sessionLimits: doors }) => doors)) {
      expect(Math.min(wideSendWindow, wideRecvWindow)).toBeGreaterThanOrEqual(1);
      expect(Math.max(wideSendWindow, wideRecvWindow)).toBeLessThanOrEqual(64);
    }
    expect(values(({ sessionLimits: doors }) => doors.wideSendWindow).size).toBeGreaterThan(20);
    expect(values(({ isNetworkLossy }) => isNetworkLossy)).toEqual(new Set([true, false]));
    expect(Math.min(...plans.map(({ tokenMs, faultPhaseMs }) => tokenMs / faultPhaseMs))).toBeLessThan(0.2);
    expect(values(({ sessionLimits: doors }) => doors.resumeTimeoutMs === 0)).toEqual(new Set([true, false]));
    const hasOlder = plans.filter(({ workers }) => workers.some(({ dialect }) => dialect !== undefined));
    expect(hasOlder.length).toBeGreaterThan(20);
    expect(new Set(hasOlder.flatMap(({ workers }) => workers.map(({ dialect }) => dialect)))).toEqual(
      new Set([undefined, "first", "v1", "basic"]),
    );
    // What such a worker could not send for 15 s is lost: it is only simulated on TCP.
    expect(hasOlder.every(({ isNetworkLossy }) => !isNetworkLossy)).toBe(true);
  });

  it("[X78] default, session and workflow plans have kicks, package commands, rebinds with and without a successor, and runs of a missing package", () => {
    for (const profile of ["default", "session", "workflow"] as const) {
      const plans = seeds.slice(0, 200).map((seed) => generateWorldPlan(seed, profile));
      const workerCommands = plans.flatMap(({ plannedCalls: calls }) =>
        calls.flatMap((call) => (call.what === "errand" ? [call] : [])),
      );
      const stranded = plans.flatMap(({ plannedCalls: calls }) =>
        calls.flatMap((call) => (call.what === "start" && call.name.startsWith(missingPackageRunPrefix) ? [call.body] : [])),
      );

      expect(new Set(workerCommands.map(({ command }) => command.of))).toEqual(
        new Set(["kick", "pkg.install", "pkg.uninstall", "rebind"]),
      );
      const heirs = workerCommands.flatMap(({ command }) => (command.of === "rebind" ? [command.successor !== null] : []));
      expect(new Set(heirs)).toEqual(new Set([true, false]));
      expect(new Set(stranded.map((body) => body.includes("allowUnknown")))).toEqual(new Set([true, false]));
    }
  });

  it("[X79] workflow-profile plans have disk faults, and older workers only where there are faults", () => {
    const plans = seeds.map((seed) => generateWorldPlan(seed, "workflow"));
    const hasOlder = plans.filter(({ workers }) => workers.some(({ dialect }) => dialect !== undefined));
    const disks = new Set(plans.flatMap(({ faults }) => faults.flatMap(({ kind }) => (kind.startsWith("disk-") ? [kind] : []))));

    expect(hasOlder.length).toBeGreaterThan(20);
    expect(new Set(hasOlder.flatMap(({ workers }) => workers.map(({ dialect }) => dialect)))).toEqual(
      new Set([undefined, "first", "v1", "basic"]),
    );
    expect(hasOlder.every(({ faults, isNetworkLossy }) => faults.length > 0 && !isNetworkLossy)).toBe(true);
    expect([...disks].sort()).toEqual(["disk-append-fails", "disk-full", "disk-slow", "disk-sync-fails"]);
  });

  it("[X57] a world plan with resumes refused is otherwise the same plan", () => {
    const { sessionLimits: doors, ...rest } = generateWorldPlan(7, "session");
    const { sessionLimits: refusing, ...same } = generateWorldPlan(7, "session", { isResumeRefused: true });

    expect(refusing).toEqual({ ...doors, resumeTimeoutMs: 0 });
    expect(doors.resumeTimeoutMs).toBeGreaterThan(0);
    expect(same).toEqual(rest);
    // Some worlds of the older profiles refuse as well.
    expect(seeds.filter((seed) => generateWorldPlan(seed, "default").sessionLimits.resumeTimeoutMs === 0).length).toBeGreaterThan(
      20,
    );
  });
});
