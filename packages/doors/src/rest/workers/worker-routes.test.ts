import type { TaskRow, WorkerRow } from "@astraflow/engine";
import { sampleGauge } from "@astraflow/engine/testing";
import { createSchemaReader, type RouteName, routes } from "@astraflow/protocol";
import {
  createFakeEngine,
  createFakeEnvironment,
  createFakeReader,
  nodeIds,
  runRow,
  sampleDigest,
  taskRow,
  workerRow,
} from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { sampleTokens } from "../../testing/doors-fixture.ts";
import { RestApi, type RestApiOptions } from "../rest-api.ts";

/** The store's time in these tests; the workers of the rows last reported at 3,000. */
const storeNow = 4_000;

function openCalls(workers: readonly WorkerRow[], tasks: readonly TaskRow[] = [], more: Partial<RestApiOptions> = {}) {
  const engine = createFakeEngine();
  const environment = createFakeEnvironment();
  const reader = createFakeReader({ runs: [runRow("r1"), runRow("x1", { tenant: "other" })], tasks, workers, log: [] });
  const calls = new RestApi({
    engineClient: engine.client,
    authenticate: sampleTokens,
    environment,
    metrics: createMetricsRegistry(),
    reader,
    digest: sampleDigest,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => sampleGauge({ now: storeNow }),
    ...more,
  });
  const ask = async (name: RouteName, workerId = "w-1", body: object | null = null, token = "secret-a") => {
    const answer = await calls.handle(name, {
      token,
      params: { workerId },
      query: {},
      headers: { "content-type": "application/json" },
      body: body === null ? null : Buffer.from(JSON.stringify(body)),
    });
    return { status: answer.status, body: JSON.parse(answer.body) };
  };
  return { ask, engine, outside: environment, reader };
}

const condition = (more: object): string => JSON.stringify({ healthy: true, beatAt: 3_500, ...more });
const busy = condition({
  strain: "memory",
  saturatedAt: 2_000,
  vitals: {
    metrics: { cpu_pct: 12.5, mem_pct: 93, disk_pct: 40, inflight: 4, outbox: 3, gpu: 7, note: "text" },
    packages: { drift: true },
  },
});
/** The body, unless the route's own schema has something against it or does not know a part of it. */
const fitting = (name: "listWorkers" | "getWorkerDiagnostics" | "getScaling", body: unknown): unknown =>
  createSchemaReader(routes[name].response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body);

