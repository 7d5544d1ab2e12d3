// Rollouts that go back, on the real engine: what workers are left with when parts of it fail, and what can be rolled out afterwards.

import { describe, expect, it } from "vitest";
import { createHarnessLink } from "../harness/harness-link.ts";
import { caller, holders, openFleet, packageName, rememberHighest, startRollout, tenant } from "./fleet-fixture.ts";

describe("a rollout that goes back", () => {
  it("[A1218] where the version before cannot be installed again the new one stays, and the reason and an alert name the worker", async () => {
    const fleet = await openFleet(1);
    const bare = await fleet.join("w2", []);
    const { rolloutId } = await startRollout(fleet, { phases: ["100%"] });
    await fleet.steps(4);
    bare.answer = ({ type }) => (type === "pkg.install" ? { code: "E.PKG.INVALID", message: "no space" } : "done");
    await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, true, null);

    await fleet.steps(8);
    const ended = await fleet.rollout(rolloutId);
    const { items: alerts } = await fleet.services.alerts.list(tenant);
    const alert = alerts.find(({ code }) => code === "package.rollout_stopped");

    expect(fleet.workers.map(({ versions }) => versions)).toEqual([["1.0.0"], ["1.1.0"]]);
    expect(ended).toMatchObject({
      status: "rolledBack",
      reason: {
        code: "rollback-failed",
        message: expect.stringMatching(/^boss stopped it; the rollback failed on worker w2 \(.*no space.*\)$/),
      },
      rollback: { uninstalls: [{ name: "w1", status: "done" }] },
    });
    expect(alert?.message).toContain("the rollback failed on worker w2");
    expect(alert?.remedy).toContain("install 1.0.0 and uninstall 1.1.0 there");
  });

  it("[A1218] a worker that cannot remove the new version is named too, although it never had another one", async () => {
    const fleet = await openFleet(0);
    const worker = await fleet.join("w1", []);
    const { rolloutId } = await startRollout(fleet, { phases: ["100%"] });
    await fleet.steps(4);
    worker.answer = () => ({ code: "E.PKG.INVALID", message: "a hook failed" });
    await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, true, null);

    await fleet.steps(6);

    expect((await fleet.rollout(rolloutId)).reason).toMatchObject({
      code: "rollback-failed",
      message: expect.stringContaining("a hook failed"),
    });
    expect(worker.commands).toEqual(["install 1.1.0", "uninstall 1.1.0"]);
  });

  it("[A1219] an install that a slow scheduler sends after the rollout has gone back reaches nobody", async () => {
    const fleet = await openFleet(3);
    const [first] = fleet.workers;
    if (first === undefined) throw new Error("no worker");
    first.answer = ({ type }) => (type === "pkg.install" ? { code: "E.PKG.INVALID", message: "broken" } : "done");
    const { rolloutId } = await startRollout(fleet, { phases: ["100%"] });
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let orders = 0;
    const link = createHarnessLink(fleet.harness);
    const { request: forward } = link;
    const request: typeof forward = async (command) => {
      orders += command.type === "worker.order" ? 1 : 0;
      if (orders === 3) {
        reached.resolve();
        await released.promise;
      }
      return forward(command);
    };
    const slow = fleet.openScheduler({ engineClient: Object.assign(link, { request }) });

    const slowStep = slow.fleet.loop.step(tenant);
    await reached.promise;
    await fleet.answer();
    await fleet.services.fleet.rollouts.stop(caller, packageName, rolloutId, true, null);
    await fleet.steps(6);
    const before = await fleet.rollout(rolloutId);
    released.resolve();
    await slowStep;
    await fleet.steps(6);

    expect(before.status).toBe("rolledBack");
    expect(await fleet.rollout(rolloutId)).toEqual(before);
    expect(fleet.workers.map(({ commands }) => commands)).toEqual([["install 1.1.0"], ["install 1.1.0", "uninstall 1.1.0"], []]);
    expect(fleet.workers.map(({ versions }) => versions)).toEqual([["1.0.0"], ["1.0.0"], ["1.0.0"]]);
  });
});

describe("a rollout after a rollback", () => {
  it("[A1217] after a rollback a version below the one that was taken back is rolled out, although workers had a higher one", async () => {
    const fleet = await openFleet(2);
    for (const version of ["1.9.1", "2.0.0"]) await fleet.publish(version);
    for (const worker of fleet.workers) rememberHighest(worker);
    await startRollout(fleet, { version: "2.0.0", phases: ["100%"], observeMs: 0 });
    await fleet.steps(6);
    await fleet.services.fleet.rollouts.rollback(caller, packageName, {}, null);
    await fleet.steps(6);
    const afterRollback = fleet.workers.map(({ versions }) => versions);

    const { rolloutId } = await startRollout(fleet, { version: "1.9.1", phases: ["100%"], observeMs: 0 });
    await fleet.steps(6);

    expect(afterRollback).toEqual([["1.0.0"], ["1.0.0"]]);
    expect((await fleet.rollout(rolloutId)).status).toBe("finished");
    expect(await fleet.versionStatus("1.9.1")).toBe("published");
    expect(holders(fleet, "1.9.1")).toEqual(["w1", "w2"]);
  });
});
