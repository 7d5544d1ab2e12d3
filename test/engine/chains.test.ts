// Middleware chains on the real driver: who is called, with what, who hears of it, and how a host ends.
import { describe, expect, it } from "vitest";
import { answers, begin, hosted, middlewareId, next, openCallsOf, phases, sentFor, taskAt } from "./chains-stage.ts";
import { type Crew, Harness, nodeId } from "./harness.ts";

const stage = async (settings: ConstructorParameters<typeof Harness>[0] = {}): Promise<Harness> =>
  await new Harness(settings).start();
type Status = "succeeded" | "failed" | "skipped";
async function end(crew: Crew, slot: string, status: Status, result: unknown = {}) {
  const answer = await crew.harness.ask(crew.resultCommand(sentFor(crew, slot), result, status));
  await crew.harness.settle();
  return answer;
}
const fail = (crew: Crew, slot: string) => end(crew, slot, "failed");
const skip = (crew: Crew, slot: string) => end(crew, slot, "skipped");
const done = (crew: Crew, slot: string, result: unknown = {}) => end(crew, slot, "succeeded", result);
const once = { retry: { maxAttempts: 1 } };

describe("a chain", () => {
  it("[E50] runs the outermost middleware for the host, and what it asks for next, with their places in the dispatch", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 4 });
    const run = await begin(world, hosted([{ params: { a: 1 } }, { params: { b: 2 } }], { host: { params: { c: 3 } } }));
    const chain = [middlewareId(0, 0), middlewareId(0, 1)];

    expect(crew.last).toMatchObject({ node: chain[0], params: '{"a":1}', hostNode: nodeId(0), chain, chainIndex: 0 });
    await next(crew, sentFor(crew, "1"), "q1");
    expect(crew.last).toMatchObject({ node: chain[1], params: '{"b":2}', hostNode: nodeId(0), chain, chainIndex: 1 });
    await next(crew, sentFor(crew, "2~1"), "q2");
    expect(crew.last).toMatchObject({ node: nodeId(0), params: '{"c":3}', hostNode: nodeId(0), chain });
    expect(crew.last).not.toHaveProperty("chainIndex");
    expect(await phases(world, run)).toEqual({ "0": "hosting", "0~1": "leased", "1": "leased", "2~1": "leased" });

    await done(crew, "0~1", { out: "host" });
    expect(answers(world).at(-1)).toMatchObject({ task: `${run}.2~1`, request: "q2", result: '{"out":"host"}', error: null });
    await done(crew, "2~1", { seen: true });
    expect(answers(world).at(-1)).toMatchObject({ task: `${run}.1`, request: "q1", result: '{"seen":true}', error: null });
    await done(crew, "1", { wrapped: true });

    expect((await world.detail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect(await phases(world, run)).toMatchObject({ "0": "succeeded", "2": "succeeded" });
    expect((await taskAt(world, run, "0")).result).toBe('{"out":"host"}');
  });

  it("[E50] lets the node behind the host go on with the host's result once the outermost has ended", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const run = await begin(world, hosted([{}], { length: 2 }));
    await next(crew, sentFor(crew, "2"), "q");
    await done(crew, "0~1", { out: 7 });
    expect(await phases(world, run)).not.toHaveProperty("1");

    await done(crew, "2");

    expect(sentFor(crew, "1").params).toBe('{"in":7}');
  });

  it("[E51] merges the payload over the parameters, and hands the contexts on to the host through all layers", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 4 });
    await begin(world, hosted([{}, { params: { deep: { x: 1, y: 2 } } }], { host: { params: { keep: 1, drop: 2 } } }));

    await next(crew, sentFor(crew, "1"), "q1", { payload: { deep: { x: 9 } }, hostCtx: { user: "u" }, middlewareCtx: { m: 1 } });
    expect(JSON.parse(sentFor(crew, "2~1").params)).toEqual({
      deep: { x: 9, y: 2 },
      __next: { hostCtx: { user: "u" }, middlewareCtx: { m: 1 } },
    });
    await next(crew, sentFor(crew, "2~1"), "q2", { payload: { drop: null, add: true } });

    expect(JSON.parse(sentFor(crew, "0~1").params)).toEqual({ keep: 1, add: true, __next: { hostCtx: { user: "u" } } });
  });

  it("[E52] runs the next again for every new request, each a task of its own; the host keeps its last good result", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const run = await begin(world, hosted([{}], { host: { policy: once } }));
    for (const turn of [1, 2, 3]) {
      await next(crew, sentFor(crew, "1"), `q${turn}`);
      if (turn < 3) await done(crew, `0~${turn}`, { turn });
      else await fail(crew, "0~3");
    }
    expect(answers(world).map(({ error }) => error?.code ?? null)).toEqual([null, null, "next_failed"]);
    await done(crew, "1");

    expect(await phases(world, run)).toMatchObject({ "0": "succeeded", "0~1": "succeeded", "0~2": "succeeded", "0~3": "failed" });
    expect((await taskAt(world, run, "0")).result).toBe('{"turn":2}');
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[E53] ends a host that was never called as skipped, and inner middlewares with it", async () => {
    const world = await stage();
    const crew = await world.join("w");
    const run = await begin(world, hosted([{}, {}], { length: 2 }));

    await done(crew, "2");

    expect(await phases(world, run)).toMatchObject({ "0": "skipped", "2": "succeeded", "3": "skipped" });
    await done(crew, "1");
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[E53] ends the host as skipped when a middleware does, the outermost or one inside", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 3 });
    const outer = await begin(world, hosted([{}]));
    await skip(crew, "1");
    expect(await phases(world, outer)).toEqual({ "0": "skipped", "1": "skipped" });

    const inner = await begin(world, hosted([{}, {}]));
    await next(crew, sentFor(crew, "1"), "q1");
    await next(crew, sentFor(crew, "2~1"), "q2");
    await done(crew, "0~1", { out: 1 });
    await next(crew, sentFor(crew, "1"), "q3");
    await skip(crew, "2~2");
    expect(answers(world).at(-1)?.error?.code).toBe("next_skipped");
    await done(crew, "1");

    expect(await phases(world, inner)).toMatchObject({ "0": "skipped", "0~1": "succeeded", "2": "skipped" });
  });

  it("[E53] skips a middleware inside that an operator has marked: its caller hears so, and the host is skipped", async () => {
    const world = await stage();
    const crew = await world.join("w");
    const run = await begin(world, hosted([{}, {}]));
    await world.ask({ type: "run.skip", tenant: "t1", by: "me", run, node: middlewareId(0, 1), reason: "not today" });

    await next(crew, sentFor(crew, "1"), "q1");
    expect(answers(world)).toMatchObject([{ request: "q1", error: { code: "next_skipped" } }]);
    await done(crew, "1");

    expect(await phases(world, run)).toEqual({ "0": "skipped", "1": "succeeded", "2": "skipped", "2~1": "skipped" });
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[E54] fails the host with the error of its outermost middleware, and the run with it", async () => {
    const world = await stage();
    const crew = await world.join("w");
    const run = await begin(world, hosted([{ policy: once }]));

    await crew.error("E.RUNNER.FAILURE", "wrap broke");

    const { run: row } = await world.detail(run);
    expect(row.phase).toBe("failed");
    expect(JSON.parse(row.error ?? "{}")).toMatchObject({
      message: "wrap broke",
      details: { node: nodeId(0), middleware: middlewareId(0, 0) },
    });
    expect(await phases(world, run)).toEqual({ "0": "failed", "1": "failed" });
  });

  it("[E54] leaves it to the caller what the failure of a call means: no letter, and the run goes on", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const run = await begin(world, hosted([{}], { host: { policy: once } }));
    await next(crew, sentFor(crew, "1"), "q");
    await crew.error("E.RUNNER.FAILURE", "it broke", sentFor(crew, "0~1"));

    expect(answers(world)).toMatchObject([{ result: null, error: { code: "next_failed" } }]);
    expect(answers(world)[0]?.error?.message).toContain("it broke");
    await done(crew, "1");

    expect(await phases(world, run)).toMatchObject({ "0": "succeeded" });
    expect(await world.facts()).not.toContain("task.dead");
  });

  it("[E55] copies what the middlewares' output ports say into the host's result, the outermost last", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 3 });
    const run = await begin(world, hosted([{ output: "results.note" }, { output: "results.note" }]));
    await next(crew, sentFor(crew, "1"), "q1");
    await next(crew, sentFor(crew, "2~1"), "q2");
    await done(crew, "0~1", { out: 1 });
    await done(crew, "2~1", { note: "inner" });
    await done(crew, "1", { note: "outer", other: 2 });

    expect(JSON.parse((await taskAt(world, run, "0")).result ?? "")).toEqual({ out: 1, note: "outer" });
    expect((await taskAt(world, run, "2")).result).toBe('{"note":"inner"}');
  });

  it("[E55] carries values into the ports of a middleware, and out of those of an inner one", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 3 });
    const drawn = hosted([{}, { output: "results.note" }], { length: 3, at: 1 });
    const [first, host, last] = drawn.nodes as [
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
    await begin(world, { ...drawn, nodes: [first, { ...host, middlewares }, last], edges });

    await done(crew, "0", { out: "from the first" });
    await next(crew, sentFor(crew, "3"), "q1");
    expect(JSON.parse(sentFor(crew, "4~1").params)).toEqual({ hint: "from the first" });
    await done(crew, "4~1", { note: "from inside" });
    await done(crew, "3");

    expect(JSON.parse(sentFor(crew, "2").params)).toEqual({ in: "from inside" });
  });

  it("[E56] tells the log who asked for what, and how it was answered", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const run = await begin(world, hosted([{}]));
    await next(crew, sentFor(crew, "1"), "q1");
    await world.advance(25);
    await done(crew, "0~1");

    const { items } = await world.store.events({ tenant: "t1", after: 0, limit: 100, types: ["next."] });
    expect(items.map(({ type, data }) => ({ type, ...data }))).toEqual([
      { type: "next.asked", task: `${run}.1`, request: "q1", target: `${run}.0~1` },
      { type: "next.answered", task: `${run}.1`, request: "q1", target: `${run}.0~1`, code: null, ms: 25 },
    ]);
    expect(answers(world)[0]?.trace).toMatchObject({ task: `${run}.0~1`, status: "succeeded", attempts: 1, call: 1 });
  });

  it("[A374] name the worker as people do, and never its tenant", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    await begin(world, hosted([{}]));
    await next(crew, sentFor(crew, "1"), "q1");
    await done(crew, "0~1");

    expect(answers(world)[0]?.trace).toMatchObject({ worker: "w" });
  });
});

