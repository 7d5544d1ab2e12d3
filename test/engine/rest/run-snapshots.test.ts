// Runs as they were, ledgers, logs and artifacts over REST on the real engine.
import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import { MemoryCluster } from "@astraflow/store";
import { afterEach, describe, expect, it } from "vitest";
import {
  buildChain,
  buildWorkflow,
  EngineHarness,
  type HarnessOptions,
  nodeId,
  type TestWorker,
} from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const tokens = createTokenAuthenticator([
  { token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view", "operate"] },
  { token: "mallory", tenant: "other", user: "mal", grants: ["read", "edit", "view", "operate"] },
]);

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});

async function openFixture(options: HarnessOptions = {}) {
  const harness = await new EngineHarness(options).start();
  cleanups.push(() => harness.engine.stop());
  const bench = openWorkflowFixture({ engineClient: createHarnessLink(harness), reader: harness.store, authenticate: tokens });
  const get = (
    name: Parameters<typeof bench.callRoute>[0],
    runId: string,
    query: Record<string, string> = {},
    more: object = {},
  ) => bench.callRoute(name, { params: { runId, ...more }, query });
  return { world: harness, bench, get };
}

const sendFeedback = (worker: TestWorker, data: Record<string, unknown>) =>
  worker.harness.ask({
    type: "task.feedback",
    tenant: "t1",
    worker: worker.worker,
    session: worker.session,
    task: worker.lastDispatch.task,
    fence: worker.lastDispatch.fence,
    data,
  });

