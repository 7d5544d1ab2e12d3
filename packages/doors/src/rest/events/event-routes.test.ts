import { Fault } from "@astraflow/protocol";
import { describe, expect, it, vi } from "vitest";
import {
  eventTypes,
  flushPromises,
  followEvents,
  openEventStreamFixture,
  sampleUuid,
} from "../../testing/event-stream-fixture.ts";
import { streamBudgetLimits } from "../requests/stream-budget.ts";
import { eventLimits } from "./event-routes.ts";

describe("GET /api/v1/events", () => {
  it("[A200] GET /events starts at the newest event, sends a cursor at once, and then sends the events that follow", async () => {
    const scene = openEventStreamFixture([{ type: "run.created" }]);
    const reader = await followEvents(scene);
    await flushPromises();
    expect(reader.seen()).toEqual([{ id: "1", type: null, data: null }]);

    scene.grow({ type: "run.started" });
    await flushPromises();

    expect(reader.namedEvents()).toMatchObject([
      {
        id: "2",
        type: "run.status",
        data: {
          version: "v1",
          id: "2",
          type: "run.status",
          scope: { tenant: "default", runId: "r1", clientSessionId: "c1" },
          data: { kind: "run.status", runId: "r1", status: "running" },
        },
      },
    ]);
    expect(reader.namedEvents()[0]?.data).not.toHaveProperty("replayed");
  });

  it("[A201] GET /events resumes after Last-Event-ID without a gap or a repeat, even between the events of one fact", async () => {
    const facts = [
      { type: "run.created" },
      { type: "task.granted", data: { task: "r1.0", worker: "default/w-1", fence: 5, attempt: 1 } },
      { type: "task.succeeded", data: { task: "r1.0", worker: "default/w-1", fence: 5 } },
      { type: "run.succeeded" },
    ];
    const whole = await followEvents(openEventStreamFixture(facts), {}, "0");
    await flushPromises();
    const all = whole.namedEvents();
    expect(eventTypes(all)).toEqual([
      "run.status",
      "run.snapshot",
      "node.status",
      "node.state",
      "node.status",
      "node.state",
      "node.result.snapshot",
      "run.status",
      "run.snapshot",
    ]);
    for (const [at, { id }] of all.entries()) {
      const rest = await followEvents(openEventStreamFixture(facts), {}, id);
      await flushPromises();
      expect(rest.namedEvents().map((one) => [one.id, one.type])).toEqual(all.slice(at + 1).map((one) => [one.id, one.type]));
      expect(rest.namedEvents().every((one) => one.data?.["replayed"] === true)).toBe(true);
    }
  });

  it("[A202] GET /events reports what became of each node: the worker it was dispatched to, its result, its error", async () => {
    const scene = openEventStreamFixture([
      { type: "task.granted", data: { task: "r1.0", worker: "default/w-1", fence: 5, attempt: 1 } },
      { type: "task.succeeded", data: { task: "r1.0", worker: "default/w-1", fence: 5 } },
      { type: "task.failed", data: { task: "r1.1", error: { code: "E.RUNNER.FAILURE", message: "no" } } },
    ]);
    const reader = await followEvents(scene, {}, "0");
    await flushPromises();
    const data = reader.namedEvents().map((one) => one.data?.["data"]);

    expect(data[0]).toMatchObject({ nodeId: sampleUuid(0), status: "dispatching", ackPending: true, workerName: "name of w-1" });
    expect(data[1]).toMatchObject({ kind: "node.state", state: { stage: "running", worker: "name of w-1", attempt: 1 } });
    expect(data[4]).toMatchObject({ nodeId: sampleUuid(0), revision: 5, content: { sum: 3 }, complete: true });
    expect(data.at(-1)).toMatchObject({ kind: "node.error", nodeId: sampleUuid(1), error: { code: "E.RUNNER.FAILURE" } });
  });

  it("[A345] GET /events spells the artifacts of a result as the worker does, with the worker's name and with times as text", async () => {
    const artifacts = [{ resource: "res-1", worker: "default/w-1", type: "file", sizeBytes: 12, expiresAt: 3_000 }];
    const facts = [{ type: "task.succeeded", data: { task: "r1.0", worker: "default/w-1", fence: 5 } }];
    const reader = await followEvents(openEventStreamFixture(facts, { state: { artifacts } }), {}, "0");
    await flushPromises();

    const words = { resource_id: "res-1", worker_name: "name of w-1", type: "file" };
    expect(reader.namedEvents().at(-1)?.data?.["data"]).toMatchObject({
      kind: "node.result.snapshot",
      artifacts: [{ ...words, size_bytes: 12, expires_at: "1970-01-01T00:00:03.000Z" }],
    });
  });

  it("[A203] GET /events turns feedback into node state, output by channel, result changes and metrics", async () => {
    const body = JSON.stringify([
      { channel: "llm", text: "Dear" },
      { channel: "log", data: "AAE=", mimeType: "image/png", metadata: { terminal: true } },
    ]);
    const chunks = [{ task: "r1.0", fence: 5, first: 0, count: 2, at: 1, line: 0, lines: 1, body }];
    const data = {
      task: "r1.0",
      fence: 5,
      stage: "streaming",
      progress: 0.5,
      chunks: { first: 0, count: 2 },
      results: { summary: "Dear", old: null },
      metrics: { loss: 0.2 },
    };
    const reader = await followEvents(openEventStreamFixture([{ type: "task.feedback", data }], { chunks }), {}, "0");
    await flushPromises();
    const eventData = reader.namedEvents().map((one) => one.data?.["data"] as Record<string, unknown>);

    expect(eventData).toMatchObject([
      { kind: "node.state", state: { stage: "streaming", progress: 0.5 } },
      { kind: "node.result.delta", operation: "append", path: "/channels/llm", payload: { text: "Dear" }, terminal: false },
      { operation: "append", path: "/channels/log", payload: { data: "AAE=", mimeType: "image/png" }, terminal: true },
      { operation: "replace", path: "/summary", payload: { value: "Dear" } },
      { operation: "remove", path: "/old" },
      { kind: "run.metrics", metric: "loss", value: 0.2, tags: { nodeId: sampleUuid(0) } },
    ]);
    const sequences = eventData.flatMap((one) => ("sequence" in one ? [one["sequence"] as number] : []));
    expect([...new Set(sequences)]).toEqual([...sequences].sort((a, b) => a - b));
  });

  it("[A204] GET /events filters by client session, run, node, host, worker and topic", async () => {
    const facts = [
      { type: "run.started" },
      { type: "run.started", subject: "run/r2" },
      { type: "task.ready", data: { task: "r1.0" } },
      { type: "task.ready", data: { task: "r1.2" } },
      { type: "worker.joined", subject: "worker/default/w-1" },
    ];
    const count = async (query: Record<string, string>) => {
      const reader = await followEvents(openEventStreamFixture(facts), query, "0");
      await flushPromises();
      return eventTypes(reader.namedEvents());
    };

    expect(await count({})).toHaveLength(7);
    expect(await count({ clientSessionId: "c2" })).toEqual(["run.status", "worker.heartbeat"]);
    expect(await count({ runId: "r2" })).toEqual(["run.status"]);
    expect(await count({ nodeId: sampleUuid(0) })).toEqual(["node.status", "node.state"]);
    expect(await count({ hostNodeId: sampleUuid(1) })).toEqual(["node.status", "node.state"]);
    expect(await count({ workerName: "name of w-1" })).toEqual(["worker.heartbeat"]);
    expect(await count({ topics: "run,node.status" })).toEqual(["run.status", "run.status", "node.status", "node.status"]);
  });

  it("[A245] GET /events names a host's middlewares and a middleware's host in their states, and filters by middleware and chain index", async () => {
    const feedback = { stage: "busy" };
    const facts = [
      { type: "task.ready", data: { task: "r1.0" } },
      { type: "task.hosting", data: { task: "r1.1" } },
      { type: "task.feedback", data: { task: "r1.2", fence: 1, ...feedback } },
    ];
    const states = async (query: Record<string, string>) => {
      const reader = await followEvents(openEventStreamFixture(facts), { topics: "node.state", ...query }, "0");
      await flushPromises();
      return reader.namedEvents().map((one) => (one.data as { data: { state: object } }).data.state);
    };
    const host = { stage: "running", middlewares: [sampleUuid(7)], host_node_id: null, chain_index: null };
    const inner = { ...feedback, host_node_id: sampleUuid(1), chain_index: 0 };

    const [plain, ...chained] = await states({});
    expect(plain).not.toHaveProperty("host_node_id");
    expect(chained).toMatchObject([host, inner]);
    expect(await states({ middleware: sampleUuid(7) })).toMatchObject([host]);
    expect(await states({ chainIndex: "0" })).toMatchObject([inner]);
    expect(await states({ chainIndex: "1" })).toEqual([]);
    await expect(followEvents(openEventStreamFixture(facts), { chainIndex: "-1" })).rejects.toMatchObject({
      code: "E.REQUEST.INVALID",
    });
  });

  it("[A252] GET /events reports an acknowledged dispatch as a node.status event, and does not set the node's stage", async () => {
    const about = { task: "r1.0", worker: "default/w-1", fence: 5, attempt: 1 };
    const reader = await followEvents(openEventStreamFixture([{ type: "task.running", data: about }]), {}, "0");
    await flushPromises();

    expect(reader.namedEvents().map((one) => one.data?.["data"])).toEqual([
      {
        kind: "node.status",
        runId: "r1",
        taskId: "r1.0",
        nodeId: sampleUuid(0),
        status: "running",
        workerName: "name of w-1",
        seq: 5,
        ackPending: false,
      },
    ]);
  });

  it("[A205] GET /events sends two snapshots of a run, however much happens in between", async () => {
    const busy = Array.from({ length: 150 }, () => ({ type: "task.ready", data: { task: "r1.0" } }));
    const scene = openEventStreamFixture([{ type: "run.created" }, ...busy, { type: "run.succeeded" }]);
    const reader = await followEvents(scene, { topics: "run.snapshot" }, "0");
    await flushPromises();

    expect(eventTypes(reader.namedEvents())).toEqual(["run.snapshot", "run.snapshot"]);
    expect(scene.counts.snapshots).toBe(2);
  });

  it("[A206] GET /events reports missing facts when the cursor is older than the log, and continues with the facts that are left", async () => {
    const facts = [{ type: "run.created" }, { type: "run.started" }, { type: "run.succeeded" }];
    const reader = await followEvents(openEventStreamFixture(facts, { floor: 2 }), { topics: "run.status" }, "0");
    await flushPromises();

    expect(reader.namedEvents()).toMatchObject([
      { id: "2", type: "stream.error", data: { error: "E.CURSOR.EXPIRED", details: { floor: 2 } } },
      { id: "3", type: "run.status" },
    ]);
  });

  it("[A207] GET /events shows nothing of another tenant, whatever the query is", async () => {
    const scene = openEventStreamFixture([{ type: "run.started" }]);
    const reader = await followEvents(scene, { runId: "r1" }, "0", "other");
    await flushPromises();

    expect(reader.namedEvents()).toEqual([]);
  });

  it("[A208] GET /events watches the log only while it has readers, and leaves no timer behind", async () => {
    const scene = openEventStreamFixture([]);
    const { every } = scene.outside.timers;
    let running = 0;
    vi.spyOn(scene.outside.timers, "every").mockImplementation((ms, run) => {
      running += 1;
      const end = every(ms, run);
      return () => {
        running -= 1;
        end();
      };
    });
    const [first, second] = [await followEvents(scene), await followEvents(scene)];
    expect(running).toBeGreaterThan(0);

    first.gone();
    second.gone();
    expect(running).toBe(0);

    const third = await followEvents(scene);
    scene.grow({ type: "run.started" });
    await flushPromises();
    expect(eventTypes(third.namedEvents())).toHaveLength(1);
  });

  it("[A208] GET /events reads the log once for all readers, and sends a slow reader no more than it takes", async () => {
    const scene = openEventStreamFixture([]);
    const quick = await Promise.all(Array.from({ length: 20 }, () => followEvents(scene)));
    await flushPromises();
    const before = scene.counts.events;
    scene.grow({ type: "run.started" });
    await flushPromises();
    expect(quick.every((reader) => eventTypes(reader.namedEvents()).length === 1)).toBe(true);
    expect(scene.counts.events - before).toBeLessThanOrEqual(3);

    const slow = quick[0];
    if (slow === undefined) throw new Error("no reader");
    slow.sink.waitingBytes = streamBudgetLimits.feedBytesMax + 1;
    scene.grow({ type: "run.succeeded" });
    await flushPromises();
    expect(slow.namedEvents()).toHaveLength(1);
    slow.sink.waitingBytes = 0;
    scene.outside.advance(eventLimits.pauseMs);
    await flushPromises();
    expect(eventTypes(slow.namedEvents())).toEqual(["run.status", "run.status", "run.snapshot"]);
  });

  it("[A209] GET /events refuses a malformed cursor and unknown topics, and names the field", async () => {
    const refused = async (query: Record<string, string>, id?: string) =>
      followEvents(openEventStreamFixture([]), query, id).then(
        () => null,
        (why: unknown) => (why instanceof Fault ? [why.code, why.details?.["path"]] : why),
      );

    expect(await refused({}, "x1")).toEqual(["E.REQUEST.INVALID", "headers.Last-Event-ID"]);
    expect(await refused({ after: "-1" })).toEqual(["E.REQUEST.INVALID", "query.after"]);
    expect(await refused({ topics: "run,nothing" })).toEqual(["E.REQUEST.INVALID", "query.topics"]);
  });

  it("[A210] GET /events advances the cursor of a reader whose filter matches no event", async () => {
    const facts = Array.from({ length: eventLimits.silentFactsMax + 5 }, () => ({ type: "task.ready", data: { task: "r1.0" } }));
    const reader = await followEvents(openEventStreamFixture(facts), { topics: "worker" }, "0");
    for (let turn = 0; turn < 20; turn++) await flushPromises();

    expect(Number(reader.seen().at(-1)?.id)).toBeGreaterThanOrEqual(eventLimits.silentFactsMax);
    expect(reader.namedEvents()).toEqual([]);
  });

  it("[A233] GET /events starts at the newest event even when it had no reader for a while", async () => {
    const scene = openEventStreamFixture([{ type: "run.created" }]);
    (await followEvents(scene)).gone();
    scene.grow({ type: "run.started" });
    const reader = await followEvents(scene);
    await flushPromises();
    expect(reader.seen()).toEqual([{ id: "2", type: null, data: null }]);

    scene.grow({ type: "run.cancelling" });
    await flushPromises();

    expect(reader.namedEvents().map(({ id }) => id)).toEqual(["3"]);
  });

  it("[A234] GET /events reports a cursor ahead of the log as expired, and continues from the head of the log", async () => {
    const scene = openEventStreamFixture([{ type: "run.created" }]);
    const reader = await followEvents(scene, {}, "99999");
    await flushPromises();
    expect(reader.namedEvents()).toMatchObject([
      { id: "1", type: "stream.error", data: { error: "E.CURSOR.EXPIRED", details: { head: 1 } } },
    ]);

    scene.grow({ type: "run.started" });
    await flushPromises();

    expect(eventTypes(reader.namedEvents())).toEqual(["stream.error", "run.status"]);
  });

  it("[A235] GET /events sends no more of a page to a reader with a full buffer, and does not check it more often when events arrive", async () => {
    const scene = openEventStreamFixture(Array.from({ length: 50 }, () => ({ type: "run.started" })));
    const reader = await followEvents(scene, {}, "0");
    reader.sink.waitingBytes = streamBudgetLimits.feedBytesMax + 1;
    await flushPromises();
    for (let n = 0; n < 20; n++) scene.grow({ type: "run.started" });
    await flushPromises();
    expect(reader.namedEvents()).toEqual([]);

    const before = scene.counts.events;
    for (let n = 0; n < 10; n++) {
      scene.outside.advance(eventLimits.pauseMs);
      await flushPromises();
    }
    expect(scene.counts.events - before).toBeLessThanOrEqual(10);
    reader.sink.waitingBytes = 0;
    scene.outside.advance(eventLimits.pauseMs);
    for (let turn = 0; turn < 5; turn++) await flushPromises();

    expect(reader.namedEvents().map(({ id }) => Number(id))).toEqual(Array.from({ length: 70 }, (_, n) => n + 1));
  });

  it("[A237] [A378] GET /events sends every reader E.SHUTTING_DOWN and ends its stream when the scheduler shuts down", async () => {
    const farewells = new Set<() => void>();
    const scene = openEventStreamFixture([{ type: "run.created" }], { farewells });
    const reader = await followEvents(scene);
    await flushPromises();
    expect(farewells.size).toBe(1);
    for (const endStream of [...farewells]) endStream();

    expect(reader.namedEvents().at(-1)).toMatchObject({ type: "stream.error", data: { error: "E.SHUTTING_DOWN" } });
    expect(reader.sink.isEnded).toBe(true);
    expect(farewells.size).toBe(0);
  });
});
