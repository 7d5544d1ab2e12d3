// Fan-outs larger than a turn, and runs some of whose nodes are given with the start.
import { type PresetResult, type StartRun } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { flow, row, type Shape } from "./flow-graph.ts";
import { bySlot, checkRun, type Dispatch, Robot, resultOf } from "./flow-robot.ts";
import { Harness, type Options } from "./harness.ts";

async function scene(reply?: Robot["reply"], options: Options = {}, slots = 10_000) {
  const world = await new Harness(options).start();
  const crew = await world.join("w", { slots });
  return { world, crew, robot: new Robot(world, [crew], reply) };
}

/** One node, `width` behind it, one that joins them. */
const diamond = (width: number): Shape => ({
  nodes: Array.from({ length: width + 2 }, () => ({})),
  edges: Array.from({ length: width }, (_, at) => at + 1).flatMap((at) => [[0, at] as const, [at, width + 1] as const]),
});

/** One node and `width` behind it. */
const star = (width: number): Shape => ({
  nodes: Array.from({ length: width + 1 }, () => ({})),
  edges: Array.from({ length: width }, (_, at) => [0, at + 1] as const),
});

describe("fan-outs larger than a turn", () => {
  it("[E35] reaches some successors a turn, loses none, and joins them all", async () => {
    const { world, crew, robot } = await scene(() => ({ done: { out: 1 } }), { settings: { sweepTasksMax: 100 } });
    const run = await world.run(flow(diamond(730)));
    await world.settle();

    await crew.done({ out: 1 });
    const { tasks: early } = await world.detail(run);
    expect(early.length).toBeLessThanOrEqual(102);
    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    expect(over).toMatchObject({ phase: "succeeded", cursor: null });
    expect(tasks).toHaveLength(732);
    // The first was answered above; it is seen and answered once more, which changes nothing.
    expect(robot.seen).toHaveLength(732);
  });

  it("[E35] reads the joins of a fan-out, and the frames of a list, together where the store is far away", async () => {
    const { world, robot } = await scene(() => ({ done: { out: 1 } }), { cluster: { mode: "weak" } });
    const joins = Array.from({ length: 300 }, (_, at) => at + 2);
    const wide = {
      nodes: Array.from({ length: 302 }, () => ({})),
      edges: joins.flatMap((at) => [[0, at] as const, [1, at] as const]),
    };
    const items = joins.map(() => 0);
    const run = await world.run(flow(row({ body: wide }, { loop: { mode: "map", items }, body: row({}) })));

    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    expect(over.phase).toBe("succeeded");
    expect(tasks).toHaveLength(1 + 1 + 302 + 1 + 2 * 300);
  });

  it("[E35] reads what the joins of a fan-out wait for together too", async () => {
    const { world, robot, crew } = await scene(({ node }) => (node === "a" ? "silent" : { done: { out: node } }), {
      cluster: { mode: "weak" },
    });
    // The first node completes 250 joins, each of which waits for another node too.
    const others = Array.from({ length: 250 }, (_, at) => at + 1);
    const edges = others.flatMap((at) => [[0, at + 250] as const, [at, at + 250] as const]);
    const run = await world.run(flow({ nodes: Array.from({ length: 501 }, () => ({})), edges }));
    await robot.work();
    const first = robot.seen.find(({ node }) => node === "a") as Dispatch;

    await crew.done({ out: "first" }, first);
    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    expect(over.phase).toBe("succeeded");
    expect(JSON.parse(bySlot(tasks)["251"]?.params ?? "")).toEqual({ in0: "first", in1: "b" });
  });

  it("[E35] begins a run of many starts over several turns, and goes on after a restart between them", async () => {
    const options = { settings: { sweepTasksMax: 100 } };
    const { world } = await scene(undefined, options);
    const run = await world.run(flow({ nodes: Array.from({ length: 950 }, () => ({})) }));
    await world.engine.stop();
    expect((await world.detail(run)).tasks.length).toBeLessThan(300);

    const next = new Harness({ store: world.store, ...options });
    next.now = world.now + 40_000;
    world.now = next.now;
    await next.start();
    const robot = new Robot(next, [await next.join("w", { slots: 1_000, boot: "b2" })]);
    await robot.work();

    const { run: over, tasks } = await checkRun(next, run);
    expect(over.phase).toBe("succeeded");
    expect(tasks).toHaveLength(950);
    expect(robot.seen).toHaveLength(950);
  });

  it.for([star(21), row({ body: star(21) })])(
    "[E35] is not over while a fan-out is under way, however quickly its first part ends",
    async (shape) => {
      const { world, crew } = await scene(undefined, { settings: { sweepTasksMax: 3 } });
      const hear = world.effects.push.bind(world.effects);
      const answers: Promise<unknown>[] = [];
      // Answered in the very moment of the dispatch: the next turn finds the answers before it goes on with the fan-out.
      world.effects.push = (...effects) => {
        const sent = effects.filter((effect) => effect.type === "dispatch");
        answers.push(...world.askAll(sent.map(({ dispatch }) => crew.resultCommand(dispatch, {}))));
        return hear(...effects);
      };

      const run = await world.run(flow(shape));
      await world.settle();
      await Promise.all(answers);

      const { run: over } = await checkRun(world, run);
      expect(over.phase).toBe("succeeded");
      expect(answers).toHaveLength(22);
    },
  );

  it("[E35] spreads the same way inside a frame", async () => {
    const { world, robot } = await scene(undefined, { settings: { sweepTasksMax: 30 } });
    const run = await world.run(flow(row({ body: diamond(250) }, {})));

    await robot.work();

    const { run: over } = await checkRun(world, run);
    expect(over.phase).toBe("succeeded");
    expect(robot.seen).toHaveLength(253);
  });

  it("[E36] keeps the time limit of a run whose fan-out is under way", async () => {
    const { world, robot } = await scene(() => "silent", { settings: { sweepTasksMax: 50 } });
    const run = await world.run(flow({ nodes: Array.from({ length: 400 }, () => ({})) }), { timeoutMs: 5_000 });
    expect((await world.detail(run)).run.due).toBeLessThan(world.now + 5_000);

    await robot.work();
    expect((await checkRun(world, run)).run).toMatchObject({ phase: "running", due: world.now + 5_000, cursor: null, open: 400 });
    await world.advance(5_000);

    expect((await checkRun(world, run)).run.phase).toBe("failed");
  });

  it("[E36] a run that is cancelled in the middle of a fan-out ends, and no more is born", async () => {
    const { world, robot } = await scene(() => "silent", { settings: { sweepTasksMax: 50 } });
    const [started, cancelled] = world.askAll([
      world.order(flow({ nodes: Array.from({ length: 400 }, () => ({})) })),
      world.order(flow(row({}))),
    ]);
    const run = (await started) as { run: string };
    await cancelled;

    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run: run.run, reason: "enough" });
    await robot.work();

    const { run: over, tasks } = await checkRun(world, run.run);
    expect(over.phase).toBe("cancelled");
    expect(tasks.length).toBeLessThan(400);
  });
});

