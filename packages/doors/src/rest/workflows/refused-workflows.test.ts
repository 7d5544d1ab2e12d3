// Every route about workflows, with everything that may be wrong about a request: the code and status of the table, in one sentence.

import { limits, type Route, type RouteName, routes } from "@astraflow/protocol";
import { sampleChain } from "@astraflow/services/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { openWorkflowFixture, type WorkflowCallInput, type WorkflowFixture } from "../../testing/workflow-fixture.ts";

const { id } = sampleChain;
const missing = "99999999-9999-4999-8999-00000000dead";
const edit = { base: 1, edits: [{ op: "setMeta", path: "/metadata/name", value: "x" }] };

/** A request of each route that is right but for what a test makes wrong about it. */
const rights: Partial<Record<RouteName, WorkflowCallInput>> = {
  listWorkflows: {},
  saveWorkflow: { body: sampleChain },
  importWorkflow: { body: { format: "astraflow.workflow/1", workflow: sampleChain, versions: [] } },
  validateWorkflow: { body: sampleChain },
  getWorkflow: { params: { workflowId: id } },
  replaceWorkflow: { params: { workflowId: id }, body: sampleChain },
  deleteWorkflow: { params: { workflowId: id } },
  getWorkflowPreview: { params: { workflowId: id } },
  putWorkflowPreview: { params: { workflowId: id }, body: {} },
  getDraft: { params: { workflowId: id } },
  editDraft: { params: { workflowId: id }, body: edit },
  publishVersion: { params: { workflowId: id }, body: {} },
  listVersions: { params: { workflowId: id } },
  getVersion: { params: { workflowId: id, version: "1" } },
  diffWorkflow: { params: { workflowId: id } },
  rollbackWorkflow: { params: { workflowId: id }, body: { version: 1 } },
  exportWorkflow: { params: { workflowId: id } },
  publishWorkflow: { params: { workflowId: id }, body: { version: "9" } },
  listWorkflowPackages: {},
  getWorkflowPackage: { params: { packageId: "" } },
  deleteWorkflowPackage: { params: { packageId: "" } },
  listWorkflowPackageVersions: { params: { packageId: "" } },
  cloneWorkflowPackage: { params: { packageId: "" }, body: {} },
  listPackages: {},
  getPackage: { params: { packageName: "demo" } },
  searchNodes: {},
};
const names = Object.keys(rights) as RouteName[];
const routeOf = (name: RouteName): Route => routes[name];
const withBody = names.filter((name) => routeOf(name).request !== undefined);
const ofOne = names.filter((name) => /workflowId|packageId/.test(routeOf(name).path));
const changing = names.filter((name) => routeOf(name).grant === "edit");

