// Attacks on the REST door that a table of routes does not know: pages that end early, lines without an end, keys that come again after the world
// has moved on, cursors of another log. The real engine and stores, without HTTP.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import type { StoreReader } from "@astraflow/engine";
import { limits, type Workflow } from "@astraflow/protocol";
import { createMemoryFixture, createSqliteFixture, type StoreFixture } from "@astraflow/store/testing";
import { afterEach, describe, expect, it } from "vitest";
import { buildChain, buildWorkflow, EngineHarness, nodeId } from "../harness/engine-harness.ts";
import { buildFlow, sequence } from "../harness/flow-builder.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const tokens = createTokenAuthenticator([
  { token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view", "operate"] },
  { token: "mallory", tenant: "other", user: "mal", grants: ["read", "edit", "view", "operate"] },
]);
const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0).reverse()) await end();
});

async function openFixture(stage?: StoreFixture, readerOf: (reader: StoreReader) => StoreReader = (reader) => reader) {
  const harness = await new EngineHarness(stage === undefined ? {} : { store: stage.createHandle() }).start();
  if (stage !== undefined) cleanups.push(() => stage.close());
  cleanups.push(() => harness.engine.stop());
  const engineClient = createHarnessLink(harness);
  const bench = openWorkflowFixture({ engineClient, reader: readerOf(harness.store), authenticate: tokens });
  const start = async (workflow: object, more: object = {}, headers: Record<string, string> = {}) => {
    const response = await bench.callRoute("startRun", { body: { workflow, clientId: "c", ...more }, headers });
    await harness.settle();
    return response;
  };
  return { world: harness, bench, start };
}

const key = (word: string) => ({ "idempotency-key": word });

describe("lists", () => {
  it("[A222] GET /runs merges several statuses without losing runs, even if each page of the store ends early", async () => {
    // A store that looks at one run a page, as one does that searches a long log.
    const slow = (reader: StoreReader): StoreReader => ({
      ...reader,
      events: (query) => reader.events(query),
      close: () => reader.close(),
      page: async (query) => {
        if (query.page !== "runs") return reader.page(query);
        const { phase, before, tenant } = query;
        const one = await reader.page({ page: "runs", tenant, limit: 1, ...(before !== undefined && { before }) });
        return { ...one, items: one.items.filter((run) => phase === undefined || run.phase === phase) } as never;
      },
    });
    const { world: harness, bench, start } = await openFixture(undefined, slow);
    const worker = await harness.joinWorker("w");
    const all: string[] = [];
    for (let n = 0; n < 6; n++) {
      all.unshift((await start(buildChain(1))).body.runId);
      await (n % 2 === 0 ? worker.succeed({ out: 1 }) : worker.error("E.RUNNER.FAILURE"));
    }
    const found: string[] = [];
    let cursor: string | null = "";
    for (let pages = 0; cursor !== null && pages < 50; pages++) {
      const query = { status: "succeeded,failed", limit: "2", ...(cursor !== "" && { cursor }) };
      const { body } = await bench.callRoute("listRuns", { query });
      found.push(...body.items.map((run: { runId: string }) => run.runId));
      cursor = body.nextCursor;
    }

    expect(found).toEqual(all);
  });

  it.each([
    ["memory", () => createMemoryFixture("strong")],
    ["sqlite", () => createSqliteFixture()],
  ] as const)(
    "[A223] the run search on %s treats operators and special characters as plain text and finds non-ASCII words",
    async (_store, stageOf) => {
      const { bench, start } = await openFixture(await stageOf());
      const named = (name: string) => start({ ...buildChain(1), metadata: { name } });
      await named('plain "quoted" AND words');
      await named("😀 héllo *star*");
      const found = async (q: string) => (await bench.callRoute("listRuns", { query: { q } })).body.items?.length;

      for (const q of [
        '"',
        '"quoted',
        "AND",
        "OR",
        "NOT plain",
        "plain NEAR words",
        "pla*",
        "name:plain",
        "(",
        ")",
        "^a",
        "-plain",
        "'",
        ";",
        "%",
        "_",
        "\\",
        "{",
        "a".repeat(1_024),
        "😀",
        "*",
        " * ",
        "+plain",
      ])
        expect([q, await found(q)]).toEqual([q, expect.any(Number)]);
      expect(await found("PLAIN and")).toBe(1);
      expect(await found("h\u00e9llo")).toBe(1);
      expect((await bench.callRoute("listRuns", { query: { q: "a\u0000b" } })).body.error).toBe("E.REQUEST.INVALID");
    },
  );

  it("[A224] GET /runs accepts valid timestamps up to the ends of the range and refuses unusual ones", async () => {
    const { bench } = await openFixture();
    const status = async (since: string) => (await bench.callRoute("listRuns", { query: { since } })).status;

    for (const fine of ["2026-01-31", "2026-01-31T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"])
      expect(await status(fine)).toBe(200);
    for (const odd of ["", "now", "2026-13-01", "2026-02-30T99:00:00Z", "1e9", "+275760-09-13T00:00:00Z", "-1"])
      expect(await status(odd)).toBe(400);
  });
});

