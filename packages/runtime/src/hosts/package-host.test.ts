import type { DispatchPayload } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { realEnvironment } from "../../test/sample-worker.ts";
import { createAttempt } from "../attempts/attempt.ts";
import { AttemptContext, type AttemptContextPorts, type AttemptContextSettings } from "../handlers/attempt-context.ts";
import { restartPolicy } from "../system/crash-history.ts";
import { encodeFrames, FrameDecoder } from "./frame-stream.ts";
import { hostLimits, readHostFrame, type ToHost } from "./host-frames.ts";
import { PackageHost } from "./package-host.ts";
import { type HostListener, spawnHost } from "./spawn-host.ts";

const hosted = { name: "p", version: "1.0.0", dir: "/p", adapters: [], nodes: [] };
const ready = { type: "ready", runtime: "test", handlers: [], problems: [] } as const;

/** Hosts that the test plays, on a clock that the test moves. */
function play() {
  const lives: { listener: HostListener; sent: ToHost[]; ended: string[] }[] = [];
  const timers = new Map<() => void, number>();
  const reports: string[] = [];
  let now = 0;
  const host = new PackageHost(
    hosted,
    {
      environment: {
        now: () => now,
        after(ms, call) {
          timers.set(call, now + ms);
          return () => timers.delete(call);
        },
        defer: (call) => call(),
      },
      spawnHost(listener) {
        const life = { listener, sent: [] as ToHost[], ended: [] as string[] };
        lives.push(life);
        return {
          pid: undefined,
          send: (frame) => life.sent.push(frame),
          terminate: (why) => life.ended.push(`terminated: ${why}`),
          kill: (why) => life.ended.push(`killed: ${why}`),
        };
      },
      groupStarted: () => {},
      groupEnded: () => {},
      listenedTypesChanged: () => {},
      sendVendorFrame: async () => true,
      reportProblem: ({ message }) => reports.push(message),
    },
    { execMode: "auto", parallelMax: 4, cancelGraceMs: 1_000 },
  );
  const pass = (ms: number): void => {
    now += ms;
    for (const [call, at] of [...timers]) {
      if (at > now) continue;
      timers.delete(call);
      call();
    }
  };
  const life = (index: number) => lives[index] as (typeof lives)[number];
  const start = (task: string) => {
    const dispatch = { run_id: "r", task_id: task, node_id: "n", node_type: "p.x", parameters: {}, constraints: {} };
    const attempt = createAttempt(dispatch as unknown as DispatchPayload, 1, 0);
    const context = new AttemptContext(
      attempt,
      { config: {}, leased: [] },
      { workRoot: "/w" } as AttemptContextSettings,
      {
        sendFeedback: () => {},
      } as unknown as AttemptContextPorts,
    );
    const outcome = host.call(context).then(
      (value) => `gave ${JSON.stringify(value)}`,
      (thrown: Error & { code?: string }) => `${thrown.code ?? "E.RUNNER.FAILURE"} ${thrown.message}`,
    );
    return { attempt, outcome };
  };
  return { host, lives, life, reports, pass, start };
}

const soon = (): Promise<void> => new Promise(setImmediate);

