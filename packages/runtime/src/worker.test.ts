import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { InMemoryOutboxDisk } from "../test/in-memory-outbox-disk.ts";
import { realEnvironment, sampleIdentity } from "../test/sample-worker.ts";
import { ScriptedScheduler } from "../test/scripted-scheduler.ts";
import { loadPackages } from "./handlers/package-loader.ts";
import type { LinkLogEvent } from "./scheduler-link/link-ports.ts";
import type { DialerEvents } from "./scheduler-link/websocket-dialer.ts";
import { createWorker, type SessionWorker, type SessionWorkerOptions, type WorkerLogEvent } from "./worker.ts";

const examples = fileURLToPath(new URL("../../../examples/packages", import.meta.url));
const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

interface Scene {
  readonly scheduler: ScriptedScheduler;
  readonly worker: SessionWorker;
  readonly notes: (LinkLogEvent | WorkerLogEvent)[];
}

async function open(more: Partial<SessionWorkerOptions> = {}): Promise<Scene> {
  const scheduler = await ScriptedScheduler.open();
  endings.push(() => scheduler.close());
  const workRoot = mkdtempSync(path.join(tmpdir(), "worker-"));
  endings.push(() => rm(workRoot, { recursive: true, force: true }));
  const notes: Scene["notes"] = [];
  const worker = createWorker({
    url: scheduler.url,
    identity: sampleIdentity,
    capabilities: { maxParallel: 4, runtimes: ["node"], features: [] },
    loadedPackages: await loadPackages(examples),
    workRoot,
    environment: realEnvironment,
    log: (event) => notes.push(event),
    ...more,
  });
  endings.push(async () => {
    worker.stop();
    await worker.closed;
  });
  worker.start();
  return { scheduler, worker, notes };
}

describe("a worker on a real socket", () => {
  it("[W50] a worker on a real socket completes the exchange: handshake, register, accept, heartbeat, dispatch, ack, feedback, result", async () => {
    const { scheduler, worker } = await open();
    const register = await scheduler.acceptSession({ heartbeat_interval_ms: 20 });
    expect(register.payload["packages"]).toEqual(
      (await loadPackages(examples)).packages.map(({ name }) => ({ name, version: "1.0.0", status: "installed" })),
    );

    await scheduler.nextFrame("control.heartbeat");
    scheduler.dispatch("t1", "demo.transform", { text: "hello", mode: "uppercase" });
    const ack = await scheduler.nextFrame("control.ack");
    const result = await scheduler.nextFrame("biz.exec.result");
    scheduler.dispatch("t2", "demo.delay", { durationMs: 1, text: "x" });
    const feedback = await scheduler.nextFrame("biz.exec.feedback", ({ payload }) => payload["stage"] === "done");
    await scheduler.nextFrame("biz.exec.result");

    expect(ack.payload).toMatchObject({ ok: true, ack_seq: 0 });
    expect(result).toMatchObject({
      seq: 0,
      corr: "t1",
      payload: { task_id: "t1", fence: 1, status: "SUCCEEDED", result: { text: "HELLO" } },
    });
    expect(feedback.payload).toMatchObject({ task_id: "t2", progress: 1 });
    expect(worker.status.phase).toBe("READY");
  });

  it("[W50] a worker answers the dispatch of an unknown node and a failing handler with errors", async () => {
    const { scheduler } = await open();
    await scheduler.acceptSession();

    scheduler.dispatch("t1", "demo.nothing");
    scheduler.dispatch("t2", "demo.fail", { times: 1 });

    expect((await scheduler.nextFrame("biz.exec.error")).payload).toMatchObject({ task_id: "t1", code: "E.CMD.UNKNOWN" });
    expect((await scheduler.nextFrame("biz.exec.error")).payload).toMatchObject({ task_id: "t2", code: "E.RUNNER.FAILURE" });
  });

  it("[W50] a worker keeps its work over a dropped connection and delivers the result on the next one", async () => {
    const { scheduler } = await open();
    scheduler.isAcking = false;
    await scheduler.acceptSession();
    scheduler.dispatch("t1", "demo.text", { text: "kept" });
    scheduler.dispatch("t2", "demo.delay", { durationMs: 3_600_000 });
    const first = await scheduler.nextFrame("biz.exec.result");

    scheduler.dropConnection();
    const register = await scheduler.acceptSession();
    const again = await scheduler.nextFrame("biz.exec.result");

    expect(register.payload["running"]).toEqual([
      { task_id: "t1", fence: 1 },
      { task_id: "t2", fence: 1 },
    ]);
    expect(again).toEqual({ ...first, ts: expect.any(String) as string });
    // The second was asked to go on with the session and did not know it.
    expect(scheduler.connections).toBe(3);
  });

  it("[W65] a worker connects to its next address when one is gone, and registers there with what it holds", async () => {
    const other = await ScriptedScheduler.open();
    endings.push(() => other.close());
    const first = await ScriptedScheduler.open();
    await open({ url: [first.url, other.url] });
    await first.acceptSession();
    first.dispatch("t1", "demo.delay", { durationMs: 3_600_000 });
    await first.nextFrame("biz.exec.feedback");

    await first.close();
    const register = await other.acceptSession();

    expect(register.payload["running"]).toEqual([{ task_id: "t1", fence: 1 }]);
    // It asked first whether the session could go on there.
    expect(other.receivedFrames.map(({ type }) => type).slice(0, 3)).toEqual([
      "control.resume",
      "control.handshake",
      "control.register",
    ]);
  });

  it("[W51] a draining worker that is stopped gives back at once what it must not finish, and leaves with a normal close", async () => {
    const { scheduler, worker } = await open();
    await scheduler.acceptSession();
    scheduler.dispatch("t1", "demo.delay", { durationMs: 3_600_000 });
    await scheduler.nextFrame("biz.exec.feedback");

    worker.drain(3_600_000);
    expect((await scheduler.nextFrame("control.heartbeat")).payload).toMatchObject({ healthy: false, draining: true });
    expect(worker.status.phase).toBe("DRAINING");
    worker.stop();
    await worker.closed;

    expect((await scheduler.nextFrame("biz.exec.error")).payload).toMatchObject({ task_id: "t1", code: "E.RUNNER.CANCELLED" });
    await scheduler.connectionsEnded(1);
    expect(scheduler.closeCodes).toEqual([1000]);
  });

  it("[W51] a worker ends its drain when the grace period is over", async () => {
    const { scheduler, worker } = await open();
    await scheduler.acceptSession();
    scheduler.dispatch("t1", "demo.delay", { durationMs: 3_600_000 });
    await scheduler.nextFrame("biz.exec.feedback");

    worker.drain(1);
    await worker.closed;

    expect((await scheduler.nextFrame("biz.exec.error")).payload).toMatchObject({ code: "E.RUNNER.CANCELLED" });
  });
});

