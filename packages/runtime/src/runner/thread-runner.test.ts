import type { DispatchPayload } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createAttempt, type LocalAttempt } from "../attempts/attempt.ts";
import type { AttemptOutcome } from "../attempts/outcome.ts";
import type { MiddlewareCallAnswer, MiddlewareCallDraft } from "../handlers/middleware-call.ts";
import type { LoadedPackagesSummary } from "../handlers/package-loader.ts";
import { restartPolicy } from "../system/crash-history.ts";
import type { HandlerThreadListener } from "./spawn-handler-thread.ts";
import type { FromHandlerThread, ToHandlerThread } from "./thread-messages.ts";
import { ThreadRunner, threadEndPolicy } from "./thread-runner.ts";

const shelf: LoadedPackagesSummary = { packages: [], problems: [] };
const finished = (task: string, isSettled = true): FromHandlerThread => ({
  type: "finished",
  task,
  fence: 1,
  outcome: { frameType: "biz.exec.result", payload: `{"of":"${task}"}` },
  isSettled,
});

/** A runner whose threads are played by the test, on a clock that the test moves. */
function play() {
  const threads: {
    listener: HandlerThreadListener;
    received: ToHandlerThread[];
    isKilled: boolean;
    die(reason: string): void;
  }[] = [];
  const timers = new Map<() => void, number>();
  const log: string[] = [];
  const outcomes: AttemptOutcome[] = [];
  const calls: { task: string; draft: MiddlewareCallDraft; answer: (answer: MiddlewareCallAnswer) => void }[] = [];
  let now = 0;
  const soon: (() => void)[] = [];
  const host = new ThreadRunner({
    environment: {
      now: () => now,
      after(ms, call) {
        timers.set(call, now + ms);
        return () => timers.delete(call);
      },
      defer: (call) => void soon.push(call),
    },
    spawnThread(listener) {
      const thread = {
        listener,
        received: [] as ToHandlerThread[],
        isKilled: false,
        die: (reason: string) => listener.threadExited(reason),
      };
      threads.push(thread);
      return {
        sendMessages: (messages) => thread.received.push(...messages),
        terminate: async () => {
          thread.isKilled = true;
          listener.threadExited("killed");
        },
        heapPct: async () => 40,
      };
    },
  });
  host.setListener({
    attemptFinished(attempt, outcome) {
      log.push(`finished ${attempt.task}`);
      outcomes.push(outcome);
    },
    handlerReturned: (attempt) => log.push(`settled ${attempt.task}`),
    feedbackReceived: (attempt, input) => log.push(`feedback ${attempt.task} ${JSON.stringify(input)}`),
    nextCalled: (attempt, draft, answer) => {
      calls.push({ task: attempt.task, draft, answer });
      return () => log.push(`forgot ${attempt.task}`);
    },
    vendorFrameSent: ({ type }) => type !== "ext.vendor.full",
    resourceRemoved: (resource, reason) => log.push(`removed ${resource} ${reason}`),
    problemReported: ({ cause }) => log.push(`report ${String(cause)}`),
    healthChanged: () => log.push("changed"),
  });
  return {
    host,
    threads,
    log,
    outcomes,
    calls,
    tick: () => {
      for (const call of soon.splice(0)) call();
    },
    pass(ms: number) {
      now += ms;
      for (const [call, at] of [...timers]) if (at <= now && timers.delete(call)) call();
    },
    nextTimer: () => Math.min(...timers.values()) - now,
    last: () => threads.at(-1) as (typeof threads)[number],
  };
}

function attemptOf(task: string): LocalAttempt {
  const names = { run_id: "r", task_id: task, node_id: "n", node_type: "demo.x", package_name: "demo", package_version: "1.0.0" };
  return createAttempt({ ...names, parameters: {}, constraints: {} } as DispatchPayload, 1, 0);
}

