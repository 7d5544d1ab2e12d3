// Workflows that name a package nobody has brought, on every route that takes one in.

import type { RouteName } from "@astraflow/protocol";
import { ManifestRecorder } from "@astraflow/services";
import { nodeIds, sampleChain, sampleManifest } from "@astraflow/services/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { openWorkflowFixture, type WorkflowCallInput, type WorkflowFixture } from "../../testing/workflow-fixture.ts";

const { id } = sampleChain;
const at = { workflowId: id };
const clonedId = "99999999-9999-4999-8999-00000000c10e";

describe("workflows with packages that nobody has brought", () => {
  let bench: WorkflowFixture;
  beforeEach(() => {
    bench = openWorkflowFixture();
  });
  /** A worker brings this package, and the catalogue has had time to see it. */
  const bring = async (name: string) => {
    const { docs, environment } = bench;
    const manifestRecorder = new ManifestRecorder({
      engineClient: docs.engineClient,
      reader: docs.reader,
      digest: (text) => text,
      environment,
    });
    manifestRecorder.recordManifests("default", [{ name, version: "1.0.0", manifest: sampleManifest(name, "1.0.0") }]);
    await manifestRecorder.whenIdle();
    environment.advance(1_001);
  };
  const edits = [{ op: "setMeta", path: "/metadata/name", value: "x" }];

  /** Kept and published while nothing was known, so that each of the requests below needs only its own judgement. */
  const prepared = async (): Promise<Partial<Record<RouteName, WorkflowCallInput>>> => {
    await bench.save();
    await bench.callRoute("publishVersion", { params: at });
    const { body } = await bench.callRoute("publishWorkflow", { params: at, body: { version: "1" } });
    const file = (await bench.callRoute("exportWorkflow", { params: at })).body;
    return {
      saveWorkflow: { body: { ...sampleChain, id: clonedId } },
      replaceWorkflow: { params: at, body: { ...sampleChain, metadata: { name: "other" } } },
      publishVersion: { params: at, body: { note: "again" } },
      publishWorkflow: { params: at, body: { version: "2" } },
      importWorkflow: { query: { ids: "renew" }, body: file },
      cloneWorkflowPackage: { params: { packageId: body.packageId }, body: {} },
    };
  };
  const allowing = (asked: WorkflowCallInput): WorkflowCallInput => ({
    ...asked,
    body: { ...(asked.body as object), allowUnknown: true },
  });

  it("[A254] a workflow with unknown packages is refused by every route that stores it, with node, field and a suggested name", async () => {
    const asks = Object.entries(await prepared()) as [RouteName, WorkflowCallInput][];
    await bring("demos");
    const before = bench.docs.log.length;

    for (const [name, asked] of asks) {
      const response = await bench.callRoute(name, asked);
      expect([name, response.status, response.body.error]).toEqual([name, 400, "E.WORKFLOW.INVALID"]);
      expect(response.body.details).toMatchObject({ node: nodeIds[0], path: "/nodes/0/package/name", total: 3 });
      expect(response.body.message).toContain("no worker has registered package demo (did you mean demos?)");
    }
    expect(bench.docs.log).toHaveLength(before);
  });

  it("[A254] a workflow with unknown packages is accepted with allowUnknown by every route that stores it, and the flag is not stored", async () => {
    const asks = Object.entries(await prepared()) as [RouteName, WorkflowCallInput][];
    await bring("mail");

    for (const [name, asked] of asks) {
      const response = await bench.callRoute(name, allowing(asked));
      expect([name, response.status < 300]).toEqual([name, true]);
    }
    expect([...bench.docs.docs.values()].filter(({ body }) => body.includes("allowUnknown"))).toEqual([]);
  });

  it("[A254] a workflow is refused if its allowUnknown is neither a boolean nor null", async () => {
    for (const name of ["saveWorkflow", "validateWorkflow"] as const)
      expect((await bench.callRoute(name, { body: { ...sampleChain, allowUnknown: "yes" } })).body).toMatchObject({
        error: "E.REQUEST.INVALID",
        details: { path: "body.allowUnknown" },
      });
    expect((await bench.callRoute("saveWorkflow", { body: { ...sampleChain, allowUnknown: null } })).status).toBe(201);
  });

  it("[A254] a workflow with unknown packages is accepted with a warning while no worker has registered any package", async () => {
    await bench.save();
    const { body } = await bench.callRoute("publishVersion", { params: at });

    expect(body.problems[0]).toMatchObject({ severity: "warning", node: nodeIds[0], path: "/nodes/0/package/name" });
  });

  it("[A254] a draft may contain unknown packages and reports them as errors, and validation judges them the same way", async () => {
    await bench.save();
    await bring("mail");

    const edited = await bench.callRoute("editDraft", { params: at, body: { base: 1, edits } });
    const draft = await bench.callRoute("getDraft", { params: at });
    const check = (more: object) => bench.callRoute("validateWorkflow", { body: { ...sampleChain, ...more } });

    expect([edited.status, edited.body.problems[0].severity, draft.body.problems[0].severity]).toEqual([200, "error", "error"]);
    expect((await check({})).body).toMatchObject({ isValid: false, problems: [{ severity: "error" }, {}, {}] });
    expect((await check({ allowUnknown: true })).body).toMatchObject({
      isValid: true,
      problems: [{ severity: "warning" }, {}, {}],
    });
  });

  it("[A256] a workflow with unknown packages that was accepted under a key is answered as before, though it would be refused now", async () => {
    const { replaceWorkflow: _noKey, ...asks } = await prepared();
    const keyed = (name: string, asked: WorkflowCallInput): WorkflowCallInput => ({
      ...asked,
      headers: { "idempotency-key": `key-of-${name}` },
    });
    const first = new Map<string, unknown>();
    for (const [name, asked] of Object.entries(asks) as [RouteName, WorkflowCallInput][])
      first.set(name, (await bench.callRoute(name, keyed(name, asked))).body);
    await bring("mail");

    for (const [name, asked] of Object.entries(asks) as [RouteName, WorkflowCallInput][]) {
      const again = await bench.callRoute(name, keyed(name, asked));
      expect([name, again.headers["idempotent-replayed"]]).toEqual([name, "true"]);
      expect(again.body).toEqual(first.get(name));
      expect((await bench.callRoute(name, keyed(`${name}-anew`, asked))).status).toBe(400);
    }
  });

  it("[A255] a package is known as soon as its manifest is stored, however recently the catalogue was read", async () => {
    await bring("mail");
    expect((await bench.save()).body.message).toContain("no worker has registered package demo");
    const { docs, environment } = bench;
    const manifestRecorder = new ManifestRecorder({
      engineClient: docs.engineClient,
      reader: docs.reader,
      digest: (text) => text,
      environment,
    });
    manifestRecorder.recordManifests("default", [{ name: "demo", version: "1.0.0", manifest: sampleManifest("demo", "1.0.0") }]);
    await manifestRecorder.whenIdle();

    // The sample names node types that this manifest does not have, which only a catalogue that knows the package can report.
    expect((await bench.save()).body.message).toContain("package demo 1.0.0 has no node type");
  });
});
