// Runs over REST on the real engine: started in part, looked at, steered, taken up again. Every answer is held against its route's schema.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import type { Workflow } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, harnessDigest, nodeId, type TestWorker } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const tokens = createTokenAuthenticator([
  { token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view", "operate"] },
  { token: "eve", tenant: "t1", user: "eve", grants: ["admin"] },
  { token: "vic", tenant: "t1", user: "vic", grants: ["view"] },
  { token: "mallory", tenant: "other", user: "mal", grants: ["read", "edit", "view", "operate"] },
]);

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});

async function openFixture() {
  const harness = await new EngineHarness().start();
  cleanups.push(() => harness.engine.stop());
  const engineClient = createHarnessLink(harness);
  const bench = openWorkflowFixture({ engineClient, reader: harness.store, authenticate: tokens });
  /** What is started is also given to whoever can take it. */
  const start = async (workflow: object, more: object = {}, headers: Record<string, string> = {}) => {
    const response = await bench.callRoute("startRun", { body: { workflow, clientId: "c", ...more }, headers });
    await harness.settle();
    return response;
  };
  const run = async (id: string) => (await bench.callRoute("getRun", { params: { runId: id } })).body;
  return { world: harness, bench, start, run };
}

const chainOfFour = buildChain(4) as unknown as Workflow;
const statuses = (run: { nodes: { status: string }[] }) => run.nodes.map((node) => node.status);
const nodePath = (runId: string, node: number) => ({ params: { runId, nodeId: nodeId(node) } });

/** The worker completes its dispatches in order, each with the node in its result. */
async function succeedTimes(worker: TestWorker, times: number): Promise<void> {
  for (let n = 0; n < times; n++) await worker.succeed({ out: worker.lastDispatch.node.slice(-2) });
}

describe("starting a run in part", () => {
  it("[A140] pinned nodes of a run are not executed, and their successors use the pinned results", async () => {
    const { world: harness, start, run } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { body } = await start(chainOfFour, { pins: { [nodeId(0)]: { out: 1 }, [nodeId(1)]: { out: "pinned" } } });

    expect(worker.dispatchesSent).toHaveLength(1);
    expect(worker.lastDispatch.node).toBe(nodeId(2));
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in: "pinned" });
    const shown = await run(body.runId);
    expect(statuses(shown)).toEqual(["succeeded", "succeeded", "running", "queued"]);
    expect(shown.nodes[0]).toMatchObject({ why: "pin", result: { out: 1 } });
  });

  it("[A140] a start with 'to' runs only what that node needs, one with 'from' only what follows, with results of another run", async () => {
    const { world: harness, bench, start, run } = await openFixture();
    const worker = await harness.joinWorker("w");
    const first = (await start(chainOfFour, { to: nodeId(1) })).body.runId;
    await succeedTimes(worker, 2);
    expect(await run(first)).toMatchObject({ status: "succeeded" });
    expect(statuses(await run(first))).toEqual(["succeeded", "succeeded", "skipped", "skipped"]);

    const second = (await start(chainOfFour, { from: nodeId(2), reuse: first })).body.runId;
    expect(worker.lastDispatch.node).toBe(nodeId(2));
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in: "01" });
    await succeedTimes(worker, 2);
    expect(await run(second)).toMatchObject({ status: "succeeded", repeatOf: first });
    const missing = await start(chainOfFour, { from: nodeId(2) });
    expect(missing).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID", details: { node: nodeId(1) } } });
    expect(
      (await bench.callRoute("startRun", { body: { workflow: chainOfFour, clientId: "c", reuse: "nobody" } })).body.error,
    ).toBe("E.NOT_FOUND");
  });

  it("[A141] a dry run of a start shows what would run, how many workers could take it and what is wrong, and starts nothing", async () => {
    const { world: harness, start } = await openFixture();
    await harness.joinWorker("w");
    const plan = await start(chainOfFour, { dryRun: true, pins: { [nodeId(0)]: {} }, to: nodeId(1) });

    expect(plan.status).toBe(200);
    expect(plan.body.nodes.map((node: { action: string }) => node.action)).toEqual(["pin", "run", "excluded", "excluded"]);
    expect(plan.body.nodes[1].workers).toBe(1);
    const wrong = await start(
      {
        ...chainOfFour,
        edges: [...chainOfFour.edges, { ...chainOfFour.edges[0], id: "x", target: { node: nodeId(9), port: "in" } }],
      },
      { dryRun: true },
    );
    expect(wrong.body.problems).toContainEqual(expect.objectContaining({ code: "E.WORKFLOW.INVALID", severity: "error" }));
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 5 })).items).toEqual([]);
  });

  it("[A142] a saved workflow is started by its id, in the requested version", async () => {
    const { world: harness, bench, run } = await openFixture();
    await harness.joinWorker("w");
    await bench.callRoute("saveWorkflow", { body: chainOfFour });
    await bench.callRoute("publishVersion", { params: { workflowId: chainOfFour.id } });
    const edits = [{ op: "setNode", id: nodeId(0), path: "/label", value: "later" }];
    await bench.callRoute("editDraft", { params: { workflowId: chainOfFour.id }, body: { base: 1, edits } });
    const begin = async (version?: number | string) =>
      bench.callRoute("startRun", {
        body: { workflowId: chainOfFour.id, clientId: "c", ...(version !== undefined && { version }) },
      });

    const latest = await run((await begin()).body.runId);
    expect(latest).toMatchObject({ version: 1, workflowId: chainOfFour.id, name: "test", startedBy: "ann" });
    expect(latest.nodes[0].label).toBe("node 0");
    expect((await run((await begin("draft")).body.runId)).nodes[0].label).toBe("later");
    expect((await begin(7)).body.error).toBe("E.NOT_FOUND");
    expect((await bench.callRoute("startRun", { body: { clientId: "c" } })).body.error).toBe("E.REQUEST.INVALID");
  });
});

