import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import type { FakeWorker } from "../testing/fake-worker.ts";
import { type House, openHouse } from "../testing/house.ts";

const asks = { ack: { request: true } };
const sentTo = (worker: FakeWorker) => worker.frames.slice(3).map((frame) => [frame.type, frame.seq]);

describe("frames that are not acknowledged", () => {
  let house: House;
  beforeEach(async () => {
    house = await openHouse();
  });
  afterEach(() => house.stop());

  const open = async (features: readonly string[] = ["fence", "cancel", "held"]) => {
    const worker = await house.worker({ features });
    const { session } = await house.engine.next("worker.join");
    return { worker, session };
  };
  const stop = (session: string, task: string) =>
    ({
      type: "stop",
      session,
      worker: "default/w-1",
      tenant: "default",
      run: "r",
      task,
      fence: 7,
      code: "E.DISPATCH.UNAVAILABLE",
      reason: "not acked in time",
    }) as const;

  it("[D33] are sent again after about 5 s under the same number and id, and no sooner", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, "r.0", 7), dispatchTo(session, "r.1", 7));
    const first = await worker.next("biz.exec.dispatch");
    await worker.next("biz.exec.dispatch");
    worker.say("control.ack", { ok: true, ack_seq: -1, ack_bitmap: 2 });
    await engine.next("task.ack");

    outside.advance(3_999);
    await worker.settle();
    expect(sentTo(worker)).toHaveLength(2);
    outside.advance(2_001);

    const { ts, ...again } = await worker.next("biz.exec.dispatch");
    expect(again).toEqual({ ...first, ts: undefined });
    await worker.settle();
    expect(sentTo(worker)).toHaveLength(3);
    expect(house.metrics.text()).toContain('ws_frame_repeat_total{tenant="default",dir="out"} 1');
  });

  it("[D33] end the socket after six sends, never the session: on the next socket they come again", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, "r.0", 7));
    await worker.next("biz.exec.dispatch");
    const beat = () => worker.say("control.heartbeat", { healthy: true, metrics: { inflight: 0 } });

    for (let s = 0; s < 180 && worker.socket.readyState === worker.socket.OPEN; s += 5) {
      outside.advance(5_000);
      beat();
      // With the last send the socket ends, and what waits on it with it; that it does is asserted below.
      await Promise.allSettled([worker.settle()]);
    }
    expect((await worker.closed).code).toBe(1006);
    expect(sentTo(worker).filter(([type]) => type === "biz.exec.dispatch")).toHaveLength(6);
    await engine.next("worker.leave");

    const back = await house.dial();
    back.say("control.resume", { session_id: session, session_token: "session-token-0", last_seen_seq: -1 }, asks);
    expect(await back.next("biz.exec.dispatch")).toMatchObject({ seq: 0, id: "r.0#7" });
  });

  it("[D34] and were taken back go again as a filler that means nothing, before the cancel that follows them", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open();
    engine.say(dispatchTo(session, "r.0", 7), dispatchTo(session, "r.1", 7));
    await worker.next("biz.exec.dispatch");
    await worker.next("biz.exec.dispatch");

    engine.say(stop(session, "r.0"));
    expect((await worker.next("biz.exec.cancel")).seq).toBe(2);
    outside.advance(7_000);
    expect(await worker.next("ext.vendor.astraflow.void")).toMatchObject({ seq: 0, payload: {} });
    expect((await worker.next("biz.exec.dispatch")).seq).toBe(1);
    worker.say("control.ack", { ok: true, ack_seq: 2, ack_bitmap: 0 });

    expect((await engine.next("task.ack")).held).toEqual([{ task: "r.1", fence: 7 }]);
  });

  it("[D34] and share a frame with one that was taken back go again without it", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open(["batch", "fence"]);
    engine.say(...[0, 1, 2].map((n) => dispatchTo(session, `r.${n}`, 7)));
    const whole = await worker.next("biz.exec.dispatch.batch");

    engine.say(stop(session, "r.1"));
    outside.advance(6_000);
    const rest = await worker.next("biz.exec.dispatch.batch");

    expect([rest.seq, rest.id]).toEqual([whole.seq, whole.id]);
    expect((rest.payload["items"] as { task_id: string }[]).map((item) => item.task_id)).toEqual(["r.0", "r.2"]);
  });

  it("[D34] stay when an older attempt of the same task is taken back", async () => {
    const { engine, outside } = house;
    const { worker, session } = await open([]);
    engine.say(dispatchTo(session, "r.0", 8));
    await worker.next("biz.exec.dispatch");

    engine.say(stop(session, "r.0"));
    outside.advance(6_000);

    expect(await worker.next("biz.exec.dispatch")).toMatchObject({ seq: 0, id: "r.0#8" });
  });

  it("[D34] vanish without a trace when they are taken back before they were sent", async () => {
    await house.stop();
    house = await openHouse({ limits: { sendWindow: 1 } });
    const { engine } = house;
    const { worker, session } = await open([]);
    engine.say(...[0, 1, 2].map((n) => dispatchTo(session, `r.${n}`, 7)));
    await worker.next("biz.exec.dispatch");

    engine.say(stop(session, "r.1"));
    worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });

    expect(await worker.next("biz.exec.dispatch")).toMatchObject({ seq: 1, id: "r.2#7" });
  });
});

