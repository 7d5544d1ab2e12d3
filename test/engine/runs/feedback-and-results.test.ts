// What a node reports while it runs, and with its result: state in its row, text in rows of its own, facts that point there.
import { type ReportFeedbackCommand, type ReportResultCommand, readTaskState } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, type NodeSpec, type TestWorker } from "../harness/engine-harness.ts";
import { findTaskAt } from "../harness/middleware-chains.ts";

type FeedbackData = Readonly<Record<string, unknown>>;

const feedbackCommand = (
  worker: TestWorker,
  data: FeedbackData,
  attempt: { task: string; fence: number } = worker.lastDispatch,
): ReportFeedbackCommand => ({
  type: "task.feedback",
  tenant: worker.tenant,
  worker: worker.worker,
  session: worker.session,
  task: attempt.task,
  fence: attempt.fence,
  data,
});

async function startFixture(node: NodeSpec = {}, dialect = "v2") {
  const harness = await new EngineHarness().start();
  const worker = await harness.joinWorker("w", { dialect });
  const run = await harness.startRun(buildChain(1, node));
  await harness.settle();
  const sendFeedback = (data: FeedbackData) => harness.ask(feedbackCommand(worker, data));
  const state = async () => readTaskState(await findTaskAt(harness, run, "0"));
  const facts = async (): Promise<FeedbackData[]> => {
    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000, types: ["task.feedback"] });
    return items.map(({ data }) => data);
  };
  const chunks = async () => {
    const { items } = await harness.store.page({ page: "chunks", tenant: "t1", task: `${run}.0`, limit: 100 });
    return items;
  };
  return { world: harness, crew: worker, run, sendFeedback, state, facts, chunks };
}

const chunkTexts = (rows: readonly { readonly body: string }[]): unknown[] =>
  rows.flatMap(({ body }) => (JSON.parse(body) as { text: unknown }[]).map(({ text }) => text));

describe("what a node says of itself", () => {
  it("[E64] feedback replaces the stored stage, progress and message and merges metrics and metadata; null removes an entry", async () => {
    const { world: harness, sendFeedback, state } = await startFixture();
    await sendFeedback({ stage: "one", progress: 0.2, message: "m", metrics: { a: 1 }, metadata: { owner: "x", gone: 1 } });
    await harness.advance(5);

    await sendFeedback({ stage: "two", metrics: { b: 2 }, metadata: { gone: null } });

    expect((await state()).said).toEqual({
      stage: "two",
      progress: 0.2,
      message: "m",
      at: harness.now,
      metrics: { a: 1, b: 2 },
      metadata: { owner: "x" },
    });
  });

  it("[A372] log entries of feedback with progress or a message carry the current stage; entries with only metrics do not", async () => {
    const { sendFeedback, facts } = await startFixture();
    await sendFeedback({ progress: 0.1 });
    await sendFeedback({ stage: "one" });
    await sendFeedback({ progress: 0.2 });
    await sendFeedback({ message: "m" });
    await sendFeedback({ metrics: { a: 1 } });

    const reported = (await facts()).map(({ stage, progress, message }) => ({ stage, progress, message }));
    expect(reported).toEqual([
      { progress: 0.1 },
      { stage: "one" },
      { stage: "one", progress: 0.2 },
      { stage: "one", message: "m" },
      {},
    ]);
  });

  it("[E65] feedback merges metadata.results into the partial results of its task, and metadata.summary as one of them", async () => {
    const { sendFeedback, state, facts } = await startFixture();
    await sendFeedback({ metadata: { results: { page: { url: "u", title: "t" }, n: 1 }, summary: "short" } });

    await sendFeedback({ metadata: { results: { page: { title: null }, n: 2 } } });

    expect((await state()).results).toEqual({ page: { url: "u" }, n: 2, summary: "short" });
    expect((await facts()).map(({ results }) => results)).toEqual([
      { page: { url: "u", title: "t" }, n: 1, summary: "short" },
      { page: { title: null }, n: 2 },
    ]);
    expect((await state()).said).toBeUndefined();
  });

  it("[E65] feedback results that would exceed the size limit are not stored, and the log entry marks them as dropped", async () => {
    const { sendFeedback, state, facts } = await startFixture();
    await sendFeedback({ metadata: { results: { small: 1 } } });

    await sendFeedback({ stage: "big", metadata: { results: { big: "x".repeat(256 * 1024) } } });

    expect((await state()).results).toEqual({ small: 1 });
    expect((await facts()).at(-1)).toMatchObject({ stage: "big", resultsDropped: true });
    expect((await facts()).at(-1)).not.toHaveProperty("results");
  });

  it("[E66] the result of a task replaces the partial results from feedback, and the last stage is not kept", async () => {
    const { crew: worker, run, world: harness, sendFeedback, state } = await startFixture();
    await sendFeedback({ stage: "streaming", progress: 0.9, metrics: { tokens: 7 }, metadata: { results: { part: 1 } } });

    await worker.succeed({ out: 1 });

    const task = await findTaskAt(harness, run, "0");
    expect(task).toMatchObject({ phase: "succeeded", result: '{"out":1}' });
    expect(await state()).toEqual({ said: { progress: 0.9, at: harness.now, metrics: { tokens: 7 } } });
  });

  it("[E66] a new attempt starts without the feedback of the last one", async () => {
    const {
      crew: worker,
      world: harness,
      sendFeedback,
      state,
    } = await startFixture({ policy: { retry: { maxAttempts: 2, backoffMs: 0 } } });
    await sendFeedback({ stage: "streaming", metadata: { results: { part: 1 } } });

    await worker.error("E.RUNNER.FAILURE");
    await harness.settle();

    expect(await state()).toEqual({});
    expect(worker.lastDispatch.attempt).toBe(2);
  });
});

