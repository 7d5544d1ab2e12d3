// Commands about workers as they are kept: each under its id, each ended once, whatever becomes of the worker. On memory and sqlite.

import type { Command, PackageCommand, WorkerCommandRecord } from "@astraflow/engine";
import { createMemoryFixture, createSqliteFixture, type StoreFixture as StoreStage } from "@astraflow/store/testing";
import { afterEach, describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildChain, describeWorker, EngineHarness, type RefusedError } from "../harness/engine-harness.ts";

const operatorFields = { tenant: "t1", by: "ada", corr: "req-1", worker: "t1/w" } as const;
const drainCommand = (command: string, on = true): Command => ({ type: "worker.drain", ...operatorFields, on, command });
const kickCommand = (command: string): Command => ({ type: "worker.kick", ...operatorFields, reason: "out", command });
const install: PackageCommand = { type: "pkg.install", name: "extra", version: "2.0.0" };
const orderCommand = (id: string, what: PackageCommand = install): Command => ({
  type: "worker.order",
  ...operatorFields,
  id,
  order: what,
});
/** Workers that know undrain frames ack drains. */
const undrainFeatures = { features: ["fence", "cancel", "held", "undrain"] };
const day = 24 * 3_600_000;

async function readCommandDocument(harness: EngineHarness, id: string, tenant = "t1"): Promise<WorkerCommandRecord | null> {
  const { items } = await harness.store.page({ page: "doc", tenant, collection: "command", names: [id] });
  const [doc = null] = items;
  return doc === null ? null : (JSON.parse(doc.body) as WorkerCommandRecord);
}

/** How each command ended, by the log. */
async function commandEndFacts(harness: EngineHarness): Promise<string[]> {
  const { items } = await harness.store.events({
    tenant: "t1",
    after: 0,
    limit: 1_000,
    types: ["command.acked", "command.failed"],
  });
  return items.map(({ type, data }) => `${type.slice(8)} ${String(data["id"])}`);
}

const refusalOf = (answer: Promise<unknown>): Promise<RefusedError> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as RefusedError,
  );

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of cleanups.splice(0)) await close();
});

const storeFixtures: [string, () => Promise<StoreStage>][] = [
  ["memory", () => createMemoryFixture("strong")],
  ["sqlite", () => createSqliteFixture()],
];

