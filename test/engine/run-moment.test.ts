// A run as it was: what is folded from the log up to a position is what the run's detail said when it was true at that position, for random
// workflows of containers and chains, with failures, losses and cancels.
import type { Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { Players } from "./chains-robot.ts";
import { wrapped } from "./chains-stage.ts";
import { flow } from "./flow-graph.ts";
import { randomShape } from "./flow-model.ts";
import { patiently, Robot } from "./flow-robot.ts";
import { type Crew, chain, graph, Harness, nodeId, Refused } from "./harness.ts";
import { over, Watch } from "./moment-watch.ts";
import { Dice } from "./weather-dice.ts";

const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

describe("a run at an older position of the log", () => {
  it.for(seeds(25))("[A280] is what its detail said then: containers, failures, losses, cancels (seed %i)", async (seed) => {
    const dice = new Dice(seed);
    const mode = dice.pick(["strong", "weak"] as const);
    const world = new Harness({
      cluster: { mode, dice, rates: mode === "weak" ? { busy: 0.02, fail: 0.02 } : {} },
      settings: { sweepTasksMax: dice.pick([2, 5, 500]) },
    });
    await world.start();
    const watch = new Watch(world);
    const slots = dice.pick([1, 3, 100]);
    const join = (name: string, boot: string) => patiently(world, world.join(name, { slots, boot }));
    const robot = new Robot(world, [await join("w0", "b0"), await join("w1", "b0")], () =>
      dice.chance(0.1) ? { fail: "E.RUNNER.FAILURE" } : { done: { out: 1 } },
    );
    const run = await patiently(world, world.run(flow(randomShape(dice, 0, dice.pick([0, 20])))));

    for (let look = 0; look < 400; look++) {
      if (over.includes(await watch.look(run))) break;
      await robot.work(1 + dice.below(4));
      await watch.look(run);
      if (dice.chance(0.1)) {
        const at = dice.below(2);
        if (robot.crews[at] !== undefined) await patiently(world, robot.crews[at].leave());
        robot.crews[at] = await join(`w${at}`, `b${look}`);
      } else if (dice.chance(0.02))
        await patiently(world, world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" }));
      await world.advance(dice.pick([0, 1, 500]));
      for (const crew of robot.crews) await patiently(world, crew.beat(null));
    }

    const { seen, shown } = await watch.again();
    expect(shown).toEqual(seen);
    const { facts, rows } = await watch.compared(run);
    expect(facts).toEqual(rows);
    await world.engine.stop();
  });

  it.for(seeds(25))("[A280] is what its detail said then: chains whose workers fall over (seed %i)", async (seed) => {
    const dice = new Dice(seed + 500);
    const world = await new Harness().start();
    const watch = new Watch(world);
    const players = new Players(world, dice);
    const policy = { timeoutMs: 8_000, retry: { maxAttempts: 2, backoffMs: 100 }, maxDeliveries: 6 };
    for (const name of ["a", "b"]) await players.join(name, 1 + dice.below(2));
    const length = 1 + dice.below(3);
    let drawn = chain(length, { policy });
    for (let at = 0; at < length; at++) drawn = wrapped(drawn, at, Array(dice.below(4)).fill({ policy }));
    const run = await world.run(drawn);

    for (let step = 0; step < 300; step++) {
      if (step === 60) players.calm();
      await players.step();
      if (over.includes(await watch.look(run))) break;
      if (step % 4 === 0) await players.time(700);
    }

    const { seen, shown } = await watch.again();
    expect(shown).toEqual(seen);
    const { facts, rows } = await watch.compared(run);
    expect(facts).toEqual(rows);
    await world.engine.stop();
  });

  it.for(seeds(25))("[A280] is what its detail said then: joins, keys, pauses, feedback, orders (seed %i)", async (seed) => {
    const dice = new Dice(seed + 900);
    const world = await new Harness({ settings: { sweepTasksMax: dice.pick([2, 500]) } }).start();
    const watch = new Watch(world);
    const crew = await world.join("w", { slots: 1 + dice.below(4) });
    const size = 3 + dice.below(8);
    const edges = Array.from({ length: size }, (_, to) => Array.from({ length: to }, (__, from) => [from, to] as const))
      .flat()
      .filter(() => dice.chance(0.35));
    const nodes = Array.from({ length: size }, () => ({
      policy: {
        retry: { maxAttempts: 3, backoffMs: dice.pick([0, 50]) },
        ...(dice.chance(0.4) && { concurrency: { key: dice.pick(["a", "b"]), limit: 1 } }),
      },
    }));
    const given = dice.chance(0.5) ? { 0: { status: "succeeded", result: '{"out":1}', why: "pin" } as const } : null;
    const order = world.order(graph(nodes, edges)) as Extract<Command, { type: "run.start" }>;
    const answer = await world.ask(given === null ? order : { ...order, presetResults: given });
    const run = answer.of === "run" ? answer.run : "";

    for (let step = 0; step < 200; step++) {
      if (over.includes(await watch.look(run))) break;
      const held = crew.sent.filter(() => dice.chance(0.5));
      const one = held.at(-1);
      const orders = { tenant: "t1", by: "me", run, node: nodeId(dice.below(size)), reason: "so it is" };
      const deed = dice.weigh({ work: 20, fail: 3, say: 6, time: 8, skip: 1, retry: 2, ack: 4 });
      if (deed === "time" || one === undefined) await world.advance(dice.pick([1, 60, 1_500]));
      else if (deed === "work") await refusable(crew.done({ out: step }, one));
      else if (deed === "fail") await refusable(crew.error("E.RUNNER.FAILURE", "no", one));
      else if (deed === "ack") await crew.ack(one);
      else if (deed === "skip") await refusable(world.ask({ type: "run.skip", ...orders }));
      else if (deed === "retry") await refusable(world.ask({ type: "run.retry", ...orders }));
      else await refusable(world.ask(feedback(crew, one, { stage: `s${step}`, progress: dice.roll(), metrics: { step } })));
      await world.settle();
      await crew.beat(null);
    }

    const { seen, shown } = await watch.again();
    expect(shown).toEqual(seen);
    const { facts, rows } = await watch.compared(run);
    expect(facts).toEqual(rows);
    await world.engine.stop();
  });
});

/** What is over, or another's by now, is refused; that is part of the weather. */
async function refusable(answer: Promise<unknown>): Promise<void> {
  await answer.catch((problem: unknown) => {
    if (!(problem instanceof Refused)) throw problem;
  });
}

const feedback = (crew: Crew, { task, fence }: { task: string; fence: number }, data: Record<string, unknown>): Command => ({
  type: "task.feedback",
  tenant: "t1",
  worker: crew.worker,
  session: crew.session,
  task,
  fence,
  data,
});
