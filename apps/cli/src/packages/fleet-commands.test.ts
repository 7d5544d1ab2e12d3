import type { FleetInstall, FleetWorker, Rollout } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { Terminal } from "../output/terminal.ts";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { installPackage, uninstallPackage } from "./install-commands.ts";
import { rollBackPackage, showRollout, startRollout, stopRollout } from "./rollout-commands.ts";

const worker = (name: string, status: FleetWorker["status"], more: Partial<FleetWorker> = {}): FleetWorker => ({
  name,
  workerId: name,
  commandId: null,
  status,
  ...more,
});
const refused = worker("w-2", "failed", { code: "E.PKG.PERMISSION", message: "the key is not trusted" });

function install(workers: readonly FleetWorker[], more: Partial<FleetInstall> = {}): FleetInstall {
  const count = (...states: FleetWorker["status"][]) => workers.filter(({ status }) => states.includes(status)).length;
  const counts = { waiting: count("waiting", "sent"), done: count("done"), failed: count("failed") };
  const at = "2026-01-02T03:04:05.000Z";
  const created = { createdAt: at, createdBy: "ada", updatedAt: at };
  const what = { installId: "i-1", packageName: "acme.tools", version: "1.2.0", action: "install" } as const;
  return { ...what, status: counts.waiting > 0 ? "running" : "done", counts, workers: [...workers], ...created, ...more };
}

/** Answers of a route, one after the other; the last one stays. */
const inTurn = <T>(...answers: readonly T[]) => {
  let at = 0;
  return () => answers[Math.min(at++, answers.length - 1)];
};

const target = { worker: [], all: true } as const;

describe("packages install and uninstall", () => {
  it("[L1256] install --wait follows the workers to the end, names those that failed and why, and ends with 1", async () => {
    const start = install([worker("w-1", "sent"), worker("w-2", "waiting")]);
    const fixture = createCommandFixture({
      installPackage: start,
      getInstall: inTurn(install([worker("w-1", "done"), worker("w-2", "sent")]), install([worker("w-1", "done"), refused])),
    });

    const code = await installPackage(fixture.context, { ...target, package: "acme.tools@1.2.0", wait: true, allowOlder: true });

    expect(code).toBe(1);
    expect(fixture.calls[0]).toEqual([
      "installPackage",
      { packageName: "acme.tools", body: { version: "1.2.0", allowOlder: true, all: true } },
    ]);
    expect(fixture.stderr()).toBe(
      "install acme.tools 1.2.0: w-1 done\ninstall acme.tools 1.2.0: w-2 failed E.PKG.PERMISSION: the key is not trusted\n",
    );
    expect(fixture.stdout()).toContain("install acme.tools 1.2.0: 1 done, 1 failed, 0 under way\n");
    expect(fixture.stdout()).toMatch(/w-2 +failed +E\.PKG\.PERMISSION +the key is not trusted/);
  });

  it("[L1256] install without --wait returns at once with the command that shows the rest", async () => {
    const fixture = createCommandFixture({ installPackage: install([worker("w-1", "sent")]) });

    expect(await installPackage(fixture.context, { package: "acme.tools", worker: ["w-1"] })).toBe(0);

    expect(fixture.calls).toEqual([["installPackage", { packageName: "acme.tools", body: { workers: ["w-1"] } }]]);
    expect(fixture.stderr()).toBe("next: astra packages list acme.tools\n");
  });

  it("[L1256] a terminal shows how many workers are done as a bar", async () => {
    let drawn = "";
    const fixture = createCommandFixture({
      installPackage: install([worker("w-1", "done"), worker("w-2", "sent")]),
      getInstall: install([worker("w-1", "done"), refused]),
    });
    const terminal = new Terminal({
      stdout: { write: () => undefined },
      stderr: { write: (text) => (drawn += text), isTTY: true, columns: 100 },
      env: {},
      isQuiet: false,
      wantsColor: false,
    });

    await installPackage({ ...fixture.context, terminal }, { ...target, package: "acme.tools", wait: true });

    expect(drawn).toContain("install acme.tools 1.2.0: [##########----------] 1 of 2 workers\n");
    expect(drawn).toContain("[####################] 2 of 2 workers, 1 failed\n");
  });

  it("[L1256] a signal ends the waiting with 130 and leaves the install under way", async () => {
    const stopping = new AbortController();
    const fixture = createCommandFixture({
      installPackage: install([worker("w-1", "sent")]),
      getInstall: () => (stopping.abort(), install([worker("w-1", "sent")])),
    });

    const context = { ...fixture.context, signal: stopping.signal };
    expect(await installPackage(context, { ...target, package: "acme.tools", wait: true })).toBe(130);

    expect(fixture.stderr()).toContain("Stopped waiting; it goes on. See: astra packages list acme.tools");
  });

  it("[L1256] install and uninstall need exactly one of --worker, --pool and --all, and a name", async () => {
    const { context, calls } = createCommandFixture({});

    await expect(installPackage(context, { package: "acme.tools", worker: [] })).rejects.toThrow(/Say where: --worker/);
    await expect(uninstallPackage(context, { package: "a", worker: ["w"], pool: "gpu" })).rejects.toMatchObject({ exitCode: 2 });
    await expect(installPackage(context, { ...target, package: "acme.tools@" })).rejects.toThrow(/is not NAME or NAME@VERSION/);
    expect(calls).toEqual([]);
  });

  it("[L1257] uninstall asks first, naming the version and where it is removed", async () => {
    const asked: string[] = [];
    const removal = install([worker("w-1", "done")], { action: "uninstall", version: null });
    const fixture = createCommandFixture({ installPackage: removal }, { confirm: async (action) => void asked.push(action) });

    await uninstallPackage(fixture.context, { package: "acme.tools", worker: [], pool: "gpu" });
    await uninstallPackage(fixture.context, { package: "acme.tools@1.2.0", worker: ["w-1"] });

    expect(asked).toEqual([
      "remove every version of acme.tools from every connected worker of pool gpu",
      "remove acme.tools 1.2.0 from 1 worker",
    ]);
    expect(fixture.calls.map(([, input]) => input)).toEqual([
      { packageName: "acme.tools", body: { action: "uninstall", pool: "gpu" } },
      { packageName: "acme.tools", body: { action: "uninstall", version: "1.2.0", workers: ["w-1"] } },
    ]);
  });
});

