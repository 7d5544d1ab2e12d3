// Runs started anew over REST on the real engine: rehearsed, and many at once. What a single retry or replay does is in runs.test.ts.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import type { Workflow } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { buildChain, EngineHarness, nodeId } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const tokens = createTokenAuthenticator([
  { token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view", "operate"] },
]);

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});

const chainOfTwo = buildChain(2) as unknown as Workflow;

async function openFixture() {
  const harness = await new EngineHarness().start();
  cleanups.push(() => harness.engine.stop());
  const bench = openWorkflowFixture({ engineClient: createHarnessLink(harness), reader: harness.store, authenticate: tokens });
  const worker = await harness.joinWorker("w");
  const start = async (more: object = {}): Promise<string> => {
    const { body } = await bench.callRoute("startRun", { body: { workflow: chainOfTwo, clientId: "c", ...more } });
    await harness.settle();
    return body.runId;
  };
  /** Its first node succeeds, its second does not. */
  const fail = async (more: object = {}): Promise<string> => {
    const runId = await start(more);
    await worker.succeed({ out: "kept" });
    await worker.error("E.RUNNER.FAILURE");
    return runId;
  };
  const succeed = async (): Promise<string> => {
    const runId = await start();
    await worker.succeed({ out: 1 });
    await worker.succeed({ out: 2 });
    return runId;
  };
  const runs = async () => (await harness.store.page({ page: "runs", tenant: "t1", limit: 100 })).items;
  /** Each look lets the work go on, and it is over after a bounded number of them. */
  const change = async (order: object) => {
    const { body: begun } = await bench.callRoute("changeRuns", { body: order });
    for (let snapshots = 0; snapshots < 500; snapshots++) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      const { body } = await bench.callRoute("getBulk", { params: { bulkId: begun.bulkId } });
      if (body.status !== "running") return body;
    }
    throw new Error(`bulk change ${begun.bulkId} does not end`);
  };
  return { world: harness, bench, worker, start, fail, succeed, runs, change };
}

describe("a retry or replay that is rehearsed", () => {
  it("[A360] a dry run of a retry or replay names the nodes that would run and the results it would reuse, and starts nothing", async () => {
    const { bench, fail, runs } = await openFixture();
    const runId = await fail();
    const params = { runId };
    const plan = (...actions: string[]) => ({
      status: 200,
      body: { dryRun: true, nodes: actions.map((action, n) => ({ nodeId: nodeId(n), action })) },
    });

    const key = { "idempotency-key": "k1" };
    expect(await bench.callRoute("retryRun", { params, body: { dryRun: true }, headers: key })).toMatchObject(
      plan("reuse", "run"),
    );
    expect(await bench.callRoute("replayRun", { params, body: { dryRun: true } })).toMatchObject(plan("reuse", "run"));
    const fromFirst = await bench.callRoute("replayRun", { params, body: { from: nodeId(0), dryRun: true } });
    expect(fromFirst).toMatchObject(plan("run", "run"));

    expect(await runs()).toHaveLength(1);
    expect(await bench.callRoute("retryRun", { params, headers: key })).toMatchObject({
      status: 202,
      body: { status: "queued" },
    });
  });

  it("[A360] a dry run of a retry or replay is refused exactly as the real one", async () => {
    const { bench, start, succeed } = await openFixture();
    const done = await succeed();
    const active = await start();
    const dryRun = { body: { dryRun: true } };

    expect((await bench.callRoute("retryRun", { params: { runId: done }, ...dryRun })).body.error).toBe("E.RUN.TERMINAL");
    expect((await bench.callRoute("retryRun", { params: { runId: active }, ...dryRun })).body.error).toBe("E.RUN.ACTIVE");
    const astray = await bench.callRoute("replayRun", { params: { runId: done }, body: { from: nodeId(77), dryRun: true } });
    expect(astray.body.error).toBe("E.NOT_FOUND");
  });
});

