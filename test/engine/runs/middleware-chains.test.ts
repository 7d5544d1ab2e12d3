// Middleware chains on the real driver: who is called, with what, who gets the answer, and how a host ends.
import type { Command } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineHarness, nodeId, type TestWorker } from "../harness/engine-harness.ts";
import {
  buildHostWithMiddlewares,
  callNext,
  findTaskAt,
  lastDispatchFor,
  middlewareId,
  nextAnswers,
  openCallsOf,
  startAndSettle,
  taskPhasesBySlot,
} from "../harness/middleware-chains.ts";

const startHarness = async (settings: ConstructorParameters<typeof EngineHarness>[0] = {}): Promise<EngineHarness> =>
  await new EngineHarness(settings).start();
type Status = "succeeded" | "failed" | "skipped";
async function endTask(worker: TestWorker, slot: string, status: Status, result: unknown = {}) {
  const answer = await worker.harness.ask(worker.resultCommand(lastDispatchFor(worker, slot), result, status));
  await worker.harness.settle();
  return answer;
}
const failTask = (worker: TestWorker, slot: string) => endTask(worker, slot, "failed");
const skipTask = (worker: TestWorker, slot: string) => endTask(worker, slot, "skipped");
const succeedTask = (worker: TestWorker, slot: string, result: unknown = {}) => endTask(worker, slot, "succeeded", result);
const singleAttempt = { retry: { maxAttempts: 1 } };