describe("requests", () => {
  it("[E57] answers a repeated request from the row, or lets it wait on; nothing runs twice", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const run = await begin(world, hosted([{}]));
    const outer = sentFor(crew, "1");
    await next(crew, outer, "q1");
    await expect(next(crew, outer, "q1")).resolves.toMatchObject({ applied: false });
    await done(crew, "0~1", { out: 1 });

    await next(crew, outer, "q1");

    expect(answers(world)).toMatchObject([
      { request: "q1", result: '{"out":1}' },
      { request: "q1", result: '{"out":1}' },
    ]);
    expect(Object.keys(await phases(world, run)).sort()).toEqual(["0", "0~1", "1"]);
  });

  it("[E57] keeps requests of two workers with one id apart", async () => {
    const world = await stage();
    const [a, b] = [await world.join("a", { slots: 2 }), await world.join("b", { slots: 2 })];
    const runs = [await begin(world, hosted([{}])), await begin(world, hosted([{}]))];
    const crewOf = (run: string) => (a.sent.some((one) => one.run === run) ? a : b);
    for (const run of runs) {
      const crew = crewOf(run);
      await next(crew, crew.sent.find((one) => one.task === `${run}.1`) as never, "next-1");
    }
    const inner = [...a.sent, ...b.sent].filter((one) => one.task.endsWith("0~1"));
    expect(inner).toHaveLength(2);
    for (const one of inner) {
      const crew = a.sent.includes(one) ? a : b;
      await crew.done({ of: one.run }, one);
    }

    expect(answers(world).map(({ run, result }) => [run, result])).toEqual(
      inner.map((one) => [one.run, JSON.stringify({ of: one.run })]),
    );
  });

  it("[E57] asks anew in a new process of the worker, whose ids begin again", async () => {
    const world = await stage();
    const first = await world.join("w", { slots: 2, boot: "b1" });
    const run = await begin(world, hosted([{}]));
    const outer = sentFor(first, "1");
    await next(first, outer, "next-1");
    await done(first, "0~1", { n: 1 });
    // It names the attempt although its process is another: the row says under which one the request was made.
    const second = await world.join("w", { slots: 2, boot: "b2", running: [{ task: outer.task, fence: outer.fence }] });
    await next(second, outer, "next-1");

    expect(await phases(world, run)).toMatchObject({ "0~2": "leased" });
  });

  it("[E58] refuses with the reason: no chain, too many at once, host gone, run over", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 200 });
    await begin(world, hosted([], {}));
    await next(crew, sentFor(crew, "0"), "q");
    expect(answers(world).at(-1)).toMatchObject({ result: null, error: { code: "next_no_chain" } });

    const run = await begin(world, hosted([{}]));
    const outer = sentFor(crew, "1");
    for (let call = 0; call < 64; call++) await next(crew, outer, `q${call}`);
    await next(crew, outer, "one too many");
    expect(answers(world).at(-1)?.error?.code).toBe("next_unavailable");

    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await next(crew, outer, "too late");
    expect(answers(world).at(-1)).toMatchObject({ request: "too late", error: { code: "next_run_finalised" } });
  });

  it("[E58] answers `next_unavailable` where no worker took the next in its time, `next_failed` where its parameters are wrong", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 4 });
    await begin(world, hosted([{}], { host: { policy: { pool: "nowhere", queueTimeoutMs: 500 } } }));
    await next(crew, sentFor(crew, "1"), "q1");
    await world.advance(501);
    expect(answers(world).at(-1)?.error?.code).toBe("next_unavailable");

    const drawn = hosted([{}]);
    const [host] = drawn.nodes as [object];
    const schema = { parameters: { type: "object", properties: { n: { type: "number" } } } };
    const run = await begin(world, { ...drawn, nodes: [{ ...host, schema }] });
    await next(crew, sentFor(crew, "1"), "q2", { payload: { n: "text" } });

    expect(answers(world).at(-1)).toMatchObject({ run, error: { code: "next_failed" } });
    expect(answers(world).at(-1)?.error?.message).toContain("parameters.n");
    expect(await phases(world, run)).toEqual({ "0": "hosting", "0~1": "failed", "1": "leased" });
  });

  it("[E58] tells a stranger nothing", async () => {
    const world = await stage();
    const crew = await world.join("w");
    const thief = await world.join("thief", { tenant: "t2" });
    await begin(world, hosted([{}]));

    await expect(next(thief, crew.last, "q")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await expect(next(thief, { task: "no.1", fence: 1 }, "q")).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    expect(answers(world)).toEqual([]);
  });
});