describe("many runs at once", () => {
  it("[A361] a bulk replay from a node leaves running runs alone and names each new run; one with an unknown version starts none", async () => {
    const { bench, worker, fail, succeed, start, change } = await openFixture();
    const [failed, succeeded, active] = [await fail(), await succeed(), await start()];
    await worker.succeed({ out: 1 });

    const again = await change({ action: "replay", filter: { clientId: "c" }, from: nodeId(1) });
    expect(again).toMatchObject({ status: "done", matched: 3, changed: 2, unchanged: 1, refused: 0 });
    expect(again.started.map(({ runId }: { runId: string }) => runId)).toEqual([succeeded, failed]);
    for (const { runId, newRun } of again.started) {
      const { body } = await bench.callRoute("getRun", { params: { runId: newRun } });
      expect(body).toMatchObject({ repeatOf: runId, nodes: [{ why: "reuse" }, { nodeId: nodeId(1) }] });
    }

    // As it was, there is nothing left to do to one that succeeded.
    const plain = await change({ action: "replay", filter: { runIds: [succeeded, failed, active] } });
    expect(plain).toMatchObject({ matched: 3, changed: 1, unchanged: 2, started: [{ runId: failed }] });
    const lost = await change({ action: "replay", filter: { runIds: [failed] }, version: 7 });
    expect(lost).toMatchObject({ changed: 0, refused: 1, refusals: [{ runId: failed, code: "E.NOT_FOUND" }] });
    expect(lost.started).toBeUndefined();
  });

  it("[A361] a bulk change takes a node or a version only for a replay", async () => {
    const { bench, fail } = await openFixture();
    const runId = await fail();
    for (const wrong of [{ from: nodeId(0) }, { version: "latest" }]) {
      const { status, body } = await bench.callRoute("changeRuns", {
        body: { action: "retry", filter: { runIds: [runId] }, ...wrong },
      });
      expect([status, body.details.path]).toEqual([400, `body.${Object.keys(wrong)[0]}`]);
    }
  });

  it("[A362] a dry run of a bulk change counts the runs that match and those it would leave unchanged", async () => {
    const { bench, fail, succeed, start, runs } = await openFixture();
    await fail();
    await succeed();
    await start();
    const plan = async (action: string, more: object = {}) => {
      const { body } = await bench.callRoute("changeRuns", {
        body: { action, filter: { clientId: "c" }, dryRun: true, ...more },
      });
      return [body.matched, body.changed, body.unchanged];
    };

    expect(await plan("cancel")).toEqual([3, 0, 2]);
    expect(await plan("retry")).toEqual([3, 0, 2]);
    expect(await plan("replay")).toEqual([3, 0, 2]);
    expect(await plan("replay", { version: "draft" })).toEqual([3, 0, 1]);
    expect(await runs()).toHaveLength(3);
  });

  it("[A363] runs listed by id in a bulk change must also match the rest of the filter", async () => {
    const { start, fail, change } = await openFixture();
    const failed = await fail({ labels: { batch: "blue" } });
    const other = await start({ clientId: "d" });
    const runIds = [failed, other, failed];
    const created = "1999-01-01T00:00:00Z";

    for (const more of [
      { status: ["failed"] },
      { clientId: "c" },
      { q: "blu" },
      { status: ["failed"], workflowId: chainOfTwo.id, since: created },
    ])
      expect(await change({ action: "dismiss", filter: { runIds, ...more } })).toMatchObject({ matched: 1 });
    for (const more of [{ status: ["cancelled"] }, { clientId: "e" }, { q: "red" }, { workflowId: "x" }, { until: created }])
      expect(await change({ action: "cancel", filter: { runIds, ...more } })).toMatchObject({ matched: 0, changed: 0 });
    expect(await change({ action: "cancel", filter: { runIds, status: ["running"] } })).toMatchObject({ matched: 1, changed: 1 });
  });
});
