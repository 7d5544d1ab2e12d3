// What a node says while it runs, and what its result brings: words kept in its row, text in rows of its own, facts that point there.
import { type ReportFeedback, type ReportResult, readTaskState } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { phases, taskAt } from "./chains-stage.ts";
import { type Crew, chain, graph, Harness, type Node } from "./harness.ts";

type Words = Readonly<Record<string, unknown>>;

const said = (crew: Crew, data: Words, attempt: { task: string; fence: number } = crew.last): ReportFeedback => ({
  type: "task.feedback",
  tenant: crew.tenant,
  worker: crew.worker,
  session: crew.session,
  task: attempt.task,
  fence: attempt.fence,
  data,
});

async function scene(node: Node = {}, dialect = "v2") {
  const world = await new Harness().start();
  const crew = await world.join("w", { dialect });
  const run = await world.run(chain(1, node));
  await world.settle();
  const say = (data: Words) => world.ask(said(crew, data));
  const state = async () => readTaskState(await taskAt(world, run, "0"));
  const facts = async (): Promise<Words[]> => {
    const { items } = await world.store.events({ tenant: "t1", after: 0, limit: 1_000, types: ["task.feedback"] });
    return items.map(({ data }) => data);
  };
  const chunks = async () => {
    const { items } = await world.store.page({ page: "chunks", tenant: "t1", task: `${run}.0`, limit: 100 });
    return items;
  };
  return { world, crew, run, say, state, facts, chunks };
}

const texts = (rows: readonly { readonly body: string }[]): unknown[] =>
  rows.flatMap(({ body }) => (JSON.parse(body) as { text: unknown }[]).map(({ text }) => text));

describe("what a node says of itself", () => {
  it("[E64] keeps the last stage, progress and message, merges numbers and other words; null removes", async () => {
    const { world, say, state } = await scene();
    await say({ stage: "one", progress: 0.2, message: "m", metrics: { a: 1 }, metadata: { owner: "x", gone: 1 } });
    await world.advance(5);

    await say({ stage: "two", metrics: { b: 2 }, metadata: { gone: null } });

    expect((await state()).said).toEqual({
      stage: "two",
      progress: 0.2,
      message: "m",
      at: world.now,
      metrics: { a: 1, b: 2 },
      metadata: { owner: "x" },
    });
  });

  it("[A372] tells the stage it has with what it says of itself, and with nothing else", async () => {
    const { say, facts } = await scene();
    await say({ progress: 0.1 });
    await say({ stage: "one" });
    await say({ progress: 0.2 });
    await say({ message: "m" });
    await say({ metrics: { a: 1 } });

    const told = (await facts()).map(({ stage, progress, message }) => ({ stage, progress, message }));
    expect(told).toEqual([
      { progress: 0.1 },
      { stage: "one" },
      { stage: "one", progress: 0.2 },
      { stage: "one", message: "m" },
      {},
    ]);
  });

  it("[E65] merges `metadata.results` into what it has of the results, and `metadata.summary` as one of them", async () => {
    const { say, state, facts } = await scene();
    await say({ metadata: { results: { page: { url: "u", title: "t" }, n: 1 }, summary: "short" } });

    await say({ metadata: { results: { page: { title: null }, n: 2 } } });

    expect((await state()).results).toEqual({ page: { url: "u" }, n: 2, summary: "short" });
    expect((await facts()).map(({ results }) => results)).toEqual([
      { page: { url: "u", title: "t" }, n: 1, summary: "short" },
      { page: { title: null }, n: 2 },
    ]);
    expect((await state()).said).toBeUndefined();
  });

  it("[E65] keeps out results that would grow beyond their limit, and says so", async () => {
    const { say, state, facts } = await scene();
    await say({ metadata: { results: { small: 1 } } });

    await say({ stage: "big", metadata: { results: { big: "x".repeat(256 * 1024) } } });

    expect((await state()).results).toEqual({ small: 1 });
    expect((await facts()).at(-1)).toMatchObject({ stage: "big", resultsDropped: true });
    expect((await facts()).at(-1)).not.toHaveProperty("results");
  });

  it("[E66] lets the result take the place of what feedback gathered, and does not keep the stage as if it ran on", async () => {
    const { crew, run, world, say, state } = await scene();
    await say({ stage: "streaming", progress: 0.9, metrics: { tokens: 7 }, metadata: { results: { part: 1 } } });

    await crew.done({ out: 1 });

    const task = await taskAt(world, run, "0");
    expect(task).toMatchObject({ phase: "succeeded", result: '{"out":1}' });
    expect(await state()).toEqual({ said: { progress: 0.9, at: world.now, metrics: { tokens: 7 } } });
  });

  it("[E66] begins the next attempt with nothing said", async () => {
    const { crew, world, say, state } = await scene({ policy: { retry: { maxAttempts: 2, backoffMs: 0 } } });
    await say({ stage: "streaming", metadata: { results: { part: 1 } } });

    await crew.error("E.RUNNER.FAILURE");
    await world.settle();

    expect(await state()).toEqual({});
    expect(crew.last.attempt).toBe(2);
  });
});

