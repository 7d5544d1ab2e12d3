import { createSchemaReader, type RouteName, routes, viewLimits } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createTokenAuthenticator } from "../../auth/token-registry.ts";
import { openRestCallFixture, type RestCallFixture, type RestCallInput, samplePassword } from "../../testing/rest-fixture.ts";

const late = { name: "late", page: "runs", query: { status: "failed" } };
const create = (fixture: RestCallFixture, more: object = {}, asking: RestCallInput = {}) =>
  fixture.callRoute("createView", { body: { ...late, ...more }, ...asking });
const at = (viewId: unknown, asking: RestCallInput = {}): RestCallInput => ({ params: { viewId: String(viewId) }, ...asking });
const namesOf = async (fixture: RestCallFixture, asking: RestCallInput = {}): Promise<string[]> =>
  ((await fixture.callRoute("listViews", asking)).body["items"] as { name: string }[]).map(({ name }) => name);
const viewer = { token: "viewer" };

describe("saved views", () => {
  it("[A320] a saved view is created, shown with its revision as ETag, replaced, listed by name and page, and deleted", async () => {
    const fixture = openRestCallFixture();

    const made = await create(fixture, { columns: ["runId", "status"] });
    fixture.environment.advance(1_000);
    await create(fixture, { name: "Busy", page: "workers", query: "load>0.9" });

    const id = made.body["viewId"];
    expect(made).toMatchObject({
      status: 201,
      headers: { etag: '"r1"', location: `/api/v1/views/${String(id)}` },
      body: { ...late, columns: ["runId", "status"], shared: false, ownerId: "ann", revision: 1 },
    });
    const { body } = await fixture.callRoute("getView", at(id));
    expect(
      createSchemaReader(routes.getView.response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body),
    ).toEqual(body);
    expect(body["asOf"]).toBe(2);
    expect(await namesOf(fixture)).toEqual(["Busy", "late"]);
    expect(await namesOf(fixture, { query: { page: "runs" } })).toEqual(["late"]);

    const next = await fixture.callRoute(
      "replaceView",
      at(id, { body: { ...late, name: "later" }, headers: { "if-match": '"r1"' } }),
    );
    expect(next).toMatchObject({ status: 200, headers: { etag: '"r2"' }, body: { name: "later", revision: 2, ownerId: "ann" } });
    expect(next.body).not.toHaveProperty("columns");
    expect([next.body["createdAt"] === body["createdAt"], next.body["updatedAt"] > body["updatedAt"]]).toEqual([true, true]);

    expect((await fixture.callRoute("deleteView", at(id, { headers: { "if-match": '"r2"' } }))).status).toBe(204);
    expect((await fixture.callRoute("getView", at(id))).status).toBe(404);
    expect(fixture.docs.log.map(({ type }) => type)).toEqual([
      "audit.view.create",
      "audit.view.create",
      "audit.view.update",
      "audit.view.delete",
    ]);
  });

  it("[A320] saved views are listed page by page to the end", async () => {
    const fixture = openRestCallFixture();
    for (const name of ["a", "b", "c"]) await create(fixture, { name });

    const first = await fixture.callRoute("listViews", { query: { limit: "2" } });
    const rest = await fixture.callRoute("listViews", { query: { limit: "2", cursor: first.body["nextCursor"] } });

    const names = [first, rest].map(({ body }) => (body["items"] as { name: string }[]).map(({ name }) => name));
    expect([names, rest.body["nextCursor"]]).toEqual([[["a", "b"], ["c"]], null]);
  });

  it("[A321] a private saved view is visible to its owner only and a shared one to everybody; only the owner and admins change it", async () => {
    const fixture = openRestCallFixture();
    const own = (await create(fixture, { name: "own" })).body["viewId"];
    const shared = (await create(fixture, { name: "ours", shared: true })).body["viewId"];
    const hers = (await create(fixture, { name: "hers" }, viewer)).body["viewId"];

    expect(await namesOf(fixture, viewer)).toEqual(["hers", "ours"]);
    expect(await namesOf(fixture)).toEqual(["own", "ours"].toSorted());
    for (const [name, body] of [["getView"], ["replaceView", late], ["deleteView"]] as [RouteName, object?][]) {
      const foreign = await fixture.callRoute(name, at(own, { ...viewer, body }));
      const missing = await fixture.callRoute(name, at("nothing", { ...viewer, body }));
      expect([name, foreign.status, foreign.body["message"]]).toEqual([
        name,
        404,
        String(missing.body["message"]).replace("nothing", String(own)),
      ]);
    }
    expect((await fixture.callRoute("getView", at(shared, viewer))).status).toBe(200);
    for (const [name, body] of [["replaceView", late], ["deleteView"]] as [RouteName, object?][])
      expect((await fixture.callRoute(name, at(shared, { ...viewer, body }))).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
    expect((await fixture.callRoute("getView", at(shared, { token: "secret-b" }))).status).toBe(404);

    const changed = await fixture.callRoute("replaceView", at(hers, { body: { ...late, name: "mended" } }));
    expect(changed.body).toMatchObject({ name: "mended", ownerId: "vic" });
    expect((await fixture.callRoute("deleteView", at(hers))).status).toBe(204);
  });

  it("[A321] saved views are available to every signed-in user, whatever the role, and to tokens with the view grant", async () => {
    const fixture = openRestCallFixture({
      calls: {
        authenticate: createTokenAuthenticator([{ token: "worker", tenant: "default", user: "w", grants: ["worker", "read"] }]),
      },
    });
    await fixture.people.createFirstUser("default", samplePassword);
    const admin = await fixture.callRoute("login", { token: null, body: { username: "admin", password: samplePassword } });
    const token = String(admin.body["accessToken"]);
    await fixture.callRoute("createUser", {
      token,
      body: { username: "rita", password: samplePassword, roles: ["workflow.viewer"] },
    });
    const rita = (await fixture.callRoute("login", { token: null, body: { username: "rita", password: samplePassword } })).body[
      "accessToken"
    ];

    const made = await create(fixture, { page: "workflows" }, { token: rita });

    expect(made).toMatchObject({ status: 201, body: { page: "workflows" } });
    expect(await namesOf(fixture, { token: rita })).toEqual(["late"]);
    for (const [name, body] of [["listViews"], ["createView", late], ["getView"], ["replaceView", late], ["deleteView"]] as [
      RouteName,
      object?,
    ][])
      expect((await fixture.callRoute(name, at(made.body["viewId"], { token: "worker", body }))).body).toMatchObject({
        error: "E.AUTH.FORBIDDEN",
      });
  });

  it("[A322] the name of a saved view is unique per owner and page, ignoring case, and free again after a rename or deletion", async () => {
    const fixture = openRestCallFixture();
    const first = await create(fixture);

    expect(await create(fixture, { name: "LATE" })).toMatchObject({ status: 409, body: { error: "E.CONFLICT" } });
    expect((await create(fixture, { name: "caf\u00e9" })).status).toBe(201);
    expect((await create(fixture, { name: "Cafe\u0301 " })).status).toBe(409);
    const elsewhere = await create(fixture, { page: "audit" });
    expect([elsewhere.status, (await create(fixture, {}, viewer)).status]).toEqual([201, 201]);
    const taken = await fixture.callRoute("replaceView", at(elsewhere.body["viewId"], { body: late }));
    expect(taken).toMatchObject({ status: 409, body: { error: "E.CONFLICT" } });

    await fixture.callRoute("replaceView", at(first.body["viewId"], { body: { ...late, name: "early" } }));
    expect((await create(fixture)).status).toBe(201);
    await fixture.callRoute("deleteView", at(first.body["viewId"]));
    expect((await create(fixture, { name: "early" })).status).toBe(201);
  });

  it("[A323] a saved view is changed only by a caller who names its latest revision, and an identical replacement is no change", async () => {
    const fixture = openRestCallFixture();
    const id = (await create(fixture)).body["viewId"];
    const put = (tag: string, name: string) =>
      fixture.callRoute("replaceView", at(id, { body: { ...late, name }, headers: { "if-match": tag } }));

    expect((await put('"r1"', "late")).headers["etag"]).toBe('"r1"');
    expect((await put('"r1"', "early")).headers["etag"]).toBe('"r2"');
    expect(await put('"r1"', "other")).toMatchObject({ status: 412, body: { error: "E.ETAG.STALE", details: { revision: 2 } } });
    expect((await fixture.callRoute("deleteView", at(id, { headers: { "if-match": '"r1"' } }))).status).toBe(412);
    expect((await put("r2", "other")).body).toMatchObject({ error: "E.REQUEST.INVALID" });
    expect((await put('"r0", "r2"', "other")).status).toBe(200);
    expect((await put("*", "other")).status).toBe(200);
  });

  it("[A324] creating a saved view again under one key returns the first answer, though the view changed; another request is refused", async () => {
    const fixture = openRestCallFixture();
    const headers = { "idempotency-key": "k1" };
    const first = await create(fixture, {}, { headers });
    fixture.environment.advance(1_000);
    await fixture.callRoute("replaceView", at(first.body["viewId"], { body: { ...late, name: "early" } }));

    const again = await create(fixture, {}, { headers });

    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect({ ...again.body, asOf: 0 }).toEqual({ ...first.body, asOf: 0 });
    expect((await create(fixture, { name: "x" }, { headers })).body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
    expect(await namesOf(fixture)).toEqual(["early"]);
  });

  it("[A325] a tenant has at most a thousand saved views; one more is refused, a repeat is not, and a deletion makes room", async () => {
    const fixture = openRestCallFixture();
    const headers = { "idempotency-key": "k1" };
    const { body } = await create(fixture, {}, { headers });
    fixture.docs.write({
      tenant: "default",
      puts: [{ collection: "viewcount", name: "all", body: JSON.stringify({ views: viewLimits.perTenantMax }) }],
    });

    expect(await create(fixture, { name: "more" })).toMatchObject({ status: 409, body: { error: "E.LIMIT.REACHED" } });
    expect((await create(fixture, {}, { headers })).status).toBe(201);
    await fixture.callRoute("deleteView", at(body["viewId"]));
    expect((await create(fixture, { name: "more" })).status).toBe(201);
    expect((await create(fixture, { name: "most" })).status).toBe(409);
  });

  it("[A325] the count of saved views is right when many are created and deleted at once", async () => {
    const fixture = openRestCallFixture();
    const made = await Promise.all(["a", "b", "c", "d", "e"].map((name) => create(fixture, { name })));

    const [first, second] = made;
    await Promise.all([first, second].map((one) => fixture.callRoute("deleteView", at(one?.body["viewId"]))));

    expect(made.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    expect(fixture.docs.body("default", "viewcount", "all")).toEqual({ views: 3 });
  });

  it("[A325] creating a saved view is refused with 503 when its write keeps losing to concurrent writes", async () => {
    const fixture = openRestCallFixture();
    const details = { collection: "viewcount", name: "all", rev: 2, expected: 1 };
    let tries = 0;
    fixture.docs.engine.answerWith("docs.write", () => {
      tries += 1;
      return { fault: { code: "E.CONFLICT", message: "viewcount all is in revision 2 by now", details } };
    });

    expect(await create(fixture)).toMatchObject({ status: 503, body: { error: "E.STORE.BUSY" } });
    expect(tries).toBe(8);
  });

  const many = Object.fromEntries(Array.from({ length: viewLimits.queryKeysMax + 1 }, (_, at) => [`k${at}`, ""]));
  const wrong: [string, object, string][] = [
    ["no name", { name: "" }, "body.name"],
    ["a name of two lines", { name: "a\nb" }, "body.name"],
    ["a page that is none", { page: "people" }, "body.page"],
    ["a query of numbers", { query: { limit: 5 } }, "body.query"],
    ["a query that is a list", { query: [] }, "body.query"],
    ["too many names", { query: many }, "body.query"],
    ["too many bytes in all", { query: { a: "é".repeat(1_500), b: "é".repeat(1_500) } }, "body.query"],
    ["too long a line", { query: "x".repeat(4_095) }, "body.query"],
    ["a column that is none", { columns: [1] }, "body.columns.0"],
    ["too many columns", { columns: Array.from({ length: 65 }, () => "c") }, "body.columns"],
    ["a word for shared", { shared: "yes" }, "body.shared"],
  ];
  it.each(wrong)("[A326] a saved view with %s is refused", async (_what, more, path) => {
    const fixture = openRestCallFixture();

    const { status, body } = await create(fixture, more);

    const isTooLarge = String(body["message"]).includes("bytes as JSON");
    expect([status, body["error"]]).toEqual(isTooLarge ? [413, "E.REQUEST.TOO_LARGE"] : [400, "E.REQUEST.INVALID"]);
    expect(String(body["details"].path)).toContain(path);
    expect(fixture.docs.docs.size).toBe(0);
  });
});
