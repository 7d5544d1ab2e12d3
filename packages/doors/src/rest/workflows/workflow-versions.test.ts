import type { Workflow, WorkflowFile, WorkflowVersion } from "@astraflow/protocol";
import { nodeIds, sampleChain } from "@astraflow/services/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { openWorkflowFixture, type WorkflowFixture } from "../../testing/workflow-fixture.ts";

const at = { workflowId: sampleChain.id };
const named = (name: string): Workflow["metadata"] => ({ ...sampleChain.metadata, name });
const key = (word: string) => ({ "idempotency-key": word });

describe("versions of workflows", () => {
  let bench: WorkflowFixture;
  beforeEach(async () => {
    bench = openWorkflowFixture();
    await bench.save();
  });
  const publish = (body?: object, headers = {}) => bench.callRoute("publishVersion", { params: at, body, headers });
  const version = (number: number | string, as = "ann") =>
    bench.callRoute("getVersion", { as, params: { ...at, version: String(number) } });

  it("[A40] a workflow version is published under the next number, and stays the same when the draft changes", async () => {
    const first = await publish({ note: "the first" });
    await bench.save({ metadata: named("changed") });
    const second = await publish();

    expect([first.status, first.body]).toMatchObject([
      201,
      { workflowId: sampleChain.id, version: 1, revision: 1, publishedBy: "ann", note: "the first" },
    ]);
    expect(second.body).toMatchObject({ version: 2, revision: 2 });
    expect(second.body.versionHash).not.toBe(first.body.versionHash);
    expect((await version(1)).body.workflow.metadata.name).toBe("chain");
    expect((await version(2)).body.workflow.metadata.name).toBe("changed");
    expect((await bench.callRoute("getWorkflow", { params: at })).body.latestVersion).toBe(2);
    expect((await bench.callRoute("getDraft", { params: at })).body).toMatchObject({ isPublished: true });
  });

  it("[A41] publishing a workflow version is refused if the draft has an error, and returns the draft's warnings", async () => {
    expect((await publish()).body.problems).toMatchObject([
      { severity: "warning" },
      { severity: "warning" },
      { severity: "warning" },
    ]);

    const head = bench.docs.body("default", "workflow", sampleChain.id) as { workflow: Workflow };
    const source = { node: nodeIds[2] ?? "", port: "out" };
    const edges = [...sampleChain.edges, { id: "back", source, target: { node: nodeIds[0] ?? "", port: "in" } }];
    const body = JSON.stringify({ ...head, workflow: { ...head.workflow, edges } });
    bench.docs.write({ tenant: "default", puts: [{ collection: "workflow", name: sampleChain.id, body }] });

    expect(await publish()).toMatchObject({ status: 400, body: { error: "E.WORKFLOW.INVALID" } });
    expect((await bench.callRoute("listVersions", { params: at })).body.items).toHaveLength(1);
  });

  it("[A41] publishing a workflow version is refused if the draft is not at the requested revision", async () => {
    expect(await publish({ revision: 2 })).toMatchObject({
      status: 412,
      body: { error: "E.ETAG.STALE", details: { revision: 1 } },
    });
    expect(await publish({ revision: 1 })).toMatchObject({ status: 201 });
  });

  it("[A35] a workflow version is published once under an Idempotency-Key, whatever happened to the draft since", async () => {
    const first = await publish({ revision: 1 }, key("k"));
    await bench.save({ metadata: named("changed") });
    await publish();
    const again = await publish({ revision: 1 }, key("k"));

    expect(again.body).toEqual(first.body);
    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect(await publish({ note: "other" }, key("k"))).toMatchObject({ status: 409, body: { error: "E.IDEMPOTENCY.MISMATCH" } });
    expect((await bench.callRoute("listVersions", { params: at })).body.items).toHaveLength(2);
  });

  it("[A42] workflow versions are listed newest first in pages, without their workflows", async () => {
    for (let n = 0; n < 12; n += 1) await publish();
    const first = await bench.callRoute("listVersions", { params: at, query: { limit: "5" } });
    const second = await bench.callRoute("listVersions", { params: at, query: { limit: "5", cursor: first.body.nextCursor } });

    const numbers = (items: WorkflowVersion[]) => items.map((one) => one.version);
    expect(numbers(first.body.items)).toEqual([12, 11, 10, 9, 8]);
    expect(numbers(second.body.items)).toEqual([7, 6, 5, 4, 3]);
    expect(first.body.items[0]).not.toHaveProperty("workflow");
    expect(first.body.asOf).toBe(13);
  });

  it("[A42] a workflow version that does not exist is answered with 404", async () => {
    for (const number of ["1", "0", "-1", "1.5", "draft", "99999999999"])
      expect(await version(number)).toMatchObject({ status: 404, body: { error: "E.NOT_FOUND" } });
  });

  it("[A44] a rollback makes a workflow version the draft again, as a new revision", async () => {
    await publish();
    await bench.save({ metadata: named("worse") });
    const response = await bench.callRoute("rollbackWorkflow", { params: at, body: { version: 1 }, headers: key("back") });

    expect([response.status, response.body]).toEqual([200, { workflowId: sampleChain.id, revision: 3 }]);
    expect((await bench.callRoute("getDraft", { params: at })).body).toMatchObject({
      revision: 3,
      isPublished: true,
      workflow: { metadata: { name: "chain" } },
    });
    await bench.save({ metadata: named("again") });
    const repeat = await bench.callRoute("rollbackWorkflow", { params: at, body: { version: 1 }, headers: key("back") });
    expect([repeat.body.revision, repeat.headers["idempotent-replayed"]]).toEqual([3, "true"]);
    expect(await bench.callRoute("rollbackWorkflow", { params: at, body: { version: 7 } })).toMatchObject({ status: 404 });
  });

  it("[A43] workflow versions are compared with each other and with the draft, by default the newest one with the draft", async () => {
    await publish();
    await bench.save({ metadata: named("renamed") });
    await publish();
    await bench.save({ metadata: named("renamed"), nodes: sampleChain.nodes.slice(0, 2), edges: sampleChain.edges.slice(0, 1) });
    const diff = (query: Record<string, string> = {}) => bench.callRoute("diffWorkflow", { params: at, query });

    expect((await diff()).body).toMatchObject({ from: "2", to: "draft" });
    expect((await diff()).body.edits.length).toBeGreaterThan(0);
    expect(JSON.stringify((await diff({ from: "1", to: "2" })).body.edits)).toContain("renamed");
    expect((await diff({ from: "draft", to: "draft" })).body.edits).toEqual([]);
    expect(await diff({ from: "9" })).toMatchObject({ status: 404 });
    expect(await diff({ to: "newest" })).toMatchObject({ status: 400, body: { details: { path: "query.to" } } });
  });
});

