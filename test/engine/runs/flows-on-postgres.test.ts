// Containers, maps, chains and given nodes on a real PostgreSQL, with one engine and with two that share it.
import type { PresetResult, StartRunCommand } from "@astraflow/engine";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { AutoWorkers, checkRun, type Dispatch, resultOf, slotOf, tasksBySlot } from "../harness/auto-workers.ts";
import type { EngineHarness } from "../harness/engine-harness.ts";
import { buildFlow, type FlowSpec, sequence } from "../harness/flow-builder.ts";
import { type FailureRule, FlowModel, type IterationPath, randomFlow } from "../harness/flow-model.ts";
import { FuzzRandom } from "../harness/fuzz-random.ts";
import { createKillableStore, PostgresEngineCluster } from "../harness/postgres-engine-cluster.ts";

let server: PostgresServer;
let cluster: PostgresEngineCluster;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());
afterEach(() => cluster.close());

const echoIndex = (dispatch: Dispatch, params: Record<string, unknown>) => ({
  done: { out: "index" in params ? Number(params["index"]) + 1 : "item" in params ? params["item"] : dispatch.node },
});

/** A worker at each engine of the town. */
const createWorkers = (slots: number, reply: AutoWorkers["reply"] = echoIndex): Promise<AutoWorkers[]> =>
  Promise.all(
    cluster.engines.map(
      async (harness, at) => new AutoWorkers(harness, [await harness.joinWorker(`w${at}`, { slots, boot: `w${at}-b` })], reply),
    ),
  );

/** Which iterations, and tries of them, are around a leaf. */
async function iterationPathOf(harness: EngineHarness, { task }: Dispatch): Promise<IterationPath> {
  const ids = [...task.matchAll(/\*\d+(?=\/)/g)].map(({ index, 0: text }) => task.slice(0, index + text.length));
  const pages = await Promise.all(ids.map((id) => harness.store.page({ page: "task", tenant: "t1", task: id })));
  return pages.map(({ task: frame }) => (JSON.parse(frame?.state ?? "{}") as { frame: IterationPath[number] }).frame);
}

describe("random workflows on PostgreSQL", () => {
  for (const names of [["a"], ["a", "b"]])
    it.for([1, 3, 5, 6])(
      `[E100] random workflows on PostgreSQL end as the reference model predicts, with ${names.length} engine(s) on one database (seed %i)`,
      async (seed) => {
        const random = new FuzzRandom(seed * 31);
        cluster = await PostgresEngineCluster.create(server, names, { sweepTasksMax: random.pick([2, 7, 500]) });
        const [first] = cluster.engines as [EngineHarness];
        const bad = seed % 3 === 0 ? new FuzzRandom(seed).integerBelow(3) : -1;
        const fails: FailureRule = (node, path) =>
          bad >= 0 && (node.length + path.reduce((sum, { tries }) => sum + tries, 0)) % 5 === bad;
        const workers = await createWorkers(3, async (dispatch, params) =>
          fails(dispatch.node, await iterationPathOf(first, dispatch))
            ? { fail: "E.RUNNER.FAILURE" }
            : echoIndex(dispatch, params),
        );
        const flowSpec = randomFlow(random, 0, 30);

        const run = await first.startRun(buildFlow(flowSpec));
        for (let look = 0; look < 60; look++) {
          await cluster.runWorkers(workers);
          if ((await first.runDetail(run)).run.endedAt !== null) break;
          await cluster.passSeconds(1);
        }

        const { run: over, tasks } = await checkRun(first, run);
        const at = tasksBySlot(tasks);
        const values = over.phase === "succeeded" ? flowSpec.nodes.map((_, ordinal) => resultOf(at[ordinal])) : null;
        expect(values).toEqual(new FlowModel(fails).values(flowSpec, "", [], null));
        expect(cluster.problems).toEqual([]);
      },
    );
});