describe("workers as they are", () => {
  it("[A22] GET /workers lists workers with status, liveness, drain reasons, saturation and the metrics of their last heartbeat", async () => {
    const { ask } = openCalls([
      workerRow("w-1", { condition: busy, draining: true }),
      workerRow("w-2", { phase: "away", condition: condition({ strain: "disk", saturatedAt: 1_000 }) }),
      workerRow("w-3", { phase: "lost" }),
      workerRow("w-4", { condition: condition({ healthy: false }) }),
    ]);

    const { body } = await ask("listWorkers");

    const { asOf, ...page } = body;
    expect([asOf, fitting("listWorkers", page)]).toEqual([0, page]);
    const [strained, away, lost, unwell] = body.items;
    expect(strained).toMatchObject({
      status: "online",
      liveness: "fresh",
      draining: true,
      drainedBy: ["operator", "strain"],
      strain: "memory",
      saturated: true,
      saturatedSince: "1970-01-01T00:00:02.000Z",
      lastHeartbeatAt: "1970-01-01T00:00:03.500Z",
      heartbeat: {
        healthy: true,
        metrics: { cpuPct: 12.5, memPct: 93, diskPct: 40, inflight: 4, outbox: 3, gpu: 7 },
        packages: { drift: true },
      },
    });
    expect(strained.heartbeat.metrics).not.toHaveProperty("note");
    // A worker that is not connected has no strain and no saturation of now.
    expect(away).toMatchObject({ status: "away", connected: false, registered: true, draining: false, saturated: false });
    expect(away).not.toHaveProperty("liveness");
    expect(lost).toMatchObject({ status: "lost", connected: false, registered: false });
    expect(unwell).toMatchObject({ status: "online", draining: false, heartbeat: { healthy: false } });
  });

  it("[A630] a worker that has left is shown as left in lists, diagnostics and the scaling signal, from the moment it closed its session", async () => {
    const hasLeft = condition({ hasLeft: true });
    const { ask } = openCalls([
      workerRow("w-0", { phase: "away", condition: hasLeft }),
      workerRow("w-1", { phase: "left", condition: hasLeft }),
      workerRow("w-2", { phase: "lost" }),
    ]);

    const { items } = (await ask("listWorkers")).body;
    const { asOf, ...scaling } = (await ask("getScaling")).body;

    expect(items).toMatchObject([
      { status: "left", connected: false, registered: true },
      { status: "left", connected: false, registered: false },
      { status: "lost" },
    ]);
    expect((await ask("getWorkerDiagnostics")).body).toMatchObject({ worker: { status: "left" }, session: { phase: "left" } });
    expect([asOf, scaling.workers]).toEqual([0, { online: 0, away: 0, lost: 1, left: 2, saturated: 0, draining: 0 }]);
  });

  it.each([
    [0, "fresh"],
    [999, "fresh"],
    [1_000, "warn"],
    [2_500, "degraded"],
    [3_000, "unhealthy"],
  ])("[A22] %i ms after its last message, a worker with a heartbeat period of one second is %s", async (silentMs, level) => {
    const { ask } = openCalls([workerRow("w-1", { seenAt: storeNow - silentMs })], [], { heartbeatMsOf: () => 1_000 });

    expect((await ask("getWorker")).body).toMatchObject({ liveness: level });
    expect((await ask("getWorkerDiagnostics")).body.liveness).toEqual({ level, silentMs, heartbeatMs: 1_000 });
  });

  it("[A22] the liveness of a worker is judged by the heartbeat period of its dialect", async () => {
    const about = (dialect: string) => ({ about: JSON.stringify({ slots: 1, dialect }), seenAt: storeNow - 12_000 });
    const { ask } = openCalls([workerRow("new", about("v2")), workerRow("old", about("first"))]);

    expect((await ask("getWorker", "new")).body).toMatchObject({ liveness: "warn" });
    expect((await ask("getWorker", "old")).body).toMatchObject({ liveness: "fresh" });
  });

  it("[A23] the diagnostics of a worker show its session, lease, held attempts, handlers, resources and outbox", async () => {
    const about = {
      slots: 4,
      dialect: "v2",
      packages: [
        { name: "demo", version: "1.0.0", status: "installed" },
        { name: "bare", version: "2.0.0", status: "installed" },
        { name: "broken", version: "3.0.0", status: "failed" },
      ],
      handlers: [{ package: "demo", version: "1.0.0", runtime: "node", nodeType: "demo.noop", capabilities: ["demo"] }],
    };
    const held = { phase: "leased", worker: "default/w-1", fence: 3, attempt: 2, grantedAt: 2_500 } as const;
    const { ask } = openCalls(
      [workerRow("w-1", { condition: busy, about: JSON.stringify(about), due: 33_000 })],
      [
        taskRow("r1.0", { ...held, acked: true }),
        taskRow("r1.1", held),
        taskRow("r1.2", { phase: "ready" }),
        taskRow("gone.0", { ...held, acked: true }),
      ],
    );

    const { status, body } = await ask("getWorkerDiagnostics");

    expect([status, fitting("getWorkerDiagnostics", body)]).toEqual([200, body]);
    expect(body).toMatchObject({
      worker: { instanceId: "w-1", saturated: true },
      session: { phase: "online", dialect: "v2", epoch: 1, replica: "here", leaseUntil: "1970-01-01T00:00:33.000Z" },
      outbox: 3,
      resources: { cpuPct: 12.5, memPct: 93, diskPct: 40, inflight: 4, gpu: 7 },
      hasMoreAttempts: false,
    });
    const since = "1970-01-01T00:00:02.500Z";
    const known = { runId: "r1", nodeType: "demo.noop", fence: 3, attempt: 2, since };
    expect(body.attempts).toEqual([
      { ...known, taskId: "r1.0", nodeId: nodeIds[0], pendingAck: false },
      { ...known, taskId: "r1.1", nodeId: nodeIds[1], pendingAck: true },
      { taskId: "gone.0", runId: "gone", fence: 3, attempt: 2, pendingAck: false, since },
    ]);
    expect(body.handlers).toEqual([
      { package: "demo", version: "1.0.0", runtime: "node", nodeType: "demo.noop", capabilities: ["demo"] },
      { package: "bare", version: "2.0.0" },
    ]);
  });

  it("[A364] a worker's diagnostics show no pending ack for an attempt that has reported since its grant, and name each attempt's node", async () => {
    const held = { phase: "leased", worker: "default/w-1", fence: 3, attempt: 2, grantedAt: 2_500 } as const;
    const feedbackAt = (at: number) => ({ state: JSON.stringify({ said: { at } }) });
    const { ask } = openCalls(
      [workerRow("w-1")],
      [
        taskRow("r1.0", { ...held, ...feedbackAt(2_499) }),
        taskRow("r1.1", { ...held, ...feedbackAt(2_500) }),
        taskRow("r1.1~1", held),
      ],
    );

    const { body } = await ask("getWorkerDiagnostics");

    const shown = body.attempts.map(({ nodeId, pendingAck }: { nodeId: string; pendingAck: boolean }) => [nodeId, pendingAck]);
    expect(shown).toEqual([
      [nodeIds[0], true],
      [nodeIds[1], false],
      [nodeIds[1], true],
    ]);
  });

  it("[A23] the diagnostics of a worker name at most 200 attempts and read at most 8 runs for them", async () => {
    const held = { phase: "leased", worker: "default/w-1" } as const;
    const tasks = Array.from({ length: 250 }, (_, n) => taskRow(`run${n}.0`, held));
    const { ask, reader } = openCalls([workerRow("w-1")], tasks);

    const { body } = await ask("getWorkerDiagnostics");

    expect([body.attempts.length, body.hasMoreAttempts]).toEqual([200, true]);
    expect(reader.queries.filter(({ page }) => page === "run")).toHaveLength(8);
  });

  it("[A22] every worker route answers another tenant's worker as missing, with the same message", async () => {
    const { ask, engine } = openCalls([workerRow("w-1"), workerRow("w-9", { tenant: "other" })]);
    const refuse = () => ({ fault: { code: "E.NOT_FOUND", message: "inner words" } });
    for (const order of ["worker.kick", "worker.drain"] as const) engine.answerWith(order, refuse);

    for (const name of ["getWorker", "getWorkerDiagnostics", "kickWorker", "drainWorker"] as const)
      for (const id of ["w-9", "nobody"])
        expect(await ask(name, id)).toMatchObject({
          status: 404,
          body: { error: "E.NOT_FOUND", message: `there is no worker ${id}` },
        });
    expect((await ask("getWorker", "w-9", null, "secret-b")).body).toMatchObject({ instanceId: "w-9", asOf: 0 });
  });
});

