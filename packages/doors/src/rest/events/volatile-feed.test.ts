import type { EventData } from "@astraflow/protocol";
import { VolatileEvents, type WireFrameEvent } from "@astraflow/services";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { feedVolatile, type VolatileFilter, volatileFeedLimits } from "./volatile-feed.ts";

const beatData = (workerName: string, at: number): EventData<"worker.heartbeat"> => ({
  kind: "worker.heartbeat",
  workerName,
  at: new Date(at).toISOString(),
  queues: [],
  instanceId: workerName,
  hostname: "box",
  version: "1",
  connected: true,
  registered: true,
});

const frameOf = (id: string, more: Partial<WireFrameEvent> = {}): WireFrameEvent => ({
  workerName: "painter",
  direction: "in",
  type: "biz.exec.result",
  id,
  bytes: 10,
  ...more,
});

function openFixture() {
  const environment = createFakeEnvironment();
  const volatile = new VolatileEvents();
  const counts = { built: 0 };
  const beat = (workerName: string, at: number): void =>
    volatile.publishHeartbeat({ tenant: "default", worker: `default/${workerName}`, workerName, at }, () => {
      counts.built += 1;
      return beatData(workerName, at);
    });
  const frame = (words: WireFrameEvent): void =>
    volatile.publishFrame({ tenant: "default", workerName: words.workerName, type: words.type }, () => {
      counts.built += 1;
      return words;
    });
  return { outside: environment, volatile, counts, beat, frame };
}

const allBeats: VolatileFilter = { heartbeat: () => true, frame: null };
const allFrames: VolatileFilter = { heartbeat: null, frame: { workerName: undefined, runId: undefined, frameType: undefined } };

/** A reader that takes events only when the test lets it. */
function openFeed(scene: ReturnType<typeof openFixture>, wishes: VolatileFilter, tenant = "default") {
  const sink = { waitingBytes: 0, isTaking: true };
  const received: Record<string, unknown>[] = [];
  const state = { isCaughtUp: true };
  const end = feedVolatile({
    tenant,
    volatile: scene.volatile,
    environment: scene.outside,
    sink,
    stream: {
      send(event) {
        expect(event).not.toHaveProperty("id");
        if (!sink.isTaking) sink.waitingBytes += event.data?.length ?? 0;
        received.push(JSON.parse(event.data ?? ""));
      },
    },
    filter: wishes,
    isCaughtUp: () => state.isCaughtUp,
  });
  const take = (): void => {
    sink.waitingBytes = 0;
  };
  const data = () => received.map((one) => one["data"] as Record<string, unknown>);
  return { sink, state, received, data, end, take };
}

