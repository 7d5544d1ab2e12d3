// What a worker no longer keeps: told to the scheduler, seen at the run that left it, and the end of whatever waits for it.

import type { ReportResourceRemoved } from "@astraflow/engine";
import { readTaskState } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { type Crew, chain, Harness } from "./harness.ts";

/** A worker with one slot that keeps `res-1`, and the run that left it there. */
async function withOwner() {
  const world = await new Harness().start();
  const owner = await world.join("owner");
  const run = await world.run(chain(1));
  await world.settle();
  const { task, fence } = owner.last;
  const artifacts = [{ resource: "res-1", type: "file" }];
  const about = { tenant: "t1", worker: owner.worker, session: owner.session, task, fence };
  await world.ask({
    type: "task.result",
    ...about,
    status: "succeeded",
    result: "{}",
    error: null,
    durationMs: 1,
    artifacts,
  });
  return { world, owner, run };
}

function remove({ harness, tenant, worker, session }: Crew, changes: Partial<ReportResourceRemoved> = {}) {
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

async function use(world: Harness): Promise<string> {
  const params = { a: { resourceRef: { resourceId: "res-1", workerName: "owner", type: "file" } } };
  const run = await world.run(chain(1, { params }));
  await world.settle();
  return run;
}

const errorOf = async (world: Harness, run: string) =>
  JSON.parse((await world.detail(run)).run.error ?? "{}") as Record<string, unknown>;

async function kept(world: Harness) {
  return (await world.store.page({ page: "doc", tenant: "t1", collection: "artifact", names: ["res-1"] })).items[0] ?? null;
}

describe("a resource that its worker no longer keeps", () => {
  it("[W180] is told in the log of the run that left it and seen at its node, once", async () => {
    const { world, owner, run } = await withOwner();

    expect(await remove(owner)).toEqual({ of: "word", applied: true });
    expect(await remove(owner)).toEqual({ of: "word", applied: false });

    const { items } = await world.store.events({ tenant: "t1", after: 0, limit: 100, types: ["artifact.removed"] });
    expect(items.map(({ subject, data }) => ({ subject, data }))).toEqual([
      { subject: `run/${run}`, data: { task: `${run}.0`, resource: "res-1", reason: "evicted", worker: owner.worker } },
    ]);
    const [task] = (await world.detail(run)).tasks;
    expect(task === undefined ? null : readTaskState(task).artifacts).toMatchObject([{ resource: "res-1", removed: "evicted" }]);
  });

  it("[B81] is gone also when its worker said so just before its session left, unless the worker was kicked or has come back", async () => {
    const { world, owner } = await withOwner();
    await owner.leave();
    expect(await remove(owner)).toEqual({ of: "word", applied: true });
    expect(JSON.parse((await kept(world))?.body ?? "{}")).toMatchObject({ removed: "evicted" });

    await world.join("owner", { boot: owner.boot });

    await expect(remove(owner)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
  });

  it("[W181] ends a task that waits for it at once, though its worker is busy, and every later one", async () => {
    const { world, owner } = await withOwner();
    await world.run(chain(1));
    await world.settle();
    const waiting = await use(world);
    expect((await world.detail(waiting)).tasks[0]).toMatchObject({ phase: "ready", pin: owner.worker });

    await remove(owner);
    await world.settle();
    const later = await use(world);

    for (const run of [waiting, later])
      expect(await errorOf(world, run)).toMatchObject({
        code: "E.RESOURCE.MISSING",
        message: "resource res-1 is gone: worker owner had to make room; run the node that makes it again",
        details: { resource: "res-1", reason: "evicted" },
      });
    expect(owner.sent).toHaveLength(2);
  });

  it("[W181] is forgotten an hour later without another word", async () => {
    const { world, owner } = await withOwner();
    await remove(owner, { reason: "released" });

    world.now += 3_600_001;
    await world.settle();

    expect(await kept(world)).toBeNull();
    expect((await world.facts()).filter((type) => type === "artifact.removed")).toHaveLength(1);
  });

  it("[W180] is only removed by its owner, in its session, and not where another was kept under the name since", async () => {
    const { world, owner } = await withOwner();
    const other = await world.join("other");
    const doc = await kept(world);

    await expect(remove(owner, { session: "an older one" })).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(await remove(other)).toEqual({ of: "word", applied: false });
    expect(await remove(owner, { seenAt: (doc?.at ?? 0) - 1 })).toEqual({ of: "word", applied: false });
    expect(await remove(owner, { resource: "never reported" })).toEqual({ of: "word", applied: false });

    expect(await kept(world)).toEqual(doc);
  });
});
