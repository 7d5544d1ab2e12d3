// Installs and removals on many workers, what is uninstalled after a rollout, and installs that nobody ordered.

import { explainPlacement } from "@astraflow/services";
import { afterEach, describe, expect, it } from "vitest";
import { nodeId } from "../harness/engine-harness.ts";
import { caller, type FleetFixture, openFleetFixture, packageName, rememberHighest, tenant } from "./fleet-fixture.ts";

const opened: FleetFixture[] = [];
afterEach(async () => {
  for (const fixture of opened.splice(0)) await fixture.close();
});
async function openFleet(versions: readonly string[], options: Parameters<typeof openFleetFixture>[0] = {}) {
  const fixture = await openFleetFixture(options);
  opened.push(fixture);
  for (const version of versions) await fixture.publish(version);
  return fixture;
}
const order = async ({ services }: FleetFixture, request: object, key: string | null = null) =>
  services.fleet.installs.start(caller, packageName, request, key);
const refusal = (ordered: Promise<unknown>) =>
  ordered.then(
    () => "accepted",
    ({ code }: { code: string }) => code,
  );

describe("installs on chosen workers", () => {
  it("[A1200] a version is installed on named workers, on a pool or on all; those that have it are done without a command", async () => {
    const fleet = await openFleet(["1.0.0", "1.1.0"]);
    const [a, b, c] = [await fleet.join("a"), await fleet.join("b", ["1.1.0"]), await fleet.join("c", [], "gpu")];

    const named = await order(fleet, { version: "1.0.0", workers: ["a"] });
    const pooled = await order(fleet, { pool: "gpu" });
    const all = await order(fleet, { all: true });
    await fleet.steps(4);
    const ended = await fleet.install(all.install.installId);

    expect([named.install.version, pooled.install.version]).toEqual(["1.0.0", "1.1.0"]);
    expect([a.versions, b.versions, c.versions]).toEqual([["1.0.0", "1.1.0"], ["1.1.0"], ["1.1.0"]]);
    expect(b.commands).toEqual([]);
    expect(ended).toMatchObject({ status: "done", counts: { waiting: 0, done: 3, failed: 0 }, createdBy: "boss" });
    expect(ended.workers.map(({ commandId }) => commandId === null)).toEqual([false, true, false]);
  });

  it("[A1201] a worker that fails or is not connected is named with its code, and the others are not held up", async () => {
    const fleet = await openFleet(["1.0.0"]);
    const [broken, away] = [await fleet.join("broken"), await fleet.join("away")];
    await fleet.join("fine");
    broken.answer = () => ({ code: "E.PKG.PERMISSION", message: "hooks are not allowed" });
    await away.session.disconnect();

    const { install } = await order(fleet, { workers: ["broken", "away", "fine"] });
    await fleet.steps(4);

    expect(await fleet.install(install.installId)).toMatchObject({
      status: "done",
      counts: { waiting: 0, done: 1, failed: 2 },
      workers: [
        { name: "broken", status: "failed", code: "E.PKG.PERMISSION", message: expect.stringContaining("hooks are not allowed") },
        { name: "away", status: "failed", code: "E.SESSION.UNKNOWN", commandId: null },
        { name: "fine", status: "done" },
      ],
    });
  });

  it("[A1200] a version is uninstalled where it is, or every version where none is named", async () => {
    const fleet = await openFleet(["1.0.0", "1.1.0"]);
    const [a, b] = [await fleet.join("a", ["1.0.0", "1.1.0"]), await fleet.join("b", ["1.1.0"])];

    await order(fleet, { action: "uninstall", version: "1.0.0", all: true });
    await fleet.steps(4);
    const one = [a.versions, b.commands];
    await order(fleet, { action: "uninstall", all: true });
    await fleet.steps(4);

    expect(one).toEqual([["1.1.0"], []]);
    expect([a.versions, b.versions]).toEqual([[], []]);
  });

  it("[A1202] an install is refused where no version or no worker fits, or where workers are named in two ways, and reaches nobody", async () => {
    const fleet = await openFleet(["1.0.0"]);
    const worker = await fleet.join("a");

    const codes = [
      await refusal(order(fleet, { version: "2.0.0", all: true })),
      await refusal(order(fleet, { workers: ["nobody"] })),
      await refusal(order(fleet, { pool: "gpu" })),
      await refusal(order(fleet, {})),
      await refusal(order(fleet, { all: true, pool: "default" })),
      await refusal(fleet.services.fleet.installs.find(tenant, "other", "x")),
    ];

    expect(codes).toEqual(["E.NOT_FOUND", "E.NOT_FOUND", "E.CONFLICT", "E.REQUEST.INVALID", "E.REQUEST.INVALID", "E.NOT_FOUND"]);
    expect(worker.commands).toEqual([]);
  });

  it("[A1203] the same key and request give the same install, and its commands are sent once", async () => {
    const fleet = await openFleet(["1.0.0"]);
    const worker = await fleet.join("a");

    const first = await order(fleet, { all: true }, "once");
    await fleet.steps(3);
    const again = await order(fleet, { all: true }, "once");
    const other = await refusal(order(fleet, { workers: ["a"] }, "once"));
    await fleet.steps(2);

    expect([again.install.installId, again.install.status, again.repeated, other]).toEqual([
      first.install.installId,
      "done",
      true,
      "E.IDEMPOTENCY.MISMATCH",
    ]);
    expect(worker.commands).toEqual(["install 1.0.0"]);
  });
});

