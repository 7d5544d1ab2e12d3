import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { DispatchPayload } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { resourceDefaults } from "../resources/resource.ts";
import { type HandlerThreadHandle, spawnHandlerThread } from "./spawn-handler-thread.ts";
import type { FromHandlerThread, ToHandlerThread } from "./thread-messages.ts";

const greeter = fileURLToPath(new URL("../../../../examples/extensions", import.meta.url));
const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Handlers that do what user code does to a thread; `gate` is shared memory, so that a test can let a blocked one go. */
const code = `
  const wait = (gate) => Atomics.wait(gate, 0, 0);
  export const quick = (ctx) => ({ n: ctx.params.n, junk: () => 1 });
  export const block = (ctx) => { ctx.feedback.send({ stage: "blocking" }); wait(ctx.params.gate); return { was: "blocked" }; };
  export const mute = (ctx) => { Atomics.wait(ctx.params.gate, 0, 0, ctx.params.ms); return {}; };
  export const patient = async (ctx) => { await new Promise((go) => ctx.signal.addEventListener("abort", go)); throw ctx.signal.reason; };
  export const spin = () => { for (;;) {} };
  export const chatty = (ctx) => { const loop = {}; loop.loop = loop; ctx.feedback.send({ metadata: loop }); return {}; };
  export const crash = async () => { setImmediate(() => { throw new TypeError("nobody catches this"); }); await new Promise(() => {}); };
  export const exit = () => process.exit(7);
  export const around = async (ctx) => ({ inner: await ctx.next({ text: "x" }, undefined, undefined, 60_000), at: ctx.chainIndex });
  export const large = () => ({ text: "x".repeat(3_000_000), n: 1 });
  export const parent = async (ctx) => { ctx.spawn("sleep", ["600"], { stdio: "ignore" }); await new Promise(() => {}); };
  export const hoard = () => { const all = []; for (;;) all.push(new Array(100_000).fill(Math.random())); };
`;
const types = ["quick", "block", "mute", "patient", "spin", "chatty", "crash", "exit", "hoard", "around", "large", "parent"];

function makePackages(source = code): string {
  const root = mkdtempSync(path.join(tmpdir(), "host-"));
  endings.push(() => rm(root, { recursive: true, force: true }));
  mkdirSync(path.join(root, "rough"));
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {} };
  const manifest = {
    schemaVersion: "1.0.0",
    name: "rough",
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["rough"] }],
    node: { requires: ">=22" },
    nodes: types.map((handler) => ({ ...usual, type: `rough.${handler}`, label: handler, handler })),
  };
  writeFileSync(path.join(root, "rough", "manifest.json"), JSON.stringify(manifest));
  writeFileSync(path.join(root, "rough", "main.mjs"), source);
  return root;
}

/** A real thread, and all its messages, in order. */
class ThreadRecorder {
  readonly received: FromHandlerThread[] = [];
  readonly thread: HandlerThreadHandle;
  readonly ended: Promise<string>;
  #wake = () => {};

  constructor(packagesDir: string) {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    this.thread = spawnHandlerThread(
      {
        tenant: "acme",
        packagesDir,
        workRoot: packagesDir,
        heapMbMax: 32,
        resources: { ...resourceDefaults, workerName: "w" },
        resourceDir: path.join(packagesDir, "kept"),
      },
      {
        messagesReceived: (messages) => {
          this.received.push(...messages);
          this.#wake();
        },
        threadExited: resolve,
      },
    );
    endings.push(() => this.thread.terminate());
  }

