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

  it("[A254] are refused by every route that takes them in, with node, field and the name that was perhaps meant", async () => {
    const asks = Object.entries(await prepared()) as [RouteName, WorkflowCallInput][];
    await bring("demos");
    const before = bench.docs.log.length;

    for (const [name, asked] of asks) {
      const told = await bench.callRoute(name, asked);
      expect([name, told.status, told.body.error]).toEqual([name, 400, "E.WORKFLOW.INVALID"]);
      expect(told.body.details).toMatchObject({ node: nodeIds[0], path: "/nodes/0/package/name", total: 3 });
      expect(told.body.message).toContain("no worker has registered package demo (did you mean demos?)");
    }
    expect(bench.docs.log).toHaveLength(before);
  });

  it("[A254] are taken in by all of them with allowUnknownFlag, which is no part of what is kept", async () => {
    const asks = Object.entries(await prepared()) as [RouteName, WorkflowCallInput][];
    await bring("mail");

    for (const [name, asked] of asks) {
      const told = await bench.callRoute(name, allowing(asked));
      expect([name, told.status < 300]).toEqual([name, true]);
    }
    expect([...bench.docs.docs.values()].filter(({ body }) => body.includes("allowUnknown"))).toEqual([]);
  });

  it("[A254] are refused where allowUnknownFlag is neither true nor false", async () => {
    for (const name of ["saveWorkflow", "validateWorkflow"] as const)
      expect((await bench.callRoute(name, { body: { ...sampleChain, allowUnknown: "yes" } })).body).toMatchObject({
        error: "E.REQUEST.INVALID",
        details: { path: "body.allowUnknown" },
      });
    expect((await bench.callRoute("saveWorkflow", { body: { ...sampleChain, allowUnknown: null } })).status).toBe(201);
  });

  it("[A254] are taken in with a warning while nobody has brought anything", async () => {
    await bench.save();
    const { body } = await bench.callRoute("publishVersion", { params: at });

    expect(body.problems[0]).toMatchObject({ severity: "warning", node: nodeIds[0], path: "/nodes/0/package/name" });
  });

  it("[A254] may stand in drafts, which tell it as an error, and are judged the same by whoever validates them", async () => {
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

  it("[A256] that were taken in under a key are answered as then, though they would be refused now", async () => {
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

  it("[A255] are known as soon as their manifest is kept, however lately the catalogue was looked at", async () => {
    await bring("mail");
    expect((await bench.save()).status).toBe(400);
    const { docs, environment } = bench;
    const manifestRecorder = new ManifestRecorder({
      engineClient: docs.engineClient,
      reader: docs.reader,
      digest: (text) => text,
      environment,
    });
    manifestRecorder.recordManifests("default", [{ name: "demo", version: "1.0.0", manifest: sampleManifest("demo", "1.0.0") }]);
    await manifestRecorder.whenIdle();

    expect((await bench.save()).body.message ?? "").not.toContain("no worker has brought");
  });
});
