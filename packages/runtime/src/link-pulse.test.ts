import { describe, expect, it } from "vitest";
import { Rig, readyRig, succeeded } from "../test/link-rig.ts";

describe("the lease", () => {
  it("[W16] stops and drops what runs once nine tenths of the lease have passed since the last answered beat was sent", () => {
    const rig = readyRig({}, { heartbeat_interval_ms: 10_000, lease_ms: 30_000 });
    rig.dispatch("a");
    rig.flush();
    rig.advance(10_000);
    const beat = rig.last("control.heartbeat");
    rig.advance(4_000);
    rig.ackNamed(beat.id); // sent at 10 s: the lease is safe until 37 s, whenever the answer came
    rig.link.lost("gone");

    rig.advance(22_999);
    expect(rig.attempt("a").stop.isStopped).toBe(false);
    rig.advance(1);

    expect(rig.attempt("a").stop.isStopped).toBe(true);
    expect(rig.noted("self-fenced")).toHaveLength(1);
    rig.finish("a");
    rig.connect();
    expect(rig.payload("control.register").running).toEqual([]);
    expect(rig.frames("biz.exec.result")).toHaveLength(0);
  });

  it("[W16] keeps results that were known before the lease ran out", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.dispatch("b");
    rig.flush();
    rig.link.lost("gone");
    rig.finish("a");

    rig.advance(27_000);
    rig.connect();

    expect(rig.payload("control.register").running).toEqual([{ task_id: "a", fence: 1 }]);
    expect(rig.frames("biz.exec.result").map((frame) => frame.corr)).toEqual(["a"]);
  });

  it("[W16] fences itself before it takes in anything else after a long sleep", () => {
    const rig = readyRig();
    rig.dispatch("a");
    rig.flush();

    rig.now += 3_600_000; // stopped and continued: no timer has fired yet
    rig.link.finished(rig.attempt("a"), succeeded());
    rig.flush();

    expect(rig.frames("biz.exec.result")).toHaveLength(0);
    expect(rig.link.view.held).toBe(0);
  });

  it("[W16] asks for a new lease by a new register when beats go unanswered on a live socket", () => {
    const rig = readyRig({}, { heartbeat_interval_ms: 20_000, lease_ms: 30_000 });
    rig.dispatch("a");
    rig.flush();

    rig.advance(27_000);

    expect(rig.hangUps).toEqual([{ code: 1001, reason: "the lease ran out without an answer" }]);
    expect(rig.dials).toBe(2);
  });

  it("[W16] never fences itself where no lease was announced", () => {
    const rig = new Rig();
    rig.link.begin();
    rig.connect({ lease_ms: undefined });
    rig.dispatch("a");
    rig.link.lost("gone");

    rig.advance(3_600_000);

    expect(rig.attempt("a").stop.isStopped).toBe(false);
  });
});

