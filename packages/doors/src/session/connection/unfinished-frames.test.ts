import { limits } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { UnfinishedFrames } from "./unfinished-frames.ts";

const KiB = 1024;

describe("frames that have not arrived as a whole", () => {
  it("[D1450] their bytes are counted from frame to frame, without pings, and no more after the socket has gone", () => {
    const frames = new UnfinishedFrames(1_000 * KiB);
    const one = frames.add(() => expect.unreachable());
    const other = frames.add(() => expect.unreachable());

    one.countBytes(100);
    one.countBytes(131);
    one.discount(131);
    other.countBytes(50);
    expect(frames.bytes).toBe(150);
    one.finish();
    expect(frames.bytes).toBe(50);
    other.remove();
    other.countBytes(10);
    expect(frames.bytes).toBe(0);
  });

  it("[D1451] when all of them hold too much, the sockets that hold most are refused with E.OVERLOADED", () => {
    const frames = new UnfinishedFrames(1_000 * KiB);
    const refused: string[] = [];
    const add = (name: string) => frames.add(({ code }) => void refused.push(`${name} ${code}`));
    const sockets = { a: add("a"), b: add("b"), c: add("c") };

    sockets.a.countBytes(300 * KiB);
    sockets.b.countBytes(500 * KiB);
    sockets.c.countBytes(200 * KiB);
    expect(refused).toEqual([]);
    sockets.c.countBytes(KiB);

    expect(refused).toEqual(["b E.OVERLOADED"]);
    expect(frames.bytes).toBe(501 * KiB);
  });
});

describe("workers that send frames in parts", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());

  const part = Buffer.alloc(256 * KiB, "x");
  const sendParts = (socket: { send(data: Buffer, options: object): void }, count: number): void => {
    for (let at = 0; at < count; at += 1) socket.send(part, { fin: false, binary: false });
  };

  it("[D1451] the one that holds most is reset with E.OVERLOADED while others go on, and its bytes count no more", async () => {
    fixture = await openDoorsFixture({ limits: { unfinishedFramesBytesMax: 2_000 * KiB } });
    const honest = await fixture.openSession({ instance: "w-honest" });
    const greedy = await fixture.openSession({ instance: "w-greedy" });
    sendParts(honest.socket, 1);
    await honest.untilProcessed();

    sendParts(greedy.socket, 8);

    expect((await greedy.nextFrame("control.reset")).payload["code"]).toBe("E.OVERLOADED");
    await honest.untilProcessed();
    expect(honest.frames.map(({ type }) => type)).not.toContain("control.reset");
    const { bytes } = /^ws_unfinished_bytes (?<bytes>\d+)$/m.exec(fixture.metrics.render())?.groups ?? {};
    expect(Number(bytes)).toBeLessThan(2 * part.length);
    fixture.environment.advance(1);
    await greedy.closed;
  });

  it("[D1452] a frame that has more than it may is refused with E.FRAME.TOO_LARGE before it is there as a whole", async () => {
    fixture = await openDoorsFixture();
    const worker = await fixture.openSession();

    sendParts(worker.socket, limits.frameBytesMax / part.length + 2);

    expect((await worker.nextFrame("control.reset")).payload["code"]).toBe("E.FRAME.TOO_LARGE");
  });

  it("[D1450] a worker whose frames come in parts and as a whole in turn is never refused for what it has sent before", async () => {
    fixture = await openDoorsFixture({ limits: { unfinishedFramesBytesMax: 600 * KiB } });
    const worker = await fixture.openSession();
    const heartbeat = JSON.stringify({
      type: "control.heartbeat",
      id: "h",
      ts: new Date(0).toISOString(),
      tenant: "default",
      sender: { role: "worker", id: "w-1" },
      payload: { healthy: true, metrics: { more: "x".repeat(300 * KiB) } },
    });

    for (let at = 0; at < 8; at += 1) {
      worker.socket.send(heartbeat.slice(0, 200 * KiB), { fin: false, binary: false });
      worker.socket.send(heartbeat.slice(200 * KiB), { fin: true, binary: false });
    }
    await worker.untilProcessed();

    expect(worker.frames.map(({ type }) => type)).not.toContain("control.reset");
  });
});
