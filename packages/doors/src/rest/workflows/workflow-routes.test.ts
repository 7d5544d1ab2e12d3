import type { Workflow } from "@astraflow/protocol";
import { nodeIds, sampleChain } from "@astraflow/services/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { openWorkflowFixture, type WorkflowFixture } from "../../testing/workflow-fixture.ts";

const at = { workflowId: sampleChain.id };
const idOf = (n: number): string => `99999999-9999-4999-8999-${String(n).padStart(12, "0")}`;
const named = (name: string): Workflow["metadata"] => ({ ...sampleChain.metadata, name });

describe("workflows that are kept", () => {
  let bench: WorkflowFixture;
  beforeEach(() => {
    bench = openWorkflowFixture();
  });
  const get = (as = "ann") => bench.callRoute("getWorkflow", { as, params: at });

  it("[A28] a workflow is created under its id with 201, and saved again under it as the next revision", async () => {
    const first = await bench.save();
    bench.environment.advance(1_000);
    const second = await bench.save({ metadata: named("another name") });

    expect([first.status, first.body]).toMatchObject([201, { workflowId: sampleChain.id, revision: 1 }]);
    expect([second.status, second.body]).toMatchObject([201, { workflowId: sampleChain.id, revision: 2 }]);
    expect((await get()).body.metadata.name).toBe("another name");
    expect(bench.docs.log.map(({ type }) => type)).toEqual(["audit.workflow.create", "audit.workflow.update"]);
  });

  it("[A28] a workflow that is saved without an id gets one of its own", async () => {
    const { id: _id, ...nameless } = sampleChain;
    const [one, other] = [
      await bench.callRoute("saveWorkflow", { body: nameless }),
      await bench.callRoute("saveWorkflow", { body: nameless }),
    ];

    expect(one.body.workflowId).toMatch(/^[0-9a-f-]{36}$/);
    expect(other.body.workflowId).not.toBe(one.body.workflowId);
  });

  it("[A28] saving a workflow under another user's id is refused with 403, except for an admin, who does not become the owner", async () => {
    await bench.save();

    expect(await bench.save({}, "bob")).toMatchObject({ status: 403, body: { error: "E.AUTH.FORBIDDEN" } });
    expect(await bench.save({ metadata: named("by eve") }, "eve")).toMatchObject({ status: 201 });
    expect((await get()).body.metadata).toMatchObject({ name: "by eve", ownerId: "ann", createdBy: "ann", updatedBy: "eve" });
  });

  it("[A29] workflows are listed last changed first, each to its owner and all to an admin, with the log position of the list", async () => {
    for (const [n, as] of ["ann", "bob", "ann"].entries()) {
      await bench.save({ id: idOf(n), metadata: named(`w${n}`) }, as);
      bench.environment.advance(10);
    }
    await bench.save({ id: idOf(0), metadata: named("w0 again") });
    const names = async (as: string, query = {}) => {
      const { body } = await bench.callRoute("listWorkflows", { as, query });
      return [body.items.map((item: Workflow) => item.metadata.name), body.nextCursor, body.asOf];
    };

    expect(await names("ann")).toEqual([["w0 again", "w2"], null, 4]);
    expect(await names("bob")).toEqual([["w1"], null, 4]);
    expect(await names("eve")).toEqual([["w0 again", "w2", "w1"], null, 4]);
    expect(await names("vic")).toEqual([[], null, 4]);
    expect(await names("mallory")).toEqual([[], null, 0]);
    expect(await names("eve", { search: "aga W0" })).toEqual([["w0 again"], null, 4]);
    expect(await names("ann", { search: "w1" })).toEqual([[], null, 4]);
  });

  it("[A29] workflows are listed in pages under an opaque cursor, without repeats or gaps, and without deleted ones", async () => {
    for (let n = 0; n < 7; n += 1) {
      await bench.save({ id: idOf(n), metadata: named(`w${n}`) });
      bench.environment.advance(10);
    }
    await bench.callRoute("deleteWorkflow", { params: { workflowId: idOf(3) } });

    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const query: Record<string, string> = { limit: "2", ...(cursor !== null && { cursor }) };
      const { body } = await bench.callRoute("listWorkflows", { as: "eve", query });
      seen.push(...body.items.map((item: Workflow) => item.metadata.name));
      cursor = body.nextCursor;
    } while (cursor !== null);

    expect(seen).toEqual(["w6", "w5", "w4", "w2", "w1", "w0"]);
  });

  it("[A29] large workflows are listed in short pages", async () => {
    const description = "x".repeat(60_000);
    const heavy = { ...sampleChain.nodes[0], description } as Workflow["nodes"][number];
    const nodes = Array.from({ length: 20 }, (_, n) => ({ ...heavy, id: idOf(1_000 + n) }));
    for (let n = 0; n < 30; n += 1) await bench.save({ id: idOf(n), nodes, edges: [] });

    const { body } = await bench.callRoute("listWorkflows");

    expect(body.items.length).toBeLessThan(30);
    expect(body.nextCursor).not.toBeNull();
  });

  it("[A30] a workflow is shown as in its draft, with owner, revision, ETag and the log position that it is true at", async () => {
    await bench.save({ metadata: { ...named("mine"), ownerId: "somebody", createdBy: "nobody" } });

    const { status, headers, body } = await get();

    expect([status, headers["etag"]]).toEqual([200, '"r1"']);
    expect(body).toMatchObject({
      id: sampleChain.id,
      nodes: sampleChain.nodes,
      edges: sampleChain.edges,
      metadata: {
        name: "mine",
        namespace: "default",
        originId: sampleChain.id,
        ownerId: "ann",
        createdBy: "ann",
        updatedBy: "ann",
      },
      revision: 1,
      asOf: 1,
    });
    expect(body).not.toHaveProperty("latestVersion");
  });

  it("[A31] replacing a workflow with If-Match requires its current revision, and is else refused with 412 and that revision", async () => {
    await bench.save();
    const put = (name: string, tag?: string) =>
      bench.callRoute("replaceWorkflow", {
        params: at,
        body: { ...sampleChain, metadata: named(name) },
        headers: tag === undefined ? {} : { "if-match": tag },
      });

    expect(await put("two", '"r1"')).toMatchObject({ status: 200, body: { revision: 2 }, headers: { etag: '"r2"' } });
    expect(await put("three", '"r1"')).toMatchObject({ status: 412, body: { error: "E.ETAG.STALE", details: { revision: 2 } } });
    expect(await put("three", 'W/"r2"')).toMatchObject({ status: 412 });
    expect(await put("three", '"r9", "r2"')).toMatchObject({ status: 200, body: { revision: 3 } });
    expect(await put("four", "*")).toMatchObject({ status: 200, body: { revision: 4 } });
    expect(await put("five")).toMatchObject({ status: 200, body: { revision: 5 } });
    expect(await put("six", "r5")).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID" } });
    expect((await get()).body.metadata.name).toBe("five");
  });

  it("[A31] a workflow stays at its revision when it is replaced with the same content", async () => {
    await bench.save();
    const { body } = await get();

    expect(await bench.callRoute("replaceWorkflow", { params: at, body })).toMatchObject({ status: 200, body: { revision: 1 } });
  });

  it("[A31] a replaced workflow keeps its id: the body may leave it out but not name another", async () => {
    await bench.save();
    const { id: _id, ...nameless } = sampleChain;

    expect(await bench.callRoute("replaceWorkflow", { params: at, body: nameless })).toMatchObject({ status: 200 });
    expect(await bench.callRoute("replaceWorkflow", { params: at, body: { ...sampleChain, id: idOf(5) } })).toMatchObject({
      status: 400,
      body: { error: "E.REQUEST.INVALID", details: { path: "workflow.id" } },
    });
  });

  it("[A32] a workflow is deleted with 204 and no body, is then gone for everybody, and reappears when it is saved again", async () => {
    await bench.save();
    const gone = await bench.callRoute("deleteWorkflow", { params: at });

    expect([gone.status, gone.body]).toEqual([204, null]);
    expect(await get()).toMatchObject({ status: 404 });
    expect(await get("eve")).toMatchObject({ status: 404 });
    expect(await bench.callRoute("deleteWorkflow", { params: at })).toMatchObject({ status: 404 });
    expect((await bench.callRoute("listWorkflows", { as: "eve" })).body.items).toEqual([]);
    expect((await bench.save()).body).toMatchObject({ workflowId: sampleChain.id, revision: 2 });
    expect(await get()).toMatchObject({ status: 200 });
  });

  it("[A32] a workflow is deleted only at the revision that If-Match names", async () => {
    await bench.save();

    expect(await bench.callRoute("deleteWorkflow", { params: at, headers: { "if-match": '"r2"' } })).toMatchObject({
      status: 412,
    });
    expect(await bench.callRoute("deleteWorkflow", { params: at, headers: { "if-match": '"r1"' } })).toMatchObject({
      status: 204,
    });
  });

  it("[A33] the preview image of a workflow is set and removed without a new revision", async () => {
    await bench.save({ previewImage: "data:first" });
    const preview = () => bench.callRoute("getWorkflowPreview", { params: at });
    const put = (body: object) => bench.callRoute("putWorkflowPreview", { params: at, body });

    expect((await preview()).body).toMatchObject({ previewImage: "data:first" });
    expect(await put({ previewImage: "data:second" })).toMatchObject({ status: 200, body: { previewImage: "data:second" } });
    expect((await get()).body).toMatchObject({ previewImage: "data:second", revision: 1 });
    await bench.save({ metadata: named("without a picture") });
    expect((await preview()).body).toMatchObject({ previewImage: "data:second" });
    await put({ previewImage: null });
    expect((await preview()).body).toEqual({ asOf: 4 });
  });

  it("[A33] a workflow or preview request is refused if the preview image is too large", async () => {
    const previewImage = "x".repeat(1_048_577);

    expect(await bench.save({ previewImage })).toMatchObject({ status: 413, body: { error: "E.REQUEST.TOO_LARGE" } });
    await bench.save();
    expect(await bench.callRoute("putWorkflowPreview", { params: at, body: { previewImage } })).toMatchObject({ status: 400 });
  });

  it("[A34] saving a workflow with an invalid graph is refused, and the error details give the path of every problem", async () => {
    const edges = [
      { id: "loop", source: { node: nodeIds[1] ?? "", port: "out" }, target: { node: nodeIds[0] ?? "", port: "in" } },
    ];
    const cyclic = { ...sampleChain, edges: [...sampleChain.edges, ...edges] };

    for (const response of [
      await bench.save(cyclic),
      await bench.save().then(() => bench.callRoute("replaceWorkflow", { params: at, body: cyclic })),
    ]) {
      expect(response).toMatchObject({ status: 400, body: { error: "E.WORKFLOW.INVALID" } });
      expect(response.body.message).toContain("cycle");
      expect(response.body.details.problems[0]).toMatchObject({ severity: "error", path: expect.stringContaining("/edges") });
    }
    expect((await get()).body.revision).toBe(1);
  });

  it("[A35] a workflow is created once under an Idempotency-Key; a repeat gets the first answer, marked as a repeat", async () => {
    const { id: _id, ...nameless } = sampleChain;
    const save = (body: object, key = "k-1") => bench.callRoute("saveWorkflow", { body, headers: { "idempotency-key": key } });
    const first = await save(nameless);
    const second = await save(nameless);

    expect(second.body).toEqual(first.body);
    expect(second.headers["idempotent-replayed"]).toBe("true");
    await bench.callRoute("replaceWorkflow", {
      params: { workflowId: first.body.workflowId },
      body: { ...nameless, metadata: named("changed since") },
    });
    expect((await save(nameless)).body).toEqual(first.body);
    expect(await save({ ...nameless, tags: ["other"] })).toMatchObject({
      status: 409,
      body: { error: "E.IDEMPOTENCY.MISMATCH" },
    });
    expect((await save(nameless, "k-2")).body.workflowId).not.toBe(first.body.workflowId);
    expect(await save(nameless, "k ey")).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID" } });
  });

  it("[A58] two replacements of a workflow at the same time both succeed, one on top of the other", async () => {
    await bench.save();
    bench.docs.engine.holdAnswers("docs.write");
    const both = ["one", "two"].map((name) =>
      bench.callRoute("replaceWorkflow", { params: at, body: { ...sampleChain, metadata: named(name) } }),
    );
    await bench.docs.engine.nextCommand("docs.write"); // the save of before
    await bench.docs.engine.nextCommand("docs.write");
    await bench.docs.engine.nextCommand("docs.write");
    bench.docs.engine.stopHolding("docs.write");
    bench.docs.engine.releaseAnswers("docs.write");

    const responses = await Promise.all(both);

    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
    expect(new Set(responses.map(({ body }) => body.revision))).toEqual(new Set([2, 3]));
  });

  it("[A59] changes to workflows are audited with user, action, workflow and request", async () => {
    await bench.save();
    await bench.callRoute("deleteWorkflow", { params: at });

    expect(bench.docs.log.map(({ type, data }) => [type, data["by"], data["targetType"], data["target"]])).toEqual([
      ["audit.workflow.create", "ann", "workflow", sampleChain.id],
      ["audit.workflow.delete", "ann", "workflow", sampleChain.id],
    ]);
    expect(bench.docs.log[0]?.data["corr"]).toEqual(expect.any(String));
  });
});