describe("what was printed", () => {
  const printed = async (stage?: StoreFixture) => {
    const { world: harness, bench, start } = await openFixture(stage);
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(1))).body;
    const { task, fence } = worker.lastDispatch;
    const about = { tenant: "t1", worker: "t1/w", session: worker.session, task, fence };
    const print = (chunks: object[]) => harness.ask({ type: "task.feedback", ...about, data: { chunks } });
    const read = async (query: Record<string, string>) =>
      (await bench.callRoute("getRunLogs", { params: { runId }, query })).body;
    /** All pages, one after the other. */
    const readAll = async (query: Record<string, string>) => {
      const items: { line: number; text: string; channel: string }[] = [];
      let cursor: string | null = "";
      while (cursor !== null) {
        const page = await read({ ...query, ...(cursor !== "" && { cursor }) });
        items.push(...page.items);
        cursor = page.nextCursor;
      }
      return items;
    };
    return { print, read, readAll };
  };

  it("[A225] a log line printed in over a hundred chunks is returned whole, and one larger than an answer's text limit in pieces", async () => {
    const { print, readAll } = await printed(await createSqliteFixture());
    for (let n = 0; n < 130; n++) await print([{ channel: "log", text: `${n} ` }]);
    await print([{ channel: "log", text: "end\nnext\n" }]);
    for (let n = 0; n < 3; n++) await print([{ channel: "log", text: "y".repeat(limits.textCharsMax / 2 + 1) }]);
    const whole = `${Array.from({ length: 130 }, (_, n) => n).join(" ")} end`;
    const lines = await readAll({});

    expect(lines.slice(0, 2).map(({ line, text }) => [line, text])).toEqual([
      [0, whole],
      [1, "next"],
    ]);
    expect(lines.slice(2).map(({ line, text }) => [line, text.length])).toEqual(
      Array.from({ length: 3 }, () => [2, limits.textCharsMax / 2 + 1]),
    );
    const paged = await readAll({ limit: "1" });
    expect(paged.map(({ text }) => text).join("|")).toBe(lines.map(({ text }) => text).join("|"));
  });

  it("[A226] run output that consists only of binary chunks is paged too", async () => {
    const { print, read, readAll } = await printed();
    for (let n = 0; n < 5; n++)
      await print([
        { channel: "custom", data_base64: `AA${n}=`, mime_type: "image/png" },
        { channel: "custom", data_base64: "BBBB" },
      ]);

    expect((await read({ limit: "3" })).items).toHaveLength(3);
    const all = await readAll({ limit: "3" });
    expect(all).toHaveLength(10);
    expect(all[1]).toMatchObject({ text: "BBBB", mimeType: "application/octet-stream" });
  });

  it("[A227] the run logs refuse a cursor of another request instead of reading from the start", async () => {
    const { print, read } = await printed();
    await print([{ channel: "log", text: "one\n" }]);

    expect((await read({ cursor: "0.0:nobody.0" })).error).toBe("E.CURSOR.UNKNOWN");
    expect((await read({ cursor: "-1.0:nobody.0" })).error).toBe("E.REQUEST.INVALID");
  });
});

describe("keys that come again", () => {
  it("[A228] a start repeated under its key returns the same run, even if the latest version or the reused run has changed since", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const four = buildChain(4) as unknown as Workflow;
    await bench.callRoute("saveWorkflow", { body: four });
    const latest = () => bench.callRoute("startRun", { body: { workflowId: four.id, clientId: "c" }, headers: key("a") });
    const first = await latest();
    await bench.callRoute("publishVersion", { params: { workflowId: four.id } });
    expect((await latest()).body.runId).toBe(first.body.runId);

    await harness.settle();
    await worker.succeed({ out: 1 });
    const reuse = () => start(four, { reuse: first.body.runId }, key("b"));
    const second = await reuse();
    await worker.succeed({ out: 2 });
    expect(await reuse()).toMatchObject({ status: 202, body: { runId: second.body.runId } });
    expect((await start(four, { reuse: first.body.runId, to: nodeId(2) }, key("b"))).body.error).toBe("E.IDEMPOTENCY.MISMATCH");
  });

  it("[A229] a node retry repeated under its idempotency key is done once, before and after its run has ended", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const { runId } = (await start(buildChain(2))).body;
    const retry = (word: string) => bench.callRoute("retryNode", { params: { runId, nodeId: nodeId(0) }, headers: key(word) });
    const first = await retry("a");
    await harness.settle();
    const { fence } = worker.lastDispatch;

    expect((await retry("a")).body).toEqual(first.body);
    await harness.settle();
    expect(worker.lastDispatch.fence).toBe(fence);
    await worker.error("E.RUNNER.FAILURE");
    const anew = (await retry("b")).body.newRun.runId;
    expect((await retry("b")).body.newRun.runId).toBe(anew);
    expect((await retry("a")).body).toEqual(first.body);
    expect((await bench.callRoute("skipNode", { params: { runId, nodeId: nodeId(0) }, headers: key("a") })).body.error).toBe(
      "E.IDEMPOTENCY.MISMATCH",
    );
  });

  it("[A230] a dead letter starts one run however often it is requeued", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    await start(buildChain(2));
    const params = { taskId: worker.lastDispatch.task };
    await worker.error("E.RUNNER.FAILURE");
    const responses = await Promise.all(Array.from({ length: 5 }, () => bench.callRoute("requeueDeadLetter", { params })));

    const runs = new Set(responses.filter(({ status }) => status === 202).map(({ body }) => body.runId));
    expect(runs.size).toBe(1);
    expect((await bench.callRoute("requeueDeadLetter", { params })).body.runId).toBe([...runs][0]);
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(2);
  });
});