describe("a chain", () => {
  it("[E50] a host starts with its outermost middleware; each `next` dispatches the layer below with its chain index", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const run = await startAndSettle(
      harness,
      buildHostWithMiddlewares([{ params: { a: 1 } }, { params: { b: 2 } }], { host: { params: { c: 3 } } }),
    );
    const chain = [middlewareId(0, 0), middlewareId(0, 1)];

    expect(worker.lastDispatch).toMatchObject({ node: chain[0], params: '{"a":1}', hostNode: nodeId(0), chain, chainIndex: 0 });
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    expect(worker.lastDispatch).toMatchObject({ node: chain[1], params: '{"b":2}', hostNode: nodeId(0), chain, chainIndex: 1 });
    await callNext(worker, lastDispatchFor(worker, "2~1"), "q2");
    expect(worker.lastDispatch).toMatchObject({ node: nodeId(0), params: '{"c":3}', hostNode: nodeId(0), chain });
    expect(worker.lastDispatch).not.toHaveProperty("chainIndex");
    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "hosting", "0~1": "leased", "1": "leased", "2~1": "leased" });

    await succeedTask(worker, "0~1", { out: "host" });
    expect(nextAnswers(harness).at(-1)).toMatchObject({
      task: `${run}.2~1`,
      request: "q2",
      result: '{"out":"host"}',
      error: null,
    });
    await succeedTask(worker, "2~1", { seen: true });
    expect(nextAnswers(harness).at(-1)).toMatchObject({ task: `${run}.1`, request: "q1", result: '{"seen":true}', error: null });
    await succeedTask(worker, "1", { wrapped: true });

    expect((await harness.runDetail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "0": "succeeded", "2": "succeeded" });
    expect((await findTaskAt(harness, run, "0")).result).toBe('{"out":"host"}');
  });

  it("[E50] the node after a host starts with the host's result once the outermost middleware has ended", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}], { length: 2 }));
    await callNext(worker, lastDispatchFor(worker, "2"), "q");
    await succeedTask(worker, "0~1", { out: 7 });
    expect(await taskPhasesBySlot(harness, run)).not.toHaveProperty("1");

    await succeedTask(worker, "2");

    expect(lastDispatchFor(worker, "1").params).toBe('{"in":7}');
  });

  it("[E51] a next call merges its payload over the parameters, and passes the host context on to the host through all layers", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 4 });
    await startAndSettle(
      harness,
      buildHostWithMiddlewares([{}, { params: { deep: { x: 1, y: 2 } } }], { host: { params: { keep: 1, drop: 2 } } }),
    );

    await callNext(worker, lastDispatchFor(worker, "1"), "q1", {
      payload: { deep: { x: 9 } },
      hostCtx: { user: "u" },
      middlewareCtx: { m: 1 },
    });
    expect(JSON.parse(lastDispatchFor(worker, "2~1").params)).toEqual({
      deep: { x: 9, y: 2 },
      __next: { hostCtx: { user: "u" }, middlewareCtx: { m: 1 } },
    });
    await callNext(worker, lastDispatchFor(worker, "2~1"), "q2", { payload: { drop: null, add: true } });

    expect(JSON.parse(lastDispatchFor(worker, "0~1").params)).toEqual({ keep: 1, add: true, __next: { hostCtx: { user: "u" } } });
  });

  it("[E52] each new next request runs the next layer again as a task of its own; the host keeps its last good result", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}], { host: { policy: singleAttempt } }));
    for (const turn of [1, 2, 3]) {
      await callNext(worker, lastDispatchFor(worker, "1"), `q${turn}`);
      if (turn < 3) await succeedTask(worker, `0~${turn}`, { turn });
      else await failTask(worker, "0~3");
    }
    expect(nextAnswers(harness).map(({ error }) => error?.code ?? null)).toEqual([null, null, "next_failed"]);
    await succeedTask(worker, "1");

    expect(await taskPhasesBySlot(harness, run)).toMatchObject({
      "0": "succeeded",
      "0~1": "succeeded",
      "0~2": "succeeded",
      "0~3": "failed",
    });
    expect((await findTaskAt(harness, run, "0")).result).toBe('{"turn":2}');
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[E53] a host that is never called ends as skipped, and its inner middlewares with it", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}, {}], { length: 2 }));

    await succeedTask(worker, "2");

    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "0": "skipped", "2": "succeeded", "3": "skipped" });
    await succeedTask(worker, "1");
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[E53] a host ends as skipped when a middleware does, the outermost or an inner one", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const outer = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await skipTask(worker, "1");
    expect(await taskPhasesBySlot(harness, outer)).toEqual({ "0": "skipped", "1": "skipped" });

    const inner = await startAndSettle(harness, buildHostWithMiddlewares([{}, {}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await callNext(worker, lastDispatchFor(worker, "2~1"), "q2");
    await succeedTask(worker, "0~1", { out: 1 });
    await callNext(worker, lastDispatchFor(worker, "1"), "q3");
    await skipTask(worker, "2~2");
    expect(nextAnswers(harness).at(-1)?.error?.code).toBe("next_skipped");
    await succeedTask(worker, "1");

    expect(await taskPhasesBySlot(harness, inner)).toMatchObject({ "0": "skipped", "0~1": "succeeded", "2": "skipped" });
  });

  it("[E53] a call of an inner middleware that an operator has skipped is answered next_skipped, and the host ends as skipped", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}, {}]));
    await harness.ask({ type: "run.skip", tenant: "t1", by: "me", run, node: middlewareId(0, 1), reason: "not today" });

    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    expect(nextAnswers(harness)).toMatchObject([{ request: "q1", error: { code: "next_skipped" } }]);
    await succeedTask(worker, "1");

    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "skipped", "1": "succeeded", "2": "skipped", "2~1": "skipped" });
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[E54] a host fails with the error of its outermost middleware, and the run fails with it", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w");
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{ policy: singleAttempt }]));

    await worker.error("E.RUNNER.FAILURE", "wrap broke");

    const { run: row } = await harness.runDetail(run);
    expect(row.phase).toBe("failed");
    expect(JSON.parse(row.error ?? "{}")).toMatchObject({
      message: "wrap broke",
      details: { node: nodeId(0), middleware: middlewareId(0, 0) },
    });
    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "failed", "1": "failed" });
  });

  it("[E54] a failed next call is answered to its caller, makes no dead letter and does not fail the run", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}], { host: { policy: singleAttempt } }));
    await callNext(worker, lastDispatchFor(worker, "1"), "q");
    await worker.error("E.RUNNER.FAILURE", "it broke", lastDispatchFor(worker, "0~1"));

    expect(nextAnswers(harness)).toMatchObject([{ result: null, error: { code: "next_failed" } }]);
    expect(nextAnswers(harness)[0]?.error?.message).toContain("it broke");
    await succeedTask(worker, "1");

    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "0": "succeeded" });
    expect(await harness.facts()).not.toContain("task.dead");
  });

  it("[E55] values of the middlewares' output ports are copied into the host's result, the outermost last", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{ output: "results.note" }, { output: "results.note" }]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await callNext(worker, lastDispatchFor(worker, "2~1"), "q2");
    await succeedTask(worker, "0~1", { out: 1 });
    await succeedTask(worker, "2~1", { note: "inner" });
    await succeedTask(worker, "1", { note: "outer", other: 2 });

    expect(JSON.parse((await findTaskAt(harness, run, "0")).result ?? "")).toEqual({ out: 1, note: "outer" });
    expect((await findTaskAt(harness, run, "2")).result).toBe('{"note":"inner"}');
  });

  it("[E55] edges carry values into the input ports of an inner middleware, and out of its output ports", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 3 });
    const workflow = buildHostWithMiddlewares([{}, { output: "results.note" }], { length: 3, at: 1 });
    const [first, host, last] = workflow.nodes as [
      Record<string, unknown>,
      { middlewares: { ui: object }[] },
      Record<string, unknown>,
    ];
    const ports = [{ key: "hint", label: "hint", binding: { path: "parameters.hint", mode: "write" } }];
    const middlewares = host.middlewares.map((layer) => ({ ...layer, ui: { ...layer.ui, inputPorts: ports } }));
    const edge = (id: string, from: number, port: string, to: number, into: string) => ({
      id,
      source: { node: nodeId(from), port },
      target: { node: nodeId(to), port: into },
    });
    const inner = middlewareId(1, 1);
    const edges = [edge("a", 0, "out", 1, `mw:${inner}:input:hint`), edge("b", 1, `mw:${inner}:output:out`, 2, "in")];
    await startAndSettle(harness, { ...workflow, nodes: [first, { ...host, middlewares }, last], edges });

    await succeedTask(worker, "0", { out: "from the first" });
    await callNext(worker, lastDispatchFor(worker, "3"), "q1");
    expect(JSON.parse(lastDispatchFor(worker, "4~1").params)).toEqual({ hint: "from the first" });
    await succeedTask(worker, "4~1", { note: "from inside" });
    await succeedTask(worker, "3");

    expect(JSON.parse(lastDispatchFor(worker, "2").params)).toEqual({ in: "from inside" });
  });

  it("[E56] the log records which task made a next request, its target, and how it was answered", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await harness.advance(25);
    await succeedTask(worker, "0~1");

    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, types: ["next."] });
    expect(items.map(({ type, data }) => ({ type, ...data }))).toEqual([
      { type: "next.asked", task: `${run}.1`, request: "q1", target: `${run}.0~1` },
      { type: "next.answered", task: `${run}.1`, request: "q1", target: `${run}.0~1`, code: null, ms: 25 },
    ]);
    expect(nextAnswers(harness)[0]?.trace).toMatchObject({ task: `${run}.0~1`, status: "succeeded", attempts: 1, call: 1 });
  });

  it("[E1400] the trace of a next answer has the code that the called node failed with, and none where it succeeded", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    const error = { code: "E.SHOP.CLOSED", message: "come back" };
    await harness.ask({ ...worker.resultCommand(lastDispatchFor(worker, "0~1"), {}, "failed"), error } as Command);
    await harness.settle();
    await callNext(worker, lastDispatchFor(worker, "1"), "q2");
    await succeedTask(worker, "0~2");

    expect(nextAnswers(harness)).toMatchObject([
      { error: { code: "next_failed" }, trace: { status: "failed", code: "E.SHOP.CLOSED" } },
      { error: null, trace: { status: "succeeded", code: null } },
    ]);
  });

  it("[A374] the trace of a next answer names the worker without its tenant", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await succeedTask(worker, "0~1");

    expect(nextAnswers(harness)[0]?.trace).toMatchObject({ worker: "w" });
  });
});

