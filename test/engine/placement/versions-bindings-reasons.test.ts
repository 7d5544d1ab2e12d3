// Placement beyond the basics: versions from one on, workers that a run is bound to, and the answer to "why does it wait".

import { explainWaiting, readBindings, type WorkerRow } from "@astraflow/engine";
import { compilePlan, type PlanNode } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, describeWorker, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

/** A run, and whatever the engine makes of it before it rests. */
async function startAndSettle(
  harness: EngineHarness,
  workflow: Record<string, unknown>,
  changes: { tenant?: string } = {},
): Promise<string> {
  const run = await harness.startRun(workflow, changes);
  await harness.settle();
  return run;
}

const testPackage = (version: string, status = "installed") => ({ name: "test", version, status });
const nodeOf = (workflow: Record<string, unknown>, at = 0): PlanNode =>
  compilePlan(workflow as unknown as Workflow).nodes[at] as PlanNode;

async function placementOf(harness: EngineHarness, run: string, workflow: Record<string, unknown>, at = 0) {
  const { run: row, tasks } = await harness.runDetail(run);
  const { items } = await harness.store.page({ page: "workers", tenant: row.tenant });
  return explainWaiting(row, tasks.find((task) => task.id === `${run}.${at}`) ?? null, nodeOf(workflow, at), items, harness.now);
}

describe("versions", () => {
  it("[P11] a node with a minimum version goes to any worker with that version or a later one, and its dispatch names the version", async () => {
    const harness = await new EngineHarness().start();
    const early = await harness.joinWorker("early", { packages: [testPackage("1.9.0")] });
    const late = await harness.joinWorker("late", {
      packages: [testPackage("1.10.0"), testPackage("2.0.0-rc.1"), testPackage("3.0.0", "failed")],
    });

    await startAndSettle(harness, buildChain(1, { policy: { minVersion: "1.10.0" } }));

    expect(early.dispatchesSent).toEqual([]);
    expect(late.lastDispatch.packageVersion).toBe("2.0.0-rc.1");
  });

  it("[P11] a task with a minimum version gets the authored package version where that is installed and late enough", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { packages: [testPackage("1.0.0"), testPackage("4.0.0")] });

    await startAndSettle(harness, buildChain(1, { policy: { minVersion: "0.5.0" } }));

    expect(worker.lastDispatch.packageVersion).toBe("1.0.0");
  });

  it("[P11] a worker whose package version is too old, or not installed, gets no task with a minimum version", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("early", { packages: [testPackage("1.9.0")] });
    await harness.joinWorker("broken", { packages: [testPackage("2.0.0", "failed")] });
    const workflow = buildChain(1, { policy: { minVersion: "1.10.0" } });

    const run = await startAndSettle(harness, workflow);

    expect(harness.dispatches()).toEqual([]);
    const { workers } = await placementOf(harness, run, workflow);
    expect(workers.map(({ name, code, facts }) => ({ name, code, facts }))).toEqual([
      { name: "broken", code: "package-status", facts: { has: "failed", needs: "installed" } },
      { name: "early", code: "package-version", facts: { has: "1.9.0", needs: "1.10.0 or later" } },
    ]);
  });
});

describe("withdrawn versions", () => {
  const withdraw = (harness: EngineHarness, ...versions: string[]) =>
    harness.ask({ type: "packages.withdrawn", tenant: "t1", versions: versions.map((version) => `test@${version}`) });

  it("[P1200] a version that is withdrawn is not chosen for a node with a minimum version, also by workers that join or announce themselves later, until it is offered again", async () => {
    const harness = await new EngineHarness().start();
    const packages = [testPackage("1.1.0"), testPackage("2.0.0")];
    const first = await harness.joinWorker("first", { packages, slots: 5 });
    const workflow = buildChain(1, { policy: { minVersion: "1.1.0" } });
    const chosen: string[] = [];
    const next = async (worker = first) => {
      await startAndSettle(harness, workflow);
      chosen.push(worker.lastDispatch.packageVersion);
    };

    await next();
    await withdraw(harness, "2.0.0");
    await next();
    const { tenant, worker, session } = first;
    const about = { ...JSON.parse((await harness.workerRow(worker)).about), slots: 6 };
    await harness.ask({ type: "worker.describe", tenant, worker, session, about });
    await next();
    await first.disconnect();
    await next(await harness.joinWorker("second", { packages, slots: 5 }));
    await withdraw(harness);
    await startAndSettle(harness, workflow);
    chosen.push(harness.dispatches("t1/second").at(-1)?.dispatch.packageVersion ?? "");

    expect(chosen).toEqual(["2.0.0", "1.1.0", "1.1.0", "1.1.0", "2.0.0"]);
  });

  it("[P1200] work that names a withdrawn version still gets it, and work for which only withdrawn versions would do waits", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { packages: [testPackage("1.0.0")], slots: 5 });
    await withdraw(harness, "1.0.0");

    await startAndSettle(harness, buildChain(1));
    await startAndSettle(harness, buildChain(1, { policy: { minVersion: "1.0.0" } }));
    const named = worker.dispatchesSent.length;
    const other = await harness.joinWorker("late", { packages: [testPackage("1.5.0")] });
    await withdraw(harness, "1.0.0", "1.5.0");
    await startAndSettle(harness, buildChain(1, { policy: { minVersion: "1.2.0" } }));

    expect([named, other.dispatchesSent]).toEqual([2, []]);
  });
});

