import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fault } from "@astraflow/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { HostedPackages, type SamplePackage, writePackage } from "../../test/host-harness.ts";
import type { FileTransfer } from "../resources/file-transfer.ts";
import type { InProcessRunnerOptions } from "../runner/handler-runner.ts";
import { listGroupMembers } from "../system/process-groups.ts";
import type { HostingSettings } from "./host-set.ts";

const adapter = `
import asyncio, ctypes, logging, os, subprocess, sys, threading, time
from astraflow_sdk import FeedbackChannel, TaskError

log = logging.getLogger("sample")


def echo(ctx):
    return {"params": ctx.params, "thread": threading.current_thread() is not threading.main_thread()}

async def aecho(ctx):
    return {"status": "ok", "outputs": {"on_loop": threading.current_thread() is threading.main_thread()}}

def identity(ctx):
    names = ("run_id", "task_id", "node_id", "node_type", "package_name", "package_version", "tenant", "attempt", "params", "config",
             "metadata", "host_node_id", "middleware_chain", "chain_index", "idempotency_key", "secrets", "trace")
    return {"outputs": {**{name: getattr(ctx, name) for name in names}, "deadline": ctx.deadline is not None and ctx.seconds_left > 0}}

def speak(ctx):
    ctx.feedback.send_nowait(stage="one", progress=0.5, chunks=[{"channel": FeedbackChannel.llm, "text": "token"}])
    ctx.feedback.emit_text("said", channel="custom")
    print("printed")
    print("to stderr", file=sys.stderr)
    log.info("logged %d", 1)
    thread = threading.Thread(target=lambda: print("from a thread"))
    thread.start(); thread.join()
    subprocess.run(["echo", "by a program"], check=True)
    os.write(1, b"by descriptor\\n")
    return {}

async def aspeak(ctx):
    await ctx.feedback.send(message="waiting")
    await ctx.feedback.emit_text("awaited")
    await asyncio.gather(*(say(name) for name in "ab"))
    return {}

async def say(name):
    await asyncio.sleep(0)
    print("task", name)

def whisper(ctx):
    ctx.feedback.emit_text("up")
    while True:
        time.sleep(0.01)
        print(ctx.task_id)
        if ctx.cancellation.is_set():
            return {}

def fail(ctx):
    try:
        inner({})
    except KeyError as error:
        raise ValueError("no url was given") from error

def inner(params):
    return params["url"]

def refuse(ctx):
    raise TaskError("there is no such page", "E.RESOURCE.MISSING")

def leave(ctx):
    sys.exit(3)

def vanish(ctx):
    sys.stderr.write("last words\\n"); os.write(2, b"about to go\\n"); os._exit(7)

def crash(ctx):
    ctypes.string_at(0)

def wrong(ctx):
    return {"list": [1], "none": None, "text": "t", "huge": {"n": [10 ** 400]}}.get(ctx.params["kind"], {"value": {1}})

def statuses(ctx):
    return {"status": ctx.params["status"], "outputs": {"error": "it said so"}}

async def patient(ctx):
    ctx.feedback.emit_text("up")
    try:
        await asyncio.sleep(3600)
    finally:
        ctx.feedback.emit_text("cleaned up")

def obedient(ctx):
    ctx.feedback.emit_text("up")
    ctx.cancellation.wait()
    ctx.cancellation.raise_if_set()

def stubborn(ctx):
    ctx.feedback.emit_text("up")
    subprocess.Popen(["sleep", "3600"])
    while True:
        time.sleep(0.01)

async def gate(ctx):
    ctx.feedback.emit_text("up")
    while not os.path.exists(ctx.params["file"]):
        await asyncio.sleep(0.01)
    return {"pid": os.getpid()}

def pid(ctx):
    return {"pid": os.getpid(), "env": sorted(os.environ)}

def files(ctx):
    (ctx.data_dir / "a.txt").write_text("kept")
    handle = ctx.resource_registry.register_file("note", ctx.data_dir / "a.txt", metadata={"n": 1})
    return {"outputs": {"dir": str(ctx.data_dir), "path": handle.path, "size": handle.size_bytes},
            "artifacts": [ctx.resource_registry.to_artifact_descriptor("note")]}

def store(ctx):
    (ctx.data_dir / "b.txt").write_text("kept")
    ctx.resource_registry.register_file("b", ctx.data_dir / "b.txt")
    stored = ctx.resource_registry.upload("b", filename="b.txt", mime_type="text/plain")
    return {"outputs": {"stored": stored}, "artifacts": [ctx.resource_registry.to_artifact_descriptor("b")]}

def fetch(ctx):
    kept = ctx.resource_registry.download(ctx.params["id"], scope="run")
    with open(kept.path) as file:
        return {"text": file.read(), "scope": kept.scope}

def keep(ctx):
    ctx.resource_registry.register("page", "browser.page", value={"n": 41}, size_bytes=10, on_drop=print)
    return {"outputs": {}, "artifacts": [ctx.resource_registry.to_artifact_descriptor("page")]}

async def use(ctx):
    page = ctx.leased_resources[0]
    page.value["n"] += 1
    missing = "none"
    try:
        ctx.resource_registry.lease("nothing")
    except TaskError as error:
        missing = error.code
    return {"n": page.value["n"], "type": page.type, "listed": [one.resource_id for one in ctx.resource_registry.list()], "missing": missing}

async def around(ctx):
    return {"inner": await ctx.next({"text": "x"}, timeout_ms=60000)}

def around_sync(ctx):
    return {"inner": ctx.next_blocking({"text": "x"})}

def burn(ctx):
    while True:
        pass

def hoard(ctx):
    return {"size": len(bytearray(1024 * 1024 * 1024))}

def flood(ctx):
    while not ctx.cancellation.is_set():
        print("x" * 1000)
    return {}
`;
const names = [...adapter.matchAll(/^(?:async )?def (\w+)\(ctx\)/gm)].map(([, name]) => name as string);
const sample: SamplePackage = {
  runtime: "python",
  entrypoint: "sample_adapter.handlers",
  handlers: names,
  files: { "adapters/sample_adapter/__init__.py": "", "adapters/sample_adapter/handlers.py": adapter },
};

