// Placement beyond the basics: versions from one on, workers that a run is bound to, and the answer to "why does it wait".

import { explainWaiting, readBindings, type WorkerRow } from "@astraflow/engine";
import { compilePlan, type PlanNode } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { about, type Crew, chain, graph, Harness } from "./harness.ts";

/** A run, and whatever the engine makes of it before it rests. */
async function start(world: Harness, workflow: Record<string, unknown>, changes: { tenant?: string } = {}): Promise<string> {
  const run = await world.run(workflow, changes);
  await world.settle();
  return run;
}

const test = (version: string, status = "installed") => ({ name: "test", version, status });
const nodeOf = (workflow: Record<string, unknown>, at = 0): PlanNode =>
  compilePlan(workflow as unknown as Workflow).nodes[at] as PlanNode;

async function why(world: Harness, run: string, workflow: Record<string, unknown>, at = 0) {
  const { run: row, tasks } = await world.detail(run);
  const { items } = await world.store.page({ page: "workers", tenant: row.tenant });
  return explainWaiting(row, tasks.find((task) => task.id === `${run}.${at}`) ?? null, nodeOf(workflow, at), items, world.now);
}

describe("versions", () => {
  it("[P11] a node with a least version goes to any worker that has that or a later one, and is told which", async () => {
    const world = await new Harness().start();
    const early = await world.join("early", { packages: [test("1.9.0")] });
    const late = await world.join("late", { packages: [test("1.10.0"), test("2.0.0-rc.1"), test("3.0.0", "failed")] });

    await start(world, chain(1, { policy: { minVersion: "1.10.0" } }));

    expect(early.sent).toEqual([]);
    expect(late.last.packageVersion).toBe("2.0.0-rc.1");
  });

  it("[P11] the version that was authored is taken where it is installed and late enough", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { packages: [test("1.0.0"), test("4.0.0")] });

    await start(world, chain(1, { policy: { minVersion: "0.5.0" } }));

    expect(worker.last.packageVersion).toBe("1.0.0");
  });

  it("[P11] a version that is not late enough, or not installed, is no version", async () => {
    const world = await new Harness().start();
    await world.join("early", { packages: [test("1.9.0")] });
    await world.join("broken", { packages: [test("2.0.0", "failed")] });
    const workflow = chain(1, { policy: { minVersion: "1.10.0" } });

    const run = await start(world, workflow);

    expect(world.dispatches()).toEqual([]);
    const { workers } = await why(world, run, workflow);
    expect(workers.map(({ name, code, facts }) => ({ name, code, facts }))).toEqual([
      { name: "broken", code: "package-status", facts: { has: "failed", needs: "installed" } },
      { name: "early", code: "package-version", facts: { has: "1.9.0", needs: "1.10.0 or later" } },
    ]);
  });
});

describe("bindings", () => {
  it("[P12] a run's later work of a package goes back to the worker that did it last, while that has room", async () => {
    const world = await new Harness().start();
    const crew = [await world.join("a"), await world.join("b"), await world.join("c")];
    const run = await start(world, chain(5));
    const first = crew.find(({ sent }) => sent.length > 0) as Crew;

    for (let step = 0; step < 5; step++) await first.done({ out: step });

    expect(first.sent).toHaveLength(5);
    const { run: row } = await world.detail(run);
    expect(readBindings(row)).toEqual({ test: { worker: first.worker, at: world.now } });
  });

  it("[P12] goes elsewhere where the bound worker is full or drains, and is bound there from its success on", async () => {
    const world = await new Harness().start();
    const first = await world.join("a");
    const run = await start(world, chain(3));
    const second = await world.join("b");
    await world.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: first.worker, on: true });

    await first.done({});
    await second.done({});

    expect(second.sent).toHaveLength(2);
    expect(readBindings((await world.detail(run)).run)).toMatchObject({ test: { worker: second.worker } });
  });
});

