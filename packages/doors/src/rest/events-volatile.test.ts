import { describe, expect, it } from "vitest";
import { follow, openScene, settle, types, uuid } from "../testing/events-scene.ts";
import { eventLimits } from "./events.ts";
import { volatileLimits } from "./volatile-feed.ts";

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
  it("[A353] of frames a tenant has 20 readers, however many come at once; others wait, those of the log do not", async () => {
    const scene = openScene([]);
    const max = eventLimits.wireStreamsPerTenantMax;
    const wire = () => follow(scene, { topics: "wire" }, undefined, "default", ["view", "operate"]);
    const readers = await Promise.all(Array.from({ length: max + 5 }, wire));

    const away = readers.filter(({ sink }) => sink.isEnded);
    expect(away).toHaveLength(5);
    expect(away[0]?.told()).toMatchObject([{ type: "stream.error", data: { error: "E.OVERLOADED" } }]);
    await expect(wire()).rejects.toMatchObject({ code: "E.OVERLOADED" });
    expect((await follow(scene)).sink.isEnded).toBe(false);
    expect((await follow(scene, { topics: "wire" }, undefined, "other", ["view", "operate"])).sink.isEnded).toBe(false);
    for (const { gone } of readers) gone();
    expect((await wire()).sink.isEnded).toBe(false);
  });

  it("[A304] twenty readers that take nothing hold no more for a flood that is not in the log, and get the log all the same", async () => {
    const scene = openScene([]);
    const readers = await Promise.all(Array.from({ length: 20 }, () => follow(scene)));
    await settle();
    const texts = Array.from({ length: 500 }, (_, n) => `worker ${n}`);
    const flood = (at: number): void => {
      for (const name of texts) {
        const of = { tenant: "default", worker: `default/${name}`, workerName: name, at };
        scene.volatile.beat(of, () => ({ ...beat, workerName: name, hostname: "h".repeat(200) }));
      }
    };
    for (let at = 1; at <= 40; at++) {
      flood(at);
      for (const { sink } of readers) sink.waitingBytes = sink.text.length;
      scene.outside.advance(100);
    }
    const held = readers.map(({ sink }) => sink.text.length);
    expect(Math.max(...held)).toBeLessThan(500 * 600 + volatileLimits.waitingBytesMax);

    scene.grow({ type: "run.started" });
    await settle();
    expect(readers.every(({ told }) => types(told()).at(-1) === "run.status")).toBe(true);
    for (const { sink } of readers) [sink.text, sink.waitingBytes] = ["", 0];
    scene.outside.advance(volatileLimits.pauseMs);
    await settle();
    expect(readers.every(({ told }) => told().length === 500)).toBe(true);
    for (const { gone } of readers) gone();
    expect(scene.volatile.hearsBeats("default")).toBe(false);
  });

  it("[A305] a reader that comes back is told what it missed before any heartbeat of now", async () => {
    const scene = openScene(Array.from({ length: 50 }, () => ({ type: "run.started" })));
    const reader = await follow(scene, {}, "10");
    const of = { tenant: "default", worker: "default/w-1", workerName: "w", at: 1 };
    scene.volatile.beat(of, () => beat);
    await settle();
    scene.outside.advance(volatileLimits.pauseMs);
    await settle();

    expect(types(reader.told())).toEqual([...Array.from({ length: 40 }, () => "run.status"), "worker.heartbeat"]);
    expect(reader.told().at(-1)).toMatchObject({ id: "", data: { meta: { volatile: true } } });
  });

  it("[A306] whoever asks for a run, a node or other topics gets no heartbeats, and names frames to get them", async () => {
    const wanting = async (query: Record<string, string>): Promise<[boolean, boolean]> => {
      const scene = openScene([]);
      await follow(scene, query, undefined, "default", ["view", "operate"]);
      return [scene.volatile.hearsBeats("default"), scene.volatile.hearsFrames("default")];
    };

    expect(await wanting({})).toEqual([true, false]);
    expect(await wanting({ topics: "worker", clientSessionId: "c1" })).toEqual([true, false]);
    expect(await wanting({ topics: "run,node" })).toEqual([false, false]);
    expect(await wanting({ runId: "r1" })).toEqual([false, false]);
    expect(await wanting({ topics: "wire", runId: "r1" })).toEqual([false, true]);
    expect(await wanting({ topics: "wire,worker.heartbeat" })).toEqual([true, true]);
    expect(await wanting({ topics: "wire", nodeId: uuid(0) })).toEqual([false, false]);
    await expect(follow(openScene([]), { topics: "wire", nodeId: uuid(0) })).rejects.toMatchObject({ code: "E.AUTH.FORBIDDEN" });
  });
});
