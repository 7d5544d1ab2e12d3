// Chains across two schedulers, and hosts that are containers: the answer finds its caller wherever its socket is.
import type { SendNextAnswer } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineCluster } from "../harness/engine-cluster.ts";
import { buildWorkflow, EngineHarness, nodeId, type TestWorker } from "../harness/engine-harness.ts";
import {
  addMiddlewares,
  buildHostWithMiddlewares,
  callNext,
  findTaskAt,
  lastDispatchFor,
  nextAnswers,
  startAndSettle,
  taskPhasesBySlot,
} from "../harness/middleware-chains.ts";

const hostInOtherPool = buildHostWithMiddlewares([{ policy: { pool: "near" } }], { host: { policy: { pool: "far" } } });

describe("callers at another scheduler", () => {
  it("[B42] the answer to a middleware at another scheduler is mailed to its session once", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const caller = await near.joinWorker("a", { slots: 1, pool: "near" });
    const callee = await far.joinWorker("b", { slots: 1, pool: "far" });
    const run = await near.startRun(hostInOtherPool);
    await cluster.passSeconds(2);
    await near.ask(nextRequest(caller, "q1"));
    await cluster.passSeconds(3);

    await callee.succeed({ out: 3 }, lastDispatchFor(callee, "0~1"));
    await cluster.passSeconds(2);

    expect(nextAnswers(near)).toMatchObject([
      { session: caller.session, request: "q1", result: '{"out":3}' } satisfies Partial<SendNextAnswer>,
    ]);
    expect(nextAnswers(far)).toEqual([]);
    // Its slot is taken again: the hold waits no more.
    await near.startRun(buildHostWithMiddlewares([], { host: { policy: { pool: "near" } } }));
    await cluster.passSeconds(2);
    expect(caller.dispatchesSent).toHaveLength(1);
    await caller.succeed({}, lastDispatchFor(caller, "1"));
    await cluster.passSeconds(2);
    expect((await near.runDetail(run)).run.phase).toBe("succeeded");
    expect(caller.dispatchesSent).toHaveLength(2);
  });

  it("[B42] a worker that resumes at another scheduler receives the answers it had not received", async () => {
    const cluster = new EngineCluster({ mode: "weak" });
    const [near, far] = [await cluster.startEngine("r1"), await cluster.startEngine("r2")];
    const caller = await near.joinWorker("a", { slots: 1, pool: "near" });
    const callee = await near.joinWorker("b", { slots: 1, pool: "far" });
    await near.startRun(hostInOtherPool);
    await cluster.passSeconds(2);
    await near.ask(nextRequest(caller, "q1"));
    await cluster.passSeconds(1);
    await caller.disconnect();
    await callee.succeed({ out: 3 }, lastDispatchFor(callee, "0~1"));

    const back = await far.joinWorker("a", {
      slots: 1,
      pool: "near",
      session: caller.session,
      boot: caller.boot,
      resumed: { unacked: [] },
    });

    expect(nextAnswers(far)).toMatchObject([{ session: back.session, request: "q1", result: '{"out":3}' }]);
  });
});

function nextRequest(worker: TestWorker, request: string) {
  const { task, fence } = lastDispatchFor(worker, "1");
  return {
    type: "task.next",
    tenant: worker.tenant,
    worker: worker.worker,
    session: worker.session,
    task,
    fence,
    request,
    payload: null,
    hostCtx: null,
    middlewareCtx: null,
    timeoutMs: null,
  } as const;
}

/** A container with one node inside, behind one middleware. */
function containerBehindChain(): Record<string, unknown> {
  const workflow = buildWorkflow([{ type: "workflow.container" }], []);
  const [box] = workflow.nodes as [Record<string, unknown>];
  const inner = { ...(buildWorkflow([{}], []).nodes as [Record<string, unknown>])[0], id: nodeId(50) };
  const __container = {
    subgraphId: "body",
    inputs: [{ from: "parameters.x", node: nodeId(50), to: "parameters.y" }],
    outputs: [{ node: nodeId(50), from: "results.out", to: "results.out" }],
  };
  const nodes = [{ ...box, role: "container", parameters: { x: 1, __container } }];
  const subgraphs = [
    {
      id: "body",
      definition: { id: nodeId(60), schemaVersion: "2025-10", metadata: { name: "body" }, nodes: [inner], edges: [] },
    },
  ];
  return addMiddlewares({ ...workflow, nodes, subgraphs }, 0, [{}]);
}