function rollout(status: Rollout["status"], more: Partial<Rollout> = {}): Rollout {
  const at = "2026-01-02T03:04:05.000Z";
  const phases: Rollout["phases"] = [
    { target: 1, status: status === "running" ? "observing" : "done", workers: [worker("w-1", "done")] },
    { target: "100%", status: "installing", workers: [worker("w-2", "sent")] },
  ];
  return {
    ...{ rolloutId: "0199-aaaa", kind: "rollout", packageName: "acme.tools", version: "1.2.0", previousVersion: "1.1.0" },
    ...{ pool: null, status, phase: 1, phases, failures: { max: 0, ratio: 0.1, minTasks: 10 }, observeMs: 60_000 },
    ...{ tasks: { succeeded: 4, failed: 0 }, rollback: null, reason: null },
    ...{ createdAt: at, createdBy: "ada", updatedAt: at, finishedAt: null },
    ...more,
  };
}
const takenBack = rollout("rolledBack", {
  tasks: { succeeded: 4, failed: 3 },
  rollback: { installs: [], uninstalls: [worker("w-1", "done")] },
  reason: { code: "tasks-failed", message: "3 tasks of 1.2.0 failed" },
});

describe("packages rollout and rollback", () => {
  it("[L1258] rollout start sends phases, limits and the time of watching, and ends with 1 when the version was taken back", async () => {
    const fixture = createCommandFixture({
      startRollout: rollout("running"),
      getRollout: inTurn(rollout("running"), rollout("rollingBack"), takenBack),
    });

    const code = await startRollout(fixture.context, {
      ...{ package: "acme.tools@1.2.0", pool: "gpu", phase: ["1", "25%"], maxFailures: 2, failureRatio: 0.5 },
      ...{ minTasks: 4, observe: 30, wait: true },
    });

    expect(code).toBe(1);
    expect(fixture.calls[0]?.[1]).toEqual({
      packageName: "acme.tools",
      body: {
        version: "1.2.0",
        pool: "gpu",
        phases: [1, "25%"],
        failures: { max: 2, ratio: 0.5, minTasks: 4 },
        observeMs: 30_000,
      },
    });
    const lines = fixture.stdout().split("\n");
    expect(lines.slice(0, 3)).toEqual([
      "rollout of acme.tools from 1.1.0 to 1.2.0: rolledBack, phase 2 of 2, tasks 4 ok, 3 failed",
      "tasks-failed: 3 tasks of 1.2.0 failed",
      "phase 1: done",
    ]);
    expect(lines).toContain("remove 1.2.0");
    expect(fixture.stderr()).toBe("phase 1: w-1 done\nremove 1.2.0: w-1 done\n");
  });

  it("[L1258] rollout start --wait ends with 0 when the rollout is finished, and refuses a missing version and a wrong phase", async () => {
    const fixture = createCommandFixture({ startRollout: rollout("running"), getRollout: rollout("finished") });

    expect(await startRollout(fixture.context, { package: "acme.tools@1.2.0", phase: [], wait: true })).toBe(0);

    expect(fixture.calls[0]?.[1]).toEqual({ packageName: "acme.tools", body: { version: "1.2.0" } });
    await expect(startRollout(fixture.context, { package: "acme.tools", phase: [] })).rejects.toThrow("acme.tools@VERSION");
    await expect(startRollout(fixture.context, { package: "acme.tools@1.2.0", phase: ["half"] })).rejects.toThrow(
      /--phase half is neither a number of workers/,
    );
  });

  it("[L1258] rollout show and stop take the newest rollout unless one is named; stop asks first and ends with 0 once it is stopped", async () => {
    const asked: string[] = [];
    const older = rollout("finished", { rolloutId: "0198-bbbb" });
    const fixture = createCommandFixture(
      {
        listRollouts: { items: [rollout("running"), older], nextCursor: null },
        getRollout: ({ rolloutId }: { rolloutId: string }) => (rolloutId === "0198-bbbb" ? older : takenBack),
        stopRollout: rollout("rollingBack"),
      },
      { confirm: async (action) => void asked.push(action) },
    );

    await showRollout(fixture.context, { package: "acme.tools", rollout: "bbbb" });
    expect(await stopRollout(fixture.context, { package: "acme.tools", rollback: true, wait: true })).toBe(0);

    expect(fixture.stdout()).toContain("rollout of acme.tools from 1.1.0 to 1.2.0: finished");
    expect(asked).toEqual(["stop the rollout of acme.tools 1.2.0, and take 1.2.0 back to 1.1.0"]);
    expect(fixture.calls.find(([name]) => name === "stopRollout")?.[1]).toEqual({
      packageName: "acme.tools",
      rolloutId: "0199-aaaa",
      body: { rollback: true },
    });
    const none = createCommandFixture({ listRollouts: { items: [], nextCursor: null } });
    await expect(showRollout(none.context, { package: "acme.tools" })).rejects.toMatchObject({ exitCode: 3 });
  });

  it("[L1259] rollback goes back to the version before or to a named one, asks first, and ends with 0 when the workers have it", async () => {
    const asked: string[] = [];
    const fixture = createCommandFixture(
      { rollbackPackage: rollout("rollingBack", { kind: "rollback" }), getRollout: rollout("rolledBack", { kind: "rollback" }) },
      { confirm: async (action) => void asked.push(action) },
    );

    expect(await rollBackPackage(fixture.context, { package: "acme.tools", wait: true })).toBe(0);
    expect(await rollBackPackage(fixture.context, { package: "acme.tools", to: "1.0.0", pool: "gpu" })).toBe(0);

    const sent = fixture.calls.filter(([name]) => name === "rollbackPackage").map(([, input]) => input);
    expect(sent).toEqual([
      { packageName: "acme.tools", body: {} },
      { packageName: "acme.tools", body: { to: "1.0.0", pool: "gpu" } },
    ]);
    expect(asked).toEqual([
      "take acme.tools back to the version before on every worker, and withdraw the newer version",
      "take acme.tools back to 1.0.0 on every worker of pool gpu",
    ]);
  });
});