describe("waiting", () => {
  it("[B40] takes no slot while it waits, so that a worker with one slot runs a whole chain", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 1, perNodeLimits: { "test.wrap": 1 } });
    const run = await begin(world, hosted([{}, {}, {}]));

    await next(crew, sentFor(crew, "1"), "q1");
    await next(crew, sentFor(crew, "2~1"), "q2");
    await next(crew, sentFor(crew, "3~1"), "q3");
    const other = await begin(world, hosted([]));
    expect(await phases(world, other)).toEqual({ "0": "ready" });
    for (const slot of ["0~1", "3~1", "2~1", "1"]) await done(crew, slot);

    expect((await world.detail(run)).run.phase).toBe("succeeded");
    expect(await phases(world, other)).toEqual({ "0": "leased" });
  });

  it("[B40] takes its slot again when it goes on: nothing new is granted beyond the slots", async () => {
    const world = await stage();
    const [a, b] = [await world.join("a", { slots: 1 }), await world.join("b", { slots: 1, pool: "other" })];
    await begin(world, hosted([{}], { host: { policy: { pool: "other" } } }));
    await next(a, sentFor(a, "1"), "q1");
    const mine = hosted([], { host: { policy: { pool: "default" } } });
    await begin(world, mine);
    expect(a.last.task.endsWith(".0")).toBe(true);
    const waiting = await begin(world, mine);

    await done(b, "0~1");
    expect(await phases(world, waiting)).toEqual({ "0": "ready" });
    await a.done({}, a.last);
    expect(await phases(world, waiting)).toEqual({ "0": "ready" });
    await done(a, "1");

    expect(await phases(world, waiting)).toEqual({ "0": "leased" });
  });

  it("[B40] reads from the row whether an attempt waits when its worker joins again", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 1 });
    const run = await begin(world, hosted([{}]));
    const outer = sentFor(crew, "1");
    await next(crew, outer, "q1");
    const inner = sentFor(crew, "0~1");
    await crew.error("E.RUNNER.CANCELLED", "not now", inner);
    const again = await world.join("w", { slots: 1, running: [{ task: outer.task, fence: outer.fence }] });

    await world.settle();
    await next(again, outer, "q1");

    expect(sentFor(again, "0~1").fence).toBeGreaterThan(inner.fence);
    await done(again, "0~1", { out: 1 });
    expect(answers(world).at(-1)).toMatchObject({ session: again.session, result: '{"out":1}' });
    await again.done({}, outer);
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[B41] owes the answer to a worker that is away, and tells it at the next join", async () => {
    const world = await stage();
    const [a, b] = [await world.join("a", { slots: 1 }), await world.join("b", { slots: 1, pool: "other" })];
    const run = await begin(world, hosted([{}], { host: { policy: { pool: "other" } } }));
    const outer = sentFor(a, "1");
    await next(a, outer, "q1");
    await a.leave();
    await done(b, "0~1", { out: 5 });
    expect(answers(world)).toEqual([]);

    const back = await world.join("a", { slots: 1, session: a.session, boot: a.boot, resumed: { unacked: [] } });

    expect(answers(world)).toMatchObject([{ session: back.session, request: "q1", result: '{"out":5}' }]);
    await back.done({}, outer);
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[B41] tells a session that joins in the very turn of the answer, and the slot is taken again", async () => {
    const world = await stage();
    const b = await world.join("b", { slots: 1, pool: "other" });
    const a = await world.join("a", { slots: 1 });
    const near = { policy: { pool: "default" } };
    await begin(world, hosted([near], { host: { policy: { pool: "other" } } }));
    const { task, fence } = sentFor(a, "1");
    await next(a, { task, fence }, "q1");
    await a.leave();
    const about = { slots: 1, packages: [{ name: "test", version: "1.0.0", status: "installed" }], runtimes: [], features: [] };
    const face = { ...about, payloadTypes: [], pool: "default", tags: {}, hostname: "h", version: "1", dialect: "v2" };
    const join = {
      type: "worker.join",
      tenant: "t1",
      worker: a.worker,
      name: "a",
      boot: a.boot,
      session: "new",
      about: face,
    } as const;

    await Promise.all(world.askAll([{ ...join, running: [{ task, fence }] }, b.resultCommand(sentFor(b, "0~1"), { out: 1 })]));
    const waiting = await begin(world, hosted([], { host: near }));

    expect(answers(world)).toMatchObject([{ session: "new", request: "q1", result: '{"out":1}' }]);
    expect(await phases(world, waiting)).toEqual({ "0": "ready" });
  });

  it("[E59] answers `next_timeout` when the caller's time is up, and stops what it called", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const run = await begin(world, hosted([{}]));
    await next(crew, sentFor(crew, "1"), "q1", { timeoutMs: 400 });
    const inner = sentFor(crew, "0~1");
    await crew.ack(inner);

    await world.advance(401);

    expect(answers(world)).toMatchObject([{ request: "q1", error: { code: "next_timeout" } }]);
    expect(world.stops()).toMatchObject([{ task: inner.task, fence: inner.fence, code: "E.TIMEOUT" }]);
    expect(await phases(world, run)).toEqual({ "0": "hosting", "0~1": "cancelled", "1": "leased" });
    await done(crew, "1");
    expect((await world.detail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
  });

  it("[E59] keeps the time of the attempt itself beside that of its calls", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const run = await begin(world, hosted([{ policy: { timeoutMs: 1_000, ...once } }]));
    await next(crew, sentFor(crew, "1"), "q1", { timeoutMs: 300 });
    await crew.ack(sentFor(crew, "1"));
    await world.advance(301);
    expect(await phases(world, run)).toMatchObject({ "1": "leased" });

    await world.advance(700);

    expect((await world.detail(run)).run.phase).toBe("failed");
  });

  it("[E60] stops what it called when its own attempt is over: ended, failed and tried again, or taken back", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 4 });
    const ended = await begin(world, hosted([{}]));
    await next(crew, sentFor(crew, "1"), "q1");
    await done(crew, "1");
    expect(await phases(world, ended)).toEqual({ "0": "succeeded", "0~1": "cancelled", "1": "succeeded" });
    expect((await world.detail(ended)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect(world.stops()).toMatchObject([{ task: `${ended}.0~1` }]);

    const retried = await begin(world, hosted([{ policy: { retry: { maxAttempts: 2, backoffMs: 0 } } }, {}]));
    await next(crew, sentFor(crew, "1"), "q1");
    await next(crew, sentFor(crew, "2~1"), "q2");
    await crew.error("E.RUNNER.FAILURE", "no", sentFor(crew, "1"));
    expect(await phases(world, retried)).toEqual({ "0": "hosting", "0~1": "cancelled", "1": "leased", "2~1": "cancelled" });
    expect((await world.detail(retried)).run.open).toBe(2);
    // Its answer goes nowhere.
    await expect(done(crew, "0~1")).resolves.toMatchObject({ applied: false });
    await next(crew, sentFor(crew, "1"), "q1");
    expect(await phases(world, retried)).toMatchObject({ "2~2": "leased" });
  });

  it("[E60] goes on when the worker of a middleware is lost: its next attempt asks again", async () => {
    const world = await stage();
    const [a, b] = [await world.join("a", { slots: 1 }), await world.join("b", { slots: 1, pool: "other" })];
    const wrap = { policy: { pool: "default" } };
    const run = await begin(world, hosted([wrap], { host: { policy: { pool: "other" } } }));
    await next(a, sentFor(a, "1"), "q1");
    await a.ack(sentFor(a, "1"));
    await b.ack(sentFor(b, "0~1"));
    for (let beat = 0; beat < 35; beat++) {
      await world.advance(1_000);
      await b.beat(null);
    }

    expect(await phases(world, run)).toEqual({ "0": "hosting", "0~1": "cancelled", "1": "ready" });
    const c = await world.join("c", { slots: 1 });
    await world.settle();
    await next(c, sentFor(c, "1"), "q1");
    await done(b, "0~2", { out: 1 });
    await done(c, "1");
    expect((await world.detail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
  });

  it("[E61] answers every waiting call when the run is cancelled, before the stop", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 4 });
    const run = await begin(world, hosted([{}, {}]));
    await next(crew, sentFor(crew, "1"), "q1");
    await next(crew, sentFor(crew, "2~1"), "q2");

    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });

    expect(answers(world).map(({ request, error }) => [request, error?.code])).toEqual([
      ["q1", "next_cancelled"],
      ["q2", "next_cancelled"],
    ]);
    expect(world.stops()).toHaveLength(3);
    expect((await world.detail(run)).run).toMatchObject({ phase: "cancelled", open: 0 });
    for (const slot of ["1", "2~1"]) expect((await taskAt(world, run, slot)).phase).toBe("cancelled");
  });

  it("[E62] lets what is called run under the concurrency key that its caller holds", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 2 });
    const key = { concurrency: { key: "db", limit: 1 } };
    const run = await begin(world, hosted([{ policy: key }], { host: { policy: key } }));

    await next(crew, sentFor(crew, "1"), "q1");

    expect(sentFor(crew, "0~1").concurrencyKey).not.toBe("db");
    await done(crew, "0~1");
    await done(crew, "1");
    expect((await world.detail(run)).run.phase).toBe("succeeded");
  });

  it("[E62] gives each call its own key on the wire: calls of one node may run side by side", async () => {
    const world = await stage();
    const crew = await world.join("w", { slots: 3 });
    await begin(world, hosted([{}]));
    await next(crew, sentFor(crew, "1"), "q1");
    await next(crew, sentFor(crew, "1"), "q2");

    expect(sentFor(crew, "0~1").concurrencyKey).not.toBe(sentFor(crew, "0~2").concurrencyKey);
    expect(openCallsOf(await taskAt(world, sentFor(crew, "1").run, "1"))).toHaveLength(2);
  });
});