describe("the handlers' thread, seen from the link", () => {
  it("[W121] the thread runner hands attempts over by task and fence, all of a tick at once, when the packages are loaded", () => {
    const { host, last, tick } = play();
    void host.startThread();
    host.start(attemptOf("early"));
    expect(last().received).toEqual([]);

    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    host.start(attemptOf("t2"));
    expect(last().received).toEqual([]);
    tick();

    expect(last().received).toMatchObject([
      { type: "start", fence: 1, dispatch: { task_id: "early" } },
      { type: "start", fence: 1, dispatch: { task_id: "t2" } },
    ]);
  });

  it("[W121] the thread runner passes on outcomes as encoded, handler ends and feedback, and ignores attempts it does not know", () => {
    const { host, last, log, outcomes } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    for (const task of ["t1", "t2"]) host.start(attemptOf(task));

    last().listener.messagesReceived([
      { type: "feedback", task: "t1", fence: 1, input: '{"progress":0.5}' },
      finished("t1"),
      finished("t2", false),
      { type: "settled", task: "t2", fence: 1 },
      finished("t2"),
      { type: "settled", task: "t9", fence: 1 },
    ]);

    expect(log).toEqual(['feedback t1 {"progress":0.5}', "finished t1", "settled t1", "finished t2", "settled t2"]);
    expect(outcomes[0]).toEqual({ type: "written", frameType: "biz.exec.result", payload: '{"of":"t1"}' });
  });

  it("[W121] the thread runner notifies the thread when an attempt is stopped, unless its handler has already returned", () => {
    const { host, last, tick } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    const [one, other] = [attemptOf("t1"), attemptOf("t2")];
    host.start(one);
    host.start(other);
    last().listener.messagesReceived([finished("t2")]);

    one.stopSignal.stop(new Error("cancelled"));
    other.stopSignal.stop(new Error("late"));
    tick();

    expect(last().received.filter(({ type }) => type === "stop")).toEqual([
      { type: "stop", task: "t1", fence: 1, reason: "cancelled" },
    ]);
  });

  it("[W126] the thread runner passes vendor frames to the thread for types it listens to, and answers the frames it sends", () => {
    const { host, last, tick } = play();
    void host.startThread();
    const frame = { type: "ext.vendor.a", id: "f", corr: undefined, payload: {} };
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    expect(host.deliverVendorFrame(frame)).toBe(false);

    last().listener.messagesReceived([
      { type: "listening", types: ["ext.vendor.a"] },
      { type: "ext", ticket: 1, draft: { type: "ext.vendor.b", corr: undefined, payload: "{}" } },
      { type: "ext", ticket: 2, draft: { type: "ext.vendor.full", corr: undefined, payload: "{}" } },
    ]);
    expect(host.deliverVendorFrame(frame)).toBe(true);
    tick();

    expect(last().received).toEqual([
      { type: "ext-answer", ticket: 1, isTaken: true },
      { type: "ext-answer", ticket: 2, isTaken: false },
      { type: "ext", frame },
    ]);
  });

  it("[W122] the thread runner fails the attempt that was alone in a thread that died, and continues in a new thread at once", () => {
    const { host, threads, last, log, outcomes, pass, tick } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    host.start(attemptOf("t1"));
    tick();

    last().die("Error: boom");
    host.start(attemptOf("t2"));
    pass(0);
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    tick();

    expect(log).toEqual(["report Error: boom", "finished t1", "settled t1"]);
    expect(outcomes).toMatchObject([
      { type: "error", code: "E.RUNNER.FAILURE", message: expect.stringContaining("Error: boom") },
    ]);
    expect(threads).toHaveLength(2);
    expect(last().received).toMatchObject([{ type: "start", dispatch: { task_id: "t2" } }]);
  });

  it("[W122] the thread runner gives back all attempts that shared a thread that died, and keeps those that had not begun", () => {
    const { host, last, log, outcomes, pass, tick } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    for (const task of ["t1", "t2"]) host.start(attemptOf(task));
    last().die("Error: boom");
    host.start(attemptOf("t3"));
    pass(0);
    // The next one dies while it loads: t3 was never in it.
    last().die("Error: again");
    pass(restartPolicy.restartDelayMs);
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    tick();

    expect(outcomes.map((outcome) => (outcome.type === "error" ? outcome.code : ""))).toEqual([
      "E.RUNNER.CANCELLED",
      "E.RUNNER.CANCELLED",
    ]);
    expect(log.filter((line) => line.includes("t3"))).toEqual([]);
    expect(last().received).toMatchObject([{ type: "start", dispatch: { task_id: "t3" } }]);
  });

  it("[W123] the thread runner restarts a thread that keeps dying after doubling pauses, and reports a problem at five within a minute", () => {
    const { host, last, log, nextTimer, pass } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    const pauses: number[] = [];
    const problems: number[] = [];
    for (let crash = 1; crash <= 6; crash++) {
      last().die("Error: boom");
      pauses.push(nextTimer());
      problems.push(host.problems.length);
      pass(nextTimer());
    }

    expect(pauses).toEqual([0, 250, 500, 1_000, 2_000, 4_000]);
    expect(problems).toEqual([0, 0, 0, 0, 1, 1]);
    expect(host.problems[0]).toBe("the handler thread crashed 6 times within 60 s");
    expect(log.filter((line) => line === "changed")).toHaveLength(1);
    pass(restartPolicy.crashWindowMs);
    expect(host.problems).toEqual([]);
  });

  it("[W125] the thread runner reports the reason when the thread dies during the first loading", async () => {
    const { host, last } = play();
    const opened = host.startThread();

    last().die("it ended with code 7");

    await expect(opened).rejects.toThrow("while loading packages: it ended with code 7");
    await host.close();
  });

  it("[W124] the thread runner sends pending stops first, gives handlers time to return, and then ends the thread", async () => {
    const { host, last, pass } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    const attempt = attemptOf("t1");
    host.start(attempt);
    attempt.stopSignal.stop(new Error("given back"));

    const closed = host.close();
    expect(last().received.map(({ type }) => type)).toEqual(["start", "stop", "end"]);
    expect(last().isKilled).toBe(false);
    pass(threadEndPolicy.shutdownWaitMs);
    await closed;

    expect(last().isKilled).toBe(true);
    expect(host.isStuck).toBe(false);
  });

  it("[W120] the thread runner reports for how long the thread has left a ping unanswered", () => {
    const { host, last, pass, tick } = play();
    void host.startThread();
    expect(host.lagMs).toBe(0);
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    const lags = [host.lagMs];
    tick();
    for (const ms of [500, 700]) {
      pass(ms);
      lags.push(host.lagMs);
    }
    tick();
    expect(last().received).toEqual([{ type: "ping", ping: 0 }]);
    last().listener.messagesReceived([{ type: "pong", ping: 0, resources: { "resource.disk_bytes_in_use": 7 } }]);
    lags.push(host.lagMs);

    expect(host.metrics).toEqual({ "resource.disk_bytes_in_use": 7 });
    expect(lags).toEqual([0, 500, 1_200, 0]);
  });

  it("[W132] the thread runner reports how full the thread's heap was at the last reading", async () => {
    const { host, last } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);

    expect(host.heapPct).toBeNull();
    expect(host.heapPct).toBeNull();
    await Promise.resolve();
    await Promise.resolve();

    expect(host.heapPct).toBe(40);
  });

  it("[W158] the thread runner carries calls of next and their answers, and takes back calls that no handler waits for any more", () => {
    const { host, last, calls, log, tick } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    for (const task of ["t1", "t2"]) host.start(attemptOf(task));
    tick();
    last().received.length = 0;
    const draft = { argumentsJson: "{}" };

    last().listener.messagesReceived([
      { type: "next", ticket: 0, task: "t1", fence: 1, draft },
      { type: "next", ticket: 1, task: "t2", fence: 1, draft },
      { type: "next", ticket: 2, task: "t9", fence: 1, draft },
      { type: "next-forget", ticket: 1 },
    ]);
    calls[0]?.answer({ result: { echo: "hi" } });
    last().listener.messagesReceived([{ type: "next-forget", ticket: 0 }]);
    tick();

    expect(calls.map(({ task }) => task)).toEqual(["t1", "t2"]);
    expect(last().received).toEqual([{ type: "next-answer", ticket: 0, answer: { result: { echo: "hi" } } }]);
    expect(log).toEqual(["forgot t2"]);
  });

  it("[W183] the thread runner knows which resources named by results the thread keeps; those only in its memory are lost with it", () => {
    const { host, last, log, pass } = play();
    void host.startThread();
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: ["file"] }]);
    last().listener.messagesReceived([
      { type: "announced", resource: "model" },
      { type: "announced", resource: "session" },
      { type: "removed", resource: "session", reason: "evicted" },
    ]);
    expect([...host.referencedResources]).toEqual(["file", "model"]);

    last().die("out of memory");
    pass(0);
    last().listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: ["file"] }]);

    expect([...host.referencedResources]).toEqual(["file"]);
    expect(log.filter((line) => line.startsWith("removed"))).toEqual(["removed session evicted", "removed model lost"]);
  });

  it("[W203] the thread runner keeps what packages report while they are loaded, up to a limit, until there is somebody to report it to", async () => {
    const reported: string[] = [];
    let listener: HandlerThreadListener | undefined;
    const runner = new ThreadRunner({
      environment: { now: () => 0, after: () => () => {}, defer: () => {} },
      spawnThread: (given) => {
        listener = given;
        return { sendMessages: () => {}, terminate: async () => {}, heapPct: async () => null };
      },
    });
    const loaded = runner.startThread();
    for (let n = 0; n < 150; n++) listener?.messagesReceived([{ type: "report", message: "printed", cause: String(n) }]);
    listener?.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    await loaded;

    runner.setListener({ problemReported: ({ cause }: { cause: unknown }) => reported.push(String(cause)) } as never);
    listener?.messagesReceived([{ type: "report", message: "printed", cause: "later" }]);

    expect(reported.slice(0, 2)).toEqual(["0", "1"]);
    expect(reported.slice(99)).toEqual(["99", "later"]);
  });

  it("[W783] a reload of the packages is passed to the handler thread, answered with what is offered now, and fails with the thread", async () => {
    const { host, threads } = play();
    void host.startThread();
    const [thread] = threads;
    thread?.listener.messagesReceived([{ type: "loaded", packages: shelf, referencedResources: [] }]);
    const offered = { packages: [], problems: [{ dir: "d", code: "E.PKG.INVALID", message: "m" }] };

    const done = host.reloadPackages();
    const failed = host.reloadPackages();
    const lost = host.reloadPackages();
    thread?.listener.messagesReceived([
      { type: "reloaded", packages: offered },
      { type: "reloaded", packages: offered, problem: "the disk is gone" },
    ]);
    thread?.die("it ended with code 1");

    await done;
    expect(host.loadedPackages).toEqual(offered);
    await expect(failed).rejects.toThrow("the disk is gone");
    await expect(lost).rejects.toThrow("the handler thread ended: it ended with code 1");
  });
});
