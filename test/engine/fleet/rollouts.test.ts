// Rollouts in phases on the real engine: who gets a version when, what stops it, and how it goes back.

import { describe, expect, it } from "vitest";
import { caller, holders, openFleet, packageName, startRollout, tenant } from "./fleet-fixture.ts";

describe("phases", () => {
  it("[A1205] a rollout installs one worker, then a share, then all, and each phase is watched before the next begins", async () => {
    const fleet = await openFleet(8);
    const seen: string[][] = [];

    const { rolloutId, previousVersion } = await startRollout(fleet);
    for (let phase = 0; phase < 3; phase += 1) {
      await fleet.steps(4);
      seen.push(holders(fleet, "1.1.0"));
      fleet.environment.jumpClock(60_000);
    }
    await fleet.steps(2);
    const ended = await fleet.rollout(rolloutId);

    expect(previousVersion).toBe("1.0.0");
    expect(seen).toEqual([["w1"], ["w1", "w2"], ["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"]]);
    expect([ended.status, ended.phases.map(({ status }) => status), ended.reason]).toEqual([
      "finished",
      ["done", "done", "done"],
      null,
    ]);
    expect(ended.finishedAt).not.toBeNull();
  });

  it("[A1205] a phase goes on only when its time is over, and installs nothing on workers of another pool", async () => {
    const fleet = await openFleet(1);
    await fleet.join("other", ["1.0.0"], "gpu");
    const { rolloutId } = await startRollout(fleet, { pool: "default", phases: ["100%"] });

    await fleet.steps(4);
    fleet.environment.jumpClock(59_000);
    await fleet.steps(2);
    const early = await fleet.rollout(rolloutId);
    fleet.environment.jumpClock(1_000);
    await fleet.steps(2);

    expect([early.status, early.phases[0]?.status]).toEqual(["running", "observing"]);
    expect((await fleet.rollout(rolloutId)).status).toBe("finished");
    expect(holders(fleet, "1.1.0")).toEqual(["w1"]);
  });

  it("[A1206] of one package one rollout is open at a time; the second is refused with the id of the first, and begins after its end", async () => {
    const fleet = await openFleet(1);
    const first = await startRollout(fleet, { observeMs: 0 });

    const refused = await startRollout(fleet).catch((why: unknown) => why);
    await fleet.steps(6);
    const second = await startRollout(fleet, { observeMs: 0 });

    expect(refused).toMatchObject({ code: "E.CONFLICT", details: { rolloutId: first.rolloutId } });
    expect((await fleet.rollout(first.rolloutId)).status).toBe("finished");
    expect(second.status).toBe("running");
  });

  it("[A1205] a rollout of what is not published, without a worker that can install, or with phases that shrink is refused", async () => {
    const fleet = await openFleet(0);
    const refusal = async (request: object) => startRollout(fleet, request).catch(({ code }: { code: string }) => code);

    const noWorker = await refusal({});
    await fleet.join("w1", ["1.0.0"]);

    expect(noWorker).toBe("E.CONFLICT");
    expect(await refusal({ version: "9.9.9" })).toBe("E.NOT_FOUND");
    expect(await refusal({ phases: ["50%", "10%"] })).toBe("E.REQUEST.INVALID");
    expect(await refusal({ pool: "gpu" })).toBe("E.CONFLICT");
  });
});

