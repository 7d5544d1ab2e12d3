// Runs of workflows that name a package nobody has brought, over REST on the real engine: refused, allowed, repeated, replayed.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import type { Workflow } from "@astraflow/protocol";
import { ManifestRecorder } from "@astraflow/services";
import { sampleManifest } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { buildChain, EngineHarness, nodeId } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const tokens = createTokenAuthenticator([
  { token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view", "operate"] },
]);
const chainOfTwo = buildChain(2) as unknown as Workflow;

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});

async function openFixture() {
  const harness = await new EngineHarness().start();
  cleanups.push(() => harness.engine.stop());
  const engineClient = createHarnessLink(harness);
  const bench = openWorkflowFixture({ engineClient, reader: harness.store, authenticate: tokens });
  const manifestRecorder = new ManifestRecorder({
    engineClient,
    reader: harness.store,
    digest: (text) => text,
    environment: bench.environment,
  });
  /** Somebody has been here and brought this package; he need not be here any more. */
  const bring = async (name: string) => {
    manifestRecorder.recordManifests("t1", [{ name, version: "1.0.0", manifest: sampleManifest(name, "1.0.0") }]);
    await manifestRecorder.whenIdle();
    bench.environment.advance(1_001);
  };
  const start = async (more: object = {}, key?: string) => {
    const headers = key === undefined ? {} : { "idempotency-key": key };
    const response = await bench.callRoute("startRun", { body: { workflow: chainOfTwo, clientId: "c", ...more }, headers });
    await harness.settle();
    return response;
  };
  const runs = async () => (await harness.store.page({ page: "runs", tenant: "t1", limit: 50 })).items.length;
  return { world: harness, bench, bring, start, runs };
}

describe("runs of packages that nobody has brought", () => {
  it("[A254] a run of an unknown package is refused with node and field once workers have announced others; a dry run shows the same error", async () => {
    const { bring, start, runs } = await openFixture();
    await bring("tests");

    const response = await start();
    const plan = await start({ dryRun: true });

    expect(response).toMatchObject({
      status: 400,
      body: { error: "E.WORKFLOW.INVALID", details: { node: nodeId(0), path: "/nodes/0/package/name" } },
    });
    expect(response.body.message).toContain("package test (did you mean tests?)");
    expect(plan.body.problems[0]).toMatchObject({ severity: "error", node: nodeId(0), path: "/nodes/0/package/name" });
    expect(await runs()).toBe(0);
  });

  it("[A254] a run of an unknown package starts where that is allowed, or where no package is known at all, and waits for a worker", async () => {
    const { world: harness, bring, start } = await openFixture();
    expect((await start()).status).toBe(202);
    await bring("mail");
    expect((await start({ allowUnknown: true, dryRun: true })).body.problems[0]).toMatchObject({ severity: "warning" });
    expect((await start({ allowUnknown: true })).status).toBe(202);

    const worker = await harness.joinWorker("w");
    await harness.settle();

    expect(worker.lastDispatch.node).toBe(nodeId(0));
  });

  it("[A255] a run of a package starts as soon as a worker that lists it has joined, even before its manifest is stored", async () => {
    const { world: harness, bring, start } = await openFixture();
    await bring("mail");
    expect((await start()).status).toBe(400);

    await harness.joinWorker("w");

    expect((await start()).status).toBe(202);
  });

  it("[A256] a start repeated under its idempotency key is answered as the first time; a refused start leaves its key free", async () => {
    const { world: harness, bring, start, runs } = await openFixture();
    const first = await start({}, "k1");
    await bring("mail");

    const again = await start({}, "k1");
    expect(again).toMatchObject({ status: 202, headers: { "idempotent-replayed": "true" }, body: { runId: first.body.runId } });
    expect((await start({ clientId: "other" }, "k1")).body.error).toBe("E.IDEMPOTENCY.MISMATCH");
    expect((await start({ allowUnknown: true }, "k1")).body.error).toBe("E.IDEMPOTENCY.MISMATCH");
    expect((await start({}, "k2")).body.error).toBe("E.WORKFLOW.INVALID");
    expect(await runs()).toBe(1);

    await harness.joinWorker("w");
    expect(await start({}, "k2")).toMatchObject({ status: 202, headers: {} });
    expect(await runs()).toBe(2);
  });

  it("[A257] a run is retried and replayed unchanged even if its package is no longer known", async () => {
    const { bench, bring, start } = await openFixture();
    const { runId } = (await start()).body;
    await bench.callRoute("cancelRun", { params: { runId } });
    await bring("mail");
    const again = (name: "retryRun" | "replayRun", body: object) => bench.callRoute(name, { params: { runId }, body });

    expect((await again("retryRun", {})).status).toBe(202);
    expect((await again("replayRun", {})).status).toBe(202);
    expect((await again("replayRun", { from: nodeId(0), version: "same" })).status).toBe(202);
  });

  it("[A257] a replay with another version is checked for unknown packages again, unless it or the run allowed them", async () => {
    const { bench, bring, start } = await openFixture();
    await bench.callRoute("saveWorkflow", { body: chainOfTwo });
    const plain = (await start()).body.runId;
    await bring("mail");
    const allowed = (await start({ allowUnknown: true })).body.runId;
    for (const runId of [plain, allowed]) await bench.callRoute("cancelRun", { params: { runId } });
    const replay = async (runId: string, more: object = {}) =>
      (await bench.callRoute("replayRun", { params: { runId }, body: { version: "draft", ...more } })).status;

    expect([await replay(plain), await replay(plain, { allowUnknown: true }), await replay(allowed)]).toEqual([400, 202, 202]);
  });
});
