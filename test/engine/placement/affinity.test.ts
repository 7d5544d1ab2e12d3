// Affinity keys and resources that stay with a worker: where tasks go because of them, and what becomes of tasks when the owner is gone.

import type { ReportedArtifact, Store } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, buildWorkflow, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";
import { overrideStore } from "../harness/override-store.ts";

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

const resourceRef = (resource: string, workerName = "whoever") => ({
  resourceRef: { resourceId: resource, workerName, type: "file" },
});

/** A result that leaves something with its worker. */
function succeedWithArtifacts(worker: TestWorker, artifacts: readonly ReportedArtifact[], result: unknown = {}) {
  const { lastDispatch: last } = worker;
  return worker.harness.ask({
    type: "task.result",
    tenant: worker.tenant,
    worker: worker.worker,
    session: worker.session,
    task: last.task,
    fence: last.fence,
    status: "succeeded",
    result: JSON.stringify(result),
    error: null,
    durationMs: 1,
    artifacts,
  });
}

async function readDocument(harness: EngineHarness, collection: string, name: string) {
  return (await harness.store.page({ page: "doc", tenant: "t1", collection, names: [name] })).items[0] ?? null;
}

const taskUsing = (resource: string, policy: Record<string, unknown> = {}) =>
  buildChain(1, { params: { deep: [{ a: resourceRef(resource) }] }, policy });

/** Two workers, and a resource that the first of them keeps. */
async function createOwner(word: Partial<ReportedArtifact> = {}) {
  const harness = await new EngineHarness().start();
  const owner = await harness.joinWorker("owner");
  const run = await startAndSettle(harness, buildChain(1));
  await succeedWithArtifacts(owner, [{ resource: "res-1", type: "file", sizeBytes: 7, ...word }]);
  const other = await harness.joinWorker("other", { slots: 9 });
  return { world: harness, owner, other, run };
}

/** Time passes in small steps, so that nobody thinks the scheduler was away; these workers beat meanwhile. */
async function passSeconds(harness: EngineHarness, seconds: number, ...alive: TestWorker[]): Promise<void> {
  for (let at = 0; at < seconds; at++) {
    await harness.advance(1_000);
    for (const worker of alive) await worker.heartbeat(null);
  }
}

async function runError(harness: EngineHarness, run: string) {
  const { run: row } = await harness.runDetail(run);
  return { phase: row.phase, ...(JSON.parse(row.error ?? "{}") as { code?: string; message?: string; details?: object }) };
}

describe("what a result leaves with its worker", () => {
  it("[P14] an artifact left with a worker is stored as a document with its owner and expiry, and the run's log records it", async () => {
    const { world: harness, owner, run } = await createOwner();

    const kept = await readDocument(harness, "artifact", "res-1");

    expect(kept).toMatchObject({ due: harness.now + 3_600_000 });
    expect(JSON.parse(kept?.body ?? "{}")).toMatchObject({
      run,
      worker: owner.worker,
      workerName: "owner",
      type: "file",
      sizeBytes: 7,
    });
    const facts = await harness.store.events({
      tenant: "t1",
      after: 0,
      limit: 100,
      subject: `run/${run}`,
      types: ["task.artifact"],
    });
    expect(facts.items.map(({ data }) => data)).toEqual([
      {
        task: `${run}.0`,
        resource: "res-1",
        type: "file",
        worker: owner.worker,
        sizeBytes: 7,
        expiresAt: harness.now + 3_600_000,
      },
    ]);
  });

  it("[P14] an artifact at a worker expires with a record in its run; an inline one is not stored as a document", async () => {
    const { world: harness, run } = await createOwner({ expiresAt: 1_800_000_000_000 + 5_000 });

    await harness.advance(5_001);

    expect(await readDocument(harness, "artifact", "res-1")).toBeNull();
    expect((await harness.facts("t1", `run/${run}`)).at(-1)).toBe("artifact.removed");
    const inline = await createOwner({ inline: true });
    expect(await readDocument(inline.world, "artifact", "res-1")).toBeNull();
  });
});