describe("what a reader gets of that which is not in the log", () => {
  it("[A304] a slow reader gets only the newest heartbeat of each worker, oldest first, once its buffer is drained", () => {
    const scene = openFixture();
    const reader = openFeed(scene, allBeats);
    reader.sink.waitingBytes = volatileFeedLimits.waitingBytesMax + 1;
    for (let at = 1; at <= 100; at++) for (const name of ["a", "b", "c"]) scene.beat(name, at);
    scene.beat("a", 101);
    scene.outside.advance(1_000);
    expect(reader.received).toEqual([]);

    reader.take();
    scene.outside.advance(volatileFeedLimits.pauseMs);

    expect(reader.data().map((one) => [one["workerName"], Date.parse(String(one["at"]))])).toEqual([
      ["b", 100],
      ["c", 100],
      ["a", 101],
    ]);
    scene.beat("b", 102);
    expect(reader.received).toHaveLength(4);
  });

  it("[A304] twenty readers that read nothing buffer no more than the limit of each, however much is published", () => {
    const scene = openFixture();
    const readers = Array.from({ length: 20 }, () => openFeed(scene, { ...allBeats, frame: allFrames.frame }));
    for (const { sink } of readers) sink.isTaking = false;

    for (let at = 1; at <= 20; at++) {
      for (let n = 0; n < 2_000; n++) scene.beat(`w-${n}`, at);
      for (let n = 0; n < 300; n++) scene.frame(frameOf(`f-${at}-${n}`));
      scene.outside.advance(1_000);
    }

    for (const { sink } of readers) expect(sink.waitingBytes).toBeLessThan(volatileFeedLimits.waitingBytesMax + 2_000);
    expect([...scene.volatile.heartbeatsAfter("default", 0)]).toHaveLength(2_000);
    // No text is built for those who cannot take it, and each only once for all.
    expect(scene.counts.built).toBeLessThan(2_000 + 20 * 300);
    const [first] = readers;
    first?.take();
    if (first !== undefined) first.sink.isTaking = true;
    const before = first?.received.length ?? 0;
    scene.outside.advance(volatileFeedLimits.pauseMs);
    const late = first?.data().slice(before) ?? [];
    expect(new Set(late.map((one) => one["workerName"])).size).toBe(late.length);
    for (const reader of readers) reader.end();
    expect(scene.volatile.hasHeartbeatListeners("default")).toBe(false);
    expect([...scene.volatile.heartbeatsAfter("default", 0)]).toEqual([]);
  });

  it("[A305] a reader that catches up with the log gets heartbeats only afterwards, and only the newest of each worker", () => {
    const scene = openFixture();
    const reader = openFeed(scene, allBeats);
    reader.state.isCaughtUp = false;
    scene.beat("a", 1);
    scene.beat("a", 2);
    scene.outside.advance(1_000);
    expect(reader.received).toEqual([]);

    reader.state.isCaughtUp = true;
    scene.outside.advance(volatileFeedLimits.pauseMs);

    expect(reader.data()).toMatchObject([{ workerName: "a", at: new Date(2).toISOString() }]);
  });

  it("[A306] a heartbeat or frame that no reader wants is not built, and none is kept for later readers or sent to another tenant", () => {
    const scene = openFixture();
    scene.beat("a", 1);
    const only = openFeed(scene, { heartbeat: (name) => name === "b", frame: null });
    const other = openFeed(scene, { heartbeat: () => true, frame: allFrames.frame }, "other");
    scene.beat("a", 2);
    scene.frame(frameOf("f-1"));
    expect(scene.counts.built).toBe(0);

    scene.beat("b", 3);
    const late = openFeed(scene, allBeats);
    scene.outside.advance(1_000);

    expect([only.received.length, other.received.length, late.received.length]).toEqual([1, 0, 0]);
    expect(scene.counts.built).toBe(1);
  });

  it("[A306] a reader that disconnects while it is slow leaves no timer behind", () => {
    const scene = openFixture();
    const reader = openFeed(scene, allBeats);
    reader.sink.waitingBytes = volatileFeedLimits.waitingBytesMax + 1;
    scene.beat("a", 1);
    reader.end();
    reader.take();
    scene.outside.advance(1_000);

    expect(reader.received).toEqual([]);
  });

  it("[A309] a reader gets at most 200 frames a second, and the next frame contains the number of frames left out", () => {
    const scene = openFixture();
    const reader = openFeed(scene, allFrames);
    for (let n = 0; n < 250; n++) scene.frame(frameOf(`f-${n}`));
    expect(reader.received).toHaveLength(200);
    scene.outside.advance(1_000);
    scene.frame(frameOf("g-1"));
    scene.frame(frameOf("g-2"));

    expect(reader.data().slice(200)).toMatchObject([{ id: "g-1", skipped: 50 }, { id: "g-2" }]);
    expect(reader.data()[201]).not.toHaveProperty("skipped");
    reader.sink.waitingBytes = volatileFeedLimits.waitingBytesMax + 1;
    scene.frame(frameOf("h-1"));
    reader.take();
    scene.frame(frameOf("h-2"));
    expect(reader.data().at(-1)).toMatchObject({ id: "h-2", skipped: 1 });
  });

  it("[A353] a frame is serialised once for all readers that have missed none, and again for one that has", () => {
    const scene = openFixture();
    const readers = Array.from({ length: 50 }, () => openFeed(scene, allFrames));
    let read = 0;
    const watched = Object.defineProperty(frameOf("f-1"), "bytes", { get: () => ++read, enumerable: true });
    const [late] = readers;
    if (late !== undefined) late.sink.waitingBytes = volatileFeedLimits.waitingBytesMax + 1;
    scene.frame(frameOf("f-0"));
    late?.take();

    scene.frame(watched);

    expect(read).toBe(2);
    expect(readers.map(({ data }) => data().at(-1)?.["skipped"])).toEqual([1, ...Array.from({ length: 49 }, () => undefined)]);
    expect(new Set(readers.slice(1).map(({ received }) => JSON.stringify(received.at(-1)))).size).toBe(1);
  });

  it("[A310] wire frames are filtered by worker, by run (frames of batches too), and by type or its leading segments", () => {
    const scene = openFixture();
    const ids = (wish: Partial<NonNullable<VolatileFilter["frame"]>>) => {
      const none = { workerName: undefined, runId: undefined, frameType: undefined };
      const reader = openFeed(scene, { heartbeat: null, frame: { ...none, ...wish } });
      scene.frame(frameOf("f-1", { run: "r1", task: "r1.0" }));
      scene.frame(frameOf("f-2", { type: "biz.exec.result.batch", tasks: ["r2.0#1", "r1.3#4"] }));
      scene.frame(frameOf("f-3", { type: "control.ack", workerName: "other" }));
      reader.end();
      return reader.data().map((one) => one["id"]);
    };

    expect(ids({})).toEqual(["f-1", "f-2", "f-3"]);
    expect(ids({ workerName: "other" })).toEqual(["f-3"]);
    expect(ids({ runId: "r1" })).toEqual(["f-1", "f-2"]);
    expect(ids({ runId: "r2" })).toEqual(["f-2"]);
    expect(ids({ frameType: "biz.exec" })).toEqual(["f-1", "f-2"]);
    expect(ids({ frameType: "biz.exec.res" })).toEqual([]);
    expect(ids({ frameType: "control.ack" })).toEqual(["f-3"]);
  });
});
