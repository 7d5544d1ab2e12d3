import { createSchemaReader, type RouteName, routes } from "@astraflow/protocol";
import {
  chooseGrant,
  createDocumentBlobStore,
  createResourceBinder,
  exposesValue,
  grantIdPrefix,
  grantPut,
  type ResourceRecord,
  type ResourceRequirement,
  resourcePut,
} from "@astraflow/services";
import { createFakeDocumentStore, sampleGrant } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { openRestCallFixture, type RestCallFixture, type RestCallInput } from "../../testing/rest-fixture.ts";

const resource = (id: string, more: Partial<ResourceRecord> = {}): ResourceRecord => ({
  id,
  provider: "db",
  filename: "key.txt",
  sizeBytes: 6,
  createdAt: 1,
  owner: "ann",
  visibility: "private",
  mimeType: "text/plain",
  sha256: "a".repeat(64),
  metadata: null,
  ...more,
});
const keep = (fixture: Pick<RestCallFixture, "docs">, record: ResourceRecord, tenant = "default"): void =>
  fixture.docs.write({ tenant, puts: [resourcePut(record, 0)] });
const wanted = { resourceId: "r1", packageName: "mail", resourceKey: "smtp", scope: "global" };
const create = (fixture: RestCallFixture, more: object = {}, asking: RestCallInput = {}) =>
  fixture.callRoute("createResourceGrant", { body: { ...wanted, ...more }, ...asking });
const at = (grantId: unknown, token = "secret-a"): RestCallInput => ({ token, params: { grantId: String(grantId) } });