describe("a task that refers to a resource", () => {
  it("[P15] a task that refers to a resource is sent to the resource's owner only, wherever in parameters or policy the reference is", async () => {
    const { world: harness, owner, other } = await createOwner();

    await startAndSettle(harness, taskUsing("res-1"));
    await owner.succeed({});
    await startAndSettle(harness, buildChain(1, { policy: { resourceRefs: [{ resourceId: "res-1" }] } }));

    expect(other.dispatchesSent).toEqual([]);
    expect(owner.dispatchesSent).toHaveLength(3);
    expect(owner.lastDispatch.resourceRefs).toEqual([
      { resource: "res-1", workerName: "owner", type: "file", expiresAt: harness.now + 3_600_000 },
    ]);
  });

  it("[P15] a task that refers to a resource waits while the resource's owner is busy", async () => {
    const { world: harness, owner, other } = await createOwner();
    await startAndSettle(harness, buildChain(1, { policy: { resourceRefs: [{ resourceId: "res-1" }] } }));
    const run = await startAndSettle(harness, taskUsing("res-1"));

    expect(owner.dispatchesSent).toHaveLength(2);
    await owner.succeed({});

    expect(owner.lastDispatch.run).toBe(run);
    expect(other.dispatchesSent).toEqual([]);
  });

  it("[P16] a task that refers to a removed resource fails at once with the reason", async () => {
    const { world: harness, owner, other } = await createOwner({ expiresAt: 1_800_000_000_000 + 5_000 });
    await harness.advance(5_001);

    const run = await startAndSettle(harness, buildChain(1, { params: { a: { resourceRef: { resourceId: "res-1" } } } }));

    expect(await runError(harness, run)).toMatchObject({
      phase: "failed",
      code: "E.RESOURCE.MISSING",
      details: { resource: "res-1", reason: "removed" },
    });
    expect(owner.dispatchesSent).toHaveLength(1);
    expect(other.dispatchesSent).toEqual([]);
  });

  it("[P16] a task that refers to a resource of a disconnected worker waits until that worker's lease ends, then fails", async () => {
    const { world: harness, owner, other } = await createOwner();
    await owner.disconnect();
    const run = await startAndSettle(harness, taskUsing("res-1"));
    await passSeconds(harness, 28, other);
    expect((await harness.runDetail(run)).tasks[0]?.phase).toBe("ready");

    await passSeconds(harness, 3, other);

    expect(await runError(harness, run)).toMatchObject({ code: "E.RESOURCE.MISSING", details: { reason: "worker-lost" } });
    const later = await startAndSettle(harness, taskUsing("res-1"));
    expect(await runError(harness, later)).toMatchObject({ code: "E.RESOURCE.MISSING", details: { reason: "worker-lost" } });
  });

  it("[P16] a task that needs two resources of different workers is refused, naming both", async () => {
    const { world: harness, owner, other } = await createOwner();
    const drain = (on: boolean) => harness.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: owner.worker, on });
    await drain(true);
    await startAndSettle(harness, buildChain(1));
    await succeedWithArtifacts(other, [{ resource: "res-2", type: "file" }]);
    await drain(false);

    const run = await startAndSettle(harness, buildChain(1, { params: { a: resourceRef("res-1"), b: resourceRef("res-2") } }));

    expect(await runError(harness, run)).toMatchObject({
      code: "E.RESOURCE.CONFLICT",
      details: {
        resources: [
          { resource: "res-1", worker: "owner" },
          { resource: "res-2", worker: "other" },
        ],
      },
    });
  });

  it("[P15] a task that refers to an unreported resource goes to the worker named in the reference, of its own tenant only", async () => {
    const harness = await new EngineHarness().start();
    const named = await harness.joinWorker("named");
    await harness.joinWorker("elsewhere", { tenant: "t2" });

    await startAndSettle(harness, buildChain(1, { params: { a: resourceRef("unknown", "named") } }));
    const foreign = await startAndSettle(harness, buildChain(1, { params: { a: resourceRef("unknown", "elsewhere") } }));

    expect(named.dispatchesSent).toHaveLength(1);
    expect(await runError(harness, foreign)).toMatchObject({ code: "E.RESOURCE.MISSING", details: { reason: "worker-unknown" } });
  });

  it("[P15] a resource that is used lives on for as long as its worker first said", async () => {
    const { world: harness, owner, other } = await createOwner({ expiresAt: 1_800_000_000_000 + 60_000 });
    await passSeconds(harness, 50, owner, other);

    await startAndSettle(harness, taskUsing("res-1"));

    expect((await readDocument(harness, "artifact", "res-1"))?.due).toBe(harness.now + 60_000);
  });

  it("[P15] using a resource extends its expiry", async () => {
    const { world: harness, owner } = await createOwner();
    await harness.advance(1_000);
    for (let at = 0; at < 5; at++) {
      await owner.heartbeat([]);
      harness.now += 9_000;
    }
    harness.now = 1_800_000_000_000 + 3_000_000;
    await owner.heartbeat([]);

    await startAndSettle(harness, taskUsing("res-1"));

    expect((await readDocument(harness, "artifact", "res-1"))?.due).toBe(harness.now + 3_600_000);
  });
});

