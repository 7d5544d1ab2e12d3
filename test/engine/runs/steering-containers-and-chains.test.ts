// Steering what other tasks carry out: containers, nodes inside their frames, hosts behind a chain; and runs too large to be looked through.

import type { AnswerBody, Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { checkRun } from "../harness/auto-workers.ts";
import { buildWorkflow, EngineHarness, nodeId, type RefusedError } from "../harness/engine-harness.ts";
import { buildFlow, sequence } from "../harness/flow-builder.ts";
import {
  buildHostWithMiddlewares,
  callNext,
  lastDispatchFor,
  middlewareId,
  startAndSettle,
} from "../harness/middleware-chains.ts";

const steeringCommand = (type: "run.skip" | "run.retry", run: string, node: string): Command => ({
  type,
  tenant: "t1",
  by: "ada",
  run,
  node,
  reason: "operator",
});

async function steer(harness: EngineHarness, command: Command): Promise<AnswerBody> {
  const answer = await harness.ask(command);
  await harness.settle();
  return answer;
}

async function phasesBySlot(harness: EngineHarness, run: string): Promise<Record<string, string>> {
  const { run: over, tasks } = await harness.runDetail(run);
  return { run: over.phase, ...Object.fromEntries(tasks.map((task) => [task.id.slice(run.length + 1), task.phase])) };
}

const refusalOf = (answer: Promise<unknown>): Promise<RefusedError> =>
  answer.then(
    () => Promise.reject(new Error("taken")),
    (problem: unknown) => problem as RefusedError,
  );

describe("steering what is carried out by others", () => {
  it("[E91] skipping a container ends the tasks inside it, on the workers too, and the run goes on after it", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const run = await startAndSettle(harness, buildFlow(sequence({ body: sequence({}, {}) }, {})));
    const inside = worker.lastDispatch;

    const answer = await steer(harness, steeringCommand("run.skip", run, "a"));

    expect(answer).toMatchObject({ tasks: [{ task: `${run}.0`, node: "a", phase: "skipped" }] });
    expect(harness.stopsSent()).toMatchObject([{ task: inside.task, fence: inside.fence }]);
    expect(worker.lastDispatch.node).toBe("b");
    await worker.succeed({});
    expect(await phasesBySlot(harness, run)).toMatchObject({
      run: "succeeded",
      0: "skipped",
      "0*0/0": "cancelled",
      1: "succeeded",
    });
    await checkRun(harness, run);
  });

  it("[E91] skipping a node inside a loop by its id skips it in every iteration, by its path only in one", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const run = await startAndSettle(
      harness,
      buildFlow(sequence({ loop: { mode: "forEach", items: [1, 2, 3] }, body: sequence({}, {}) })),
    );

    await steer(harness, steeringCommand("run.skip", run, "ab"));
    for (let at = 0; at < 3; at++) {
      expect(worker.lastDispatch.task).toBe(`${run}.0*${at}/0`);
      await worker.succeed({});
      await harness.settle();
    }

    expect(await phasesBySlot(harness, run)).toMatchObject({
      run: "succeeded",
      "0*0/1": "skipped",
      "0*1/1": "skipped",
      "0*2/1": "skipped",
    });
    const second = await startAndSettle(
      harness,
      buildFlow(sequence({ loop: { mode: "forEach", items: [1, 2] }, body: sequence({}) })),
    );
    await steer(harness, steeringCommand("run.skip", second, "0*0/0"));
    expect(await phasesBySlot(harness, second)).toMatchObject({ run: "running", "0*0/0": "skipped", "0*1/0": "leased" });
    await checkRun(harness, run);
  });

  it("[E91] skipping a host behind a chain ends its middlewares and all they called", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}], { length: 2 }));
    await callNext(worker, lastDispatchFor(worker, "2"), "q");
    expect(await phasesBySlot(harness, run)).toMatchObject({ 0: "hosting", "0~1": "leased", 2: "leased" });

    await steer(harness, steeringCommand("run.skip", run, nodeId(0)));

    expect(await phasesBySlot(harness, run)).toMatchObject({
      run: "running",
      0: "skipped",
      "0~1": "cancelled",
      2: "skipped",
      1: "leased",
    });
    expect(
      harness
        .stopsSent()
        .map(({ task }) => task.slice(run.length + 1))
        .sort(),
    ).toEqual(["0~1", "2"]);
  });

  it("[E91] retrying a host behind a chain repeats the call that is under way, and its caller keeps waiting", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q");
    const first = lastDispatchFor(worker, "0~1");

    await steer(harness, steeringCommand("run.retry", run, nodeId(0)));

    expect(lastDispatchFor(worker, "0~1").fence).toBeGreaterThan(first.fence);
    expect(await phasesBySlot(harness, run)).toMatchObject({ 0: "hosting", "0~1": "leased", 1: "leased" });
    await steer(harness, steeringCommand("run.retry", run, middlewareId(0, 0)));
    expect(await phasesBySlot(harness, run)).toMatchObject({ 0: "hosting", "0~1": "cancelled", 1: "leased" });
  });

  it("[E92] a run with more open tasks than a turn reads is steered by slot or top-level node id, and not as a whole", async () => {
    const harness = await new EngineHarness({ settings: { sweepTasksMax: 5 } }).start();
    const run = await startAndSettle(
      harness,
      buildWorkflow(
        Array.from({ length: 12 }, () => ({})),
        [],
      ),
    );
    for (let at = 0; at < 6; at++) await harness.advance(1);

    const all = await refusalOf(
      harness.ask({ type: "run.rebind", tenant: "t1", by: "ada", run, node: null, worker: null, mode: "switch" }),
    );
    await steer(harness, steeringCommand("run.skip", run, nodeId(11)));
    await steer(harness, steeringCommand("run.skip", run, "10"));

    expect(all.code).toBe("E.REQUEST.TOO_LARGE");
    expect(await phasesBySlot(harness, run)).toMatchObject({ 10: "skipped", 11: "skipped", 0: "ready" });
  });
});