describe("versions that stay", () => {
  const rollOut = async (fleet: FleetFixture, version: string) => {
    await fleet.services.fleet.rollouts.start(caller, packageName, { version, phases: ["100%"], observeMs: 0 }, null);
    await fleet.steps(8);
  };

  it("[A1213] after a rollout so many versions before the new one stay on the workers, and the older ones are uninstalled", async () => {
    const versions = ["1.0.0", "1.1.0", "1.2.0", "1.3.0"];
    const fleet = await openFleet(versions, { keptVersionsOf: () => 1 });
    const worker = await fleet.join("a", ["0.9.0", "1.0.0", "1.1.0", "1.2.0"]);

    await rollOut(fleet, "1.3.0");

    // 0.9.0 is not published here: nobody could install it again.
    expect(worker.versions).toEqual(["0.9.0", "1.2.0", "1.3.0"]);
  });

  it("[A1213] a version that an open run names stays, also inside a run that waits", async () => {
    const fleet = await openFleet(["1.0.0", "1.1.0", "1.2.0"], { keptVersionsOf: () => 0 });
    const worker = await fleet.join("a", ["1.0.0", "1.1.0"]);
    await fleet.startTask("1.0.0");

    await rollOut(fleet, "1.2.0");

    expect(worker.versions).toEqual(["1.0.0", "1.2.0"]);
  });
});

describe("installs on demand", () => {
  it("[A1214] where it is allowed, a version that tasks wait for is installed on the least busy worker that could run them, and they run", async () => {
    const fleet = await openFleet(["1.0.0", "1.1.0"], { isOnDemandAllowed: (of) => of === tenant });
    const [busy, free, gpu] = [await fleet.join("a", ["1.0.0"]), await fleet.join("b"), await fleet.join("c", [], "gpu")];
    await fleet.startTask("1.0.0");

    await fleet.startTask("1.1.0", { pool: "default" });
    await fleet.steps(3);
    await fleet.harness.settle();

    expect([busy.versions, free.versions, gpu.versions]).toEqual([["1.0.0"], ["1.1.0"], []]);
    expect(free.session.dispatchesSent).toHaveLength(1);
  });

  it("[P1201] while the package of a task is being installed, the explanation why it waits says so and names the worker and the version", async () => {
    const fleet = await openFleet(["1.0.0"], { isOnDemandAllowed: () => true });
    const worker = await fleet.join("a");
    worker.answer = () => undefined;
    const run = await fleet.startTask("1.0.0");
    const explain = () => explainPlacement(fleet.services.runs, tenant, run, nodeId(0));

    const before = await explain();
    await fleet.steps(2);
    const after = await explain();

    expect(before.workers[0]?.code).toBe("package-missing");
    expect(after).toMatchObject({
      summary: "node 0 waits until its package is installed on worker a",
      workers: [{ workerName: "a", code: "package-installing", facts: { version: "1.0.0", needs: "demo@1.0.0" } }],
      fixes: [],
    });
  });

  it("[A1214] nothing is installed where it is not allowed, where a worker has the version, or where it is withdrawn", async () => {
    const off = await openFleet(["1.0.0"]);
    const worker = await off.join("a");
    await off.startTask("1.0.0");
    await off.steps(3);
    const on = await openFleet(["1.0.0", "1.1.0"], { isOnDemandAllowed: () => true });
    const [holder, other] = [await on.join("a", ["1.0.0"]), await on.join("b")];
    const { rollout } = await on.services.fleet.rollouts.start(caller, packageName, { version: "1.1.0" }, null);
    await on.services.fleet.rollouts.stop(caller, packageName, rollout.rolloutId, true, null);
    for (let at = 0; at < 11; at += 1) await on.startTask("1.0.0");
    await on.startTask("1.1.0");

    await on.steps(4);

    expect([worker.commands, holder.commands, other.commands]).toEqual([[], [], []]);
    expect(await on.versionStatus("1.1.0")).toBe("withdrawn");
  });

  it("[A1214] a worker that could not install it is not tried again for ten minutes; another one is", async () => {
    const fleet = await openFleet(["1.0.0"], { isOnDemandAllowed: () => true });
    const [broken, fine] = [await fleet.join("a"), await fleet.join("b")];
    broken.answer = () => ({ code: "E.PKG.INVALID", message: "no space" });
    await fleet.startTask("1.0.0");

    await fleet.steps(6);

    expect([broken.commands, fine.versions]).toEqual([["install 1.0.0"], ["1.0.0"]]);
  });
});