describe("the supervision of a package's host", () => {
  it("[W771] a host that is not ready in time is killed, and the package learns why", async () => {
    const { host, life, pass } = play();
    const opened = host.open();
    expect(life(0).sent).toMatchObject([{ type: "hello", protocol: 1, package: { name: "p" } }]);

    pass(hostLimits.startMsMax);
    expect(life(0).ended).toEqual(["killed: it was not ready within 60 s"]);
    life(0).listener.outputReceived("stderr", "no module\n");
    life(0).listener.hostExited("it was not ready within 60 s");

    await expect(opened).rejects.toThrow("the host of package p 1.0.0 did not start: it was not ready within 60 s: no module");
  });

  it("[W772] a host is started again with the next call: at once after the first crash, then after pauses that double", async () => {
    const { host, lives, life, pass, start } = play();
    void host.open();
    life(0).listener.frameReceived(ready);
    const first = start("t1");
    await soon();
    life(0).listener.hostExited("it ended with code 1");
    expect(await first.outcome).toContain("E.RUNNER.FAILURE the host of package p 1.0.0 ended while this task was running");
    expect(lives).toHaveLength(1);

    const second = start("t2");
    await soon();
    expect(lives).toHaveLength(2);
    life(1).listener.frameReceived(ready);
    await soon();
    life(1).listener.hostExited("it ended with code 1");
    await second.outcome;
    const third = start("t3");
    await soon();
    expect(lives).toHaveLength(2);
    pass(restartPolicy.restartDelayMs);
    await soon();
    expect(lives).toHaveLength(3);
    life(2).listener.frameReceived(ready);
    await soon();
    life(2).listener.frameReceived({ type: "result", call: 0, value: { n: 1 } });

    expect(await third.outcome).toBe('gave {"n":1}');
  });

  it("[W772] results that a host sent before its end count, and the rest of several calls go back to the scheduler", async () => {
    const { host, life, start } = play();
    void host.open();
    life(0).listener.frameReceived(ready);
    const [done, ...lost] = ["t1", "t2", "t3"].map(start);
    await soon();

    life(0).listener.frameReceived({ type: "result", call: 0, value: {} });
    life(0).listener.hostExited("it was ended by SIGKILL");

    expect(await done?.outcome).toBe("gave {}");
    for (const { outcome } of lost) expect(await outcome).toMatch(/^E\.RUNNER\.CANCELLED .*SIGKILL$/);
  });

  it("[W773] a host whose task ignores a cancel takes no more calls and ends when the last wanted one has ended", async () => {
    const { host, lives, life, pass, start } = play();
    void host.open();
    life(0).listener.frameReceived(ready);
    const [stubborn, other] = [start("t1"), start("t2")];
    await soon();

    stubborn.attempt.stopSignal.stop(new Error("enough"));
    pass(999);
    expect(life(0).ended).toEqual([]);
    pass(1);
    const next = start("t3");
    await soon();
    expect(life(0).sent.at(-1)).toEqual({ type: "cancel", call: 0, reason: "enough" });
    expect([lives.length, life(0).ended]).toEqual([2, []]);
    life(0).listener.frameReceived({ type: "result", call: 1, value: {} });

    expect(await other.outcome).toBe("gave {}");
    expect(life(0).ended).toEqual(["terminated: it is replaced"]);
    life(1).listener.frameReceived(ready);
    await soon();
    life(1).listener.frameReceived({ type: "result", call: 0, value: {} });
    expect(await next.outcome).toBe("gave {}");
  });

  it("[W783] a drained host lets its calls end, takes no others, and is gone then", async () => {
    const { host, life, start } = play();
    void host.open();
    life(0).listener.frameReceived(ready);
    const running = start("t1");
    await soon();

    const drained = host.drain();
    const refused = await start("t2").outcome;
    expect(life(0).ended).toEqual([]);
    life(0).listener.frameReceived({ type: "result", call: 0, value: {} });
    expect(life(0).ended).toEqual(["terminated: it is replaced"]);
    life(0).listener.hostExited("it ended with code 0");
    await drained;

    expect(await running.outcome).toBe("gave {}");
    expect(refused).toBe("E.RUNNER.CANCELLED the host of package p 1.0.0 has ended");
  });
});

describe("the frames of a host", () => {
  it("[W770] frames arrive whole however their bytes are cut", () => {
    const frames = [
      { type: "pong", ping: 1 },
      { type: "output", channel: "stdout", text: "ä😀".repeat(50) },
    ];
    const bytes = encodeFrames([frames[0] as object, JSON.stringify(frames[1])]);

    for (const size of [1, 3, 7, bytes.length]) {
      const reader = new FrameDecoder();
      const read: unknown[] = [];
      for (let at = 0; at < bytes.length; at += size) read.push(...reader.add(bytes.subarray(at, at + size)));
      expect(read).toEqual(frames);
      expect(reader.isEmpty).toBe(true);
    }
  });

  it.each([
    ["no object", [1], "a frame is not an object with a type"],
    ["an unknown type", { type: "toString" }, 'a frame has the unknown type "toString"'],
    ["a missing field", { type: "result" }, "field call of a result frame is wrong or missing"],
    ["a wrong field", { type: "group", pid: 1, isAlive: true }, "field pid of a group frame is wrong or missing"],
  ])("[W770] a frame that is %s is refused with a sentence", (_, frame, problem) => {
    expect(readHostFrame(frame)).toBe(problem);
  });

  it.each([
    ["bytes that are no frame", `Buffer.from("hello, I am no frame at all")`, "a frame of 1751477356 bytes is larger than"],
    ["text that is no JSON", `Buffer.from("\\0\\0\\0\\x02{x")`, "it broke the host protocol: "],
    [
      "a frame nobody knows",
      `Buffer.from("\\0\\0\\0\\x0e{\\"type\\":\\"odd\\"}")`,
      'it broke the host protocol: a frame has the unknown type "odd"',
    ],
  ])("[W770] a host that sends %s is ended", async (_, bytes, reason) => {
    const script = `require("node:fs").writeSync(3, ${bytes}); setInterval(() => {}, 1000);`;

    const end = await new Promise<string>((resolve) => {
      spawnHost(
        { file: process.execPath, args: ["-e", script], env: {}, cwd: "/" },
        { frameReceived: () => {}, outputReceived: () => {}, hostExited: resolve },
        realEnvironment,
      );
    });

    expect(end).toContain(reason);
  });

  it("[W770] a host that does not read what is sent to it is ended", async () => {
    const end = await new Promise<string>((resolve) => {
      const host = spawnHost(
        { file: process.execPath, args: ["-e", "setInterval(() => {}, 1000);"], env: {}, cwd: "/" },
        { frameReceived: () => {}, outputReceived: () => {}, hostExited: resolve },
        realEnvironment,
      );
      const reason = "x".repeat(1024 * 1024);
      for (let n = 0; n < 70; n++) host.send({ type: "cancel", call: n, reason });
    });

    expect(end).toContain("it does not read");
  });
});
