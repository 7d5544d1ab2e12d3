import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { realEnvironment, sampleIdentity } from "../test/sample-worker.ts";
import { ScriptedScheduler } from "../test/scripted-scheduler.ts";
import type { LinkLogEvent } from "./scheduler-link/link-ports.ts";
import { createThreadedWorker, type WorkerLogEvent } from "./worker.ts";

const examples = fileURLToPath(new URL("../../../examples", import.meta.url));
const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** The demo package, one whose module throws, and one that ends its thread when it is called. */
function makePackages(): string {
  const root = mkdtempSync(path.join(tmpdir(), "threaded-"));
  endings.push(() => rm(root, { recursive: true, force: true }));
  cpSync(path.join(examples, "packages", "demo"), path.join(root, "demo"), { recursive: true });
  const node = { status: "published", category: "Tests", adapter: "main", schema: {} };
  for (const [name, code] of Object.entries({
    broken: "throw new Error('no');",
    mortal: "export const x = () => process.exit(1);",
  })) {
    const manifest = {
      schemaVersion: "1.0.0",
      name,
      version: "1.0.0",
      description: "",
      adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: [`${name}.x`] }],
      node: { requires: ">=22" },
      nodes: [{ ...node, type: `${name}.x`, label: name, handler: "x" }],
    };
    mkdirSync(path.join(root, name));
    writeFileSync(path.join(root, name, "manifest.json"), JSON.stringify(manifest));
    writeFileSync(path.join(root, name, "main.mjs"), code);
  }
  return root;
}

async function open() {
  const scheduler = await ScriptedScheduler.open();
  endings.push(() => scheduler.close());
  const notes: (LinkLogEvent | WorkerLogEvent)[] = [];
  const packagesDir = makePackages();
  const durations: string[] = [];
  const worker = await createThreadedWorker({
    url: scheduler.url,
    identity: sampleIdentity,
    capabilities: { maxParallel: 4, runtimes: ["node"], features: [] },
    packagesDir,
    workRoot: packagesDir,
    environment: realEnvironment,
    attemptEnded: ({ dispatch }) => durations.push(dispatch.node_type),
    log: (event) => notes.push(event),
  });
  endings.push(async () => {
    worker.stop();
    await worker.closed;
  });
  worker.start();
  return { scheduler, worker, notes, durations };
}

describe("a worker whose handlers have a thread of their own", () => {
  it("[W120] a worker with a handler thread completes the whole exchange: register, dispatch, feedback, result, cancel, heartbeats, drain", async () => {
    const { scheduler, worker, durations } = await open();
    const register = await scheduler.acceptSession({ heartbeat_interval_ms: 20 });
    scheduler.dispatch("t1", "demo.transform", { text: "hello", mode: "uppercase" });
    const result = await scheduler.nextFrame("biz.exec.result");
    scheduler.dispatch("t2", "demo.delay", { durationMs: 3_600_000 });
    const feedback = await scheduler.nextFrame("biz.exec.feedback");
    scheduler.sendFrame("biz.exec.cancel", { run_id: "r", task_id: "t2", fence: 1 }, { seq: 2 });
    await scheduler.nextFrame("control.heartbeat", ({ payload }) => (payload["metrics"] as { inflight: number }).inflight === 0);
    worker.drain(10_000);
    await worker.closed;

    expect(register.payload["packages"]).toMatchObject(["demo", "mortal"].map((name) => ({ name })));
    expect(result.payload).toMatchObject({ task_id: "t1", fence: 1, status: "SUCCEEDED", result: { text: "HELLO" } });
    expect(feedback.payload).toMatchObject({ task_id: "t2", stage: "waiting" });
    expect(durations).toEqual(["demo.transform", "demo.delay"]);
    expect(worker.runner.isStuck).toBe(false);
  });

  it("[W123] a worker with a handler thread stays healthy when a package cannot be loaded, and records what it left out", async () => {
    const { scheduler, worker } = await open();
    await scheduler.acceptSession({ heartbeat_interval_ms: 20 });

    expect((await scheduler.nextFrame("control.heartbeat")).payload).toMatchObject({ healthy: true });
    expect(worker.runner.loadedPackages.problems).toMatchObject([
      { code: "E.PKG.INVALID", message: expect.stringContaining("cannot be imported: no") as string },
    ]);
  });

  it("[W123] a worker reports itself unhealthy once its handler thread has ended five times in a row, in the same session", async () => {
    const { scheduler, notes } = await open();
    await scheduler.acceptSession({ heartbeat_interval_ms: 3_600_000, lease_ms: 7_200_000 });

    for (let crash = 1; crash <= 5; crash++) {
      scheduler.dispatch(`t${crash}`, "mortal.x", {}, { package_name: "mortal" });
      expect((await scheduler.nextFrame("biz.exec.error")).payload).toMatchObject({ code: "E.RUNNER.FAILURE" });
    }

    const beats = scheduler.receivedFrames
      .filter(({ type }) => type === "control.heartbeat")
      .map(({ payload }) => payload["healthy"]);
    expect(beats).toEqual([false]);
    expect(notes.filter(({ event }) => event === "executor")).toHaveLength(5);
    expect(scheduler.connections).toBe(1);
  });
});