describe("why a task waits", () => {
  it("[P13] names for each worker of the tenant the first rule that it fails, from stored rows", async () => {
    const world = await new Harness().start();
    const workflow = chain(1, { policy: { pool: "gpu", tags: { zone: "z1" } } });
    await world.join("other-pool");
    await world.join("other-tag", { pool: "gpu", tags: { zone: "z2" } });
    await world.join("no-package", { pool: "gpu", tags: { zone: "z1" }, packages: [] });
    const away = await world.join("away", { pool: "gpu", tags: { zone: "z1" } });
    await away.leave();
    const drained = await world.join("drained");
    await world.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: drained.worker, on: true });
    await world.join("foreign", { tenant: "t2" });
    await world.ask({
      type: "worker.enrol",
      tenant: "t1",
      by: "w",
      worker: "t1/enrolled",
      name: "enrolled",
      about: about(),
      status: null,
      packages: null,
    });

    const run = await start(world, workflow);
    const said = await why(world, run, workflow);

    expect(Object.fromEntries(said.workers.map(({ name, code }) => [name, code]))).toEqual({
      away: "away",
      drained: "draining",
      enrolled: "enrolled",
      "no-package": "package-missing",
      "other-pool": "pool",
      "other-tag": "tag",
    });
    expect(said.reasons.map(({ code }) => code)).toEqual(["queued"]);
    expect(said.fixes).toEqual([
      "undrain-worker",
      "reconnect-worker",
      "connect-worker",
      "install-package",
      "change-pool",
      "change-tags",
    ]);
    expect(said.summary).toContain("none of 6 workers can take it");
  });

  it("[P13] counts slots and limits of a node type where the caller looked who holds what", async () => {
    const world = await new Harness().start();
    const workflow = chain(1);
    await world.join("full", { slots: 1 });
    await start(world, workflow);
    const run = await start(world, workflow);
    const { run: row, tasks } = await world.detail(run);
    const { items } = await world.store.page({ page: "workers", tenant: "t1" });

    const said = (limit: number | undefined, busy: number) =>
      explainWaiting(
        row,
        tasks[0] ?? null,
        nodeOf(workflow),
        items.map((one) => limited(one, limit)),
        world.now,
        {
          held: new Map([["t1/full", { busy, busyOfType: busy }]]),
        },
      ).workers[0];

    expect(said(undefined, 1)).toMatchObject({ code: "slots", facts: { slots: 1, busy: 1 } });
    expect(said(0, 0)).toMatchObject({ code: "node-limit", facts: { nodeType: "test.step", limit: 0, busy: 0 } });
    expect(said(undefined, 0)).toMatchObject({ code: "fits" });
  });

  it("[P13] names the task's own reasons: what it waits for, its retry, its key, its end", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    const retry = { maxAttempts: 3, backoffMs: 10_000 };
    const workflow = graph(
      [{ policy: { retry } }, {}, { policy: { concurrency: { key: "k" } } }, { policy: { concurrency: { key: "k" } } }],
      [[0, 1]],
    );
    const run = await start(world, workflow);
    const [first] = worker.sent;

    await worker.error("E.RUNNER.FAILURE", "no", first);

    expect((await why(world, run, workflow, 0)).reasons).toEqual([
      { code: "retry", facts: { until: world.now + 10_000, failures: 1 } },
    ]);
    expect((await why(world, run, workflow, 1)).reasons).toMatchObject([{ code: "not-reached" }]);
    expect((await why(world, run, workflow, 2)).reasons).toMatchObject([{ code: "running", facts: { worker: "t1/w" } }]);
    expect(await why(world, run, workflow, 3)).toMatchObject({
      reasons: [{ code: "key", facts: { key: "k" } }],
      fixes: ["wait-for-key", "raise-key-limit"],
    });
    // Nobody looked who has it, so nothing is said of that.
    expect((await why(world, run, workflow, 3)).reasons[0]?.facts).toEqual({ key: "k" });
    await world.ask({ type: "run.cancel", tenant: "t1", by: "ada", run, reason: "enough" });
    expect((await why(world, run, workflow, 3)).reasons).toEqual([{ code: "run-over", facts: { phase: "cancelled" } }]);
  });
});

const limited = (row: WorkerRow, limit: number | undefined): WorkerRow =>
  limit === undefined ? row : { ...row, about: JSON.stringify(about({ perNodeLimits: { "test.step": limit } })) };