describe("finding runs", () => {
  it("[A377] GET /runs finds runs by a worker's name, failed work included; an unknown name finds none", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const begin = async () => (await start(buildChain(1) as unknown as Workflow)).body.runId;
    const done = await begin();
    await succeedTimes(worker, 1);
    const failed = await begin();
    await harness.ask(worker.resultCommand(worker.lastDispatch, {}, "failed"));
    await worker.disconnect();
    const waiting = await begin();
    const found = async (query: Record<string, string>) =>
      (await bench.callRoute("listRuns", { query })).body.items.map((run: { runId: string }) => run.runId);

    expect(await found({})).toEqual([waiting, failed, done]);
    expect(await found({ worker: "w" })).toEqual([failed, done]);
    expect(await found({ worker: "w", status: "succeeded" })).toEqual([done]);
    expect(await found({ worker: "nobody" })).toEqual([]);
  });

  it("[A143] GET /runs filters by workflow, words of labels and names, status and time, newest first", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const one = (await start(buildChain(1), { labels: { city: "Reykjavik" } })).body.runId;
    await worker.succeed({ out: 1 });
    harness.now += 60_000;
    const two = (await start({ ...buildChain(1), id: nodeId(500), metadata: { name: "Second journey" } })).body.runId;
    const ids = async (query: Record<string, string>) =>
      (await bench.callRoute("listRuns", { query })).body.items.map((run: { runId: string }) => run.runId);

    expect(await ids({})).toEqual([two, one]);
    expect(await ids({ q: "reyk" })).toEqual([one]);
    expect(await ids({ q: "journey second" })).toEqual([two]);
    expect(await ids({ workflowId: nodeId(500) })).toEqual([two]);
    expect(await ids({ status: "succeeded,failed" })).toEqual([one]);
    expect(await ids({ since: new Date(harness.now - 1_000).toISOString() })).toEqual([two]);
    expect(await ids({ until: new Date(harness.now - 1_000).toISOString(), status: "running" })).toEqual([]);
    for (const query of [{ since: "yesterday" }, { status: "odd" }, { limit: "0" }] as Record<string, string>[])
      expect((await bench.callRoute("listRuns", { query })).body.error).toBe("E.REQUEST.INVALID");
  });
});

