// Containers that fail, are tried again, run out of time or are cancelled: nothing inside stays open, and what ran is stopped.
import { describe, expect, it } from "vitest";
import { AutoWorkers, checkRun, resultOf, slotOf, tasksBySlot } from "../harness/auto-workers.ts";
import { EngineHarness, type HarnessOptions } from "../harness/engine-harness.ts";
import { buildFlow, sequence } from "../harness/flow-builder.ts";

async function startFixture(reply?: AutoWorkers["reply"], options: HarnessOptions = {}, slots = 1_000) {
  const harness = await new EngineHarness(options).start();
  const worker = await harness.joinWorker("w", { slots });
  return { world: harness, crew: worker, robot: new AutoWorkers(harness, [worker], reply) };
}

const errorOf = (text: string | null): Record<string, unknown> => JSON.parse(text ?? "{}") as Record<string, unknown>;
const retry = { maxAttempts: 3, backoffMs: 1_000, factor: 2, backoffMsMax: 10_000 };
const threeSteps = { nodes: [{}, {}, {}] };

describe("failing inside", () => {
  it("[E27] a node that fails in a container fails its iteration, cancels its open tasks, stops their workers, and the run's error names it", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(({ node }) =>
      node === "bb" ? { fail: "E.RUNNER.FAILURE" } : node === "a" ? { done: {} } : "silent",
    );
    const run = await harness.startRun(buildFlow(sequence({}, { body: threeSteps }, {})));

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    const at = tasksBySlot(tasks);
    expect(over.phase).toBe("failed");
    expect(errorOf(over.error)).toMatchObject({
      code: "E.RUNNER.FAILURE",
      details: { task: `${run}.1*0/1`, node: "bb", container: "b", frame: 0 },
    });
    expect([at["1*0/0"]?.phase, at["1*0/2"]?.phase, at["1*0"]?.phase, at["1"]?.phase]).toEqual([
      "cancelled",
      "cancelled",
      "failed",
      "failed",
    ]);
    expect(at["2"]).toBeUndefined();
    expect(harness.stopsSent().map(slotOf).sort()).toEqual(["1*0/0", "1*0/2"]);
  });

  it("[E27] the error of a run names the innermost failed node of nested containers", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => ({ fail: "E.RUNNER.FAILURE" }));
    const run = await harness.startRun(
      buildFlow(sequence({ body: sequence({ loop: { mode: "forEach", items: [1, 2] }, body: sequence({}) }) })),
    );

    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(errorOf(over.error)).toMatchObject({ details: { task: `${run}.0*0/0*0/0`, node: "aaa", container: "aa", frame: 0 } });
  });

  it("[E73] a failure inside a container leaves one dead letter: the container's once its retries are used up, the node's if it has none", async () => {
    const deadLetters = async (harness: EngineHarness) =>
      (await harness.store.page({ page: "docs", tenant: "t1", collection: "letter", limit: 10 })).items.map((doc) =>
        doc.id.slice(doc.id.lastIndexOf(".") + 1),
      );
    const tried = await startFixture(() => ({ fail: "E.RUNNER.FAILURE" }));
    await tried.world.startRun(buildFlow(sequence({ body: sequence({}), retry: { ...retry, backoffMs: 0 } })));
    await tried.robot.answerAll();
    expect(await deadLetters(tried.world)).toEqual(["0"]);

    const plain = await startFixture(() => ({ fail: "E.RUNNER.FAILURE" }));
    await plain.world.startRun(buildFlow(sequence({ body: sequence({}) })));
    await plain.robot.answerAll();
    expect(await deadLetters(plain.world)).toEqual(["0*0/0"]);
  });

  it("[E28] a map that fails for good opens no more iterations and cancels the others", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture((_, params) =>
      params["item"] === 2 ? { fail: "E.RUNNER.FAILURE" } : "silent",
    );
    const list = Array.from({ length: 100 }, (_, at) => at);
    const run = await harness.startRun(
      buildFlow(sequence({ loop: { mode: "map", items: list, parallelism: 5 }, body: sequence({}), inputs: [["item", 0]] })),
    );

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("failed");
    expect(errorOf(over.error)).toMatchObject({ details: { node: "aa", container: "a", frame: 2 } });
    expect(autoWorkers.dispatchesSeen).toHaveLength(5);
    expect(tasks.filter(({ phase }) => phase === "cancelled").map(slotOf)).toHaveLength(8);
  });

  it("[E29] an iteration with many open tasks is closed some tasks per turn; their later reports change nothing", async () => {
    const {
      world: harness,
      robot: autoWorkers,
      crew: worker,
    } = await startFixture(() => "silent", { settings: { sweepTasksMax: 20 } });
    const wide = { nodes: Array.from({ length: 150 }, () => ({})) };
    const run = await harness.startRun(
      buildFlow(sequence({ body: sequence({ body: wide }), retry: { ...retry, backoffMs: 0 } })),
    );
    await autoWorkers.answerAll();
    const [first, ...others] = autoWorkers.dispatchesSeen;

    const answers = harness.askAll([
      { ...worker.resultCommand(first as never, {}, "failed") },
      ...others.slice(100, 110).map((one) => worker.resultCommand(one, { out: 1 })),
    ]);
    await Promise.allSettled(answers);
    await autoWorkers.answerAll();

    const { tasks } = await checkRun(harness, run);
    const at = tasksBySlot(tasks);
    expect(at["0*0/0*0"]?.phase).toBe("failed");
    expect(at["0*0"]?.phase).toBe("failed");
    expect(at["0*1"]?.phase).toBe("hosting");
    expect(tasks.filter((task) => slotOf(task).startsWith("0*0/") && task.endedAt === null)).toEqual([]);
    expect(tasks.filter((task) => slotOf(task).startsWith("0*1/0*0/") && task.phase === "leased")).toHaveLength(150);
  });

  it("[E30] a node that its worker cancelled ends the container and the run as cancelled, even if the container has a retry policy", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => "cancelled");
    const run = await harness.startRun(buildFlow(sequence({ body: sequence({}), retry })));

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("cancelled");
    expect(tasksBySlot(tasks)["0"]?.phase).toBe("cancelled");
    expect(autoWorkers.dispatchesSeen).toHaveLength(1);
  });
});

