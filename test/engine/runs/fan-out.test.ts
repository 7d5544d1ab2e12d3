// Fan-outs larger than a turn, and runs some of whose nodes are given with the start.
import { type PresetResult, type StartRunCommand } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { AutoWorkers, checkRun, type Dispatch, resultOf, tasksBySlot } from "../harness/auto-workers.ts";
import { EngineHarness, type HarnessOptions } from "../harness/engine-harness.ts";
import { buildFlow, type FlowSpec, sequence } from "../harness/flow-builder.ts";

async function startFixture(reply?: AutoWorkers["reply"], options: HarnessOptions = {}, slots = 10_000) {
  const harness = await new EngineHarness(options).start();
  const worker = await harness.joinWorker("w", { slots });
  return { world: harness, crew: worker, robot: new AutoWorkers(harness, [worker], reply) };
}

/** One node, `width` behind it, one that joins them. */
const diamondFlow = (width: number): FlowSpec => ({
  nodes: Array.from({ length: width + 2 }, () => ({})),
  edges: Array.from({ length: width }, (_, at) => at + 1).flatMap((at) => [[0, at] as const, [at, width + 1] as const]),
});

/** One node and `width` behind it. */
const starFlow = (width: number): FlowSpec => ({
  nodes: Array.from({ length: width + 1 }, () => ({})),
  edges: Array.from({ length: width }, (_, at) => [0, at + 1] as const),
});

describe("fan-outs larger than a turn", () => {
  it("[E35] a fan-out larger than a turn reaches some successors per turn, loses none, and joins them all", async () => {
    const {
      world: harness,
      crew: worker,
      robot: autoWorkers,
    } = await startFixture(() => ({ done: { out: 1 } }), { settings: { sweepTasksMax: 100 } });
    const run = await harness.startRun(buildFlow(diamondFlow(730)));
    await harness.settle();

    await worker.succeed({ out: 1 });
    const { tasks: early } = await harness.runDetail(run);
    expect(early.length).toBeLessThanOrEqual(102);
    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over).toMatchObject({ phase: "succeeded", cursor: null });
    expect(tasks).toHaveLength(732);
    // The first was answered above; it is seen and answered once more, which changes nothing.
    expect(autoWorkers.dispatchesSeen).toHaveLength(732);
  });

  it("[E35] the engine reads the joins of a fan-out, and the frames of a map, together from a store that loads rows on demand", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => ({ done: { out: 1 } }), {
      cluster: { mode: "weak" },
    });
    const joins = Array.from({ length: 300 }, (_, at) => at + 2);
    const wide = {
      nodes: Array.from({ length: 302 }, () => ({})),
      edges: joins.flatMap((at) => [[0, at] as const, [1, at] as const]),
    };
    const items = joins.map(() => 0);
    const run = await harness.startRun(buildFlow(sequence({ body: wide }, { loop: { mode: "map", items }, body: sequence({}) })));

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(tasks).toHaveLength(1 + 1 + 302 + 1 + 2 * 300);
  });

  it("[E35] the engine also reads the other predecessors of a fan-out's joins together", async () => {
    const {
      world: harness,
      robot: autoWorkers,
      crew: worker,
    } = await startFixture(({ node }) => (node === "a" ? "silent" : { done: { out: node } }), {
      cluster: { mode: "weak" },
    });
    // The first node completes 250 joins, each of which waits for another node too.
    const others = Array.from({ length: 250 }, (_, at) => at + 1);
    const edges = others.flatMap((at) => [[0, at + 250] as const, [at, at + 250] as const]);
    const run = await harness.startRun(buildFlow({ nodes: Array.from({ length: 501 }, () => ({})), edges }));
    await autoWorkers.answerAll();
    const first = autoWorkers.dispatchesSeen.find(({ node }) => node === "a") as Dispatch;

    await worker.succeed({ out: "first" }, first);
    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(JSON.parse(tasksBySlot(tasks)["251"]?.params ?? "")).toEqual({ in0: "first", in1: "b" });
  });

  it("[E35] a run with many start nodes begins over several turns, and continues after a restart between them", async () => {
    const options = { settings: { sweepTasksMax: 100 } };
    const { world: harness } = await startFixture(undefined, options);
    const run = await harness.startRun(buildFlow({ nodes: Array.from({ length: 950 }, () => ({})) }));
    await harness.engine.stop();
    expect((await harness.runDetail(run)).tasks.length).toBeLessThan(300);

    const next = new EngineHarness({ store: harness.store, ...options });
    next.now = harness.now + 40_000;
    harness.now = next.now;
    await next.start();
    const autoWorkers = new AutoWorkers(next, [await next.joinWorker("w", { slots: 1_000, boot: "b2" })]);
    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(next, run);
    expect(over.phase).toBe("succeeded");
    expect(tasks).toHaveLength(950);
    expect(autoWorkers.dispatchesSeen).toHaveLength(950);
  });

  it.for([starFlow(21), sequence({ body: starFlow(21) })])(
    "[E35] a run or container is not over while its fan-out is under way, however quickly its first tasks end",
    async (flowSpec) => {
      const { world: harness, crew: worker } = await startFixture(undefined, { settings: { sweepTasksMax: 3 } });
      const listener = harness.effects.push.bind(harness.effects);
      const answers: Promise<unknown>[] = [];
      // Answered in the very moment of the dispatch: the next turn finds the answers before it goes on with the fan-out.
      harness.effects.push = (...effects) => {
        const sent = effects.filter((effect) => effect.type === "dispatch");
        answers.push(...harness.askAll(sent.map(({ dispatch }) => worker.resultCommand(dispatch, {}))));
        return listener(...effects);
      };

      const run = await harness.startRun(buildFlow(flowSpec));
      await harness.settle();
      await Promise.all(answers);

      const { run: over } = await checkRun(harness, run);
      expect(over.phase).toBe("succeeded");
      expect(answers).toHaveLength(22);
    },
  );

  it("[E35] a fan-out inside an iteration also proceeds over several turns and joins every successor", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(undefined, { settings: { sweepTasksMax: 30 } });
    const run = await harness.startRun(buildFlow(sequence({ body: diamondFlow(250) }, {})));

    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(autoWorkers.dispatchesSeen).toHaveLength(253);
  });

  it("[E36] a run keeps its time limit while its fan-out is under way", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => "silent", { settings: { sweepTasksMax: 50 } });
    const run = await harness.startRun(buildFlow({ nodes: Array.from({ length: 400 }, () => ({})) }), { timeoutMs: 5_000 });
    expect((await harness.runDetail(run)).run.due).toBeLessThan(harness.now + 5_000);

    await autoWorkers.answerAll();
    expect((await checkRun(harness, run)).run).toMatchObject({
      phase: "running",
      due: harness.now + 5_000,
      cursor: null,
      open: 400,
    });
    await harness.advance(5_000);

    expect((await checkRun(harness, run)).run.phase).toBe("failed");
  });

  it("[E36] a run cancelled in the middle of a fan-out ends and creates no more tasks", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => "silent", { settings: { sweepTasksMax: 50 } });
    const [started, cancelled] = harness.askAll([
      harness.startCommand(buildFlow({ nodes: Array.from({ length: 400 }, () => ({})) })),
      harness.startCommand(buildFlow(sequence({}))),
    ]);
    const run = (await started) as { run: string };
    await cancelled;

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run: run.run, reason: "enough" });
    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run.run);
    expect(over.phase).toBe("cancelled");
    expect(tasks.length).toBeLessThan(400);
  });
});