describe("POST /api/v1/workers/{workerId}/kick", () => {
  it("[A24] POST /workers/{id}/kick asks the engine to end the session, records who and why, and is audited", async () => {
    const { ask, engine, outside: environment } = openCalls([workerRow("w-1")]);

    const answer = await ask("kickWorker", "w-1", { reason: "its key leaked" });

    expect(answer).toMatchObject({ status: 202, body: { workerName: "name of w-1", commandId: expect.any(String) } });
    const ids = { corr: expect.any(String), command: answer.body.commandId };
    const kick = { type: "worker.kick", tenant: "default", by: "ann", ...ids, worker: "default/w-1" };
    expect(engine.commands).toEqual([{ ...kick, reason: "its key leaked" }]);
    const line = { level: "info", event: "worker.kick", audit: true, tenant: "default", worker: "default/w-1", by: "ann" };
    expect(environment.logRecords).toEqual([{ ...line, reason: "its key leaked", code: "OK" }]);

    await ask("kickWorker");
    expect(engine.commands[1]).toEqual({ ...kick, command: expect.any(String), reason: "ended by ann" });
  });

  it("[A24] POST /workers/{id}/kick refuses a reason that is not text, and a token that may not operate", async () => {
    const { ask, engine } = openCalls([workerRow("w-1")]);

    expect(await ask("kickWorker", "w-1", { reason: 7 })).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID" } });
    expect(await ask("kickWorker", "w-1", null, "viewer")).toMatchObject({ status: 403 });
    expect(engine.commands).toEqual([]);
  });
});

