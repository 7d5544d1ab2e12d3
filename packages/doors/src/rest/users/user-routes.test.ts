import { createHash } from "node:crypto";
import { createSchemaReader, type RouteName, routes } from "@astraflow/protocol";
import { cacheLimits, loginAttemptLimits, userLimits } from "@astraflow/services";
import { describe, expect, it } from "vitest";
import { openRestCallFixture, type RestCallInput, samplePassword } from "../../testing/rest-fixture.ts";

/** The body, unless the route's own schema has something against it or does not know a part of it. */
const fitting = (name: "login" | "listUsers" | "createUser" | "getOwnUser", body: unknown): unknown =>
  createSchemaReader(routes[name].response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body);

describe("signing in", () => {
  it("[A80] gives a token for name and password that opens what the roles allow", async () => {
    const fixture = openRestCallFixture();
    await fixture.callRoute("createUser", {
      body: { username: "Ann", password: samplePassword, roles: ["workflow.viewer"], displayName: "Ann B." },
    });

    const { status, body } = await fixture.callRoute("login", {
      token: null,
      body: { username: "ann", password: samplePassword },
    });

    expect([status, fitting("login", body)]).toEqual([200, body]);
    expect(body).toMatchObject({ tokenType: "Bearer", expiresIn: 43_200, user: { username: "Ann", roles: ["workflow.viewer"] } });
    const claims = JSON.parse(Buffer.from(String(body["accessToken"]).split(".")[1] ?? "", "base64url").toString());
    expect(claims).toMatchObject({ username: "Ann", displayName: "Ann B.", roles: ["workflow.viewer"], tenant: "default" });
    expect(claims.exp - claims.iat).toBe(43_200);
    const token = body["accessToken"];
    expect((await fixture.callRoute("listResources", { token })).status).toBe(200);
    expect((await fixture.callRoute("listRuns", { token })).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
  });

  it("[A80] answers a wrong name, a wrong password, another tenant and a locked user alike", async () => {
    const fixture = openRestCallFixture();
    const { id } = await fixture.signIn("ann", []);
    const refusals = [
      await fixture.callRoute("login", { token: null, body: { username: "nobody", password: samplePassword } }),
      await fixture.callRoute("login", { token: null, body: { username: "ann", password: "wrong" } }),
      await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword, tenant: "other" } }),
      await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword, tenant: "a/b" } }),
    ];
    await fixture.callRoute("setUserStatus", { params: { userId: id }, body: { isActive: false } });
    refusals.push(await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } }));

    const said = refusals.map(({ status, body }) => [status, body["error"], body["message"]]);
    expect(new Set(said.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(said[0]?.slice(0, 2)).toEqual([401, "E.AUTH.CREDENTIALS"]);
  });

  it("[A81] is braked after ten wrong passwords for a user, and says when to come back", async () => {
    const fixture = openRestCallFixture();
    await fixture.signIn("ann", []);
    const wrong = { token: null, body: { username: "ANN", password: "wrong" } };
    for (let n = 0; n < loginAttemptLimits.userAttemptsMax; n += 1)
      expect((await fixture.callRoute("login", wrong)).status).toBe(401);

    const braked = await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } });

    expect([braked.status, braked.body["error"], braked.headers["retry-after"]]).toEqual([429, "E.AUTH.THROTTLED", "300"]);
    fixture.environment.advance(loginAttemptLimits.windowMs);
    expect((await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } })).status).toBe(
      200,
    );
  });

  it("[A81] is braked for an address that tries many names", async () => {
    const fixture = openRestCallFixture();
    const attempt = (n: number, address: string) =>
      fixture.callRoute("login", { token: null, address, body: { username: `user${n}`, password: "wrong" } });
    for (let n = 0; n < loginAttemptLimits.addressAttemptsMax; n += 1) await attempt(n, "10.0.0.1");

    expect((await attempt(99, "10.0.0.1")).status).toBe(429);
    expect((await attempt(99, "10.0.0.2")).status).toBe(401);
  });

  it("[A94] is audited, right or wrong, and a name that is nobody's is not kept", async () => {
    const fixture = openRestCallFixture();
    const { id } = await fixture.signIn("ann", []);
    await fixture.callRoute("login", { token: null, address: "10.0.0.9", body: { username: "ann", password: "wrong" } });
    await fixture.callRoute("login", { token: null, body: { username: "hunter2-typed-here", password: "wrong" } });

    const { body } = await fixture.callRoute("listAudit", { query: { targetId: id } });

    expect((body["items"] as { action: string }[]).map(({ action }) => action)).toEqual([
      "auth.login.failure",
      "auth.login.success",
      "user.create",
    ]);
    expect(JSON.stringify([fixture.docs.log, fixture.environment.logRecords])).not.toContain("hunter2");
  });
});