describe("a run as it was", () => {
  it("[A280] a run read at an older position shows feedback, acks and attempts as of then", async () => {
    const { world: harness, get } = await openFixture();
    const worker = await harness.joinWorker("w");
    const policy = { retry: { maxAttempts: 2, backoffMs: 100 } };
    const run = await harness.startRun(buildChain(2, { policy }));
    const snapshots: { asOf: number; nodes: { status: string; state: object; pendingAck: boolean; attempt: number }[] }[] = [];
    const look = async () => snapshots.push((await get("getRun", run)).body);
    await harness.settle();
    await look();
    await worker.ack();
    await harness.advance(2_000);
    await sendFeedback(worker, { stage: "half", progress: 0.5, message: "on it", metrics: { rows: 3 } });
    await look();
    await worker.error("E.RUNNER.FAILURE");
    await look();
    await harness.advance(200);
    await look();
    await worker.succeed({ out: 1 });
    await worker.succeed({ out: 2 });
    await look();

    for (const seen of snapshots) {
      const { body } = await get("getRun", run, { at: String(seen.asOf) });
      expect(body).toEqual({ ...seen, at: seen.asOf });
    }
    const [granted, half, parked, again] = snapshots.map(({ nodes }) => nodes[0]);
    expect(granted).toMatchObject({ status: "running", pendingAck: true });
    expect(half).toMatchObject({ pendingAck: false, state: { stage: "half", progress: 0.5 }, metrics: { rows: 3 } });
    expect(parked).toMatchObject({ status: "queued", attempt: 1, state: { stage: "parked" } });
    expect(again).toMatchObject({ status: "running", attempt: 2 });
  });

  it("[A281] reading a run at a position is refused beyond the end of the log, before the run existed, and where its facts were removed", async () => {
    const clock = { wall: () => 1_800_000_000_000, mono: () => 1_800_000_000_000 };
    const cluster = new MemoryCluster({ mode: "strong", random: { random: () => 0.5 }, clock });
    const { world: harness, bench, get } = await openFixture({ store: cluster.createHandle() });
    const worker = await harness.joinWorker("w");
    await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.succeed({});
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    const { asOf } = (await get("getRun", run)).body;
    const [born = 0] = (await get("listRunEvents", run)).body.items.map(({ position }: { position: number }) => position);

    expect((await get("getRun", run, { at: String(asOf + 1) })).body).toMatchObject({
      error: "E.CURSOR.UNKNOWN",
      details: { path: "query.at", head: asOf },
    });
    expect((await get("getRun", run, { at: "x" })).status).toBe(400);
    expect((await get("getRun", run, { at: String(born - 1) })).body).toMatchObject({
      error: "E.NOT_FOUND",
      message: `run ${run} did not exist at ${born - 1}; it was created later`,
    });
    expect((await get("getRun", run, { at: String(born) })).body).toMatchObject({ status: "queued", at: born });
    cluster.trim("t1", born - 1);
    expect((await get("getRun", run, { at: String(asOf) })).status).toBe(200);
    expect((await get("getRunLedger", run)).status).toBe(200);
    cluster.trim("t1", born);
    const fresh = openWorkflowFixture({ engineClient: createHarnessLink(harness), reader: harness.store, authenticate: tokens });
    for (const at of [born - 1, asOf]) {
      const { status, body } = await fresh.callRoute("getRun", { params: { runId: run }, query: { at: String(at) } });
      expect([status, body.error]).toEqual([410, "E.CURSOR.EXPIRED"]);
    }
    expect((await fresh.callRoute("getRunLedger", { params: { runId: run } })).body.error).toBe("E.CURSOR.EXPIRED");
    expect((await fresh.callRoute("getLedger")).body).toMatchObject({ error: "E.CURSOR.EXPIRED", details: { floor: born } });
    cluster.trim("t1", asOf);
    expect((await fresh.callRoute("getRun", { params: { runId: run }, query: { at: String(asOf) } })).status).toBe(410);
    const foreign = await bench.callRoute("getRun", { as: "mallory", params: { runId: run }, query: { at: "1" } });
    const missing = await bench.callRoute("getRun", { as: "mallory", params: { runId: "nobody" }, query: { at: "1" } });
    expect(foreign.body.message.replace(run, "nobody")).toBe(missing.body.message);
  });

  it("[A282] a run at an older position shows results of ended nodes and parameters of granted ones, in single and paged reads", async () => {
    const { world: harness, get } = await openFixture();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(
      buildWorkflow(
        [{ params: { city: "Oslo" } }, {}, {}],
        [
          [0, 2],
          [1, 2],
        ],
      ),
    );
    await harness.settle();
    const { asOf: first } = (await get("getRun", run)).body;
    await worker.succeed({ out: "one" });
    const { asOf: second } = (await get("getRun", run)).body;
    await worker.succeed({ out: "two" });
    await worker.succeed({ out: "three" });
    const node = async (n: number, at: number) => (await get("getRunNode", run, { at: String(at) }, { nodeId: nodeId(n) })).body;

    expect(await node(0, first)).toMatchObject({
      at: first,
      asOf: first,
      parameters: { city: "Oslo" },
      node: { status: "running" },
    });
    expect((await node(0, first)).node).not.toHaveProperty("result");
    expect(await node(0, second)).toMatchObject({ node: { status: "succeeded", result: { out: "one" } } });
    expect(await node(2, first)).not.toHaveProperty("parameters");
    expect(await node(2, second)).toMatchObject({ node: { status: "queued", state: { stage: "waiting" } } });
    const value = { path: "results.out", at: String(second) };
    expect((await get("getRunNode", run, value, { nodeId: nodeId(0) })).body.value).toBe("one");
    expect((await get("getRunNode", run, value, { nodeId: nodeId(1) })).body.error).toBe("E.NOT_FOUND");
    const page = (await get("listRunNodes", run, { at: String(second), limit: "2" })).body;
    expect(page.items.map(({ status }: { status: string }) => status)).toEqual(["succeeded", "running"]);
    const rest = (await get("listRunNodes", run, { at: String(second), limit: "2", cursor: page.nextCursor })).body;
    expect(rest).toMatchObject({ items: [{ nodeId: nodeId(2), status: "queued" }], nextCursor: null, at: second, asOf: second });
    const queued = (await get("listRunNodes", run, { at: String(second), status: "queued" })).body;
    expect(queued.items).toHaveLength(1);
  });

  it("[A288] every node of a run has a state: unreached ones are waiting, with their host and their place in its chain", async () => {
    const { world: harness, get } = await openFixture();
    const workflow = buildChain(2) as { nodes: { id: string; position?: object }[] };
    const [, last] = workflow.nodes;
    const { position: _, ...like } = last as { id: string; position?: object };
    const run = await harness.startRun({
      ...workflow,
      nodes: [workflow.nodes[0], { ...last, middlewares: [{ ...like, id: nodeId(70) }] }],
    });

    const { nodes } = (await get("getRun", run)).body;

    expect(nodes[1].state).toEqual({ stage: "waiting", middlewares: [nodeId(70)], host_node_id: null, chain_index: null });
    expect(nodes[2].state).toEqual({ stage: "waiting", host_node_id: nodeId(1), chain_index: 0 });
  });
});