describe("nodes that are given", () => {
  const start = async (
    harness: EngineHarness,
    flowSpec: FlowSpec,
    given: Record<number, PresetResult>,
    more: Partial<StartRunCommand> = {},
  ) => {
    const answer = await harness.ask({
      ...(harness.startCommand(buildFlow(flowSpec)) as StartRunCommand),
      presetResults: given,
      ...more,
    });
    if (answer.of !== "run") throw new Error("no run");
    return answer.run;
  };
  const pin = (out: unknown): PresetResult => ({ status: "succeeded", result: JSON.stringify({ out }), why: "pin" });
  const excluded: PresetResult = { status: "skipped", result: "{}", why: "excluded" };

  it("[E37] nodes with preset results are not run: their successors get the results, and their rows record the reason", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture();
    const run = await start(harness, sequence({}, {}, {}, {}), {
      0: pin("A"),
      1: { ...pin("B"), params: '{"in":"A"}', why: "reuse" },
      3: excluded,
    });

    await autoWorkers.answerAll();

    const { run: over, tasks } = await checkRun(harness, run);
    const at = tasksBySlot(tasks);
    expect(over.phase).toBe("succeeded");
    expect(autoWorkers.dispatchCounts).toEqual({ c: 1 });
    expect(JSON.parse(at["2"]?.params ?? "")).toEqual({ in: "B" });
    expect([0, 1, 3].map((n) => JSON.parse(at[n]?.state ?? "{}").why)).toEqual(["pin", "reuse", "excluded"]);
    expect(at["1"]).toMatchObject({ phase: "succeeded", params: '{"in":"A"}', attempt: 0 });
    expect(at["3"]?.phase).toBe("skipped");
  });

  it("[E37] nodes with preset results count as arrived at a join that also waits for others", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(() => ({ done: { out: "ran" } }));
    const flowSpec: FlowSpec = {
      nodes: [{}, {}, {}, {}],
      edges: [
        [0, 3],
        [1, 3],
        [2, 3],
      ],
    };
    const run = await start(harness, flowSpec, { 0: pin("zero"), 2: excluded });
    expect(tasksBySlot((await harness.runDetail(run)).tasks)["3"]).toMatchObject({ phase: "waiting", needs: 1 });

    await autoWorkers.answerAll();

    const { tasks } = await checkRun(harness, run);
    expect(JSON.parse(tasksBySlot(tasks)["3"]?.params ?? "")).toEqual({ in0: "zero", in1: "ran" });
    expect(autoWorkers.dispatchCounts).toEqual({ b: 1, d: 1 });
  });

  it("[E37] a run whose nodes all have preset results succeeds at once", async () => {
    const { world: harness } = await startFixture();
    const run = await start(
      harness,
      sequence({}, { body: sequence({}) }),
      { 0: pin(1), 1: pin(2) },
      { label: "replay", source: "wf-1", about: '{"by":"me"}' },
    );

    const { run: over, tasks } = await checkRun(harness, run);
    expect(over).toMatchObject({ phase: "succeeded", label: "replay", source: "wf-1", about: '{"by":"me"}' });
    expect(tasks).toHaveLength(2);
    expect(resultOf(tasksBySlot(tasks)["1"])).toEqual({ out: 2 });
  });

  it("[E37] a fan-out larger than a turn proceeds the same way from a node with a preset result", async () => {
    const { world: harness, robot: autoWorkers } = await startFixture(undefined, { settings: { sweepTasksMax: 40 } });
    const run = await start(harness, diamondFlow(300), { 0: pin("zero") });

    await autoWorkers.answerAll();

    const { run: over } = await checkRun(harness, run);
    expect(over.phase).toBe("succeeded");
    expect(autoWorkers.dispatchesSeen).toHaveLength(301);
  });
});