describe("a person's token", () => {
  it("[A83] opens what the roles of now allow, within a second also where another scheduler changed them", async () => {
    const here = openRestCallFixture();
    const there = openRestCallFixture({ shared: here.docs });
    const { token, id } = await here.signIn("ann", ["run.viewer"]);
    expect((await there.callRoute("listRuns", { token })).status).toBe(200);

    await here.callRoute("removeUserRole", { params: { userId: id, role: "run.viewer" } });

    expect((await here.callRoute("listRuns", { token })).status).toBe(403);
    there.environment.advance(cacheLimits.freshMs + 1);
    expect((await there.callRoute("listRuns", { token })).status).toBe(403);
    await here.callRoute("setUserStatus", { params: { userId: id }, body: { isActive: false } });
    there.environment.advance(cacheLimits.freshMs + 1);
    expect((await there.callRoute("getOwnUser", { token })).status).toBe(401);
  });

  it("[A83] of a stream that was opened long ago is looked at again whenever it is asked about", async () => {
    const here = openRestCallFixture();
    const there = openRestCallFixture({ shared: here.docs });
    const { token, id } = await here.signIn("ann", ["run.viewer"]);
    await there.people.preload(token);
    await here.callRoute("setUserStatus", { params: { userId: id }, body: { isActive: false } });
    there.environment.advance(cacheLimits.freshMs + 1);

    expect(there.people.authenticate(token)).not.toBeNull();
    await new Promise((resolve) => setImmediate(resolve));
    expect(there.people.authenticate(token)).toBeNull();
  });

  it("[A83] stays good while the store is away, for ten minutes", async () => {
    const fixture = openRestCallFixture();
    const { token } = await fixture.signIn("ann", ["run.viewer"]);
    await fixture.callRoute("getOwnUser", { token });
    fixture.docs.reader.page = () => Promise.reject(new Error("away"));

    fixture.environment.advance(cacheLimits.staleMsMax);
    await fixture.people.preload(token);
    expect(fixture.people.authenticate(token)).toMatchObject({ grants: ["view"] });
    fixture.environment.advance(1);
    expect(fixture.people.authenticate(token)).toBeNull();
  });

  it("[A84] is taken back by signing out, and no other with it", async () => {
    const fixture = openRestCallFixture();
    const { token } = await fixture.signIn("ann", ["run.viewer"]);
    const { body } = await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } });

    expect((await fixture.callRoute("logout", { token })).status).toBe(204);

    expect((await fixture.callRoute("getOwnUser", { token })).body).toMatchObject({ error: "E.AUTH.INVALID_TOKEN" });
    expect((await fixture.callRoute("getOwnUser", { token: body["accessToken"] })).status).toBe(200);
  });

  it("[A84] of a user that signs out again and again is taken back too, and the list stays short", async () => {
    const fixture = openRestCallFixture();
    const { token, id } = await fixture.signIn("ann", []);
    for (let n = 0; n <= userLimits.revokedTokensMax; n += 1) {
      const { body } = await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } });
      expect((await fixture.callRoute("logout", { token: body["accessToken"] })).status).toBe(204);
    }

    expect(fixture.docs.body("default", "user", id)).toMatchObject({ gen: 2, revoked: [] });
    expect((await fixture.callRoute("getOwnUser", { token })).status).toBe(401);
  });

  it("[A84] is over when its time is, and worth nothing after a new password", async () => {
    const fixture = openRestCallFixture();
    const { token, id } = await fixture.signIn("ann", []);
    const other = await fixture.signIn("bob", []);
    await fixture.callRoute("setUserPassword", { params: { userId: id }, body: { password: "another long password" } });

    expect((await fixture.callRoute("getOwnUser", { token })).status).toBe(401);
    expect((await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } })).status).toBe(
      401,
    );
    fixture.environment.advance(userLimits.tokenLifetimeMs - 1_000);
    expect((await fixture.callRoute("getOwnUser", { token: other.token })).status).toBe(200);
    fixture.environment.advance(1_000);
    expect((await fixture.callRoute("getOwnUser", { token: other.token })).status).toBe(401);
  });

  it("[A85] is signed by a key of its tenant that every scheduler has, also when the key was replaced since", async () => {
    const here = openRestCallFixture();
    const { token } = await here.signIn("ann", []);
    const bob = await here.signIn("bob", [], "other");
    const there = openRestCallFixture({ shared: here.docs });

    expect((await there.callRoute("getOwnUser", { token })).body).toMatchObject({ username: "ann" });
    expect((await there.callRoute("getOwnUser", { token: bob.token })).body).toMatchObject({ username: "bob" });
    const forged = token
      .split(".")
      .with(1, bob.token.split(".")[1] ?? "")
      .join(".");
    expect((await there.callRoute("getOwnUser", { token: forged })).status).toBe(401);
    here.environment.jumpClock(userLimits.signingKeyAgeMs);
    await here.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } });
    expect(here.docs.body("default", "signing", "keys")?.["keys"]).toHaveLength(2);
    expect((await there.callRoute("getOwnUser", { token })).status).toBe(200);
  });
});

