import type { Command, Key, Row } from "@astraflow/engine";
import { memoryCluster, type MemoryCluster } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { chain, graph, Harness } from "./harness.ts";

async function plantRows(cluster: MemoryCluster, rows: readonly Row[]): Promise<void> {
  const store = cluster.handle();
  const { lastTurn } = await store.open({ replica: "planter", cluster: "c1" });
  const keys = rows.map((row): Key => `${row.kind}/${row.id}`);
  const tx = await store.begin({ rows: keys, claims: [], lists: [], due: 0, mail: 0, skip: [] });
  await tx.commit(lastTurn + 1, [{ roots: keys, puts: rows, drops: [], ready: [], happenings: [], mail: [] }]);
}
/** A clock shared by harnesses on one cluster, and a brake on engines that never pause. */
function shared(mode: "strong" | "weak" = "strong") {
  const time = { now: 1_800_000_000_000, turns: 0, spins: false };
  const cluster = memoryCluster({
    mode,
    dice: { roll: () => 0.5 },
    clock: { wall: () => time.now, mono: () => time.now },
    gate: ({ step }) => {
      if (step !== "begin" || ++time.turns < 3_000) return undefined;
      time.spins = true;
      return new Promise(() => undefined);
    },
  });
  const world = (replica: string, settings = {}) => {
    const one = new Harness({ store: cluster.handle(), settings });
    Object.defineProperty(one, "now", { get: () => time.now, set: (v) => (time.now = v) });
    void replica;
    return one;
  };
  const boot = async (one: Harness, replica: string) => {
    await one.engine.start({ replica, cluster: "c1" });
    return one;
  };
  return { time, cluster, world, boot };
}
const tick = () => new Promise<void>((r) => setImmediate(r));
const single = { concurrency: { key: "printer", limit: 1 } };