describe("what a node prints", () => {
  it("[E67] keeps chunks in rows of their own, numbered within the attempt, with the lines that begin in them", async () => {
    const { say, facts, chunks } = await scene();
    await say({ chunks: [{ channel: "stdout", index: 0, text: "one\ntwo" }] });
    await say({
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

  it("[E67] writes a numbered chunk once, however often it comes; one without a number is appended", async () => {
    const { say, chunks, facts } = await scene();
    const lines = ["a\n", "b\n", "c\n"].map((text, index) => ({ channel: "log", index, text }));
    await say({ chunks: lines.slice(0, 2) });
    await say({ chunks: lines });
    await say({ chunks: lines });

    await say({ chunks: [{ channel: "log", text: "d\n" }] });

    expect(texts(await chunks())).toEqual(["a\n", "b\n", "c\n", "d\n"]);
    expect((await facts()).map(({ chunks }) => chunks)).toEqual([
      { first: 0, count: 2 },
      { first: 2, count: 1 },
      undefined,
      { first: 3, count: 1 },
    ]);
  });

  it("[E67] leaves the indexes of older dialects alone: there they count per channel", async () => {
    const { say, chunks } = await scene({}, "v1");
    await say({ chunks: [{ channel: "stdout", index: 0, text: "out" }] });

    await say({ chunks: [{ channel: "stderr", index: 0, text: "err" }] });

    expect(texts(await chunks())).toEqual(["out", "err"]);
  });

  it("[E68] keeps what an attempt says while its run is being ended, so that what it printed has no gap, and tells it to stop", async () => {
    const world = await new Harness({ settings: { sweepTasksMax: 1 } }).start();
    const crew = await world.join("w", { slots: 10 });
    const run = await world.run(graph([{}, {}, {}], []));
    await world.settle();
    const last = crew.sent.at(-1) as Crew["last"];
    await world.ask(said(crew, { chunks: [{ channel: "log", text: "one", index: 0 }] }, last));

    await world.ask({ type: "run.cancel", tenant: "t1", by: "me", run, reason: "enough" });
    expect((await world.detail(run)).run.phase).toBe("ending");
    await world.ask(said(crew, { chunks: [{ channel: "log", text: "two", index: 1 }] }, last));
    await world.settle();

    const { items } = await world.store.page({ page: "chunks", tenant: "t1", task: last.task, limit: 100 });
    expect(items.map(({ body }) => /one|two/.exec(body)?.[0])).toEqual(["one", "two"]);
    expect((await world.detail(run)).run.phase).toBe("cancelled");
    expect(world.stops().filter(({ task }) => task === last.task)).not.toEqual([]);
  });

  it("[E68] appends late words and chunks for a minute after the end, and changes nothing else", async () => {
    const { world, crew, run, say, chunks, facts } = await scene();
    await say({ chunks: [{ channel: "log", text: "a" }] });
    await crew.done({ out: 1 });
    const before = await taskAt(world, run, "0");

    await say({ stage: "late", chunks: [{ channel: "log", text: "b" }], metadata: { results: { out: 2 } } });
    await say({ chunks: [{ channel: "log", text: "c" }] });

    const { state: _, ...after } = await taskAt(world, run, "0");
    const { state: __, ...ended } = before;
    expect(after).toEqual(ended);
    expect(readTaskState(await taskAt(world, run, "0")).said).toBeUndefined();
    expect(texts(await chunks())).toEqual(["a", "b", "c"]);
    expect((await facts()).slice(1)).toMatchObject([{ stage: "late", isLate: true }, { isLate: true }]);
    world.now += 60_001;
    await expect(say({ chunks: [{ channel: "log", text: "d" }] })).resolves.toMatchObject({ applied: false });
  });

  it("[E67] writes the row of a chatty task once a turn", async () => {
    const { world, crew, state, chunks } = await scene();
    const words = Array.from({ length: 50 }, (_, index) =>
      said(crew, { progress: index / 50, chunks: [{ channel: "log", index, text: "x\n" }] }),
    );

    await Promise.all(world.askAll(words));

    expect((await state()).printed).toMatchObject({ chunks: 50, lines: 50 });
    expect((await chunks()).reduce((sum, { count }) => sum + count, 0)).toBe(50);
  });
});

describe("what a result must be", () => {
  const schema = { type: "object", properties: { out: { type: "number" } }, required: ["out"] };
  const typed = (parts: Words): Record<string, unknown> => {
    const drawn = chain(2);
    const nodes = drawn.nodes as readonly object[];
    return { ...drawn, nodes: nodes.map((node, at) => (at === 0 ? { ...node, schema: parts } : node)) };
  };
  const started = async (workflow: Record<string, unknown>) => {
    const world = await new Harness().start();
    const crew = await world.join("w");
    const run = await world.run(workflow);
    await world.settle();
    return { world, crew, run };
  };

  it("[E69] fails an attempt whose result breaks the schema, naming node and field, and tries no other", async () => {
    const { world, crew, run } = await started(typed({ results: schema }));

    await crew.done({ out: "text" });

    const { run: row } = await world.detail(run);
    const error = JSON.parse(row.error ?? "{}") as { code: string; message: string; details: Words };
    expect(row.phase).toBe("failed");
    expect(error).toMatchObject({ code: "E.RESULT.INVALID", details: { field: "/results/out" } });
    expect(error.message).toContain("results.out");
    expect(crew.sent).toHaveLength(1);
  });

  it("[E69] passes a result that fits", async () => {
    const { world, crew, run } = await started(typed({ results: schema }));

    await crew.done({ out: 3 });

    expect(await phases(world, run)).toMatchObject({ "0": "succeeded" });
  });

  it("[E69] fails an attempt whose result is larger than a row may carry", async () => {
    const { world, crew, run } = await started(typed({}));

    await crew.done({ out: "x".repeat(2 * 1024 * 1024) });

    expect(JSON.parse((await world.detail(run)).run.error ?? "{}")).toMatchObject({ code: "E.RESULT.TOO_LARGE" });
  });

  it("[E70] fails a task whose parameters break the schema once its edges are written in, before anybody sees it", async () => {
    const drawn = chain(2);
    const nodes = drawn.nodes as readonly object[];
    const second = { parameters: { type: "object", properties: { in: { type: "number" } } } };
    const { world, crew, run } = await started({ ...drawn, nodes: [nodes[0], { ...nodes[1], schema: second }] });

    await crew.done({ out: "text" });

    expect(await phases(world, run)).toEqual({ "0": "succeeded", "1": "failed" });
    expect(JSON.parse((await world.detail(run)).run.error ?? "{}")).toMatchObject({
      code: "E.PARAMS.INVALID",
      details: { field: "/parameters/in" },
    });
    expect(crew.sent).toHaveLength(1);
  });

  it("[E71] does not try again where a resource is gone", async () => {
    const { world, crew, run } = await started(chain(1, { policy: { retry: { maxAttempts: 5, backoffMs: 0 } } }));

    await crew.error("E.RESOURCE.MISSING", "no such file here");

    expect((await world.detail(run)).run.phase).toBe("failed");
    expect(crew.sent).toHaveLength(1);
  });

  it("[E72] keeps what the node says of its result and what it left with the worker, without what only repeats the dispatch", async () => {
    const { world, crew, run } = await started(chain(1));
    const command = crew.resultCommand(crew.last, { out: 1 }) as ReportResult;
    const metadata = JSON.stringify({ concurrency_key: "k", constraints: {}, model: "m1" });

    await world.ask({ ...command, metadata, artifacts: [{ resource: "r-1", type: "file", sizeBytes: 9 }] });

    expect(readTaskState(await taskAt(world, run, "0"))).toMatchObject({
      metadata: { model: "m1" },
      artifacts: [{ resource: "r-1", type: "file", sizeBytes: 9, worker: "t1/w" }],
    });
    expect(await world.facts()).toContain("task.artifact");
  });

  it("[E110] keeps with the node until when an artifact can be had: what was said, else an hour, and nothing of what came inline", async () => {
    const { world, crew, run } = await started(chain(1));
    const command = crew.resultCommand(crew.last, { out: 1 }) as ReportResult;
    const artifacts = [
      { resource: "r-1", type: "file" },
      { resource: "r-2", type: "file", expiresAt: 9_000_000_000_000 },
      { resource: "r-3", type: "file", inline: true },
    ];

    await world.ask({ ...command, artifacts });

    const task = await taskAt(world, run, "0");
    const kept = (readTaskState(task).artifacts ?? []).map(({ expiresAt }) => expiresAt);
    expect(kept).toEqual([(task.endedAt ?? 0) + 3_600_000, 9_000_000_000_000, undefined]);
  });

  it("[E111] an attempt that lives longer than a moment after its ack is said to run, once, in the unit that stores the ack", async () => {
    const { world, crew, run } = await started(chain(1));
    const { task, fence } = crew.last;
    await world.advance(2_000);
    expect(await world.facts()).not.toContain("task.running");

    await crew.ack();
    await world.advance(1_001);
    await world.advance(1_001);

    const { items } = await world.store.events({ tenant: "t1", after: 0, limit: 100, types: ["task.running"] });
    expect(items.map(({ data }) => data)).toEqual([{ task, fence, worker: "t1/w", attempt: 1 }]);
    expect((await taskAt(world, run, "0")).acked).toBe(true);
  });

  it("[E73] leaves a letter of a task that failed for good, under its run, and says so", async () => {
    const { world, crew, run } = await started(chain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 0 } } }));
    await crew.error("E.RUNNER.FAILURE", "first");
    await world.settle();
    await crew.error("E.RUNNER.FAILURE", "second");

    const { items } = await world.store.page({ page: "docs", tenant: "t1", collection: "letter", limit: 10 });
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
      at: world.now,
      worker: "t1/w",
      status: "open",
    });
    expect(await world.facts()).toContain("task.dead");
  });
});