describe("what a node prints", () => {
  it("[E67] output chunks are stored in rows of their own, numbered within the attempt, with the lines that begin in them", async () => {
    const { sendFeedback, facts, chunks } = await startFixture();
    await sendFeedback({ chunks: [{ channel: "stdout", index: 0, text: "one\ntwo" }] });
    await sendFeedback({
      chunks: [
        { channel: "stdout", index: 1, text: " and a half\nthree\n" },
        { channel: "custom", index: 2, data_base64: "AAE=", mime_type: "image/png" },
      ],
    });

    expect(await chunks()).toMatchObject([
      { first: 0, count: 1, line: 0, lines: 2 },
      { first: 1, count: 2, line: 2, lines: 1 },
    ]);
    expect(JSON.parse((await chunks())[1]?.body ?? "")).toEqual([
      { channel: "stdout", index: 1, text: " and a half\nthree\n" },
      { channel: "custom", index: 2, data: "AAE=", mimeType: "image/png" },
    ]);
    expect((await facts()).map(({ chunks }) => chunks)).toEqual([
      { first: 0, count: 1 },
      { first: 1, count: 2 },
    ]);
  });

  it("[E67] a numbered output chunk is stored once however often it arrives; one without a number is appended", async () => {
    const { sendFeedback, chunks, facts } = await startFixture();
    const lines = ["a\n", "b\n", "c\n"].map((text, index) => ({ channel: "log", index, text }));
    await sendFeedback({ chunks: lines.slice(0, 2) });
    await sendFeedback({ chunks: [...lines, ...lines] });
    await sendFeedback({ chunks: lines });

    await sendFeedback({ chunks: [{ channel: "log", text: "d\n" }] });

    expect(chunkTexts(await chunks())).toEqual(["a\n", "b\n", "c\n", "d\n"]);
    expect((await facts()).map(({ chunks }) => chunks)).toEqual([
      { first: 0, count: 2 },
      { first: 2, count: 1 },
      undefined,
      { first: 3, count: 1 },
    ]);
  });

  it("[E67] chunk indexes of the v1 dialect count per channel: chunks with the same index on two channels are both stored", async () => {
    const { sendFeedback, chunks } = await startFixture({}, "v1");
    await sendFeedback({ chunks: [{ channel: "stdout", index: 0, text: "out" }] });

    await sendFeedback({ chunks: [{ channel: "stderr", index: 0, text: "err" }] });

    expect(chunkTexts(await chunks())).toEqual(["out", "err"]);
  });

  it("[E68] output of an attempt whose run is being ended is stored without a gap, and the attempt is stopped", async () => {
    const harness = await new EngineHarness({ settings: { sweepTasksMax: 1 } }).start();
    const worker = await harness.joinWorker("w", { slots: 10 });
    const run = await harness.startRun(buildWorkflow([{}, {}, {}], []));
    await harness.settle();
    const last = worker.dispatchesSent.at(-1) as TestWorker["lastDispatch"];
    await harness.ask(feedbackCommand(worker, { chunks: [{ channel: "log", text: "one", index: 0 }] }, last));

    await harness.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    expect((await harness.runDetail(run)).run.phase).toBe("ending");
    await harness.ask(feedbackCommand(worker, { chunks: [{ channel: "log", text: "two", index: 1 }] }, last));
    await harness.settle();

    const { items } = await harness.store.page({ page: "chunks", tenant: "t1", task: last.task, limit: 100 });
    expect(items.map(({ body }) => /one|two/.exec(body)?.[0])).toEqual(["one", "two"]);
    expect((await harness.runDetail(run)).run.phase).toBe("cancelled");
    expect(harness.stopsSent().filter(({ task }) => task === last.task)).not.toEqual([]);
  });

  it("[E68] late feedback and output chunks are appended for a minute after a task has ended, and change nothing else", async () => {
    const { world: harness, crew: worker, run, sendFeedback, chunks, facts } = await startFixture();
    await sendFeedback({ chunks: [{ channel: "log", text: "a" }] });
    await worker.succeed({ out: 1 });
    const before = await findTaskAt(harness, run, "0");

    await sendFeedback({ stage: "late", chunks: [{ channel: "log", text: "b" }], metadata: { results: { out: 2 } } });
    await sendFeedback({ chunks: [{ channel: "log", text: "c" }] });

    const { state: _, ...after } = await findTaskAt(harness, run, "0");
    const { state: __, ...ended } = before;
    expect(after).toEqual(ended);
    expect(readTaskState(await findTaskAt(harness, run, "0")).said).toBeUndefined();
    expect(chunkTexts(await chunks())).toEqual(["a", "b", "c"]);
    expect((await facts()).slice(1)).toMatchObject([{ stage: "late", isLate: true }, { isLate: true }]);
    harness.now += 60_001;
    await expect(sendFeedback({ chunks: [{ channel: "log", text: "d" }] })).resolves.toMatchObject({ applied: false });
  });

  it("[E67] many feedback reports of one task in one turn are all stored", async () => {
    const { world: harness, crew: worker, state, chunks } = await startFixture();
    const words = Array.from({ length: 50 }, (_, index) =>
      feedbackCommand(worker, { progress: index / 50, chunks: [{ channel: "log", index, text: "x\n" }] }),
    );

    await Promise.all(harness.askAll(words));

    expect((await state()).printed).toMatchObject({ chunks: 50, lines: 50 });
    expect((await chunks()).reduce((sum, { count }) => sum + count, 0)).toBe(50);
  });
});

