import { buildOpenapiDocument } from "@astraflow/protocol";
import { createFakeReader, nodeIds, runRow, sampleChain, taskRow, workerRow } from "@astraflow/services/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";

const rows = {
  runs: [
    runRow("r1", { phase: "succeeded", endedAt: 9_000 }),
    runRow("r2", { phase: "ending", client: "c2" }),
    runRow("r3", { error: '{"code":"E.TIMEOUT","message":"late"}' }),
    runRow("r4", { phase: "queued", startedAt: null }),
    runRow("x1", { tenant: "other", workflow: "other/abc" }),
  ],
  tasks: [
    taskRow("r3.0", {
      phase: "succeeded",
      worker: "default/w-1",
      fence: 70,
      attempt: 1,
      acked: true,
      grantedAt: 3_000,
      endedAt: 4_000,
      result: '{"text":"HI"}',
    }),
    taskRow("r3.1", { phase: "leased", worker: "default/w-gone", fence: 71, attempt: 2, grantedAt: 5_000 }),
  ],
  workers: [workerRow("w-1"), workerRow("w-2", { draining: true, phase: "away" }), workerRow("w-9", { tenant: "other" })],
  log: [
    { tenant: "default", position: 1, at: 1_000, subject: "run/r3" as const, type: "run.started", data: {} },
    { tenant: "default", position: 2, at: 2_000, subject: "run/r1" as const, type: "run.started", data: {} },
    { tenant: "default", position: 3, at: 3_000, subject: "run/r3" as const, type: "task.granted", data: { task: "r3.0" } },
    { tenant: "other", position: 1, at: 3_000, subject: "run/x1" as const, type: "run.started", data: {} },
  ],
};