  /** The first message of this type, now or later. */
  async first<T extends FromHandlerThread["type"]>(type: T, task?: string): Promise<Extract<FromHandlerThread, { type: T }>> {
    for (;;) {
      const found = this.received.find(
        (message) => message.type === type && (task === undefined || ("task" in message && message.task === task)),
      );
      if (found !== undefined) return found as Extract<FromHandlerThread, { type: T }>;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

async function open(packagesDir = makePackages()): Promise<ThreadRecorder> {
  const recorder = new ThreadRecorder(packagesDir);
  await recorder.first("loaded");
  return recorder;
}

function start(type: string, task = type, part: object = {}): ToHandlerThread {
  const [name, handler] = type.includes(".") ? [type.split(".")[0], type] : ["rough", `rough.${type}`];
  const names = { run_id: "r", task_id: task, node_id: "n", node_type: handler, package_name: name, package_version: "1.0.0" };
  return { type: "start", fence: 3, dispatch: { ...names, parameters: {}, constraints: {}, ...part } as DispatchPayload };
}

describe("the thread of the handlers", () => {
  it("[W121] the handler thread reports what it loaded, and each outcome as encoded text, in one message with the end of its handler", async () => {
    const recorder = await open();

    recorder.thread.sendMessages([start("quick", "t1", { parameters: { n: 1 } })]);

    const { outcome: written, isSettled, fence } = await recorder.first("finished");
    expect((await recorder.first("loaded")).packages.packages).toMatchObject([
      { name: "rough", nodeTypes: types.map((type) => `rough.${type}`) },
    ]);
    expect({ isSettled, fence, frame: written.frameType }).toEqual({ isSettled: true, fence: 3, frame: "biz.exec.result" });
    expect(JSON.parse(written.payload)).toMatchObject({
      run_id: "r",
      task_id: "t1",
      fence: 3,
      status: "SUCCEEDED",
      result: { n: 1 },
    });
    expect(recorder.received.filter(({ type }) => type === "settled")).toEqual([]);
  });

  it("[W783] the handler thread looks for packages again when it is told, and reports what it offers now", async () => {
    const packagesDir = makePackages();
    const recorder = await open(packagesDir);
    const manifest = path.join(packagesDir, "rough", "manifest.json");
    const next = path.join(packagesDir, "rough", "2.0.0");
    mkdirSync(next);
    const text = readFileSync(manifest, "utf8").replace('"version":"1.0.0"', '"version":"2.0.0"');
    writeFileSync(path.join(next, "manifest.json"), text);
    writeFileSync(path.join(next, "main.mjs"), code);
    await rm(manifest);

    recorder.thread.sendMessages([{ type: "reload" }]);
    const { packages } = await recorder.first("reloaded");
    recorder.thread.sendMessages([
      start("quick", "t1"),
      start("quick", "t2", { package_version: "2.0.0", parameters: { n: 2 } }),
    ]);
    const [old, fresh] = [await recorder.first("finished", "t1"), await recorder.first("finished", "t2")];

    expect(packages.packages.map(({ version }) => version)).toEqual(["2.0.0"]);
    expect(JSON.parse(old.outcome.payload)).toMatchObject({ code: "E.CMD.UNKNOWN" });
    expect(JSON.parse(fresh.outcome.payload)).toMatchObject({ status: "SUCCEEDED", result: { n: 2 } });
  });

  it("[W120] a blocking handler delays neither the feedback it sent before nor the results of handlers called before it", async () => {
    const recorder = await open();
    const gate = new Int32Array(new SharedArrayBuffer(4));

    recorder.thread.sendMessages([start("quick"), start("block", "b", { parameters: { gate } })]);
    await recorder.first("feedback", "b");
    await recorder.first("finished", "quick");
    expect(recorder.received.some((message) => message.type === "finished" && message.task === "b")).toBe(false);
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);

    expect(JSON.parse((await recorder.first("finished", "b")).outcome.payload)).toMatchObject({ result: { was: "blocked" } });
  });

  it("[W120] a handler type that has blocked before is not called until the results of other handlers have been sent", async () => {
    const recorder = await open();
    const gate = new Int32Array(new SharedArrayBuffer(4));
    recorder.thread.sendMessages([start("mute", "seen", { parameters: { gate, ms: 10 } })]);
    await recorder.first("finished", "seen");

    recorder.thread.sendMessages([start("quick"), start("mute", "m", { parameters: { gate } })]);
    await recorder.first("finished", "quick");
    expect(recorder.received.some((message) => message.type === "finished" && message.task === "m")).toBe(false);
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);

    expect((await recorder.first("finished", "m")).isSettled).toBe(true);
  });

  it("[W121] a stop aborts the signal of the attempt it names; a timed-out attempt is reported before its handler returns", async () => {
    const recorder = await open();

    recorder.thread.sendMessages([start("patient", "a"), start("patient", "b", { constraints: { timeout_ms: 1 } })]);
    const late = await recorder.first("finished", "b");
    recorder.thread.sendMessages([{ type: "stop", task: "a", fence: 2, reason: "another fence" }]);
    recorder.thread.sendMessages([{ type: "stop", task: "a", fence: 3, reason: "cancelled" }]);
    const stopped = await recorder.first("finished", "a");
    await recorder.first("settled", "b");

    expect(JSON.parse(late.outcome.payload)).toMatchObject({ code: "E.TIMEOUT" });
    expect(late.isSettled).toBe(false);
    expect(JSON.parse(stopped.outcome.payload)).toMatchObject({ code: "E.RUNNER.FAILURE", message: "cancelled" });
  });

  it("[W121] the handler thread reports feedback that cannot be written and continues", async () => {
    const recorder = await open();

    recorder.thread.sendMessages([start("chatty")]);

    expect((await recorder.first("report")).message).toBe("feedback of task chatty cannot be written as JSON and was dropped");
    expect((await recorder.first("finished")).outcome.frameType).toBe("biz.exec.result");
  });

  it("[W122] an uncaught error, an exit and a full heap end only the handler thread; after the first two, earlier results still arrive", async () => {
    for (const [type, reason] of [
      ["crash", "TypeError: nobody catches this"],
      ["exit", "it ended with code 7"],
      ["hoard", expect.stringContaining("memory")],
    ] as const) {
      const recorder = await open();

      recorder.thread.sendMessages([start("quick"), start(type)]);

      expect(await recorder.ended).toEqual(reason);
      expect(recorder.received.map((message) => message.type)).toContain(type === "hoard" ? "loaded" : "finished");
    }
  });

  it("[W124] a handler that never returns is ended with its thread", async () => {
    const recorder = await open();

    recorder.thread.sendMessages([start("spin")]);
    await recorder.thread.terminate();

    expect(await recorder.ended).toBe("it ended with code 1");
  });

  it("[W125] a package that ends the handler thread while it is loaded shows in the thread's exit code", async () => {
    expect(await new ThreadRecorder(makePackages("process.exit(3);")).ended).toBe("it ended with code 3");
  });

  it("[W126] packages in the handler thread listen without a running task, and send from a listener and from a handler", async () => {
    const recorder = await open(greeter);
    const frame = { type: "ext.vendor.greeter.ask", id: "f-1", corr: undefined, payload: { name: "Ada" } };
    expect((await recorder.first("listening")).types).toEqual(["ext.vendor.greeter.ask"]);

    recorder.thread.sendMessages([{ type: "ext", frame }]);
    const asked = await recorder.first("ext");
    recorder.thread.sendMessages([{ type: "ext-answer", ticket: asked.ticket, isTaken: true }]);
    recorder.received.length = 0;
    recorder.thread.sendMessages([start("greeter.announce", "t1", { parameters: { name: "Bob" } })]);
    const sent = await recorder.first("ext");
    recorder.thread.sendMessages([{ type: "ext-answer", ticket: sent.ticket, isTaken: false }]);

    expect(asked.draft).toEqual({ type: "ext.vendor.greeter.answer", corr: "f-1", payload: '{"text":"Hello, Ada!"}' });
    expect(sent.draft).toEqual({ type: "ext.vendor.greeter.said", corr: "r", payload: '{"text":"Hello, Bob!","task":"t1"}' });
    expect(JSON.parse((await recorder.first("finished")).outcome.payload)).toMatchObject({ result: { isTaken: false } });
  });

  it("[W158] a middleware's call of next and its answer pass between handler thread and link, and the call ends with the task", async () => {
    const recorder = await open();
    const chain = { chain_index: 0, middleware_chain: ["n"], host_node_id: "h" };

    recorder.thread.sendMessages([start("around", "a", chain), start("around", "b", chain)]);
    const asked = await recorder.first("next", "a");
    expect(JSON.parse(asked.draft.argumentsJson)).toEqual({ payload: { text: "x" }, timeoutMs: 60_000 });
    recorder.thread.sendMessages([{ type: "next-answer", ticket: asked.ticket, answer: { result: { echo: "hi" } } }]);
    const { outcome: written } = await recorder.first("finished", "a");
    const { ticket } = await recorder.first("next", "b");
    recorder.thread.sendMessages([{ type: "stop", task: "b", fence: 3, reason: "cancelled" }]);

    expect(JSON.parse(written.payload)).toMatchObject({ result: { inner: { echo: "hi" }, at: 0 } });
    expect((await recorder.first("next-forget")).ticket).toBe(ticket);
    expect((await recorder.first("finished", "b")).outcome.frameType).toBe("biz.exec.error");
  });

  it("[W166] a large result stays in a file that outlives the handler thread, and is counted in the metrics", async () => {
    const packagesDir = makePackages();
    const recorder = await open(packagesDir);
    recorder.thread.sendMessages([start("large", "r.7")]);
    const payload = JSON.parse((await recorder.first("finished")).outcome.payload) as {
      result: { text: object; n: number };
      artifacts: object[];
    };
    const id = "r.7#3/results.text";
    expect(payload.result).toEqual({ text: { resourceRef: { resourceId: id, workerName: "w", type: "json" } }, n: 1 });
    expect(payload.artifacts).toMatchObject([{ resource_id: id, worker_name: "w", size_bytes: 3_000_002, inline: false }]);
    await recorder.thread.terminate();

    const next = await open(packagesDir);
    next.thread.sendMessages([{ type: "ping", ping: 1 }]);

    expect((await next.first("pong")).resources).toMatchObject({ "resource.disk_bytes_in_use": 3_000_002 });
  });

  it("[W165] the handler thread reports which processes its handlers started and which have ended, so that others can end the rest", async () => {
    const recorder = await open();

    recorder.thread.sendMessages([start("parent", "p")]);
    const { pid } = await recorder.first("spawned");
    recorder.thread.sendMessages([{ type: "stop", task: "p", fence: 3, reason: "cancelled" }]);

    expect((await recorder.first("reaped")).pid).toBe(pid);
  });

  it("[W203] the handler thread reports what a package prints while it is loaded, and gives the output of a handler to its attempt", async () => {
    const printing = `console.warn("loading"); ${code.replace("export const quick = (ctx) => (", "export const quick = (ctx) => (console.log('hello'), ")}`;
    const recorder = await open(makePackages(printing));

    recorder.thread.sendMessages([start("quick")]);

    expect(await recorder.first("report")).toMatchObject({
      message: "a package printed to stderr outside of any task",
      cause: "loading\n",
    });
    expect(JSON.parse((await recorder.first("feedback", "quick")).input)).toEqual({
      chunks: [{ channel: "stdout", text: "hello\n" }],
    });
  });
});
