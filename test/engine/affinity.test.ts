// Affinity keys and resources that stay with a worker: where tasks go because of them, and what becomes of tasks when the owner is gone.

import type { ReportedArtifact, Store } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { type Crew, chain, graph, Harness } from "./harness.ts";
import { passThrough, Stage } from "./mended-stage.ts";

/** A run, and whatever the engine makes of it before it rests. */
async function start(world: Harness, workflow: Record<string, unknown>, changes: { tenant?: string } = {}): Promise<string> {
  const run = await world.run(workflow, changes);
  await world.settle();
  return run;
}

const ref = (resource: string, workerName = "whoever") => ({ resourceRef: { resourceId: resource, workerName, type: "file" } });

/** A result that leaves something with its worker. */
function leave(crew: Crew, artifacts: readonly ReportedArtifact[], result: unknown = {}) {
  const { last } = crew;
  return crew.harness.ask({
    type: "task.result",
    tenant: crew.tenant,
    worker: crew.worker,
    session: crew.session,
    task: last.task,
    fence: last.fence,
    status: "succeeded",
    result: JSON.stringify(result),
    error: null,
    durationMs: 1,
    artifacts,
  });
}

async function doc(world: Harness, collection: string, name: string) {
  return (await world.store.page({ page: "doc", tenant: "t1", collection, names: [name] })).items[0] ?? null;
}

const using = (resource: string, policy: Record<string, unknown> = {}) =>
  chain(1, { params: { deep: [{ a: ref(resource) }] }, policy });

/** Two workers, and a resource that the first of them keeps. */
async function withOwner(word: Partial<ReportedArtifact> = {}) {
  const world = await new Harness().start();
  const owner = await world.join("owner");
  const run = await start(world, chain(1));
  await leave(owner, [{ resource: "res-1", type: "file", sizeBytes: 7, ...word }]);
  const other = await world.join("other", { slots: 9 });
  return { world, owner, other, run };
}

/** Time passes in small steps, so that nobody thinks the scheduler was away; these workers beat meanwhile. */
async function pass(world: Harness, seconds: number, ...alive: Crew[]): Promise<void> {
  for (let at = 0; at < seconds; at++) {
    await world.advance(1_000);
    for (const crew of alive) await crew.beat(null);
  }
}

async function errorOf(world: Harness, run: string) {
  const { run: row } = await world.detail(run);
  return { phase: row.phase, ...(JSON.parse(row.error ?? "{}") as { code?: string; message?: string; details?: object }) };
}

describe("what a result leaves with its worker", () => {
  it("[P14] is a document with its owner and the time it lives, and is told of in the run's log", async () => {
    const { world, owner, run } = await withOwner();

    const kept = await doc(world, "artifact", "res-1");

    expect(kept).toMatchObject({ due: world.now + 3_600_000 });
    expect(JSON.parse(kept?.body ?? "{}")).toMatchObject({
      run,
      worker: owner.worker,
      workerName: "owner",
      type: "file",
      sizeBytes: 7,
    });
    const facts = await world.store.events({
      tenant: "t1",
      after: 0,
      limit: 100,
      subject: `run/${run}`,
      types: ["task.artifact"],
    });
    expect(facts.items.map(({ data }) => data)).toEqual([
      { task: `${run}.0`, resource: "res-1", type: "file", worker: owner.worker, sizeBytes: 7, expiresAt: world.now + 3_600_000 },
    ]);
  });

  it("[P14] is gone when its time is over, and its run says so; what came inline is not kept at all", async () => {
    const { world, run } = await withOwner({ expiresAt: 1_800_000_000_000 + 5_000 });

    await world.advance(5_001);

    expect(await doc(world, "artifact", "res-1")).toBeNull();
    expect((await world.facts("t1", `run/${run}`)).at(-1)).toBe("artifact.removed");
    const inline = await withOwner({ inline: true });
    expect(await doc(inline.world, "artifact", "res-1")).toBeNull();
  });
});

