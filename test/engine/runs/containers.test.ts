// Containers through the real driver: one frame, lists, loops, nesting, tries, time limits.
import { describe, expect, it } from "vitest";
import { type AutoReply, AutoWorkers, checkRun, resultOf, slotOf, tasksBySlot } from "../harness/auto-workers.ts";
import { EngineHarness, type HarnessOptions } from "../harness/engine-harness.ts";
import { buildFlow, sequence } from "../harness/flow-builder.ts";

async function startFixture(reply?: AutoWorkers["reply"], options: HarnessOptions = {}, slots = 1_000) {
  const harness = await new EngineHarness(options).start();
  const worker = await harness.joinWorker("w", { slots });
  return { world: harness, crew: worker, robot: new AutoWorkers(harness, [worker], reply) };
}

/** Answers with what came in, so that values can be followed. */
const echoParameters: AutoWorkers["reply"] = (dispatch, params): AutoReply => ({
  done: {
    out: `${dispatch.node}(${Object.values(params)
      .map((value) => JSON.stringify(value))
      .join(",")})`,
  },
});

describe("a container without a loop", () => {
  it("[E18] a container without a loop runs its body once with its inputs and returns the outputs it declares", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(echoParameters);
    const run = await harness.startRun(
      buildFlow(
        sequence(
          {},
          {
            params: { greeting: "hi" },
            body: sequence({}, {}),
            inputs: [
              ["parameters.greeting", 0],
              ["parameters.in", 0],
            ],
          },
          {},
        ),
      ),
    );

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    const at = tasksBySlot(tasks);
    expect(over.phase).toBe("succeeded");
    expect(autoWorkers.dispatchCounts).toEqual({ a: 1, ba: 1, bb: 1, c: 1 });
    expect(resultOf(at["1"])).toEqual({ out: 'bb("ba(\\"hi\\",\\"a()\\")")' });
    expect(JSON.parse(at["2"]?.params ?? "")).toEqual({ in: 'bb("ba(\\"hi\\",\\"a()\\")")' });
    expect(at["1*0"]).toMatchObject({ phase: "succeeded", needs: 0 });
    expect(resultOf(at["1*0"])).toEqual(resultOf(at["1"]));
  });

  it("[E18] the log records the opening, the tasks and the end of a container in order", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture();
    const run = await harness.startRun(buildFlow(sequence({ body: sequence({}) })));

    await autoWorkers.answerAll();

    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, subject: `run/${run}` });
    const facts = items.filter(({ type }) => !["task.ready", "task.granted", "run.started"].includes(type));
    expect(facts.map(({ type, data }) => [type, String(data["task"] ?? "").slice(run.length + 1)])).toEqual([
      ["run.created", ""],
      ["task.hosting", "0"],
      ["frame.opened", "0*0"],
      ["task.succeeded", "0*0/0"],
      ["frame.ended", "0*0"],
      ["task.succeeded", "0"],
      ["run.succeeded", ""],
    ]);
  });

  it("[E19] containers can be nested many levels deep", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(echoParameters);
    let flowSpec = sequence({}, {});
    for (let depth = 0; depth < 8; depth++) flowSpec = sequence({ body: flowSpec });
    const run = await harness.startRun(buildFlow(flowSpec));

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(autoWorkers.dispatchesSeen).toHaveLength(2);
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ out: 'aaaaaaaab("aaaaaaaaa()")' });
  });

  it("[E20] a container with an empty body or an empty list succeeds at once", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(echoParameters);
    const none = { nodes: [] };
    const empty = { loop: { mode: "map", items: [] }, body: sequence({}) };
    const run = await harness.startRun(
      buildFlow(sequence({ body: none }, empty, { ...empty, loop: { mode: "forEach", items: [] } }, {})),
    );

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(autoWorkers.dispatchCounts).toEqual({ d: 1 });
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({});
    expect(resultOf(tasksBySlot(tasks)["2"])).toEqual({ items: [], count: 0 });
  });
});

