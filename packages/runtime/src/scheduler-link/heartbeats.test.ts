import { describe, expect, it } from "vitest";
import { LinkHarness, readyLinkHarness, succeededOutcome } from "../../test/link-harness.ts";
import { Lease } from "./heartbeats.ts";

describe("the lease", () => {
  it("[W16] a worker stops and drops running attempts once nine tenths of the lease have passed since it sent the last answered heartbeat", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 10_000, lease_ms: 30_000 });
    harness.dispatch("a");
    harness.flush();
    harness.advance(10_000);
    const beat = harness.lastFrame("control.heartbeat");
    harness.advance(4_000);
    harness.ackById(beat.id); // sent at 10 s: the lease is safe until 37 s, whenever the answer came
    harness.link.connectionLost("gone");

    harness.advance(22_999);
    expect(harness.attempt("a").stopSignal.isStopped).toBe(false);
    harness.advance(1);

    expect(harness.attempt("a").stopSignal.isStopped).toBe(true);
    expect(harness.eventsNamed("self-fenced")).toHaveLength(1);
    harness.finish("a");
    harness.openSession();
    expect(harness.payload("control.register").running).toEqual([]);
    expect(harness.frames("biz.exec.result")).toHaveLength(0);
  });

  it("[W16] a worker keeps results that were finished before the lease ran out", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.dispatch("b");
    harness.flush();
    harness.link.connectionLost("gone");
    harness.finish("a");

    harness.advance(27_000);
    harness.openSession();

    expect(harness.payload("control.register").running).toEqual([{ task_id: "a", fence: 1 }]);
    expect(harness.frames("biz.exec.result").map((frame) => frame.corr)).toEqual(["a"]);
  });

  it("[W16] a worker that was suspended for long fences itself before it processes anything else", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a");
    harness.flush();

    harness.now += 3_600_000; // stopped and continued: no timer has fired yet
    harness.link.attemptFinished(harness.attempt("a"), succeededOutcome());
    harness.flush();

    expect(harness.frames("biz.exec.result")).toHaveLength(0);
    expect(harness.link.status.held).toBe(0);
  });

  it("[W16] a worker whose heartbeats go unanswered on a live socket closes it when the lease runs out, and dials again", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 20_000, lease_ms: 30_000 });
    harness.dispatch("a");
    harness.flush();

    harness.advance(27_000);

    expect(harness.closedConnections).toEqual([{ code: 1001, reason: "the lease expired before the scheduler answered" }]);
    expect(harness.dials).toBe(2);
  });

  it("[W16] a worker never fences itself where no lease was announced", () => {
    const harness = new LinkHarness();
    harness.link.start();
    harness.openSession({ lease_ms: undefined });
    harness.dispatch("a");
    harness.link.connectionLost("gone");

    harness.advance(3_600_000);

    expect(harness.attempt("a").stopSignal.isStopped).toBe(false);
  });
});

