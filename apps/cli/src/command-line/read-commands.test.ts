import { describe, expect, it } from "vitest";
import { formatBenchResult } from "../local/bench-command.ts";
import { openPage } from "../local/open-command.ts";
import { fitTableToWidth } from "../output/table.ts";
import { compareNodes } from "../runs/diff-command.ts";
import { showLedger, showRun } from "../runs/inspect-commands.ts";
import { explainRun } from "../runs/why-command.ts";
import { createCommandFixture, sampleRun as run } from "../testing/command-fixture.ts";
import { showQueue } from "../workers/queue-commands.ts";

const runId = "01a1dfbd-5bc1-7000-bf5a-574d1aa3f763";
const other = "01a1dfbd-5bc1-7000-bf5a-00000000abcd";
describe("looking back", () => {
  it("[L31] runs show --at shows a run as it was at a log position", async () => {
    const fixture = createCommandFixture({
      getRun: run(runId, { nodes: [] }),
      getRunDefinition: { metadata: { name: "n" }, nodes: [], edges: [] },
    });

    await showRun(fixture.context, { run: runId, at: 7 });

    expect(fixture.calls[0]).toEqual(["getRun", { runId, at: 7 }]);
    expect(fixture.stderr()).toContain("State at log position 7; current state: astra runs show");
  });

  it("[L80] runs show and why list every value that did not match its schema", async () => {
    const warning = { code: "E.RESULT.INVALID", message: "node n: results.status is required", field: "/results/status" };
    const nodes = [{ nodeId: "n", taskId: `${runId}.0`, status: "succeeded" as const, warnings: [warning] }];
    const fixture = createCommandFixture({
      getRun: run(runId, { status: "succeeded", nodes }),
      getRunDefinition: { metadata: { name: "n" }, nodes: [], edges: [] },
    });

    await showRun(fixture.context, { run: runId });
    await explainRun(fixture.context, { run: runId });

    const line = "warning E.RESULT.INVALID: node n: results.status is required";
    expect(
      fixture
        .stdout()
        .split("\n")
        .filter((one) => one.trim() === line),
    ).toHaveLength(2);
  });

  it("[L720] runs show prints below the error of a run where in its package the handler failed", async () => {
    const stack = "TypeError: no name\n    at Module.greet (main.mjs:5:55)\n    at lookUp (names.mjs:2:1)";
    const error = { code: "E.RUNNER.FAILURE", message: "no name", details: { stack } };
    const fixture = createCommandFixture({
      getRun: run(runId, { status: "failed", nodes: [], error }),
      getRunDefinition: { metadata: { name: "n" }, nodes: [], edges: [] },
    });

    await showRun(fixture.context, { run: runId });

    expect(fixture.stdout()).toContain(
      "E.RUNNER.FAILURE: no name\n    at Module.greet (main.mjs:5:55)\n    at lookUp (names.mjs:2:1)\n",
    );
  });

  it("[L31] runs ledger reads the ledger to its end, and ends with exit code 1 if a task was accepted twice", async () => {
    const figures = { accepted: 2, finished: 2, open: 0, attempts: 3, repeated: 1, refusedLate: 0, lost: 0, twice: 0 };
    const pages = [
      { figures, from: 1, to: 9, asOf: 12, next: 9 },
      { figures: { ...figures, twice: 1 }, from: 10, to: 12, asOf: 12, next: null },
    ];
    const fixture = createCommandFixture({
      getLedger: () => pages.shift(),
      getRunLedger: { runId, figures, from: 1, to: 9, asOf: 9 },
    });

    expect(await showLedger(fixture.context, { run: runId })).toBe(0);
    expect(await showLedger(fixture.context, {})).toBe(1);

    expect(fixture.calls.slice(1)).toEqual([
      ["getLedger", { after: undefined }],
      ["getLedger", { after: 9 }],
    ]);
    expect(fixture.stdout()).toMatch(/facts +1\.\.9\naccepted +2\n/);
    expect(fixture.stderr()).toContain("Tasks lost: 0, accepted twice: 1");
  });

  it("[L31] runs diff lists different results and durations of a node, and ignores a small difference in duration", () => {
    const node = (ms: number, more: object) =>
      ({
        nodeId: "n",
        taskId: "r.0",
        label: "Say",
        status: "succeeded",
        startedAt: "2026-01-01T00:00:00.000Z",
        finishedAt: new Date(Date.parse("2026-01-01T00:00:00Z") + ms).toISOString(),
        ...more,
      }) as never;

    expect(compareNodes([node(1_000, {})], [node(1_090, {})])).toEqual([]);
    expect(
      compareNodes([node(1_000, { result: { a: 1 } })], [node(3_000, { result: { a: 2 } })]).map(({ what, first, second }) => [
        what,
        first,
        second,
      ]),
    ).toEqual([
      ["result", '{"a":1}', '{"a":2}'],
      ["took", "1.0 s", "3.0 s"],
    ]);
  });
});

