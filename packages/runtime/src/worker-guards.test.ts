// What a worker guards and how it comes back, over real sockets: a second task of a key, a repeated dispatch, a drain, refusals at the door.
import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { realEnvironment, sampleIdentity } from "../test/sample-worker.ts";
import { type ReceivedFrame, ScriptedScheduler } from "../test/scripted-scheduler.ts";
import { loadPackages } from "./handlers/package-loader.ts";
import { createWorker, type SessionWorkerOptions } from "./worker.ts";

const examples = fileURLToPath(new URL("../../../examples/packages", import.meta.url));
const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

async function open(more: Partial<SessionWorkerOptions> = {}) {
  const scheduler = await ScriptedScheduler.open();
  endings.push(() => scheduler.close());
  const workRoot = mkdtempSync(path.join(tmpdir(), "worker-"));
  endings.push(() => rm(workRoot, { recursive: true, force: true }));
  const worker = createWorker({
    url: scheduler.url,
    identity: sampleIdentity,
    capabilities: { maxParallel: 4, runtimes: ["node"], features: [] },
    loadedPackages: await loadPackages(examples),
    workRoot,
    environment: realEnvironment,
    log: () => undefined,
    ...more,
  });
  endings.push(async () => {
    worker.stop();
    await worker.closed;
  });
  worker.start();
  return { scheduler, worker };
}

const isAbout =
  (task: string) =>
  ({ payload }: ReceivedFrame): boolean =>
    payload["task_id"] === task;
const long = { durationMs: 3_600_000 };

describe("a worker's guards on a real socket", () => {
  it("[W195] over a socket a worker refuses a second task of a taken concurrency key with E.CMD.CONCURRENCY_VIOLATION, and runs others", async () => {
    const { scheduler } = await open();
    await scheduler.acceptSession();
    scheduler.dispatch("a", "demo.delay", long, { concurrency_key: "k" });
    await scheduler.nextFrame("biz.exec.feedback", isAbout("a"));
    scheduler.dispatch("b", "demo.text", { text: "b" }, { concurrency_key: "k", fence: 2 });
    const refusal = await scheduler.nextFrame("biz.exec.error", isAbout("b"));
    scheduler.dispatch("c", "demo.text", { text: "c" }, { concurrency_key: "other", fence: 3 });
    const result = await scheduler.nextFrame("biz.exec.result", isAbout("c"));

    expect(refusal.payload).toMatchObject({ fence: 2, code: "E.CMD.CONCURRENCY_VIOLATION" });
    expect(result.payload).toMatchObject({ fence: 3, status: "SUCCEEDED", result: { text: "c" } });
  });

  it("[W195] over a socket a worker acks a repeated dispatch again and executes it once, while it runs and after it ended", async () => {
    const { scheduler } = await open();
    await scheduler.acceptSession();
    for (let n = 0; n < 2; n += 1) scheduler.dispatch("a", "demo.text", { text: "a" });
    const first = await scheduler.nextFrame("biz.exec.result", isAbout("a"));
    scheduler.dispatch("a", "demo.text", { text: "a" });
    scheduler.dispatch("b", "demo.text", { text: "b" });
    await scheduler.nextFrame("biz.exec.result", isAbout("b"));

    const acked = Math.max(
      ...scheduler.receivedFrames.filter(({ type }) => type === "control.ack").map(({ payload }) => Number(payload["ack_seq"])),
    );
    expect(acked).toBe(3);
    const results = scheduler.receivedFrames.filter((frame) => frame.type === "biz.exec.result" && isAbout("a")(frame));
    // The repeat after the end is answered with the stored outcome, never with a second execution.
    for (const { payload } of results) expect(payload).toEqual(first.payload);
    expect(scheduler.receivedFrames.filter(({ type }) => type === "biz.exec.error")).toEqual([]);
  });

  it("[W195] over a socket a handler gives the same result with and without the fields of a chain in its dispatch", async () => {
    const { scheduler } = await open();
    await scheduler.acceptSession();
    const chain = { host_node_id: "h", middleware_chain: ["m-1", "m-2"], chain_index: null };
    scheduler.dispatch("a", "demo.transform", { text: "same", mode: "uppercase" });
    const plain = await scheduler.nextFrame("biz.exec.result", isAbout("a"));
    scheduler.dispatch("b", "demo.transform", { text: "same", mode: "uppercase" }, chain);
    const hosted = await scheduler.nextFrame("biz.exec.result", isAbout("b"));

    expect(plain.payload).toMatchObject({ status: "SUCCEEDED", result: { text: "SAME" } });
    expect(hosted.payload).toMatchObject({ status: "SUCCEEDED", result: plain.payload["result"] });
  });

  it("[W195] over a socket a draining worker refuses new work and delivers the result of what it has in flight", async () => {
    const { scheduler, worker } = await open();
    await scheduler.acceptSession({ heartbeat_interval_ms: 20 });
    scheduler.dispatch("a", "demo.delay", { durationMs: 2_000, text: "a" });
    await scheduler.nextFrame("biz.exec.feedback", isAbout("a"));
    scheduler.sendFrame("control.drain", { reason: "for the test" });
    await scheduler.nextFrame("control.heartbeat", ({ payload }) => payload["draining"] === true);
    scheduler.dispatch("b", "demo.text", { text: "b" }, { fence: 2 });
    const refusal = await scheduler.nextFrame("biz.exec.error", isAbout("b"));
    const result = await scheduler.nextFrame("biz.exec.result", isAbout("a"));

    expect(refusal.payload["code"]).toMatch(/^E\./);
    expect(result.payload).toMatchObject({ status: "SUCCEEDED" });
    expect(worker.status.phase).toBe("DRAINING");
  });
});

