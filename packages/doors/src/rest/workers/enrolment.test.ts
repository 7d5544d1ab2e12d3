import { createSchemaReader, type RouteName, routes } from "@astraflow/protocol";
import { taskRow, workerRow } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { openRestCallFixture, type RestCallFixture, type RestCallInput } from "../../testing/rest-fixture.ts";

const workers = [
  workerRow("w-0", { name: "press", phase: "lost" }),
  workerRow("w-1", { name: "press" }),
  workerRow("w-2", { name: "spare" }),
  workerRow("w-9", { name: "theirs", tenant: "other" }),
];
const held = [
  taskRow("r1.3", { phase: "leased", worker: "default/w-1" }),
  taskRow("r2.0", { phase: "leased", worker: "default/w-1" }),
];

function openWorkers(calls: { packageOrigins?: readonly string[] } = {}): RestCallFixture {
  const fixture = openRestCallFixture({ rows: { workers, tasks: held }, calls });
  fixture.docs.engine.answerWith("worker.enrol", ({ worker }) => ({
    body: { of: "enrolled", worker, heartbeatMs: 10_000, isOnline: worker.endsWith("w-1") },
  }));
  fixture.docs.engine.answerWith("worker.order", ({ id }) => ({ body: { of: "order", id, sent: true } }));
  /** Keeps a command as the engine does, over as soon as it is written. */
  const keep = (tenant: string, id: string, worker: string, order: object, end: object = {}): void => {
    const { name = "" } = workers.find((one) => one.id === worker) ?? {};
    const body = { worker, workerName: name, order, by: "ann", status: "acked", sentAt: 1_000, endedAt: 1_000, ...end };
    fixture.docs.write({ tenant, puts: [{ collection: "command", name: id, rev: 0, body: JSON.stringify(body) }] });
  };
  fixture.docs.engine.answerWith("worker.drain", ({ tenant, worker, on, command = "" }) => {
    keep(tenant, command, worker, { type: on ? "drain" : "undrain" });
    return { body: { of: "worker", worker, draining: on } };
  });
  fixture.docs.engine.answerWith("worker.kick", ({ tenant, worker, reason, command = "" }) => {
    keep(tenant, command, worker, { type: "kick", reason });
    return { body: { of: "worker", worker, draining: false, at: 1_000 } };
  });
  fixture.docs.engine.answerWith("worker.noted", ({ tenant, worker, id, order, error, details }) => {
    keep(tenant, id, worker, order, { details, ...(error !== null && { status: "failed", error }) });
    return { body: { of: "order", id, sent: false } };
  });
  fixture.docs.engine.answerWith("run.rebind", ({ run }) => ({ body: { of: "steered", run, tasks: [] } }));
  return fixture;
}
const commandsOf = (fixture: RestCallFixture, type: string) => fixture.docs.engine.commands.filter((one) => one.type === type);
const order = (body: unknown, more: RestCallInput = {}): RestCallInput => ({ params: { workerName: "press" }, body, ...more });
const headers = { host: "scheduler.example:8080" };