describe("tables", () => {
  const rows = [
    ["RUN", "STATUS", "WORKFLOW"],
    [runId, "running", "A workflow with a rather long name"],
    [other, "failed", "Short"],
  ];
  const columns = [{ kind: "id" }, {}, {}] as const;

  it("[L32] a table too wide for the screen shortens ids to unique endings, then its widest cells; a table that fits is unchanged", () => {
    expect(fitTableToWidth(rows, columns, 120)).toEqual(rows);
    expect(fitTableToWidth(rows, columns, 60)[1]).toEqual(["1aa3f763", "running", "A workflow with a rather long name"]);
    const narrow = fitTableToWidth(rows, columns, 40);
    expect(narrow[1]).toEqual(["1aa3f763", "running", "A workflow with a ra…"]);
    expect(Math.max(...narrow.map((row) => row.join("  ").length))).toBeLessThanOrEqual(40);
    const timed = fitTableToWidth(
      [
        ["AT", "CODE", "MESSAGE"],
        ["2026-01-31 12:00:59Z", "E.RUNNER.FAILURE", "a message that is much too long for the screen"],
      ],
      [{ kind: "when" }, {}, { kind: "text" }],
      60,
    );
    expect(timed[1]).toEqual(["01-31 12:00Z", "E.RUNNER.FAILURE", "a message that is much too …"]);
  });
});

describe("one thing", () => {
  it("[L34] queues show finds a queue by its node type and shows what it needs and which workers cannot take its tasks", async () => {
    const blocked = {
      queue: "q",
      waiting: 4,
      isPartial: false,
      needs: { package: "p", version: "1", nodeType: "demo.text" },
      workers: { fitting: 0, blocked: { draining: 2 } },
    };
    const fixture = createCommandFixture({ listQueues: { items: [blocked], asOf: 1 } });

    await showQueue(fixture.context, { queue: "demo.t" });

    expect(fixture.stdout()).toMatch(
      /node type +demo\.text\n[\s\S]*could take it +0 workers\ncannot take it now:\n +draining +2\n$/,
    );
    expect(fixture.stderr()).toContain("astra workers list --filter package:p");
    await expect(showQueue(fixture.context, { queue: "demo.txet" })).rejects.toMatchObject({
      exitCode: 3,
      message: expect.stringContaining('Did you mean "demo.text"?'),
    });
  });

  it("[L34] astra open prints the URL of a run, worker or workflow, and the start page's URL if that page does not exist", async () => {
    const fixture = createCommandFixture({
      listRuns: { items: [run(runId)], nextCursor: null },
      listWorkers: { items: [{ id: "w-1", instanceId: "i-1" }], nextCursor: null },
      listWorkflows: { items: [{ id: other, metadata: { name: "Welcome" } }], nextCursor: null },
    });
    const opened: string[] = [];
    const context = (isThere: boolean) => ({
      ...fixture.context,
      openBrowser: async (url: string) => (opened.push(url), true),
      hasPage: async () => isThere,
    });

    await openPage(context(true), { id: "1aa3f763" });
    await openPage(context(true), { id: "w-1" });
    await openPage(context(false), { id: "welcome" });

    expect(opened).toEqual([`http://s/#${runId}`, "http://s/workers/i-1", "http://s/"]);
    expect(fixture.stdout()).toBe(`${opened.join("\n")}\n`);
    expect(fixture.stderr()).toContain(`no page at http://s/workflows/${other}`);
    await expect(openPage(context(true), { id: "nothing" })).rejects.toMatchObject({ exitCode: 3 });
    await expect(openPage(context(true), { id: "w" })).rejects.toMatchObject({ exitCode: 2 });
  });

  it("[L23] a bench result is one document with the figures of JSON lines and the other lines as text", () => {
    const end = { exitCode: 0, tookMs: 5 };

    expect(formatBenchResult(["postgres", "--tasks", "9"], ["load 1", '{"a":1}'], end)).toEqual({
      bench: "postgres",
      words: ["--tasks", "9"],
      node: process.version,
      ...end,
      figures: { a: 1 },
      lines: ["load 1"],
    });
    expect(formatBenchResult([], ["{ not data"], end)).toMatchObject({ bench: null, figures: null, lines: ["{ not data"] });
  });
});