describe("requests", () => {
  it("[E57] a repeated next request is answered from the stored row, or keeps waiting; nothing runs twice", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    const outer = lastDispatchFor(worker, "1");
    await callNext(worker, outer, "q1");
    await expect(callNext(worker, outer, "q1")).resolves.toMatchObject({ applied: false });
    await succeedTask(worker, "0~1", { out: 1 });

    await callNext(worker, outer, "q1");

    expect(nextAnswers(harness)).toMatchObject([
      { request: "q1", result: '{"out":1}' },
      { request: "q1", result: '{"out":1}' },
    ]);
    expect(Object.keys(await taskPhasesBySlot(harness, run)).sort()).toEqual(["0", "0~1", "1"]);
  });

  it("[E57] next requests of two workers with the same request id are kept apart", async () => {
    const harness = await startHarness();
    const [a, b] = [await harness.joinWorker("a", { slots: 2 }), await harness.joinWorker("b", { slots: 2 })];
    const runs = [
      await startAndSettle(harness, buildHostWithMiddlewares([{}])),
      await startAndSettle(harness, buildHostWithMiddlewares([{}])),
    ];
    const crewOf = (run: string) => (a.dispatchesSent.some((one) => one.run === run) ? a : b);
    for (const run of runs) {
      const worker = crewOf(run);
      await callNext(worker, worker.dispatchesSent.find((one) => one.task === `${run}.1`) as never, "next-1");
    }
    const inner = [...a.dispatchesSent, ...b.dispatchesSent].filter((one) => one.task.endsWith("0~1"));
    expect(inner).toHaveLength(2);
    for (const one of inner) {
      const worker = a.dispatchesSent.includes(one) ? a : b;
      await worker.succeed({ of: one.run }, one);
    }

    expect(nextAnswers(harness).map(({ run, result }) => [run, result])).toEqual(
      inner.map((one) => [one.run, JSON.stringify({ of: one.run })]),
    );
  });

  it("[E57] a next request from a new process of the worker runs anew, even under a request id used before", async () => {
    const harness = await startHarness();
    const first = await harness.joinWorker("w", { slots: 2, boot: "b1" });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    const outer = lastDispatchFor(first, "1");
    await callNext(first, outer, "next-1");
    await succeedTask(first, "0~1", { n: 1 });
    // It names the attempt although its process is another: the row names the process that made the request.
    const second = await harness.joinWorker("w", { slots: 2, boot: "b2", running: [{ task: outer.task, fence: outer.fence }] });
    await callNext(second, outer, "next-1");

    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "0~2": "leased" });
  });

  it("[E58] a next request is refused with its reason: no chain, too many open calls, or run over", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 200 });
    await startAndSettle(harness, buildHostWithMiddlewares([], {}));
    await callNext(worker, lastDispatchFor(worker, "0"), "q");
    expect(nextAnswers(harness).at(-1)).toMatchObject({ result: null, error: { code: "next_no_chain" } });

    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    const outer = lastDispatchFor(worker, "1");
    for (let call = 0; call < 64; call++) await callNext(worker, outer, `q${call}`);
    await callNext(worker, outer, "one too many");
    expect(nextAnswers(harness).at(-1)?.error?.code).toBe("next_unavailable");

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await callNext(worker, outer, "too late");
    expect(nextAnswers(harness).at(-1)).toMatchObject({ request: "too late", error: { code: "next_run_finalised" } });
  });

  it("[E58] a next call is answered next_unavailable if no worker takes it in time, and next_failed if its parameters do not match a schema that is enforced", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 4 });
    await startAndSettle(harness, buildHostWithMiddlewares([{}], { host: { policy: { pool: "nowhere", queueTimeoutMs: 500 } } }));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await harness.advance(501);
    expect(nextAnswers(harness).at(-1)?.error?.code).toBe("next_unavailable");

    const workflow = buildHostWithMiddlewares([{}]);
    const [host] = workflow.nodes as [object];
    const schema = { parameters: { type: "object", properties: { n: { type: "number" } } } };
    const run = await startAndSettle(harness, { ...workflow, schemaMode: "enforce", nodes: [{ ...host, schema }] });
    await callNext(worker, lastDispatchFor(worker, "1"), "q2", { payload: { n: "text" } });

    expect(nextAnswers(harness).at(-1)).toMatchObject({ run, error: { code: "next_failed" } });
    expect(nextAnswers(harness).at(-1)?.error?.message).toContain("parameters.n");
    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "hosting", "0~1": "failed", "1": "leased" });
  });

  it("[E58] a `next` from another tenant's worker is answered as for an unknown task", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w");
    const thief = await harness.joinWorker("thief", { tenant: "t2" });
    await startAndSettle(harness, buildHostWithMiddlewares([{}]));

    await expect(callNext(thief, worker.lastDispatch, "q")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await expect(callNext(thief, { task: "no.1", fence: 1 }, "q")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(nextAnswers(harness)).toEqual([]);
  });
});