describe("what the log tells", () => {
  it("[A290] the log records that a join waits, why a task was cancelled, and how a run that is being closed will end", async () => {
    const { world: harness } = await openFixture({ settings: { sweepTasksMax: 2 } });
    const worker = await harness.joinWorker("w", { slots: 2 });
    const run = await harness.startRun(
      buildWorkflow(
        [{}, {}, {}, {}, {}],
        [
          [0, 4],
          [1, 4],
        ],
      ),
    );
    await harness.settle();
    await worker.succeed({ out: 1 }, worker.dispatchesSent[0]);
    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    await harness.settle();
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, subject: `run/${run}` });
    const data = (type: string) => items.filter((item) => item.type === type).map((item) => item.data);

    expect(data("task.waiting")).toEqual([{ task: `${run}.4` }]);
    expect(data("run.ending")).toEqual([{ verdict: "cancelled", error: { code: "E.RUNNER.CANCELLED", message: "enough" } }]);
    expect(data("task.cancelled")).toHaveLength(4);
    for (const one of data("task.cancelled")) expect(one).toMatchObject({ error: { code: "E.RUNNER.CANCELLED" } });
  });

  it("[A285] the log records at most 20 late outcomes per task, each with the current fence, and nothing else changes", async () => {
    const { world: harness, get } = await openFixture();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(1));
    await harness.settle();
    const old = worker.lastDispatch;
    await harness.advance(5_001);
    const held = worker.lastDispatch;
    await expect(worker.succeed({ out: "late" }, old)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    await worker.succeed({ out: "right" });
    for (let again = 0; again < 30; again++)
      await expect(worker.succeed({ out: again }, held)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });
    await expect(worker.succeed({}, { task: held.task, fence: held.fence + 9 })).rejects.toMatchObject({
      code: "E.SESSION.STALE_BINDING",
    });
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, types: ["task.refused"] });

    expect(items).toHaveLength(20);
    expect(items[0]?.data).toMatchObject({
      fence: old.fence,
      holds: held.fence,
      worker: "t1/w",
      code: "E.SESSION.STALE_BINDING",
    });
    expect(items[1]?.data).toMatchObject({ fence: held.fence, holds: held.fence, code: "E.RESULT.DUPLICATE" });
    expect((await get("getRun", run)).body.nodes[0]).toMatchObject({ status: "succeeded", result: { out: "right" } });
  });
});

describe("why a task waits", () => {
  it("[B90] the placement of a task that waits for a slot of a cancelled one counts what its worker cannot stop", async () => {
    const { world: harness, get } = await openFixture();
    const worker = await harness.joinWorker("w", { dialect: "first", running: null, features: [], boot: "b1" });
    const cancelled = await harness.startRun(buildChain(1));
    await harness.settle();
    await worker.ack();
    await harness.ask({ type: "run.cancel", tenant: "t1", by: "tester", run: cancelled, reason: "enough" });
    const waiting = await harness.startRun(buildChain(1));
    await worker.heartbeat(null);

    const { workers } = (await get("getPlacement", waiting, {}, { nodeId: nodeId(0) })).body;

    expect(workers).toMatchObject([{ code: "slots", facts: { slots: 1, busy: 1, unstopped: 1 } }]);
  });
});

describe("the ledger", () => {
  it("[A283] the ledger of a run counts accepted, finished and repeated work, and shows that nothing was lost or finished twice", async () => {
    const { world: harness, get } = await openFixture();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(2));
    await harness.settle();
    const old = worker.lastDispatch;
    await worker.ack();
    // A new process that does not name the attempt has lost it.
    const next = await harness.joinWorker("w", { boot: "next" });
    await harness.settle();
    await expect(next.succeed({}, old)).rejects.toMatchObject({ code: "E.SESSION.STALE_BINDING" });
    const early = (await get("getRunLedger", run)).body;
    await next.succeed({ out: 1 });
    await next.succeed({ out: 2 });

    const { body } = await get("getRunLedger", run);

    expect(early.figures).toMatchObject({ accepted: 1, finished: 0, open: 1, attempts: 2, repeated: 1, refusedLate: 1 });
    expect(body).toMatchObject({
      runId: run,
      figures: { accepted: 2, finished: 2, open: 0, attempts: 3, repeated: 1, refusedLate: 1, lost: 0, twice: 0 },
    });
    expect(body.from).toBeLessThan(body.to);
    expect(body.asOf).toBeGreaterThanOrEqual(body.to);
    expect((await get("getRunLedger", "nobody")).body.error).toBe("E.NOT_FOUND");
  });

  it("[A284] the ledger of the log is read in bounded ranges whose figures add up", async () => {
    const { world: harness, bench } = await openFixture();
    const worker = await harness.joinWorker("w");
    for (let n = 0; n < 3; n++) {
      await harness.startRun(buildChain(2));
      await harness.settle();
      await worker.succeed({ out: 1 });
      await worker.succeed({ out: 2 });
    }
    const whole = (await bench.callRoute("getLedger")).body;

    const sums: Record<string, number> = {};
    let after: number | null = 0;
    while (after !== null) {
      const { body } = await bench.callRoute("getLedger", { query: { after: String(after), limit: "7" } });
      expect(body.from).toBe(after + 1);
      expect(body.to - after).toBeLessThanOrEqual(7);
      for (const [name, figure] of Object.entries(body.figures)) sums[name] = (sums[name] ?? 0) + Number(figure);
      after = body.next;
    }

    expect(whole).toMatchObject({ figures: { accepted: 6, finished: 6, open: 0, lost: 0, twice: 0 }, next: null });
    expect(sums).toEqual(whole.figures);
    for (const query of [{ limit: "0" }, { limit: "10001" }, { after: "-1" }] as Record<string, string>[])
      expect((await bench.callRoute("getLedger", { query })).body.error).toBe("E.REQUEST.INVALID");
    const query = { after: String(whole.asOf + 1) };
    expect((await bench.callRoute("getLedger", { query })).body.error).toBe("E.CURSOR.UNKNOWN");
    expect((await bench.callRoute("getLedger", { as: "mallory" })).body.figures.accepted).toBe(0);
  });
});