describe("affinity keys", () => {
  const sticky = (changes: object = {}) =>
    buildChain(1, { policy: { affinity: { key: "session-7", mode: "sticky", ...changes } } });

  it("[P17] all tasks with one sticky affinity key go to the worker that had the key first, also within one turn", async () => {
    const harness = await new EngineHarness().start();
    const crew = [await harness.joinWorker("a", { slots: 2 }), await harness.joinWorker("b", { slots: 2 })];

    await Promise.all(
      harness.askAll([harness.startCommand(sticky()), harness.startCommand(sticky()), harness.startCommand(sticky())]),
    );
    await harness.settle();

    const [has = 0, not = 0] = crew.map(({ dispatchesSent: sent }) => sent.length).sort((x, y) => y - x);
    expect([has, not]).toEqual([2, 0]);
    const owner = crew.find(({ dispatchesSent: sent }) => sent.length > 0) as TestWorker;
    expect(owner.lastDispatch.affinity).toMatchObject({ key: "session-7", mode: "sticky", expiresAt: harness.now + 3_600_000 });
    await owner.succeed({});
    expect(owner.dispatchesSent).toHaveLength(3);
  });

  it("[P17] when the worker of an affinity key is lost, the key is free and tasks that waited for that worker may run anywhere", async () => {
    const harness = await new EngineHarness().start();
    const first = await harness.joinWorker("a");
    await startAndSettle(harness, sticky());
    await first.ack();
    const waiting = await startAndSettle(harness, sticky());
    const second = await harness.joinWorker("b", { slots: 4 });
    await passSeconds(harness, 28, second);
    expect(second.dispatchesSent).toEqual([]);

    await passSeconds(harness, 4, second);

    expect(first.dispatchesSent).toHaveLength(1);
    expect(second.dispatchesSent.map(({ run }) => run)).toContain(waiting);
    expect(second.dispatchesSent).toHaveLength(2);
  });

  it("[P17] an affinity key is free when its time to live has passed without use", async () => {
    const harness = await new EngineHarness().start();
    const first = await harness.joinWorker("a");
    await startAndSettle(harness, sticky({ ttlSeconds: 5 }));
    await first.succeed({});
    const second = await harness.joinWorker("b");
    await harness.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: first.worker, on: true });
    await startAndSettle(harness, sticky({ ttlSeconds: 5 }));
    expect(second.dispatchesSent).toEqual([]);

    await harness.advance(5_001);
    await startAndSettle(harness, sticky({ ttlSeconds: 5 }));

    expect(second.dispatchesSent).toHaveLength(1);
  });

  it("[P18] a task with a preferred affinity key waits two seconds for the key's worker, then may run on any worker", async () => {
    const harness = await new EngineHarness().start();
    const preferred = buildChain(1, { policy: { affinity: { key: "k", mode: "preferred" } } });
    const first = await harness.joinWorker("a");
    await startAndSettle(harness, preferred);
    const second = await harness.joinWorker("b");

    const run = await startAndSettle(harness, preferred);
    expect(second.dispatchesSent).toEqual([]);
    await harness.advance(1_999);
    expect(second.dispatchesSent).toEqual([]);
    await harness.advance(2);

    expect(second.lastDispatch.run).toBe(run);
    await first.succeed({});
    await second.succeed({});
    await startAndSettle(harness, preferred);
    expect(first.dispatchesSent).toHaveLength(2);
  });

  it("[P17] a task that waits for its affinity key's worker fails at its queue timeout, and is checked every minute until then", async () => {
    const harness = await new EngineHarness().start();
    const owner = await harness.joinWorker("a");
    await startAndSettle(harness, sticky());
    await owner.ack();
    const run = await startAndSettle(
      harness,
      buildChain(1, { policy: { affinity: { key: "session-7" }, queueTimeoutMs: 90_000 } }),
    );
    expect((await harness.runDetail(run)).tasks[0]).toMatchObject({ pin: owner.worker, due: harness.now + 60_000 });

    await passSeconds(harness, 61, owner);
    expect((await harness.runDetail(run)).tasks[0]).toMatchObject({ phase: "ready", due: harness.now + 29_000 });
    await passSeconds(harness, 30, owner);

    expect(await runError(harness, run)).toMatchObject({ code: "E.DISPATCH.UNAVAILABLE" });
  });

  it("[P17] equal affinity keys of two tenants are independent", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("a", { tenant: "t1" });
    const other = await harness.joinWorker("b", { tenant: "t2" });

    await startAndSettle(harness, sticky());
    await startAndSettle(harness, sticky(), { tenant: "t2" });

    expect(other.dispatchesSent).toHaveLength(1);
  });

  it("[P15] a run that passes a resource from node to node stays on one worker", async () => {
    const harness = await new EngineHarness().start();
    const crew = [await harness.joinWorker("a", { slots: 3 }), await harness.joinWorker("b", { slots: 3 })];
    await startAndSettle(harness, buildWorkflow([{}, {}], [[0, 1]]));
    const first = crew.find(({ dispatchesSent: sent }) => sent.length > 0) as TestWorker;

    await succeedWithArtifacts(first, [{ resource: "made", type: "model" }], { out: resourceRef("made") });

    expect(first.dispatchesSent).toHaveLength(2);
    expect(first.lastDispatch.resourceRefs).toMatchObject([{ resource: "made", workerName: first.worker.slice(3) }]);
  });
});

describe("pins over several schedulers", () => {
  it("[P19] a task that only another scheduler's worker may run is granted there, though no hint arrived", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const wrap = (store: Store): Store => overrideStore(store, { onHint: () => undefined });
    const [near, far] = [await cluster.startEngine("r1", { wrap }), await cluster.startEngine("r2", { wrap })];
    const owner = await near.joinWorker("owner", { slots: 2 });
    const other = await far.joinWorker("other", { slots: 2 });
    const sticky = buildChain(1, { policy: { affinity: { key: "k" } } });
    await near.startRun(sticky);
    await cluster.passSeconds(2);
    const [has, not] = owner.dispatchesSent.length > 0 ? [owner, other] : [other, owner];

    await not.harness.startRun(sticky);
    await cluster.passSeconds(2);

    expect([has.dispatchesSent.length, not.dispatchesSent.length]).toEqual([2, 0]);
    expect(cluster.isSpinning).toBe(false);
  });
});