describe("files of workflows", () => {
  let bench: WorkflowFixture;
  beforeEach(async () => {
    bench = openWorkflowFixture();
    await bench.save({ previewImage: "data:picture" });
    await bench.callRoute("publishVersion", { params: at, body: { note: "one" } });
    await bench.save({ metadata: named("later") });
    await bench.callRoute("publishVersion", { params: at });
    await bench.save({ metadata: named("draft") });
  });
  const takeIn = (file: unknown, query: Record<string, string> = {}, as = "ann", headers = {}) =>
    bench.callRoute("importWorkflow", { as, body: file, query, headers });
  const take = async (): Promise<WorkflowFile> => (await bench.callRoute("exportWorkflow", { params: at })).body;

  it("[A45] an exported workflow file contains the draft, the preview image and all versions, oldest first, and is an attachment", async () => {
    const { headers, body } = await bench.callRoute("exportWorkflow", { params: at });

    expect(headers["content-disposition"]).toBe(`attachment; filename="workflow-${sampleChain.id}.json"`);
    expect(body).toMatchObject({
      format: "astraflow.workflow/1",
      workflow: { metadata: { name: "draft" } },
      previewImage: "data:picture",
    });
    expect((body as WorkflowFile).versions.map(({ version, note, workflow }) => [version, note, workflow.metadata.name])).toEqual(
      [
        [1, "one", "chain"],
        [2, undefined, "later"],
      ],
    );
  });

  it("[A46] a workflow file is imported by another tenant under its own id, and exported from there is the same again", async () => {
    const file = await take();
    const response = await takeIn(file, {}, "mallory");

    expect([response.status, response.body]).toEqual([201, { workflowId: sampleChain.id, revision: 1 }]);
    const again = await bench.callRoute("exportWorkflow", { as: "mallory", params: at });
    expect(again.body.versions).toEqual(file.versions);
    expect(again.body.workflow.nodes).toEqual(file.workflow.nodes);
    const next = await bench.callRoute("publishVersion", { as: "mallory", params: at });
    expect(next.body.version).toBe(3);
  });

  it("[A46] a workflow file is refused if its id exists, deleted or not, and is imported under a new one", async () => {
    const file = await take();
    expect(await takeIn(file)).toMatchObject({ status: 409, body: { error: "E.CONFLICT" } });
    await bench.callRoute("deleteWorkflow", { params: at });
    expect(await takeIn(file)).toMatchObject({ status: 409, body: { message: expect.stringContaining("ids=renew") } });

    const { body } = await takeIn(file, { ids: "renew" }, "bob");
    expect(body.workflowId).not.toBe(sampleChain.id);
    const params = { workflowId: body.workflowId };
    expect((await bench.callRoute("getWorkflow", { as: "bob", params })).body).toMatchObject({
      id: body.workflowId,
      latestVersion: 2,
      metadata: { ownerId: "bob", originId: sampleChain.id },
    });
    const { versions } = (await bench.callRoute("exportWorkflow", { as: "bob", params })).body as WorkflowFile;
    expect(versions.map(({ workflow, publishedBy }) => [workflow.id, publishedBy])).toEqual([
      [body.workflowId, "bob"],
      [body.workflowId, "bob"],
    ]);
  });

  it("[A35] a workflow file is imported once under an Idempotency-Key", async () => {
    const file = await take();
    const first = await takeIn(file, { ids: "renew" }, "ann", key("in"));
    const again = await takeIn(file, { ids: "renew" }, "ann", key("in"));

    expect(again.body).toEqual(first.body);
    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect(await takeIn({ ...file, versions: [] }, { ids: "renew" }, "ann", key("in"))).toMatchObject({ status: 409 });
  });

  it("[A46] a workflow file is refused if it is malformed, or if a version published in it could not run", async () => {
    const file = await take();
    const [one, two] = file.versions;
    const looped = [{ id: "x", source: { node: nodeIds[0], port: "o" }, target: { node: nodeIds[0], port: "i" } }];
    const cases: [unknown, number, string][] = [
      [{ ...file, format: "something/2" }, 400, "body.format"],
      [{ ...file, versions: [two, one] }, 400, "body.versions.1.version"],
      [{ ...file, versions: [{ ...one, version: 0 }] }, 400, "body.versions.0.version"],
      [{ ...file, versions: [{ ...one, publishedAt: "yesterday" }] }, 400, "body.versions.0.publishedAt"],
      [{ ...file, versions: [{ ...one, workflow: { ...one?.workflow, id: nodeIds[0] } }] }, 400, "body.versions.0.workflow.id"],
      [{ ...file, versions: [{ ...one, workflow: { ...one?.workflow, edges: looped } }] }, 400, "/edges"],
      [{ ...file, workflow: { ...file.workflow, nodes: [] } }, 400, "workflow.nodes"],
      [[], 400, "body"],
    ];
    for (const [body, status, path] of cases)
      expect(await takeIn(body, { ids: "renew" })).toMatchObject({ status, body: { details: { path } } });
    expect(await takeIn(file, { ids: "some" })).toMatchObject({ status: 400, body: { details: { path: "query.ids" } } });
  });

  it("[A45] an exported workflow file omits the oldest versions if all would exceed the import limit, and contains their number", async () => {
    const description = "ü".repeat(60_000);
    const nodes = Array.from({ length: 20 }, (_, n) => ({
      ...(sampleChain.nodes[0] as Workflow["nodes"][number]),
      id: `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`,
      description,
    }));
    await bench.save({ nodes, edges: [] });
    for (let n = 0; n < 4; n += 1) await bench.callRoute("publishVersion", { params: at });

    const file = await take();
    expect(file.omitted).toBe(4);
    expect(file.versions.map(({ version }) => version)).toEqual([5, 6]);
    expect(await takeIn(file, { ids: "renew" })).toMatchObject({ status: 201 });
  });
});
