// Containers that fail, are tried again, run out of time or are cancelled: nothing inside stays open, and what ran is told to stop.
import { describe, expect, it } from "vitest";
import { flow, row } from "./flow-graph.ts";
import { bySlot, checkRun, Robot, resultOf, slot } from "./flow-robot.ts";
import { Harness, type Options } from "./harness.ts";

async function scene(reply?: Robot["reply"], options: Options = {}, slots = 1_000) {
  const world = await new Harness(options).start();
  const crew = await world.join("w", { slots });
  return { world, crew, robot: new Robot(world, [crew], reply) };
}

const errorOf = (text: string | null): Record<string, unknown> => JSON.parse(text ?? "{}") as Record<string, unknown>;
const retry = { maxAttempts: 3, backoffMs: 1_000, factor: 2, backoffMsMax: 10_000 };
const three = { nodes: [{}, {}, {}] };

describe("failing inside", () => {
  it("[E27] fails the frame, cancels what is open in it, stops its workers, and fails the run with where it happened", async () => {
    const { world, robot } = await scene(({ node }) =>
      node === "bb" ? { fail: "E.RUNNER.FAILURE" } : node === "a" ? { done: {} } : "silent",
    );
    const run = await world.run(flow(row({}, { body: three }, {})));

    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    const at = bySlot(tasks);
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
    expect(world.stops().map(slot).sort()).toEqual(["1*0/0", "1*0/2"]);
  });

  it("[E27] names the innermost node through every container around it", async () => {
    const { world, robot } = await scene(() => ({ fail: "E.RUNNER.FAILURE" }));
    const run = await world.run(flow(row({ body: row({ loop: { mode: "forEach", items: [1, 2] }, body: row({}) }) })));

    await robot.work();

    const { run: over } = await checkRun(world, run);
    expect(errorOf(over.error)).toMatchObject({ details: { task: `${run}.0*0/0*0/0`, node: "aaa", container: "aa", frame: 0 } });
  });

  it("[E73] leaves one letter of what failed for good: none for a try that was made again, none where a caller may make good of it", async () => {
    const letters = async (world: Harness) =>
      (await world.store.page({ page: "docs", tenant: "t1", collection: "letter", limit: 10 })).items.map((doc) =>
        doc.id.slice(doc.id.lastIndexOf(".") + 1),
      );
    const tried = await scene(() => ({ fail: "E.RUNNER.FAILURE" }));
    await tried.world.run(flow(row({ body: row({}), retry: { ...retry, backoffMs: 0 } })));
    await tried.robot.work();
    expect(await letters(tried.world)).toEqual(["0"]);

    const plain = await scene(() => ({ fail: "E.RUNNER.FAILURE" }));
    await plain.world.run(flow(row({ body: row({}) })));
    await plain.robot.work();
    expect(await letters(plain.world)).toEqual(["0*0/0"]);
  });

  it("[E28] a map that fails for good opens no more frames and cancels the others", async () => {
    const { world, robot } = await scene((_, params) => (params["item"] === 2 ? { fail: "E.RUNNER.FAILURE" } : "silent"));
    const list = Array.from({ length: 100 }, (_, at) => at);
    const run = await world.run(
      flow(row({ loop: { mode: "map", items: list, parallelism: 5 }, body: row({}), inputs: [["item", 0]] })),
    );

    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    expect(over.phase).toBe("failed");
    expect(errorOf(over.error)).toMatchObject({ details: { node: "aa", container: "a", frame: 2 } });
    expect(robot.seen).toHaveLength(5);
    expect(tasks.filter(({ phase }) => phase === "cancelled").map(slot)).toHaveLength(8);
  });

  it("[E29] ends a frame of many open tasks some a turn; what they still say changes nothing", async () => {
    const { world, robot, crew } = await scene(() => "silent", { settings: { sweepTasksMax: 20 } });
    const wide = { nodes: Array.from({ length: 150 }, () => ({})) };
    const run = await world.run(flow(row({ body: row({ body: wide }), retry: { ...retry, backoffMs: 0 } })));
    await robot.work();
    const [first, ...others] = robot.seen;

    const answers = world.askAll([
      { ...crew.resultCommand(first as never, {}, "failed") },
      ...others.slice(100, 110).map((one) => crew.resultCommand(one, { out: 1 })),
    ]);
    await Promise.allSettled(answers);
    await robot.work();

    const { tasks } = await checkRun(world, run);
    const at = bySlot(tasks);
    expect(at["0*0/0*0"]?.phase).toBe("failed");
    expect(at["0*0"]?.phase).toBe("failed");
    expect(at["0*1"]?.phase).toBe("hosting");
    expect(tasks.filter((task) => slot(task).startsWith("0*0/") && task.endedAt === null)).toEqual([]);
    expect(tasks.filter((task) => slot(task).startsWith("0*1/0*0/") && task.phase === "leased")).toHaveLength(150);
  });

  it("[E30] a node that its worker cancelled ends the container and the run as cancelled, whatever the retry says", async () => {
    const { world, robot } = await scene(() => "cancelled");
    const run = await world.run(flow(row({ body: row({}), retry })));

    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    expect(over.phase).toBe("cancelled");
    expect(bySlot(tasks)["0"]?.phase).toBe("cancelled");
    expect(robot.seen).toHaveLength(1);
  });
});

