// Commands over REST on the real engine that are refused, sent twice, or read back: what the audit, the log and the routes show of them.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import type { Workflow } from "@astraflow/protocol";
import { createMemoryFixture, createSqliteFixture, type StoreFixture } from "@astraflow/store/testing";
import { afterEach, describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, nodeId } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const tokens = createTokenAuthenticator([
  { token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view", "operate"] },
  { token: "eve", tenant: "t1", user: "eve", grants: ["admin"] },
  { token: "mallory", tenant: "t2", user: "mal", grants: ["read", "edit", "view", "operate", "admin"] },
]);

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of cleanups.splice(0)) await close();
});

const storeFixtures: [string, () => Promise<StoreFixture>][] = [
  ["memory", () => createMemoryFixture("strong")],
  ["sqlite", () => createSqliteFixture()],
];

describe.each(storeFixtures)("orders on %s", (_name, make) => {
  async function open() {
    const cluster = await make();
    const harness = await new EngineHarness({ store: cluster.createHandle() }).start();
    cleanups.push(async () => {
      await harness.engine.stop();
      await cluster.close();
    });
    const bench = openWorkflowFixture({ engineClient: createHarnessLink(harness), reader: harness.store, authenticate: tokens });
    const start = async (workflow: object): Promise<string> => {
      const { body } = await bench.callRoute("startRun", { body: { workflow, clientId: "c" } });
      await harness.settle();
      return body.runId;
    };
    /** What was refused, oldest first. */
    const refused = async (tenant = "t1") => {
      const { items } = await harness.store.events({ tenant, after: 0, limit: 1_000, types: ["audit."] });
      return items
        .filter(({ data }) => data["outcome"] !== "ok")
        .map(({ subject, type, data }) => ({ subject, action: type.slice("audit.".length), ...data }));
    };
    return { world: harness, bench, start, refused, stage: cluster };
  }

  const params = (runId: string) => ({ params: { runId } });

  it("[A260] a refused retry, replay or rebind of a run is recorded in the audit of the run with actor, reason and error code", async () => {
    const { world: harness, bench, start, refused } = await open();
    await harness.joinWorker("w");
    const run = await start(buildChain(2));

    const retry = await bench.callRoute("retryRun", { ...params(run), body: { reason: "again" } });
    const replay = await bench.callRoute("replayRun", { ...params(run), body: { from: nodeId(77) } });
    const rebind = await bench.callRoute("rebindRun", { ...params(run), body: { worker: "nobody", mode: "drain" } });

    expect([retry.body.error, replay.body.error, rebind.body.error]).toEqual(["E.RUN.ACTIVE", "E.NOT_FOUND", "E.NOT_FOUND"]);
    const words = { subject: `run/${run}`, target: run, targetType: "run", by: "ann", corr: expect.any(String) };
    expect(await refused()).toEqual([
      { ...words, action: "run.retry", outcome: "E.RUN.ACTIVE", reason: "again" },
      { ...words, action: "run.replay", outcome: "E.NOT_FOUND", from: nodeId(77) },
      { ...words, action: "run.rebind", outcome: "E.NOT_FOUND", node: null, worker: "nobody", mode: "drain" },
    ]);
    const { body } = await bench.callRoute("listAudit", { as: "eve", query: { action: "run.retry" } });
    expect(body.items).toMatchObject([{ actorId: "ann", targetId: run, metadata: { outcome: "E.RUN.ACTIVE" } }]);
  });

  it("[A260] a command on a run or dead letter that is missing or belongs to another tenant leaves no audit entry", async () => {
    const { world: harness, bench, start, refused } = await open();
    const worker = await harness.joinWorker("w");
    const run = await start(buildChain(1));
    const task = worker.lastDispatch.task;
    await worker.error("E.RUNNER.FAILURE");
    const one = { as: "mallory", body: { reason: "x" } };

    const responses = [];
    for (const runId of [run, "none"]) {
      responses.push(await bench.callRoute("retryRun", { ...one, ...params(runId) }));
      responses.push(await bench.callRoute("replayRun", { as: "mallory", body: {}, ...params(runId) }));
      responses.push(await bench.callRoute("rebindRun", { as: "mallory", body: { worker: "w" }, ...params(runId) }));
    }
    for (const name of ["requeueDeadLetter", "dismissDeadLetter"] as const)
      responses.push(await bench.callRoute(name, { ...one, params: { taskId: task } }));
    responses.push(await bench.callRoute("requeueDeadLetter", { params: { taskId: "none.0" } }));

    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([404]));
    expect([await refused(), await refused("t2")]).toEqual([[], []]);
  });

  it("[A260] a refused requeue or dismissal of a dead letter is in the audit of its run", async () => {
    const { world: harness, bench, start, refused } = await open();
    const worker = await harness.joinWorker("w");
    const deadTasks: string[] = [];
    for (let n = 0; n < 2; n++) {
      await start(buildChain(1));
      deadTasks.push(worker.lastDispatch.task);
      await worker.error("E.RUNNER.FAILURE");
      await harness.settle();
    }
    const [left = "", taken = ""] = deadTasks;
    await bench.callRoute("dismissDeadLetter", { params: { taskId: left } });
    await bench.callRoute("requeueDeadLetter", { params: { taskId: taken } });

    const requeue = await bench.callRoute("requeueDeadLetter", { params: { taskId: left }, body: { reason: "after all" } });
    const dismiss = await bench.callRoute("dismissDeadLetter", { params: { taskId: taken } });

    expect([requeue.body.error, dismiss.body.error]).toEqual(["E.CONFLICT", "E.CONFLICT"]);
    const words = { targetType: "task", outcome: "E.CONFLICT", by: "ann", corr: expect.any(String) };
    const runOf = (task: string) => `run/${task.slice(0, task.lastIndexOf("."))}`;
    expect(await refused()).toEqual([
      { ...words, subject: runOf(left), action: "letter.requeue", target: left, reason: "after all" },
      { ...words, subject: runOf(taken), action: "letter.dismiss", target: taken },
    ]);
  });

  it("[A261] drain and undrain commands are read by id, and a kick repeated under its key does not end a session that joined since", async () => {
    const { world: harness, bench } = await open();
    const asked = { params: { workerId: "w" }, headers: { "idempotency-key": "k1" } };
    await harness.joinWorker("w");

    const first = await bench.callRoute("kickWorker", asked);
    await harness.joinWorker("w", { boot: "boot-2" });
    const again = await bench.callRoute("kickWorker", asked);

    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect(again.body).toEqual(first.body);
    expect((await harness.workerRow("t1/w")).phase).toBe("online");
    expect(await harness.workerFacts("t1/w", "worker.kicked")).toHaveLength(1);
    for (const name of ["drainWorker", "undrainWorker"] as const) {
      const { commandId } = (await bench.callRoute(name, { params: { workerId: "w" } })).body;
      expect((await bench.callRoute("getCommand", { params: { commandId } })).body).toMatchObject({
        type: name.slice(0, -"Worker".length),
        status: "acked",
        workerId: "w",
        finishedAt: expect.any(String),
      });
      expect((await bench.callRoute("getCommand", { as: "mallory", params: { commandId } })).status).toBe(404);
    }
  });

  it("[A263] the command of a worker rebind is read by its id with its outcome", async () => {
    const { world: harness, bench, start } = await open();
    await harness.joinWorker("w");
    const run = await start(buildChain(1));
    await harness.joinWorker("bare", { packages: [] });
    await harness.joinWorker("heir");
    const order = async (queue: string) =>
      (await bench.callRoute("commandWorker", { params: { workerName: "w" }, body: { type: "rebind", queue } })).body.commandId;

    const good = await order("worker.heir");
    const bad = await order("worker.bare");

    const shown = async (commandId: string) => (await bench.callRoute("getCommand", { params: { commandId } })).body;
    expect(await shown(good)).toMatchObject({ type: "rebind", status: "acked", result: { attempts: 1 } });
    expect(await shown(bad)).toMatchObject({
      status: "failed",
      error: { code: "E.DISPATCH.UNFIT" },
      result: { refused: [{ task: `${run}.0`, code: "E.DISPATCH.UNFIT" }] },
    });
    expect(await harness.workerFacts("t1/w", "command.acked")).toMatchObject([{ id: good }]);
    expect(await harness.workerFacts("t1/w", "command.failed")).toMatchObject([{ id: bad, error: { code: "E.DISPATCH.UNFIT" } }]);
    expect(await harness.workerFacts("t1/w", "audit.worker.rebind")).toMatchObject([
      { command: good, outcome: "ok", queue: "worker.heir" },
      { command: bad, outcome: "E.DISPATCH.UNFIT" },
    ]);
  });

  it("[A261] a node skip repeated under its idempotency key returns the first answer, marked as a replay", async () => {
    const { world: harness, bench, start } = await open();
    await harness.joinWorker("w");
    const run = await start(buildChain(2));
    const skip = { params: { runId: run, nodeId: nodeId(0) }, headers: { "idempotency-key": "k1" } };

    const one = await bench.callRoute("skipNode", skip);
    const two = await bench.callRoute("skipNode", skip);

    expect([one.headers["idempotent-replayed"], two.headers["idempotent-replayed"]]).toEqual([undefined, "true"]);
    expect(two.body).toEqual(one.body);
  });

  it("[A266] a stored bulk change is picked up and finished even for a tenant that has neither workers nor open tasks", async () => {
    const { world: harness, bench, stage: cluster } = await open();
    const body = {
      request: { action: "cancel", filter: { runIds: ["none"] } },
      identity: { tenant: "t1", user: "ann", grants: [] },
      ...{ requestId: "r", status: "running", cursor: null, matched: 0, changed: 0, unchanged: 0, refused: 0, refusals: [] },
      ...{ createdAt: 1, updatedAt: 1 },
    };
    await harness.ask({
      type: "docs.write",
      tenant: "t1",
      by: "ann",
      puts: [{ collection: "bulk", name: "b1", body: JSON.stringify(body), terms: "running" }],
      audit: { action: "run.bulk.cancel", targetType: "bulk", target: "b1" },
    });

    const status = async () => (await bench.callRoute("getBulk", { params: { bulkId: "b1" } })).body?.status;
    for (let snapshots = 0; snapshots < 8 && (await status()) === "running"; snapshots++) {
      bench.environment.advance(5_000);
      for (let ticks = 0; ticks < 20; ticks++) await new Promise((resolve) => setImmediate(resolve));
    }

    expect(await status()).toBe("done");
    cluster.advance(7 * 86_400_000 - 1);
    await harness.settle();
    expect(await status()).toBe("done");
    cluster.advance(2);
    await harness.settle();
    expect((await bench.callRoute("getBulk", { params: { bulkId: "b1" } })).status).toBe(404);
  });

  it("[A268] [A375] the explanation of a task that waits for a concurrency key names up to five holders and counts the others", async () => {
    const { world: harness, bench, start } = await open();
    const keyed = (limit: number) =>
      buildWorkflow([{ policy: { concurrency: { key: "press", limit } } }], []) as unknown as Workflow;
    await harness.joinWorker("w", { slots: 5 });
    const holders: string[] = [];
    for (let n = 0; n < 7; n++) holders.push(await start(keyed(7)));
    const waiter = await start(keyed(7));

    const { body } = await bench.callRoute("getPlacement", { params: { runId: waiter, nodeId: nodeId(0) } });

    const [reason] = body.reasons;
    expect(reason).toMatchObject({ code: "key", facts: { key: "press", limit: 7, held: 7 } });
    expect(reason.facts.holders).toHaveLength(5);
    expect(reason.facts.holders[0]).toEqual({
      task: `${holders[0]}.0`,
      run: holders[0],
      node: nodeId(0),
      label: "node 0",
      workflow: "test",
      phase: "leased",
      since: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      worker: "w",
    });
    expect(body.summary).toBe(`node 0 waits for concurrency key press, held by node 0 of run ${holders[0]} and 6 more`);
  });
});