describe("reproductions", () => {
  it("R1 a failing run with more open tasks than one sweep is closed with tasks left open", async () => {
    const world = await new Harness({ settings: { sweepTasksMax: 10 } }).start();
    const worker = await world.join("w");
    const run = await world.run(graph(Array.from({ length: 35 }, () => ({})), []));
    await world.settle();
    await worker.error("E.RUNNER.FAILURE");
    await world.settle();
    const { run: row, tasks } = await world.detail(run);
    expect(row.phase).toBe("failed");
    expect(tasks.filter((task) => task.endedAt === null)).toEqual([]);
  });
  it("R1b ... and the line behind the orphans is blocked for ever", async () => {
    const world = await new Harness({ settings: { sweepTasksMax: 10 } }).start();
    const worker = await world.join("w");
    await world.run(graph(Array.from({ length: 35 }, () => ({})), []));
    await world.settle();
    await worker.error("E.RUNNER.FAILURE");
    const next = await world.run(chain(1));
    for (let s = 0; s < 5; s++) { await worker.beat([]); await world.advance(1_000); }
    expect(worker.last.run).toBe(next);
  });
  it("R2 a worker's status cancelled never gives its key back", async () => {
    const world = await new Harness().start();
    const worker = await world.join("w", { slots: 3 });
    await world.run(chain(1, { policy: single }));
    const next = await world.run(chain(1, { policy: single }));
    await world.settle();
    await world.ask(worker.resultCommand(worker.last, {}, "cancelled"));
    await world.settle();
    expect(worker.last.run).toBe(next);
  });
  it("R3 a task that comes in the turn in which an idle worker is lost is granted to it and nobody watches it", async () => {
    const world = await new Harness().start();
    const w = await world.join("w");
    await world.run(chain(1, { type: "warm" }));
    await world.settle();
    await w.done();
    for (let s = 0; s < 29; s++) await world.advance(1_000);
    world.now += 2_000;
    const run = await world.run(chain(1, { type: "warm" }));
    for (let s = 0; s < 60; s++) await world.advance(1_000);
    expect((await world.detail(run)).tasks[0]?.phase).toBe("ready");
  });
  it("R4 a drain and an order in one turn: the draining worker is given the task", async () => {
    const world = await new Harness().start();
    const w = await world.join("w", { slots: 2 });
    await world.run(chain(1));
    await world.settle();
    const before = w.sent.length;
    await Promise.all(world.askAll([{ type: "worker.drain", tenant: "t1", by: "me", worker: w.worker, on: true }, world.order(chain(1))]));
    await world.settle();
    expect(w.sent.length).toBe(before);
  });
  it("R5 a rejoin and an order in one turn: the dispatch goes to the superseded session", async () => {
    const world = await new Harness().start();
    const w = await world.join("w", { slots: 2 });
    await world.run(chain(1));
    await world.settle();
    await w.done();
    const join: Command = { type: "worker.join", tenant: "t1", worker: w.worker, name: "w", boot: w.boot, session: "s2", about: (await import("./harness.ts")).about({ slots: 2 }), running: [] };
    await Promise.all(world.askAll([join, world.order(chain(1))]));
    await world.settle();
    expect(world.dispatches().at(-1)?.session).toBe("s2");
  });
  it("R6 deadlines of tasks of an ending run stand before its sweep: nothing is due any more, and the engine spins", async () => {
    const { time, world, boot } = shared();
    const one = await boot(world("r1", { sweepTasksMax: 2, dueMax: 3 }), "r1");
    const run = await one.run(graph(Array.from({ length: 12 }, () => ({ policy: { queueTimeoutMs: 3_000 } })), []));
    await one.settle();
    const other = await one.run(chain(1), { timeoutMs: 3_500 });
    time.now += 3_001;
    await one.ask({ type: "run.cancel", tenant: "t1", by: "x", run, reason: "x" });
    for (let s = 0; s < 5; s++) { time.now += 1_000; time.turns = 0; one.engine.wake(); await tick(); }
    expect(time.spins).toBe(false);
    expect((await one.detail(run)).run.phase).toBe("cancelled");
    expect((await one.detail(other)).run.phase).toBe("failed");
  });
  it("R7 a lost worker that holds a task of a poisoned run makes the engine spin for ever", async () => {
    const { time, cluster, world, boot } = shared();
    const one = await boot(world("r1"), "r1");
    await one.join("w");
    const run = await one.run(chain(1));
    await one.settle();
    await plantRows(cluster, [{ kind: "workflow", id: (await one.detail(run)).run.workflow, body: "{ not json" }]);
    await one.engine.stop();
    const two = await boot(world("r1"), "r1");
    for (let s = 0; s < 70 && !time.spins; s++) { time.now += 1_000; time.turns = 0; two.engine.wake(); await tick(); }
    expect(time.spins).toBe(false);
  });
  it("R8 a poisoned run that waits for a key takes the results of healthy runs along", async () => {
    const { cluster, world, boot } = shared();
    const one = await boot(world("r1"), "r1");
    const w = await one.join("w", { slots: 3 });
    const good = await one.run(chain(1, { policy: single }));
    const bad = await one.run(chain(2, { policy: single }));
    const third = await one.run(chain(1, { policy: single }));
    await one.settle();
    await plantRows(cluster, [{ kind: "workflow", id: (await one.detail(bad)).run.workflow, body: "{ not json" }]);
    await one.engine.stop();
    const two = await boot(world("r1"), "r1");
    const back = await two.join("w", { slots: 3, boot: w.boot, running: [w.last] });
    await back.done({}, w.last).catch(() => undefined);
    await two.settle();
    expect((await two.detail(good)).run.phase).toBe("succeeded");
    expect((await two.detail(third)).run.phase).toBe("running");
  });
  it("R9 a worker with more attempts than rounds rejoins on a store that loads on demand: the engine dies", async () => {
    const { world, boot } = shared("weak");
    const one = await boot(world("r1"), "r1");
    const w = await one.join("w", { slots: 12 });
    await one.run(graph(Array.from({ length: 12 }, () => ({})), []));
    await one.settle();
    await tick();
    const fate = await Promise.race([one.join("w", { slots: 12, boot: w.boot, running: w.sent }).then(() => "joined"), tick().then(tick).then(() => "dead")]);
    expect(fate).toBe("joined");
  });
  it("R10 a route that another scheduler interned is never served here", async () => {
    const { time, world, boot } = shared("weak");
    const [a, b] = [await boot(world("r1"), "r1"), await boot(world("r2"), "r2")];
    const w = await b.join("w");
    await a.run(chain(1));
    for (let s = 0; s < 5; s++) { time.now += 1_000; a.engine.wake(); b.engine.wake(); await tick(); }
    expect(w.sent).toHaveLength(1);
  });
  it("R11 a cancel through another scheduler leaves the slot taken for ever", async () => {
    const { time, world, boot } = shared("weak");
    const [a, b] = [await boot(world("r1"), "r1"), await boot(world("r2"), "r2")];
    const w = await a.join("w");
    const run = await a.run(chain(1));
    await a.settle();
    await w.ack();
    await b.ask({ type: "run.cancel", tenant: "t1", by: "x", run, reason: "x" });
    await w.done({}, w.last).catch(() => undefined);
    await a.run(chain(1));
    for (let s = 0; s < 20; s++) { time.now += 1_000; await w.beat([]); a.engine.wake(); b.engine.wake(); await tick(); }
    expect(w.sent.length).toBeGreaterThanOrEqual(2);
  });
  it("R12 a worker that has moved to another scheduler is still given work by the first, and nobody takes it back", async () => {
    const { time, world, boot } = shared("weak");
    const [a, b] = [await boot(world("r1"), "r1"), await boot(world("r2"), "r2")];
    const old = await a.join("w");
    const warm = await a.run(chain(1)); await a.settle(); await old.done(); void warm;
    const now = await b.join("w", { boot: old.boot, running: [] });
    const run = await a.run(chain(1)); await a.settle();
    await old.leave();
    for (let s = 0; s < 60; s++) { time.now += 1_000; await now.beat([]); a.engine.wake(); b.engine.wake(); await tick(); }
    void run;
    expect(now.sent.length).toBeGreaterThan(0);
  });
  it("R13 a head that is busy when it is claimed is forgotten", async () => {
    const { time, cluster, world, boot } = shared("weak");
    const a = await boot(world("r1"), "r1");
    const run = await a.run(chain(1));
    const other = cluster.handle(); await other.open({ replica: "x", cluster: "c1" });
    const tx = await other.begin({ rows: [`run/${run}`], claims: [], lists: [], due: 0, mail: 0, skip: [] });
    const w = await a.join("w");
    await tick();
    await tx.abort();
    for (let s = 0; s < 30; s++) { time.now += 1_000; await w.beat([]); a.engine.wake(); await tick(); }
    expect(w.sent.length).toBeGreaterThanOrEqual(1);
  });
  it("R14 the command of a turn that cannot be settled is not answered when the engine stops", async () => {
    const time = 1_800_000_000_000;
    const inner = memoryCluster({ mode: "strong", dice: { roll: () => 0.5 }, clock: { wall: () => time, mono: () => time }, script: () => "unknown-absent" }).handle();
    const store = { open: inner.open.bind(inner), begin: inner.begin.bind(inner), settle: () => Promise.reject(new Error("away")), onHint: inner.onHint.bind(inner), events: inner.events.bind(inner), page: inner.page.bind(inner), close: inner.close.bind(inner) };
    const world = await new Harness({ store: store as never }).start();
    const said = world.ask(world.order(chain(1))).catch((refused) => refused.code);
    await tick();
    await world.engine.stop();
    expect(await Promise.race([said, tick().then(() => "silence")])).not.toBe("silence");
  });
  it("R15 more lines than claimLinesMax: a line behind busy ones starves", async () => {
    const world = await new Harness({ settings: { claimLinesMax: 1 } }).start();
    const w = await world.join("w");
    for (let i = 0; i < 3; i++) await world.run(chain(1, { type: "a" }));
    const urgent = await world.run(chain(1, { type: "b" }), { priority: 0 });
    for (let i = 0; i < 12; i++) { await world.run(chain(1, { type: "a" })); await w.done(); await world.settle(); }
    expect(w.sent.some((one) => one.run === urgent)).toBe(true);
  });
  it("R16 a store that fails in the middle of a turn (more) ends the engine", async () => {
    const { world: make, boot, cluster } = shared("weak");
    void make;
    const inner = cluster.handle();
    let broken = false;
    const store = { open: inner.open.bind(inner), settle: inner.settle.bind(inner), onHint: inner.onHint.bind(inner), events: inner.events.bind(inner), page: inner.page.bind(inner), close: inner.close.bind(inner),
      begin: async (want: never) => { const tx = await inner.begin(want); if (broken) { broken = false; tx.more = () => Promise.reject(new Error("connection lost")); } return tx; } };
    const world = await boot(new Harness({ store: store as never }), "r1");
    broken = true;
    const said = world.ask(world.order(chain(1))).then(() => "done", (refused) => refused.code);
    for (let i = 0; i < 5; i++) { await tick(); world.now += 1_000; world.engine.wake(); }
    expect(await Promise.race([said, tick().then(() => "silence")])).not.toBe("silence");
  });
});
