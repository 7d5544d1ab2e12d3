import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";
import { StubScheduler } from "../test/stub-scheduler.ts";
import { workerCommand } from "./index.ts";

const main = fileURLToPath(new URL("./main.ts", import.meta.url));
const packagesDir = fileURLToPath(new URL("../../../examples/packages", import.meta.url));
const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function makeRoot(): string {
  const root = mkdtempSync(path.join(tmpdir(), "worker-"));
  endings.push(() => rm(root, { recursive: true, force: true }));
  return root;
}

interface Started {
  readonly child: ChildProcess;
  readonly dataDir: string;
  /** Lines of stdout, one per call. */
  line(): Promise<string>;
  ended(): Promise<{ code: number | null; stdout: string; stderr: string }>;
}

function start(
  args: readonly string[],
  dataDir = path.join(makeRoot(), "data"),
  env: Readonly<Record<string, string>> = {},
): Started {
  const child = spawn(process.execPath, [main, ...args, "--data-dir", dataDir], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: "", ASTRA_WORKER_AUTH_TOKEN: "secret-token", ...env },
  });
  let stdout = "";
  let stderr = "";
  child.stderr.on("data", (bytes: Buffer) => {
    stderr += bytes.toString();
  });
  const lines = createInterface({ input: child.stdout });
  lines.on("line", (line) => {
    stdout += `${line}\n`;
  });
  const closed = once(child, "close");
  endings.push(async () => {
    child.kill("SIGKILL");
    await closed;
  });
  return {
    child,
    dataDir,
    line: async () => ((await once(lines, "line")) as [string])[0],
    async ended() {
      const [code] = (await closed) as [number | null];
      return { code, stdout, stderr };
    },
  };
}

/** The nodes of the demo package, and this code instead of theirs. */
function makePackage(code: string): string {
  const root = makeRoot();
  mkdirSync(path.join(root, "demo"));
  copyFileSync(path.join(packagesDir, "demo/1.0.0/manifest.json"), path.join(root, "demo/manifest.json"));
  writeFileSync(path.join(root, "demo/adapter.mjs"), code);
  return root;
}

/** A package for Python under the names of the demo package, with one node. */
function makePythonPackage(code: string): string {
  const root = makeRoot();
  mkdirSync(path.join(root, "demo"));
  const node = {
    type: "demo.mark",
    status: "published",
    category: "Tests",
    label: "Mark",
    adapter: "main",
    handler: "mark",
    schema: {},
  };
  const manifest = {
    schemaVersion: "1.0.0",
    name: "demo",
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint: "marks", capabilities: ["demo.mark"] }],
    python: { requires: ">=3.10" },
    nodes: [node],
  };
  writeFileSync(path.join(root, "demo/manifest.json"), JSON.stringify(manifest));
  writeFileSync(path.join(root, "demo/marks.py"), code);
  return root;
}

async function scheduler(): Promise<StubScheduler> {
  const one = await StubScheduler.open();
  endings.push(() => one.close());
  return one;
}

/** The demo package alone: each package starts a process, and one of the examples needs Python, which is not on the PATH here. */
function linkDemo(): string {
  const root = makeRoot();
  symlinkSync(path.join(packagesDir, "demo"), path.join(root, "demo"));
  return root;
}

const usual = (url: string) => ["--url", url, "--name", "box", "--packages-dir", linkDemo()];