describe("loops", () => {
  it("[E21] a forEach loop runs its items one after the other, each with its item, its index and the previous outputs", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture((_, params) => ({
      done: { out: Number(params["item"]) + ((params["last"] as { out?: number })?.out ?? 0) },
    }));
    const body = sequence({});
    const run = await harness.startRun(
      buildFlow(
        sequence({
          params: { list: [1, 2, 3, 4] },
          loop: { mode: "forEach", items: "parameters.list" },
          body,
          inputs: [
            ["item", 0],
            ["index", 0],
            ["last", 0],
          ],
        }),
      ),
    );

    await autoWorkers.answerAll();

    const { tasks } = await checkRun(harness, run);
    expect(autoWorkers.dispatchesSeen.map((one) => JSON.parse(one.params))).toMatchObject([
      { item: 1, index: 0 },
      { item: 2, index: 1 },
      { item: 3, index: 2 },
      { item: 4, index: 3 },
    ]);
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ items: [{ out: 1 }, { out: 3 }, { out: 6 }, { out: 10 }], count: 4 });
  });

  it("[E22] a while loop runs as long as its condition holds for the last outputs", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture((_, params) => ({
      done: { out: Number(params["index"]) + 1 },
    }));
    const run = await harness.startRun(
      buildFlow(
        sequence(
          { loop: { mode: "while", condition: { path: "out", op: "lt", value: 4 } }, body: sequence({}), inputs: [["index", 0]] },
          {},
        ),
      ),
    );

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ out: 4, iterations: 4 });
    expect(autoWorkers.dispatchCounts).toEqual({ aa: 4, b: 1 });
  });

  it("[E22] a while loop that exceeds its maximum of iterations fails with E.CONTAINER.ITERATIONS", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => ({ done: { out: true } }));
    const run = await harness.startRun(
      buildFlow(sequence({ loop: { mode: "while", condition: "out", maxIterations: 3 }, body: sequence({}) })),
    );

    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(over.phase).toBe("failed");
    expect(JSON.parse(over.error ?? "")).toMatchObject({ code: "E.CONTAINER.ITERATIONS", details: { node: "a" } });
    expect(autoWorkers.dispatchesSeen).toHaveLength(3);
  });

  it("[E23] a map keeps at most `parallelism` iterations open and returns its results in the order of its list", async () => {
    let open = 0;
    let most = 0;
    const { world: harness, robot: autoWorkers, crew: worker } = await startFixture(() => "silent");
    const list = Array.from({ length: 23 }, (_, at) => at);
    const run = await harness.startRun(
      buildFlow(sequence({ loop: { mode: "map", items: list, parallelism: 5 }, body: sequence({}), inputs: [["item", 0]] })),
    );

    for (let answered = 0; answered < list.length; answered++) {
      await autoWorkers.answerAll();
      open = autoWorkers.dispatchesSeen.length - answered;
      most = Math.max(most, open);
      // The last of those that are open answers first.
      const waiting = autoWorkers.dispatchesSeen.filter((one) => !one.node.startsWith("-"));
      const next = waiting.at(-1) as (typeof waiting)[number];
      autoWorkers.dispatchesSeen.splice(autoWorkers.dispatchesSeen.indexOf(next), 1, { ...next, node: `-${next.node}` });
      await worker.succeed({ out: JSON.parse(next.params)["item"] * 2 }, next);
    }

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(most).toBe(5);
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ items: list.map((item) => ({ out: item * 2 })), count: 23 });
  });

  it("[E23] a map's results are in the order of its list when an iteration is retried after all later ones have succeeded", async () => {
    const failed = new Set<number>();
    const { world: harness, robot: autoWorkers } = await startFixture((_, params) => {
      const item = Number(params["item"]);
      if (item % 3 !== 1 || failed.has(item)) return { done: { out: item } };
      failed.add(item);
      return { fail: "E.RUNNER.FAILURE" };
    });
    const list = Array.from({ length: 9 }, (_, at) => at);
    const loop = { mode: "map", items: list, parallelism: 9 };
    const retry = { maxAttempts: 2, backoffMs: 1_000 };
    const run = await harness.startRun(buildFlow(sequence({ loop, retry, body: sequence({}), inputs: [["item", 0]] })));

    await autoWorkers.answerAll();
    await harness.advance(1_000);
    await autoWorkers.answerAll();

    const { tasks } = await checkRun(harness, run);
    expect([...failed]).toEqual([1, 4, 7]);
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ items: list.map((out) => ({ out })), count: 9 });
  });

  it("[E24] a loop whose items are not a list fails and names the field", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture();
    const run = await harness.startRun(
      buildFlow(sequence({ loop: { mode: "map", items: "parameters.list" }, body: sequence({}) })),
    );

    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(over.phase).toBe("failed");
    expect(JSON.parse(over.error ?? "")).toMatchObject({ code: "E.PARAMS.INVALID", details: { node: "a" } });
    expect(over.error).toContain("parameters.list");
  });
});

