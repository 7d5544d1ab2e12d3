import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { DispatchPayload } from "@astraflow/protocol";
import type { HandlerContext, NodeHandler } from "@astraflow/sdk";
import { describe, expect, it, vi } from "vitest";
import { executorHarness } from "../../test/executor-harness.ts";

describe("executor", () => {
  it("[W32] the executor gives a handler its context and reports what the handler returned", () => {
    let seen: HandlerContext | undefined;
    const b = executorHarness(
      (context) => {
        seen = context;
        b.pass(12);
        return { text: "hi" };
      },
      { attempt: 3 },
    );

    b.executor.start(b.attempt);

    expect(seen).toMatchObject({
      runId: "r",
      taskId: "r.1",
      nodeId: "n",
      nodeType: "demo.x",
      packageName: "demo",
      packageVersion: "1.0.0",
      tenant: "acme",
      attempt: 3,
      params: { a: 1 },
      config: { strict: true },
    });
    expect(b.outcomes).toEqual([{ type: "result", status: "SUCCEEDED", result: { text: "hi" }, durationMs: 12 }]);
    expect(b.log).toEqual(["finished", "settled"]);
  });

  it("[W32] the executor waits for an asynchronous handler", async () => {
    const { promise, resolve } = Promise.withResolvers<object>();
    const b = executorHarness(() => promise);
    b.executor.start(b.attempt);
    expect(b.log).toEqual([]);

    resolve({ status: "skipped" });
    await b.settled;

    expect(b.outcomes).toMatchObject([{ type: "result", status: "SKIPPED" }]);
  });

  it("[W31] the executor turns a throw or a rejection into an error, and frees the slot", async () => {
    const handlers: NodeHandler[] = [
      () => {
        throw new Error("boom");
      },
      () => Promise.reject(new Error("boom")),
    ];
    for (const handler of handlers) {
      const b = executorHarness(handler);
      b.executor.start(b.attempt);
      await b.settled;

      expect(b.outcomes).toEqual([{ type: "error", code: "E.RUNNER.FAILURE", message: "boom", where: "worker.runner" }]);
      expect(b.log).toEqual(["finished", "settled"]);
    }
  });

  it("[W31] the executor survives a returned object that throws when it is read", () => {
    const b = executorHarness(() => ({
      get status() {
        throw new Error("hands off");
      },
    }));

    b.executor.start(b.attempt);

    expect(b.outcomes).toMatchObject([{ type: "error", code: "E.RUNNER.FAILURE" }]);
    expect(b.log).toEqual(["finished", "settled"]);
  });

  it("[W33] the executor reports E.CMD.UNKNOWN where package, version or node type has no handler", () => {
    for (const part of [{ node_type: "demo.y" }, { package_version: "1.0.1" }, { package_name: "other" }]) {
      const b = executorHarness(() => ({}), part);

      b.executor.start(b.attempt);

      expect(b.outcomes).toMatchObject([{ type: "error", code: "E.CMD.UNKNOWN" }]);
      expect(b.log).toEqual(["finished", "settled"]);
    }
  });

  it("[W34] the executor ends and stops an attempt at its time limit, and keeps its slot occupied until the handler returns", async () => {
    const { promise, resolve } = Promise.withResolvers<object>();
    const b = executorHarness(() => promise, { constraints: { timeout_ms: 250 } });
    b.executor.start(b.attempt);
    const [timer] = b.timers;

    expect(timer?.ms).toBe(250);
    timer?.call();
    expect(b.outcomes).toMatchObject([{ type: "error", code: "E.TIMEOUT" }]);
    expect(b.attempt.stopSignal.signal.aborted).toBe(true);
    expect(b.log).toEqual(["finished"]);
    resolve({ text: "too late" });
    await b.settled;

    expect(b.outcomes).toHaveLength(1);
    expect(b.log).toEqual(["finished", "settled"]);
  });

  it("[W34] the executor cancels the time limit when the handler returns earlier", () => {
    const b = executorHarness(() => ({}), { constraints: { timeout_ms: 250 } });

    b.executor.start(b.attempt);

    expect(b.timers).toMatchObject([{ isCancelled: true }]);
  });

  it("[W35] the executor gives an attempt its own directory on request, inside the root whatever its ids, and removes it", async () => {
    let dir = "";
    const b = executorHarness(
      async (context) => {
        dir = context.workDir;
        writeFileSync(path.join(dir, "note.txt"), "x");
        expect(context.workDir).toBe(dir);
        return {};
      },
      { run_id: "../../..", task_id: "../../etc/passwd" },
    );

    b.executor.start(b.attempt);
    await b.settled;

    expect(path.dirname(dir)).toBe(b.workRoot);
    await vi.waitFor(() => expect(existsSync(dir)).toBe(false));
  });

  it("[W35] the executor makes no directory that no handler asked for", () => {
    const b = executorHarness(() => ({}));

    b.executor.start(b.attempt);

    expect(readdirSync(b.workRoot)).toEqual([]);
  });

  it("[W32] the executor passes feedback on as the handler sends it", () => {
    const b = executorHarness((context) => {
      context.feedback.send({ progress: 0.5 });
      context.feedback.emitText("hello", { channel: "llm", stage: "streaming" });
      context.feedback.emitText("plain");
      return {};
    });

    b.executor.start(b.attempt);

    expect(b.feedback).toEqual([
      { progress: 0.5 },
      { stage: "streaming", chunks: [{ channel: "llm", text: "hello" }] },
      { chunks: [{ channel: "log", text: "plain" }] },
    ]);
  });

  it("[W32] the executor shows an already aborted signal to a handler that reads it late", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let isAborted: boolean | undefined;
    const b = executorHarness(async (context) => {
      await promise;
      isAborted = context.signal.aborted;
      return {};
    });
    b.executor.start(b.attempt);

    b.attempt.stopSignal.stop(new Error("not wanted"));
    resolve();
    await b.settled;

    expect(isAborted).toBe(true);
  });

  it("[W164] the executor leases the resources a task refers to while its handler runs; a missing one fails the task beforehand", async () => {
    const gate = Promise.withResolvers<void>();
    let leased = 0;
    const ref = { resource_id: "model", worker_name: "w", type: "model" };
    const b = executorHarness(
      async (context) => {
        leased = context.leased.length;
        await gate.promise;
        return {};
      },
      { resource_refs: [ref] } as Partial<DispatchPayload>,
    );
    b.resources.register({ id: "model", type: "model" });

    b.executor.start(b.attempt);
    expect([leased, b.resources.get("model")?.inUse]).toEqual([1, 1]);
    gate.resolve();
    await b.settled;
    expect(b.resources.get("model")?.inUse).toBe(0);

    for (const wrong of [{ resource_id: "other" }, { worker_name: "elsewhere" }]) {
      const c = executorHarness(() => ({ never: "called" }), {
        resource_refs: [ref, { ...ref, ...wrong }],
      } as Partial<DispatchPayload>);
      c.resources.register({ id: "model", type: "model" });
      c.executor.start(c.attempt);
      expect(c.outcomes).toMatchObject([{ type: "error", code: "E.RESOURCE.MISSING", where: "worker.resources" }]);
      expect(c.log).toEqual(["finished", "settled"]);
      expect(c.resources.get("model")?.inUse).toBe(0);
    }
  });

  it("[W165] the processes of a handler are ended as a group: when the task is stopped, and when the handler has returned", async () => {
    const pids: number[] = [];
    const b = executorHarness(
      (context) =>
        new Promise((_, reject) => {
          const child = context.spawn("sh", ["-c", "sleep 600 & sleep 600"], { stdio: "ignore" });
          pids.push(child.pid ?? 0);
          child.once("exit", () => reject(new Error("killed")));
        }),
    );
    b.executor.start(b.attempt);
    expect(isGroupAlive(pids[0])).toBe(true);

    b.attempt.stopSignal.stop(new Error("cancelled"));
    await b.settled;
    await vi.waitFor(() => expect(isGroupAlive(pids[0])).toBe(false), 10_000);
    expect(b.timers).toMatchObject([{ ms: 2_000 }]);
    const c = executorHarness((context) => ({ pid: pids.push(context.spawn("sleep", ["600"], { stdio: "ignore" }).pid ?? 0) }));
    c.executor.start(c.attempt);

    await vi.waitFor(() => expect(isGroupAlive(pids[1])).toBe(false), 10_000);
    expect(c.outcomes).toMatchObject([{ type: "result", status: "SUCCEEDED" }]);
    const late = executorHarness((context) => {
      context.spawn("sleep", ["600"]);
    });
    late.attempt.stopSignal.stop(new Error("too late"));
    late.executor.start(late.attempt);
    expect(late.outcomes).toMatchObject([{ type: "error", message: "too late" }]);
  });
});

/** A process that is dead and not yet buried by its parent is no longer alive. */
function isGroupAlive(pid: number | undefined): boolean {
  return readdirSync("/proc").some((name) => {
    const stat = /^\d+$/.test(name) ? statOf(name) : "";
    const [state, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(group) === pid && state !== "Z";
  });
}

function statOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    // It ended while we looked.
    return "";
  }
}