describe("a container behind a chain", () => {
  it("[E63] a container behind a middleware chain is opened by each call, with the payload in its parameters, and answers with its outputs", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 1 });
    const run = await startAndSettle(harness, containerBehindChain());

    await callNext(worker, lastDispatchFor(worker, "1"), "q1", { payload: { x: 2 } });
    expect(JSON.parse(lastDispatchFor(worker, "0~1*0/0").params)).toMatchObject({ y: 2 });
    await worker.succeed({ out: "a" }, lastDispatchFor(worker, "0~1*0/0"));
    expect(nextAnswers(harness)).toMatchObject([{ request: "q1", result: '{"out":"a"}' }]);
    await callNext(worker, lastDispatchFor(worker, "1"), "q2");
    await worker.succeed({ out: "b" }, lastDispatchFor(worker, "0~2*0/0"));
    await worker.succeed({}, lastDispatchFor(worker, "1"));

    expect((await harness.runDetail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect((await findTaskAt(harness, run, "0")).result).toBe('{"out":"b"}');
  });

  it("[E63] a container behind a middleware chain is ended with all its tasks when its call times out or its caller ends", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { slots: 1 });
    const run = await startAndSettle(harness, containerBehindChain());
    await callNext(worker, lastDispatchFor(worker, "1"), "q1", { timeoutMs: 100 });
    await worker.ack(lastDispatchFor(worker, "0~1*0/0"));
    await harness.advance(101);
    expect(nextAnswers(harness)).toMatchObject([{ error: { code: "next_timeout" } }]);
    expect(await taskPhasesBySlot(harness, run)).toEqual({
      "0": "hosting",
      "0~1": "cancelled",
      "0~1*0": "cancelled",
      "0~1*0/0": "cancelled",
      "1": "leased",
    });
    await callNext(worker, lastDispatchFor(worker, "1"), "q2");

    await worker.succeed({}, lastDispatchFor(worker, "1"));

    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "0": "succeeded", "0~2": "cancelled", "0~2*0/0": "cancelled" });
    expect((await harness.runDetail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
  });
});

describe("an answer that comes by mail before the asking has landed", () => {
  it("[E103] an answer that arrives by mail before the request's commit is known still resumes the caller and takes its slot", async () => {
    // The commit before the request's is not known yet, so neither is its own, although it is stored and the other scheduler sees it.
    const gate = Promise.withResolvers<void>();
    let isHeld = false;
    const cluster = new EngineCluster({
      mode: "weak",
      pauseAt: ({ step, replica }) => {
        if (step !== "commit" || replica !== "r1" || !isHeld) return undefined;
        isHeld = false;
        return gate.promise;
      },
    });
    const near = await cluster.startEngine("r1", { settings: { turnsInFlight: 3 } });
    const far = await cluster.startEngine("r2");
    const caller = await near.joinWorker("a", { slots: 1, pool: "near" });
    const callee = await far.joinWorker("b", { slots: 1, pool: "far" });
    const run = await near.startRun(hostInOtherPool);
    await cluster.passSeconds(2);

    isHeld = true;
    const slow = near.startRun(buildHostWithMiddlewares([], { host: { policy: { pool: "none" } } }));
    await cluster.passSeconds(0);
    const asked = near.ask(nextRequest(caller, "q1"));
    await cluster.passSeconds(3);
    await callee.succeed({ out: 3 }, lastDispatchFor(callee, "0~1"));
    // Another command causes a turn that reads the mail.
    const joined = near.joinWorker("c", { slots: 1, pool: "other" });
    await cluster.passSeconds(1);
    gate.resolve();
    await Promise.all([slow, asked, joined]);
    await cluster.passSeconds(2);

    expect(nextAnswers(near)).toMatchObject([{ request: "q1", result: '{"out":3}' }]);
    await near.startRun(buildHostWithMiddlewares([], { host: { policy: { pool: "near" } } }));
    await cluster.passSeconds(2);
    expect(caller.dispatchesSent.map(({ task }) => task)).toEqual([`${run}.1`]);
  });
});