describe("workers that enrol over REST", () => {
  it("[A120] a worker that enrols over REST gets its instance id, its WebSocket URL and its heartbeat interval", async () => {
    const fixture = openWorkers();
    const request = {
      workerId: "w-7",
      name: "new press",
      capabilities: { concurrency: { maxParallel: 3 }, features: ["fence"], tags: { zone: "a" } },
      packages: [{ name: "demo", version: "1.0.0" }],
      runtimes: ["node"],
    };

    const { status, body } = await fixture.callRoute("enrolWorker", { body: request, headers });

    expect([status, body]).toEqual([
      200,
      { instanceId: "w-7", wsUrl: "ws://scheduler.example:8080/ws/worker", heartbeatIntervalMs: 10_000, connected: false },
    ]);
    expect(commandsOf(fixture, "worker.enrol")).toMatchObject([
      {
        tenant: "default",
        by: "ann",
        worker: "default/w-7",
        name: "new press",
        about: {
          slots: 3,
          packages: [{ name: "demo", version: "1.0.0", status: "installed" }],
          runtimes: ["node"],
          features: ["fence"],
          pool: "default",
          tags: { zone: "a" },
        },
        status: null,
      },
    ]);
  });

  it("[A120] a worker reports over REST that it is alive, with its packages; one that never enrolled is asked to register first", async () => {
    const fixture = openWorkers();
    const request = { workerId: "w-1", status: "busy", packages: [{ name: "demo", version: "2.0.0", status: "failed" }] };

    expect((await fixture.callRoute("signWorker", { body: request, headers })).body).toMatchObject({
      instanceId: "w-1",
      connected: true,
    });

    expect(commandsOf(fixture, "worker.enrol")).toMatchObject([{ about: null, status: "busy", packages: request.packages }]);
    fixture.docs.engine.answerWith("worker.enrol", () => ({ fault: { code: "E.NOT_FOUND", message: "x" } }));
    expect((await fixture.callRoute("signWorker", { body: { workerId: "w-8" } })).body).toMatchObject({
      error: "E.NOT_FOUND",
      message: "there is no worker w-8; register it first",
    });
  });

  it("[A344] a worker may enrol with its capabilities as a list, and report its status as in a heartbeat", async () => {
    const fixture = openWorkers();
    const status = { healthy: false, metrics: { cpuPct: 90 } };

    expect((await fixture.callRoute("enrolWorker", { body: { workerId: "w-7", capabilities: ["gpu", "fast"] } })).status).toBe(
      200,
    );
    expect((await fixture.callRoute("signWorker", { body: { workerId: "w-7", status } })).status).toBe(200);

    expect(commandsOf(fixture, "worker.enrol")).toMatchObject([{ about: { features: ["gpu", "fast"], slots: 1 } }, { status }]);
    for (const body of [
      { workerId: "w-7", capabilities: 5 },
      { workerId: "w-7", capabilities: [5] },
    ])
      expect((await fixture.callRoute("enrolWorker", { body })).body).toMatchObject({ error: "E.REQUEST.INVALID" });
    expect((await fixture.callRoute("signWorker", { body: { workerId: "w-7", status: { healthy: "no" } } })).body).toMatchObject({
      error: "E.REQUEST.INVALID",
    });
  });

  it("[A120] a worker that enrols over REST gets no WebSocket URL built from an invalid Host header", async () => {
    const fixture = openWorkers();
    const at = async (host: string) =>
      (await fixture.callRoute("enrolWorker", { body: { workerId: "w" }, headers: { host } })).body["wsUrl"];

    expect(await at("[::1]:9")).toBe("ws://[::1]:9/ws/worker");
    expect(await at('evil"/<x>')).toBe("ws://localhost/ws/worker");
    const secure = openRestCallFixture({ calls: { isSecure: true } });
    secure.docs.engine.answerWith("worker.enrol", ({ worker }) => ({
      body: { of: "enrolled", worker, heartbeatMs: 1, isOnline: false },
    }));
    expect((await secure.callRoute("enrolWorker", { body: { workerId: "w" }, headers })).body["wsUrl"]).toMatch(/^wss:/);
  });
});