describe("windows", () => {
  let house: House;
  afterEach(() => house.stop());
  const windowsOf = (worker: FakeWorker) => {
    const accept = worker.frames.find((frame) => frame.type === "control.session.accept")?.payload;
    return [accept?.["send_window"], accept?.["recv_window"]];
  };

  it("[D35] are 64 frames wide, 1,024 for workers that announced wide, and what a tenant has of its own before both", async () => {
    house = await openHouse({ tenants: { other: { sendWindow: 5, recvWindow: 7 } } });
    const plain = await house.worker({ instance: "w-1" });
    const wide = await house.worker({ instance: "w-2", features: ["wide"] });
    const other = await house.dial({ tenant: "other" });
    other.say("control.handshake", { ...handshakeOf("secret-b") }, asks);
    other.say("control.register", { ...registerOf(["wide"]) }, asks);
    await other.next("control.session.accept");

    expect([windowsOf(plain), windowsOf(wide), windowsOf(other)]).toEqual([
      [64, 64],
      [1_024, 1_024],
      [5, 7],
    ]);
    const { session } = await house.engine.next("worker.join");
    house.engine.say(...Array.from({ length: 70 }, (_, n) => dispatchTo(session, `r.${n}`, 7)));
    for (let n = 0; n < 64; n += 1) await plain.next("biz.exec.dispatch");
    await plain.settle();
    expect(plain.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(64);
  });

  it("[D35] hold 8 MiB, however few frames that is", async () => {
    house = await openHouse();
    const worker = await house.worker();
    const { session } = await house.engine.next("worker.join");
    const params = JSON.stringify({ text: "x".repeat(3_000_000) });
    house.engine.say(...[0, 1, 2].map((n) => dispatchTo(session, `r.${n}`, 7, { params })));

    await worker.next("biz.exec.dispatch");
    await worker.next("biz.exec.dispatch");
    for (let n = 0; n < 20; n += 1) await worker.settle();
    expect(worker.frames.filter((frame) => frame.type === "biz.exec.dispatch")).toHaveLength(2);
    worker.say("control.ack", { ok: true, ack_seq: 0, ack_bitmap: 0 });

    expect((await worker.next("biz.exec.dispatch")).seq).toBe(2);
  });
});

const handshakeOf = (token: string) => ({
  protocol: 2,
  auth: { mode: "token", token },
  worker: { worker_name: "w", worker_instance_id: "w-1", version: "1", hostname: "box" },
});
const registerOf = (features: readonly string[]) => ({
  capabilities: { concurrency: { max_parallel: 4 }, features },
  boot_id: "b",
  running: [],
});