describe("waiting", () => {
  it("[B40] a middleware takes no slot while it waits for its next call, so that a worker with one slot runs a whole chain", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 1, perNodeLimits: { "test.wrap": 1 } });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}, {}, {}]));

    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await callNext(worker, lastDispatchFor(worker, "2~1"), "q2");
    await callNext(worker, lastDispatchFor(worker, "3~1"), "q3");
    const other = await startAndSettle(harness, buildHostWithMiddlewares([]));
    expect(await taskPhasesBySlot(harness, other)).toEqual({ "0": "ready" });
    for (const slot of ["0~1", "3~1", "2~1", "1"]) await succeedTask(worker, slot);

    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
    expect(await taskPhasesBySlot(harness, other)).toEqual({ "0": "leased" });
  });

  it("[B40] a middleware takes its slot again when its next call is answered, and nothing new is granted beyond the slots", async () => {
    const harness = await startHarness();
    const [a, b] = [await harness.joinWorker("a", { slots: 1 }), await harness.joinWorker("b", { slots: 1, pool: "other" })];
    await startAndSettle(harness, buildHostWithMiddlewares([{}], { host: { policy: { pool: "other" } } }));
    await callNext(a, lastDispatchFor(a, "1"), "q1");
    const mine = buildHostWithMiddlewares([], { host: { policy: { pool: "default" } } });
    await startAndSettle(harness, mine);
    expect(a.lastDispatch.task.endsWith(".0")).toBe(true);
    const waiting = await startAndSettle(harness, mine);

    await succeedTask(b, "0~1");
    expect(await taskPhasesBySlot(harness, waiting)).toEqual({ "0": "ready" });
    await a.succeed({}, a.lastDispatch);
    expect(await taskPhasesBySlot(harness, waiting)).toEqual({ "0": "ready" });
    await succeedTask(a, "1");

    expect(await taskPhasesBySlot(harness, waiting)).toEqual({ "0": "leased" });
  });

  it("[B40] the engine reads from the task row whether an attempt waits for a next call when its worker joins again", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 1 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    const outer = lastDispatchFor(worker, "1");
    await callNext(worker, outer, "q1");
    const inner = lastDispatchFor(worker, "0~1");
    await worker.error("E.RUNNER.CANCELLED", "not now", inner);
    const again = await harness.joinWorker("w", { slots: 1, running: [{ task: outer.task, fence: outer.fence }] });

    await harness.settle();
    await callNext(again, outer, "q1");

    expect(lastDispatchFor(again, "0~1").fence).toBeGreaterThan(inner.fence);
    await succeedTask(again, "0~1", { out: 1 });
    expect(nextAnswers(harness).at(-1)).toMatchObject({ session: again.session, result: '{"out":1}' });
    await again.succeed({}, outer);
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B41] an answer for a disconnected middleware is kept and sent at its next join", async () => {
    const harness = await startHarness();
    const [a, b] = [await harness.joinWorker("a", { slots: 1 }), await harness.joinWorker("b", { slots: 1, pool: "other" })];
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}], { host: { policy: { pool: "other" } } }));
    const outer = lastDispatchFor(a, "1");
    await callNext(a, outer, "q1");
    await a.disconnect();
    await succeedTask(b, "0~1", { out: 5 });
    expect(nextAnswers(harness)).toEqual([]);

    const back = await harness.joinWorker("a", { slots: 1, session: a.session, boot: a.boot, resumed: { unacked: [] } });

    expect(nextAnswers(harness)).toMatchObject([{ session: back.session, request: "q1", result: '{"out":5}' }]);
    await back.succeed({}, outer);
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B41] a session that joins in the same turn as a next answer receives it, and the middleware takes its slot again", async () => {
    const harness = await startHarness();
    const b = await harness.joinWorker("b", { slots: 1, pool: "other" });
    const a = await harness.joinWorker("a", { slots: 1 });
    const near = { policy: { pool: "default" } };
    await startAndSettle(harness, buildHostWithMiddlewares([near], { host: { policy: { pool: "other" } } }));
    const { task, fence } = lastDispatchFor(a, "1");
    await callNext(a, { task, fence }, "q1");
    await a.disconnect();
    const about = { slots: 1, packages: [{ name: "test", version: "1.0.0", status: "installed" }], runtimes: [], features: [] };
    const capacity = { ...about, payloadTypes: [], pool: "default", tags: {}, hostname: "h", version: "1", dialect: "v2" };
    const join = {
      type: "worker.join",
      tenant: "t1",
      worker: a.worker,
      name: "a",
      boot: a.boot,
      session: "new",
      about: capacity,
    } as const;

    await Promise.all(
      harness.askAll([{ ...join, running: [{ task, fence }] }, b.resultCommand(lastDispatchFor(b, "0~1"), { out: 1 })]),
    );
    const waiting = await startAndSettle(harness, buildHostWithMiddlewares([], { host: near }));

    expect(nextAnswers(harness)).toMatchObject([{ session: "new", request: "q1", result: '{"out":1}' }]);
    expect(await taskPhasesBySlot(harness, waiting)).toEqual({ "0": "ready" });
  });

  it("[E59] a next call that exceeds the caller's timeout is answered next_timeout, and the called task is stopped", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1", { timeoutMs: 400 });
    const inner = lastDispatchFor(worker, "0~1");
    await worker.ack(inner);

    await harness.advance(401);

    expect(nextAnswers(harness)).toMatchObject([{ request: "q1", error: { code: "next_timeout" } }]);
    expect(harness.stopsSent()).toMatchObject([{ task: inner.task, fence: inner.fence, code: "E.TIMEOUT" }]);
    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "hosting", "0~1": "cancelled", "1": "leased" });
    await succeedTask(worker, "1");
    expect((await harness.runDetail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
  });

  it("[E59] the time limit of a middleware's attempt applies beside the timeout of its next calls", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{ policy: { timeoutMs: 1_000, ...singleAttempt } }]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1", { timeoutMs: 300 });
    await worker.ack(lastDispatchFor(worker, "1"));
    await harness.advance(301);
    expect(await taskPhasesBySlot(harness, run)).toMatchObject({ "1": "leased" });

    await harness.advance(700);

    expect((await harness.runDetail(run)).run.phase).toBe("failed");
  });

  it("[E60] the tasks that a middleware called are stopped when its attempt ends, or fails and is retried", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const ended = await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await succeedTask(worker, "1");
    expect(await taskPhasesBySlot(harness, ended)).toEqual({ "0": "succeeded", "0~1": "cancelled", "1": "succeeded" });
    expect((await harness.runDetail(ended)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect(harness.stopsSent()).toMatchObject([{ task: `${ended}.0~1` }]);

    const retried = await startAndSettle(
      harness,
      buildHostWithMiddlewares([{ policy: { retry: { maxAttempts: 2, backoffMs: 0 } } }, {}]),
    );
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await callNext(worker, lastDispatchFor(worker, "2~1"), "q2");
    await worker.error("E.RUNNER.FAILURE", "no", lastDispatchFor(worker, "1"));
    expect(await taskPhasesBySlot(harness, retried)).toEqual({
      "0": "hosting",
      "0~1": "cancelled",
      "1": "leased",
      "2~1": "cancelled",
    });
    expect((await harness.runDetail(retried)).run.open).toBe(2);
    // Its answer goes nowhere.
    await expect(succeedTask(worker, "0~1")).resolves.toMatchObject({ applied: false });
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    expect(await taskPhasesBySlot(harness, retried)).toMatchObject({ "2~2": "leased" });
  });

  it("[E60] the run continues when the worker of a middleware is lost: the next attempt of the middleware makes its call again", async () => {
    const harness = await startHarness();
    const [a, b] = [await harness.joinWorker("a", { slots: 1 }), await harness.joinWorker("b", { slots: 1, pool: "other" })];
    const wrap = { policy: { pool: "default" } };
    const run = await startAndSettle(harness, buildHostWithMiddlewares([wrap], { host: { policy: { pool: "other" } } }));
    await callNext(a, lastDispatchFor(a, "1"), "q1");
    await a.ack(lastDispatchFor(a, "1"));
    await b.ack(lastDispatchFor(b, "0~1"));
    for (let beat = 0; beat < 35; beat++) {
      await harness.advance(1_000);
      await b.heartbeat(null);
    }

    expect(await taskPhasesBySlot(harness, run)).toEqual({ "0": "hosting", "0~1": "cancelled", "1": "ready" });
    const c = await harness.joinWorker("c", { slots: 1 });
    await harness.settle();
    await callNext(c, lastDispatchFor(c, "1"), "q1");
    await succeedTask(b, "0~2", { out: 1 });
    await succeedTask(c, "1");
    expect((await harness.runDetail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
  });

  it("[E61] every waiting next call is answered next_cancelled when the run is cancelled, and the tasks are stopped", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 4 });
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{}, {}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await callNext(worker, lastDispatchFor(worker, "2~1"), "q2");

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });

    expect(nextAnswers(harness).map(({ request, error }) => [request, error?.code])).toEqual([
      ["q1", "next_cancelled"],
      ["q2", "next_cancelled"],
    ]);
    expect(harness.stopsSent()).toHaveLength(3);
    expect((await harness.runDetail(run)).run).toMatchObject({ phase: "cancelled", open: 0 });
    for (const slot of ["1", "2~1"]) expect((await findTaskAt(harness, run, slot)).phase).toBe("cancelled");
  });

  it("[E62] a called task runs under the concurrency key that its caller holds", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 2 });
    const key = { concurrency: { key: "db", limit: 1 } };
    const run = await startAndSettle(harness, buildHostWithMiddlewares([{ policy: key }], { host: { policy: key } }));

    await callNext(worker, lastDispatchFor(worker, "1"), "q1");

    expect(lastDispatchFor(worker, "0~1").concurrencyKey).not.toBe("db");
    await succeedTask(worker, "0~1");
    await succeedTask(worker, "1");
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[E62] each next call is dispatched with its own concurrency key, so that calls of one node may run side by side", async () => {
    const harness = await startHarness();
    const worker = await harness.joinWorker("w", { slots: 3 });
    await startAndSettle(harness, buildHostWithMiddlewares([{}]));
    await callNext(worker, lastDispatchFor(worker, "1"), "q1");
    await callNext(worker, lastDispatchFor(worker, "1"), "q2");

    expect(lastDispatchFor(worker, "0~1").concurrencyKey).not.toBe(lastDispatchFor(worker, "0~2").concurrencyKey);
    expect(openCallsOf(await findTaskAt(harness, lastDispatchFor(worker, "1").run, "1"))).toHaveLength(2);
  });
});