describe("grants", () => {
  it("[A112] resource grants can be created, shown, listed by package, scope, workflow and resource, and deleted", async () => {
    const fixture = openRestCallFixture();
    keep(fixture, resource("r1"));

    const { status, body } = await create(fixture, { packageVersion: "1.0.0", actions: ["use", "read", "use"] });
    fixture.environment.advance(1);
    const other = await create(fixture, { scope: "workflow", workflowId: "w1", packageName: "sms" });

    expect(
      createSchemaReader(routes.getResourceGrant.response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(
        body,
      ),
    ).toEqual(body);
    expect([status, body]).toMatchObject([
      201,
      { ...wanted, packageVersion: "1.0.0", actions: ["use", "read"], createdBy: "ann" },
    ]);
    expect((await fixture.callRoute("getResourceGrant", at(body["grantId"]))).body).toMatchObject({ grantId: body["grantId"] });
    const listed = async (query: Record<string, string>) =>
      ((await fixture.callRoute("listResourceGrants", { query })).body["items"] as { grantId: string }[]).map(
        ({ grantId }) => grantId,
      );
    const [first, second] = [body["grantId"], other.body["grantId"]];
    expect(await listed({})).toEqual([second, first]);
    expect(await listed({ packageName: "mail" })).toEqual([first]);
    expect(await listed({ scope: "workflow" })).toEqual([second]);
    expect(await listed({ workflowId: "w1", resourceId: "r1", resourceKey: "smtp" })).toEqual([second]);
    expect(await listed({ packageVersion: "2.0.0" })).toEqual([]);
    expect((await fixture.callRoute("deleteResourceGrant", at(first))).status).toBe(204);
    expect((await fixture.callRoute("getResourceGrant", at(first))).status).toBe(404);
    expect(fixture.docs.log.map(({ type }) => type)).toEqual(["audit.grant.create", "audit.grant.create", "audit.grant.delete"]);
  });

  it("[A112] a resource grant is created only by the resource's owner or an admin, and visible only to its creator and admins", async () => {
    const fixture = openRestCallFixture();
    const ann = await fixture.signIn("ann", ["workflow.editor"]);
    const bob = await fixture.signIn("bob", ["workflow.editor"]);
    keep(fixture, resource("r1", { owner: ann.id }));
    keep(fixture, resource("r2", { owner: ann.id, visibility: "public" }));

    expect((await create(fixture, {}, { token: bob.token })).body).toMatchObject({
      error: "E.NOT_FOUND",
      message: "there is no resource r1",
    });
    expect((await create(fixture, { resourceId: "r2" }, { token: bob.token })).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
    const { body } = await create(fixture, {}, { token: ann.token });
    for (const name of ["getResourceGrant", "deleteResourceGrant"] as const) {
      expect((await fixture.callRoute(name, at(body["grantId"], bob.token))).status).toBe(404);
      expect((await fixture.callRoute(name, at(body["grantId"], "secret-b"))).status).toBe(404);
    }
    expect((await fixture.callRoute("listResourceGrants", { token: bob.token })).body["items"]).toEqual([]);
    expect((await fixture.callRoute("listResourceGrants")).body["items"]).toHaveLength(1);
    expect((await fixture.callRoute("deleteResourceGrant", at(body["grantId"]))).status).toBe(204);
  });

  it("[A112] a resource grant is created once under one Idempotency-Key", async () => {
    const fixture = openRestCallFixture();
    keep(fixture, resource("r1"));
    const keyed = { headers: { "idempotency-key": "k1" } };

    const [one, two] = [await create(fixture, {}, keyed), await create(fixture, {}, keyed)];

    expect([two.body, two.headers["idempotent-replayed"]]).toEqual([one.body, "true"]);
    expect((await create(fixture, { resourceKey: "imap" }, keyed)).body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
  });

  const cases: [RouteName, RestCallInput, number, string][] = [
    ["createResourceGrant", { body: {} }, 400, "E.REQUEST.INVALID"],
    ["createResourceGrant", { body: { ...wanted, scope: "all" } }, 400, "E.REQUEST.INVALID"],
    ["createResourceGrant", { body: { ...wanted, scope: "workflow" } }, 400, "E.REQUEST.INVALID"],
    ["createResourceGrant", { body: { ...wanted, workflowId: "w1" } }, 400, "E.REQUEST.INVALID"],
    ["createResourceGrant", { body: { ...wanted, actions: ["own"] } }, 400, "E.REQUEST.INVALID"],
    ["createResourceGrant", { body: { ...wanted, actions: [] } }, 400, "E.REQUEST.INVALID"],
    ["createResourceGrant", { body: { ...wanted, resourceKey: "" } }, 400, "E.REQUEST.INVALID"],
    ["createResourceGrant", { body: wanted }, 404, "E.NOT_FOUND"],
    ["createResourceGrant", { body: wanted, token: "viewer" }, 403, "E.AUTH.FORBIDDEN"],
    ["getResourceGrant", { params: { grantId: "g" } }, 404, "E.NOT_FOUND"],
    ["deleteResourceGrant", { params: { grantId: "g" } }, 404, "E.NOT_FOUND"],
    ["listResourceGrants", { query: { cursor: "e30" } }, 404, "E.CURSOR.UNKNOWN"],
    ["listResourceGrants", { query: { package: "x" } }, 400, "E.REQUEST.INVALID"],
  ];
  it.each(cases)("[A115] the grant route %s refuses the request %j with %i", async (name, asking, status, error) => {
    const fixture = openRestCallFixture();
    keep(fixture, resource("r1"), "other");

    const answer = await fixture.callRoute(name, asking);

    expect([answer.status, answer.body["error"]]).toEqual([status, error]);
    expect(fixture.docs.docs.size).toBe(1);
  });
});

describe("what a node is given", () => {
  const of = { workflowId: "w1", packageName: "mail", version: "1.0.0" };
  const mine = { scope: "workflow", workflowId: "w1" } as const;
  const smtp: ResourceRequirement = { key: "smtp", type: "secret" };

  it.each([
    ["none", [], null],
    ["the newest", [sampleGrant("a"), sampleGrant("b", { createdAt: 2 })], "b"],
    ["the workflow's before a newer global one", [sampleGrant("a", mine), sampleGrant("b", { createdAt: 2 })], "a"],
    ["not another workflow's", [sampleGrant("a", { ...mine, workflowId: "w2" })], null],
    [
      "that of the version",
      [sampleGrant("a", { packageVersion: "1.0.0" }), sampleGrant("b", { packageVersion: "2.0.0", createdAt: 2 })],
      "a",
    ],
    ["not of another key", [sampleGrant("a", { resourceKey: "imap" })], null],
    ["not of another package", [sampleGrant("a", { packageName: "sms" })], null],
    ["not without the actions", [sampleGrant("a", { actions: ["use"] })], null],
  ])("[A113] the grant chosen for a node's resource requirement is %s", (_, grants, id) => {
    expect(chooseGrant(grants, smtp, of)?.id ?? null).toBe(id);
  });

  it.each([
    [{ key: "k", type: "API_KEY" }, true],
    [{ key: "k", type: "file" }, false],
    [{ key: "k", type: "file", metadata: { inline: true } }, true],
    [{ key: "k", type: "json", metadata: { exposeValue: true } }, true],
    [{ key: "k", type: "json", metadata: { inline: "yes" } }, false],
  ])("[A114] the binding for the requirement %j contains the resource's value: %s", (requirement, isValue) => {
    expect(exposesValue(requirement)).toBe(isValue);
  });

  it("[A114] the bindings of a node name each resource, contain the text of secrets, and list what is missing", async () => {
    const docs = createFakeDocumentStore();
    const blobs = { db: createDocumentBlobStore(docs) };
    async function* once(value: Buffer): AsyncGenerator<Buffer> {
      yield value;
    }
    const add = async (id: string, key: string, value: Buffer | null, more: Partial<ResourceRecord> = {}) => {
      docs.write({
        tenant: "default",
        puts: [
          resourcePut(resource(id, more), 0),
          grantPut(sampleGrant(`${grantIdPrefix("mail")}${id}`, { resourceId: id, resourceKey: key, packageName: "mail" })),
        ],
      });
      if (value !== null) await blobs.db.write({ tenant: "default", name: id }, once(value), 1_000_000);
    };
    await add("r1", "smtp", Buffer.from("  hunter2\n"));
    await add("r2", "logo", Buffer.from("png"), { filename: "logo.png" });
    await add("r3", "big", Buffer.from("x"), { sizeBytes: 65_537 });
    await add("r4", "binary", Buffer.from([0xff, 0xfe]));
    await add("r5", "lost", null);
    docs.write({
      tenant: "default",
      puts: [grantPut(sampleGrant(`${grantIdPrefix("mail")}gone`, { resourceId: "nothing", resourceKey: "gone" }))],
    });
    const secret = (key: string): ResourceRequirement => ({ key, type: "token" });

    const { resolveBindings: bindingsFor } = createResourceBinder(docs, blobs);
    const given = await bindingsFor({
      tenant: "default",
      ...of,
      requirements: [
        smtp,
        { key: "logo", type: "file" },
        ...["big", "binary", "lost", "gone", "absent"].map(secret),
        { key: "nice", type: "file", required: false },
      ],
    });

    expect(given.__resourceBindings).toMatchObject({
      smtp: {
        resourceId: "r1",
        type: "file",
        filename: "key.txt",
        mimeType: "text/plain",
        sizeBytes: 6,
        metadata: null,
        value: "hunter2",
      },
      logo: { resourceId: "r2", filename: "logo.png" },
    });
    expect(given.__resourceBindings?.["logo"]).not.toHaveProperty("value");
    expect(given.__resourceBindingErrors).toEqual([
      { key: "big", error: "resource_value_unavailable", resourceId: "r3" },
      { key: "binary", error: "resource_value_unavailable", resourceId: "r4" },
      { key: "lost", error: "resource_value_unavailable", resourceId: "r5" },
      { key: "gone", error: "resource_not_found", resourceId: "nothing" },
      { key: "absent", error: "missing_grant" },
    ]);
    const none = { tenant: "default", ...of, requirements: [] };
    expect(await bindingsFor(none)).toEqual({});
    expect(await bindingsFor({ ...none, tenant: "other", requirements: [smtp] })).toEqual({
      __resourceBindingErrors: [{ key: "smtp", error: "missing_grant" }],
    });
  });

  it("[A113] a grant counts for a requirement only if it covers every action that is asked for", () => {
    const requirement: ResourceRequirement = { ...smtp, actions: ["read", "use"] };

    expect(chooseGrant([sampleGrant("a", { actions: ["read"] })], requirement, of)).toBeNull();
    expect(chooseGrant([sampleGrant("a", { actions: ["use", "read"] })], requirement, of)?.id).toBe("a");
  });

  it("[A113] a definition that is not a stored workflow gets what is granted globally, and nothing granted to a workflow", () => {
    const grants = [sampleGrant("a", mine), sampleGrant("b")];

    expect(chooseGrant(grants, smtp, { ...of, workflowId: null })?.id).toBe("b");
  });
});
