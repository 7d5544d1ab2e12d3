// Commands about workers as they are kept: each under its id, each ended once, whatever becomes of the worker. On memory and sqlite.

import type { Command, PackageCommand, WorkerCommandRecord } from "@astraflow/engine";
import { memoryStage, type Stage as StoreStage, sqliteStage } from "@astraflow/store/testing";
import { afterEach, describe, expect, it } from "vitest";
import { about, chain, Harness, type Refused } from "./harness.ts";
import { Stage } from "./mended-stage.ts";

const by = { tenant: "t1", by: "ada", corr: "req-1", worker: "t1/w" } as const;
const drain = (command: string, on = true): Command => ({ type: "worker.drain", ...by, on, command });
const kick = (command: string): Command => ({ type: "worker.kick", ...by, reason: "out", command });
const install: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0" };
const order = (id: string, what: PackageCommand = install): Command => ({ type: "worker.order", ...by, id, order: what });
/** Those who know the end of a drain say that they heard of it. */
const hearing = { features: ["fence", "cancel", "held", "undrain"] };
const day = 24 * 3_600_000;

async function kept(world: Harness, id: string, tenant = "t1"): Promise<WorkerCommandRecord | null> {
  const { items } = await world.store.page({ page: "doc", tenant, collection: "command", names: [id] });
  const [doc = null] = items;
  return doc === null ? null : (JSON.parse(doc.body) as WorkerCommandRecord);
}

/** How each command ended, as the log tells it. */
async function ends(world: Harness): Promise<string[]> {
  const { items } = await world.store.events({
    tenant: "t1",
    after: 0,
    limit: 1_000,
    types: ["command.acked", "command.failed"],
  });
  return items.map(({ type, data }) => `${type.slice(8)} ${String(data["id"])}`);
}

const refusal = (answer: Promise<unknown>): Promise<Refused> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as Refused,
  );

const closings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closings.splice(0)) await close();
});

const stages: [string, () => Promise<StoreStage>][] = [
  ["memory", () => memoryStage("strong")],
  ["sqlite", () => sqliteStage()],
];