describe("automatic rollback", () => {
  it("[A1207] tasks of the new version that fail beyond the limit stop the rollout: the version is withdrawn and removed where it was brought, and the fleet is as before", async () => {
    const ended: string[] = [];
    const fleet = await openFleet(4, { onRolloutEnded: (of, status) => void ended.push(`${of} ${status}`) });
    const { rolloutId } = await startRollout(fleet, { failures: { max: 1 } });
    await fleet.steps(4);
    const [first] = fleet.workers;
    if (first === undefined) throw new Error("no worker");

    for (let at = 0; at < 2; at += 1) {
      await fleet.startTask("1.1.0", { retry: { maxAttempts: 1 } });
      await fleet.endTask(first, "failed");
    }
    await fleet.steps(4);
    const rollout = await fleet.rollout(rolloutId);

    expect(rollout).toMatchObject({
      status: "rolledBack",
      tasks: { succeeded: 0, failed: 2 },
      reason: { code: "tasks-failed", message: expect.stringContaining("2 of 2 tasks of demo 1.1.0 failed; at most 1 may") },
      phases: [{ status: "failed" }, { status: "waiting" }, { status: "waiting" }],
    });
    expect([holders(fleet, "1.1.0"), holders(fleet, "1.0.0")]).toEqual([[], ["w1", "w2", "w3", "w4"]]);
    expect(await fleet.versionStatus("1.1.0")).toBe("withdrawn");
    expect(ended).toEqual(["t1 rolledBack"]);
    const facts = await fleet.harness.facts(tenant);
    for (const fact of ["audit.package.rollout", "audit.package.withdraw", "audit.package.rollout.rolledBack"])
      expect(facts.join("\n")).toContain(fact);
  });

  it("[A1207] tasks of other versions, and failures that are not the package's, do not count; successes do", async () => {
    const fleet = await openFleet(1);
    const { rolloutId } = await startRollout(fleet, { failures: { max: 0 } });
    await fleet.steps(4);
    const [worker] = fleet.workers;
    if (worker === undefined) throw new Error("no worker");

    await fleet.startTask("1.0.0", { retry: { maxAttempts: 1 } });
    await fleet.endTask(worker, "failed");
    await fleet.startTask("1.1.0", { retry: { maxAttempts: 1 } });
    await worker.session.error("E.RESOURCE.MISSING");
    await fleet.startTask("1.1.0");
    await fleet.endTask(worker, "succeeded");
    await fleet.steps(2);

    expect(await fleet.rollout(rolloutId)).toMatchObject({ status: "running", tasks: { succeeded: 1, failed: 0 } });
  });

  it("[A1207] a failed attempt that is made again counts, and the share counts once there are enough tasks", async () => {
    const fleet = await openFleet(1);
    const { rolloutId } = await startRollout(fleet, { failures: { max: 100, ratio: 0.5, minTasks: 4 } });
    await fleet.steps(4);
    const [worker] = fleet.workers;
    if (worker === undefined) throw new Error("no worker");

    await fleet.startTask("1.1.0");
    await fleet.endTask(worker, "succeeded");
    await fleet.startTask("1.1.0", { retry: { maxAttempts: 5, backoffMs: 0 } });
    for (let at = 0; at < 2; at += 1) await fleet.endTask(worker, "failed");
    await fleet.steps(2);
    const before = await fleet.rollout(rolloutId);
    await fleet.endTask(worker, "failed");
    await fleet.steps(4);

    expect(before).toMatchObject({ status: "running", tasks: { succeeded: 1, failed: 2 } });
    expect(await fleet.rollout(rolloutId)).toMatchObject({ status: "rolledBack", tasks: { failed: 3 } });
  });

  it("[A1208] an install that fails stops the rollout, with the worker and its reason, and what was brought before is taken back", async () => {
    const fleet = await openFleet(4);
    const { rolloutId } = await startRollout(fleet, { observeMs: 0 });
    const [, second] = fleet.workers;
    if (second === undefined) throw new Error("no worker");
    second.answer = ({ type }) => (type === "pkg.install" ? { code: "E.PKG.INVALID", message: "the lock is wrong" } : "done");

    await fleet.steps(12);

    expect(await fleet.rollout(rolloutId)).toMatchObject({
      status: "rolledBack",
      reason: {
        code: "install-failed",
        message: expect.stringMatching(/1\.1\.0 could not be installed on worker w2: .*the lock is wrong/),
      },
    });
    expect(holders(fleet, "1.1.0")).toEqual([]);
    expect(await fleet.versionStatus("1.1.0")).toBe("withdrawn");
  });

  it("[A1208] the version before is installed again where it is gone, although it is older, before the new one is removed", async () => {
    const fleet = await openFleet(1);
    const bare = await fleet.join("w2", []);
    const { rolloutId } = await startRollout(fleet, { phases: ["100%"] });
    await fleet.steps(4);
    await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, true, null);

    await fleet.steps(6);

    expect(await fleet.rollout(rolloutId)).toMatchObject({ status: "rolledBack", reason: { code: "operator" } });
    expect(bare.commands).toEqual(["install 1.1.0", "install 1.0.0", "uninstall 1.1.0"]);
    expect(fleet.workers.map(({ versions }) => versions)).toEqual([["1.0.0"], ["1.0.0"]]);
  });

  it("[A1209] a worker that is away or lost does not stop a rollout, and is told again in a later phase", async () => {
    const fleet = await openFleet(2);
    const [first, second] = fleet.workers;
    if (first === undefined || second === undefined) throw new Error("no workers");
    first.answer = () => undefined;
    const { rolloutId } = await startRollout(fleet, { phases: [2, "100%"], observeMs: 0 });
    await fleet.step();
    await first.session.disconnect();
    // In small steps: a long one looks like a scheduler that stood still itself.
    for (let at = 0; at < 40; at += 1) {
      await fleet.harness.advance(1_000);
      await second.session.heartbeat([]);
    }
    const back = await fleet.join("w1", ["1.0.0"]);

    await fleet.steps(6);
    const rollout = await fleet.rollout(rolloutId);

    expect(rollout.status).toBe("finished");
    expect(rollout.phases[0]?.workers.map(({ name, status, code }) => [name, status, code])).toEqual([
      ["w1", "failed", "E.WORKER.LOST"],
      ["w2", "done", undefined],
    ]);
    expect(back.versions).toEqual(["1.0.0", "1.1.0"]);
  });
});

