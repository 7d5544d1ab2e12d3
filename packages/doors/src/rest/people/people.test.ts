import { createHash } from "node:crypto";
import { createSchemaReader, type RouteName, routes } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { peopleLimits } from "../../people/people.ts";
import { memoryLimits } from "../../people/people-memory.ts";
import { brakeLimits } from "../../people/user-brake.ts";
import { type Asking, openScene, password } from "../../testing/rest-scene.ts";

/** The body, unless the route's own schema has something against it or does not know a part of it. */
const fitting = (name: "login" | "listUsers" | "createUser" | "getOwnUser", body: unknown): unknown =>
  createSchemaReader(routes[name].response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body);

describe("signing in", () => {
  it("[A80] gives a token for name and password that opens what the roles allow", async () => {
    const scene = openScene();
    await scene.ask("createUser", { body: { username: "Ann", password, roles: ["workflow.viewer"], displayName: "Ann B." } });

    const { status, body } = await scene.ask("login", { token: null, body: { username: "ann", password } });

    expect([status, fitting("login", body)]).toEqual([200, body]);
    expect(body).toMatchObject({ tokenType: "Bearer", expiresIn: 43_200, user: { username: "Ann", roles: ["workflow.viewer"] } });
    const claims = JSON.parse(Buffer.from(String(body["accessToken"]).split(".")[1] ?? "", "base64url").toString());
    expect(claims).toMatchObject({ username: "Ann", displayName: "Ann B.", roles: ["workflow.viewer"], tenant: "default" });
    expect(claims.exp - claims.iat).toBe(43_200);
    const token = body["accessToken"];
    expect((await scene.ask("listResources", { token })).status).toBe(200);
    expect((await scene.ask("listRuns", { token })).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
  });

  it("[A80] answers a wrong name, a wrong password, another tenant and a locked user alike", async () => {
    const scene = openScene();
    const { id } = await scene.signIn("ann", []);
    const refusals = [
      await scene.ask("login", { token: null, body: { username: "nobody", password } }),
      await scene.ask("login", { token: null, body: { username: "ann", password: "wrong" } }),
      await scene.ask("login", { token: null, body: { username: "ann", password, tenant: "other" } }),
      await scene.ask("login", { token: null, body: { username: "ann", password, tenant: "a/b" } }),
    ];
    await scene.ask("setUserStatus", { params: { userId: id }, body: { isActive: false } });
    refusals.push(await scene.ask("login", { token: null, body: { username: "ann", password } }));

    const said = refusals.map(({ status, body }) => [status, body["error"], body["message"]]);
    expect(new Set(said.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(said[0]?.slice(0, 2)).toEqual([401, "E.AUTH.CREDENTIALS"]);
  });

  it("[A81] is braked after ten wrong passwords for a user, and says when to come back", async () => {
    const scene = openScene();
    await scene.signIn("ann", []);
    const wrong = { token: null, body: { username: "ANN", password: "wrong" } };
    for (let n = 0; n < brakeLimits.userTriesMax; n += 1) expect((await scene.ask("login", wrong)).status).toBe(401);

    const braked = await scene.ask("login", { token: null, body: { username: "ann", password } });

    expect([braked.status, braked.body["error"], braked.headers["retry-after"]]).toEqual([429, "E.AUTH.THROTTLED", "300"]);
    scene.outside.advance(brakeLimits.windowMs);
    expect((await scene.ask("login", { token: null, body: { username: "ann", password } })).status).toBe(200);
  });

  it("[A81] is braked for an address that tries many names", async () => {
    const scene = openScene();
    const attempt = (n: number, address: string) =>
      scene.ask("login", { token: null, address, body: { username: `user${n}`, password: "wrong" } });
    for (let n = 0; n < brakeLimits.addressTriesMax; n += 1) await attempt(n, "10.0.0.1");

    expect((await attempt(99, "10.0.0.1")).status).toBe(429);
    expect((await attempt(99, "10.0.0.2")).status).toBe(401);
  });

  it("[A94] is audited, right or wrong, and a name that is nobody's is not kept", async () => {
    const scene = openScene();
    const { id } = await scene.signIn("ann", []);
    await scene.ask("login", { token: null, address: "10.0.0.9", body: { username: "ann", password: "wrong" } });
    await scene.ask("login", { token: null, body: { username: "hunter2-typed-here", password: "wrong" } });

    const { body } = await scene.ask("listAudit", { query: { targetId: id } });

    expect((body["items"] as { action: string }[]).map(({ action }) => action)).toEqual([
      "auth.login.failure",
      "auth.login.success",
      "user.create",
    ]);
    expect(JSON.stringify([scene.docs.log, scene.outside.lines])).not.toContain("hunter2");
  });
});

describe("a person's token", () => {
  it("[A83] opens what the roles of now allow, within a second also where another scheduler changed them", async () => {
    const here = openScene();
    const there = openScene({ shared: here.docs });
    const { token, id } = await here.signIn("ann", ["run.viewer"]);
    expect((await there.ask("listRuns", { token })).status).toBe(200);

    await here.ask("removeUserRole", { params: { userId: id, role: "run.viewer" } });

    expect((await here.ask("listRuns", { token })).status).toBe(403);
    there.outside.advance(memoryLimits.freshMs + 1);
    expect((await there.ask("listRuns", { token })).status).toBe(403);
    await here.ask("setUserStatus", { params: { userId: id }, body: { isActive: false } });
    there.outside.advance(memoryLimits.freshMs + 1);
    expect((await there.ask("getOwnUser", { token })).status).toBe(401);
  });

  it("[A83] of a stream that was opened long ago is looked at again whenever it is asked about", async () => {
    const here = openScene();
    const there = openScene({ shared: here.docs });
    const { token, id } = await here.signIn("ann", ["run.viewer"]);
    await there.people.warm(token);
    await here.ask("setUserStatus", { params: { userId: id }, body: { isActive: false } });
    there.outside.advance(memoryLimits.freshMs + 1);

    expect(there.people.authenticate(token)).not.toBeNull();
    await new Promise((resolve) => setImmediate(resolve));
    expect(there.people.authenticate(token)).toBeNull();
  });

  it("[A83] stays good while the store is away, for ten minutes", async () => {
    const scene = openScene();
    const { token } = await scene.signIn("ann", ["run.viewer"]);
    await scene.ask("getOwnUser", { token });
    scene.docs.reader.page = () => Promise.reject(new Error("away"));

    scene.outside.advance(memoryLimits.staleMsMax);
    await scene.people.warm(token);
    expect(scene.people.authenticate(token)).toMatchObject({ grants: ["view"] });
    scene.outside.advance(1);
    expect(scene.people.authenticate(token)).toBeNull();
  });

  it("[A84] is taken back by signing out, and no other with it", async () => {
    const scene = openScene();
    const { token } = await scene.signIn("ann", ["run.viewer"]);
    const { body } = await scene.ask("login", { token: null, body: { username: "ann", password } });

    expect((await scene.ask("logout", { token })).status).toBe(204);

    expect((await scene.ask("getOwnUser", { token })).body).toMatchObject({ error: "E.AUTH.INVALID_TOKEN" });
    expect((await scene.ask("getOwnUser", { token: body["accessToken"] })).status).toBe(200);
  });

  it("[A84] of a user that signs out again and again is taken back too, and the list stays short", async () => {
    const scene = openScene();
    const { token, id } = await scene.signIn("ann", []);
    for (let n = 0; n <= peopleLimits.revokedMax; n += 1) {
      const { body } = await scene.ask("login", { token: null, body: { username: "ann", password } });
      expect((await scene.ask("logout", { token: body["accessToken"] })).status).toBe(204);
    }

    expect(scene.docs.body("default", "user", id)).toMatchObject({ gen: 2, revoked: [] });
    expect((await scene.ask("getOwnUser", { token })).status).toBe(401);
  });

  it("[A84] is over when its time is, and worth nothing after a new password", async () => {
    const scene = openScene();
    const { token, id } = await scene.signIn("ann", []);
    const other = await scene.signIn("bob", []);
    await scene.ask("setUserPassword", { params: { userId: id }, body: { password: "another long password" } });

    expect((await scene.ask("getOwnUser", { token })).status).toBe(401);
    expect((await scene.ask("login", { token: null, body: { username: "ann", password } })).status).toBe(401);
    scene.outside.advance(peopleLimits.tokenMs - 1_000);
    expect((await scene.ask("getOwnUser", { token: other.token })).status).toBe(200);
    scene.outside.advance(1_000);
    expect((await scene.ask("getOwnUser", { token: other.token })).status).toBe(401);
  });

  it("[A85] is signed by a key of its tenant that every scheduler has, also when the key was replaced since", async () => {
    const here = openScene();
    const { token } = await here.signIn("ann", []);
    const bob = await here.signIn("bob", [], "other");
    const there = openScene({ shared: here.docs });

    expect((await there.ask("getOwnUser", { token })).body).toMatchObject({ username: "ann" });
    expect((await there.ask("getOwnUser", { token: bob.token })).body).toMatchObject({ username: "bob" });
    const forged = token
      .split(".")
      .with(1, bob.token.split(".")[1] ?? "")
      .join(".");
    expect((await there.ask("getOwnUser", { token: forged })).status).toBe(401);
    here.outside.jump(peopleLimits.keyAgeMs);
    await here.ask("login", { token: null, body: { username: "ann", password } });
    expect(here.docs.body("default", "signing", "keys")?.["keys"]).toHaveLength(2);
    expect((await there.ask("getOwnUser", { token })).status).toBe(200);
  });
});

describe("users", () => {
  it("[A86] are created, listed by name, shown, and never with their password", async () => {
    const scene = openScene();
    for (const username of ["carl", "Ann", "bob"])
      expect((await scene.ask("createUser", { body: { username, password, roles: ["run.viewer", "run.viewer"] } })).status).toBe(
        201,
      );

    const first = await scene.ask("listUsers", { query: { limit: "2" } });
    const rest = await scene.ask("listUsers", { query: { limit: "2", cursor: String(first.body["nextCursor"]) } });

    expect(fitting("listUsers", first.body)).toEqual(first.body);
    const users = [...(first.body["items"] as object[]), ...(rest.body["items"] as object[])] as {
      username: string;
      userId: string;
    }[];
    expect(users.map(({ username }) => username)).toEqual(["Ann", "bob", "carl"]);
    expect([rest.body["nextCursor"], first.body["asOf"]]).toEqual([null, 3]);
    expect((await scene.ask("listUsers", { query: { search: "car" } })).body["items"]).toHaveLength(1);
    expect((await scene.ask("getUser", { params: { userId: users[0]?.userId ?? "" } })).body).toMatchObject({
      roles: ["run.viewer"],
    });
    expect(JSON.stringify([users, scene.docs.log, scene.outside.lines])).not.toMatch(/scrypt|long enough/);
  });

  it("[A86] have a name that is given once, whatever its case", async () => {
    const scene = openScene();
    await scene.ask("createUser", { body: { username: "Ann", password } });

    const { status, body } = await scene.ask("createUser", { body: { username: "aNN", password } });

    expect([status, body["error"], body["message"]]).toEqual([
      409,
      "E.CONFLICT",
      "there is a user aNN already; choose another name",
    ]);
    expect((await scene.ask("createUser", { token: "secret-b", body: { username: "Ann", password } })).status).toBe(201);
  });

  it("[A86] are made once under one key", async () => {
    const scene = openScene();
    const asking: Asking = { headers: { "idempotency-key": "k1" }, body: { username: "ann", password } };

    const [one, two] = [await scene.ask("createUser", asking), await scene.ask("createUser", asking)];

    expect(two.body["userId"]).toBe(one.body["userId"]);
    expect(two.headers["idempotent-replayed"]).toBe("true");
    expect((await scene.ask("createUser", { ...asking, body: { username: "eve", password } })).body).toMatchObject({
      error: "E.IDEMPOTENCY.MISMATCH",
    });
  });

  it("[A264] get a role once under one key, also one that they have; another under the key is refused", async () => {
    const scene = openScene({ calls: { digest: (text) => createHash("sha256").update(text).digest("hex") } });
    const made = await scene.ask("createUser", { body: { username: "ann", password, roles: ["run.viewer"] } });
    const give = (role: string, key: string) =>
      scene.ask("addUserRole", {
        params: { userId: String(made.body["userId"]) },
        headers: { "idempotency-key": key },
        body: { role },
      });

    for (const [role, key] of [
      ["workflow.viewer", "k1"],
      ["run.viewer", "k2"],
    ] as const) {
      const [one, two, other] = [await give(role, key), await give(role, key), await give("admin", key)];
      expect([one.status, one.headers["idempotent-replayed"]]).toEqual([204, undefined]);
      expect([two.status, two.headers["idempotent-replayed"]]).toEqual([204, "true"]);
      expect(other.body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
    }
  });

  it("[A264] are known again by nothing from which a password could be guessed quickly", async () => {
    const digested: string[] = [];
    const digest = (text: string): string => {
      digested.push(text);
      return `digest-${text.length}`;
    };
    const scene = openScene({ calls: { digest } });
    const headers = { "idempotency-key": "k0" };

    const made = await scene.ask("createUser", { body: { username: "ann", password }, headers });
    const params = { userId: String(made.body["userId"]) };
    await scene.ask("setUserPassword", { params, body: { password: "quite another one" }, headers: { "idempotency-key": "k1" } });

    expect(digested.length).toBeGreaterThan(3);
    expect(digested.filter((text) => text.includes(password) || text.includes("quite another one"))).toEqual([]);
  });

  it("[A264] are given a password once under one key", async () => {
    const scene = openScene({ calls: { digest: (text) => createHash("sha256").update(text).digest("hex") } });
    const made = await scene.ask("createUser", { body: { username: "ann", password } });
    const userId = String(made.body["userId"]);
    const asking = (to: string): Asking => ({ params: { userId }, headers: { "idempotency-key": "k1" }, body: { password: to } });
    const gen = () => scene.docs.body("default", "user", userId)?.["gen"];

    const one = await scene.ask("setUserPassword", asking("quite another password"));
    const two = await scene.ask("setUserPassword", asking("quite another password"));
    const other = await scene.ask("setUserPassword", asking("a third password"));

    expect([one.status, one.headers["idempotent-replayed"]]).toEqual([204, undefined]);
    expect([two.status, two.headers["idempotent-replayed"]]).toEqual([204, "true"]);
    expect(other.body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
    expect(gen()).toBe(2);
    const twin = { headers: { "idempotency-key": "k2" }, body: { username: "eve", password } };
    await scene.ask("createUser", twin);
    const changed = await scene.ask("createUser", { ...twin, body: { ...twin.body, password: "a third password" } });
    expect(changed.body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
  });

  it.each([
    [[], []],
    [["run.viewer"], ["view"]],
    [["workflow.viewer"], ["read"]],
    [["workflow.editor"], ["view", "read", "edit", "operate"]],
    [
      ["run.viewer", "workflow.viewer"],
      ["view", "read"],
    ],
    [["admin"], ["view", "read", "edit", "operate", "admin"]],
  ])("[A87] with the roles %j may %j", async (roles, grants) => {
    const scene = openScene();
    const { token } = await scene.signIn("ann", roles);
    await scene.people.warm(token);

    expect(scene.people.authenticate(token)?.grants).toEqual(grants);
  });

  it("[A86] get and lose roles; what is so already changes nothing", async () => {
    const scene = openScene();
    const { id } = await scene.signIn("ann", []);
    const role = { params: { userId: id }, body: { role: "workflow.editor" } };

    expect([(await scene.ask("addUserRole", role)).status, (await scene.ask("addUserRole", role)).status]).toEqual([204, 204]);
    expect((await scene.ask("getUser", { params: { userId: id } })).body["roles"]).toEqual(["workflow.editor"]);
    expect(scene.docs.log.filter(({ type }) => type === "audit.user.role.add")).toHaveLength(1);
    expect((await scene.ask("removeUserRole", { params: { userId: id, role: "workflow.editor" } })).status).toBe(204);
    expect((await scene.ask("getUser", { params: { userId: id } })).body["roles"]).toEqual([]);
  });

  it("[A88] see and rename themselves, and change their password if they know it", async () => {
    const scene = openScene();
    const { token } = await scene.signIn("ann", []);

    const renamed = await scene.ask("changeOwnUser", { token, body: { displayName: "Ann C." } });
    expect([fitting("getOwnUser", renamed.body), renamed.body["displayName"]]).toEqual([renamed.body, "Ann C."]);
    const next = "yet another password";
    const wrong = await scene.ask("setOwnPassword", { token, body: { currentPassword: "wrong", password: next } });
    expect(wrong.body).toMatchObject({ error: "E.AUTH.CREDENTIALS" });
    expect((await scene.ask("setOwnPassword", { token, body: { currentPassword: password, password: next } })).status).toBe(204);
    expect((await scene.ask("getOwnUser", { token })).status).toBe(401);
    expect((await scene.ask("login", { token: null, body: { username: "ann", password: next } })).status).toBe(200);
  });

  it("[A88] a token of the configuration is shown as a user of its name and has nothing to change", async () => {
    const scene = openScene();

    const { body } = await scene.ask("getOwnUser");

    expect(body).toMatchObject({ userId: "ann", username: "ann", isActive: true });
    expect(body["roles"]).toContain("admin");
    expect((await scene.ask("getOwnUser", { token: "viewer" })).body["roles"]).toEqual(["run.viewer"]);
    for (const [name, asked] of [
      ["changeOwnUser", { displayName: "x" }],
      ["setOwnPassword", { currentPassword: "x", password }],
      ["logout", undefined],
    ] as const)
      expect((await scene.ask(name, { body: asked })).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
  });

  it("[A89] cannot lock themselves out", async () => {
    const scene = openScene();
    const { token, id } = await scene.signIn("ann", ["admin"]);

    const own = { token, params: { userId: id, role: "admin" } };
    expect((await scene.ask("removeUserRole", own)).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
    expect((await scene.ask("setUserStatus", { ...own, body: { isActive: false } })).body).toMatchObject({
      error: "E.AUTH.FORBIDDEN",
    });
    expect((await scene.ask("setUserStatus", { ...own, body: { isActive: true } })).status).toBe(204);
  });

  it("[A91] begin with an admin where there are none, once", async () => {
    const scene = openScene();

    expect([await scene.people.found("default", password), await scene.people.found("default", "other password")]).toEqual([
      true,
      false,
    ]);

    const { body } = await scene.ask("login", { token: null, body: { username: "admin", password } });
    expect((await scene.ask("listUsers", { token: body["accessToken"] })).body["items"]).toHaveLength(1);
    const race = openScene();
    const both = await Promise.all([race.people.found("default", password), race.people.found("default", password)]);
    expect(both.toSorted()).toEqual([false, true]);
  });
});

describe("wrong input about people", () => {
  const user = { username: "eve", password };
  const cases: [RouteName, Asking, number, string][] = [
    ["login", { body: {} }, 400, "E.REQUEST.INVALID"],
    ["login", { body: { username: "ann", password: 1 } }, 400, "E.REQUEST.INVALID"],
    ["login", { body: { username: "ann", password: "x".repeat(2_000) } }, 400, "E.REQUEST.INVALID"],
    ["login", { body: "{" }, 400, "E.REQUEST.INVALID"],
    ["login", { body: "", headers: { "content-type": "text/plain" } }, 415, "E.REQUEST.MEDIA"],
    ["createUser", { body: { username: "eve" } }, 400, "E.REQUEST.INVALID"],
    ["createUser", { body: { ...user, username: "" } }, 400, "E.REQUEST.INVALID"],
    ["createUser", { body: { ...user, username: "e v e" } }, 400, "E.REQUEST.INVALID"],
    ["createUser", { body: { ...user, username: "../eve" } }, 400, "E.REQUEST.INVALID"],
    ["createUser", { body: { ...user, password: "short" } }, 400, "E.REQUEST.INVALID"],
    ["createUser", { body: { ...user, roles: ["root"] } }, 400, "E.REQUEST.INVALID"],
    ["createUser", { body: { ...user, roles: "admin" } }, 400, "E.REQUEST.INVALID"],
    ["createUser", { body: user, headers: { "idempotency-key": "a b" } }, 400, "E.REQUEST.INVALID"],
    ["listUsers", { query: { limit: "0" } }, 400, "E.REQUEST.INVALID"],
    ["listUsers", { query: { cursor: "zzz" } }, 400, "E.REQUEST.INVALID"],
    ["listUsers", { query: { name: "x" } }, 400, "E.REQUEST.INVALID"],
    ["changeOwnUser", { body: { displayName: "" } }, 400, "E.REQUEST.INVALID"],
    ["setOwnPassword", { body: { password } }, 400, "E.REQUEST.INVALID"],
    ["setUserPassword", { params: { userId: "u" }, body: { password: "short" } }, 400, "E.REQUEST.INVALID"],
    ["setUserPassword", { params: { userId: "u" }, body: { password } }, 404, "E.NOT_FOUND"],
    ["addUserRole", { params: { userId: "u" }, body: { role: "root" } }, 400, "E.REQUEST.INVALID"],
    ["removeUserRole", { params: { userId: "u", role: "root" } }, 400, "E.REQUEST.INVALID"],
    ["setUserStatus", { params: { userId: "u" }, body: { isActive: "no" } }, 400, "E.REQUEST.INVALID"],
    ["getUser", { params: { userId: "u" } }, 404, "E.NOT_FOUND"],
    ["listAudit", { query: { since: "yesterday" } }, 400, "E.REQUEST.INVALID"],
    ["listAudit", { query: { cursor: "x" } }, 400, "E.REQUEST.INVALID"],
    ["listAuditEvents", { query: { limit: "1000" } }, 400, "E.REQUEST.INVALID"],
  ];

  it.each(cases)("[A90] %s refuses %j with %i", async (name, asking, status, error) => {
    const scene = openScene();

    const answer = await scene.ask(name, asking);

    expect([answer.status, answer.body["error"]]).toEqual([status, error]);
    expect(scene.docs.docs.size).toBe(0);
  });

  it("[A90] answers another tenant's user as one that does not exist, and only to admins at all", async () => {
    const scene = openScene();
    const { id } = await scene.signIn("ann", ["workflow.editor"]);
    const asked: [RouteName, Asking][] = [
      ["getUser", {}],
      ["setUserPassword", { body: { password } }],
      ["addUserRole", { body: { role: "admin" } }],
      ["removeUserRole", {}],
      ["setUserStatus", { body: { isActive: false } }],
    ];

    for (const [name, more] of asked) {
      const params = (userId: string) => ({ params: { userId, role: "admin" } });
      const foreign = await scene.ask(name, { ...more, ...params(id), token: "secret-b" });
      const missing = await scene.ask(name, { ...more, ...params("nobody"), token: "secret-b" });
      expect([name, foreign.status, foreign.body["message"]]).toEqual([
        name,
        404,
        String(missing.body["message"]).replace("nobody", id),
      ]);
      expect((await scene.ask(name, { ...more, ...params(id), token: "viewer" })).status).toBe(403);
    }
  });
});
