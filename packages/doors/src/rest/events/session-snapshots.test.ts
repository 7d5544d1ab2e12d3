import { sessionSnapshotLimits } from "@astraflow/services";
import { runRow } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import {
  eventTypes,
  flushPromises,
  followEvents,
  openEventStreamFixture,
  type StreamedEvent,
  sampleUuid,
} from "../../testing/event-stream-fixture.ts";
import { streamBudgetLimits } from "../requests/stream-budget.ts";
import { eventLimits } from "./event-routes.ts";

const session = { clientSessionId: "c1" };
const runOf = (event: StreamedEvent) => (event.data as { scope: { runId?: string } }).scope.runId;
/** The clock of the fixture. */
const now = openEventStreamFixture([]).outside.clock.now();
const endedAgo = (id: string, ms: number, client = "c1") =>
  runRow(id, { client, phase: "succeeded", startedAt: 1_500, endedAt: now - ms });

describe("GET /api/v1/events of a client session, opened without a cursor", () => {
  it("[A385] GET /events of a client session begins with status and snapshot of its open and just-ended runs, oldest first", async () => {
    const { endedMs } = sessionSnapshotLimits;
    const runs = [
      endedAgo("r1", endedMs + 1),
      runRow("r2", { client: "c1", phase: "queued", startedAt: null }),
      endedAgo("r3", endedMs),
      runRow("r4", { client: "c2" }),
      runRow("r5", { client: "c1", phase: "ending", verdict: "failed" }),
    ];
    const reader = await followEvents(openEventStreamFixture([{ type: "run.created" }], { runs }), session);
    await flushPromises();

    const events = reader.namedEvents();
    expect(events.map((event) => [event.type, runOf(event)])).toEqual(
      ["r2", "r3", "r5"].flatMap((run) => [
        ["run.status", run],
        ["run.snapshot", run],
      ]),
    );
    expect(events.map(({ data }) => (data as { data: { status?: string } }).data.status ?? null)).toEqual([
      "queued",
      null,
      "succeeded",
      null,
      "running",
      null,
    ]);
    expect(events[1]?.data).toMatchObject({
      version: "v1",
      id: events[1]?.id,
      replayed: true,
      scope: { tenant: "default", runId: "r2", clientSessionId: "c1" },
      data: { kind: "run.snapshot", run: { runId: "r2", clientId: "c1" }, nodes: [{ nodeId: sampleUuid(0) }, {}, {}] },
    });
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    expect(reader.seen().at(-1)).toEqual({ id: "1", type: null, data: null });
  });

  it("[A382] the snapshot of a run in the event stream names the middlewares of a host in its metadata", async () => {
    const reader = await followEvents(openEventStreamFixture([{ type: "run.created" }]), session);
    await flushPromises();

    const host = { nodeId: sampleUuid(1), metadata: { middlewares: [sampleUuid(7)] } };
    expect(reader.namedEvents()[1]?.data).toMatchObject({ data: { nodes: [{}, host, {}] } });
  });

  it("[A385] GET /events of a client session goes on after its snapshots without a gap and without what the snapshots include", async () => {
    const body = JSON.stringify([{ channel: "llm", text: "Dear" }]);
    const chunks = [{ task: "r1.0", fence: 5, first: 0, count: 1, at: 1, line: 0, lines: 1, body }];
    const printed = { task: "r1.0", fence: 5, chunks: { first: 0, count: 1 }, results: { summary: "Dear" } };
    let hasGrown = false;
    // The log grows between the reading of the position and that of the snapshots.
    const onFindRuns = (): void => {
      if (hasGrown) return;
      hasGrown = true;
      scene.grow({ type: "task.ready", data: { task: "r1.0" } });
      scene.grow({ type: "task.feedback", data: printed });
      scene.grow({ type: "run.started", subject: "run/r9" });
    };
    const runs = [runRow("r1", { client: "c1" }), endedAgo("r9", 120_000)];
    const scene = openEventStreamFixture([{ type: "run.created" }], { onFindRuns, chunks, runs });
    const reader = await followEvents(scene, session);
    await flushPromises();
    scene.grow({ type: "task.ready", data: { task: "r1.1" } });
    await flushPromises();

    expect(reader.namedEvents().map((event) => [event.type, runOf(event)])).toEqual([
      ["run.status", "r1"],
      ["run.snapshot", "r1"],
      // Text that was printed is in no snapshot.
      ["node.result.delta", "r1"],
      ["run.status", "r9"],
      ["node.status", "r1"],
      ["node.state", "r1"],
    ]);
  });

  it("[A385] GET /events sends no snapshots to a reader that has a cursor, names no session, or wants no events of runs", async () => {
    const types = async (query: Record<string, string>, lastEventId?: string) => {
      const reader = await followEvents(openEventStreamFixture([{ type: "run.created" }]), query, lastEventId);
      await flushPromises();
      return eventTypes(reader.namedEvents());
    };

    expect(await types(session, "1")).toEqual([]);
    expect(await types({ ...session, after: "1" })).toEqual([]);
    expect(await types({})).toEqual([]);
    expect(await types({ ...session, topics: "node" })).toEqual([]);
    expect(await types({ ...session, nodeId: sampleUuid(0) })).toEqual([]);
    expect(await types({ ...session, topics: "run.status" })).toEqual(["run.status"]);
    expect(await types({ ...session, runId: "r2" })).toEqual([]);
  });

  it("[A385] a reader cut off among its snapshots gets them again when it returns with the id of one, and misses nothing in between", async () => {
    const scene = openEventStreamFixture([{ type: "run.created" }]);
    const first = await followEvents(scene, session);
    await flushPromises();
    const lastEventId = first.namedEvents()[0]?.id;
    first.gone();
    scene.grow({ type: "worker.joined", subject: "worker/default/w-1" });
    const second = await followEvents(scene, session, lastEventId);
    await flushPromises();

    expect(eventTypes(second.namedEvents())).toEqual(["run.status", "run.snapshot", "worker.heartbeat"]);
    expect(second.namedEvents().at(-1)?.id).toBe("2");
  });

  it("[A385] a slow reader gets its snapshots as fast as it reads, and the newest fifty open runs and twenty ended ones at most", async () => {
    const named = (prefix: string, count: number) =>
      Array.from({ length: count }, (_, n) => `${prefix}${String(n).padStart(3, "0")}`);
    const runs = [...named("a", 60).map((id) => runRow(id, { client: "c1" })), ...named("b", 30).map((id) => endedAgo(id, 1))];
    const scene = openEventStreamFixture([{ type: "run.created" }], { runs });
    const reader = await followEvents(scene, { ...session, topics: "run.snapshot" });
    reader.sink.waitingBytes = streamBudgetLimits.feedBytesMax + 1;
    await flushPromises();
    expect(reader.namedEvents().length).toBeLessThan(2);

    reader.sink.waitingBytes = 0;
    scene.outside.advance(eventLimits.pauseMs);
    await flushPromises();

    const ids = reader.namedEvents().map(runOf);
    expect(ids).toEqual([...named("a", 60).slice(10), ...named("b", 30).slice(10)]);
  });
});