describe("commands to workers", () => {
  it("[A121] a command reaches the connected worker of a name, or one worker by its instance id", async () => {
    const fixture = openWorkers();

    const { status, body } = await fixture.callRoute("commandWorker", order({ type: "drain" }));
    await fixture.callRoute("commandWorker", order({ type: "drain" }, { params: { workerName: "w-2" } }));

    expect([status, body["workerName"]]).toEqual([202, "press"]);
    expect(commandsOf(fixture, "worker.drain")).toMatchObject([
      { worker: "default/w-1", on: true, by: "ann" },
      { worker: "default/w-2", on: true },
    ]);
    const { body: detail } = await fixture.callRoute("getCommand", { params: { commandId: String(body["commandId"]) } });
    expect(
      createSchemaReader(routes.getCommand.response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(
        detail,
      ),
    ).toEqual(detail);
    expect(detail).toMatchObject({ type: "drain", status: "acked", workerId: "w-1", request: { type: "drain" } });
  });

  it("[A121] a command installs a package, at the newest known version where none is named, or uninstalls it", async () => {
    const fixture = openWorkers();
    for (const version of ["1.9.0", "1.10.0", "1.2.0"])
      fixture.docs.write({ tenant: "default", puts: [{ collection: "package", name: `demo/${version}`, body: "{}" }] });

    const sha256 = "a".repeat(64);
    const url = "https://x.test/newest.cwx";
    await fixture.callRoute("commandWorker", order({ type: "pkg.install", name: "demo", url }));
    await fixture.callRoute(
      "commandWorker",
      order({ type: "pkg.install", name: "demo", version: "1.2.0", url: "https://x.test/y.cwx", sha256 }),
    );
    await fixture.callRoute("commandWorker", order({ type: "pkg.uninstall", name: "demo" }));

    expect(commandsOf(fixture, "worker.order").map((one) => (one as { order: object }).order)).toEqual([
      { type: "pkg.install", name: "demo", version: "1.10.0", url },
      { type: "pkg.install", name: "demo", version: "1.2.0", url: "https://x.test/y.cwx", sha256 },
      { type: "pkg.uninstall", name: "demo", version: null },
    ]);
    const unknown = await fixture.callRoute("commandWorker", order({ type: "pkg.install", name: "other", url }));
    expect(unknown.body).toMatchObject({ error: "E.NOT_FOUND", details: { path: "body.version" } });
  });

  it("[A402] an install command without a URL for a package that is not published here is refused with a sentence that asks for one, and reaches no worker", async () => {
    const fixture = openWorkers();
    fixture.docs.write({ tenant: "default", puts: [{ collection: "package", name: "demo/1.0.0", body: "{}" }] });

    for (const version of [{}, { version: "1.0.0" }]) {
      const refused = await fixture.callRoute("commandWorker", order({ type: "pkg.install", name: "demo", ...version }));

      expect(refused).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID", details: { path: "body.url" } } });
      expect(refused.body.message).toContain("published here; publish it, or name the https address of its archive");
    }
    expect(commandsOf(fixture, "worker.order")).toEqual([]);
  });

  it("[A650] an install command for an address that is no public https address is refused and audited, and reaches no worker", async () => {
    const fixture = openWorkers();
    const addresses = [
      "http://x.test/p.zip",
      "file:///etc/passwd",
      "https://0x7f.1/p.zip",
      "https://x.test@10.0.0.1/p?sig=hidden",
    ];

    for (const url of addresses) {
      const refused = await fixture.callRoute("commandWorker", order({ type: "pkg.install", name: "demo", version: "1", url }));

      expect(refused).toMatchObject({ status: 403, body: { error: "E.PKG.PERMISSION", details: { path: "body.url" } } });
      expect(refused.body.message).toContain("--package-origin");
    }
    expect(commandsOf(fixture, "worker.order")).toEqual([]);
    const audits = commandsOf(fixture, "docs.write").map((one) => (one as { audit?: object }).audit);
    expect(audits).toEqual(addresses.map(() => expect.objectContaining({ action: "pkg.install", outcome: "E.PKG.PERMISSION" })));
    expect(JSON.stringify(audits)).not.toContain("hidden");
  });

  it("[A650] an install command for an origin that the configuration allows is sent", async () => {
    const fixture = openWorkers({ packageOrigins: ["http://10.0.0.1:8000", "file:"] });

    for (const url of ["http://10.0.0.1:8000/p.zip", "file:///srv/p.zip"])
      expect(
        await fixture.callRoute("commandWorker", order({ type: "pkg.install", name: "demo", version: "1", url })),
      ).toMatchObject({ status: 202 });

    expect(commandsOf(fixture, "worker.order")).toHaveLength(2);
  });

  it("[A121] a command to a worker without a session is refused with E.SESSION.UNKNOWN", async () => {
    const fixture = openWorkers();
    fixture.docs.engine.answerWith("worker.order", () => ({
      fault: { code: "E.SESSION.UNKNOWN", message: "worker press is away" },
    }));

    const { status, body } = await fixture.callRoute("commandWorker", order({ type: "pkg.uninstall", name: "demo" }));

    expect([status, body["error"]]).toEqual([404, "E.SESSION.UNKNOWN"]);
  });

  it("[A122] a rebind command moves the further tasks of a worker's runs to the worker of another queue", async () => {
    const fixture = openWorkers();

    const { status, body } = await fixture.callRoute("commandWorker", order({ type: "rebind", queue: "worker.w-2" }));

    expect(status).toBe(202);
    expect(commandsOf(fixture, "run.rebind")).toMatchObject([
      { run: "r1", node: "r1.3", worker: "default/w-2", mode: "drain" },
      { run: "r2", node: "r2.0", worker: "default/w-2", mode: "drain" },
    ]);
    const id = String(body["commandId"]);
    expect((await fixture.callRoute("getCommand", { params: { commandId: id } })).body).toMatchObject({
      status: "acked",
      result: { attempts: 2 },
    });
  });

  it("[A122] a rebind command names the tasks that could not be moved, and changes nothing for the worker's own queue", async () => {
    const fixture = openWorkers();
    fixture.docs.engine.answerWith("run.rebind", ({ run }) =>
      run === "r1" ? { fault: { code: "E.RUN.TERMINAL", message: "x" } } : { body: { of: "steered", run, tasks: [] } },
    );

    const { body } = await fixture.callRoute("commandWorker", order({ type: "rebind", queue: "worker.w-2" }));
    const own = await fixture.callRoute("commandWorker", order({ type: "rebind", queue: "worker.w-1" }));

    const id = String(body["commandId"]);
    expect((await fixture.callRoute("getCommand", { params: { commandId: id } })).body).toMatchObject({
      status: "failed",
      result: { attempts: 2, refused: [{ task: "r1.3", code: "E.RUN.TERMINAL" }] },
      error: { code: "E.RUN.TERMINAL", message: "1 of 2 attempts could not be moved from worker press to spare" },
    });
    expect([own.status, commandsOf(fixture, "run.rebind").length]).toEqual([202, 2]);
  });

  it.each(["worker.w-9", "worker.nobody", "default", "w-2"])(
    "[A122] a rebind command to the queue %s, which belongs to no worker of the tenant, is refused",
    async (queue) => {
      const fixture = openWorkers();

      const { status, body } = await fixture.callRoute("commandWorker", order({ type: "rebind", queue }));

      expect([status, body["error"], body["details"]]).toEqual([404, "E.NOT_FOUND", { path: "body.queue" }]);
      expect(fixture.docs.docs.size).toBe(0);
      const words = { by: "ann", target: "w-1", targetType: "worker", queue };
      expect(fixture.docs.log.map(({ type, data }) => [type, data])).toMatchObject([["audit.worker.rebind", words]]);
    },
  );

  it("[A123] equal command requests under one Idempotency-Key are one command", async () => {
    const fixture = openWorkers();
    const keyed = { headers: { "idempotency-key": "k1" } };

    const one = await fixture.callRoute("commandWorker", order({ type: "drain" }, keyed));
    const two = await fixture.callRoute("commandWorker", order({ type: "drain" }, keyed));
    const other = await fixture.callRoute("commandWorker", order({ type: "pkg.uninstall", name: "demo" }, keyed));

    expect([two.body, two.headers["idempotent-replayed"]]).toEqual([one.body, "true"]);
    expect(commandsOf(fixture, "worker.drain")).toHaveLength(1);
    expect(other.body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
  });

  it("[A350] equal install requests under one Idempotency-Key are one command, though a newer version was added in between", async () => {
    const fixture = openWorkers();
    const keyed = { headers: { "idempotency-key": "k1" } };
    fixture.docs.engine.answerWith("worker.order", ({ tenant, worker, id, order: given }) => {
      const kept = { worker, workerName: "press", order: given, by: "ann", status: "sent", sentAt: 1_000, endedAt: null };
      fixture.docs.write({ tenant, puts: [{ collection: "command", name: id, rev: 0, body: JSON.stringify(kept) }] });
      return { body: { of: "order", id, sent: true } };
    });
    const bring = (version: string) =>
      fixture.docs.write({ tenant: "default", puts: [{ collection: "package", name: `demo/${version}`, body: "{}" }] });
    bring("1.0.0");
    const install = { type: "pkg.install", name: "demo", url: "https://x.test/y.cwx" };
    const one = await fixture.callRoute("commandWorker", order(install, keyed));
    bring("2.0.0");

    const two = await fixture.callRoute("commandWorker", order(install, keyed));
    const other = await fixture.callRoute("commandWorker", order({ ...install, version: "2.0.0" }, keyed));

    expect([two.body, two.headers["idempotent-replayed"]]).toEqual([one.body, "true"]);
    expect(commandsOf(fixture, "worker.order")).toHaveLength(1);
    expect(other.body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
  });

  it("[E122] a command is shown without the credentials in the URL of its package", async () => {
    const fixture = openWorkers();
    const order = { type: "pkg.install", name: "demo", version: "1.0.0", url: "https://bob:hidden@x.test/p.zip?sig=hidden" };
    const body = { worker: "default/w-1", workerName: "press", order, by: "ann", status: "sent", sentAt: 1_000, endedAt: null };
    fixture.docs.write({ tenant: "default", puts: [{ collection: "command", name: "c1", body: JSON.stringify(body) }] });

    const shown = await fixture.callRoute("getCommand", { params: { commandId: "c1" } });

    expect(shown.body).toMatchObject({ request: { ...order, url: "https://x.test/p.zip" } });
  });

  it("[A123] a command is shown as the engine stored it", async () => {
    const fixture = openWorkers();
    const body = {
      worker: "default/w-1",
      workerName: "press",
      order: { type: "pkg.install", name: "demo", version: "1.0.0" },
      by: "ann",
      status: "failed",
      sentAt: 1_000,
      endedAt: 2_000,
      details: { message: "no room" },
    };
    fixture.docs.write({ tenant: "default", puts: [{ collection: "command", name: "c1", body: JSON.stringify(body) }] });

    expect((await fixture.callRoute("getCommand", { params: { commandId: "c1" } })).body).toEqual({
      commandId: "c1",
      workerName: "press",
      workerId: "w-1",
      type: "pkg.install",
      status: "failed",
      acceptedAt: "1970-01-01T00:00:01.000Z",
      finishedAt: "1970-01-01T00:00:02.000Z",
      request: body.order,
      result: body.details,
      asOf: 0,
    });
  });
});

describe("orders about a worker under an Idempotency-Key", () => {
  const keyed = { headers: { "idempotency-key": "k1" }, params: { workerId: "w-1" } };

  it.each([
    ["kickWorker", "worker.kick"],
    ["drainWorker", "worker.drain"],
    ["undrainWorker", "worker.drain"],
  ] as const)(
    "[A261] the order %s is executed once under an Idempotency-Key, and its command id is found again",
    async (name, type) => {
      const fixture = openWorkers();

      const one = await fixture.callRoute(name, keyed);
      const two = await fixture.callRoute(name, keyed);

      expect([one.status, one.headers["idempotent-replayed"], two.status, two.headers["idempotent-replayed"]]).toEqual([
        202,
        undefined,
        202,
        "true",
      ]);
      expect(two.body).toMatchObject({ commandId: one.body["commandId"], workerName: "press" });
      expect(one.headers["location"]).toBe(`/api/v1/commands/${String(one.body["commandId"])}`);
      expect(commandsOf(fixture, type)).toHaveLength(1);
      const found = await fixture.callRoute("getCommand", { params: { commandId: String(one.body["commandId"]) } });
      expect(found.body).toMatchObject({ status: "acked", workerId: "w-1" });
    },
  );

  it("[A261] a different order under a used Idempotency-Key is refused, and of two equal orders at once only one is executed", async () => {
    const fixture = openWorkers();
    const first = await fixture.callRoute("kickWorker", keyed);
    for (const [name, more] of [
      ["drainWorker", {}],
      ["kickWorker", { body: { reason: "another" } }],
      ["kickWorker", { params: { workerId: "w-2" } }],
    ] as const)
      expect((await fixture.callRoute(name, { ...keyed, ...more })).body).toMatchObject({ error: "E.IDEMPOTENCY.MISMATCH" });
    expect(commandsOf(fixture, "worker.kick")).toHaveLength(1);

    // The other is quicker: by the time this one is decided, the command is there.
    const [kept] = [...fixture.docs.docs.values()];
    fixture.docs.docs.clear();
    fixture.docs.engine.answerWith("worker.kick", () => {
      if (kept !== undefined) fixture.docs.docs.set(kept.id, kept);
      return { fault: { code: "E.CONFLICT", message: "exists" } };
    });
    const second = await fixture.callRoute("kickWorker", keyed);
    expect([second.status, second.body["commandId"]]).toEqual([202, first.body["commandId"]]);
  });

  it("[A265] a repeated enrolment under an Idempotency-Key is answered as the first time, and marked as a repeat", async () => {
    const fixture = openWorkers();
    fixture.docs.engine.answerWith("worker.enrol", ({ worker }) => ({
      body: { of: "enrolled", worker, heartbeatMs: 10_000, isOnline: false, repeated: true },
    }));
    const body = { workerId: "w-7", name: "new press" };

    const response = await fixture.callRoute("enrolWorker", { body, headers: { ...headers, "idempotency-key": "k1" } });
    await fixture.callRoute("enrolWorker", {
      body: { ...body, name: "other" },
      headers: { ...headers, "idempotency-key": "k1" },
    });
    await fixture.callRoute("enrolWorker", { body, headers });

    expect([response.status, response.headers["idempotent-replayed"]]).toEqual([200, "true"]);
    const asks = commandsOf(fixture, "worker.enrol").map((one) => (one as { ask?: { key: string; digest: string } | null }).ask);
    expect(asks).toEqual([{ key: "k1", digest: expect.any(String) }, { key: "k1", digest: expect.any(String) }, null]);
    expect(asks[0]?.digest).not.toBe(asks[1]?.digest);
  });
});

describe("wrong input about enrolment and commands", () => {
  const cases: [RouteName, RestCallInput, number, string][] = [
    ["enrolWorker", { body: {} }, 400, "E.REQUEST.INVALID"],
    ["enrolWorker", { body: { workerId: "" } }, 400, "E.REQUEST.INVALID"],
    ["enrolWorker", { body: { workerId: "w", packages: [{ name: "x" }] } }, 400, "E.REQUEST.INVALID"],
    ["enrolWorker", { body: { workerId: "w", capabilities: { concurrency: { maxParallel: 0 } } } }, 400, "E.REQUEST.INVALID"],
    ["enrolWorker", { body: "[]" }, 400, "E.REQUEST.INVALID"],
    ["enrolWorker", { body: { workerId: "w" }, token: "viewer" }, 403, "E.AUTH.FORBIDDEN"],
    ["signWorker", { body: { status: "ok" } }, 400, "E.REQUEST.INVALID"],
    ["signWorker", { body: { workerId: "w", packages: {} } }, 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({}), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "reboot" }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "drain", queue: "x" }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "rebind" }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "pkg.install" }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "pkg.install", name: "../x", version: "1" }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "pkg.install", name: "x", version: "1", url: "javascript:1" }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "pkg.install", name: "x", version: "1", sha256: "zz" }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order(null), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "drain" }, { headers: { "idempotency-key": "" } }), 400, "E.REQUEST.INVALID"],
    ["commandWorker", order({ type: "drain" }, { params: { workerName: "nobody" } }), 404, "E.NOT_FOUND"],
    ["commandWorker", order({ type: "drain" }, { token: "viewer" }), 403, "E.AUTH.FORBIDDEN"],
    ["getCommand", { params: { commandId: "nothing" } }, 404, "E.NOT_FOUND"],
  ];

  it.each(cases)(
    "[A124] the enrolment or command route %s refuses the request %j with %i",
    async (name, asking, status, error) => {
      const fixture = openWorkers();

      const answer = await fixture.callRoute(name, asking);

      expect([answer.status, answer.body["error"]]).toEqual([status, error]);
      expect(fixture.docs.engine.commands).toEqual([]);
    },
  );

  it("[A124] the command routes answer another tenant's worker and command as missing", async () => {
    const fixture = openWorkers();
    const { body } = await fixture.callRoute("commandWorker", order({ type: "drain" }));
    const id = String(body["commandId"]);
    const foreign = { token: "secret-b" };

    for (const workerName of ["press", "w-1"])
      expect(
        (await fixture.callRoute("commandWorker", order({ type: "drain" }, { ...foreign, params: { workerName } }))).body,
      ).toMatchObject({
        error: "E.NOT_FOUND",
        message: `there is no worker ${workerName}`,
      });
    expect((await fixture.callRoute("getCommand", { ...foreign, params: { commandId: id } })).body).toMatchObject({
      message: `there is no command ${id}`,
    });
  });
});
