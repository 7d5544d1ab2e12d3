// Workflows over REST on the real engine and real stores: that what the doors write is what the engine takes and the stores find again.

import { openWorkflowFixture, type WorkflowFixture } from "@astraflow/doors/testing";
import type { StoreReader } from "@astraflow/engine";
import type { Workflow } from "@astraflow/protocol";
import { type EngineClient, ManifestRecorder } from "@astraflow/services";
import { sampleManifest } from "@astraflow/services/testing";
import {
  createMemoryFixture,
  createPostgresFixture,
  createSqliteFixture,
  type PostgresServer,
  type StoreFixture,
  startPostgres,
} from "@astraflow/store/testing";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { buildChain as chainOf, EngineHarness, nodeId } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const chain = chainOf(3) as unknown as Workflow;
const at = { workflowId: chain.id };
const key = (word: string) => ({ "idempotency-key": word });

let server: PostgresServer | null = null;
async function createOnPostgres(): Promise<StoreFixture> {
  server ??= await startPostgres();
  return createPostgresFixture(server);
}
afterAll(async () => server?.stop());

const cleanups: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0).reverse()) await end();
});

async function openFixture(
  cluster: StoreFixture,
): Promise<{ bench: WorkflowFixture; engineClient: EngineClient; reader: StoreReader; world: EngineHarness }> {
  const harness = await new EngineHarness({ store: cluster.createHandle() }).start();
  cleanups.push(
    () => cluster.close(),
    () => harness.engine.stop(),
  );
  const engineClient = createHarnessLink(harness);
  return {
    bench: openWorkflowFixture({ engineClient, reader: harness.store }),
    engineClient,
    reader: harness.store,
    world: harness,
  };
}

const storeFixtures: readonly [string, () => Promise<StoreFixture>][] = [
  ["memory", () => createMemoryFixture("strong")],
  ["sqlite", () => createSqliteFixture()],
  ["postgres", createOnPostgres],
];