describe("the worker program", () => {
  it("[W204] [W831] the ready line of a worker that has no package it can run says so and names the first reason, and how to find a syntax error", async () => {
    const door = await scheduler();
    const empty = makeRoot();
    const broken = makePackage("throw new Error('at import')");
    const misspelt = makePackage("export const a = 1;\nlet b = ;");
    const lineOf = async (dir: string) => {
      const started = start(["--url", door.url, "--name", "box", "--packages-dir", dir]);
      const line = JSON.parse(await started.line()) as { warning?: string };
      started.child.kill("SIGKILL");
      await started.ended();
      return line.warning;
    };

    expect(await lineOf(empty)).toBe(`no package was found in ${empty}: this worker gets no work`);
    expect(await lineOf(broken)).toContain(
      `no package in ${broken} can be loaded, so this worker gets no work: demo: entrypoint`,
    );
    expect(await lineOf(misspelt)).toMatch(/Unexpected token ';'; node --check \S+\.mjs shows the line$/);
  });

  it("[W63] the worker prints one line of JSON when ready, logs JSON to stderr, drains on SIGTERM and ends with exit code 0", async () => {
    const door = await scheduler();
    const started = start(usual(door.url));
    const ready = JSON.parse(await started.line()) as Record<string, unknown>;
    const instance = readFileSync(path.join(started.dataDir, "worker_instance_id"), "utf8").trim();
    expect(ready).toEqual({ ready: true, worker: instance, name: "box", pid: started.child.pid });

    const feedback = door.nextFrame("biz.exec.feedback");
    door.dispatch("t1", "demo.delay", { durationMs: 150, text: "finished" });
    await feedback;
    started.child.kill("SIGTERM");
    const { code, stdout, stderr } = await started.ended();

    expect(code).toBe(0);
    expect(stdout.trim().split("\n")).toHaveLength(1);
    const result = door.receivedFrames.find((frame) => frame.type === "biz.exec.result");
    expect(result?.payload).toMatchObject({ task_id: "t1", status: "SUCCEEDED", result: { text: "finished" } });
    const events = stderr
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { event: string }).event);
    expect(events).toEqual(expect.arrayContaining(["packages", "ready", "signal", "closed"]));
    expect(stderr).not.toContain("secret-token");
  });

  it("[W186] a worker with the transport websocket, by variable or by file, sends handshake, register and heartbeat", async () => {
    const door = await scheduler();
    door.heartbeatMs = 50;
    const file = path.join(makeRoot(), "worker.json");
    writeFileSync(file, JSON.stringify({ transport: "websocket" }));
    const ways = [{ ASTRA_WORKER_TRANSPORT: "websocket" }, { ASTRA_WORKER_CONFIG_FILE: file }];

    for (const env of ways) {
      door.receivedFrames.length = 0;
      const beat = door.nextFrame("control.heartbeat");
      const started = start(usual(door.url), undefined, env);
      await started.line();
      await beat;
      started.child.kill("SIGTERM");
      await started.ended();

      const types = door.receivedFrames.map(({ type }) => type).filter((type) => type !== "control.ack");
      expect(types.slice(0, 3)).toEqual(["control.handshake", "control.register", "control.heartbeat"]);
    }
    const { code, stderr } = await start(usual(door.url), undefined, { ASTRA_WORKER_TRANSPORT: "redis" }).ended();
    expect(code).not.toBe(0);
    expect(stderr).toContain("ASTRA_WORKER_TRANSPORT must be one of websocket");
  });

  it.each([
    ["process", "info", 2],
    ["thread", "info", 2],
    ["thread", "warn", 0],
  ])(
    "[W910] a worker with --node-host %s and --log-level %s logs %i lines about two tasks, with the fields of their frames",
    async (host, level, count) => {
      const door = await scheduler();
      const started = start([...usual(door.url), "--node-host", host, "--log-level", level]);
      await started.line();
      for (const [task, type, parameters, frame] of [
        ["t1", "demo.text", { text: "a" }, "biz.exec.result"],
        ["t2", "demo.fail", { message: "no" }, "biz.exec.error"],
      ] as const) {
        const ended = door.nextFrame(frame);
        door.dispatch(task, type, parameters);
        await ended;
      }
      started.child.kill("SIGTERM");
      const { stderr } = await started.ended();

      const lines = stderr
        .split("\n")
        .filter((line) => line.startsWith("{"))
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      const logged = lines.filter(({ event }) => event === "task");
      expect(logged).toHaveLength(count);
      const common = {
        level: 30,
        tenant: "default",
        "sender.id": expect.any(String),
        type: "biz.exec.dispatch",
        id: expect.any(String),
      };
      const [first, second] = logged;
      if (count === 0) return;
      expect(first).toMatchObject({ ...common, corr: "t1", code: "OK", seq: expect.any(Number), msg: "task succeeded" });
      expect(second).toMatchObject({ ...common, corr: "t2", code: expect.stringMatching(/^E\./), msg: "task failed" });
      expect(second?.["seq"]).toBe(Number(first?.["seq"]) + 1);
      expect(lines.findIndex(({ event }) => event === "signal")).toBeGreaterThan(lines.indexOf(second ?? {}));
    },
  );

  it("[W912] astra worker --check prints one line for each thing, ends with 1 if one is a problem, and leaves no data directory", async () => {
    const door = await scheduler();
    const good = start([...usual(door.url), "--check"]);
    const ended = await good.ended();
    const wrong = await start([...usual(door.url), "--check", "--tenannt", "x"]).ended();

    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).toMatch(/^ok {7}settings {3}.*\n[^]*^ok {7}scheduler {2}/m);
    expect(existsSync(good.dataDir)).toBe(false);
    expect(wrong).toMatchObject({
      code: 1,
      stdout: "problem  settings  --tenannt is not a flag of this command; did you mean --tenant?\n",
    });
  });

  it("[W63] the worker ends after its grace period and returns the task it could not finish", async () => {
    const door = await scheduler();
    const started = start([...usual(door.url), "--grace", "1"]);
    await started.line();
    const feedback = door.nextFrame("biz.exec.feedback");
    door.dispatch("t1", "demo.delay", { durationMs: 600_000 });
    await feedback;

    started.child.kill("SIGTERM");
    const { code } = await started.ended();

    expect(code).toBe(0);
    expect(door.receivedFrames.at(-1)).toMatchObject({ type: "biz.exec.error", payload: { code: "E.RUNNER.CANCELLED" } });
  });

  it("[W63] the worker ends at once on the second signal", async () => {
    const door = await scheduler();
    const started = start(usual(door.url));
    await started.line();
    const feedback = door.nextFrame("biz.exec.feedback");
    door.dispatch("t1", "demo.delay", { durationMs: 600_000 });
    await feedback;
    const goodbye = door.nextFrame("control.heartbeat");
    started.child.kill("SIGTERM");
    await goodbye;

    started.child.kill("SIGTERM");

    expect((await started.ended()).code).toBe(1);
  });

  it("[W63] the worker ends on SIGTERM while the scheduler is unreachable", async () => {
    const door = await StubScheduler.open();
    await door.close();
    const started = start(usual(door.url));
    await once(started.child.stderr as NonNullable<ChildProcess["stderr"]>, "data");

    started.child.kill("SIGTERM");

    expect((await started.ended()).code).toBe(0);
  });

  it("[W63] [L57] the worker prints one line per bad setting, ends with exit code 2 and creates no data directory", async () => {
    const started = start(["--max-parallel", "none", "--tokn", "x", "--packages-dir", path.join(makeRoot(), "none")]);

    const { code, stdout, stderr } = await started.ended();

    expect(code).toBe(2);
    expect(stdout).toBe("");
    expect(stderr.trim().split("\n")).toEqual([
      "error E.CONFIG.INVALID: 3 settings cannot be used:",
      "  --tokn is not a flag of this command; did you mean --token?",
      "  --max-parallel must be a whole number from 1 to 2048",
      expect.stringMatching(/^ {2}--packages-dir names .*none, which is no folder; make it, or correct the path$/),
      "try: astra worker --help",
      "docs: docs/faults.md#E.CONFIG.INVALID",
    ]);
    expect(existsSync(started.dataDir)).toBe(false);
  });

  it("[W62] the worker ends at once with exit code 2 if its data directory cannot be created", async (ctx) => {
    if (!existsSync("/proc")) ctx.skip("this system has no /proc, where folders cannot be made");

    const { code, stderr } = await start([], "/proc/none/of/ours").ended();

    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error E\.CONFIG\.INVALID: the data directory \/proc\/none\/of\/ours cannot be used: ENOENT.*\ntry: /,
    );
  });

  it("[W63] [L57] the worker ends with exit code 4 if its token is refused and --reconnect-abort-on-auth-error is set", async () => {
    const door = await scheduler();
    door.refusal = { code: "E.AUTH.INVALID_TOKEN", reason: "the token is wrong" };

    const { code, stderr } = await start([...usual(door.url), "--reconnect-abort-on-auth-error"]).ended();

    expect(code).toBe(4);
    expect(stderr).toContain(
      "\nerror E.AUTH.INVALID_TOKEN: the scheduler refused this worker: the token is wrong\ntry: start it",
    );
  });

  it("[W83] a worker killed between a task's end and the ack resends the result after a restart and does not run the task again", async () => {
    const door = await scheduler();
    door.isAckingResults = false;
    const first = start(usual(door.url));
    await first.line();
    const result = door.nextFrame("biz.exec.result");
    door.dispatch("t1", "demo.delay", { durationMs: 1, text: "once" });
    const sent = await result;
    first.child.kill("SIGKILL");
    await first.ended();
    const before = door.receivedFrames.length;

    door.isAckingResults = true;
    const [register, again] = [door.nextFrame("control.register"), door.nextFrame("biz.exec.result")];
    const second = start(usual(door.url), first.dataDir);
    expect((await register).payload["running"]).toEqual([{ task_id: "t1", fence: 1 }]);
    expect(await again).toMatchObject({ id: sent.id, payload: sent.payload });
    second.child.kill("SIGTERM");
    expect((await second.ended()).code).toBe(0);

    expect(door.receivedFrames.slice(before).filter((frame) => frame.type.startsWith("biz."))).toHaveLength(1);
    const third = door.nextFrame("control.register");
    start(usual(door.url), first.dataDir);
    expect((await third).payload["running"]).toEqual([]);
  });

  it.each(["thread", "process"])(
    "[W788] [W787] the result of a Python task whose worker was killed before the ack is sent again and not produced again, beside Node packages in a %s",
    async (nodeHost) => {
      const door = await scheduler();
      door.isAckingResults = false;
      const root = makePythonPackage(`
import os
def mark(ctx):
    with open(ctx.params["file"], "a") as file:
        file.write(ctx.idempotency_key)
    return {"names": [name for name in os.environ if name.startswith("ASTRA")]}
`);
      const file = path.join(root, "marks");
      const args = ["--url", door.url, "--name", "box", "--packages-dir", root, "--node-host", nodeHost];
      const env = { PATH: process.env["PATH"] ?? "" };
      const first = start(args, undefined, env);
      await first.line();
      const result = door.nextFrame("biz.exec.result");
      door.dispatch("t1", "demo.mark", { file });
      const sent = await result;
      first.child.kill("SIGKILL");
      await first.ended();

      door.isAckingResults = true;
      const again = door.nextFrame("biz.exec.result");
      start(args, first.dataDir, env);

      expect(await again).toMatchObject({ id: sent.id, payload: sent.payload });
      expect(sent.payload).toMatchObject({ status: "SUCCEEDED", result: { names: [] } });
      expect(readFileSync(file, "utf8")).toBe("t1");
    },
  );

  it("[W83] [L57] the worker ends with exit code 1 and an error if its outbox is damaged, sets the file aside, and can start again", async () => {
    const door = await scheduler();
    const first = start(usual(door.url));
    await first.line();
    for (const task of ["t1", "t2"]) {
      const result = door.nextFrame("biz.exec.result");
      door.dispatch(task, "demo.text", { text: "x" });
      await result;
    }
    first.child.kill("SIGTERM");
    await first.ended();
    const outbox = readdirSync(first.dataDir).find((name) => name.endsWith(".journal")) ?? "";
    const bytes = readFileSync(path.join(first.dataDir, outbox));
    bytes[20] = 0;
    writeFileSync(path.join(first.dataDir, outbox), bytes);

    const { code, stderr } = await start(usual(door.url), first.dataDir).ended();

    expect(code).toBe(1);
    expect(stderr).toMatch(/^error E\.OUTBOX\.DAMAGED: the outbox of this worker is damaged at byte 0: /m);
    expect(readdirSync(first.dataDir)).toContainEqual(expect.stringMatching(/^outbox-.*\.journal\.damaged-\d+$/));
    const ready = JSON.parse(await start(usual(door.url), first.dataDir).line()) as Record<string, unknown>;
    expect(ready["ready"]).toBe(true);
  });

  it("[W125] [L57] the worker ends with exit code 1 and an error if a package ends the thread that loads it", async () => {
    const packages = makePackage("process.exit(9);");
    const started = start(["--url", "ws://127.0.0.1:1/ws", "--packages-dir", packages, "--node-host", "thread"]);

    const { code, stdout, stderr } = await started.ended();

    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("error E.PKG.INVALID: the handler thread crashed while loading packages: it ended with code 9");
  });

  it("[W124] the worker ends on SIGTERM while a package blocks the thread that loads it", async () => {
    const code = 'import { writeSync } from "node:fs"; writeSync(2, "loading"); for (;;) {}';
    const started = start(["--url", "ws://127.0.0.1:1/ws", "--packages-dir", makePackage(code), "--node-host", "thread"]);
    await once(started.child.stderr as NonNullable<ChildProcess["stderr"]>, "data");

    started.child.kill("SIGTERM");

    expect(await started.ended()).toEqual({ code: 0, stdout: "", stderr: "loading" });
  });

  it("[W63] the worker exports its command name and flags for the CLI", () => {
    expect(workerCommand.name).toBe("worker");
    expect(workerCommand.flags).toContainEqual({
      flag: "--token",
      env: "ASTRA_WORKER_AUTH_TOKEN",
      help: expect.stringContaining("token that the scheduler accepts"),
    });
  });
});