describe("trying again", () => {
  it("[E31] a failed container is run again as a whole after its backoff, in a new iteration", async () => {
    let fails = 2;
    const { world: harness, robot: autoWorkers } = await startFixture(({ node }) =>
      node === "ab" && fails-- > 0 ? { fail: "E.RUNNER.FAILURE" } : { done: { out: node } },
    );
    const run = await harness.startRun(buildFlow(sequence({ body: sequence({}, {}), retry }, {})));

    await autoWorkers.answerAll();
    expect(autoWorkers.dispatchCounts).toEqual({ aa: 1, ab: 1 });
    await harness.advance(1_000);
    await autoWorkers.answerAll();
    expect(autoWorkers.dispatchCounts).toEqual({ aa: 2, ab: 2 });
    await harness.advance(1_999);
    await autoWorkers.answerAll();
    expect(autoWorkers.dispatchCounts).toEqual({ aa: 2, ab: 2 });
    await harness.advance(1);
    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(autoWorkers.dispatchCounts).toEqual({ aa: 3, ab: 3, b: 1 });
    expect(["0*0", "0*1", "0*2"].map((name) => tasksBySlot(tasks)[name]?.phase)).toEqual(["failed", "failed", "succeeded"]);
    expect(await harness.facts("t1", `run/${run}`)).toContain("task.retrying");
  });

  it.each([
    ["the lowest random number makes every pause a fifth shorter, also at the limit", 0, [800, 1_600, 3_200, 4_000]],
    ["the highest makes it a fifth longer, also beyond the limit", 1 - Number.EPSILON, [1_200, 2_400, 4_800, 6_000]],
    ["one between lies between", 0.25, [900, 1_800, 3_600, 4_500]],
  ])("[E31] the pause before a container is run again has a fifth of jitter: %s", async (_, random, expected) => {
    const failing = (): { fail: string } => ({ fail: "E.RUNNER.FAILURE" });
    const { world: harness, robot: autoWorkers } = await startFixture(failing, { random: () => random });
    const policy = { maxAttempts: 5, backoffMs: 1_000, factor: 2, backoffMsMax: 5_000 };
    await harness.startRun(buildFlow(sequence({ body: sequence({}), retry: policy })));

    for (const pause of expected) {
      await autoWorkers.answerAll();
      await harness.advance(pause);
    }
    await autoWorkers.answerAll();

    const page = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000 });
    expect(page.items.filter(({ type }) => type === "task.retrying").map(({ data }) => data["delayMs"])).toEqual(expected);
    expect(autoWorkers.dispatchesSeen).toHaveLength(5);
  });

  it("[E31] a container fails once its attempts are used up", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => ({ fail: "E.RUNNER.FAILURE" }));
    const run = await harness.startRun(buildFlow(sequence({ body: sequence({}), retry: { ...retry, backoffMs: 0 } })));

    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(over.phase).toBe("failed");
    expect(autoWorkers.dispatchesSeen).toHaveLength(3);
  });

  it.for(["forEach", "map"] as const)("[E32] a %s retries only the failed iteration and keeps results in order", async (mode) => {
    const tries: Record<number, number> = {};
    const { world: harness, robot: autoWorkers } = await startFixture((_, params) => {
      const item = Number(params["item"]);
      tries[item] = (tries[item] ?? 0) + 1;
      return item % 3 === 1 && (tries[item] as number) < 3 ? { fail: "E.RUNNER.FAILURE" } : { done: { out: item } };
    });
    const list = Array.from({ length: 9 }, (_, at) => at);
    const run = await harness.startRun(
      buildFlow(
        sequence({
          loop: { mode, items: list, ...(mode === "map" && { parallelism: 4 }) },
          retry,
          body: sequence({}),
          inputs: [["item", 0]],
        }),
      ),
    );

    for (let look = 0; look < 40; look++) {
      await autoWorkers.answerAll();
      await harness.advance(500);
    }

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ items: list.map((out) => ({ out })), count: 9 });
    expect(tries).toEqual({ 0: 1, 1: 3, 2: 1, 3: 1, 4: 3, 5: 1, 6: 1, 7: 3, 8: 1 });
  });
});