describe("versions in the log", () => {
  const attemptFacts = ["task.granted", "task.requeued", "task.retrying", "task.failed", "task.succeeded"];

  async function versionsInLog(harness: EngineHarness, run: string) {
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000, subject: `run/${run}` });
    return items.filter(({ type }) => attemptFacts.includes(type)).map(({ type, data }) => [type, data["version"]]);
  }

  it("[P1150] the facts of an attempt that was granted with another version than the plan's name that version", async () => {
    const harness = await new EngineHarness().start();
    const lost = await harness.joinWorker("lost", { packages: [testPackage("2.0.0")] });
    const policy = { minVersion: "1.0.0", retry: { maxAttempts: 2, backoffMs: 0 } };
    const run = await startAndSettle(harness, buildChain(1, { policy }));
    await lost.ack();
    for (let second = 0; second <= harness.settings.leaseMs / 1_000 + 1; second++) await harness.advance(1_000);
    const worker = await harness.joinWorker("w", { packages: [testPackage("3.0.0")] });
    await harness.settle();
    await worker.error("E.RUNNER.FAILURE");
    await harness.settle();
    await worker.error("E.RUNNER.FAILURE");

    expect(await versionsInLog(harness, run)).toEqual([
      ["task.granted", "2.0.0"],
      ["task.requeued", "2.0.0"],
      ["task.granted", "3.0.0"],
      ["task.retrying", "3.0.0"],
      ["task.granted", "3.0.0"],
      ["task.failed", "3.0.0"],
    ]);
  });

  it("[P1150] the facts of an attempt with the plan's own version name none, also where an earlier attempt had another one", async () => {
    const harness = await new EngineHarness().start();
    const other = await harness.joinWorker("other", { packages: [testPackage("2.0.0")] });
    const run = await startAndSettle(
      harness,
      buildChain(1, { policy: { minVersion: "1.0.0", retry: { maxAttempts: 2, backoffMs: 1_000 } } }),
    );
    await other.error("E.RUNNER.FAILURE");
    await other.disconnect();
    const authored = await harness.joinWorker("authored");
    await harness.advance(2_000);
    await authored.succeed({});

    expect(await versionsInLog(harness, run)).toEqual([
      ["task.granted", "2.0.0"],
      ["task.retrying", "2.0.0"],
      ["task.granted", undefined],
      ["task.succeeded", undefined],
    ]);
  });
});

describe("bindings", () => {
  it("[P12] a run's later tasks of a package go back to the worker that ran the last one, while it has a free slot", async () => {
    const harness = await new EngineHarness().start();
    const crew = [await harness.joinWorker("a"), await harness.joinWorker("b"), await harness.joinWorker("c")];
    const run = await startAndSettle(harness, buildChain(5));
    const first = crew.find(({ dispatchesSent: sent }) => sent.length > 0) as TestWorker;

    for (let step = 0; step < 5; step++) await first.succeed({ out: step });

    expect(first.dispatchesSent).toHaveLength(5);
    const { run: row } = await harness.runDetail(run);
    expect(readBindings(row)).toEqual({ test: { worker: first.worker, at: harness.now } });
  });

  it("[P12] a task of a bound package runs elsewhere if the bound worker is draining, and its success moves the binding", async () => {
    const harness = await new EngineHarness().start();
    const first = await harness.joinWorker("a");
    const run = await startAndSettle(harness, buildChain(3));
    const second = await harness.joinWorker("b");
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: first.worker, on: true });

    await first.succeed({});
    await second.succeed({});

    expect(second.dispatchesSent).toHaveLength(2);
    expect(readBindings((await harness.runDetail(run)).run)).toMatchObject({ test: { worker: second.worker } });
  });
});