describe("a worker that is refused on a real socket", () => {
  /** How long it waits after each refusal, on a clock that runs twenty times faster. */
  async function delaysAfterRefusals(random: number, refusals: number): Promise<number[]> {
    const speed = 20;
    const delays: number[] = [];
    /** The worker, once there is one. */
    const link: { readonly status: { readonly phase: string } }[] = [];
    const environment = {
      ...realEnvironment,
      now: () => realEnvironment.now() * speed,
      random: () => random,
      after(ms: number, call: () => void) {
        // While it waits it sets its timer again for what is left; the next refusal makes it wait longer than ever before.
        if (link[0]?.status.phase === "BACKOFF" && ms >= 500 && ms > 1.2 * (delays.at(-1) ?? 0)) delays.push(ms);
        return realEnvironment.after(ms / speed, call);
      },
    };
    const { scheduler, worker } = await open({ environment });
    link.push(worker);
    for (let refused = 0; refused < refusals; refused += 1) {
      await scheduler.nextFrame("control.handshake");
      scheduler.sendFrame("control.reset", { code: "E.AUTH.INVALID_TOKEN", reason: "not this token" });
      await scheduler.connectionsEnded(refused + 1);
    }
    await scheduler.acceptSession({ heartbeat_interval_ms: 1_000 });
    await scheduler.nextFrame("control.heartbeat");
    expect(worker.status.phase).toBe("READY");
    return delays;
  }

  it("[W196] over a socket a worker that is refused is in BACKOFF, waits exponentially longer with jitter, and starts anew with a handshake", async () => {
    const early = await delaysAfterRefusals(0, 4);
    const late = await delaysAfterRefusals(0.999, 4);

    // A timer is set for what is left of the pause, which a busy machine has begun to use up.
    const isAbout = (ms: number, wanted: number) => ms <= wanted && ms > 0.75 * wanted;
    expect([early.length, late.length]).toEqual([3, 3]);
    expect([800, 1_600, 3_200].map((wanted, index) => isAbout(early[index] ?? 0, wanted))).toEqual([true, true, true]);
    expect([1_200, 2_400, 4_800].map((wanted, index) => isAbout(late[index] ?? 0, wanted))).toEqual([true, true, true]);
  });
});