describe("users", () => {
  it("[A86] are created, listed by name, shown, and never with their password", async () => {
    const fixture = openRestCallFixture();
    for (const username of ["carl", "Ann", "bob"])
      expect(
        (
          await fixture.callRoute("createUser", {
            body: { username, password: samplePassword, roles: ["run.viewer", "run.viewer"] },
          })
        ).status,
      ).toBe(201);

    const first = await fixture.callRoute("listUsers", { query: { limit: "2" } });
    const rest = await fixture.callRoute("listUsers", { query: { limit: "2", cursor: String(first.body["nextCursor"]) } });

    expect(fitting("listUsers", first.body)).toEqual(first.body);
    const users = [...(first.body["items"] as object[]), ...(rest.body["items"] as object[])] as {
      username: string;
      userId: string;
    }[];
    expect(users.map(({ username }) => username)).toEqual(["Ann", "bob", "carl"]);
    expect([rest.body["nextCursor"], first.body["asOf"]]).toEqual([null, 3]);
    expect((await fixture.callRoute("listUsers", { query: { search: "car" } })).body["items"]).toHaveLength(1);
    expect((await fixture.callRoute("getUser", { params: { userId: users[0]?.userId ?? "" } })).body).toMatchObject({
      roles: ["run.viewer"],
    });
    expect(JSON.stringify([users, fixture.docs.log, fixture.environment.logRecords])).not.toMatch(/scrypt|long enough/);
  });

  it("[A86] have a name that is given once, whatever its case", async () => {
    const fixture = openRestCallFixture();
    await fixture.callRoute("createUser", { body: { username: "Ann", password: samplePassword } });

    const { status, body } = await fixture.callRoute("createUser", { body: { username: "aNN", password: samplePassword } });

    expect([status, body["error"], body["message"]]).toEqual([
      409,
      "E.CONFLICT",
      "there is a user aNN already; choose another name",
    ]);
    expect(
      (await fixture.callRoute("createUser", { token: "secret-b", body: { username: "Ann", password: samplePassword } })).status,
    ).toBe(201);
  });

  it("[A86] are made once under one key", async () => {
    const fixture = openRestCallFixture();
    const asking: RestCallInput = { headers: { "idempotency-key": "k1" }, body: { username: "ann", password: samplePassword } };

    const [one, two] = [await fixture.callRoute("createUser", asking), await fixture.callRoute("createUser", asking)];

    expect(two.body["userId"]).toBe(one.body["userId"]);
    expect(two.headers["idempotent-replayed"]).toBe("true");
    expect(
      (await fixture.callRoute("createUser", { ...asking, body: { username: "eve", password: samplePassword } })).body,
    ).toMatchObject({
      error: "E.IDEMPOTENCY.MISMATCH",
    });
  });

  it("[A264] get a role once under one key, also one that they have; another under the key is refused", async () => {
    const fixture = openRestCallFixture({ calls: { digest: (text) => createHash("sha256").update(text).digest("hex") } });
    const made = await fixture.callRoute("createUser", {
      body: { username: "ann", password: samplePassword, roles: ["run.viewer"] },
    });
    const give = (role: string, key: string) =>
      fixture.callRoute("addUserRole", {
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
    const fixture = openRestCallFixture({ calls: { digest } });
    const headers = { "idempotency-key": "k0" };

    const made = await fixture.callRoute("createUser", { body: { username: "ann", password: samplePassword }, headers });
    const params = { userId: String(made.body["userId"]) };
    await fixture.callRoute("setUserPassword", {
      params,
      body: { password: "quite another one" },
      headers: { "idempotency-key": "k1" },
    });

    expect(digested.length).toBeGreaterThan(3);
    expect(digested.filter((text) => text.includes(samplePassword) || text.includes("quite another one"))).toEqual([]);
  });

  it("[A264] are given a password once under one key", async () => {
    const fixture = openRestCallFixture({ calls: { digest: (text) => createHash("sha256").update(text).digest("hex") } });
    const made = await fixture.callRoute("createUser", { body: { username: "ann", password: samplePassword } });
    const userId = String(made.body["userId"]);
    const asking = (to: string): RestCallInput => ({
      params: { userId },
      headers: { "idempotency-key": "k1" },
      body: { password: to },
    });
    const gen = () => fixture.docs.body("default", "user", userId)?.["gen"];

    const one = await fixture.callRoute("setUserPassword", asking("quite another password"));
    const two = await fixture.callRoute("setUserPassword", asking("quite another password"));
    const other = await fixture.callRoute("setUserPassword", asking("a third password"));

    expect([one.status, one.headers["idempotent-replayed"]]).toEqual([204, undefined]);
    expect([two.status, two.headers["idempotent-replayed"]]).toEqual([204, "true"]);
    expect(other.body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
    expect(gen()).toBe(2);
    const twin = { headers: { "idempotency-key": "k2" }, body: { username: "eve", password: samplePassword } };
    await fixture.callRoute("createUser", twin);
    const changed = await fixture.callRoute("createUser", { ...twin, body: { ...twin.body, password: "a third password" } });
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
    const fixture = openRestCallFixture();
    const { token } = await fixture.signIn("ann", roles);
    await fixture.people.preload(token);

    expect(fixture.people.authenticate(token)?.grants).toEqual(grants);
  });

  it("[A86] get and lose roles; what is so already changes nothing", async () => {
    const fixture = openRestCallFixture();
    const { id } = await fixture.signIn("ann", []);
    const role = { params: { userId: id }, body: { role: "workflow.editor" } };

    expect([
      (await fixture.callRoute("addUserRole", role)).status,
      (await fixture.callRoute("addUserRole", role)).status,
    ]).toEqual([204, 204]);
    expect((await fixture.callRoute("getUser", { params: { userId: id } })).body["roles"]).toEqual(["workflow.editor"]);
    expect(fixture.docs.log.filter(({ type }) => type === "audit.user.role.add")).toHaveLength(1);
    expect((await fixture.callRoute("removeUserRole", { params: { userId: id, role: "workflow.editor" } })).status).toBe(204);
    expect((await fixture.callRoute("getUser", { params: { userId: id } })).body["roles"]).toEqual([]);
  });

  it("[A88] see and rename themselves, and change their password if they know it", async () => {
    const fixture = openRestCallFixture();
    const { token } = await fixture.signIn("ann", []);

    const renamed = await fixture.callRoute("changeOwnUser", { token, body: { displayName: "Ann C." } });
    expect([fitting("getOwnUser", renamed.body), renamed.body["displayName"]]).toEqual([renamed.body, "Ann C."]);
    const next = "yet another password";
    const wrong = await fixture.callRoute("setOwnPassword", { token, body: { currentPassword: "wrong", password: next } });
    expect(wrong.body).toMatchObject({ error: "E.AUTH.CREDENTIALS" });
    expect(
      (await fixture.callRoute("setOwnPassword", { token, body: { currentPassword: samplePassword, password: next } })).status,
    ).toBe(204);
    expect((await fixture.callRoute("getOwnUser", { token })).status).toBe(401);
    expect((await fixture.callRoute("login", { token: null, body: { username: "ann", password: next } })).status).toBe(200);
  });

  it("[A88] a token of the configuration is shown as a user of its name and has nothing to change", async () => {
    const fixture = openRestCallFixture();

    const { body } = await fixture.callRoute("getOwnUser");

    expect(body).toMatchObject({ userId: "ann", username: "ann", isActive: true });
    expect(body["roles"]).toContain("admin");
    expect((await fixture.callRoute("getOwnUser", { token: "viewer" })).body["roles"]).toEqual(["run.viewer"]);
    for (const [name, asked] of [
      ["changeOwnUser", { displayName: "x" }],
      ["setOwnPassword", { currentPassword: "x", password: samplePassword }],
      ["logout", undefined],
    ] as const)
      expect((await fixture.callRoute(name, { body: asked })).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
  });

  it("[A89] cannot lock themselves out", async () => {
    const fixture = openRestCallFixture();
    const { token, id } = await fixture.signIn("ann", ["admin"]);

    const own = { token, params: { userId: id, role: "admin" } };
    expect((await fixture.callRoute("removeUserRole", own)).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
    expect((await fixture.callRoute("setUserStatus", { ...own, body: { isActive: false } })).body).toMatchObject({
      error: "E.AUTH.FORBIDDEN",
    });
    expect((await fixture.callRoute("setUserStatus", { ...own, body: { isActive: true } })).status).toBe(204);
  });

  it("[A91] begin with an admin where there are none, once", async () => {
    const fixture = openRestCallFixture();

    expect([
      await fixture.people.createFirstUser("default", samplePassword),
      await fixture.people.createFirstUser("default", "other password"),
    ]).toEqual([true, false]);

    const { body } = await fixture.callRoute("login", { token: null, body: { username: "admin", password: samplePassword } });
    expect((await fixture.callRoute("listUsers", { token: body["accessToken"] })).body["items"]).toHaveLength(1);
    const race = openRestCallFixture();
    const both = await Promise.all([
      race.people.createFirstUser("default", samplePassword),
      race.people.createFirstUser("default", samplePassword),
    ]);
    expect(both.toSorted()).toEqual([false, true]);
  });
});

describe("wrong input about people", () => {
  const user = { username: "eve", password: samplePassword };
  const cases: [RouteName, RestCallInput, number, string][] = [
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
    ["setOwnPassword", { body: { password: samplePassword } }, 400, "E.REQUEST.INVALID"],
    ["setUserPassword", { params: { userId: "u" }, body: { password: "short" } }, 400, "E.REQUEST.INVALID"],
    ["setUserPassword", { params: { userId: "u" }, body: { password: samplePassword } }, 404, "E.NOT_FOUND"],
    ["addUserRole", { params: { userId: "u" }, body: { role: "root" } }, 400, "E.REQUEST.INVALID"],
    ["removeUserRole", { params: { userId: "u", role: "root" } }, 400, "E.REQUEST.INVALID"],
    ["setUserStatus", { params: { userId: "u" }, body: { isActive: "no" } }, 400, "E.REQUEST.INVALID"],
    ["getUser", { params: { userId: "u" } }, 404, "E.NOT_FOUND"],
    ["listAudit", { query: { since: "yesterday" } }, 400, "E.REQUEST.INVALID"],
    ["listAudit", { query: { cursor: "x" } }, 400, "E.REQUEST.INVALID"],
    ["listAuditEvents", { query: { limit: "1000" } }, 400, "E.REQUEST.INVALID"],
  ];

  it.each(cases)("[A90] %s refuses %j with %i", async (name, asking, status, error) => {
    const fixture = openRestCallFixture();

    const answer = await fixture.callRoute(name, asking);

    expect([answer.status, answer.body["error"]]).toEqual([status, error]);
    expect(fixture.docs.docs.size).toBe(0);
  });

  it("[A90] answers another tenant's user as one that does not exist, and only to admins at all", async () => {
    const fixture = openRestCallFixture();
    const { id } = await fixture.signIn("ann", ["workflow.editor"]);
    const asked: [RouteName, RestCallInput][] = [
      ["getUser", {}],
      ["setUserPassword", { body: { password: samplePassword } }],
      ["addUserRole", { body: { role: "admin" } }],
      ["removeUserRole", {}],
      ["setUserStatus", { body: { isActive: false } }],
    ];

    for (const [name, more] of asked) {
      const params = (userId: string) => ({ params: { userId, role: "admin" } });
      const foreign = await fixture.callRoute(name, { ...more, ...params(id), token: "secret-b" });
      const missing = await fixture.callRoute(name, { ...more, ...params("nobody"), token: "secret-b" });
      expect([name, foreign.status, foreign.body["message"]]).toEqual([
        name,
        404,
        String(missing.body["message"]).replace("nobody", id),
      ]);
      expect((await fixture.callRoute(name, { ...more, ...params(id), token: "viewer" })).status).toBe(403);
    }
  });
});