describe("why a task waits", () => {
  it("[P13] the explanation of a waiting task names the first rule that each worker of the tenant fails, from stored rows", async () => {
    const harness = await new EngineHarness().start();
    const workflow = buildChain(1, { policy: { pool: "gpu", tags: { zone: "z1" } } });
    await harness.joinWorker("other-pool");
    await harness.joinWorker("other-tag", { pool: "gpu", tags: { zone: "z2" } });
    await harness.joinWorker("no-package", { pool: "gpu", tags: { zone: "z1" }, packages: [] });
    const away = await harness.joinWorker("away", { pool: "gpu", tags: { zone: "z1" } });
    await away.disconnect();
    const drained = await harness.joinWorker("drained");
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: drained.worker, on: true });
    await harness.joinWorker("foreign", { tenant: "t2" });
    await harness.ask({
      type: "worker.enrol",
      tenant: "t1",
      by: "w",
      worker: "t1/enrolled",
      name: "enrolled",
      about: describeWorker(),
      status: null,
      packages: null,
    });

    const run = await startAndSettle(harness, workflow);
    const placement = await placementOf(harness, run, workflow);

    expect(Object.fromEntries(placement.workers.map(({ name, code }) => [name, code]))).toEqual({
      away: "away",
      drained: "draining",
      enrolled: "enrolled",
      "no-package": "package-missing",
      "other-pool": "pool",
      "other-tag": "tag",
    });
    expect(placement.reasons.map(({ code }) => code)).toEqual(["queued"]);
    expect(placement.fixes).toEqual([
      "undrain-worker",
      "reconnect-worker",
      "connect-worker",
      "install-package",
      "change-pool",
      "change-tags",
    ]);
    expect(placement.summary).toContain("none of 6 workers can take it");
  });

  it("[P13] the explanation of a waiting task covers slots and node type limits if the caller loaded what the workers hold", async () => {
    const harness = await new EngineHarness().start();
    const workflow = buildChain(1);
    await harness.joinWorker("full", { slots: 1 });
    await startAndSettle(harness, workflow);
    const run = await startAndSettle(harness, workflow);
    const { run: row, tasks } = await harness.runDetail(run);
    const { items } = await harness.store.page({ page: "workers", tenant: "t1" });

    const explain = (limit: number | undefined, busy: number) =>
      explainWaiting(
        row,
        tasks[0] ?? null,
        nodeOf(workflow),
        items.map((one) => withNodeTypeLimit(one, limit)),
        harness.now,
        {
          held: new Map([["t1/full", { busy, busyOfType: busy }]]),
        },
      ).workers[0];

    expect(explain(undefined, 1)).toMatchObject({ code: "slots", facts: { slots: 1, busy: 1 } });
    expect(explain(0, 0)).toMatchObject({ code: "node-limit", facts: { nodeType: "test.step", limit: 0, busy: 0 } });
    expect(explain(undefined, 0)).toMatchObject({ code: "fits" });
  });

  it("[P13] the explanation of a waiting task names its own reasons: unreached predecessors, a retry, its key, the end of its run", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const retry = { maxAttempts: 3, backoffMs: 10_000 };
    const workflow = buildWorkflow(
      [{ policy: { retry } }, {}, { policy: { concurrency: { key: "k" } } }, { policy: { concurrency: { key: "k" } } }],
      [[0, 1]],
    );
    const run = await startAndSettle(harness, workflow);
    const [first] = worker.dispatchesSent;

    await worker.error("E.RUNNER.FAILURE", "no", first);

    expect((await placementOf(harness, run, workflow, 0)).reasons).toEqual([
      { code: "retry", facts: { until: harness.now + 10_000, failures: 1 } },
    ]);
    expect((await placementOf(harness, run, workflow, 1)).reasons).toMatchObject([{ code: "not-reached" }]);
    expect((await placementOf(harness, run, workflow, 2)).reasons).toMatchObject([
      { code: "running", facts: { worker: "t1/w" } },
    ]);
    expect(await placementOf(harness, run, workflow, 3)).toMatchObject({
      reasons: [{ code: "key", facts: { key: "k" } }],
      fixes: ["wait-for-key", "raise-key-limit"],
    });
    // The holder of the key was not loaded, so the reason does not name it.
    expect((await placementOf(harness, run, workflow, 3)).reasons[0]?.facts).toEqual({ key: "k" });
    await harness.ask({ type: "run.cancel", tenant: "t1", by: "ada", run, reason: "enough" });
    expect((await placementOf(harness, run, workflow, 3)).reasons).toEqual([{ code: "run-over", facts: { phase: "cancelled" } }]);
  });
});

const withNodeTypeLimit = (row: WorkerRow, limit: number | undefined): WorkerRow =>
  limit === undefined ? row : { ...row, about: JSON.stringify(describeWorker({ perNodeLimits: { "test.step": limit } })) };