describe("what a heartbeat says", () => {
  it("[W94] tells the worker's numbers, those of its own outbox and how long the last answer took", () => {
    const rig = readyRig({}, { heartbeat_interval_ms: 4_000 });
    rig.vitals = { metrics: { cpu_pct: 40, mem_pct: 50.5, disk_pct: 60, strange: Number.NaN }, problems: [] };
    rig.dispatch("a");
    rig.dispatch("b");
    rig.finish("a");
    rig.link.sendExt({ type: "ext.vendor.acme.note", payload: "{}" });
    rig.flush();

    rig.advance(4_000);
    expect(rig.payload("control.heartbeat")).toMatchObject({
      healthy: true,
      metrics: { cpu_pct: 40, mem_pct: 50.5, disk_pct: 60, inflight: 1, unacked: 2, outbox: 1 },
    });
    expect(rig.payload("control.heartbeat").metrics).not.toHaveProperty("latency_ms");
    expect(rig.payload("control.heartbeat").metrics).not.toHaveProperty("strange");
    rig.advance(70);
    rig.ackNamed(rig.last("control.heartbeat").id);
    rig.advance(4_000);

    expect(rig.payload("control.heartbeat").metrics.latency_ms).toBe(70);
  });

  it("[W94] says that it is not well while it has problems, at once when told to look, and counts such beats", () => {
    const rig = readyRig();
    rig.vitals = { metrics: {}, problems: ["memory is at 97 %"] };
    rig.link.healthChanged();
    expect(rig.payload("control.heartbeat").healthy).toBe(false);
    rig.dispatch("a"); // it may still be given work, and does it
    expect(rig.started).toHaveLength(1);
    rig.vitals = { metrics: {}, problems: [] };
    rig.link.healthChanged();

    expect(rig.payload("control.heartbeat").healthy).toBe(true);
    expect([...rig.counted]).toEqual([
      ["heartbeat_sent_total", 2],
      ["heartbeat_degraded_total", 1],
    ]);
    expect(rig.noted("unhealthy")[0]?.message).toContain("memory is at 97 %");
    expect(rig.noted("healthy")).toHaveLength(1);
  });

  it("[W133] asks how the worker is by the thresholds its scheduler announced last", () => {
    const rig = readyRig({}, { drain_mem_pct: 70 });
    rig.link.healthChanged();

    expect(rig.announced).toEqual({ memPct: 70, diskPct: null });
  });

  it("[W94] says in every session that it is not well", () => {
    const rig = readyRig();
    rig.vitals = { metrics: {}, problems: ["no disk left"] };
    rig.link.healthChanged();

    rig.link.lost("gone");
    rig.advance(0);
    rig.resume(-1);

    expect(rig.frames("control.heartbeat").map((beat) => beat.payload["healthy"])).toEqual([false, false]);
  });

  it("[W94] says at once that it is well again, where that came while there was no session", () => {
    const rig = readyRig();
    rig.vitals = { metrics: {}, problems: ["no disk left"] };
    rig.link.healthChanged();
    rig.link.lost("gone");
    rig.vitals = { metrics: {}, problems: [] };
    rig.advance(0);
    rig.resume(-1);

    expect(rig.frames("control.heartbeat").map((beat) => beat.payload["healthy"])).toEqual([false, true]);
  });

  it("[W94] says so at once in its first session too, judged by what that announced, and is silent there while it is well", () => {
    const rig = new Rig();
    rig.vitals = { metrics: {}, problems: ["no disk left"] };
    rig.link.begin();
    rig.connect({ drain_disk_pct: 80 });

    expect(rig.frames("control.heartbeat").map((beat) => beat.payload["healthy"])).toEqual([false]);
    expect(rig.announced).toEqual({ memPct: null, diskPct: 80 });
    expect(readyRig().frames("control.heartbeat")).toHaveLength(0);
  });

  it("[W94] names what is installed by a digest, and in full from a change on until that was heard", () => {
    const rig = readyRig({}, { heartbeat_interval_ms: 1_000 });
    const told = () => rig.payload("control.heartbeat").packages;
    rig.advance(1_000);
    rig.ackNamed(rig.last("control.heartbeat").id);
    const before = told();
    expect(before).toEqual({ hash: expect.stringMatching(/^[0-9a-f]{32}$/) as string });

    rig.packages = [...rig.packages, { name: "more", version: "2.0.0", status: "installed" }];
    rig.advance(1_000);
    expect(told()?.installed).toHaveLength(2);
    expect(told()?.hash).not.toBe(before?.hash);
    rig.advance(1_000);
    expect(told()?.installed).toHaveLength(2);
    rig.ackNamed(rig.last("control.heartbeat").id);
    rig.packages = [...rig.packages].reverse();
    rig.advance(1_000);

    expect(told()?.installed).toBeUndefined();
  });

  it("[W94] takes what a register told as told", () => {
    const rig = readyRig({}, { heartbeat_interval_ms: 1_000 });
    rig.packages = [];
    rig.say("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
    rig.advance(0);
    rig.connect({ heartbeat_interval_ms: 1_000 });

    rig.advance(1_000);

    expect(rig.payload("control.heartbeat").packages?.installed).toBeUndefined();
  });
});