describe("trying again", () => {
  it("[E31] runs the whole container again after its backoff, in a new frame", async () => {
    let fails = 2;
    const { world, robot } = await scene(({ node }) =>
      node === "ab" && fails-- > 0 ? { fail: "E.RUNNER.FAILURE" } : { done: { out: node } },
    );
    const run = await world.run(flow(row({ body: row({}, {}), retry }, {})));

    await robot.work();
    expect(robot.counts).toEqual({ aa: 1, ab: 1 });
    await world.advance(1_000);
    await robot.work();
    expect(robot.counts).toEqual({ aa: 2, ab: 2 });
    await world.advance(1_999);
    await robot.work();
    expect(robot.counts).toEqual({ aa: 2, ab: 2 });
    await world.advance(1);
    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    expect(over.phase).toBe("succeeded");
    expect(robot.counts).toEqual({ aa: 3, ab: 3, b: 1 });
    expect(["0*0", "0*1", "0*2"].map((name) => bySlot(tasks)[name]?.phase)).toEqual(["failed", "failed", "succeeded"]);
    expect(await world.facts("t1", `run/${run}`)).toContain("task.retrying");
  });

  it("[E31] fails with the last error once its tries are used up", async () => {
    const { world, robot } = await scene(() => ({ fail: "E.RUNNER.FAILURE" }));
    const run = await world.run(flow(row({ body: row({}), retry: { ...retry, backoffMs: 0 } })));

    await robot.work();

    const { run: over } = await checkRun(world, run);
    expect(over.phase).toBe("failed");
    expect(robot.seen).toHaveLength(3);
  });

  it.for(["forEach", "map"] as const)(
    "[E32] of a %s tries only the iteration that failed again, and keeps the order of results",
    async (mode) => {
      const tries: Record<number, number> = {};
      const { world, robot } = await scene((_, params) => {
        const item = Number(params["item"]);
        tries[item] = (tries[item] ?? 0) + 1;
        return item % 3 === 1 && (tries[item] as number) < 3 ? { fail: "E.RUNNER.FAILURE" } : { done: { out: item } };
      });
      const list = Array.from({ length: 9 }, (_, at) => at);
      const run = await world.run(
        flow(
          row({
            loop: { mode, items: list, ...(mode === "map" && { parallelism: 4 }) },
            retry,
            body: row({}),
            inputs: [["item", 0]],
          }),
        ),
      );

      for (let look = 0; look < 40; look++) {
        await robot.work();
        await world.advance(500);
      }

      const { run: over, tasks } = await checkRun(world, run);
      expect(over.phase).toBe("succeeded");
      expect(resultOf(bySlot(tasks)["0"])).toEqual({ items: list.map((out) => ({ out })), count: 9 });
      expect(tries).toEqual({ 0: 1, 1: 3, 2: 1, 3: 1, 4: 3, 5: 1, 6: 1, 7: 3, 8: 1 });
    },
  );
});

describe("time limits and cancelling", () => {
  it("[E33] a container that outlives its time fails with E.TIMEOUT and its name; what it runs is stopped", async () => {
    const { world, robot } = await scene(() => "silent");
    const run = await world.run(flow(row({ body: row({ body: row({}) }), timeoutSeconds: 5, retry })));

    await robot.work();
    await world.advance(4_999);
    expect((await checkRun(world, run)).run.phase).toBe("running");
    await world.advance(1);

    const { run: over } = await checkRun(world, run);
    expect(over.phase).toBe("failed");
    expect(errorOf(over.error)).toMatchObject({ code: "E.TIMEOUT", details: { node: "a", task: `${run}.0` } });
    expect(world.stops().map(slot)).toEqual(["0*0/0*0/0"]);
  });

  it("[E33] an inner container's time does not end the outer one that tries again", async () => {
    let isSlow = true;
    const { world, robot } = await scene(() => (isSlow ? "silent" : { done: { out: 1 } }));
    const run = await world.run(flow(row({ body: row({ body: row({}), timeoutSeconds: 2 }), retry, timeoutSeconds: 60 })));

    await robot.work();
    await world.advance(2_000);
    isSlow = false;
    await world.advance(1_000);
    await robot.work();

    const { run: over } = await checkRun(world, run);
    expect(over.phase).toBe("succeeded");
  });

  it("[E34] cancelling a run, and its own time limit, end every frame and container in it", async () => {
    const { world, robot } = await scene(() => "silent", { settings: { sweepTasksMax: 7 } });
    const map = { loop: { mode: "map", items: [1, 2, 3, 4, 5, 6], parallelism: 4 }, body: row({ body: three }) };
    const [one, other] = [await world.run(flow(row(map))), await world.run(flow(row(map)), { timeoutMs: 9_000 })];
    await robot.work();

    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run: one, reason: "enough" });
    await world.settle();
    expect((await checkRun(world, one)).run.phase).toBe("cancelled");
    await world.advance(9_000);

    const { run: over, tasks } = await checkRun(world, other);
    expect(over.phase).toBe("failed");
    expect(errorOf(over.error)).toMatchObject({ code: "E.TIMEOUT" });
    expect(tasks.filter((task) => task.endedAt === null)).toEqual([]);
    expect(world.stops()).toHaveLength(24);
  });
});
