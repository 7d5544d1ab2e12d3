import { applyEdits, type WorkflowEdit } from "@astraflow/graph";
import type { DraftChange, Workflow } from "@astraflow/protocol";
import { nodeIds, sampleChain } from "@astraflow/services/testing";
import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { openWorkflowFixture, type WorkflowFixture } from "../../testing/workflow-fixture.ts";

const at = { workflowId: sampleChain.id };
const [first = "", second = "", third = ""] = nodeIds;
const label = (id: string, value: string): WorkflowEdit => ({ op: "setNode", id, path: "/label", value });
const rename = (value: string): WorkflowEdit => ({ op: "setMeta", path: "/metadata/name", value });

describe("drafts", () => {
  let bench: WorkflowFixture;
  beforeEach(async () => {
    bench = openWorkflowFixture();
    await bench.save();
  });
  const patch = (base: number, edits: readonly unknown[], as = "ann") =>
    bench.callRoute("editDraft", { as, params: at, body: { base, edits } });
  const draft = async () => (await bench.callRoute("getDraft", { params: at })).body;
  const labels = async () => ((await draft()).workflow as Workflow).nodes.map((node) => node.label);

  it("[A36] a draft is shown with its revision, its problems and whether it is published", async () => {
    const response = await bench.callRoute("getDraft", { params: at });

    expect(response.headers["etag"]).toBe('"r1"');
    expect(response.body).toMatchObject({
      workflowId: sampleChain.id,
      revision: 1,
      updatedBy: "ann",
      isPublished: false,
      workflow: sampleChain,
      asOf: 1,
    });
    expect(response.body.problems).toHaveLength(3);
    expect(response.body.problems[0]).toMatchObject({ severity: "warning", node: first, path: "/nodes/0/package/name" });
    await bench.callRoute("publishVersion", { params: at });
    expect(await draft()).toMatchObject({ isPublished: true, latestVersion: 1 });
    await patch(1, [rename("again")]);
    expect(await draft()).toMatchObject({ isPublished: false, latestVersion: 1, revision: 2 });
  });

  it("[A37] a draft is changed by edits, which make its next revision", async () => {
    const edge = { id: "e9", source: { node: first, port: "out" }, target: { node: third, port: "in" } };
    const response = await patch(1, [label(first, "begin"), { op: "addEdge", edge }, rename("edited")]);

    expect(response).toMatchObject({
      status: 200,
      body: { workflowId: sampleChain.id, revision: 2, between: [] },
      headers: { etag: '"r2"' },
    });
    expect((await draft()).workflow).toMatchObject({ metadata: { name: "edited" }, edges: [...sampleChain.edges, edge] });
    expect(await labels()).toEqual(["begin", "step 1", "step 2"]);
  });

  it("[A37] a draft accepts edits of an older revision if others changed other fields, and returns the edits in between", async () => {
    await patch(1, [label(first, "by ann")]);
    await patch(2, [rename("by eve")], "eve");
    const response = await patch(1, [label(second, "by ann too")]);

    expect(response).toMatchObject({ status: 200, body: { revision: 4 } });
    expect((response.body.between as DraftChange[]).map(({ revision, by, edits }) => [revision, by, edits])).toEqual([
      [2, "ann", [label(first, "by ann")]],
      [3, "eve", [rename("by eve")]],
    ]);
    expect(await labels()).toEqual(["by ann", "by ann too", "step 2"]);
  });

  it("[A37] a draft accepts edits of a revision before it was replaced as a whole, if the replacement left those fields alone", async () => {
    await bench.callRoute("replaceWorkflow", { params: at, body: { ...sampleChain, metadata: { name: "replaced" } } });

    expect(await patch(1, [label(third, "last")])).toMatchObject({ status: 200, body: { revision: 3 } });
    expect(await patch(1, [rename("mine")])).toMatchObject({ status: 409, body: { error: "E.DRAFT.CONFLICT" } });
  });

  it("[A38] a draft refuses edits of fields that others changed, with the edits in between, their authors and times, and the conflicts", async () => {
    await patch(1, [rename("theirs"), label(first, "theirs")], "eve");
    const response = await patch(1, [label(second, "mine"), label(first, "mine")]);

    expect(response).toMatchObject({ status: 409, body: { error: "E.DRAFT.CONFLICT" } });
    expect(response.body.details).toMatchObject({
      head: 2,
      base: 1,
      edits: [
        { revision: 2, by: "eve", at: expect.stringMatching(/^\d{4}-.*Z$/), edits: [rename("theirs"), label(first, "theirs")] },
      ],
      conflicts: [{ edit: 1, field: expect.stringContaining(first), with: { revision: 2, edit: 1 } }],
    });
    expect(await labels()).toEqual(["theirs", "step 1", "step 2"]);
  });

  it("[A38] a draft refuses edits of a node that another user removed", async () => {
    await patch(1, [{ op: "removeNode", id: third }], "eve");

    expect(await patch(1, [label(third, "mine")])).toMatchObject({
      status: 409,
      body: { error: "E.DRAFT.CONFLICT", details: { head: 2 } },
    });
  });

  it("[A38] a draft accepts the same edit by two users without a conflict", async () => {
    await patch(1, [rename("same")], "eve");

    expect(await patch(1, [rename("same")])).toMatchObject({ status: 200, body: { revision: 3 } });
  });

  it("[A39] a draft refuses edits of a revision ahead of it, or of one too old to be compared", async () => {
    expect(await patch(2, [rename("x")])).toMatchObject({ status: 404, body: { details: { path: "body.base", head: 1 } } });
    for (let base = 1; base <= 201; base += 1) await patch(base, [rename(`n${base}`)]);

    expect(await patch(1, [label(first, "late")])).toMatchObject({
      status: 409,
      body: { error: "E.DRAFT.CONFLICT", details: { head: 202, conflicts: [{ edit: 0 }] } },
    });
    expect(await patch(2, [label(first, "in time")])).toMatchObject({ status: 200 });
  });

  it.each<[unknown[], number, string]>([
    [[{ op: "paint" }], 400, "E.REQUEST.INVALID"],
    [[{ op: "setNode", id: first }], 400, "E.REQUEST.INVALID"],
    [[{ op: "setNode", id: first, path: "/__proto__/x", value: 1 }], 400, "E.REQUEST.INVALID"],
    [[rename("x"), label("nobody", "x")], 400, "E.REQUEST.INVALID"],
    [[{ op: "setMeta", path: "/metadata/name", value: 5 }], 400, "E.WORKFLOW.INVALID"],
    [nodeIds.map((id) => ({ op: "removeNode", id })), 400, "E.WORKFLOW.INVALID"],
  ])("[A39] a draft refuses edits as a whole if they cannot be applied: %j", async (edits, status, error) => {
    const response = await patch(1, edits);

    expect([response.status, response.body.error]).toEqual([status, error]);
    expect((await draft()).revision).toBe(1);
  });

  it("[A37] a draft may contain unfinished work: its errors are reported, and publishing it is refused", async () => {
    const edge = { id: "back", source: { node: third, port: "out" }, target: { node: first, port: "in" } };
    const response = await patch(1, [{ op: "addEdge", edge }]);

    expect(response.status).toBe(200);
    expect(response.body.problems).toContainEqual(expect.objectContaining({ severity: "error" }));
    expect(await bench.callRoute("publishVersion", { params: at })).toMatchObject({
      status: 400,
      body: { error: "E.WORKFLOW.INVALID" },
    });
  });

  it("[A37] a draft keeps its id and owner whatever the edits contain", async () => {
    await patch(1, [
      { op: "setMeta", path: "/id", value: first },
      { op: "setMeta", path: "/metadata/ownerId", value: "bob" },
    ]);

    expect((await bench.callRoute("getWorkflow", { params: at })).body).toMatchObject({
      id: sampleChain.id,
      metadata: { ownerId: "ann" },
    });
  });

  it("[A58] a draft that two users save at once contains the edits of both", async () => {
    bench.docs.engine.holdAnswers("docs.write");
    const both = [patch(1, [label(first, "a")]), patch(1, [label(second, "b")], "eve")];
    for (let n = 0; n < 3; n += 1) await bench.docs.engine.nextCommand("docs.write");
    bench.docs.engine.stopHolding("docs.write");
    bench.docs.engine.releaseAnswers("docs.write");
    const responses = await Promise.all(both);

    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
    expect(await labels()).toEqual(["a", "b", "step 2"]);
  });

  it("[A37] [A38] a draft is the same in the scheduler and in every editor that applies the edits it missed before its own", async () => {
    const edit = fc.oneof(
      fc.tuple(fc.constantFrom(...nodeIds), fc.constantFrom("x", "y")).map(([id, word]) => label(id, word)),
      fc.constantFrom("p", "q").map(rename),
      fc.constantFrom(...nodeIds).map((id): WorkflowEdit => ({ op: "setNode", id, path: "/description", value: id })),
      fc.constantFrom(...nodeIds.slice(1)).map((id): WorkflowEdit => ({ op: "removeNode", id })),
    );
    /** Who saves, and whether the editor has looked at the newest draft before. */
    const save = fc.record({
      who: fc.constantFrom("ann", "eve"),
      looks: fc.boolean(),
      edits: fc.array(edit, { minLength: 1, maxLength: 3 }),
    });

    await fc.assert(
      fc.asyncProperty(fc.array(save, { minLength: 1, maxLength: 8 }), async (saves) => {
        bench = openWorkflowFixture();
        await bench.save();
        const editors = { ann: { base: 1, workflow: sampleChain }, eve: { base: 1, workflow: sampleChain } };
        for (const { who, looks, edits } of saves) {
          const mine = editors[who as "ann" | "eve"];
          if (looks) Object.assign(mine, { base: (await draft()).revision, workflow: (await draft()).workflow });
          const before = await draft();
          const response = await patch(mine.base, edits, who);
          const isTaken = response.status === 200;
          const missed = ((response.body.between ?? []) as DraftChange[]).flatMap((change) => change.edits ?? []);
          const own = [...(missed as unknown as WorkflowEdit[]), ...edits];
          if (isTaken) Object.assign(mine, { base: response.body.revision, workflow: applyEdits(mine.workflow, own) });
          // Taken: the editor has what the scheduler has. Refused: the scheduler has what it had.
          expect((await draft()).workflow).toEqual(isTaken ? mine.workflow : before.workflow);
          expect([200, 400, 409]).toContain(response.status);
        }
      }),
      { numRuns: 60 },
    );
  });
});