describe("nodes that are given", () => {
  const start = async (world: Harness, shape: Shape, given: Record<number, PresetResult>, more: Partial<StartRun> = {}) => {
    const answer = await world.ask({ ...(world.order(flow(shape)) as StartRun), presetResults: given, ...more });
    if (answer.of !== "run") throw new Error("no run");
    return answer.run;
  };
  const pin = (out: unknown): PresetResult => ({ status: "succeeded", result: JSON.stringify({ out }), why: "pin" });
  const excluded: PresetResult = { status: "skipped", result: "{}", why: "excluded" };

  it("[E37] are not run: what follows gets their results, with why in the row", async () => {
    const { world, robot } = await scene();
    const run = await start(world, row({}, {}, {}, {}), {
      0: pin("A"),
      1: { ...pin("B"), params: '{"in":"A"}', why: "reuse" },
      3: excluded,
    });

    await robot.work();

    const { run: over, tasks } = await checkRun(world, run);
    const at = bySlot(tasks);
    expect(over.phase).toBe("succeeded");
    expect(robot.counts).toEqual({ c: 1 });
    expect(JSON.parse(at["2"]?.params ?? "")).toEqual({ in: "B" });
    expect([0, 1, 3].map((n) => JSON.parse(at[n]?.state ?? "{}").why)).toEqual(["pin", "reuse", "excluded"]);
    expect(at["1"]).toMatchObject({ phase: "succeeded", params: '{"in":"A"}', attempt: 0 });
    expect(at["3"]?.phase).toBe("skipped");
  });

  it("[E37] count as arrived at a join that waits for others too", async () => {
    const { world, robot } = await scene(() => ({ done: { out: "ran" } }));
    const shape: Shape = {
      nodes: [{}, {}, {}, {}],
      edges: [
        [0, 3],
        [1, 3],
        [2, 3],
      ],
    };
    const run = await start(world, shape, { 0: pin("zero"), 2: excluded });
    expect(bySlot((await world.detail(run)).tasks)["3"]).toMatchObject({ phase: "waiting", needs: 1 });

    await robot.work();

    const { tasks } = await checkRun(world, run);
    expect(JSON.parse(bySlot(tasks)["3"]?.params ?? "")).toEqual({ in0: "zero", in1: "ran" });
    expect(robot.counts).toEqual({ b: 1, d: 1 });
  });

  it("[E37] may be all: the run succeeds at once", async () => {
    const { world } = await scene();
    const run = await start(
      world,
      row({}, { body: row({}) }),
      { 0: pin(1), 1: pin(2) },
      { label: "replay", source: "wf-1", about: '{"by":"me"}' },
    );

    const { run: over, tasks } = await checkRun(world, run);
    expect(over).toMatchObject({ phase: "succeeded", label: "replay", source: "wf-1", about: '{"by":"me"}' });
    expect(tasks).toHaveLength(2);
    expect(resultOf(bySlot(tasks)["1"])).toEqual({ out: 2 });
  });

  it("[E37] leave a fan-out larger than a turn as it is", async () => {
    const { world, robot } = await scene(undefined, { settings: { sweepTasksMax: 40 } });
    const run = await start(world, diamond(300), { 0: pin("zero") });

    await robot.work();

    const { run: over } = await checkRun(world, run);
    expect(over.phase).toBe("succeeded");
    expect(robot.seen).toHaveLength(301);
  });
});
