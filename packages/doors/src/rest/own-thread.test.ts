import type { Workflow } from "@astraflow/protocol";
import { sharedThreadLimits } from "@astraflow/services";
import { sampleChain } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { openWorkflowFixture } from "../testing/workflow-fixture.ts";
import type { ForwardedRequest, OwnThread } from "./own-thread.ts";
import type { RestResponse } from "./rest-api.ts";

/** A thread that notes what it is given. */
function recordingThread() {
  const requests: ForwardedRequest[] = [];
  const ownThread: OwnThread = {
    async respond(request): Promise<RestResponse> {
      requests.push(request);
      return { status: 418, headers: {}, body: "{}" };
    },
    changeRun: () => Promise.reject(new Error("no run is changed here")),
  };
  return { requests, ownThread, routes: () => requests.map(({ route }) => route) };
}

function openFixture() {
  const thread = recordingThread();
  return { ...thread, ...openWorkflowFixture({ ownThread: thread.ownThread, inPlace: sharedThreadLimits }) };
}

const nodeWith = (parameters: object, schema: object) =>
  ({
    ...sampleChain,
    nodes: [{ ...sampleChain.nodes[0], parameters, schema: { parameters: schema } }],
    edges: [],
  }) as unknown as Workflow;
/** Each is one of the last one twice. */
const doubling = (count: number) => ({
  type: "object",
  properties: { x: { $ref: `#/$defs/d${count - 1}` } },
  $defs: Object.fromEntries(
    Array.from({ length: count }, (_, at) => {
      const inner = at === 0 ? { type: "string" } : { $ref: `#/$defs/d${at - 1}` };
      return [`d${at}`, { anyOf: [{ oneOf: [inner, { type: "null" }] }, { oneOf: [inner, inner] }] }];
    }),
  ),
});

describe("requests that need a thread of their own", () => {
  it("[A610] a request with a large body is handed on unread, with its bytes, its caller and its headers", async () => {
    const { requests, callRoute, docs } = openFixture();
    const text = `{"nodes": ${" ".repeat(70_000)} this is no JSON`;

    const { status } = await callRoute("saveWorkflow", { body: text, headers: { "idempotency-key": "k" } });

    expect(status).toBe(418);
    expect(requests).toMatchObject([{ route: "saveWorkflow", identity: { user: "ann" }, headers: { "idempotency-key": "k" } }]);
    expect(Buffer.from(requests[0]?.body ?? []).toString()).toBe(text);
    expect(docs.engine.commands).toEqual([]);
  });

  it("[A610] small requests are answered in place", async () => {
    const { routes, callRoute, save } = openFixture();
    const { body } = await save();

    expect((await callRoute("getWorkflow", { params: { workflowId: body.workflowId } })).status).toBe(200);
    expect((await callRoute("validateWorkflow", { body: sampleChain })).body).toMatchObject({ isValid: true });
    expect(routes()).toEqual([]);
  });

  it("[A610] a request about a large document begins again on the thread, before anything was changed", async () => {
    const { routes, callRoute, docs } = openFixture();
    const plain = openWorkflowFixture();
    const large = nodeWith({ text: "x".repeat(70_000) }, {});
    const { body } = await plain.save(large);
    for (const [key, doc] of plain.docs.docs) docs.docs.set(key, doc);
    const params = { workflowId: body.workflowId };

    for (const route of ["getWorkflow", "getDraft", "deleteWorkflow", "publishVersion"] as const)
      expect((await callRoute(route, { params })).status).toBe(418);
    expect((await callRoute("replaceWorkflow", { params, body: { ...sampleChain, id: body.workflowId } })).status).toBe(418);

    expect(routes()).toEqual(["getWorkflow", "getDraft", "deleteWorkflow", "publishVersion", "replaceWorkflow"]);
    expect(docs.engine.commands).toEqual([]);
  });

  it("[A611] a check that takes more than some thousand steps is made on the thread, and by nobody twice where there is none", async () => {
    const { routes, callRoute, docs } = openFixture();
    const costly = nodeWith({ x: 1 }, doubling(8));

    expect((await callRoute("validateWorkflow", { body: costly })).status).toBe(418);
    expect((await callRoute("saveWorkflow", { body: costly })).status).toBe(418);
    expect(routes()).toEqual(["validateWorkflow", "saveWorkflow"]);
    expect(docs.engine.commands).toEqual([]);

    const { body } = await openWorkflowFixture().callRoute("validateWorkflow", { body: costly });
    expect(body.problems.map(({ code }: { code: string }) => code)).not.toContain("E.WORKFLOW.TOO_COSTLY");
  });

  it("[A610] lists of documents, exports, imports and edits are always carried out on the thread", async () => {
    const { routes, callRoute } = openFixture();
    const params = { workflowId: "none" };

    await callRoute("listWorkflows");
    await callRoute("exportWorkflow", { params });
    await callRoute("importWorkflow", { body: {} });
    await callRoute("editDraft", { params, body: {} });

    expect(routes()).toEqual(["listWorkflows", "exportWorkflow", "importWorkflow", "editDraft"]);
  });
});
