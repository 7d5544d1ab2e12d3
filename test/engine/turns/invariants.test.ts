// Assertions that stay on in production: damaged rows make the engine break one of its own rules, and every time only the command or timer
// that did so ends in the quarantine.
import { type Row, type RowKey, rootOf, type Store, type TaskRow } from "@astraflow/engine";
import { withColumns } from "@astraflow/engine/testing";
import { MemoryCluster } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";
import { buildFlow } from "../harness/flow-builder.ts";

interface BusyWorker {
  readonly harness: EngineHarness;
  readonly worker: TestWorker;
  /** Changes rows behind the engine's back. */
  damage(rows: readonly Row[]): Promise<void>;
  /** The held task of each of the two runs. */
  readonly bad: TaskRow;
  readonly good: TaskRow;
}

/** The same object, with one method replaced. */
const withMethod = <T extends object, K extends keyof T>(target: T, name: K, method: T[K]): T =>
  new Proxy(target, {
    get: (_, key) => {
      if (key === name) return method;
      const value = Reflect.get(target, key) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });

/** A store that gives back this row in place of the one it has: it would refuse to keep such a row itself. */
const readingAs = (store: Store, damaged: () => Row | null): Store =>
  withMethod(store, "begin", async (want) => {
    const tx = await store.begin(want);
    return withMethod(tx, "row", (kind, id) => {
      const row = damaged();
      return row?.kind === kind && row.id === id ? row : tx.row(kind, id);
    });
  });

function createWorld(damaged: () => Row | null = () => null): { harness: EngineHarness; cluster: MemoryCluster } {
  let harness: EngineHarness | null = null;
  const now = () => harness?.now ?? 1_800_000_000_000;
  const cluster = new MemoryCluster({ mode: "strong", random: { random: () => 0.5 }, clock: { wall: now, mono: now } });
  harness = new EngineHarness({ store: readingAs(cluster.createHandle(), damaged) });
  return { harness, cluster };
}

async function writeRows(cluster: MemoryCluster, rows: readonly Row[]): Promise<void> {
  const store = cluster.createHandle();
  const { lastTurn } = await store.open({ replica: "planter", cluster: "c1" });
  const keys = rows.map((row): RowKey => `${row.kind}/${row.id}`);
  const tx = await store.begin({ rows: keys, claims: [], lists: [], due: 0, mail: 0, skip: [] });
  const unit = { roots: [...new Set(keys.map(rootOf))], puts: rows, deletes: [], enqueued: [], logEntries: [], mail: [] };
  expect(await tx.commit(lastTurn + 1, [unit])).toMatchObject({ outcome: "committed" });
}

/** A worker that runs the only task of two runs. */
async function startBusyWorker(damaged: () => Row | null = () => null): Promise<BusyWorker> {
  const { harness, cluster } = createWorld(damaged);
  await harness.start();
  const worker = await harness.joinWorker("w", { slots: 2 });
  const [bad, good] = [await harness.startRun(buildChain(1)), await harness.startRun(buildChain(1))];
  const taskOf = async (run: string) => (await harness.runDetail(run)).tasks[0] as TaskRow;
  return {
    harness,
    worker,
    damage: (rows) => writeRows(cluster, rows),
    bad: await taskOf(bad),
    good: await taskOf(good),
  };
}

/** Both results in one turn: what became of each, and what was reported. */
async function reportBoth({
  harness,
  worker,
  bad,
  good,
}: Omit<BusyWorker, "damage">): Promise<{ codes: string[]; rules: string[] }> {
  const codes = await Promise.all(
    harness
      .askAll([
        worker.resultCommand({ task: bad.id, fence: bad.fence }, {}),
        worker.resultCommand({ task: good.id, fence: good.fence }, {}),
      ])
      .map((answer) =>
        answer.then(
          () => "done",
          (refused: { code: string }) => refused.code,
        ),
      ),
  );
  return { codes, rules: harness.problems.map((problem) => rootCause(problem.cause)) };
}

function rootCause(cause: unknown): string {
  const { rule, cause: inner } = cause as { rule?: string; cause?: unknown };
  return rule ?? rootCause(inner);
}

describe("a report that would break a rule is quarantined, and the report beside it commits", () => {
  it("[U16] a report that would make a run's open count negative is quarantined, and the report beside it commits", async () => {
    const world = await startBusyWorker();
    const { run } = await world.harness.runDetail(world.bad.run);
    await world.damage([{ ...run, open: 0 }]);

    expect(await reportBoth(world)).toEqual({ codes: ["E.UNIT.QUARANTINED", "done"], rules: ["open count"] });
    expect((await world.harness.runDetail(world.bad.run)).tasks).toMatchObject([{ phase: "leased" }]);
    expect((await world.harness.runDetail(world.good.run)).run.phase).toBe("succeeded");
  });

  it("[U17] a report that would write a row under a root that the turn does not hold is quarantined, and the report beside it commits", async () => {
    let damaged: Row | null = null;
    const world = await startBusyWorker(() => damaged);
    damaged = { ...world.bad, run: await world.harness.startRun(buildChain(1)) };

    expect(await reportBoth(world)).toEqual({ codes: ["E.UNIT.QUARANTINED", "done"], rules: ["change set has its root"] });
    expect((await world.harness.runDetail(world.bad.run)).run.phase).toBe("running");
    expect((await world.harness.runDetail(world.good.run)).run.phase).toBe("succeeded");
  });

  it("[U18] a report that would commit rows of two tenants together is quarantined, and the report beside it commits", async () => {
    const world = await startBusyWorker();
    const foreign = { kind: "key", id: "t2/printer", limit: 1, holders: [world.bad.id], due: null } as const;
    await world.damage([{ ...world.bad, key: foreign.id }, foreign]);

    expect(await reportBoth(world)).toEqual({ codes: ["E.UNIT.QUARANTINED", "done"], rules: ["one tenant"] });
    expect((await world.harness.store.page({ page: "key", tenant: "t2", key: "printer" })).key).toEqual(foreign);
    expect((await world.harness.runDetail(world.good.run)).run.phase).toBe("succeeded");
  });

  it("[U22] a report that would write a row whose fields do not fit its phase is quarantined, and the report beside it commits", async () => {
    const world = await startBusyWorker();
    const { harness, bad, good } = world;
    await world.damage([withColumns(bad, { grantedAt: null })]);

    await world.worker.heartbeat([{ task: good.id, fence: good.fence }]);
    expect(await reportBoth(world)).toEqual({ codes: ["E.UNIT.QUARANTINED", "done"], rules: ["row shape"] });
    expect((await harness.runDetail(bad.run)).tasks).toMatchObject([{ phase: "leased" }]);
    expect((await harness.runDetail(good.run)).run.phase).toBe("succeeded");
    const again = await harness.joinWorker("w", { slots: 2 });
    await harness.startRun(buildChain(1));
    await again.succeed();
    expect(harness.problems).toHaveLength(1);
  });

  it("[U19] a report that would make an illegal phase change of a row is quarantined, and the report beside it commits", async () => {
    const { harness, cluster } = createWorld();
    await harness.start();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const joining = buildFlow({
      nodes: [{}, {}, {}],
      edges: [
        [0, 2],
        [1, 2],
      ],
    });
    const [bad, good] = [await harness.startRun(joining), await harness.startRun(buildChain(1))];
    const tasksOf = async (run: string) => (await harness.runDetail(run)).tasks;
    const [first, second] = (await tasksOf(bad)) as [TaskRow, TaskRow];
    await worker.succeed({}, { task: first.id, fence: first.fence });
    const join = (await tasksOf(bad))[2] as TaskRow;
    // Nothing arrives at a host.
    await writeRows(cluster, [withColumns(join, { phase: "hosting", readyAt: harness.now })]);
    const [single] = (await tasksOf(good)) as [TaskRow];

    const world = { harness, worker, bad: second, good: single };
    expect(await reportBoth(world)).toEqual({ codes: ["E.UNIT.QUARANTINED", "done"], rules: ["legal move"] });
    expect((await tasksOf(bad)).map(({ phase }) => phase)).toEqual(["succeeded", "leased", "hosting"]);
    expect((await harness.runDetail(good)).run.phase).toBe("succeeded");
  });
});

describe("a timer or a grant that would break a rule is quarantined, and the others go on", () => {
  it("[U22] a timer that would write a row whose fields do not fit its phase is quarantined, and the other timers go on", async () => {
    const { harness, cluster } = createWorld();
    await harness.start();
    const worker = await harness.joinWorker("w");
    const row = await harness.workerRow(worker.worker);
    await writeRows(cluster, [withColumns(row, { id: "t1/odd", phase: "enrolled", due: harness.now })]);
    const run = await harness.startRun(buildChain(1, { policy: { queueTimeoutMs: 3_000, pool: "none" } }));

    for (let look = 0; look < 4; look++) {
      await harness.advance(1_500);
      await worker.heartbeat(null);
    }

    expect(harness.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { root: "worker/t1/odd" } }]);
    expect(harness.problems.map((problem) => rootCause(problem.cause))).toEqual(["row shape"]);
    expect((await harness.workerRow("t1/odd")).phase).toBe("enrolled");
    expect((await harness.runDetail(run)).run.phase).toBe("failed");
  });

  it("[U20] a grant that would not raise the fence of its task is quarantined, and the other grants go on", async () => {
    const { harness, cluster } = createWorld();
    await harness.start();
    const [bad, good] = [await harness.startRun(buildChain(1)), await harness.startRun(buildChain(1))];
    const [task] = (await harness.runDetail(bad)).tasks as [TaskRow];
    // The largest number that has no successor.
    await writeRows(cluster, [{ ...task, fence: 2 ** 53 }]);

    const worker = await harness.joinWorker("w", { slots: 2 });
    for (let look = 0; look < 3; look++) await harness.advance(1_500);

    expect(worker.dispatchesSent.map((sent) => sent.run)).toEqual([good]);
    expect(harness.problems).toMatchObject([{ code: "E.UNIT.QUARANTINED", details: { root: `run/${bad}` } }]);
    expect(harness.problems.map((problem) => rootCause(problem.cause))).toEqual(["fence rises"]);
    expect(harness.engine.gauge().quarantined).toBe(1);
  });
});