describe("wrong requests about workflows", () => {
  let bench: WorkflowFixture;
  let packageId: string;
  beforeEach(async () => {
    bench = openWorkflowFixture();
    await bench.save();
    await bench.callRoute("publishVersion", { params: { workflowId: id } });
    const { body } = await bench.callRoute("publishWorkflow", { params: { workflowId: id }, body: { version: "1" } });
    packageId = body.packageId;
  });
  const right = (name: RouteName): WorkflowCallInput => {
    const asked = rights[name] ?? {};
    return asked.params?.["packageId"] === undefined ? asked : { ...asked, params: { packageId } };
  };
  /** Status and code of a refusal that is one sentence and has changed nothing. */
  const refusal = async (name: RouteName, asked: WorkflowCallInput): Promise<string> => {
    const before = bench.docs.log.length;
    const { status, body } = await bench.callRoute(name, asked);
    const isSentence = /^[^\n]{5,400}$/.test(body?.message) && typeof body.requestId === "string";
    const isUnchanged = bench.docs.log.length === before;
    return `${status} ${body?.error}${isSentence ? "" : ", in no sentence"}${isUnchanged ? "" : ", and changed something"}`;
  };

  it("[A56] every route of workflows and of packages is covered by the tests of refused requests", () => {
    // What is published, and brought to workers, has tests of its own: test/engine/rest/packages.test.ts and test/engine/fleet.
    const isRepository = (name: string) =>
      /Package(Version|Versions|Resource)?$|Installs?$|Rollouts?$/.test(name) && !/Workflow|^getPackage$/.test(name);
    const mine = Object.keys(routes).filter(
      (name) =>
        /^\/api\/v1\/(workflows|workflow-packages|packages|catalog)\b/.test(routeOf(name as RouteName).path) &&
        !isRepository(name),
    );
    expect(names.toSorted()).toEqual(mine.toSorted());
  });

  it.each(names)("[A56] the route %s refuses an unknown token", async (name) => {
    expect(await refusal(name, { ...right(name), as: "nobody" })).toBe("401 E.AUTH.INVALID_TOKEN");
  });

  it.each(changing)("[A56] the route %s refuses a token that may only read", async (name) => {
    expect(await refusal(name, { ...right(name), as: "vic" })).toBe("403 E.AUTH.FORBIDDEN");
  });

  it.each(ofOne)(
    "[A57] the route %s answers another tenant's id, another user's id and an unknown id with the same message",
    async (name) => {
      const asked = right(name);
      const parameter = asked.params?.["packageId"] === undefined ? "workflowId" : "packageId";
      const real = asked.params?.[parameter] ?? "";
      const ask = (value: string, as = "ann") => ({ ...asked, as, params: { ...asked.params, [parameter]: value } });
      const answerTo = async (as: string, value: string) => {
        const { status, body } = await bench.callRoute(name, ask(value, as));
        return `${status} ${body.message.replace(value, "<id>")}`;
      };

      const words = [await answerTo("ann", missing), await answerTo("mallory", real), await answerTo("bob", real)];
      expect(words[0]).toMatch(/^404 there is no workflow/);
      expect(new Set(words).size).toBe(1);
      for (const odd of ["x", "..", `${real}/1`, "%00", "x".repeat(1_000)])
        expect(await refusal(name, ask(odd))).toBe("404 E.NOT_FOUND");
    },
  );

  it.each(withBody)("[A56] the route %s refuses bodies that are malformed, too large or of another media type", async (name) => {
    const asked = right(name);
    expect(await refusal(name, { ...asked, headers: { "content-type": "text/plain" } })).toBe("415 E.REQUEST.MEDIA");
    expect(await refusal(name, { ...asked, body: "{" })).toBe("400 E.REQUEST.INVALID");
    expect(await refusal(name, { ...asked, body: '{"a":1,"a":2}' })).toBe("400 E.REQUEST.INVALID");
    expect(await refusal(name, { ...asked, body: Buffer.from([0x22, 0xff, 0x22]) })).toBe("400 E.REQUEST.INVALID");
    expect(await refusal(name, { ...asked, body: `[${"[".repeat(100)}${"]".repeat(100)}]` })).toBe("413 E.REQUEST.TOO_LARGE");
    expect(await refusal(name, { ...asked, body: Buffer.alloc(limits.requestBytesMax + 1, 0x20) })).toBe(
      "413 E.REQUEST.TOO_LARGE",
    );
  });

  it.each(withBody.filter((name) => routeOf(name).isBodyOptional !== true))(
    "[A56] the route %s requires a body",
    async (name) => {
      expect(await refusal(name, { ...right(name), body: "" })).toBe("400 E.REQUEST.INVALID");
    },
  );

  it.each(names)("[A56] the route %s refuses an unknown query parameter", async (name) => {
    expect(await refusal(name, { ...right(name), query: { nonsense: "1" } })).toBe("400 E.REQUEST.INVALID");
  });

  it.each(names.filter((name) => routeOf(name).query?.["cursor"] !== undefined))(
    "[A56] the route %s refuses an invalid page limit or cursor",
    async (name) => {
      for (const query of [{ limit: "0" }, { limit: "201" }, { limit: "x" }, { limit: "1e2" }, { cursor: "?" }, { cursor: "" }])
        expect(await refusal(name, { ...right(name), query: query as Record<string, string> })).toBe("400 E.REQUEST.INVALID");
    },
  );

  it("[A343] an invalid workflow is answered with 400, whether its shape or its graph is wrong", async () => {
    const looped = [
      ...sampleChain.edges,
      { ...sampleChain.edges[0], id: "back", source: sampleChain.edges[0]?.target, target: sampleChain.edges[0]?.source },
    ];
    for (const body of [
      { ...sampleChain, nodes: [] },
      { ...sampleChain, edges: looped },
    ])
      expect(await refusal("saveWorkflow", { body })).toBe("400 E.WORKFLOW.INVALID");
  });

  const invalid = "E.REQUEST.INVALID";
  const wrongs: [RouteName, WorkflowCallInput, number, string][] = [
    ["saveWorkflow", { body: [] }, 400, "E.WORKFLOW.INVALID"],
    ["saveWorkflow", { body: { ...sampleChain, id: "not-a-uuid" } }, 400, "E.WORKFLOW.INVALID"],
    ["saveWorkflow", { body: { ...sampleChain, nodes: [] } }, 400, "E.WORKFLOW.INVALID"],
    ["saveWorkflow", { body: { ...sampleChain, schemaVersion: 2025 } }, 400, "E.WORKFLOW.INVALID"],
    ["saveWorkflow", { body: { ...sampleChain, metadata: { name: 5 } } }, 400, "E.WORKFLOW.INVALID"],
    ["saveWorkflow", { body: sampleChain, headers: { "idempotency-key": "x".repeat(65) } }, 400, invalid],
    ["replaceWorkflow", { body: { ...sampleChain, nodes: "all" } }, 400, "E.WORKFLOW.INVALID"],
    ["replaceWorkflow", { body: sampleChain, headers: { "if-match": '"r7"' } }, 412, "E.ETAG.STALE"],
    ["replaceWorkflow", { body: sampleChain, headers: { "if-match": "seven" } }, 400, invalid],
    ["deleteWorkflow", { headers: { "if-match": '"r7"' } }, 412, "E.ETAG.STALE"],
    ["putWorkflowPreview", { body: { previewImage: 7 } }, 400, invalid],
    ["putWorkflowPreview", { body: [] }, 400, invalid],
    ["editDraft", { body: { base: 1 } }, 400, invalid],
    ["editDraft", { body: { base: "1", edits: edit.edits } }, 400, invalid],
    ["editDraft", { body: { base: 0, edits: edit.edits } }, 400, invalid],
    ["editDraft", { body: { base: 5, edits: edit.edits } }, 404, "E.NOT_FOUND"],
    ["editDraft", { body: { base: 1, edits: [] } }, 400, invalid],
    ["editDraft", { body: { base: 1, edits: ["rename"] } }, 400, invalid],
    ["editDraft", { body: { base: 1, edits: [{ op: "nonsense" }] } }, 400, invalid],
    ["publishVersion", { body: { revision: "1" } }, 400, invalid],
    ["publishVersion", { body: { revision: 4 } }, 412, "E.ETAG.STALE"],
    ["publishVersion", { body: { note: 5 } }, 400, invalid],
    ["getVersion", { params: { workflowId: id, version: "2" } }, 404, "E.NOT_FOUND"],
    ["rollbackWorkflow", { body: {} }, 400, invalid],
    ["rollbackWorkflow", { body: { version: "1" } }, 400, invalid],
    ["rollbackWorkflow", { body: { version: 2 } }, 404, "E.NOT_FOUND"],
    ["diffWorkflow", { query: { from: "0" } }, 400, invalid],
    ["diffWorkflow", { query: { from: "3" } }, 404, "E.NOT_FOUND"],
    ["importWorkflow", { body: sampleChain }, 400, invalid],
    ["publishWorkflow", { body: { version: "1" } }, 409, "E.VERSION.EXISTS"],
    ["publishWorkflow", { body: { version: "2", packageId: missing } }, 404, "E.NOT_FOUND"],
    ["listWorkflowPackages", { query: { visibility: "all" } }, 400, invalid],
    ["cloneWorkflowPackage", { body: { version: 1 } }, 400, invalid],
    ["cloneWorkflowPackage", { body: { workflowName: "x".repeat(300) } }, 400, invalid],
    ["cloneWorkflowPackage", { body: { versionId: missing } }, 404, "E.NOT_FOUND"],
  ];
  it.each(wrongs)("[A56] the route %s with the request %j is refused (%i %s)", async (name, asked, status, error) => {
    expect(await refusal(name, { ...right(name), ...asked })).toBe(`${status} ${error}`);
  });

  it("[A47] validating a workflow reports what is wrong with its shape and its graph, and stores nothing", async () => {
    const check = (body: unknown) => bench.callRoute("validateWorkflow", { as: "vic", body });
    const before = bench.docs.docs.size;

    expect((await check(sampleChain)).body).toMatchObject({ isValid: true, problems: [{ severity: "warning" }, {}, {}] });
    expect((await check({ ...sampleChain, nodes: [] })).body).toMatchObject({
      isValid: false,
      problems: [{ path: "/nodes", code: "E.WORKFLOW.INVALID", severity: "error" }],
    });
    expect((await check({ ...sampleChain, nodes: [...sampleChain.nodes, sampleChain.nodes[0]] })).body).toMatchObject({
      isValid: false,
    });
    expect(bench.docs.docs.size).toBe(before);
  });

  it("[A365] validating a workflow names every field whose shape is wrong, up to a hundred", async () => {
    const check = async (nodes: object[]) =>
      (await bench.callRoute("validateWorkflow", { as: "vic", body: { ...sampleChain, nodes } })).body;
    const [node] = sampleChain.nodes;
    const policy = { priority: 11, pool: 7, retry: { maxAttempts: 0 } };

    const { isValid, problems } = await check([
      { ...node, policy },
      { ...node, label: 5, type: undefined },
    ]);
    expect(isValid).toBe(false);
    expect(problems.map(({ path }: { path: string }) => path).sort()).toEqual([
      "/nodes/0/policy/pool",
      "/nodes/0/policy/priority",
      "/nodes/0/policy/retry/maxAttempts",
      "/nodes/1",
      "/nodes/1/label",
    ]);
    const many = Array.from({ length: 200 }, () => ({ ...node, label: 5 }));
    expect((await check(many)).problems).toHaveLength(100);
  });

  it("[A56] the workflow routes pass on the engine's refusal: an unavailable store is 503, and nothing is changed", async () => {
    bench.docs.engine.answerWith("docs.write", () => ({ fault: { code: "E.STORE.BUSY", message: "the store is away" } }));
    for (const name of ["saveWorkflow", "deleteWorkflow", "publishVersion"] as const)
      expect(await refusal(name, right(name))).toBe("503 E.STORE.BUSY");
  });
});