describe("orders about a worker", () => {
  it("[A341] an order about a worker may use the name that lists show, and reaches the connected worker of that name", async () => {
    const gone = workerRow("w-0", { name: "press", phase: "lost" });
    const { ask, engine } = openCalls([gone, workerRow("w-1", { name: "press" }), workerRow("w-2", { name: "w-0" })]);

    for (const name of ["drainWorker", "undrainWorker", "kickWorker"] as const) {
      expect(await ask(name, "press")).toMatchObject({ status: 202, body: { workerName: "press" } });
      expect(engine.commands.at(-1)).toMatchObject({ worker: "default/w-1" });
    }
    await ask("drainWorker", "w-0");
    expect(engine.commands.at(-1)).toMatchObject({ worker: "default/w-0" });
  });

  const orders = [
    ["kickWorker", "worker.kick", "worker.kick"],
    ["drainWorker", "worker.drain", "worker.drain"],
    ["undrainWorker", "worker.drain", "worker.undrain"],
  ] as const;

  it.each(orders)(
    "[A24] the order %s is audited once the engine has answered, with caller, worker and outcome",
    async (name, order, event) => {
      const { ask, engine, outside: environment } = openCalls([workerRow("w-1")]);
      engine.holdAnswers(order);
      const first = ask(name);
      await engine.nextCommand(order);
      expect(environment.logRecords).toEqual([]);
      engine.releaseAnswers(order);
      expect((await first).status).toBe(202);
      const line = { level: "info", event, audit: true, tenant: "default", worker: "default/w-1", by: "ann" };
      expect(environment.logRecords).toEqual([expect.objectContaining({ ...line, code: "OK" })]);

      engine.stopHolding(order);
      engine.answerWith(order, () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));
      expect((await ask(name)).status).toBe(503);
      expect(environment.logRecords.filter(({ audit }) => audit)).toEqual([
        expect.objectContaining({ ...line, code: "OK" }),
        expect.objectContaining({ ...line, code: "E.STORE.BUSY" }),
      ]);
    },
  );
});

describe("GET /api/v1/scaling", () => {
  it("[A25] GET /scaling counts the queued and running tasks, and the slots of those workers of the tenant that get work", async () => {
    const leased = { phase: "leased", worker: "default/w-1" } as const;
    const { ask } = openCalls(
      [
        workerRow("w-1", { condition: condition({ saturatedAt: 1_000 }) }),
        workerRow("w-2", { draining: true }),
        workerRow("w-3", { condition: condition({ strain: "disk" }) }),
        workerRow("w-4", { condition: condition({ healthy: false }) }),
        workerRow("w-5", { phase: "away" }),
        workerRow("w-6", { phase: "lost", draining: true }),
        workerRow("w-9", { tenant: "other" }),
      ],
      [
        taskRow("r1.0", leased),
        taskRow("r1.1", { phase: "ready" }),
        taskRow("r1.2", { phase: "ready" }),
        taskRow("r1.3", { phase: "waiting" }),
        taskRow("x1.0", { phase: "ready" }),
      ],
    );

    const { status, body } = await ask("getScaling");

    expect([status, fitting("getScaling", body)]).toEqual([200, body]);
    expect(body).toEqual({
      queued: 2,
      running: 1,
      isPartial: false,
      slots: 4,
      free: 3,
      workers: { online: 4, away: 1, lost: 1, left: 0, saturated: 1, draining: 2 },
      wantedSlots: 3,
      asOf: 0,
    });
  });

  it("[A25] GET /scaling reports when not every open task was counted", async () => {
    const tasks = Array.from({ length: 10_000 }, (_, n) => taskRow(`r1.${n}`));
    const { ask, reader } = openCalls([], tasks);

    expect((await ask("getScaling")).body).toMatchObject({ queued: 10_000, isPartial: true, free: 0, slots: 0 });
    expect(reader.queries).toContainEqual({ page: "depth", tenant: "default", max: 10_000 });
  });

  it("[A155] GET /workers/{id} finds a worker by its name if no instance id matches, the connected one first", async () => {
    const rows = [
      workerRow("w-1", { name: "twin", phase: "lost" }),
      workerRow("w-2", { name: "twin" }),
      workerRow("w-9", { name: "theirs", tenant: "other" }),
    ];
    const { ask } = openCalls(rows);

    expect((await ask("getWorker", "twin")).body).toMatchObject({ id: "twin", instanceId: "w-2" });
    expect((await ask("getWorker", "theirs")).status).toBe(404);
  });
});