describe("parts of a run", () => {
  it("[A144] the nodes of a run are paged, a single node is read with its values, and the bindings name package and worker", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(chainOfFour)).body;
    await worker.succeed({ out: "x".repeat(10), deep: { list: [1, 2] } });
    const get = (query: Record<string, string>) => bench.callRoute("getRunNode", { ...nodePath(runId, 0), query });

    expect((await get({ path: "results.deep.list.1" })).body.value).toBe(2);
    const piece = (await get({ path: "/results/out", offset: "2", length: "3" })).body;
    expect(piece).toMatchObject({ text: "xxx", range: { from: 2, to: 5, total: 12 } });
    expect(piece).not.toHaveProperty("value");
    expect((await get({ path: "results.nothing" })).status).toBe(404);
    expect((await get({ path: "secrets" })).status).toBe(400);
    expect((await bench.callRoute("getRunNode", nodePath(runId, 9))).body.error).toBe("E.NOT_FOUND");
    const page = await bench.callRoute("listRunNodes", { params: { runId }, query: { limit: "1" } });
    expect(page.body.items).toHaveLength(1);
    expect(page.body.nextCursor).not.toBeNull();
    const bound = await bench.callRoute("listRunBindings", { params: { runId } });
    expect(bound.body.items).toMatchObject([{ package: "test", workerId: "w", queue: "worker.w" }]);
  });

  it("[A248] definitions, bulk changes and the KEDA metric carry the log position they were read at", async () => {
    const { world: harness, bench, start, run } = await openFixture();
    await harness.joinWorker("w");
    const { runId } = (await start(chainOfFour)).body;
    const order = { action: "cancel", filter: { runIds: [runId] } };
    const { bulkId } = (await bench.callRoute("changeRuns", { body: order })).body;
    await harness.settle();
    const answers = [
      await bench.callRoute("getRunDefinition", { params: { runId } }),
      await bench.callRoute("getBulk", { params: { bulkId } }),
      await bench.callRoute("getKedaMetric"),
    ];

    const { asOf } = await run(runId);
    expect(asOf).toBeGreaterThan(0);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    for (const { body } of answers) expect(body.asOf).toBeGreaterThan(0);
  });

  it("[A250] an unknown value of a query parameter is refused instead of matching nothing", async () => {
    const { bench, start } = await openFixture();
    const { runId } = (await start(chainOfFour)).body;

    const nodes = await bench.callRoute("listRunNodes", { params: { runId }, query: { status: "done" } });
    expect(nodes).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID", details: { path: "query.status" } } });
    const response = await bench.callRoute("listDeadLetters", { query: { status: "closed" } });
    expect(response).toMatchObject({
      status: 400,
      body: { message: "query.status must be one of open, requeued, dismissed" },
    });
  });

  it("[A251] nodes of a run are found by their host, their place in the chain, or a middleware of their chain", async () => {
    const { world: harness, bench, start } = await openFixture();
    await harness.joinWorker("w");
    const middleware = nodeId(70);
    const { id: _, position: __, ...like } = chainOfFour.nodes[0] as Workflow["nodes"][number];
    const nodes = chainOfFour.nodes.map((node, n) => (n === 0 ? { ...node, middlewares: [{ ...like, id: middleware }] } : node));
    const { runId } = (await start({ ...chainOfFour, nodes })).body;
    const found = async (query: Record<string, string>) =>
      (await bench.callRoute("listRunNodes", { params: { runId }, query })).body.items.map(
        (node: { nodeId: string }) => node.nodeId,
      );

    expect(await found({ hostNodeId: nodeId(0) })).toEqual([middleware]);
    expect(await found({ chainIndex: "0" })).toEqual([middleware]);
    expect(await found({ chainIndex: "1" })).toEqual([]);
    expect(await found({ middleware })).toEqual([nodeId(0)]);
  });

  it("[A145] the logs of a run are read by line, channel and search words", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(1))).body;
    const { task, fence } = worker.lastDispatch;
    const about = { tenant: "t1", worker: "t1/w", session: worker.session, task, fence };
    const print = (chunks: object[]) => harness.ask({ type: "task.feedback", ...about, data: { chunks } });
    await print([{ channel: "log", text: "one\ntwo\nthr" }]);
    await print([
      { channel: "log", text: "ee\nfour\n" },
      { channel: "stderr", text: "oh no\n" },
    ]);
    const read = async (query: Record<string, string>, headers: Record<string, string> = {}) =>
      bench.callRoute("getRunLogs", { params: { runId }, query, headers });
    const texts = async (query: Record<string, string>) =>
      (await read(query)).body.items.map((line: { text: string }) => line.text);

    expect(await texts({})).toEqual(["one", "two", "three", "four", "oh no"]);
    expect(await texts({ from: "3" })).toEqual(["four", "oh no"]);
    expect(await texts({ channel: "stderr" })).toEqual(["oh no"]);
    expect((await read({ q: "o" })).body).toMatchObject({ hits: 4, isHitsPartial: false });
    const first = await read({ limit: "2" });
    expect(await texts({ limit: "9", cursor: first.body.nextCursor })).toEqual(["three", "four", "oh no"]);
    expect((await read({ cursor: "?" })).status).toBe(400);
  });

  it("[A146] the explanation of a waiting node gives its own reason and, for each worker, the first rule it fails", async () => {
    const { world: harness, bench, start } = await openFixture();
    const { runId } = (await start(buildWorkflow([{}, {}], [[0, 1]]))).body;
    await harness.joinWorker("other", { packages: [{ name: "else", version: "1.0.0", status: "installed" }] });
    await harness.joinWorker("later", { packages: [{ name: "test", version: "2.0.0", status: "installed" }] });
    const why = async (node: number) => (await bench.callRoute("getPlacement", nodePath(runId, node))).body;

    expect(await why(0)).toMatchObject({
      status: "queued",
      reasons: [{ code: "queued" }],
      workers: [
        { workerName: "later", code: "package-version", facts: { has: "2.0.0", needs: "1.0.0" } },
        { workerName: "other", code: "package-missing" },
      ],
    });
    expect((await why(0)).fixes).toContain("install-package");
    expect(await why(1)).toMatchObject({ reasons: [{ code: "not-reached", facts: { waitsFor: [{ node: nodeId(0) }] } }] });
    const queues = await bench.callRoute("listQueues");
    expect(queues.body.items).toMatchObject([
      {
        waiting: 1,
        needs: { package: "test" },
        workers: { fitting: 0, blocked: { "package-missing": 1, "package-version": 1 } },
      },
    ]);
    expect((await bench.callRoute("getKedaMetric", { query: { package: "test" } })).body).toMatchObject({
      value: 1,
      queued: 1,
      running: 0,
    });
    expect((await bench.callRoute("getKedaMetric", { query: { pool: "gpu" } })).body.value).toBe(0);
  });
});