describe("maps larger than a turn", () => {
  it("[E25] a map larger than a turn opens and gathers a bounded number of iterations per turn, whatever the size of its list", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(
      (_, params) => ({ done: { out: params["item"] } }),
      { settings: { sweepTasksMax: 50 } },
      10_000,
    );
    const list = Array.from({ length: 400 }, (_, at) => at);
    const run = await harness.startRun(
      buildFlow(
        sequence({ loop: { mode: "map", items: list, parallelism: 400 }, body: sequence({}), inputs: [["item", 0]] }, {}),
      ),
    );

    const { tasks: early } = await harness.runDetail(run);
    expect(early.length).toBeLessThanOrEqual(51 + 50);
    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ items: list.map((out) => ({ out })), count: 400 });
    expect(autoWorkers.dispatchCounts).toEqual({ aa: 400, b: 1 });
  });

  it("[E26] a map whose result exceeds 2 MiB fails with E.RESULT.TOO_LARGE", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => ({ done: { out: "x".repeat(100_000) } }));
    const list = Array.from({ length: 25 }, (_, at) => at);
    const run = await harness.startRun(buildFlow(sequence({ loop: { mode: "map", items: list }, body: sequence({}) })));

    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(JSON.parse(over.error ?? "")).toMatchObject({ code: "E.RESULT.TOO_LARGE", details: { node: "a" } });
  });

  it("[E25] a map of 2,000 items continues after engine restarts in the middle, and loses or duplicates nothing", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(
      (_, params) => ({ done: { out: params["item"] } }),
      { settings: { sweepTasksMax: 100 } },
      300,
    );
    const list = Array.from({ length: 2_000 }, (_, at) => at);
    const run = await harness.startRun(
      buildFlow(
        sequence({ loop: { mode: "map", items: list, parallelism: 1_000 }, body: sequence({}), inputs: [["item", 0]] }, {}),
      ),
    );
    let last = { world: harness, robot: autoWorkers };
    let seen = 0;
    const sizes: number[] = [];

    for (let life = 0; life < 6; life++) {
      // No turn begins after this one: what the next life finds is what was on disk between two turns.
      await last.world.engine.stop();
      sizes.push((await last.world.runDetail(run)).tasks.length);
      const next = new EngineHarness({ store: last.world.store, settings: { sweepTasksMax: 100 } });
      next.now = last.world.now + 40_000;
      harness.now = next.now;
      await next.start();
      last = {
        world: next,
        robot: new AutoWorkers(next, [await next.joinWorker("w", { slots: 300, boot: `life-${life}` })], autoWorkers.reply),
      };
      await last.robot.answerAll(250);
      seen += last.robot.dispatchesSeen.length;
    }
    await last.robot.answerAll();

    const { run: over, tasks } = await checkRun(last.world, run);
    expect(over.phase).toBe("succeeded");
    expect(resultOf(tasksBySlot(tasks)["0"])).toEqual({ items: list.map((out) => ({ out })), count: 2_000 });
    expect(tasks.filter((task) => /^0\*\d+\/0$/.test(slotOf(task)))).toHaveLength(2_000);
    expect(sizes[0]).toBeLessThan(202);
    expect(sizes.at(2)).toBeLessThan(4_000);
    expect(seen).toBeGreaterThan(1_000);
  });
});