describe("a task that refers to a resource", () => {
  it("[P15] goes to its owner and to nobody else, wherever in its parameters or its policy the reference stands", async () => {
    const { world, owner, other } = await withOwner();

    await start(world, using("res-1"));
    await owner.done({});
    await start(world, chain(1, { policy: { resourceRefs: [{ resourceId: "res-1" }] } }));

    expect(other.sent).toEqual([]);
    expect(owner.sent).toHaveLength(3);
    expect(owner.last.resourceRefs).toEqual([
      { resource: "res-1", workerName: "owner", type: "file", expiresAt: world.now + 3_600_000 },
    ]);
  });

  it("[P15] waits while the owner is busy or away, and runs when it has room again", async () => {
    const { world, owner, other } = await withOwner();
    await start(world, chain(1, { policy: { resourceRefs: [{ resourceId: "res-1" }] } }));
    const run = await start(world, using("res-1"));

    expect(owner.sent).toHaveLength(2);
    await owner.done({});

    expect(owner.last.run).toBe(run);
    expect(other.sent).toEqual([]);
  });

  it("[P16] fails at once with the reason where the resource is gone", async () => {
    const { world, owner, other } = await withOwner({ expiresAt: 1_800_000_000_000 + 5_000 });
    await world.advance(5_001);

    const run = await start(world, chain(1, { params: { a: { resourceRef: { resourceId: "res-1" } } } }));

    expect(await errorOf(world, run)).toMatchObject({
      phase: "failed",
      code: "E.RESOURCE.MISSING",
      details: { resource: "res-1", reason: "removed" },
    });
    expect(owner.sent).toHaveLength(1);
    expect(other.sent).toEqual([]);
  });

  it("[P16] waits for an owner that is away until its lease ends, then fails", async () => {
    const { world, owner, other } = await withOwner();
    await owner.leave();
    const run = await start(world, using("res-1"));
    await pass(world, 28, other);
    expect((await world.detail(run)).tasks[0]?.phase).toBe("ready");

    await pass(world, 3, other);

    expect(await errorOf(world, run)).toMatchObject({ code: "E.RESOURCE.MISSING", details: { reason: "worker-lost" } });
    const later = await start(world, using("res-1"));
    expect(await errorOf(world, later)).toMatchObject({ code: "E.RESOURCE.MISSING", details: { reason: "worker-lost" } });
  });

  it("[P16] that no worker can have together with another is refused, naming both", async () => {
    const { world, owner, other } = await withOwner();
    const drain = (on: boolean) => world.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: owner.worker, on });
    await drain(true);
    await start(world, chain(1));
    await leave(other, [{ resource: "res-2", type: "file" }]);
    await drain(false);

    const run = await start(world, chain(1, { params: { a: ref("res-1"), b: ref("res-2") } }));

    expect(await errorOf(world, run)).toMatchObject({
      code: "E.RESOURCE.CONFLICT",
      details: {
        resources: [
          { resource: "res-1", worker: "owner" },
          { resource: "res-2", worker: "other" },
        ],
      },
    });
  });

  it("[P15] whose resource was never reported goes to the worker it names, of its own tenant only", async () => {
    const world = await new Harness().start();
    const named = await world.join("named");
    await world.join("elsewhere", { tenant: "t2" });

    await start(world, chain(1, { params: { a: ref("unknown", "named") } }));
    const foreign = await start(world, chain(1, { params: { a: ref("unknown", "elsewhere") } }));

    expect(named.sent).toHaveLength(1);
    expect(await errorOf(world, foreign)).toMatchObject({ code: "E.RESOURCE.MISSING", details: { reason: "worker-unknown" } });
  });

  it("[P15] keeps a resource alive by using it", async () => {
    const { world, owner } = await withOwner();
    await world.advance(1_000);
    for (let at = 0; at < 5; at++) {
      await owner.beat([]);
      world.now += 9_000;
    }
    world.now = 1_800_000_000_000 + 3_000_000;
    await owner.beat([]);

    await start(world, using("res-1"));

    expect((await doc(world, "artifact", "res-1"))?.due).toBe(world.now + 3_600_000);
  });
});