describe("steering a run", () => {
  it("[A147] a running node is skipped or retried, and the answer names its worker and what was sent to it", async () => {
    const { world: harness, bench, start, run } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(chainOfFour)).body;
    const skipped = await bench.callRoute("skipNode", { ...nodePath(runId, 0), body: { reason: "not today" } });

    expect(skipped).toMatchObject({ status: 202, body: { runId, tasks: [{ nodeId: nodeId(0), from: "w", sent: "stop" }] } });
    expect(statuses(await run(runId))).toEqual(["skipped", "running", "queued", "queued"]);
    const again = await bench.callRoute("retryNode", { ...nodePath(runId, 1) });
    expect(again.body.tasks).toMatchObject([{ nodeId: nodeId(1), from: "w", sent: "stop" }]);
    expect(worker.lastDispatch.node).toBe(nodeId(1));
    expect((await bench.callRoute("skipNode", nodePath(runId, 0))).body.error).toBe("E.TASK.ENDED");
    expect((await bench.callRoute("skipNode", { ...nodePath(runId, 1), as: "vic" })).status).toBe(403);
  });

  it("[A148] a rebind moves a run to the named worker, and is refused for a worker that is unknown or cannot take it", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(chainOfFour)).body;
    const other = await harness.joinWorker("spare");
    const rebind = (body: object) => bench.callRoute("rebindSchedulerRun", { params: { runId }, body });

    const moved = await rebind({ worker: "spare", mode: "switch" });
    expect(moved.body.tasks).toMatchObject([{ from: "w", to: "spare", sent: "stop" }]);
    expect(other.lastDispatch.node).toBe(nodeId(0));
    expect(worker.dispatchesSent).toHaveLength(1);
    expect((await rebind({ worker: "nobody" })).body.error).toBe("E.NOT_FOUND");
    expect((await rebind({ mode: "sideways" })).body.error).toBe("E.REQUEST.INVALID");
    await harness.joinWorker("unfit", { packages: [] });
    expect((await rebind({ worker: "unfit" })).body.error).toBe("E.DISPATCH.UNFIT");
  });

  it("[A149] retrying a run repeats its failed nodes in a new run that keeps the succeeded results; the old run is unchanged", async () => {
    const { world: harness, bench, start, run } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(chainOfFour)).body;
    expect((await bench.callRoute("retryRun", { params: { runId } })).body.error).toBe("E.RUN.ACTIVE");
    await worker.succeed({ out: "kept" });
    await worker.error("E.RUNNER.FAILURE");
    const key = { "idempotency-key": "k1" };
    const retried = await bench.callRoute("retryRun", { params: { runId }, headers: key });

    expect(retried.status).toBe(202);
    expect(worker.lastDispatch.node).toBe(nodeId(1));
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in: "kept" });
    expect((await bench.callRoute("retryRun", { params: { runId }, headers: key })).body.runId).toBe(retried.body.runId);
    await succeedTimes(worker, 3);
    expect(await run(retried.body.runId)).toMatchObject({ status: "succeeded", repeatOf: runId });
    expect(await run(runId)).toMatchObject({ status: "failed" });
    expect((await bench.callRoute("retryRun", { params: { runId: retried.body.runId } })).body.error).toBe("E.RUN.TERMINAL");
    const node = await bench.callRoute("retryNode", nodePath(runId, 1));
    expect(node.body.newRun.runId).not.toBe(runId);
  });

  it("[A150] a run is replayed from a node, with the same version or a newer one", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    await bench.callRoute("saveWorkflow", { body: chainOfFour });
    const { runId } = (await start(chainOfFour)).body;
    await succeedTimes(worker, 4);
    const edits = [{ op: "setNode", id: nodeId(3), path: "/parameters", value: { newer: true } }];
    await bench.callRoute("editDraft", { params: { workflowId: chainOfFour.id }, body: { base: 1, edits } });
    const replay = (body: object) => bench.callRoute("replayRun", { params: { runId }, body });

    await replay({ from: nodeId(3) });
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in: "02" });
    await worker.succeed({ out: 1 });
    await replay({ from: nodeId(3), version: "draft" });
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({ in: "02", newer: true });
    expect((await replay({ from: nodeId(77) })).body.error).toBe("E.NOT_FOUND");
  });

  it("[A151] a task that failed for good leaves a dead letter, which can be requeued once or dismissed", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(2))).body;
    await worker.succeed({ out: 1 });
    await worker.error("E.RUNNER.FAILURE", "no such page");
    const list = async (query: Record<string, string> = {}) => (await bench.callRoute("listDeadLetters", { query })).body.items;

    const [deadLetter] = await list();
    expect(deadLetter).toMatchObject({ runId, nodeId: nodeId(1), code: "E.RUNNER.FAILURE", status: "open", attempts: 1 });
    expect(await list({ q: "page" })).toHaveLength(1);
    expect(await list({ q: "elsewhere" })).toHaveLength(0);
    const { taskId } = deadLetter;
    const first = await bench.callRoute("requeueDeadLetter", { params: { taskId } });
    expect(first.status).toBe(202);
    expect(worker.lastDispatch.node).toBe(nodeId(1));
    expect(await list()).toEqual([]);
    expect(await list({ status: "requeued" })).toMatchObject([{ newRun: first.body.runId }]);
    expect((await bench.callRoute("dismissDeadLetter", { params: { taskId } })).body.error).toBe("E.CONFLICT");
    await worker.error("E.RUNNER.FAILURE", "still not");
    const [second] = await list();
    const dismissed = await bench.callRoute("dismissDeadLetter", {
      params: { taskId: second.taskId },
      body: { reason: "known" },
    });
    expect(dismissed.body.status).toBe("dismissed");
    const audit = await bench.callRoute("listAudit", { as: "eve", query: { action: "letter.dismiss" } });
    expect(audit.body.items).toMatchObject([
      { targetId: second.taskId, metadata: { reason: "known", outcome: "ok" } },
      { metadata: { outcome: "E.CONFLICT" } },
    ]);
    expect((await bench.callRoute("requeueDeadLetter", { params: { taskId: second.taskId } })).body.error).toBe("E.CONFLICT");
    expect((await bench.callRoute("dismissDeadLetter", { params: { taskId: "none" } })).body.error).toBe("E.NOT_FOUND");
  });

  it("[E112] the audit of a retried or replayed run names the run it repeats, the start node, the reason and the request", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(2))).body;
    await worker.succeed({ out: 1 });
    await worker.error("E.RUNNER.FAILURE", "no such page");
    const retried = await bench.callRoute("retryRun", { params: { runId }, body: { reason: "page is back" } });
    const replayed = await bench.callRoute("replayRun", { params: { runId }, body: { from: nodeId(1) } });

    const { items } = (await bench.callRoute("listAudit", { as: "eve", query: { action: "run.start" } })).body;
    const corr = expect.any(String);
    expect(items).toMatchObject([
      { actorId: "ann", targetId: replayed.body.runId, metadata: { repeatOf: runId, from: nodeId(1), corr, outcome: "ok" } },
      { actorId: "ann", targetId: retried.body.runId, metadata: { repeatOf: runId, reason: "page is back", corr } },
      { targetId: runId, metadata: { corr } },
    ]);
    expect(items[2].metadata).not.toHaveProperty("repeatOf");
  });

  it("[A253] drain, undrain and kick are in the audit under the command id of their request, and in the log as acknowledged", async () => {
    const { world: harness, bench } = await openFixture();
    await harness.joinWorker("w");
    const commandIds = [];
    for (const name of ["drainWorker", "undrainWorker", "kickWorker"] as const)
      commandIds.push((await bench.callRoute(name, { params: { workerId: "w" } })).body.commandId);
    const audit = async (action: string) => (await bench.callRoute("listAudit", { as: "eve", query: { action } })).body.items;

    for (const [n, action] of ["worker.drain", "worker.undrain", "worker.kick"].entries())
      expect(await audit(action)).toMatchObject([
        { actorId: "ann", targetId: "w", metadata: { corr: commandIds[n], outcome: "ok" } },
      ]);
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, types: ["command.acked"] });
    expect(items.map(({ data }) => data["id"])).toEqual(commandIds);
  });

  it("[A156] the audit of a dispatched task names who started its run, and under which request", async () => {
    const { world: harness, bench, start } = await openFixture();
    await harness.joinWorker("w");
    const { runId } = (await start(chainOfFour)).body;
    await bench.callRoute("skipNode", nodePath(runId, 0));
    const audit = async (action: string) => (await bench.callRoute("listAudit", { as: "eve", query: { action } })).body.items;

    const [started] = await audit("run.start");
    const dispatches = await audit("task.dispatch");
    expect(started).toMatchObject({ actorId: "ann", targetId: runId, metadata: { corr: expect.any(String), outcome: "ok" } });
    expect(dispatches.at(-1)).toMatchObject({
      actorId: "ann",
      targetType: "task",
      targetId: `${runId}.0`,
      metadata: { worker: "t1/w", outcome: "skipped" },
    });
    expect(dispatches.at(-1).metadata.corr).toEqual(expect.any(String));
    expect(await audit("run.skip")).toMatchObject([{ actorId: "ann", metadata: { outcome: "ok" } }]);
  });

  it("[A386] the audit of a dispatch has the outcome of that dispatch: ok, the code it failed or was requeued with, or open", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(3, { policy: { retry: { maxAttempts: 2, backoffMs: 1 } } }))).body;
    await worker.succeed({ out: 1 });
    await worker.error("E.RUNNER.FAILURE");
    await harness.advance(1_000);
    await worker.succeed({ out: 2 });
    const audit = (await bench.callRoute("listAudit", { as: "eve", query: { action: "task.dispatch", runId } })).body;

    const dispatches = (audit.items as { targetId: string; metadata: object }[]).toReversed();
    expect(dispatches.map(({ targetId, metadata }) => [targetId, metadata])).toMatchObject([
      [`${runId}.0`, { worker: "t1/w", outcome: "ok" }],
      [`${runId}.1`, { attempt: 1, outcome: "E.RUNNER.FAILURE" }],
      [`${runId}.1`, { attempt: 2, outcome: "ok" }],
      [`${runId}.2`, { outcome: "open" }],
    ]);
  });

  it("[A562] the audit lists a refused duplicate result with its task, its worker and the digests of both results", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(1))).body;
    await worker.succeed({ out: 1 });
    await expect(worker.succeed({ out: 2 })).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });

    const audit = await bench.callRoute("listAudit", { as: "eve", query: { action: "task.result", runId } });

    const [kept, refused] = ['{"out":1}', '{"out":2}'].map((text) => ({ phase: "succeeded", digest: harnessDigest(text) }));
    const metadata = { worker: "t1/w", outcome: "E.RESULT.DUPLICATE", kept, refused };
    expect(audit.body.items).toMatchObject([{ action: "task.result", targetType: "task", targetId: `${runId}.0`, metadata }]);
    const all = await bench.callRoute("listAudit", { as: "eve" });
    expect(all.body.items.map(({ action }: { action: string }) => action)).toContain("task.result");
  });

  it("[A561] POST /runs/{id}/cancel answers 409 E.RUN.TERMINAL for a run that has ended; a repeat with its key keeps its first answer", async () => {
    const { bench, start } = await openFixture();
    const { runId } = (await start(buildChain(1))).body;
    const cancel = (key: string) => bench.callRoute("cancelRun", { params: { runId }, headers: { "idempotency-key": key } });

    const first = await cancel("one");
    const other = await cancel("two");
    const again = await cancel("one");

    expect(first).toMatchObject({ status: 202, body: { runId, status: "cancelled" } });
    expect(other).toMatchObject({ status: 409, body: { error: "E.RUN.TERMINAL", details: { phase: "cancelled" } } });
    expect(again).toMatchObject({ status: first.status, body: first.body });
  });

  it("[A152] every run route answers for another tenant's run as for one that does not exist", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(2))).body;
    await worker.succeed({ out: 1 });
    await worker.error("E.RUNNER.FAILURE");
    const [deadLetter] = (await bench.callRoute("listDeadLetters")).body.items;
    const routes = [
      "getRun",
      "getRunDefinition",
      "listRunEvents",
      "listRunNodes",
      "getRunLogs",
      "listRunBindings",
      "listRunArtifacts",
      "cancelRun",
      "retryRun",
      "replayRun",
      "rebindRun",
    ] as const;
    const onNodes = ["getRunNode", "getPlacement", "skipNode", "retryNode"] as const;
    const refusal = async (name: (typeof routes)[number] | (typeof onNodes)[number], id: string) => {
      const { status, body } = await bench.callRoute(name, { as: "mallory", params: { runId: id, nodeId: nodeId(0) } });
      return [status, body.error, body.message?.replace(id, "?")];
    };
    const missing = runId.replace(/.$/, (last: string) => (last === "0" ? "1" : "0"));
    for (const name of [...routes, ...onNodes])
      expect([name, ...(await refusal(name, runId))]).toEqual([name, ...(await refusal(name, missing))]);
    for (const name of ["requeueDeadLetter", "dismissDeadLetter"] as const)
      expect((await bench.callRoute(name, { as: "mallory", params: { taskId: deadLetter.taskId } })).status).toBe(404);
    expect((await bench.callRoute("listDeadLetters", { as: "mallory" })).body.items).toEqual([]);
  });
});