describe("a lease whose accept comes late", () => {
  /** When the worker stops what runs, in ms after the register or the resume was sent. */
  function stopTime(harness: LinkHarness, sentAt: number): number {
    harness.dispatch("a");
    harness.flush();
    harness.link.connectionLost("gone");
    for (let steps = 0; steps < 200 && !harness.attempt("a").stopSignal.isStopped; steps++) harness.advance(500);
    return harness.now - sentAt;
  }

  it.each([0, 3_000, 9_500])(
    "[W16] the lease of a session counts from when its register was sent, though its accept came %i ms later",
    (lateMs) => {
      const harness = new LinkHarness();
      harness.link.start();
      harness.link.connectionOpened();
      harness.advance(2_000);
      harness.ackById(harness.lastFrame("control.handshake").id);
      const sentAt = harness.now;
      harness.ackById(harness.lastFrame("control.register").id);
      harness.advance(lateMs);
      harness.acceptSession({ lease_ms: 30_000 });
      harness.flush();

      expect(stopTime(harness, sentAt)).toBe(27_000);
    },
  );

  it.each([0, 3_000, 9_500])(
    "[W16] the lease of a resumed session counts from when its resume was sent, though its accept came %i ms later",
    (lateMs) => {
      const harness = readyLinkHarness();
      harness.advance(5_000);
      harness.link.connectionLost("gone");
      harness.advance(0);
      harness.link.connectionOpened();
      const sentAt = harness.now;
      harness.ackById(harness.lastFrame("control.resume").id);
      harness.advance(lateMs);
      // Without a lease of its own it goes on with the one that was granted.
      harness.sendToLink("control.session.accept", { session_id: "s", session_token: "t2", resumed: true });
      harness.flush();

      expect(stopTime(harness, sentAt)).toBe(27_000);
    },
  );

  it("[W16] an answer that comes after the lease has ended does not begin it again", () => {
    const lease = new Lease({ safetyMargin: 0.1, missedHeartbeatsMax: 3 });
    lease.grant(10_000, 0);
    lease.heartbeatSent("beat", 5_000);
    lease.expire();

    lease.heartbeatAnswered("beat");

    expect(lease.selfFenceAt).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("what a heartbeat says", () => {
  it("[W94] a heartbeat contains the worker's metrics, those of its own outbox and how long the last answer took", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 4_000 });
    harness.health = { metrics: { cpu_pct: 40, mem_pct: 50.5, disk_pct: 60, strange: Number.NaN }, problems: [] };
    harness.dispatch("a");
    harness.dispatch("b");
    harness.finish("a");
    harness.link.vendorFrameSent({ type: "ext.vendor.acme.note", payload: "{}" });
    harness.flush();

    harness.advance(4_000);
    expect(harness.payload("control.heartbeat")).toMatchObject({
      healthy: true,
      metrics: { cpu_pct: 40, mem_pct: 50.5, disk_pct: 60, inflight: 1, unacked: 2, outbox: 1 },
    });
    expect(harness.payload("control.heartbeat").metrics).not.toHaveProperty("latency_ms");
    expect(harness.payload("control.heartbeat").metrics).not.toHaveProperty("strange");
    harness.advance(70);
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    harness.advance(4_000);

    expect(harness.payload("control.heartbeat").metrics?.latency_ms).toBe(70);
  });

  it("[W94] a worker reports itself unhealthy while it has problems, at once when its health changes, and counts such heartbeats", () => {
    const harness = readyLinkHarness();
    harness.health = { metrics: {}, problems: ["memory is at 97 %"] };
    harness.link.healthChanged();
    expect(harness.payload("control.heartbeat").healthy).toBe(false);
    harness.dispatch("a"); // it may still be given work, and does it
    expect(harness.started).toHaveLength(1);
    harness.health = { metrics: {}, problems: [] };
    harness.link.healthChanged();

    expect(harness.payload("control.heartbeat").healthy).toBe(true);
    expect([...harness.counters]).toEqual([
      ["heartbeat_sent_total", 2],
      ["heartbeat_degraded_total", 1],
    ]);
    expect(harness.eventsNamed("unhealthy")[0]?.message).toContain("memory is at 97 %");
    expect(harness.eventsNamed("healthy")).toHaveLength(1);
  });

  it("[W133] a worker judges its health by the thresholds that its scheduler announced last", () => {
    const harness = readyLinkHarness({}, { drain_mem_pct: 70 });
    harness.link.healthChanged();

    expect(harness.drainThresholds).toEqual({ memPct: 70, diskPct: null });
  });

  it("[W94] an unhealthy worker reports itself unhealthy in every session", () => {
    const harness = readyLinkHarness();
    harness.health = { metrics: {}, problems: ["no disk left"] };
    harness.link.healthChanged();

    harness.link.connectionLost("gone");
    harness.advance(0);
    harness.resumeSession(-1);

    expect(harness.frames("control.heartbeat").map((beat) => beat.payload["healthy"])).toEqual([false, false]);
  });

  it("[W94] a worker that recovered while it had no session reports itself healthy at once in the next one", () => {
    const harness = readyLinkHarness();
    harness.health = { metrics: {}, problems: ["no disk left"] };
    harness.link.healthChanged();
    harness.link.connectionLost("gone");
    harness.health = { metrics: {}, problems: [] };
    harness.advance(0);
    harness.resumeSession(-1);

    expect(harness.frames("control.heartbeat").map((beat) => beat.payload["healthy"])).toEqual([false, true]);
  });

  it("[W94] an unhealthy worker reports so at once in its first session, by the thresholds announced there; a healthy one sends nothing", () => {
    const harness = new LinkHarness();
    harness.health = { metrics: {}, problems: ["no disk left"] };
    harness.link.start();
    harness.openSession({ drain_disk_pct: 80 });

    expect(harness.frames("control.heartbeat").map((beat) => beat.payload["healthy"])).toEqual([false]);
    expect(harness.drainThresholds).toEqual({ memPct: null, diskPct: 80 });
    expect(readyLinkHarness().frames("control.heartbeat")).toHaveLength(0);
  });

  it("[W94] a heartbeat names the installed packages by a digest, and after a change in full until such a heartbeat is acked", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 1_000 });
    const reportedPackages = () => harness.payload("control.heartbeat").packages;
    harness.advance(1_000);
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    const before = reportedPackages();
    expect(before).toEqual({ hash: expect.stringMatching(/^[0-9a-f]{32}$/) as string });

    harness.packages = [...harness.packages, { name: "more", version: "2.0.0", status: "installed" }];
    harness.advance(1_000);
    expect(reportedPackages()?.installed).toHaveLength(2);
    expect(reportedPackages()?.hash).not.toBe(before?.hash);
    harness.advance(1_000);
    expect(reportedPackages()?.installed).toHaveLength(2);
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    harness.packages = [...harness.packages].reverse();
    harness.advance(1_000);

    expect(reportedPackages()?.installed).toBeUndefined();
  });

  it("[W1055] a heartbeat names what the worker keeps by a digest, and lists it after a change until such a heartbeat is acked, and in each new session", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 1_000 });
    const reported = () => harness.payload("control.heartbeat").resources;
    const keep = (hash: string, items: { resource_id: string; type: string; size_bytes: number }[]) => {
      harness.health = { ...harness.health, resources: { hash, count: items.length, items } };
    };
    harness.advance(1_000);
    expect(reported()).toBeUndefined();
    harness.ackById(harness.lastFrame("control.heartbeat").id);

    keep("h1", [{ resource_id: "page 1", type: "page", size_bytes: 1 }]);
    harness.advance(1_000);
    harness.advance(1_000);
    expect(reported()).toEqual({ hash: "h1", count: 1, items: [{ resource_id: "page 1", type: "page", size_bytes: 1 }] });
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    harness.advance(1_000);
    expect(reported()).toEqual({ hash: "h1" });
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    keep("h0", []);
    harness.advance(1_000);
    expect(reported()).toEqual({ hash: "h0", count: 0, items: [] });
    harness.ackById(harness.lastFrame("control.heartbeat").id);
    harness.sendToLink("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
    harness.advance(0);
    harness.openSession({ heartbeat_interval_ms: 1_000 });
    harness.advance(1_000);

    expect(reported()).toMatchObject({ hash: "h0", items: [] });
  });

  it("[W94] a heartbeat does not list in full the packages that the register of its session already listed", () => {
    const harness = readyLinkHarness({}, { heartbeat_interval_ms: 1_000 });
    harness.packages = [];
    harness.sendToLink("control.reset", { code: "E.SESSION.UNKNOWN", reason: "again" });
    harness.advance(0);
    harness.openSession({ heartbeat_interval_ms: 1_000 });

    harness.advance(1_000);

    expect(harness.payload("control.heartbeat").packages?.installed).toBeUndefined();
  });
});