describe("time limits and cancelling", () => {
  it("[E33] a container that exceeds its time limit fails with E.TIMEOUT and its node id, and its running tasks are stopped", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => "silent");
    const run = await harness.startRun(buildFlow(sequence({ body: sequence({ body: sequence({}) }), timeoutSeconds: 5, retry })));

    await autoWorkers.answerAll();
    await harness.advance(4_999);
    expect((await checkRun(harness, run)).run.phase).toBe("running");
    await harness.advance(1);

    const { run: over } = await checkRun(harness, run);
    expect(over.phase).toBe("failed");
    expect(errorOf(over.error)).toMatchObject({ code: "E.TIMEOUT", details: { node: "a", task: `${run}.0` } });
    expect(harness.stopsSent().map(slotOf)).toEqual(["0*0/0*0/0"]);
  });

  it("[E33] a timeout of an inner container does not end the outer container that retries", async () => {
    let isSlow = true;
    const { world: harness, robot: autoWorkers } = await startFixture(() => (isSlow ? "silent" : { done: { out: 1 } }));
    const run = await harness.startRun(
      buildFlow(sequence({ body: sequence({ body: sequence({}), timeoutSeconds: 2 }), retry, timeoutSeconds: 60 })),
    );

    await autoWorkers.answerAll();
    await harness.advance(2_000);
    isSlow = false;
    await harness.advance(1_000);
    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
  });

  it("[E34] cancelling a run, or exceeding its time limit, ends every iteration and container in it", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => "silent", { settings: { sweepTasksMax: 7 } });
    const map = { loop: { mode: "map", items: [1, 2, 3, 4, 5, 6], parallelism: 4 }, body: sequence({ body: threeSteps }) };
    const [one, other] = [
      await harness.startRun(buildFlow(sequence(map))),
      await harness.startRun(buildFlow(sequence(map)), { timeoutMs: 9_000 }),
    ];
    await autoWorkers.answerAll();

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run: one, reason: "enough" });
    await harness.settle();
    expect((await checkRun(harness, one)).run.phase).toBe("cancelled");
    await harness.advance(9_000);

    const { run: over, tasks } = await checkRun(harness, other);
    expect(over.phase).toBe("failed");
    expect(errorOf(over.error)).toMatchObject({ code: "E.TIMEOUT" });
    expect(tasks.filter((task) => task.endedAt === null)).toEqual([]);
    expect(harness.stopsSent()).toHaveLength(24);
  });
});
