// Steering what other tasks carry out: containers, nodes inside their frames, hosts behind a chain; and runs too large to be looked through.

import type { AnswerBody, Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { begin, hosted, middlewareId, next, sentFor } from "./chains-stage.ts";
import { flow, row } from "./flow-graph.ts";
import { checkRun } from "./flow-robot.ts";
import { graph, Harness, nodeId, type Refused } from "./harness.ts";

const order = (type: "run.skip" | "run.retry", run: string, node: string): Command => ({
  type,
  tenant: "t1",
  by: "ada",
  run,
  node,
  reason: "operator",
});

async function steer(world: Harness, command: Command): Promise<AnswerBody> {
  const answer = await world.ask(command);
  await world.settle();
  return answer;
}

async function phases(world: Harness, run: string): Promise<Record<string, string>> {
  const { run: over, tasks } = await world.detail(run);
  return { run: over.phase, ...Object.fromEntries(tasks.map((task) => [task.id.slice(run.length + 1), task.phase])) };
}

const refusal = (answer: Promise<unknown>): Promise<Refused> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as Refused,
  );

describe("steering what is carried out by others", () => {
  it("[E91] a container that is skipped ends what is inside, on the workers too, and the run goes on behind it", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { slots: 4 });
    const run = await begin(world, flow(row({ body: row({}, {}) }, {})));
    const inside = crew.last;

    const answer = await steer(world, order("run.skip", run, "a"));

    expect(answer).toMatchObject({ tasks: [{ task: `${run}.0`, node: "a", phase: "skipped" }] });
    expect(world.stops()).toMatchObject([{ task: inside.task, fence: inside.fence }]);
    expect(crew.last.node).toBe("b");
    await crew.done({});
    expect(await phases(world, run)).toMatchObject({ run: "succeeded", 0: "skipped", "0*0/0": "cancelled", 1: "succeeded" });
    await checkRun(world, run);
  });

  it("[E91] a node inside a loop that is skipped by its id is left out of every iteration; by its slot out of one", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { slots: 4 });
    const run = await begin(world, flow(row({ loop: { mode: "forEach", items: [1, 2, 3] }, body: row({}, {}) })));

    await steer(world, order("run.skip", run, "ab"));
    for (let at = 0; at < 3; at++) {
      expect(crew.last.task).toBe(`${run}.0*${at}/0`);
      await crew.done({});
      await world.settle();
    }

    expect(await phases(world, run)).toMatchObject({
      run: "succeeded",
      "0*0/1": "skipped",
      "0*1/1": "skipped",
      "0*2/1": "skipped",
    });
    const second = await begin(world, flow(row({ loop: { mode: "forEach", items: [1, 2] }, body: row({}) })));
    await steer(world, order("run.skip", second, "0*0/0"));
    expect(await phases(world, second)).toMatchObject({ run: "running", "0*0/0": "skipped", "0*1/0": "leased" });
    await checkRun(world, run);
  });

  it("[E91] a host behind a chain that is skipped ends its middlewares and all they called", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { slots: 4 });
    const run = await begin(world, hosted([{}], { length: 2 }));
    await next(crew, sentFor(crew, "2"), "q");
    expect(await phases(world, run)).toMatchObject({ 0: "hosting", "0~1": "leased", 2: "leased" });

    await steer(world, order("run.skip", run, nodeId(0)));

    expect(await phases(world, run)).toMatchObject({
      run: "running",
      0: "skipped",
      "0~1": "cancelled",
      2: "skipped",
      1: "leased",
    });
    expect(
      world
        .stops()
        .map(({ task }) => task.slice(run.length + 1))
        .sort(),
    ).toEqual(["0~1", "2"]);
  });

  it("[E91] a host behind a chain is tried again by the call that is under way, and its caller goes on waiting", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { slots: 4 });
    const run = await begin(world, hosted([{}]));
    await next(crew, sentFor(crew, "1"), "q");
    const first = sentFor(crew, "0~1");

    await steer(world, order("run.retry", run, nodeId(0)));

    expect(sentFor(crew, "0~1").fence).toBeGreaterThan(first.fence);
    expect(await phases(world, run)).toMatchObject({ 0: "hosting", "0~1": "leased", 1: "leased" });
    await steer(world, order("run.retry", run, middlewareId(0, 0)));
    expect(await phases(world, run)).toMatchObject({ 0: "hosting", "0~1": "cancelled", 1: "leased" });
  });

  it("[E92] of a run with more open tasks than a turn looks at, tasks are named by slot; a node of the top level by its id too", async () => {
    const world = await new Harness({ settings: { sweepTasksMax: 5 } }).start();
    const run = await begin(
      world,
      graph(
        Array.from({ length: 12 }, () => ({})),
        [],
      ),
    );
    for (let at = 0; at < 6; at++) await world.advance(1);

    const all = await refusal(
      world.ask({ type: "run.rebind", tenant: "t1", by: "ada", run, node: null, worker: null, mode: "switch" }),
    );
    await steer(world, order("run.skip", run, nodeId(11)));
    await steer(world, order("run.skip", run, "10"));

    expect(all.code).toBe("E.REQUEST.TOO_LARGE");
    expect(await phases(world, run)).toMatchObject({ 10: "skipped", 11: "skipped", 0: "ready" });
  });
});