describe("what a result must be", () => {
  const started = async (workflow: Record<string, unknown>) => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");
    const run = await harness.startRun(workflow);
    await harness.settle();
    return { world: harness, crew: worker, run };
  };

  it("[E69] the size of a result is measured in bytes of UTF-8, and a result that is too large is not tried again", async () => {
    for (const [letters, phase] of [
      [699_000, "succeeded"],
      [699_100, "failed"],
    ] as const) {
      const harness = await new EngineHarness().start();
      const worker = await harness.joinWorker("w");
      const run = await harness.startRun(buildChain(1, { policy: { retry: { maxAttempts: 3, backoffMs: 0 } } }));
      await harness.settle();

      await worker.succeed({ out: "\u20ac".repeat(letters) });
      await harness.settle();

      expect(worker.dispatchesSent).toHaveLength(1);
      expect((await harness.runDetail(run)).run.phase).toBe(phase);
    }
  });

  it("[E69] an attempt whose result is larger than a row may hold fails with E.RESULT.TOO_LARGE", async () => {
    const { world: harness, crew: worker, run } = await started(buildChain(2));

    await worker.succeed({ out: "x".repeat(2 * 1024 * 1024) });

    expect(JSON.parse((await harness.runDetail(run)).run.error ?? "{}")).toMatchObject({ code: "E.RESULT.TOO_LARGE" });
  });

  /** How often a task is sent that may be tried five times and whose attempts fail with a code. */
  async function countDispatches(code: string): Promise<number> {
    const policy = { retry: { maxAttempts: 5, backoffMs: 0 } };
    const { world: harness, crew: worker, run } = await started(buildChain(1, { policy }));
    await worker.error(code, "no such file here");
    expect((await harness.runDetail(run)).run.phase).toBe("failed");
    return worker.dispatchesSent.length;
  }

  it("[E71] an attempt that fails with E.RESOURCE.MISSING is not retried", async () => {
    expect(await countDispatches("E.RESOURCE.MISSING")).toBe(1);
  });

  it("[E1350] an attempt that fails with E.RUNNER.REFUSED is not retried", async () => {
    expect(await countDispatches("E.RUNNER.REFUSED")).toBe(1);
  });

  it("[E72] a task row keeps the metadata and artifacts of its result, without metadata that only repeats the dispatch", async () => {
    const { world: harness, crew: worker, run } = await started(buildChain(1));
    const command = worker.resultCommand(worker.lastDispatch, { out: 1 }) as ReportResultCommand;
    const metadata = JSON.stringify({ concurrency_key: "k", constraints: {}, model: "m1" });

    await harness.ask({ ...command, metadata, artifacts: [{ resource: "r-1", type: "file", sizeBytes: 9 }] });

    expect(readTaskState(await findTaskAt(harness, run, "0"))).toMatchObject({
      metadata: { model: "m1" },
      artifacts: [{ resource: "r-1", type: "file", sizeBytes: 9, worker: "t1/w" }],
    });
    expect(await harness.facts()).toContain("task.artifact");
  });

  it("[E110] a task row keeps the expiry of each artifact: the reported one, else one hour, and none for an inline artifact", async () => {
    const { world: harness, crew: worker, run } = await started(buildChain(1));
    const command = worker.resultCommand(worker.lastDispatch, { out: 1 }) as ReportResultCommand;
    const artifacts = [
      { resource: "r-1", type: "file" },
      { resource: "r-2", type: "file", expiresAt: 9_000_000_000_000 },
      { resource: "r-3", type: "file", inline: true },
    ];

    await harness.ask({ ...command, artifacts });

    const task = await findTaskAt(harness, run, "0");
    const kept = (readTaskState(task).artifacts ?? []).map(({ expiresAt }) => expiresAt);
    expect(kept).toEqual([(task.endedAt ?? 0) + 3_600_000, 9_000_000_000_000, undefined]);
  });

  it("[E111] `task.running` is recorded once, in the commit that stores a late ack", async () => {
    const { world: harness, crew: worker, run } = await started(buildChain(1));
    const { task, fence } = worker.lastDispatch;
    await harness.advance(2_000);
    expect(await harness.facts()).not.toContain("task.running");

    await worker.ack();
    await harness.advance(1_001);
    await harness.advance(1_001);

    const { items } = await harness.store.events({ tenant: "t1", after: 0, limit: 100, types: ["task.running"] });
    expect(items.map(({ data }) => data)).toEqual([{ task, fence, worker: "t1/w", attempt: 1 }]);
    expect((await findTaskAt(harness, run, "0")).acked).toBe(true);
  });

  it("[E73] a task that failed for good leaves a dead letter under its run and a log entry", async () => {
    const {
      world: harness,
      crew: worker,
      run,
    } = await started(buildChain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 0 } } }));
    await worker.error("E.RUNNER.FAILURE", "first");
    await harness.settle();
    await worker.error("E.RUNNER.FAILURE", "second");

    const { items } = await harness.store.page({ page: "docs", tenant: "t1", collection: "letter", limit: 10 });
    expect(items).toHaveLength(1);
    expect(items[0]?.id).toBe(`t1/letter/${run}.0`);
    expect(JSON.parse(items[0]?.body ?? "{}")).toEqual({
      run,
      node: expect.any(String),
      label: "node 0",
      code: "E.RUNNER.FAILURE",
      message: "second",
      attempts: 2,
      failures: 2,
      at: harness.now,
      worker: "t1/w",
      status: "open",
    });
    expect(await harness.facts()).toContain("task.dead");
  });
});
