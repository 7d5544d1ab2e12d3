import { createSchemaReader, type RouteName, routes, viewLimits } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createTokens } from "../../identity.ts";
import { type Asking, openScene, password, type RestScene } from "../../testing/rest-scene.ts";

const late = { name: "late", page: "runs", query: { status: "failed" } };
const create = (scene: RestScene, more: object = {}, asking: Asking = {}) =>
  scene.ask("createView", { body: { ...late, ...more }, ...asking });
const at = (viewId: unknown, asking: Asking = {}): Asking => ({ params: { viewId: String(viewId) }, ...asking });
const namesOf = async (scene: RestScene, asking: Asking = {}): Promise<string[]> =>
  ((await scene.ask("listViews", asking)).body["items"] as { name: string }[]).map(({ name }) => name);
const viewer = { token: "viewer" };

describe("saved views", () => {
  it("[A320] are kept, shown with the revision as ETag, replaced, listed by name and page, and removed", async () => {
    const scene = openScene();

    const made = await create(scene, { columns: ["runId", "status"] });
    scene.outside.advance(1_000);
    await create(scene, { name: "Busy", page: "workers", query: "load>0.9" });

    const id = made.body["viewId"];
    expect(made).toMatchObject({
      status: 201,
      headers: { etag: '"r1"', location: `/api/v1/views/${String(id)}` },
      body: { ...late, columns: ["runId", "status"], shared: false, ownerId: "ann", revision: 1 },
    });
    const { body } = await scene.ask("getView", at(id));
    expect(
      createSchemaReader(routes.getView.response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body),
    ).toEqual(body);
    expect(body["asOf"]).toBe(2);
    expect(await namesOf(scene)).toEqual(["Busy", "late"]);
    expect(await namesOf(scene, { query: { page: "runs" } })).toEqual(["late"]);

    const next = await scene.ask("replaceView", at(id, { body: { ...late, name: "later" }, headers: { "if-match": '"r1"' } }));
    expect(next).toMatchObject({ status: 200, headers: { etag: '"r2"' }, body: { name: "later", revision: 2, ownerId: "ann" } });
    expect(next.body).not.toHaveProperty("columns");
    expect([next.body["createdAt"] === body["createdAt"], next.body["updatedAt"] > body["updatedAt"]]).toEqual([true, true]);

    expect((await scene.ask("deleteView", at(id, { headers: { "if-match": '"r2"' } }))).status).toBe(204);
    expect((await scene.ask("getView", at(id))).status).toBe(404);
    expect(scene.docs.log.map(({ type }) => type)).toEqual([
      "audit.view.create",
      "audit.view.create",
      "audit.view.update",
      "audit.view.delete",
    ]);
  });

  it("[A320] are listed page by page to the end", async () => {
    const scene = openScene();
    for (const name of ["a", "b", "c"]) await create(scene, { name });

    const first = await scene.ask("listViews", { query: { limit: "2" } });
    const rest = await scene.ask("listViews", { query: { limit: "2", cursor: first.body["nextCursor"] } });

    const names = [first, rest].map(({ body }) => (body["items"] as { name: string }[]).map(({ name }) => name));
    expect([names, rest.body["nextCursor"]]).toEqual([[["a", "b"], ["c"]], null]);
  });

  it("[A321] that are private are nobody else's to see; shared ones are everybody's, and for their owner and admins to change", async () => {
    const scene = openScene();
    const own = (await create(scene, { name: "own" })).body["viewId"];
    const shared = (await create(scene, { name: "ours", shared: true })).body["viewId"];
    const hers = (await create(scene, { name: "hers" }, viewer)).body["viewId"];

    expect(await namesOf(scene, viewer)).toEqual(["hers", "ours"]);
    expect(await namesOf(scene)).toEqual(["own", "ours"].toSorted());
    for (const [name, body] of [["getView"], ["replaceView", late], ["deleteView"]] as [RouteName, object?][]) {
      const foreign = await scene.ask(name, at(own, { ...viewer, body }));
      const missing = await scene.ask(name, at("nothing", { ...viewer, body }));
      expect([name, foreign.status, foreign.body["message"]]).toEqual([
        name,
        404,
        String(missing.body["message"]).replace("nothing", String(own)),
      ]);
    }
    expect((await scene.ask("getView", at(shared, viewer))).status).toBe(200);
    for (const [name, body] of [["replaceView", late], ["deleteView"]] as [RouteName, object?][])
      expect((await scene.ask(name, at(shared, { ...viewer, body }))).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
    expect((await scene.ask("getView", at(shared, { token: "secret-b" }))).status).toBe(404);

    const changed = await scene.ask("replaceView", at(hers, { body: { ...late, name: "mended" } }));
    expect(changed.body).toMatchObject({ name: "mended", ownerId: "vic" });
    expect((await scene.ask("deleteView", at(hers))).status).toBe(204);
  });

  it("[A321] are for everybody who has signed in, by whatever role, and for tokens that are granted view", async () => {
    const scene = openScene({
      calls: { authenticate: createTokens([{ token: "worker", tenant: "default", user: "w", grants: ["worker", "read"] }]) },
    });
    await scene.people.found("default", password);
    const admin = await scene.ask("login", { token: null, body: { username: "admin", password } });
    const token = String(admin.body["accessToken"]);
    await scene.ask("createUser", { token, body: { username: "rita", password, roles: ["workflow.viewer"] } });
    const rita = (await scene.ask("login", { token: null, body: { username: "rita", password } })).body["accessToken"];

    const made = await create(scene, { page: "workflows" }, { token: rita });

    expect(made).toMatchObject({ status: 201, body: { page: "workflows" } });
    expect(await namesOf(scene, { token: rita })).toEqual(["late"]);
    for (const [name, body] of [["listViews"], ["createView", late], ["getView"], ["replaceView", late], ["deleteView"]] as [
      RouteName,
      object?,
    ][])
      expect((await scene.ask(name, at(made.body["viewId"], { token: "worker", body }))).body).toMatchObject({
        error: "E.AUTH.FORBIDDEN",
      });
  });

  it("[A322] have one name for each owner and page, whatever its case, that is free again once it is given up", async () => {
    const scene = openScene();
    const first = await create(scene);

    expect(await create(scene, { name: "LATE" })).toMatchObject({ status: 409, body: { error: "E.CONFLICT" } });
    const elsewhere = await create(scene, { page: "audit" });
    expect([elsewhere.status, (await create(scene, {}, viewer)).status]).toEqual([201, 201]);
    const taken = await scene.ask("replaceView", at(elsewhere.body["viewId"], { body: late }));
    expect(taken).toMatchObject({ status: 409, body: { error: "E.CONFLICT" } });

    await scene.ask("replaceView", at(first.body["viewId"], { body: { ...late, name: "early" } }));
    expect((await create(scene)).status).toBe(201);
    await scene.ask("deleteView", at(first.body["viewId"]));
    expect((await create(scene, { name: "early" })).status).toBe(201);
  });

  it("[A323] are changed by whoever has seen the last revision, and the same again is no change", async () => {
    const scene = openScene();
    const id = (await create(scene)).body["viewId"];
    const put = (tag: string, name: string) =>
      scene.ask("replaceView", at(id, { body: { ...late, name }, headers: { "if-match": tag } }));

    expect((await put('"r1"', "late")).headers["etag"]).toBe('"r1"');
    expect((await put('"r1"', "early")).headers["etag"]).toBe('"r2"');
    expect(await put('"r1"', "other")).toMatchObject({ status: 412, body: { error: "E.ETAG.STALE", details: { revision: 2 } } });
    expect((await scene.ask("deleteView", at(id, { headers: { "if-match": '"r1"' } }))).status).toBe(412);
    expect((await put("r2", "other")).body).toMatchObject({ error: "E.REQUEST.INVALID" });
    expect((await put("*", "other")).status).toBe(200);
  });

  it("[A324] asked for again under one key are answered as the first time, though changed since; under another request refused", async () => {
    const scene = openScene();
    const headers = { "idempotency-key": "k1" };
    const first = await create(scene, {}, { headers });
    scene.outside.advance(1_000);
    await scene.ask("replaceView", at(first.body["viewId"], { body: { ...late, name: "early" } }));

    const again = await create(scene, {}, { headers });

    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect({ ...again.body, asOf: 0 }).toEqual({ ...first.body, asOf: 0 });
    expect((await create(scene, { name: "x" }, { headers })).body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
    expect(await namesOf(scene)).toEqual(["early"]);
  });

  it("[A325] are a thousand a tenant; one more is refused, a repeat is not, and one that is removed makes room", async () => {
    const scene = openScene();
    const headers = { "idempotency-key": "k1" };
    const { body } = await create(scene, {}, { headers });
    scene.docs.write({
      tenant: "default",
      puts: [{ collection: "viewcount", name: "all", body: JSON.stringify({ views: viewLimits.perTenantMax }) }],
    });

    expect(await create(scene, { name: "more" })).toMatchObject({ status: 409, body: { error: "E.LIMIT.REACHED" } });
    expect((await create(scene, {}, { headers })).status).toBe(201);
    await scene.ask("deleteView", at(body["viewId"]));
    expect((await create(scene, { name: "more" })).status).toBe(201);
    expect((await create(scene, { name: "most" })).status).toBe(409);
  });

  it("[A325] count right when many are kept and removed at once", async () => {
    const scene = openScene();
    const made = await Promise.all(["a", "b", "c", "d", "e"].map((name) => create(scene, { name })));

    const [first, second] = made;
    await Promise.all([first, second].map((one) => scene.ask("deleteView", at(one?.body["viewId"]))));

    expect(made.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    expect(scene.docs.body("default", "viewcount", "all")).toEqual({ views: 3 });
  });

  it("[A325] are refused for the moment where others are always quicker", async () => {
    const scene = openScene();
    const details = { collection: "viewcount", name: "all", rev: 2, expected: 1 };
    let tries = 0;
    scene.docs.engine.answer("docs.write", () => {
      tries += 1;
      return { fault: { code: "E.CONFLICT", message: "viewcount all is in revision 2 by now", details } };
    });

    expect(await create(scene)).toMatchObject({ status: 503, body: { error: "E.STORE.BUSY" } });
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
  it.each(wrong)("[A326] are refused with %s", async (_what, more, path) => {
    const scene = openScene();

    const { status, body } = await create(scene, more);

    expect([status, body["error"]]).toEqual([400, "E.REQUEST.INVALID"]);
    expect(String(body["details"].path)).toContain(path);
    expect(scene.docs.docs.size).toBe(0);
  });
});