describe.each(storeFixtures)("workflows on the engine over %s", (_name, stageOf) => {
  it("[A28] [A37] [A40] workflows are saved, edited by two people, published, compared and rolled back", async () => {
    const { bench } = await openFixture(await stageOf());
    const patch = (base: number, label: string, n: number, as = "ann") =>
      bench.callRoute("editDraft", {
        as,
        params: at,
        body: { base, edits: [{ op: "setNode", id: nodeId(n), path: "/label", value: label }] },
      });

    expect((await bench.callRoute("saveWorkflow", { body: chain })).body).toMatchObject({ workflowId: chain.id, revision: 1 });
    const responses = await Promise.all([patch(1, "a", 0), patch(1, "b", 1, "eve"), patch(1, "c", 2)]);
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await patch(1, "z", 0)).toMatchObject({ status: 409, body: { error: "E.DRAFT.CONFLICT" } });
    const first = await bench.callRoute("publishVersion", { params: at, headers: key("one") });
    expect(first).toMatchObject({ status: 201, body: { version: 1, revision: 4 } });
    await patch(4, "later", 0);
    expect((await bench.callRoute("publishVersion", { params: at, headers: key("one") })).body).toEqual(first.body);
    expect((await bench.callRoute("diffWorkflow", { params: at })).body.edits).toEqual([
      { op: "setNode", id: nodeId(0), path: "/label", value: "later" },
    ]);
    expect((await bench.callRoute("rollbackWorkflow", { params: at, body: { version: 1 } })).body.revision).toBe(6);
    const { body } = await bench.callRoute("getDraft", { params: at });
    expect((body.workflow as Workflow).nodes.map((node) => node.label)).toEqual(["a", "b", "c"]);
    expect(body.isPublished).toBe(true);
  });

  it("[A376] a run of a published workflow shows the published version and hash, whatever the catalogue adds to its definition", async () => {
    const { bench, engineClient, reader } = await openFixture(await stageOf());
    const manifestRecorder = new ManifestRecorder({
      engineClient,
      reader,
      digest: (text) => text,
      environment: bench.environment,
    });
    await bench.callRoute("saveWorkflow", { body: chain });
    const { versionHash } = (await bench.callRoute("publishVersion", { params: at })).body;
    manifestRecorder.recordManifests("default", [{ name: "test", version: "1.0.0", manifest: sampleManifest("test", "1.0.0") }]);
    await manifestRecorder.whenIdle();
    const start = async (body: object) =>
      (
        await bench.callRoute("getRun", {
          as: "wes",
          params: { runId: (await bench.callRoute("startRun", { body })).body.runId },
        })
      ).body;

    const run = await start({ workflowId: chain.id, version: 1, clientId: "c" });
    const draft = await start({ workflowId: chain.id, version: "draft", clientId: "c" });
    const shown = (await bench.callRoute("getVersion", { params: { ...at, version: "1" } })).body;

    expect(run).toMatchObject({ version: 1, versionHash });
    expect(shown.versionHash).toBe(versionHash);
    expect([draft.version, draft.versionHash]).toEqual(["draft", undefined]);
  });

  it("[A29] workflows are listed and searched without the deleted ones", async () => {
    const { bench } = await openFixture(await stageOf());
    for (let n = 0; n < 5; n += 1) {
      const metadata = { name: `workflow number ${n}`, tags: [n % 2 === 0 ? "even" : "odd"] };
      await bench.callRoute("saveWorkflow", { as: n === 4 ? "bob" : "ann", body: { ...chain, id: nodeId(100 + n), metadata } });
      bench.environment.advance(5);
    }
    await bench.callRoute("deleteWorkflow", { params: { workflowId: nodeId(102) } });
    const names = async (as: string, query: Record<string, string> = {}) =>
      (await bench.callRoute("listWorkflows", { as, query })).body.items
        .map((one: Workflow) => one.metadata.name.slice(-1))
        .join("");

    expect(await names("ann")).toBe("310");
    expect(await names("eve")).toBe("4310");
    expect(await names("eve", { search: "EVEN work" })).toBe("40");
    const page = await bench.callRoute("listWorkflows", { as: "eve", query: { limit: "3" } });
    expect(await names("eve", { limit: "3", cursor: page.body.nextCursor })).toBe("0");
    expect(await bench.callRoute("listWorkflows", { query: { cursor: Buffer.from("[1]").toString("base64url") } })).toMatchObject(
      {
        status: 400,
        body: { error: "E.REQUEST.INVALID" },
      },
    );
  });

  it("[A46] [A48] [A51] workflows are exported, imported, published as packages and cloned; a repeated import or clone is done once per key", async () => {
    const { bench, world: harness } = await openFixture(await stageOf());
    await bench.callRoute("saveWorkflow", { body: chain });
    await bench.callRoute("publishVersion", { params: at });
    const { body: file } = await bench.callRoute("exportWorkflow", { params: at });
    const taken = await bench.callRoute("importWorkflow", { body: file, query: { ids: "renew" }, headers: key("in") });
    const again = await bench.callRoute("importWorkflow", { body: file, query: { ids: "renew" }, headers: key("in") });
    expect([taken.status, again.body]).toEqual([201, taken.body]);
    expect(await bench.callRoute("importWorkflow", { body: file })).toMatchObject({ status: 409, body: { error: "E.CONFLICT" } });

    const publish = { params: at, body: { version: "1.0.0", visibility: "public" } };
    const { body } = await bench.callRoute("publishWorkflow", publish);
    expect(await bench.callRoute("publishWorkflow", publish)).toMatchObject({ status: 409, body: { error: "E.VERSION.EXISTS" } });
    const clone = () =>
      bench.callRoute("cloneWorkflowPackage", { as: "bob", params: { packageId: body.packageId }, headers: key("c") });
    const cloned = await clone();
    expect((await clone()).body).toEqual(cloned.body);
    expect((await bench.callRoute("listWorkflows", { as: "bob" })).body.items).toHaveLength(1);
    expect(await harness.facts("default")).toContain("audit.workflow.clone");
  });

  it("[A52] [A53] [A34] workflows are checked against the manifests that workers announced", async () => {
    const { bench, engineClient, reader } = await openFixture(await stageOf());
    const manifestRecorder = new ManifestRecorder({
      engineClient,
      reader,
      digest: (text) => text,
      environment: bench.environment,
    });
    manifestRecorder.recordManifests("default", [{ name: "test", version: "1.0.0", manifest: sampleManifest("test", "1.0.0") }]);
    await manifestRecorder.whenIdle();

    expect((await bench.callRoute("listPackages")).body.items).toMatchObject([{ name: "test", versions: ["1.0.0"] }]);
    const response = await bench.callRoute("saveWorkflow", { body: chain });
    expect(response).toMatchObject({
      status: 400,
      body: { error: "E.WORKFLOW.INVALID", details: { node: nodeId(0), path: "/nodes/0/type" } },
    });
    expect(response.body.message).toContain("test.step");
  });
});