describe("stop and rollback by order", () => {
  it("[A1210] a rollout that is stopped leaves workers as they are, and what is over cannot be stopped", async () => {
    const fleet = await openFleet(4);
    const { rolloutId } = await startRollout(fleet);
    await fleet.steps(4);

    const { rollout } = await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, false, "once");
    const again = await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, false, "once");
    const refused = await fleet.services.fleet.rollouts
      .stop(caller, packageName, rolloutId, true, null)
      .catch((why: unknown) => why);
    await fleet.steps(3);

    expect([rollout.status, rollout.reason?.code, again.repeated]).toEqual(["stopped", "operator", true]);
    expect(refused).toMatchObject({ code: "E.CONFLICT", message: expect.stringContaining("is stopped and cannot be stopped") });
    expect(holders(fleet, "1.1.0")).toEqual(["w1"]);
    expect(await fleet.versionStatus("1.1.0")).toBe("published");
  });

  it("[A1211] one command goes back to the version before: it is installed where it is gone, the newer one is withdrawn and removed", async () => {
    const fleet = await openFleet(2);
    const newOnly = await fleet.join("w3", ["1.1.0"]);
    await startRollout(fleet, { observeMs: 0 });
    await fleet.steps(10);

    const { rollout } = await fleet.services.fleet.rollouts.rollback(caller, packageName, {}, null);
    const atOnce = await fleet.versionStatus("1.1.0");
    await fleet.steps(6);

    expect(rollout).toMatchObject({ kind: "rollback", version: "1.0.0", previousVersion: "1.1.0" });
    expect(atOnce).toBe("withdrawn");
    expect((await fleet.rollout(rollout.rolloutId)).status).toBe("finished");
    expect(fleet.workers.map(({ versions }) => versions)).toEqual([["1.0.0"], ["1.0.0"], ["1.0.0"]]);
    expect(newOnly.commands).toEqual(["install 1.0.0", "uninstall 1.1.0"]);
  });

  it("[A1211] a rollback that cannot install the older version somewhere leaves the newer one there and says so; a pool goes back alone, without a withdrawal", async () => {
    const fleet = await openFleet(0);
    const [gpu, other] = [await fleet.join("g1", ["1.1.0"], "gpu"), await fleet.join("c1", ["1.1.0"])];
    gpu.answer = () => ({ code: "E.PKG.INVALID", message: "no space" });

    const { rollout } = await fleet.services.fleet.rollouts.rollback(caller, packageName, { to: "1.0.0", pool: "gpu" }, null);
    await fleet.steps(6);

    expect(await fleet.rollout(rollout.rolloutId)).toMatchObject({
      status: "stopped",
      reason: { code: "install-failed", message: expect.stringContaining("worker g1, which keeps 1.1.0") },
    });
    expect([gpu.versions, other.versions, await fleet.versionStatus("1.1.0")]).toEqual([["1.1.0"], ["1.1.0"], "published"]);
  });

  it("[A1211] runs that name no version use a withdrawn one no longer, also where a worker has kept it and after a restart of the scheduler", async () => {
    const fleet = await openFleet(0);
    const both = await fleet.join("a", ["1.0.0", "1.1.0"]);
    const { rolloutId } = await startRollout(fleet, { phases: ["100%"] });
    await fleet.steps(3);
    const runs = { minVersion: "1.0.0" };
    await fleet.startTask("0.9.0", runs);
    const before = both.session.lastDispatch.packageVersion;

    await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, true, null);
    await fleet.steps(3);
    await fleet.startTask("0.9.0", runs);
    const after = both.session.lastDispatch.packageVersion;
    // Its engine knows nothing until a scheduler says it.
    await fleet.harness.ask({ type: "packages.withdrawn", tenant, versions: [] });
    await fleet.step(fleet.openScheduler());
    await fleet.startTask("0.9.0", runs);

    expect([before, after, both.session.lastDispatch.packageVersion]).toEqual(["1.1.0", "1.0.0", "1.0.0"]);
    // The rollout did not bring it.
    expect(both.versions).toEqual(["1.0.0", "1.1.0"]);
  });

  it("[A1211] a version that was withdrawn is offered again once somebody rolls it out", async () => {
    const fleet = await openFleet(1);
    const { rolloutId } = await startRollout(fleet);
    await fleet.steps(4);
    await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, true, null);
    await fleet.steps(5);
    const withdrawn = await fleet.versionStatus("1.1.0");

    await startRollout(fleet, { observeMs: 0 });

    expect([withdrawn, await fleet.versionStatus("1.1.0")]).toEqual(["withdrawn", "published"]);
  });
});