describe("which version is installed on demand", () => {
  const anyFrom = { minVersion: "0.9.0" };

  it("[A1220] a version that a run names is installed also on a worker that had a higher one", async () => {
    const fleet = await openFleet(["1.0.0", "1.1.0"], { isOnDemandAllowed: () => true });
    const worker = await fleet.join("a", ["1.1.0"]);
    rememberHighest(worker);

    await fleet.startTask("1.0.0");
    await fleet.steps(3);

    expect(worker.versions).toEqual(["1.0.0", "1.1.0"]);
    expect(worker.session.dispatchesSent).toHaveLength(1);
  });

  it("[A1221] a pre-release is installed only if it is named or nothing else will do", async () => {
    const fleet = await openFleet(["1.0.0", "2.0.0-rc.1"], { isOnDemandAllowed: () => true });
    const [any, named, newer] = [
      await fleet.join("a", [], "any"),
      await fleet.join("b", [], "named"),
      await fleet.join("c", [], "newer"),
    ];

    await fleet.startTask("0.9.0", { ...anyFrom, pool: "any" });
    await fleet.startTask("2.0.0-rc.1", { pool: "named" });
    await fleet.startTask("0.9.0", { minVersion: "1.1.0", pool: "newer" });
    await fleet.steps(3);

    expect([any.versions, named.versions, newer.versions]).toEqual([["1.0.0"], ["2.0.0-rc.1"], ["2.0.0-rc.1"]]);
  });

  it("[A1221] the version of an open rollout is not installed where another one will do, and the one that it replaces comes first", async () => {
    const fleet = await openFleet(["1.0.0", "1.1.0", "1.2.0"], { isOnDemandAllowed: () => true });
    await fleet.join("a", ["1.0.0"]);
    const [any, newest, named] = [
      await fleet.join("b", [], "any"),
      await fleet.join("c", [], "newest"),
      await fleet.join("d", [], "named"),
    ];
    await fleet.services.fleet.rollouts.start(caller, packageName, { version: "1.2.0", phases: [1, "100%"] }, null);

    await fleet.startTask("0.9.0", { ...anyFrom, pool: "any" });
    await fleet.startTask("0.9.0", { minVersion: "1.2.0", pool: "newest" });
    await fleet.startTask("1.2.0", { pool: "named" });
    await fleet.steps(3);

    expect([any.versions, newest.versions, named.versions]).toEqual([["1.0.0"], [], ["1.2.0"]]);
  });
});

describe("alerts", () => {
  it("[A1215] lost workers, full disks, stopped rollouts and failed installs are listed with since when and what to do, and go with their cause", async () => {
    const fleet = await openFleet(["1.0.0", "1.1.0"], { isStoreDiskFull: () => true });
    const [a, b] = [await fleet.join("a", ["1.0.0"]), await fleet.join("b", ["1.0.0"])];
    let isBroken = true;
    a.answer = ({ type }) => (isBroken && type === "pkg.install" ? { code: "E.PKG.INVALID", message: "no space" } : "done");
    await fleet.services.fleet.rollouts.start(caller, packageName, { version: "1.1.0" }, null);
    await fleet.steps(6);
    await b.session.disconnect();
    for (let at = 0; at < 40; at += 1) {
      await fleet.harness.advance(1_000);
      await a.session.heartbeat([], true, { diskPct: 99 });
    }
    const before = await fleet.services.alerts.list(tenant);

    isBroken = false;
    await order(fleet, { version: "1.1.0", workers: ["a"] });
    await fleet.steps(4);
    await a.session.heartbeat([], true, { diskPct: 1 });
    await fleet.join("b", ["1.0.0"]);
    const after = await fleet.services.alerts.list(tenant);

    const codes = ({ items }: typeof before) => items.map(({ code, subject }) => `${code} ${subject.type}`).sort();
    expect(codes(before)).toEqual([
      "package.install_failed install",
      "package.rollout_stopped rollout",
      "store.disk_full scheduler",
      "worker.disk_full worker",
      "worker.lost worker",
    ]);
    expect(before.items.every(({ since, message, remedy }) => since !== "" && message !== "" && remedy !== "")).toBe(true);
    expect(codes(after)).toEqual(["package.rollout_stopped rollout", "store.disk_full scheduler"]);
  });
});