describe("a map of 2,000 items and two engines", () => {
  const items = Array.from({ length: 2_000 }, (_, at) => at);
  const map = buildFlow(
    sequence({ loop: { mode: "map", items, parallelism: 1_000 }, body: sequence({}), inputs: [["item", 0]] }, {}),
  );

  it.for(["before", "after"] as const)(
    "[E101] a map of 2,000 items loses and duplicates nothing when one of two engines is cut off in the middle, %s a commit was stored",
    async (when) => {
      cluster = await PostgresEngineCluster.create(server, ["b"]);
      const [west] = cluster.engines as [EngineHarness];
      const fate = createKillableStore(12, when);
      const east = await cluster.startEngine("a", {}, fate.wrap);
      const workers = await createWorkers(300);
      const run = await west.startRun(map);
      let isDead = false;
      const end = fate.died.then(() => {
        isDead = true;
      });
      // Only the one that is to die works at first; it gets its part of the run once it finds it in nobody's hands.
      for (let look = 0; !isDead && look < 30; look++)
        await Promise.race([end, (workers[1] as AutoWorkers).answerAll().then(() => cluster.passDiscoveryTime())]);
      cluster.removeEngine(east);
      expect(isDead).toBe(true);

      // Its worker comes to the other engine, and names what it holds: it has answered none of it there.
      const held = (workers[1] as AutoWorkers).dispatchesSeen.map(({ task, fence }) => ({ task, fence }));
      const worker = await west.joinWorker("w1", { slots: 300, boot: "w1-b", running: held });
      const answered = held.map((one) => worker.succeed({ out: items[Number(one.task.match(/\*(\d+)/)?.[1] ?? 0)] }, one));
      const refused = (await Promise.allSettled(answered)).filter((one) => one.status === "rejected");
      expect(refused.map(({ reason }) => (reason as { code: string }).code)).toEqual(
        refused.map(() => "E.SESSION.STALE_BINDING"),
      );
      const autoWorkers = new AutoWorkers(west, [worker], echoIndex);
      for (let look = 0; look < 40 && (await west.runDetail(run)).run.endedAt === null; look++) {
        await cluster.runWorkers([workers[0] as AutoWorkers, autoWorkers]);
        await cluster.passSeconds(1);
        for (const one of [(workers[0] as AutoWorkers).workers[0], worker]) await one?.heartbeat(null);
      }

      const { run: over, tasks } = await checkRun(west, run);
      expect(over.phase).toBe("succeeded");
      expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ items: items.map((out) => ({ out })), count: 2_000 });
      expect(tasks.filter((task) => /^0\*\d+\/0$/.test(slotOf(task)))).toHaveLength(2_000);
    },
  );
});

describe("fan-outs and given nodes", () => {
  it("[E102] a fan-out of 1,200 from a node with a preset result, with workers at both engines, is joined once", async () => {
    cluster = await PostgresEngineCluster.create(server, ["a", "b"]);
    const [first] = cluster.engines as [EngineHarness];
    const workers = await createWorkers(200);
    const width = 1_200;
    const flowSpec: FlowSpec = {
      nodes: Array.from({ length: width + 2 }, () => ({})),
      edges: Array.from({ length: width }, (_, at) => at + 1).flatMap((at) => [[0, at] as const, [at, width + 1] as const]),
    };
    const pin: PresetResult = { status: "succeeded", result: '{"out":"pinned"}', why: "pin" };

    const answer = await first.ask({
      ...(first.startCommand(buildFlow(flowSpec)) as StartRunCommand),
      presetResults: { 0: pin },
    });
    if (answer.of !== "run") throw new Error("no run");
    await cluster.runWorkers(workers);

    const { run: over, tasks } = await checkRun(first, answer.run);
    expect(over.phase).toBe("succeeded");
    expect(tasks).toHaveLength(width + 2);
    expect(workers.reduce((sum, { dispatchesSeen: seen }) => sum + seen.length, 0)).toBe(width + 1);
    expect(JSON.parse(tasksBySlot(tasks)["1"]?.params ?? "")).toEqual({ in: "pinned" });
    expect(cluster.problems).toEqual([]);
  });
});

describe("what a turn costs", () => {
  const looped = (mode: string, length: number) => {
    const items = Array.from({ length }, (_, at) => at);
    return buildFlow(sequence({ loop: { mode, items, parallelism: 100 }, body: sequence({}), inputs: [["item", 0]] }, {}));
  };

  it.for([
    ["a chain of ten", buildFlow(sequence(...Array.from({ length: 10 }, () => ({})))), 1],
    ["a map of 300 items", looped("map", 300), 4],
    ["a loop over 60 items", looped("forEach", 60), 4],
  ] as const)(
    "[E107] a turn on PostgreSQL takes two round trips, one to begin and one to commit: %s",
    async ([, workflow, extraMax]) => {
      cluster = await PostgresEngineCluster.create(server, ["a"]);
      const [harness] = cluster.engines as [EngineHarness];
      const [autoWorkers] = (await createWorkers(200)) as [AutoWorkers];
      // Routes and plans are met for the first time.
      await harness.startRun(workflow);
      await autoWorkers.answerAll();
      const before = cluster.stats(0);

      const run = await harness.startRun(workflow);
      await autoWorkers.answerAll();

      const { turns, roundTrips } = cluster.stats(0);
      expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
      expect(roundTrips - before.roundTrips - 2 * (turns - before.turns)).toBeLessThanOrEqual(extraMax);
    },
  );
});