const open: HostedPackages[] = [];
afterEach(async () => {
  for (const packages of open.splice(0)) await packages.close();
});

async function openSample(
  more: Partial<HostingSettings> & Pick<InProcessRunnerOptions, "outputBytesMax" | "transferFile"> = {},
  samples: readonly SamplePackage[] = [sample],
): Promise<HostedPackages> {
  const packages = await HostedPackages.open(samples, more);
  open.push(packages);
  return packages;
}

/** Members of a process group that are no zombies. */
const listRunning = (group: number): string[] =>
  listGroupMembers(group).filter((identity) => {
    const [pid = ""] = identity.split(":");
    return existsSync(`/proc/${pid}/exe`);
  });

const isUp = (packages: HostedPackages, task: string) => () => packages.text(task, "log").includes("up");

describe("adapters in a Python host", () => {
  it("[W779] a Python host runs sync handlers in a thread and coroutines on its event loop, as their execution mode says", async () => {
    const packages = await openSample({}, [sample, { ...sample, name: "inline", config: { exec_mode: "event_loop" } }]);

    const [sync, coroutine, inline] = await Promise.all([
      packages.run("sample.echo", "t1", { text: "ä😀" }),
      packages.run("sample.aecho", "t2"),
      packages.run("inline.echo", "t3"),
    ]);

    expect(packages.loaded.problems).toEqual([]);
    expect(sync.payload).toMatchObject({ status: "SUCCEEDED", result: { params: { text: "ä😀" }, thread: true } });
    expect(coroutine.payload).toMatchObject({ status: "SUCCEEDED", result: { on_loop: true } });
    expect(inline.payload).toMatchObject({ result: { thread: false } });
  });

  it("[W779] a Python host finds handlers by entrypoint module or class, node type, handler key, table, mark, async_run and run", async () => {
    const code = `
from astraflow_sdk import handles
class Adapter:
    def by_key(self, ctx): return {"by": "key"}
    @handles("shapes.by_mark")
    def anything(self, ctx): return {"by": "mark"}
    handlers = {"shapes.by_table": lambda ctx: {"by": "table"}}
    class by_object:
        async def async_run(self, ctx): return {"by": "object"}
    async def async_run(self, ctx): return {"by": "async_run of " + ctx.node_type}
class Nothing:
    pass
`;
    const shapes: SamplePackage = {
      name: "shapes",
      runtime: "python",
      entrypoint: "shapes:Adapter",
      handlers: ["by_key", "by_mark", "by_table", "by_object", "other"],
      files: { "shapes.py": code },
    };
    const packages = await openSample({}, [
      shapes,
      { ...shapes, name: "hollow", entrypoint: "shapes:Nothing", handlers: ["none"] },
    ]);

    const found = await Promise.all(shapes.handlers.map((handler) => packages.run(`shapes.${handler}`, handler)));
    const none = await packages.run("hollow.none", "none");

    expect(found.map(({ payload }) => (payload["result"] as { by: string }).by)).toEqual([
      "key",
      "mark",
      "table",
      "object",
      "async_run of shapes.other",
    ]);
    expect(none.payload).toMatchObject({ code: "E.CMD.UNKNOWN" });
    expect(packages.loaded.problems).toMatchObject([
      { code: "E.PKG.INVALID", message: "hollow.none names handler none, which shapes:Nothing does not have" },
    ]);
  });

  it("[W785] the context of a Python adapter has the names of its attempt, its secrets, its deadline and a key that all attempts share", async () => {
    const packages = await openSample();
    const params = { __resourceBindings: { token: { value: "a-long-secret" } }, n: 1 };
    const part = {
      attempt: 2,
      constraints: { timeout_ms: 60_000 },
      concurrency_key: "k",
      host_node_id: "h",
      middleware_chain: ["m"],
    };

    const { payload } = await packages.run("sample.identity", "t1", params, { ...part, chain_index: 0 });

    expect(payload["result"]).toMatchObject({
      run_id: "r",
      task_id: "t1",
      node_id: "n",
      node_type: "sample.identity",
      package_name: "sample",
      package_version: "1.0.0",
      tenant: "acme",
      attempt: 2,
      metadata: { constraints: { timeout_ms: 60_000 }, concurrency_key: "k" },
      host_node_id: "h",
      middleware_chain: ["m"],
      chain_index: 0,
      idempotency_key: "t1",
      // Secrets do not leave the worker.
      secrets: { token: "***" },
      trace: null,
      deadline: true,
    });
  });

  it("[W774] what a Python adapter reports, prints and logs, and what its threads and programs print, is output of its task", async () => {
    const packages = await openSample();

    await packages.run("sample.speak", "t1");
    await packages.until(() => packages.text("t1", "stdout").includes("by descriptor") || packages.reports.length > 0);
    await packages.run("sample.aspeak", "t2");

    expect(packages.feedback.find(({ input }) => input.stage === "one")?.input).toMatchObject({
      progress: 0.5,
      chunks: [{ channel: "llm", text: "token" }],
    });
    expect(packages.text("t1", "custom")).toBe("said");
    expect(packages.text("t1", "stdout")).toContain("printed\n");
    expect(packages.text("t1", "stdout")).toContain("from a thread\n");
    expect(packages.text("t1", "stderr")).toBe("to stderr\n");
    expect(packages.text("t1", "log")).toBe("INFO sample: logged 1\n");
    const stray = packages.reports.map(({ cause }) => cause).join("");
    expect(packages.text("t1", "stdout") + stray).toContain("by a program\n");
    expect(packages.text("t2", "log")).toBe("awaited");
    expect(packages.text("t2", "stdout")).toContain("task a\ntask b\n");
  });

  it("[W774] tasks that run side by side in one Python host print each for itself", async () => {
    const packages = await openSample();
    for (const task of ["t1", "t2"]) packages.start("sample.whisper", task);
    await packages.until(() => ["t1", "t2"].every((task) => packages.text(task, "stdout").length > 20));

    for (const { stopSignal } of packages.attempts.values()) stopSignal.stop(new Error("enough"));
    await Promise.all(["t1", "t2"].map((task) => packages.returned(task)));

    expect(new Set(packages.text("t1", "stdout").trim().split("\n"))).toEqual(new Set(["t1"]));
    expect(new Set(packages.text("t2", "stdout").trim().split("\n"))).toEqual(new Set(["t2"]));
  });

  it("[W780] an exception of a Python adapter fails its task with its text and the lines of the package it went through", async () => {
    const packages = await openSample();

    const failed = await packages.run("sample.fail", "t1");
    const refused = await packages.run("sample.refuse", "t2");
    const left = await packages.run("sample.leave", "t3");

    expect(failed.payload).toMatchObject({ code: "E.RUNNER.FAILURE", message: "ValueError: no url was given" });
    const { stack } = (failed.payload["context"] as { details: { stack: string } }).details;
    expect(stack).toMatch(
      /^ValueError: no url was given\n {4}at fail \(adapters\/sample_adapter\/handlers\.py:\d+\)\ncaused by KeyError: 'url'/,
    );
    expect(stack).not.toContain(packages.root);
    expect(refused.payload).toMatchObject({ code: "E.RESOURCE.MISSING", message: "there is no such page" });
    expect(left.payload).toMatchObject({
      code: "E.RUNNER.FAILURE",
      message: "the adapter called sys.exit(3); it must return or raise",
    });
  });

  it("[W780] what a Python adapter returns is read as its status word says, and is an error where it is no object", async () => {
    const packages = await openSample();
    const words = ["done", "Blocked", "skip", "cancelled", "strange"];

    const statuses = await Promise.all(words.map((status) => packages.run("sample.statuses", status, { status })));
    const wrong = await Promise.all(
      ["list", "none", "text", "other", "huge"].map((kind) => packages.run("sample.wrong", kind, { kind })),
    );

    expect(statuses.map(({ payload }) => payload["status"])).toEqual([
      "SUCCEEDED",
      "SUCCEEDED",
      "SKIPPED",
      "CANCELLED",
      "FAILED",
    ]);
    expect(wrong.map(({ payload }) => [payload["code"], payload["message"]])).toEqual([
      ["E.RUNNER.FAILURE", "the adapter returned a list; it must return an object"],
      ["E.RUNNER.FAILURE", "the adapter returned nothing; it must return an object"],
      ["E.RUNNER.FAILURE", "the adapter returned 't'; it must return an object"],
      ["E.RUNNER.FAILURE", "the result cannot be written as JSON: a value of type set cannot be written as JSON"],
      ["E.FRAME.INVALID", "the result cannot be sent: it has a number that is too large"],
    ]);
  });

  it("[W772] a Python host that an adapter ends fails that task with what it said last, and the next task gets a new process", async () => {
    const packages = await openSample();
    const before = await packages.run("sample.pid", "t0");

    const vanished = await packages.run("sample.vanish", "t1");
    const crashed = await packages.run("sample.crash", "t2");
    const after = await packages.run("sample.pid", "t3");

    const sentence = "the host of package sample 1.0.0 ended while this task was running";
    expect(vanished.payload).toMatchObject({
      code: "E.RUNNER.FAILURE",
      message: `${sentence}: it ended with code 7: about to go`,
    });
    expect(crashed.payload).toMatchObject({ code: "E.RUNNER.FAILURE", message: `${sentence}: it was ended by SIGSEGV` });
    const pids = [before, after].map(({ payload }) => (payload["result"] as { pid: number }).pid);
    expect(pids[0]).not.toBe(pids[1]);
    expect([...packages.groups]).toEqual([pids[1]]);
  });

  it("[W772] the end of one package's host by SIGKILL leaves the tasks of other packages and versions alone", async () => {
    const packages = await openSample({}, [sample, { ...sample, name: "other" }, { ...sample, version: "2.0.0" }]);
    const file = path.join(packages.root, "go");
    const pid = (await packages.run("sample.pid", "t0")).payload["result"] as { pid: number };
    packages.start("sample.gate", "t1", { file });
    packages.start("sample.gate", "t2", { file });
    packages.start("other.gate", "t3", { file });
    packages.start("sample.gate", "t4", { file }, { package_version: "2.0.0" });
    await packages.until(() => ["t1", "t2", "t3", "t4"].every((task) => packages.text(task, "log") === "up"));

    process.kill(pid.pid, "SIGKILL");
    const lost = await Promise.all([packages.outcome("t1"), packages.outcome("t2")]);
    mkdirSync(file);
    const kept = await Promise.all([packages.outcome("t3"), packages.outcome("t4")]);

    // Which of the two ended it is not known: both may be tried again.
    expect(lost.map(({ payload }) => payload["code"])).toEqual(["E.RUNNER.CANCELLED", "E.RUNNER.CANCELLED"]);
    expect(kept.map(({ payload }) => payload["status"])).toEqual(["SUCCEEDED", "SUCCEEDED"]);
  });

  it("[W773] a cancelled coroutine is cancelled by asyncio and cleans up; a cancelled thread sees it in its context", async () => {
    const packages = await openSample({ cancelGraceMs: 60_000 });
    const { pid } = (await packages.run("sample.pid", "t0")).payload["result"] as { pid: number };
    for (const task of ["patient", "obedient"]) packages.start(`sample.${task}`, task);
    await packages.until(() => isUp(packages, "patient")() && isUp(packages, "obedient")());

    for (const task of ["patient", "obedient"]) packages.attempts.get(task)?.stopSignal.stop(new Error("enough"));
    await Promise.all([packages.returned("patient"), packages.returned("obedient")]);

    expect(packages.text("patient", "log")).toBe("upcleaned up");
    expect([...packages.groups]).toEqual([pid]);
  });

  it("[W773] a task that ignores its cancellation is ended with its whole process group, once other tasks of the process are done", async () => {
    const packages = await openSample({ cancelGraceMs: 50 });
    const file = path.join(packages.root, "go");
    packages.start("sample.stubborn", "stubborn");
    packages.start("sample.gate", "other", { file });
    await packages.until(() => isUp(packages, "stubborn")() && isUp(packages, "other")());
    const [old] = packages.groups;

    packages.attempts.get("stubborn")?.stopSignal.stop(new Error("enough"));
    await packages.until(() => packages.reports.some(({ message }) => message.includes("did not end when it was cancelled")));
    const fresh = await packages.run("sample.pid", "fresh");
    mkdirSync(file);
    const other = await packages.outcome("other");
    await packages.returned("stubborn");

    expect(other.payload).toMatchObject({ status: "SUCCEEDED", result: { pid: old } });
    expect((fresh.payload["result"] as { pid: number }).pid).not.toBe(old);
    expect(packages.groups.has(old as number)).toBe(false);
    // Nobody of it runs; who collects the dead is the system's business.
    while (listRunning(old as number).length > 0) await new Promise(setImmediate);
  });

  it("[W773] a Python task that is out of time ends with E.TIMEOUT at once, and its process as soon as it does not obey", async () => {
    const packages = await openSample({ cancelGraceMs: 50 });

    const { payload } = await packages.run("sample.burn", "t1", {}, { constraints: { timeout_ms: 300 } });
    await packages.returned("t1");

    expect(payload).toMatchObject({ code: "E.TIMEOUT" });
    expect([...packages.groups]).toEqual([]);
  });

  it("[W777] files and values that Python adapters keep are the worker's resources: values stay in their process and are lost with it", async () => {
    const packages = await openSample();
    const reference = (resource_id: string) => ({ resource_refs: [{ resource_id, worker_name: "box", type: "x" }] });

    const file = await packages.run("sample.files", "t1");
    await packages.run("sample.keep", "t2");
    const used = await packages.run("sample.use", "t3", {}, reference("page"));
    const again = await packages.run("sample.use", "t4", {}, reference("page"));
    await packages.run("sample.vanish", "t5");
    const gone = await packages.run("sample.use", "t6", {}, reference("page"));

    const { dir, path: kept, size } = file.payload["result"] as { dir: string; path: string; size: number };
    expect(size).toBe(4);
    expect(existsSync(kept)).toBe(true);
    await packages.returned("t1");
    expect(path.dirname(kept)).not.toBe(dir);
    expect(used.payload["result"]).toEqual({
      n: 42,
      type: "browser.page",
      listed: ["note", "page"],
      missing: "E.RESOURCE.MISSING",
    });
    expect(again.payload["result"]).toMatchObject({ n: 43 });
    expect(packages.removed).toEqual(["page lost"]);
    expect(gone.payload).toMatchObject({ code: "E.RESOURCE.MISSING" });
  });

  it("[W778] the data directory of a Python attempt is created when it is used and removed when its task has ended", async () => {
    const packages = await openSample();
    const work = path.join(packages.root, ".work");

    await packages.run("sample.echo", "t1");
    const unused = existsSync(work);
    const { payload } = await packages.run("sample.files", "t2");

    const { dir } = payload["result"] as { dir: string };
    expect(unused).toBe(false);
    // Removed by the system in its own time, which the next task shows.
    while (existsSync(dir)) await packages.run("sample.echo", `t-${packages.attempts.size}`);
    expect(readdirSync(work)).toEqual([]);
  });

  it("[W778] a Python middleware calls the next of its chain from a coroutine and from a thread, and sees why it failed", async () => {
    const packages = await openSample();
    const chain = { host_node_id: "h", middleware_chain: ["m"], chain_index: 0 };
    const asked: unknown[] = [];
    packages.answerNext = (args) => (asked.push(args), { result: { n: 1 } });

    const coroutine = await packages.run("sample.around", "t1", {}, chain);
    const thread = await packages.run("sample.around_sync", "t2", {}, chain);
    packages.answerNext = () => ({ error: { code: "next_failed", message: "the host failed" }, trace: {} });
    const failed = await packages.run("sample.around", "t3", {}, chain);
    const unchained = await packages.run("sample.around", "t4");

    expect(asked).toEqual([{ payload: { text: "x" }, timeoutMs: 60_000 }, { payload: { text: "x" } }]);
    for (const { payload } of [coroutine, thread]) expect(payload["result"]).toEqual({ inner: { n: 1 } });
    expect(failed.payload).toMatchObject({ code: "E.RUNNER.FAILURE", message: "the host failed" });
    expect(unchained.payload["message"]).toContain("is not a middleware");
  });

  it("[W782] a Python host gives an adapter a MemoryError beyond its memory, and is ended beyond its processor time", async () => {
    const packages = await openSample({ memoryMbMax: 512, cpuSecondsMax: 1 });

    const hoarded = await packages.run("sample.hoard", "t1");
    const burned = await packages.run("sample.burn", "t2");

    expect(hoarded.payload).toMatchObject({ code: "E.RUNNER.FAILURE", message: "MemoryError" });
    expect(burned.payload["message"]).toContain("it used up its processor time");
  });

  it("[W776] a task that floods its output ends with E.RUNNER.OUTPUT, and others go on", async () => {
    const packages = await openSample({ outputBytesMax: 200_000 });

    const flooded = await packages.run("sample.flood", "t1");
    const other = await packages.run("sample.echo", "t2");

    expect(flooded.payload).toMatchObject({ code: "E.RUNNER.OUTPUT" });
    expect(other.payload).toMatchObject({ status: "SUCCEEDED" });
  });

  it("[W771] a Python package that cannot be imported, or ends the process that imports it, is not offered, and the reason names the place", async () => {
    const broken = { ...sample, name: "broken", files: { "adapters/sample_adapter/handlers.py": "import nothing_like_this\n" } };
    const deadly = {
      ...sample,
      name: "deadly",
      files: { "adapters/sample_adapter/handlers.py": "import os\nos.write(2, b'bye\\n')\nos._exit(5)\n" },
    };
    const packages = await openSample({}, [sample, broken, deadly]);

    expect(packages.loaded.packages.map(({ name }) => name)).toEqual(["sample"]);
    expect(packages.loaded.problems.map(({ code, message }) => [code, message])).toEqual([
      [
        "E.PKG.INVALID",
        expect.stringMatching(
          /cannot be imported: ModuleNotFoundError: No module named 'nothing_like_this'\n {4}at <module> \(adapters\/sample_adapter\/handlers\.py:1\)/,
        ),
      ],
      ["E.PKG.INVALID", "the host of package deadly 1.0.0 did not start: it ended with code 5: bye"],
    ]);
  });

  it("[W771] a worker without a usable Python does not offer the packages that need it, and says so", async () => {
    const packages = await openSample({ python: "/nowhere/python3" });

    expect(packages.loaded.packages).toEqual([]);
    expect(packages.loaded.problems).toMatchObject([
      { message: expect.stringContaining("it cannot be started: spawn /nowhere/python3 ENOENT") },
    ]);
  });

  it("[W783] packages that are installed and removed while the worker runs are offered and drained, and running tasks end as they would", async () => {
    const packages = await openSample();
    const file = path.join(packages.root, "go");
    packages.start("sample.gate", "t1", { file });
    await packages.until(isUp(packages, "t1"));
    const [old] = packages.groups;

    writePackage(packages.root, { ...sample, version: "2.0.0" });
    rmSync(path.join(packages.root, "sample", "1.0.0", "manifest.json"));
    await packages.runner.reloadPackages();
    const first = await packages.run("sample.pid", "t2");
    const second = await packages.run("sample.pid", "t3", {}, { package_version: "2.0.0" });
    mkdirSync(file);
    const running = await packages.outcome("t1");

    expect(packages.runner.loadedPackages.packages.map(({ version }) => version)).toEqual(["2.0.0"]);
    expect(first.payload).toMatchObject({ code: "E.CMD.UNKNOWN" });
    expect(second.payload).toMatchObject({ status: "SUCCEEDED" });
    expect(running.payload).toMatchObject({ status: "SUCCEEDED", result: { pid: old } });
  });

  it("[W1043] an adapter in Python stores a file with the scheduler and fetches one, and learns why it cannot", async () => {
    const asked: FileTransfer[] = [];
    const packages = await openSample({
      transferFile: async (transfer) => {
        asked.push(transfer);
        if (transfer.type === "download" && transfer.resourceId === "gone") throw fault("E.NOT_FOUND", "resource gone not found");
        if (transfer.type === "download") writeFileSync(transfer.path, "from elsewhere");
        return { resourceId: "f1", downloadUrl: "/f1", filename: "b.txt", sizeBytes: 4, sha256: "00" };
      },
    });

    const stored = await packages.run("sample.store", "t1");
    const fetched = await packages.run("sample.fetch", "t2", { id: "f2" });
    const refused = await packages.run("sample.fetch", "t3", { id: "gone" });

    expect(asked[0]).toMatchObject({ type: "upload", workerName: "box", filename: "b.txt", mimeType: "text/plain" });
    expect(stored.payload).toMatchObject({ result: { stored: { resourceId: "f1" } }, artifacts: [{ resource_id: "b" }] });
    expect(fetched.payload).toMatchObject({ result: { text: "from elsewhere", scope: "run" } });
    expect(refused.payload).toMatchObject({ code: "E.NOT_FOUND", message: expect.stringContaining("resource gone not found") });
  });
});
