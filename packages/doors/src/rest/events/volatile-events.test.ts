import { describe, expect, it } from "vitest";
import {
  eventTypes,
  flushPromises,
  followEvents,
  openEventStreamFixture,
  sampleUuid,
} from "../../testing/event-stream-fixture.ts";
import { eventLimits } from "./event-routes.ts";
import { volatileFeedLimits } from "./volatile-feed.ts";

const beat = {
  workerName: "w",
  at: new Date(1).toISOString(),
  queues: [],
  instanceId: "w-1",
  hostname: "box",
  version: "1",
  connected: true,
  registered: true,
};

describe("GET /api/v1/events, beyond the log", () => {
  it("[A353] a tenant has at most 20 readers of wire frames, even when more connect at once; readers of the log are not affected", async () => {
    const scene = openEventStreamFixture([]);
    const max = eventLimits.wireStreamsPerTenantMax;
    const wire = () => followEvents(scene, { topics: "wire" }, undefined, "default", ["view", "operate"]);
    const readers = await Promise.all(Array.from({ length: max + 5 }, wire));

    const away = readers.filter(({ sink }) => sink.isEnded);
    expect(away).toHaveLength(5);
    expect(away[0]?.namedEvents()).toMatchObject([{ type: "stream.error", data: { error: "E.OVERLOADED" } }]);
    await expect(wire()).rejects.toMatchObject({ code: "E.OVERLOADED" });
    expect((await followEvents(scene)).sink.isEnded).toBe(false);
    expect((await followEvents(scene, { topics: "wire" }, undefined, "other", ["view", "operate"])).sink.isEnded).toBe(false);
    for (const { gone } of readers) gone();
    expect((await wire()).sink.isEnded).toBe(false);
  });

  it("[A304] twenty readers that read nothing buffer a bounded part of a heartbeat flood, and still get the events of the log", async () => {
    const scene = openEventStreamFixture([]);
    const readers = await Promise.all(Array.from({ length: 20 }, () => followEvents(scene)));
    await flushPromises();
    const texts = Array.from({ length: 500 }, (_, n) => `worker ${n}`);
    const flood = (at: number): void => {
      for (const name of texts) {
        const of = { tenant: "default", worker: `default/${name}`, workerName: name, at };
        scene.volatile.publishHeartbeat(of, () => ({ ...beat, workerName: name, hostname: "h".repeat(200) }));
      }
    };
    for (let at = 1; at <= 40; at++) {
      flood(at);
      for (const { sink } of readers) sink.waitingBytes = sink.text.length;
      scene.outside.advance(100);
    }
    const held = readers.map(({ sink }) => sink.text.length);
    expect(Math.max(...held)).toBeLessThan(500 * 600 + volatileFeedLimits.waitingBytesMax);

    scene.grow({ type: "run.started" });
    await flushPromises();
    expect(readers.every(({ namedEvents }) => eventTypes(namedEvents()).at(-1) === "run.status")).toBe(true);
    for (const { sink } of readers) [sink.text, sink.waitingBytes] = ["", 0];
    scene.outside.advance(volatileFeedLimits.pauseMs);
    await flushPromises();
    expect(readers.every(({ namedEvents }) => namedEvents().length === 500)).toBe(true);
    for (const { gone } of readers) gone();
    expect(scene.volatile.hasHeartbeatListeners("default")).toBe(false);
  });

  it("[A305] a reader that reconnects gets the events that it missed before any current heartbeat", async () => {
    const scene = openEventStreamFixture(Array.from({ length: 50 }, () => ({ type: "run.started" })));
    const reader = await followEvents(scene, {}, "10");
    const of = { tenant: "default", worker: "default/w-1", workerName: "w", at: 1 };
    scene.volatile.publishHeartbeat(of, () => beat);
    await flushPromises();
    scene.outside.advance(volatileFeedLimits.pauseMs);
    await flushPromises();

    expect(eventTypes(reader.namedEvents())).toEqual([...Array.from({ length: 40 }, () => "run.status"), "worker.heartbeat"]);
    expect(reader.namedEvents().at(-1)).toMatchObject({ id: "", data: { meta: { volatile: true } } });
  });

  it("[A306] a reader that asks for a run, a node or other topics gets no heartbeats, and one gets wire frames only if it asks for them", async () => {
    const wanting = async (query: Record<string, string>): Promise<[boolean, boolean]> => {
      const scene = openEventStreamFixture([]);
      await followEvents(scene, query, undefined, "default", ["view", "operate"]);
      return [scene.volatile.hasHeartbeatListeners("default"), scene.volatile.hasFrameListeners("default")];
    };

    expect(await wanting({})).toEqual([true, false]);
    expect(await wanting({ topics: "worker", clientSessionId: "c1" })).toEqual([true, false]);
    expect(await wanting({ topics: "run,node" })).toEqual([false, false]);
    expect(await wanting({ runId: "r1" })).toEqual([false, false]);
    expect(await wanting({ topics: "wire", runId: "r1" })).toEqual([false, true]);
    expect(await wanting({ topics: "wire,worker.heartbeat" })).toEqual([true, true]);
    expect(await wanting({ topics: "wire", nodeId: sampleUuid(0) })).toEqual([false, false]);
    await expect(followEvents(openEventStreamFixture([]), { topics: "wire", nodeId: sampleUuid(0) })).rejects.toMatchObject({
      code: "E.AUTH.FORBIDDEN",
    });
  });
});