describe("many runs at once", () => {
  const bulkOf = async (bench: Awaited<ReturnType<typeof openFixture>>["bench"], body: object) => {
    const { body: begun, status } = await bench.callRoute("changeRuns", { body });
    return { status, last: await finished(bench, begun.bulkId) };
  };
  /** Looks again and again: each look lets the work go on, and it is over after a bounded number of them. */
  const finished = async (bench: Awaited<ReturnType<typeof openFixture>>["bench"], bulkId: string) => {
    for (let snapshots = 0; snapshots < 500; snapshots++) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      const { body } = await bench.callRoute("getBulk", { params: { bulkId } });
      if (body.status !== "running") return body;
    }
    throw new Error(`bulk change ${bulkId} does not end`);
  };

  it("[A153] a bulk cancel cancels all matching runs, only counts them in a dry run, and refuses an empty filter", async () => {
    const { world: harness, bench, start } = await openFixture();
    for (let n = 0; n < 60; n++) await start(buildChain(1), { labels: { batch: n < 55 ? "old" : "new" } });
    const filter = { q: "old", status: ["queued"] };
    const planned = await bench.callRoute("changeRuns", { body: { action: "cancel", filter, dryRun: true } });
    expect(planned).toMatchObject({ status: 200, body: { status: "planned", matched: 55, changed: 0 } });

    const { status, last } = await bulkOf(bench, { action: "cancel", filter });
    expect(status).toBe(202);
    expect(last).toMatchObject({ status: "done", matched: 55, changed: 55, refused: 0 });
    const left = await harness.store.page({ page: "runs", tenant: "t1", limit: 100, phase: "queued" });
    expect(left.items).toHaveLength(5);
    expect((await bench.callRoute("changeRuns", { body: { action: "cancel", filter: {} } })).body.error).toBe(
      "E.REQUEST.INVALID",
    );
    expect((await bench.callRoute("getBulk", { as: "mallory", params: { bulkId: last.bulkId } })).status).toBe(404);
  });

  it("[A154] a bulk retry retries each run once, even if it is resumed after a crash in the middle", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    for (let n = 0; n < 3; n++) {
      await start(buildChain(1));
      await worker.error("E.RUNNER.FAILURE");
    }
    const { last } = await bulkOf(bench, { action: "retry", filter: { status: ["failed"] } });
    expect(last).toMatchObject({ status: "done", changed: 3 });
    const runs = async () => (await harness.store.page({ page: "runs", tenant: "t1", limit: 100 })).items.length;
    expect(await runs()).toBe(6);

    // As a scheduler leaves it that died before it wrote how far it had come.
    const { items } = await harness.store.page({ page: "doc", tenant: "t1", collection: "bulk", names: [last.bulkId] });
    const doc = items[0] ?? null;
    if (doc === null) throw new Error("no document");
    const body = JSON.stringify({ ...JSON.parse(doc.body), status: "running", cursor: null, changed: 0, matched: 0 });
    await harness.ask({
      type: "docs.write",
      tenant: "t1",
      by: "x",
      puts: [{ collection: "bulk", name: last.bulkId, rev: doc.rev, body, terms: "running" }],
    });
    // A look that is under way takes the place of the next, so each gets its turn.
    for (let snapshots = 0; snapshots < 12; snapshots++) {
      bench.environment.advance(5_000);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    const again = await finished(bench, last.bulkId);
    expect(again).toMatchObject({ status: "done", changed: 3 });
    expect(await runs()).toBe(6);
    const dismissed = await bulkOf(bench, { action: "dismiss", filter: { status: ["failed"] } });
    expect(dismissed.last).toMatchObject({ changed: 3 });
    expect((await bench.callRoute("listDeadLetters")).body.items).toEqual([]);
  });
});