describe("runs of many tasks", () => {
  it("[A287] the output of every task of a large run is paged, also beyond the first 1,000 tasks", async () => {
    const { world: harness, get } = await openFixture();
    const worker = await harness.joinWorker("w", { slots: 2_000 });
    const pair = buildChain(2) as { nodes: { ui: object }[]; edges: object[] };
    const nodes = Array.from({ length: 1_100 }, (_, n) => ({
      ...pair.nodes[0],
      id: nodeId(n),
      ui: n === 998 || n === 1_099 ? pair.nodes[0]?.ui : {},
    }));
    const edge = { id: "e", source: { node: nodeId(998), port: "out" }, target: { node: nodeId(1_099), port: "in" } };
    const run = await harness.startRun({ ...pair, nodes, edges: [edge] });
    for (let turns = 0; worker.dispatchesSent.length < 1_099 && turns < 20; turns++) await harness.advance(1);
    const printing = worker.dispatchesSent.filter((_, n) => n % 100 === 0);
    for (const { task, fence } of printing)
      await harness.ask({
        type: "task.feedback",
        tenant: "t1",
        worker: worker.worker,
        session: worker.session,
        task,
        fence,
        data: { chunks: [{ channel: "log", text: `from ${task}\nand more\n` }] },
      });

    const texts: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const { body } = await get("getRunLogs", run, { limit: "3", ...(cursor !== "" && { cursor }) });
      texts.push(...body.items.map(({ text }: { text: string }) => text));
      cursor = body.nextCursor;
    }

    const expected = printing
      .map(({ task }) => task)
      .sort()
      .flatMap((task) => [`from ${task}`, "and more"]);
    expect(printing).toHaveLength(11);
    expect(texts).toEqual(expected);
    const last = `${run}.999`;
    expect((await get("getRunLogs", run, { node: last })).body.items).toHaveLength(
      printing.some(({ task }) => task === last) ? 2 : 0,
    );
    expect((await get("getRunLogs", run, { cursor: "0.0:nobody.1" })).body.error).toBe("E.CURSOR.UNKNOWN");
    const why = (await get("getPlacement", run, {}, { nodeId: nodeId(1_099) })).body;
    expect(why.reasons[0].facts.waitsFor).toEqual([{ node: nodeId(998), phase: "leased" }]);
  }, 30_000);
});

describe("artifacts of a run", () => {
  it("[A289] an artifact shows whether it is still available; lists contain the available ones, or all on request", async () => {
    const { world: harness, bench, get } = await openFixture();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(buildChain(2));
    await harness.settle();
    const leave = (resource: string, expiresAt: number) =>
      harness.ask({
        ...(worker.resultCommand(worker.lastDispatch, { out: 1 }) as Extract<
          Parameters<EngineHarness["ask"]>[0],
          { type: "task.result" }
        >),
        artifacts: [
          { resource, type: "file", expiresAt },
          { resource: `${resource}-inline`, type: "text", inline: true },
        ],
      });
    await leave("early", harness.now + 1_000);
    const before = (await get("getRun", run)).body;
    await leave("late", harness.now + 3_600_000);
    await harness.advance(1_001);
    bench.environment.clock.now = () => harness.now;

    const { artifacts } = (await get("getRun", run)).body;
    const listed = async (query: Record<string, string>) =>
      (await get("listRunArtifacts", run, query)).body.items.map(({ resourceId }: { resourceId: string }) => resourceId);

    expect(artifacts.map(({ resourceId, status }: { resourceId: string; status: string }) => [resourceId, status])).toEqual([
      ["early", "expired"],
      ["early-inline", "ready"],
      ["late", "ready"],
      ["late-inline", "ready"],
    ]);
    expect(await listed({})).toEqual(["early-inline", "late", "late-inline"]);
    expect(await listed({ all: "true" })).toHaveLength(4);
    expect((await get("listRunArtifacts", run, { all: "some" })).status).toBe(400);
    const then = (await get("getRun", run, { at: String(before.asOf) })).body;
    expect(then.nodes[0].artifacts[0]).toMatchObject({ resourceId: "early", status: "ready" });
  });
});