describe("the API of runs", () => {
  let fixture: DoorsFixture;
  beforeEach(async () => {
    fixture = await openDoorsFixture({ reader: createFakeReader(rows) });
  });
  afterEach(() => fixture.stop());

  const call = (path: string, init: RequestInit & { token?: string } = {}) =>
    fetch(`${fixture.http}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${init.token ?? "secret-a"}`, ...init.headers },
    });
  const get = async (path: string, token?: string) => {
    const response = await call(path, token === undefined ? {} : { token });
    return { status: response.status, headers: response.headers, body: JSON.parse(await response.text()) };
  };
  const start = async (body: unknown, headers: Record<string, string> = {}) => {
    const response = await call("/api/v1/runs", {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
      headers: { "content-type": "application/json", ...headers },
    });
    return { status: response.status, headers: response.headers, body: JSON.parse(await response.text()) };
  };

  it("[A2] POST /runs answers 202 after the engine's answer, and starts the run from the canonical text of the workflow", async () => {
    fixture.engine.holdAnswers("run.start");
    let isAnswered = false;
    const starting = start({ workflow: { ...sampleChain, tgas: ["x"] }, clientId: "me", priority: 2, timeoutMs: 5_000 }).then(
      (answer) => {
        isAnswered = true;
        return answer;
      },
    );
    const command = await fixture.engine.nextCommand("run.start");
    expect(isAnswered).toBe(false);
    fixture.engine.releaseAnswers("run.start");

    const { status, body } = await starting;
    expect(status).toBe(202);
    expect(body).toEqual({
      runId: "r1",
      status: "queued",
      definitionHash: command.digest,
      clientId: "me",
      createdAt: "1970-01-01T00:00:00.000Z",
      problems: expect.arrayContaining([
        expect.objectContaining({
          severity: "warning",
          path: "/tgas",
          message: expect.stringContaining("did you mean tags?"),
        }),
      ]),
    });
    expect(command).toMatchObject({ tenant: "default", by: "ann", client: "me", priority: 2, timeoutMs: 5_000, ask: null });
    expect(JSON.parse(command.body)).toEqual({ ...sampleChain, tgas: ["x"] });
  });

  it("[A3] POST /runs passes key and digest of the whole request to the engine: equal requests have equal digests, others do not", async () => {
    const request = { workflow: sampleChain, clientId: "me" };
    const asks = [];
    for (const body of [
      request,
      { clientId: "me", workflow: { ...sampleChain } },
      { ...request, priority: 5 },
      { ...request, clientId: "you!" },
    ]) {
      await start(body, { "idempotency-key": "key-1" });
      asks.push((await fixture.engine.nextCommand("run.start")).ask);
    }

    expect(asks[0]).toMatchObject({ key: "key-1" });
    expect(asks[1]).toEqual(asks[0]);
    expect(asks[2]).toEqual(asks[0]);
    expect(asks[3]?.digest).not.toBe(asks[0]?.digest);
  });

  it("[A3] POST /runs marks the answer to a repeated request, and passes on the refusal of another request under the same key", async () => {
    fixture.engine.answerWith("run.start", () => ({
      body: { of: "run", run: "r7", phase: "running", workflow: "default/d", client: "me", createdAt: 0, repeated: true },
    }));
    const repeat = await start({ workflow: sampleChain, clientId: "me" }, { "idempotency-key": "k" });
    expect([repeat.status, repeat.body.runId, repeat.headers.get("idempotent-replayed")]).toEqual([202, "r7", "true"]);

    fixture.engine.answerWith("run.start", () => ({ fault: { code: "E.IDEMPOTENCY.MISMATCH", message: "the key was used" } }));
    const other = await start({ workflow: sampleChain, clientId: "me" }, { "idempotency-key": "k" });
    expect([other.status, other.body.error]).toEqual([409, "E.IDEMPOTENCY.MISMATCH"]);
  });

  it("[A3] POST /runs refuses an Idempotency-Key that is too long or contains whitespace, before it asks the engine", async () => {
    for (const key of ["k".repeat(65), "with blank", "tab\tbed"])
      expect((await start({ workflow: sampleChain, clientId: "me" }, { "idempotency-key": key })).body).toMatchObject({
        error: "E.REQUEST.INVALID",
        details: { path: "headers.Idempotency-Key" },
      });
    expect((await start({ workflow: sampleChain, clientId: "me" }, { "idempotency-key": "k".repeat(64) })).status).toBe(202);
    expect(fixture.engine.commands).toHaveLength(1);
  });

  const edge = (source: number, target: number) => ({
    id: `back${source}`,
    source: { node: nodeIds[source], port: "out" },
    target: { node: nodeIds[target], port: "in" },
  });
  const refused: readonly (readonly [what: string, body: unknown, status: number, code: string])[] = [
    ["no JSON", "{", 400, "E.REQUEST.INVALID"],
    ["nothing", "", 400, "E.REQUEST.INVALID"],
    ["a byte order mark", "\ufeff{}", 400, "E.REQUEST.INVALID"],
    ["a key twice", '{"clientId":"a","clientId":"b"}', 400, "E.REQUEST.INVALID"],
    ["depth without end", "[".repeat(100_000), 413, "E.REQUEST.TOO_LARGE"],
    ["no clientId", { workflow: sampleChain }, 400, "E.REQUEST.INVALID"],
    ["a priority out of range", { workflow: sampleChain, clientId: "c", priority: 10 }, 400, "E.REQUEST.INVALID"],
    ["a workflow without nodes", { workflow: { ...sampleChain, nodes: [] }, clientId: "c" }, 400, "E.WORKFLOW.INVALID"],
    [
      "a cycle",
      { workflow: { ...sampleChain, edges: [...sampleChain.edges, edge(2, 0)] }, clientId: "c" },
      400,
      "E.WORKFLOW.INVALID",
    ],
    [
      "a container without a subgraph",
      { workflow: { ...sampleChain, nodes: sampleChain.nodes.map((node) => ({ ...node, role: "container" })) }, clientId: "c" },
      400,
      "E.WORKFLOW.INVALID",
    ],
  ];
  for (const [what, body, status, code] of refused)
    it(`[A4] POST /runs refuses ${what} with ${status} ${code}, and the engine receives nothing`, async () => {
      const answer = await start(body);

      expect([answer.status, answer.body.error]).toEqual([status, code]);
      expect(answer.body).toMatchObject({ message: expect.any(String), requestId: expect.any(String) });
      expect(fixture.engine.commands).toEqual([]);
    });

  it("[A4] POST /runs names every problem of an invalid workflow in the error details", async () => {
    const broken = { ...sampleChain, edges: [...sampleChain.edges, edge(2, 0), { ...edge(0, 1), id: "e0" }] };

    const { body } = await start({ workflow: broken, clientId: "c" });

    expect(body.details.total).toBe(2);
    expect(body.details.problems.map((problem: { path: string }) => problem.path)).toEqual(["/edges/3/id", "/edges"]);
  });

  it("[A5] GET /runs lists runs newest first in pages, each with the log position that it is true at", async () => {
    const first = await get("/api/v1/runs?limit=3");
    expect(first.body.items.map((run: { runId: string }) => run.runId)).toEqual(["r4", "r3", "r2"]);
    expect(first.body.asOf).toBe(4);

    const second = await get(`/api/v1/runs?limit=3&cursor=${first.body.nextCursor}`);
    expect(second.body.items.map((run: { runId: string }) => run.runId)).toEqual(["r1"]);
    expect(second.body.nextCursor).toBeNull();
  });

  it("[A5] GET /runs filters by client and by status; running includes runs that are ending", async () => {
    const ids = async (query: string) =>
      (await get(`/api/v1/runs?${query}`)).body.items.map((run: { runId: string }) => run.runId);

    expect(await ids("clientId=c2")).toEqual(["r2"]);
    expect(await ids("status=queued")).toEqual(["r4"]);
    expect(await ids("status=running")).toEqual(["r3", "r2"]);
    const page = await get("/api/v1/runs?status=running&limit=1");
    expect(page.body).toMatchObject({ items: [{ runId: "r3", status: "running" }] });
    expect(await ids(`status=running&limit=1&cursor=${page.body.nextCursor}`)).toEqual(["r2"]);
  });

  for (const query of ["limit=0", "limit=201", "limit=x", "limit=1&limit=2", "status=ending", "colour=red", "token=secret-a"])
    it(`[A5] GET /runs refuses the query ${query.replace("secret-a", "…")} without repeating it`, async () => {
      const { status, body } = await get(`/api/v1/runs?${query}`);

      expect([status, body.error]).toEqual([400, "E.REQUEST.INVALID"]);
      expect(JSON.stringify(body)).not.toMatch(/secret-a|colour/);
    });

  it("[A6] GET /runs/{id} shows a run with every node of its definition, and nodes not yet reached as queued", async () => {
    const { body } = await get("/api/v1/runs/r3");

    expect(body).toMatchObject({ runId: "r3", status: "running", definitionHash: "abc", error: { code: "E.TIMEOUT" }, asOf: 4 });
    expect(body.nodes).toHaveLength(3);
    expect(body.nodes[0]).toMatchObject({
      nodeId: nodeIds[0],
      taskId: "r3.0",
      status: "succeeded",
      workerName: "name of w-1",
      attempt: 1,
      fence: 70,
      dispatchId: "r3.0#70",
      pendingAck: false,
      result: { text: "HI" },
      startedAt: "1970-01-01T00:00:03.000Z",
      finishedAt: "1970-01-01T00:00:04.000Z",
    });
    expect(body.nodes[1]).toMatchObject({
      status: "running",
      pendingAck: true,
      ackDeadline: "1970-01-01T00:00:10.000Z",
      workerName: "w-gone",
      attempt: 2,
    });
    expect(body.nodes[2]).toMatchObject({ nodeId: nodeIds[2], taskId: "r3.2", status: "queued" });
    expect(body.nodes[2].state).toEqual({ stage: "waiting" });
  });

  it("[A6] GET /runs/{id}/definition shows the definition as the run executes it, with node states and an ETag", async () => {
    const { headers, body } = await get("/api/v1/runs/r3/definition");

    expect(headers.get("etag")).toBe('W/"sha256:abc"');
    expect(body.nodes.map((node: { state: { stage: string } }) => node.state.stage)).toEqual(["succeeded", "running", "waiting"]);
    expect(body.edges).toEqual(sampleChain.edges);
  });

  it("[A7] POST /runs/{id}/cancel answers 202 after the engine's answer, and passes on the engine's refusal", async () => {
    const done = await call("/api/v1/runs/r3/cancel", { method: "POST" });
    expect([done.status, await done.json()]).toEqual([202, expect.objectContaining({ runId: "r3", status: "running" })]);
    expect(await fixture.engine.nextCommand("run.cancel")).toMatchObject({ tenant: "default", by: "ann", run: "r3" });

    fixture.engine.answerWith("run.cancel", () => ({ fault: { code: "E.RUN.TERMINAL", message: "run r1 is succeeded" } }));
    const late = await call("/api/v1/runs/r1/cancel", { method: "POST" });
    expect([late.status, await late.json()]).toEqual([409, expect.objectContaining({ error: "E.RUN.TERMINAL" })]);
  });

  it("[A8] GET /runs/{id}/events pages through the facts of one run by a cursor that can always be used again", async () => {
    const first = await get("/api/v1/runs/r3/events?limit=1");
    expect(first.body).toEqual({
      items: [{ position: 1, type: "run.started", at: "1970-01-01T00:00:01.000Z", runId: "r3", data: {} }],
      nextCursor: "1",
      asOf: 4,
    });
    const second = await get("/api/v1/runs/r3/events?cursor=1");
    expect(second.body.items).toMatchObject([{ position: 3, data: { task: "r3.0" } }]);
    const last = await get(`/api/v1/runs/r3/events?cursor=${second.body.nextCursor}`);
    expect(last.body).toEqual({ items: [], nextCursor: "3", asOf: 4 });
    expect((await get("/api/v1/runs/r3/events?cursor=-1")).body.error).toBe("E.REQUEST.INVALID");
  });

  it("[A8] GET /runs/{id}/events answers a cursor below the log's floor with 410 and the position to continue from", async () => {
    const trimmed = await openDoorsFixture({ reader: createFakeReader({ ...rows, floor: 2 }) });
    const ask = async (query: string) => {
      const response = await fetch(`${trimmed.http}/api/v1/runs/r3/events${query}`, {
        headers: { authorization: "Bearer secret-a" },
      });
      return { status: response.status, body: JSON.parse(await response.text()) };
    };

    expect(await ask("?cursor=1")).toMatchObject({
      status: 410,
      body: { error: "E.CURSOR.EXPIRED", details: { floor: 2, head: 4 } },
    });
    expect((await ask("?cursor=2")).status).toBe(200);
    expect((await ask("")).status).toBe(200);
    await trimmed.stop();
  });

  it("[A9] every run route answers another tenant's run exactly as one that does not exist", async () => {
    fixture.engine.answerWith("run.cancel", ({ run }) => ({
      fault: { code: "E.NOT_FOUND", message: `run ${run} does not exist`, details: { run } },
    }));
    const paths = ["", "/definition", "/events", "/cancel"];
    const shape = async (id: string, path: string) => {
      const response = await call(`/api/v1/runs/${id}${path}`, { method: path === "/cancel" ? "POST" : "GET" });
      const body = JSON.parse(await response.text()) as Record<string, unknown>;
      return JSON.stringify({ status: response.status, ...body, requestId: "" }).replaceAll(id, "ID");
    };

    const missing = JSON.stringify({ status: 404, error: "E.NOT_FOUND", message: "there is no run ID", requestId: "" });
    for (const path of paths) for (const id of ["nothing", "x1"]) expect(await shape(id, path)).toBe(missing);
    expect((await get("/api/v1/runs", "secret-b")).body.items.map((run: { runId: string }) => run.runId)).toEqual(["x1"]);
    expect((await get("/api/v1/runs/r3", "secret-b")).status).toBe(404);
  });

  it("[A10] GET /workers lists the workers of the tenant in pages", async () => {
    const { body } = await get("/api/v1/workers");
    expect(body.items.map((worker: { instanceId: string }) => worker.instanceId)).toEqual(["w-1", "w-2"]);
    expect(body.items[0]).toMatchObject({
      id: "name of w-1",
      connected: true,
      draining: false,
      lastHeartbeatAt: "1970-01-01T00:00:03.000Z",
      packages: [{ name: "demo", version: "1.0.0", status: "installed" }],
      capabilities: {
        concurrency: { maxParallel: 4 },
        runtimes: ["node"],
        features: ["fence"],
        pool: "default",
        tags: { zone: "a" },
      },
    });
    expect(body.items[1]).toMatchObject({ connected: false, draining: true });

    const first = await get("/api/v1/workers?limit=1");
    expect((await get(`/api/v1/workers?limit=1&cursor=${first.body.nextCursor}`)).body).toMatchObject({
      items: [{ instanceId: "w-2" }],
      nextCursor: null,
    });
  });

  it("[A348] a list route refuses a cursor that is damaged or belongs to another list", async () => {
    const { nextCursor } = (await get("/api/v1/workers?limit=1")).body;

    for (const path of ["runs", "runs/r3/nodes", "runs/r3/artifacts"])
      for (const cursor of ["garbage", "r3", nextCursor])
        expect((await get(`/api/v1/${path}?cursor=${cursor}`)).body).toMatchObject({
          error: "E.CURSOR.UNKNOWN",
          details: { path: "query.cursor" },
        });
    expect((await get("/api/v1/workers?cursor=w-1")).status).toBe(404);
    for (const path of [
      "runs?cursor=r.3",
      "runs?cursor=",
      "workers?cursor=%2B",
      "runs/r3/events?cursor=garbage",
      "audit?cursor=r3",
    ])
      expect((await get(`/api/v1/${path}`)).body).toMatchObject({
        error: "E.REQUEST.INVALID",
        details: { path: "query.cursor" },
      });
  });

  it("[A10] the drain and undrain routes drain and undrain a worker of the caller's tenant by its instance id", async () => {
    for (const [path, on] of [
      ["drain", true],
      ["undrain", false],
    ] as const) {
      const response = await call(`/api/v1/workers/w-1/${path}`, { method: "POST" });
      expect([response.status, JSON.parse(await response.text())]).toEqual([
        202,
        expect.objectContaining({ workerName: "name of w-1", commandId: expect.any(String) }),
      ]);
      expect(await fixture.engine.nextCommand("worker.drain")).toEqual({
        type: "worker.drain",
        tenant: "default",
        corr: expect.any(String),
        command: expect.any(String),
        by: "ann",
        worker: "default/w-1",
        on,
      });
    }

    fixture.engine.answerWith("worker.drain", () => ({
      fault: { code: "E.NOT_FOUND", message: "internal words about default/w-9" },
    }));
    const missing = await call("/api/v1/workers/w-9/drain", { method: "POST" });
    expect([missing.status, JSON.parse(await missing.text()).message]).toEqual([404, "there is no worker w-9"]);
  });

  it("[A11] GET /openapi.json serves the OpenAPI document of the same route table", async () => {
    const response = await fetch(`${fixture.http}/api/v1/openapi.json`);

    expect(JSON.parse(await response.text())).toEqual(JSON.parse(JSON.stringify(buildOpenapiDocument())));
  });
});
