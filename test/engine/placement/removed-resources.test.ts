// What a worker no longer keeps is reported to the scheduler, is shown at the run that left it, and ends whatever waits for it.

import type { ReportResourceRemovedCommand } from "@astraflow/engine";
import { readTaskState } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

/** A worker with one slot that keeps `res-1`, and the run that left it there. */
async function createOwner() {
  const harness = await new EngineHarness().start();
  const owner = await harness.joinWorker("owner");
  const run = await harness.startRun(buildChain(1));
  await harness.settle();
  const { task, fence } = owner.lastDispatch;
  const artifacts = [{ resource: "res-1", type: "file" }];
  const about = { tenant: "t1", worker: owner.worker, session: owner.session, task, fence };
  await harness.ask({
    type: "task.result",
    ...about,
    status: "succeeded",
    result: "{}",
    error: null,
    durationMs: 1,
    artifacts,
  });
  return { world: harness, owner, run };
}

function removeResource({ harness, tenant, worker, session }: TestWorker, changes: Partial<ReportResourceRemovedCommand> = {}) {
  return harness.ask({
    type: "resource.removed",
    tenant,
    worker,
    session,
    resource: "res-1",
    reason: "evicted",
    ...changes,
  });
}

async function startTaskUsingResource(harness: EngineHarness): Promise<string> {
  const params = { a: { resourceRef: { resourceId: "res-1", workerName: "owner", type: "file" } } };
  const run = await harness.startRun(buildChain(1, { params }));
  await harness.settle();
  return run;
}

const runError = async (harness: EngineHarness, run: string) =>
  JSON.parse((await harness.runDetail(run)).run.error ?? "{}") as Record<string, unknown>;

async function readResource(harness: EngineHarness) {
  return (await harness.store.page({ page: "doc", tenant: "t1", collection: "artifact", names: ["res-1"] })).items[0] ?? null;
}

describe("a resource that its worker no longer keeps", () => {
  it("[W180] a dropped resource is recorded once in the log of the run that made it, and shown at its node", async () => {
    const { world: harness, owner, run } = await createOwner();

    expect(await removeResource(owner)).toEqual({ of: "word", applied: true });
    expect(await removeResource(owner)).toEqual({ of: "word", applied: false });

    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, types: ["artifact.removed"] });
    expect(items.map(({ subject, data }) => ({ subject, data }))).toEqual([
      { subject: `run/${run}`, data: { task: `${run}.0`, resource: "res-1", reason: "evicted", worker: owner.worker } },
    ]);
    const [task] = (await harness.runDetail(run)).tasks;
    expect(task === undefined ? null : readTaskState(task).artifacts).toMatchObject([{ resource: "res-1", removed: "evicted" }]);
  });

  it("[B81] a resource reported as dropped by a session that has just ended is gone, unless the worker has returned", async () => {
    const { world: harness, owner } = await createOwner();
    await owner.disconnect();
    expect(await removeResource(owner)).toEqual({ of: "word", applied: true });
    expect(JSON.parse((await readResource(harness))?.body ?? "{}")).toMatchObject({ removed: "evicted" });

    await harness.joinWorker("owner", { boot: owner.boot });

    await expect(removeResource(owner)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[W181] a dropped resource fails waiting tasks that refer to it at once, even if its worker is busy, and every later one", async () => {
    const { world: harness, owner } = await createOwner();
    await harness.startRun(buildChain(1));
    await harness.settle();
    const waiting = await startTaskUsingResource(harness);
    expect((await harness.runDetail(waiting)).tasks[0]).toMatchObject({ phase: "ready", pin: owner.worker });

    await removeResource(owner);
    await harness.settle();
    const later = await startTaskUsingResource(harness);

    for (const run of [waiting, later])
      expect(await runError(harness, run)).toMatchObject({
        code: "E.RESOURCE.MISSING",
        message: "resource res-1 is gone: worker owner evicted it; run the node that makes it again",
        details: { resource: "res-1", reason: "evicted" },
      });
    expect(owner.dispatchesSent).toHaveLength(2);
  });

  it("[W181] a dropped resource is forgotten an hour later", async () => {
    const { world: harness, owner } = await createOwner();
    await removeResource(owner, { reason: "released" });

    harness.now += 3_600_001;
    await harness.settle();

    expect(await readResource(harness)).toBeNull();
    expect((await harness.facts()).filter((type) => type === "artifact.removed")).toHaveLength(1);
  });

  it("[W180] only the owner's current session can drop a resource, and not one stored later under the same name", async () => {
    const { world: harness, owner } = await createOwner();
    const other = await harness.joinWorker("other");
    const doc = await readResource(harness);

    await expect(removeResource(owner, { session: "an older one" })).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await removeResource(other)).toEqual({ of: "word", applied: false });
    expect(await removeResource(owner, { seenAt: (doc?.at ?? 0) - 1 })).toEqual({ of: "word", applied: false });
    expect(await removeResource(owner, { resource: "never reported" })).toEqual({ of: "word", applied: false });

    expect(await readResource(harness)).toEqual(doc);
  });
});