describe.each(storeFixtures)("commands about workers on %s", (_name, make) => {
  async function stand(): Promise<{ world: EngineHarness; stage: StoreStage }> {
    const cluster = await make();
    const harness = await new EngineHarness({ store: cluster.createHandle() }).start();
    cleanups.push(async () => {
      await harness.engine.stop();
      await cluster.close();
    });
    return { world: harness, stage: cluster };
  }
  const open = async (): Promise<EngineHarness> => (await stand()).world;

  it("[A370] a worker command under a key runs once and a repeat gets its answer; other requests are refused, and a refusal leaves the key free", async () => {
    const harness = await open();
    await harness.joinWorker("w");
    const ask = { key: "k", digest: "c-1" };
    const view: Command = {
      type: "docs.write",
      tenant: "t1",
      by: "ada",
      puts: [{ collection: "view", name: "v", rev: 0, body: "{}" }],
      ask: { key: "k", digest: "view" },
    };

    const missing = { ...drainCommand("c-1"), worker: "t1/nobody", ask } as Command;
    expect((await refusalOf(harness.ask(missing))).code).toBe("E.NOT_FOUND");
    const both = await Promise.all([
      harness.ask({ ...drainCommand("c-1"), ask } as Command),
      harness.ask({ ...drainCommand("c-1"), ask } as Command),
    ]);

    expect(both.filter((one) => "repeated" in one && one.repeated)).toHaveLength(1);
    expect(await commandEndFacts(harness)).toEqual(["acked c-1"]);
    expect((await refusalOf(harness.ask(view))).code).toBe("E.IDEMPOTENCY.MISMATCH");
    for (const other of [kickCommand("c-2"), orderCommand("c-3"), drainCommand("c-4")])
      expect((await refusalOf(harness.ask({ ...other, ask: { key: "k", digest: "c-2" } } as Command))).code).toBe(
        "E.IDEMPOTENCY.MISMATCH",
      );
    expect([
      await readCommandDocument(harness, "c-2"),
      await readCommandDocument(harness, "c-3"),
      await readCommandDocument(harness, "c-4"),
    ]).toEqual([null, null, null]);
  });

  it("[E113] a worker command is a document under its id and ends once; an id that is taken is refused, also for another kind of command", async () => {
    const harness = await open();
    await harness.joinWorker("w");

    await harness.ask(drainCommand("d-1"));
    await harness.ask(drainCommand("u-1", false));
    await harness.ask(kickCommand("k-1"));

    expect(await readCommandDocument(harness, "d-1")).toMatchObject({
      order: { type: "drain" },
      status: "acked",
      by: "ada",
      corr: "req-1",
      workerName: "w",
    });
    expect(await readCommandDocument(harness, "u-1")).toMatchObject({ order: { type: "undrain" }, status: "acked" });
    expect(await readCommandDocument(harness, "k-1")).toMatchObject({
      order: { type: "kick", reason: "out" },
      status: "acked",
      details: { hadSession: true },
    });
    expect(await commandEndFacts(harness)).toEqual(["acked d-1", "acked u-1", "acked k-1"]);
    expect((await refusalOf(harness.ask(kickCommand("d-1")))).code).toBe("E.CONFLICT");
    expect((await refusalOf(harness.ask(drainCommand("k-1")))).code).toBe("E.CONFLICT");
    expect((await harness.workerRow("t1/w")).draining).toBe(false);
    expect(await readCommandDocument(harness, "d-1", "t2")).toBeNull();
  });

  it("[E114] a drain or undrain ends when the worker has acknowledged it", async () => {
    const harness = await open();
    const worker = await harness.joinWorker("w", undrainFeatures);
    const onAnswer = (on: boolean) =>
      harness.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: worker.session, on });

    await harness.ask(drainCommand("d-1"));
    expect(await readCommandDocument(harness, "d-1")).toMatchObject({ status: "sent", endedAt: null });
    await harness.ask(drainCommand("u-1", false));
    expect(await commandEndFacts(harness)).toEqual([]);
    await onAnswer(true);
    await onAnswer(false);
    expect(await onAnswer(false)).toEqual({ of: "word", applied: false });

    expect(await commandEndFacts(harness)).toEqual(["acked d-1", "acked u-1"]);
    expect(await readCommandDocument(harness, "d-1")).toMatchObject({ status: "acked", endedAt: expect.any(Number) });
  });

  it("[E120] of several consecutive drains and undrains, each ends when the worker has acknowledged that one", async () => {
    const harness = await open();
    const worker = await harness.joinWorker("w", undrainFeatures);
    const onAnswer = (on: boolean, isAnotherUnacked = false) =>
      harness.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: worker.session, on, isAnotherUnacked });
    await harness.ask(drainCommand("d-1"));
    await harness.ask(drainCommand("u-1", false));
    await harness.ask(drainCommand("d-2"));

    await onAnswer(true, true);
    expect(await commandEndFacts(harness)).toEqual(["acked d-1"]);
    expect(await readCommandDocument(harness, "d-2")).toMatchObject({ status: "sent" });
    await onAnswer(false);
    await onAnswer(true);

    expect(await commandEndFacts(harness)).toEqual(["acked d-1", "acked u-1", "acked d-2"]);
  });

  it("[E114] a drain or undrain ends at once if it changes nothing or the worker has no session", async () => {
    const harness = await open();
    const worker = await harness.joinWorker("w", undrainFeatures);
    await harness.ask(drainCommand("same", false));
    await harness.ask({ type: "worker.leave", tenant: "t1", worker: "t1/w", session: worker.session, reason: "gone" });
    await harness.ask(drainCommand("away"));

    expect(await readCommandDocument(harness, "same")).toMatchObject({ status: "acked", details: { unchanged: true } });
    expect(await readCommandDocument(harness, "away")).toMatchObject({ status: "acked", details: { kept: true } });
    await harness.joinWorker("w", undrainFeatures);
    expect(harness.lastJoinAnswer).toMatchObject({ draining: true });
    expect(await commandEndFacts(harness)).toEqual(["acked same", "acked away"]);
  });

  it("[E114] a drain whose message was lost with the socket ends with the worker's next join, whose answer carries it", async () => {
    const harness = await open();
    const worker = await harness.joinWorker("w", undrainFeatures);
    await harness.ask(drainCommand("d-1"));

    await harness.joinWorker("w", { ...undrainFeatures, session: worker.session, boot: worker.boot, resumed: { unacked: [] } });

    expect(await readCommandDocument(harness, "d-1")).toMatchObject({ status: "acked", details: { toldAtJoin: true } });
    expect(harness.effects.filter(({ type }) => type === "order")).toEqual([]);
  });

  it("[E115] commands of a lost worker fail and are not sent when it returns", async () => {
    const { world: harness, stage: cluster } = await stand();
    await harness.joinWorker("w", undrainFeatures);
    await harness.ask(drainCommand("d-1"));
    await harness.ask(orderCommand("c-1"));

    // In steps: a scheduler that was away itself forgives.
    for (let at = 0; at <= harness.settings.leaseMs; at += 1_000) {
      cluster.advance(1_000);
      await harness.settle();
    }
    await harness.joinWorker("w", { ...undrainFeatures, boot: "boot-2" });

    expect(await commandEndFacts(harness)).toEqual(["failed d-1", "failed c-1"]);
    const error = { code: "E.WORKER.LOST", message: expect.stringContaining("worker w was lost") };
    expect(await readCommandDocument(harness, "c-1")).toMatchObject({ status: "failed", error });
    expect(harness.effects.filter(({ type }) => type === "order")).toHaveLength(1);
  });

  it("[E115] a worker command fails if it is not answered by its deadline, and can be read for seven more days", async () => {
    const { world: harness, stage: cluster } = await stand();
    const worker = await harness.joinWorker("w");
    await harness.ask(orderCommand("c-1", { ...install, deadlineMs: 7 * day }));
    const beat = (): Promise<unknown> =>
      harness.ask({ type: "worker.beat", tenant: "t1", worker: "t1/w", session: worker.session, healthy: true, held: null });

    cluster.advance(7 * day - 1);
    await beat();
    expect(await readCommandDocument(harness, "c-1")).toMatchObject({ status: "sent" });
    cluster.advance(2);
    await beat();
    await harness.settle();
    expect(await readCommandDocument(harness, "c-1")).toMatchObject({ status: "failed", error: { code: "E.TIMEOUT" } });
    await harness.joinWorker("w", { boot: "boot-2" });
    expect(await commandEndFacts(harness)).toEqual(["failed c-1"]);
    expect(harness.effects.filter(({ type }) => type === "order")).toHaveLength(1);

    cluster.advance(7 * day + 1);
    await harness.settle();
    expect(await readCommandDocument(harness, "c-1")).toBeNull();
  });

  it("[E117] a repeated enrolment under an idempotency key gets the first answer, and a different enrolment under the key is refused", async () => {
    const harness = await open();
    const enrol = (digest: string, name = "w"): Command => ({
      type: "worker.enrol",
      ...operatorFields,
      name,
      about: describeWorker(),
      status: null,
      packages: null,
      ask: { key: "k", digest },
    });
    const first = await harness.ask(enrol("a"));
    await harness.joinWorker("w");

    expect(await harness.ask(enrol("a"))).toEqual({ ...first, repeated: true });
    expect((await refusalOf(harness.ask(enrol("b", "other")))).code).toBe("E.IDEMPOTENCY.MISMATCH");
    expect(await harness.workerFacts("t1/w", "worker.enrolled")).toHaveLength(1);
  });

  it("[E116] an audit entry with an outcome decided elsewhere is recorded in the log of its run, also if it is about one of the run's tasks", async () => {
    const harness = await open();
    const run = await harness.startRun(buildChain(1));
    const write = (tenant: string, targetType: string, target: string): Promise<unknown> =>
      harness.ask({
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
    const auditEntries = async (tenant: string) =>
      (await harness.store.events({ tenant, after: 0, limit: 100, types: ["audit."] })).items;
    expect(await auditEntries("t1")).toMatchObject([
      { subject: `run/${run}`, data: { ...words, targetType: "run", target: run } },
      { subject: `run/${run}`, data: { ...words, targetType: "task", target: `${run}.0` } },
    ]);
    expect(await auditEntries("t2")).toEqual([]);
  });
});