describe.each(stages)("commands about workers on %s", (_name, make) => {
  async function stand(): Promise<{ world: Harness; stage: StoreStage }> {
    const stage = await make();
    const world = await new Harness({ store: stage.handle() }).start();
    closings.push(async () => {
      await world.engine.stop();
      await stage.close();
    });
    return { world, stage };
  }
  const open = async (): Promise<Harness> => (await stand()).world;

  it("[A370] under a key are done once and answered as the first time; the key is nobody else's, and no refusal takes it", async () => {
    const world = await open();
    await world.join("w");
    const ask = { key: "k", digest: "c-1" };
    const view: Command = {
      type: "docs.write",
      tenant: "t1",
      by: "ada",
      puts: [{ collection: "view", name: "v", rev: 0, body: "{}" }],
      ask: { key: "k", digest: "view" },
    };

    const missing = { ...drain("c-1"), worker: "t1/nobody", ask } as Command;
    expect((await refusal(world.ask(missing))).code).toBe("E.NOT_FOUND");
    const both = await Promise.all([
      world.ask({ ...drain("c-1"), ask } as Command),
      world.ask({ ...drain("c-1"), ask } as Command),
    ]);

    expect(both.filter((one) => "repeated" in one && one.repeated)).toHaveLength(1);
    expect(await ends(world)).toEqual(["acked c-1"]);
    expect((await refusal(world.ask(view))).code).toBe("E.IDEMPOTENCY.MISMATCH");
    for (const other of [kick("c-2"), order("c-3"), drain("c-4")])
      expect((await refusal(world.ask({ ...other, ask: { key: "k", digest: "c-2" } } as Command))).code).toBe(
        "E.IDEMPOTENCY.MISMATCH",
      );
    expect([await kept(world, "c-2"), await kept(world, "c-3"), await kept(world, "c-4")]).toEqual([null, null, null]);
  });

  it("[E113] are documents under their ids, ended once; an id names one command, also of another kind", async () => {
    const world = await open();
    await world.join("w");

    await world.ask(drain("d-1"));
    await world.ask(drain("u-1", false));
    await world.ask(kick("k-1"));

    expect(await kept(world, "d-1")).toMatchObject({
      order: { type: "drain" },
      status: "acked",
      by: "ada",
      corr: "req-1",
      workerName: "w",
    });
    expect(await kept(world, "u-1")).toMatchObject({ order: { type: "undrain" }, status: "acked" });
    expect(await kept(world, "k-1")).toMatchObject({
      order: { type: "kick", reason: "out" },
      status: "acked",
      details: { hadSession: true },
    });
    expect(await ends(world)).toEqual(["acked d-1", "acked u-1", "acked k-1"]);
    expect((await refusal(world.ask(kick("d-1")))).code).toBe("E.CONFLICT");
    expect((await refusal(world.ask(drain("k-1")))).code).toBe("E.CONFLICT");
    expect((await world.workerRow("t1/w")).draining).toBe(false);
    expect(await kept(world, "d-1", "t2")).toBeNull();
  });

  it("[E114] a drain is over when the worker has heard of it, and so is its end", async () => {
    const world = await open();
    const crew = await world.join("w", hearing);
    const heard = (on: boolean) => world.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: crew.session, on });

    await world.ask(drain("d-1"));
    expect(await kept(world, "d-1")).toMatchObject({ status: "sent", endedAt: null });
    await world.ask(drain("u-1", false));
    expect(await ends(world)).toEqual([]);
    await heard(true);
    await heard(false);
    expect(await heard(false)).toEqual({ of: "word", applied: false });

    expect(await ends(world)).toEqual(["acked d-1", "acked u-1"]);
    expect(await kept(world, "d-1")).toMatchObject({ status: "acked", endedAt: expect.any(Number) });
  });

  it("[E120] each of several drains and undrains is over when the worker has acknowledged its own word", async () => {
    const world = await open();
    const crew = await world.join("w", hearing);
    const heard = (on: boolean, isToldAgain = false) =>
      world.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: crew.session, on, isToldAgain });
    await world.ask(drain("d-1"));
    await world.ask(drain("u-1", false));
    await world.ask(drain("d-2"));

    await heard(true, true);
    expect(await ends(world)).toEqual(["acked d-1"]);
    expect(await kept(world, "d-2")).toMatchObject({ status: "sent" });
    await heard(false);
    await heard(true);

    expect(await ends(world)).toEqual(["acked d-1", "acked u-1", "acked d-2"]);
  });

  it("[E114] a drain is over at once where nobody is to be told: nothing changes, or the worker is away", async () => {
    const world = await open();
    const crew = await world.join("w", hearing);
    await world.ask(drain("same", false));
    await world.ask({ type: "worker.leave", tenant: "t1", worker: "t1/w", session: crew.session, reason: "gone" });
    await world.ask(drain("away"));

    expect(await kept(world, "same")).toMatchObject({ status: "acked", details: { unchanged: true } });
    expect(await kept(world, "away")).toMatchObject({ status: "acked", details: { kept: true } });
    await world.join("w", hearing);
    expect(world.joined).toMatchObject({ draining: true });
    expect(await ends(world)).toEqual(["acked same", "acked away"]);
  });

  it("[E114] a drain whose word was lost with a socket is over with the next join, which says it", async () => {
    const world = await open();
    const crew = await world.join("w", hearing);
    await world.ask(drain("d-1"));

    await world.join("w", { ...hearing, session: crew.session, boot: crew.boot, resumed: { unacked: [] } });

    expect(await kept(world, "d-1")).toMatchObject({ status: "acked", details: { toldAtJoin: true } });
    expect(world.effects.filter(({ type }) => type === "order")).toEqual([]);
  });

  it("[E115] fail with a lost worker, which is not told when it comes back", async () => {
    const { world, stage } = await stand();
    await world.join("w", hearing);
    await world.ask(drain("d-1"));
    await world.ask(order("c-1"));

    // In steps: a scheduler that was away itself forgives.
    for (let at = 0; at <= world.settings.leaseMs; at += 1_000) {
      stage.advance(1_000);
      await world.settle();
    }
    await world.join("w", { ...hearing, boot: "boot-2" });

    expect(await ends(world)).toEqual(["failed d-1", "failed c-1"]);
    const error = { code: "E.WORKER.LOST", message: expect.stringContaining("worker w was lost") };
    expect(await kept(world, "c-1")).toMatchObject({ status: "failed", error });
    expect(world.effects.filter(({ type }) => type === "order")).toHaveLength(1);
  });

  it("[E115] fail when they were not answered as long as they are kept, and can be looked up as long again", async () => {
    const { world, stage } = await stand();
    const crew = await world.join("w");
    await world.ask(order("c-1"));
    const beat = (): Promise<unknown> =>
      world.ask({ type: "worker.beat", tenant: "t1", worker: "t1/w", session: crew.session, healthy: true, held: null });

    stage.advance(7 * day - 1);
    await beat();
    expect(await kept(world, "c-1")).toMatchObject({ status: "sent" });
    stage.advance(2);
    await beat();
    await world.settle();
    expect(await kept(world, "c-1")).toMatchObject({ status: "failed", error: { code: "E.TIMEOUT" } });
    await world.join("w", { boot: "boot-2" });
    expect(await ends(world)).toEqual(["failed c-1"]);
    expect(world.effects.filter(({ type }) => type === "order")).toHaveLength(1);

    stage.advance(7 * day + 1);
    await world.settle();
    expect(await kept(world, "c-1")).toBeNull();
  });

  it("[E117] an enrolment under a key is answered as the first time, and another under it is refused", async () => {
    const world = await open();
    const enrol = (digest: string, name = "w"): Command => ({
      type: "worker.enrol",
      ...by,
      name,
      about: about(),
      status: null,
      packages: null,
      ask: { key: "k", digest },
    });
    const first = await world.ask(enrol("a"));
    await world.join("w");

    expect(await world.ask(enrol("a"))).toEqual({ ...first, repeated: true });
    expect((await refusal(world.ask(enrol("b", "other")))).code).toBe("E.IDEMPOTENCY.MISMATCH");
    expect(await world.told("t1/w", "worker.enrolled")).toHaveLength(1);
  });

  it("[E116] an entry may say how something ended elsewhere, in the log of the run, also for one of its tasks", async () => {
    const world = await open();
    const run = await world.run(chain(1));
    const write = (tenant: string, targetType: string, target: string): Promise<unknown> =>
      world.ask({
        type: "docs.write",
        tenant,
        by: "ada",
        corr: "req-1",
        puts: [],
        audit: { action: "run.retry", targetType, target, data: { reason: "again" }, outcome: "E.RUN.ACTIVE" },
      });

    await write("t1", "run", run);
    await write("t1", "task", `${run}.0`);
    await write("t2", "run", run);
    await write("t2", "task", `${run}.0`);
    await write("t1", "run", "nobody");
    await write("t1", "worker", "nobody");

    const words = { by: "ada", corr: "req-1", outcome: "E.RUN.ACTIVE", reason: "again" };
    const told = async (tenant: string) => (await world.store.events({ tenant, after: 0, limit: 100, types: ["audit."] })).items;
    expect(await told("t1")).toMatchObject([
      { subject: `run/${run}`, data: { ...words, targetType: "run", target: run } },
      { subject: `run/${run}`, data: { ...words, targetType: "task", target: `${run}.0` } },
    ]);
    expect(await told("t2")).toEqual([]);
  });
});

describe("commands about workers", () => {
  it("[E114] a drain given at another scheduler is over when the worker has answered the one that holds its socket", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const crew = await near.join("w", hearing);

    await far.ask(drain("d-1"));
    await stage.pass(1);
    expect(near.effects.filter(({ type }) => type === "drain")).toMatchObject([{ session: crew.session, on: true }]);
    expect(await kept(far, "d-1")).toMatchObject({ status: "sent" });
    await near.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: crew.session, on: true });

    expect(await kept(far, "d-1")).toMatchObject({ status: "acked" });
  });

  it("[E115] never owe more than fits beside what else is known of a worker", async () => {
    const world = await new Harness().start();
    await world.join("w");
    const wide = (n: number): PackageCommand => ({ ...install, name: `extra-${n}`, url: `https://x.test/${"p".repeat(1_500)}` });

    await world.ask(order("c-0", wide(0)));
    await world.ask(order("c-1", wide(1)));

    expect((await refusal(world.ask(order("c-2", wide(2))))).code).toBe("E.OVERLOADED");
    expect([await kept(world, "c-2"), (await kept(world, "c-0"))?.status]).toEqual([null, "sent"]);
  });
});
