import { createHash } from "node:crypto";
import { createSchemaReader, type RouteName, routes } from "@astraflow/protocol";
import { cacheLimits, loginThrottleLimits, userLimits } from "@astraflow/services";
import { forgeUserTokens } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { failToSignIn, openRestCallFixture, type RestCallInput, samplePassword } from "../../testing/rest-fixture.ts";

/** The body, unless the route's own schema has something against it or does not know a part of it. */
const fitting = (name: "login" | "listUsers" | "createUser" | "getOwnUser", body: unknown): unknown =>
  createSchemaReader(routes[name].response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body);

describe("signing in", () => {
  it("[A80] signing in with name and password returns a token that allows what the user's roles allow", async () => {
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

  it("[A383] a password that is too short is refused with a sentence that names the field and how many characters it must have", async () => {
    const fixture = openRestCallFixture();
    const { id } = await fixture.signIn("ann", []);
    // Eleven characters, each of two UTF-16 units.
    const password = "\u{1F511}".repeat(11);
    const refusals = [
      await fixture.callRoute("createUser", { body: { username: "bob", password } }),
      await fixture.callRoute("setUserPassword", { params: { userId: id }, body: { password } }),
    ];

    for (const { status, body } of refusals) {
      expect([status, body["error"]]).toEqual([400, "E.REQUEST.INVALID"]);
      expect(body["message"]).toBe("body.password is too short: it must have at least 12 characters");
      expect(body["details"]).toMatchObject({ path: "body.password", minLength: 12 });
    }
  });

  it("[A80] signing in is refused alike for a wrong name, a wrong password, another tenant and a locked user", async () => {
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

    const answers = refusals.map(({ status, body }) => [status, body["error"], body["message"]]);
    expect(new Set(answers.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(answers[0]?.slice(0, 2)).toEqual([401, "E.AUTH.CREDENTIALS"]);
  });

  it("[A81] signing in too early after wrong passwords is answered with 429 and the time to wait, however right the password is", async () => {
    const fixture = openRestCallFixture();
    await fixture.signIn("ann", []);
    const right = { token: null, body: { username: "ann", password: samplePassword } };
    await failToSignIn(fixture, "ANN", loginThrottleLimits.name.freeFailures + 1);

    const throttled = await fixture.callRoute("login", right);

    expect([throttled.status, throttled.body["error"], throttled.headers["retry-after"]]).toEqual([429, "E.AUTH.THROTTLED", "1"]);
    fixture.environment.advance(1_000);
    expect((await fixture.callRoute("login", right)).status).toBe(200);
  });

  it("[A540] a user signs in from elsewhere while somebody guesses at the password from many addresses", async () => {
    const fixture = openRestCallFixture();
    await fixture.signIn("ann", []);
    for (let n = 0; n < 20; n += 1) await failToSignIn(fixture, "ann", 3, `10.0.1.${n}`);

    const elsewhere = await fixture.callRoute("login", {
      token: null,
      address: "10.9.9.9",
      body: { username: "ann", password: samplePassword },
    });

    expect(elsewhere.status).toBe(200);
  });

  it("[A81] signing in is throttled for an address that tries many names", async () => {
    const fixture = openRestCallFixture();
    const attempt = (n: number, address: string) =>
      fixture.callRoute("login", { token: null, address, body: { username: `user${n}`, password: "wrong" } });
    for (let n = 0; n <= loginThrottleLimits.address.freeFailures; n += 1) await attempt(n, "10.0.0.1");

    expect((await attempt(99, "10.0.0.1")).status).toBe(429);
    expect((await attempt(99, "10.0.0.2")).status).toBe(401);
  });

  it("[A94] signing in is audited whether it succeeds or fails, and the name of an unknown user is not stored", async () => {
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
  it("[A83] a user's token allows what the user's current roles allow, within a second even if another scheduler changed them", async () => {
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

  it("[A83] a user's token on a stream that was opened long ago is checked again whenever it is used", async () => {
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

  it("[A83] a user's token stays valid for ten minutes while the store is unavailable", async () => {
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

  it("[A84] a user's token is revoked by signing out, and no other token with it", async () => {
    const fixture = openRestCallFixture();
    const { token } = await fixture.signIn("ann", ["run.viewer"]);
    const { body } = await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } });

    expect((await fixture.callRoute("logout", { token })).status).toBe(204);

    expect((await fixture.callRoute("getOwnUser", { token })).body).toMatchObject({ error: "E.AUTH.INVALID_TOKEN" });
    expect((await fixture.callRoute("getOwnUser", { token: body["accessToken"] })).status).toBe(200);
  });

  it("[A84] all tokens of a user are revoked after very many sign-outs, and the list of revoked tokens stays short", async () => {
    const fixture = openRestCallFixture();
    const { token, id } = await fixture.signIn("ann", []);
    for (let n = 0; n <= userLimits.revokedTokensMax; n += 1) {
      const { body } = await fixture.callRoute("login", { token: null, body: { username: "ann", password: samplePassword } });
      expect((await fixture.callRoute("logout", { token: body["accessToken"] })).status).toBe(204);
    }

    expect(fixture.docs.body("default", "user", id)).toMatchObject({ gen: 2, revoked: [] });
    expect((await fixture.callRoute("getOwnUser", { token })).status).toBe(401);
  });

  it("[A84] a user's token ends with its lifetime, and is invalid after a new password", async () => {
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

  it("[A543] a token that was not issued here costs no read of the store and gets the same answer whatever is wrong with it", async () => {
    const fixture = openRestCallFixture();
    const { token } = await fixture.signIn("ann", ["admin"]);
    expect((await fixture.callRoute("listUsers", { token })).status).toBe(200);
    // What goes on by itself looks through the tenants now and then.
    const countReads = () => fixture.docs.queries.filter(({ page }) => page !== "tenants").length;
    const readsBefore = countReads();
    fixture.environment.advance(cacheLimits.freshMs + 1);

    const answers = new Set<string>();
    for (const forged of forgeUserTokens(token)) {
      const { status, body } = await fixture.callRoute("listUsers", { token: forged });
      answers.add(JSON.stringify([status, body["error"], body["message"]]));
    }

    expect([...answers]).toEqual([JSON.stringify([401, "E.AUTH.INVALID_TOKEN", "the token is not valid"])]);
    expect(countReads() - readsBefore).toBe(0);
  });

  it("[A543] while no user has signed in yet, forged tokens cost at most one read of the store in a second", async () => {
    const fixture = openRestCallFixture();

    for (const forged of forgeUserTokens()) expect((await fixture.callRoute("listUsers", { token: forged })).status).toBe(401);

    expect(fixture.docs.queries).toHaveLength(1);
  });

  it("[A543] a scheduler that has just started accepts tokens of every tenant that another one has issued", async () => {
    const here = openRestCallFixture();
    const tokens = [(await here.signIn("ann", [])).token, (await here.signIn("bob", [], "other")).token];
    const there = openRestCallFixture({ shared: here.docs });

    for (const token of tokens) expect((await there.callRoute("getOwnUser", { token })).status).toBe(200);
  });

  it("[A85] a user's token is signed by a key of its tenant that every scheduler has, and stays valid when the key is replaced", async () => {
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
  it("[A86] users are created, listed by name and shown, and never with their password", async () => {
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

  it("[A86] a user name is given only once per tenant, ignoring case", async () => {
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

  it("[A86] a user is created once under one Idempotency-Key", async () => {
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

  it("[A264] a user gets a role once under one Idempotency-Key, even a role they have; another role under that key is refused", async () => {
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

  it("[A264] a repeated user request is recognised without a fast digest of its password", async () => {
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

  it("[A264] a user's password is set once under one Idempotency-Key", async () => {
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
  ])("[A87] a user with the roles %j has the grants %j", async (roles, grants) => {
    const fixture = openRestCallFixture();
    const { token } = await fixture.signIn("ann", roles);
    await fixture.people.preload(token);

    expect(fixture.people.authenticate(token)?.grants).toEqual(grants);
  });

  it("[A86] a user gets and loses roles, and adding a role that the user has changes nothing", async () => {
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

  it("[A88] users can see and rename themselves, and change their password if they know the current one", async () => {
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

  it("[A88] a token of the configuration is shown as a user of its name, and cannot change its name or password or sign out", async () => {
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

  it("[A89] admins cannot remove their own admin role or deactivate themselves", async () => {
    const fixture = openRestCallFixture();
    const { token, id } = await fixture.signIn("ann", ["admin"]);

    const own = { token, params: { userId: id, role: "admin" } };
    expect((await fixture.callRoute("removeUserRole", own)).body).toMatchObject({ error: "E.AUTH.FORBIDDEN" });
    expect((await fixture.callRoute("setUserStatus", { ...own, body: { isActive: false } })).body).toMatchObject({
      error: "E.AUTH.FORBIDDEN",
    });
    expect((await fixture.callRoute("setUserStatus", { ...own, body: { isActive: true } })).status).toBe(204);
  });

  it("[A91] the first admin is created where there are no users, and only once", async () => {
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
    ["listUsers", { query: { cursor: "zzz" } }, 404, "E.CURSOR.UNKNOWN"],
    ["listUsers", { query: { cursor: "z z" } }, 400, "E.REQUEST.INVALID"],
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

  it.each(cases)("[A90] the user or audit route %s refuses the request %j with %i", async (name, asking, status, error) => {
    const fixture = openRestCallFixture();

    const answer = await fixture.callRoute(name, asking);

    expect([answer.status, answer.body["error"]]).toEqual([status, error]);
    expect(fixture.docs.docs.size).toBe(0);
  });

  it("[A90] the user routes answer another tenant's user as one that does not exist, and serve admins only", async () => {
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