describe("commands about workers", () => {
  it("[E114] a drain requested at another scheduler ends when the worker has acknowledged it at the scheduler that holds its socket", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const worker = await near.joinWorker("w", undrainFeatures);

    await far.ask(drainCommand("d-1"));
    await cluster.passSeconds(1);
    expect(near.effects.filter(({ type }) => type === "drain")).toMatchObject([{ session: worker.session, on: true }]);
    expect(await readCommandDocument(far, "d-1")).toMatchObject({ status: "sent" });
    await near.ask({ type: "worker.heard", tenant: "t1", worker: "t1/w", session: worker.session, on: true });

    expect(await readCommandDocument(far, "d-1")).toMatchObject({ status: "acked" });
  });

  it("[E115] unanswered commands never exceed the space reserved for them in the worker's row", async () => {
    const harness = await new EngineHarness().start();
    await harness.joinWorker("w");
    const wide = (n: number): PackageCommand => ({ ...install, name: `extra-${n}`, url: `https://x.test/${"p".repeat(1_500)}` });

    await harness.ask(orderCommand("c-0", wide(0)));
    await harness.ask(orderCommand("c-1", wide(1)));

    expect((await refusalOf(harness.ask(orderCommand("c-2", wide(2))))).code).toBe("E.OVERLOADED");
    expect([await readCommandDocument(harness, "c-2"), (await readCommandDocument(harness, "c-0"))?.status]).toEqual([
      null,
      "sent",
    ]);
  });
});
