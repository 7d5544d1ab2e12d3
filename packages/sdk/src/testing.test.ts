import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isNextError, NextError, TaskError } from "./errors.ts";
import { MemoryResources, runAdapter } from "./testing.ts";

describe("runAdapter", () => {
  it("[W1300] the harness gives a handler its parameters, secrets and a directory, and returns outputs, reports and text by channel", async () => {
    let workDir = "";
    const run = await runAdapter(
      async (context) => {
        workDir = context.workDir;
        writeFileSync(join(workDir, "a.txt"), "a");
        context.feedback.send({ stage: "half", progress: 0.5, chunks: [{ text: "one " }] });
        context.feedback.emitText("two");
        context.feedback.emitText("three", { channel: "llm" });
        return {
          sum: Number(context.params["a"]) + Number(context.config["b"]),
          token: [context.resourceBindings["token"]?.value, context.secrets["token"]],
          gone: undefined,
        };
      },
      { params: { a: 1 }, config: { b: 2 }, secrets: { token: "s3cret" } },
    );

    expect(run).toMatchObject({ status: "SUCCEEDED", outputs: { sum: 3, token: ["s3cret", "s3cret"] }, error: undefined });
    expect(Object.keys(run.outputs)).not.toContain("gone");
    expect([run.text(), run.text("llm"), run.reports[0]?.progress]).toEqual(["one two", "three", 0.5]);
    expect(existsSync(workDir)).toBe(false);
  });

  it("[W1300] the harness reads status, metadata and artifacts of the long form, and reports what is no result", async () => {
    const skipped = await runAdapter(({ resources }) => {
      resources.register({ id: "page", type: "browser-page", value: 7 });
      return { status: "skipped", outputs: { n: 1 }, metadata: { why: "x" }, artifacts: [resources.artifact("page")] };
    });
    const nothing = await runAdapter(() => undefined);

    expect(skipped).toMatchObject({
      ...{ status: "SKIPPED", outputs: { n: 1 }, metadata: { why: "x" } },
      artifacts: [{ resource_id: "page", worker_name: "test-worker", type: "browser-page" }],
    });
    expect(nothing).toMatchObject({
      status: "FAILED",
      error: { message: "the handler returned undefined; it must return an object" },
    });
  });

  it("[W1301] errors keep their code, cancellation ends a handler as cancelled, and processes that it left are ended", async () => {
    const failed = await runAdapter(() => {
      throw new TaskError("E.PARAMS.INVALID", "name is missing", { cause: 1 });
    });
    const stop = new AbortController();
    let pid: number | undefined;
    const cancelled = await runAdapter(
      async ({ signal, spawn }) => {
        const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
        ({ pid } = child);
        const ended = new Promise((resolve) => child.once("exit", resolve));
        stop.abort();
        void ended.then(() => (pid = undefined));
        signal.throwIfAborted();
      },
      { signal: stop.signal },
    );

    expect(failed).toMatchObject({ status: "FAILED", error: { code: "E.PARAMS.INVALID", name: "TaskError", cause: 1 } });
    expect(cancelled.status).toBe("CANCELLED");
    await expect.poll(() => pid).toBeUndefined();
  });

  it("[W1302] a middleware calls the next of the test, which may fail; without one there is nothing to call", async () => {
    const retry = async (context: Parameters<Parameters<typeof runAdapter>[0]>[0]) => {
      try {
        return await context.next({ try: 1 });
      } catch (thrown) {
        if (!isNextError(thrown)) throw thrown;
        return { code: thrown.code };
      }
    };

    expect((await runAdapter(retry, { next: (payload) => ({ got: payload }) })).outputs).toEqual({ got: { try: 1 } });
    const failing = { next: () => Promise.reject(new NextError("next_failed", "no")) };
    expect((await runAdapter(retry, failing)).outputs).toEqual({ code: "next_failed" });
    expect((await runAdapter(retry)).outputs).toEqual({ code: "next_no_chain" });
  });

  it("[W1303] resources that one run keeps are there for the next, leased while it runs, and files that are uploaded can be downloaded", async () => {
    const resources = new MemoryResources();
    const dropped: string[] = [];
    await runAdapter(
      (context) => {
        context.resources.register({
          id: "page",
          type: "page",
          value: { url: "a" },
          scope: "s",
          onDrop: (why) => dropped.push(why),
        });
        context.resources.registerJson("json", '{"n":1}');
        return {};
      },
      { resources },
    );
    const second = await runAdapter(
      async ({ leased, resources: kept, workDir }) => {
        writeFileSync(join(workDir, "f.txt"), "content");
        kept.registerFile("f", join(workDir, "f.txt"));
        const stored = await kept.upload("f", { filename: "named.txt" });
        const again = await kept.download(stored.resourceId, { id: "copy" });
        return {
          page: leased[0]?.value,
          state: leased[0]?.state,
          json: kept.readJson("json"),
          name: stored.filename,
          copy: again.sizeBytes,
        };
      },
      { resources, resourceRefs: ["page"] },
    );

    expect(second.outputs).toEqual({ page: { url: "a" }, state: "leased", json: { n: 1 }, name: "named.txt", copy: 7 });
    expect([resources.get("page")?.state, resources.releaseScope("s"), dropped]).toEqual(["idle", 1, ["scope s was released"]]);
    expect(() => resources.lease("page")).toThrow("resource page is not there");
  });
});