describe("a worker with an outbox on disk", () => {
  it("[W84] a worker with an outbox on disk sends nothing that the disk did not take, shows that in heartbeats, and continues when it does", async () => {
    const outbox = new InMemoryOutboxDisk();
    outbox.failNextCalls("append", "ENOSPC", 2);
    const { scheduler, notes } = await open({ outbox });
    await scheduler.acceptSession();

    scheduler.dispatch("t1", "demo.text", { text: "kept" });
    expect((await scheduler.nextFrame("control.heartbeat")).payload).toMatchObject({
      healthy: false,
      held: [{ task_id: "t1", fence: 1 }],
    });
    expect(scheduler.receivedFrames.filter(({ type }) => type === "biz.exec.result")).toEqual([]);
    expect((await scheduler.nextFrame("control.heartbeat")).payload).toMatchObject({ healthy: true });
    const result = await scheduler.nextFrame("biz.exec.result");

    expect(result.payload).toMatchObject({ task_id: "t1", result: { text: "kept" } });
    expect(notes.map(({ event }) => event).filter((event) => event.startsWith("outbox"))).toEqual([
      "outbox-failed",
      "outbox-failed",
      "outbox-mended",
    ]);
  });

  it("[W84] a worker stops before it dials when the outbox that an earlier process left is damaged", async () => {
    const outbox = new InMemoryOutboxDisk();
    const first = await open({ outbox });
    await first.scheduler.acceptSession();
    for (const task of ["t1", "t2"]) {
      first.scheduler.dispatch(task, "demo.text", { text: "x" });
      await first.scheduler.nextFrame("biz.exec.result");
    }
    first.worker.stop();
    await first.worker.closed;
    (outbox.file as Buffer)[20] = 0;

    const second = await open({ outbox });
    await second.worker.closed;

    expect(second.notes.map(({ event }) => event)).toEqual(["outbox-damaged", "phase", "closed"]);
    expect(second.scheduler.connections).toBe(0);
  });

  it("[W84] a worker communicates over whatever dialer it is given", async () => {
    const sent: string[] = [];
    const done: string[] = [];
    let listener: DialerEvents | undefined;
    const { worker, scheduler } = await open({
      createDialer: (events) => {
        listener = events;
        return {
          dial: () => void done.push("dial"),
          send: (text) => void sent.push(text),
          closeConnection: (code, reason) => void done.push(`hang up ${code} ${reason}`),
          whenClosed: () => Promise.resolve(),
        };
      },
    });

    listener?.connectionOpened();
    worker.stop();
    await worker.closed;

    expect(sent.map((text) => (JSON.parse(text) as { type: string }).type)).toEqual(["control.handshake"]);
    expect(done).toEqual(["dial", "hang up 1000 stopped"]);
    expect(scheduler.connections).toBe(0);
  });
});