describe("affinity keys", () => {
  const sticky = (changes: object = {}) => chain(1, { policy: { affinity: { key: "session-7", mode: "sticky", ...changes } } });

  it("[P17] a sticky key sends everything under it to the worker that had it first, in one turn too", async () => {
    const world = await new Harness().start();
    const crew = [await world.join("a", { slots: 2 }), await world.join("b", { slots: 2 })];

    await Promise.all(world.askAll([world.order(sticky()), world.order(sticky()), world.order(sticky())]));
    await world.settle();

    const [has = 0, not = 0] = crew.map(({ sent }) => sent.length).sort((x, y) => y - x);
    expect([has, not]).toEqual([2, 0]);
    const owner = crew.find(({ sent }) => sent.length > 0) as Crew;
    expect(owner.last.affinity).toMatchObject({ key: "session-7", mode: "sticky", expiresAt: world.now + 3_600_000 });
    await owner.done({});
    expect(owner.sent).toHaveLength(3);
  });

  it("[P17] a key whose worker is lost is free, and so is who waited for it", async () => {
    const world = await new Harness().start();
    const first = await world.join("a");
    await start(world, sticky());
    await first.ack();
    const waiting = await start(world, sticky());
    const second = await world.join("b", { slots: 4 });
    await pass(world, 28, second);
    expect(second.sent).toEqual([]);

    await pass(world, 4, second);

    expect(first.sent).toHaveLength(1);
    expect(second.sent.map(({ run }) => run)).toContain(waiting);
    expect(second.sent).toHaveLength(2);
  });

  it("[P17] a key is free when its time to live is over without use", async () => {
    const world = await new Harness().start();
    const first = await world.join("a");
    await start(world, sticky({ ttlSeconds: 5 }));
    await first.done({});
    const second = await world.join("b");
    await world.ask({ type: "worker.drain", tenant: "t1", by: "ada", worker: first.worker, on: true });
    await start(world, sticky({ ttlSeconds: 5 }));
    expect(second.sent).toEqual([]);

    await world.advance(5_001);
    await start(world, sticky({ ttlSeconds: 5 }));

    expect(second.sent).toHaveLength(1);
  });

  it("[P18] a preferred key waits two seconds for its worker, then goes to anybody", async () => {
    const world = await new Harness().start();
    const preferred = chain(1, { policy: { affinity: { key: "k", mode: "preferred" } } });
    const first = await world.join("a");
    await start(world, preferred);
    const second = await world.join("b");

    const run = await start(world, preferred);
    expect(second.sent).toEqual([]);
    await world.advance(1_999);
    expect(second.sent).toEqual([]);
    await world.advance(2);

    expect(second.last.run).toBe(run);
    await first.done({});
    await second.done({});
    await start(world, preferred);
    expect(first.sent).toHaveLength(2);
  });

  it("[P17] a task that waits for its key's worker waits no longer than its time in queue, and is looked at every minute", async () => {
    const world = await new Harness().start();
    const owner = await world.join("a");
    await start(world, sticky());
    await owner.ack();
    const run = await start(world, chain(1, { policy: { affinity: { key: "session-7" }, queueTimeoutMs: 90_000 } }));
    expect((await world.detail(run)).tasks[0]).toMatchObject({ pin: owner.worker, due: world.now + 60_000 });

    await pass(world, 61, owner);
    expect((await world.detail(run)).tasks[0]).toMatchObject({ phase: "ready", due: world.now + 29_000 });
    await pass(world, 30, owner);

    expect(await errorOf(world, run)).toMatchObject({ code: "E.DISPATCH.UNAVAILABLE" });
  });

  it("[P17] keys of two tenants are apart", async () => {
    const world = await new Harness().start();
    await world.join("a", { tenant: "t1" });
    const other = await world.join("b", { tenant: "t2" });

    await start(world, sticky());
    await start(world, sticky(), { tenant: "t2" });

    expect(other.sent).toHaveLength(1);
  });

  it("[P15] a run that hands a resource from node to node stays where it is", async () => {
    const world = await new Harness().start();
    const crew = [await world.join("a", { slots: 3 }), await world.join("b", { slots: 3 })];
    await start(world, graph([{}, {}], [[0, 1]]));
    const first = crew.find(({ sent }) => sent.length > 0) as Crew;

    await leave(first, [{ resource: "made", type: "model" }], { out: ref("made") });

    expect(first.sent).toHaveLength(2);
    expect(first.last.resourceRefs).toMatchObject([{ resource: "made", workerName: first.worker.slice(3) }]);
  });
});

describe("pins over several schedulers", () => {
  it("[P19] a task that only another scheduler's worker may run is granted there, though no hint came", async () => {
    const stage = new Stage({ mode: "weak" });
    const wrap = (store: Store): Store => passThrough(store, { onHint: () => undefined });
    const [near, far] = [await stage.boot("r1", { wrap }), await stage.boot("r2", { wrap })];
    const owner = await near.join("owner", { slots: 2 });
    const other = await far.join("other", { slots: 2 });
    const sticky = chain(1, { policy: { affinity: { key: "k" } } });
    await near.run(sticky);
    await stage.pass(2);
    const [has, not] = owner.sent.length > 0 ? [owner, other] : [other, owner];

    await not.harness.run(sticky);
    await stage.pass(2);

    expect([has.sent.length, not.sent.length]).toEqual([2, 0]);
    expect(stage.isSpinning).toBe(false);
  });
});