describe("a node inside a container", () => {
  it("[A236] requeuing the dead letter of a node inside a container, or retrying the node, repeats the whole container", async () => {
    const { world: harness, bench, start } = await openFixture();
    const worker = await harness.joinWorker("w");
    const ids = new Map<string, string>();
    const uuidOf = (word: string) => ids.get(word) ?? ids.set(word, nodeId(50 + ids.size)).get(word);
    // Nodes of flows have short names, and the door asks for UUIDs.
    const definition = JSON.parse(JSON.stringify(buildFlow(sequence({}, { body: sequence({}, {}) }, {}))), (name, value) =>
      ["id", "node", "subgraphId"].includes(name) && typeof value === "string" ? uuidOf(value) : value,
    );
    const { runId } = (await start(definition)).body;
    await worker.succeed({ out: 1 });
    const inner = worker.lastDispatch;
    await worker.error("E.RUNNER.FAILURE");
    const { nodes } = (await bench.callRoute("getRun", { params: { runId } })).body;
    expect(inner.task).toContain("*0/");

    const taken = await bench.callRoute("requeueDeadLetter", { params: { taskId: inner.task } });
    expect(taken).toMatchObject({ status: 202 });
    const again = (await bench.callRoute("getRun", { params: { runId: taken.body.runId } })).body;
    expect(again.nodes[0]).toMatchObject({ nodeId: nodes[0].nodeId, why: "reuse" });
    for (const name of [inner.task, inner.task.slice(runId.length + 1), inner.node])
      expect((await bench.callRoute("retryNode", { params: { runId, nodeId: name } })).body.newRun?.runId).toEqual(
        expect.any(String),
      );
    expect((await bench.callRoute("retryNode", { params: { runId, nodeId: "1*0/9" } })).status).toBe(404);
  });
});

describe("starts that are too much", () => {
  it("[A231] a run start with too many labels, or with a label name that is too long or empty, is refused", async () => {
    const { start } = await openFixture();
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`label-${n}`, "x"]));

    expect(await start(buildChain(1), { labels: many })).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID" } });
    expect((await start(buildChain(1), { labels: { ["k".repeat(300_000)]: "x" } })).status).toBe(400);
    expect((await start(buildChain(1), { labels: { "": "x" } })).status).toBe(400);
    expect((await start(buildChain(1), { labels: { city: "Oslo" } })).status).toBe(202);
  });

  it("[A232] a start that pins an unknown node or reuses another tenant's run is refused, names it, and starts no run", async () => {
    const { world: harness, bench, start } = await openFixture();
    const mine = (await start(buildChain(2))).body.runId;

    const odd = await start(buildChain(2), { pins: { nobody: {} } });
    expect(odd).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID", message: expect.stringContaining("nobody") } });
    const theirs = await bench.callRoute("startRun", {
      as: "mallory",
      body: { workflow: buildChain(2), clientId: "c", reuse: mine },
    });
    expect(theirs).toMatchObject({ status: 404, body: { error: "E.NOT_FOUND", message: `there is no run ${mine}` } });
    const other = await start(buildWorkflow([{ type: "test.other" }, {}], [[0, 1]]), { reuse: mine, from: nodeId(1) });
    expect(other).toMatchObject({ status: 400, body: { error: "E.REQUEST.INVALID" } });
    expect((await harness.store.page({ page: "runs", tenant: "t1", limit: 10 })).items).toHaveLength(1);
    expect((await start(buildChain(1), { pins: { [nodeId(0)]: { big: "x".repeat(5_000_000) } } })).status).toBe(413);
  });
});