describe("several schedulers, and schedulers that die", () => {
  it("[A1212] a scheduler that knows nothing of a rollout goes on with it at every step, and every command is sent once", async () => {
    const fleet = await openFleet(3);
    const { rolloutId } = await startRollout(fleet, { observeMs: 0, failures: { max: 0 } });

    // A new one for each step: as if the one before had been killed after its last write.
    for (let at = 0; at < 12; at += 1) await fleet.step(fleet.openScheduler());

    expect((await fleet.rollout(rolloutId)).status).toBe("finished");
    expect(fleet.workers.map(({ commands }) => commands)).toEqual([["install 1.1.0"], ["install 1.1.0"], ["install 1.1.0"]]);
  });

  it("[A1212] a scheduler that dies between sending a command and writing that it did has its command found again, also by a rollback", async () => {
    const fleet = await openFleet(1);
    const { rolloutId } = await startRollout(fleet, { phases: ["100%"] });
    const dying = fleet.openScheduler();
    const { store } = fleet.harness;
    const before = await store.page({ page: "doc", tenant, collection: "rollout", names: [rolloutId] });
    await dying.fleet.loop.step(tenant);
    await fleet.harness.settle();
    const [doc] = before.items;
    const written = await store.page({ page: "doc", tenant, collection: "rollout", names: [rolloutId] });
    const { phases } = JSON.parse(written.items[0]?.body ?? "{}") as { phases: { workers: object[] }[] };
    const forgotten = { ...JSON.parse(doc?.body ?? "{}"), phases: [{ ...phases[0], workers: phases[0]?.workers.map(forget) }] };
    await fleet.harness.ask({
      type: "docs.write",
      tenant,
      by: "test",
      puts: [{ collection: "rollout", name: rolloutId, body: JSON.stringify(forgotten), terms: written.items[0]?.terms ?? "" }],
    });
    for (const worker of fleet.workers) await worker.work();

    await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, true, null);
    await fleet.steps(6);

    expect(fleet.workers[0]?.commands).toEqual(["install 1.1.0", "uninstall 1.1.0"]);
    expect(fleet.workers[0]?.versions).toEqual(["1.0.0"]);
  });

  it("[A1212] two schedulers that step at the same time send each command once and end in one state", async () => {
    const fleet = await openFleet(4);
    const { rolloutId } = await startRollout(fleet, { observeMs: 0 });
    const other = fleet.openScheduler();

    for (let at = 0; at < 14; at += 1) {
      await Promise.all([fleet.services.fleet.loop.step(tenant), other.fleet.loop.step(tenant)]);
      await fleet.harness.settle();
      for (const worker of fleet.workers) await worker.work();
    }

    expect((await fleet.rollout(rolloutId)).status).toBe("finished");
    expect(fleet.workers.map(({ commands }) => commands.length)).toEqual([1, 1, 1, 1]);
  });
});

const forget = (worker: object): object => ({ ...worker, commandId: null, status: "waiting" });
