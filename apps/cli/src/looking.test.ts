import type { QueueList, Run, Scaling, Worker } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { benchDocument } from "./bench-command.ts";
import { openStage } from "./command-stage.ts";
import { CliFailure, exitCodes } from "./failure.ts";
import { openPage } from "./open-command.ts";
import { showQueue } from "./queues-command.ts";
import { differences } from "./run-diff.ts";
import { listRuns, showLedger, showRun } from "./runs-command.ts";
import { changeRuns } from "./steer-command.ts";
import { fitRows } from "./terminal.ts";
import { showTop } from "./top-command.ts";
import { drawTop, type Moment, topRows } from "./top-picture.ts";
import { saveView } from "./views-command.ts";

const runId = "01a1dfbd-5bc1-7000-bf5a-574d1aa3f763";
const other = "01a1dfbd-5bc1-7000-bf5a-00000000abcd";
const run = (id: string, more: Partial<Run> = {}): Run => ({
  runId: id,
  status: "running",
  definitionHash: "h",
  clientId: "c",
  ...more,
});

describe("filters", () => {
  it("[L29] are read into the API's own words, with times before now", async () => {
    const stage = openStage(
      {
        listRuns: { items: [], nextCursor: null },
        listWorkflows: { items: [{ id: other, metadata: { name: "Smoke test" } }], nextCursor: null },
      },
      { now: () => Date.parse("2026-01-31T12:00:00Z") },
    );

    await listRuns({ limit: 9, filter: 'status:failed,queued workflow:"smoke test" since:1h timed out' }, stage.place);

    expect(stage.calls.at(-1)).toEqual([
      "listRuns",
      { limit: 9, status: "failed,queued", workflowId: other, since: "2026-01-31T11:00:00.000Z", q: "timed out" },
    ]);
    expect(stage.err()).toContain("No run fits that filter");
  });

  it("[L29] by worker are held by the runs' bindings, in lists and in bulk", async () => {
    const stage = openStage(
      {
        listRuns: { items: [run(runId), run(other)], nextCursor: null, asOf: 4 },
        listRunBindings: (input: { runId: string }) => ({
          items: input.runId === other ? [{ workerName: "w-2", workerId: "i" }] : [],
          asOf: 4,
        }),
        listRunNodes: { items: [{ workerName: "w-3" }], nextCursor: null },
        changeRuns: {
          bulkId: "b",
          action: "cancel",
          status: "done",
          matched: 1,
          changed: 1,
          unchanged: 0,
          refused: 0,
          refusals: [],
        },
      },
      { output: "id" },
    );

    await listRuns({ limit: 9, filter: "worker:w-2" }, stage.place);
    await changeRuns("cancel", { filter: "status:running worker:w-2", yes: true }, stage.place);

    expect(stage.out()).toMatch(new RegExp(`^${other}\\n1 changed`));
    expect(stage.calls.at(-1)).toEqual([
      "changeRuns",
      { body: { action: "cancel", filter: { status: ["running"], runIds: [other] } } },
    ]);
    // Who only failed at it stands with the nodes alone.
    await listRuns({ limit: 1, filter: "worker:w-3" }, stage.place);
    expect(stage.out().trim().split("\n").at(-1)).toBe(runId);
    await expect(changeRuns("cancel", { filter: "worker:w-9", yes: true }, stage.place)).rejects.toThrow(/No run fits/);
  });

  it("[L30] a saved view is a filter by name, whose words the filter may replace; saved again it is replaced", async () => {
    const view = {
      viewId: "v",
      name: "late ones",
      page: "runs",
      query: { status: "failed", text: "a b" },
      shared: true,
      ownerId: "me",
      revision: 3,
    };
    const stage = openStage({
      listViews: { items: [view, { ...view, viewId: "x", ownerId: "you" }], nextCursor: null, asOf: 1 },
      listRuns: { items: [], nextCursor: null },
      getOwnUser: { userId: "me" },
      replaceView: { ...view, revision: 4 },
    });

    await listRuns({ limit: 9, view: "v", filter: "status:cancelled" }, stage.place);
    await saveView("late ones", { filter: "status:failed", page: "runs" }, stage.place);

    expect(stage.calls.find(([name]) => name === "listRuns")?.[1]).toMatchObject({ status: "cancelled", q: "a b" });
    expect(stage.calls.at(-1)).toEqual([
      "replaceView",
      { viewId: "v", body: { name: "late ones", page: "runs", query: "status:failed", shared: true } },
    ]);
    await expect(saveView("x", { filter: "stauts:x", page: "runs" }, stage.place)).rejects.toMatchObject({ exitCode: 2 });
  });
});

describe("looking back", () => {
  it("[L31] a run is shown as it was at a cursor", async () => {
    const stage = openStage({
      getRun: run(runId, { nodes: [] }),
      getRunDefinition: { metadata: { name: "n" }, nodes: [], edges: [] },
    });

    await showRun(runId, { at: 7 }, stage.place);

    expect(stage.calls[0]).toEqual(["getRun", { runId, at: 7 }]);
    expect(stage.err()).toContain("as it was at 7; now: astra runs show");
  });

  it("[L31] the ledger is read to its end, and something lost or done twice ends with 1", async () => {
    const figures = { accepted: 2, finished: 2, open: 0, attempts: 3, repeated: 1, refusedLate: 0, lost: 0, twice: 0 };
    const pages = [
      { figures, from: 1, to: 9, asOf: 12, next: 9 },
      { figures: { ...figures, twice: 1 }, from: 10, to: 12, asOf: 12, next: null },
    ];
    const stage = openStage({ getLedger: () => pages.shift(), getRunLedger: { runId, figures, from: 1, to: 9, asOf: 9 } });

    expect(await showLedger(runId, stage.place)).toBe(0);
    expect(await showLedger(undefined, stage.place)).toBe(1);

    expect(stage.calls.slice(1)).toEqual([
      ["getLedger", { after: undefined }],
      ["getLedger", { after: 9 }],
    ]);
    expect(stage.out()).toMatch(/facts +1\.\.9\naccepted +2\n/);
    expect(stage.err()).toContain("0 tasks were lost and 1 were accepted twice");
  });

  it("[L31] two runs differ in states, results, and times that are more than a blink apart", () => {
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

    expect(differences([node(1_000, {})], [node(1_090, {})])).toEqual([]);
    expect(
      differences([node(1_000, { result: { a: 1 } })], [node(3_000, { result: { a: 2 } })]).map(({ what, first, second }) => [
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

  it("[L32] are cut to the screen: ids to their unique ends, then the widest cells; where there is room nothing is", () => {
    expect(fitRows(rows, columns, 120)).toEqual(rows);
    expect(fitRows(rows, columns, 60)[1]).toEqual(["1aa3f763", "running", "A workflow with a rather long name"]);
    const narrow = fitRows(rows, columns, 40);
    expect(narrow[1]).toEqual(["1aa3f763", "running", "A workflow with a ra…"]);
    expect(Math.max(...narrow.map((row) => row.join("  ").length))).toBeLessThanOrEqual(40);
    const timed = fitRows(
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

const worker = (id: string, more: Partial<Worker> = {}): Worker => ({
  id,
  lastHeartbeatAt: "2026-01-31T11:59:58Z",
  queues: [],
  ...more,
});
const moment: Moment = {
  url: "http://s",
  at: Date.parse("2026-01-31T12:00:00Z"),
  scaling: {
    queued: 4,
    running: 2,
    isPartial: true,
    slots: 8,
    free: 6,
    workers: { online: 1, away: 0, lost: 1, saturated: 0, draining: 1 },
    wantedSlots: 6,
    asOf: 5,
  } as Scaling,
  workers: [
    worker("w-1", { connected: true, heartbeat: { healthy: true, metrics: { inflight: 2, cpuPct: 12.4 } } }),
    worker("w-2", { status: "lost" }),
  ],
  runs: Array.from({ length: 30 }, (_, at) =>
    run(`01a1dfbd-5bc1-7000-bf5a-0000000000${String(at).padStart(2, "0")}`, {
      name: "Welcome\u001b[2J",
      startedAt: "2026-01-31T11:59:00Z",
      openTasks: 3,
    }),
  ),
  queues: [
    {
      queue: "q",
      waiting: 4,
      isPartial: false,
      needs: { package: "p", version: "1", nodeType: "demo.text" },
      workers: { fitting: 0, blocked: {} },
    },
  ] as QueueList["items"],
};
const plain = { paint: new Proxy({}, { get: () => (text: string) => text }) as never };

describe("top", () => {
  it("[L33] fits fleet, runs and queues on the screen and counts what it leaves out", () => {
    for (const [columns, rows] of [
      [80, 24],
      [160, 50],
      [60, 12],
    ] as const) {
      const lines = drawTop(moment, { ...plain, columns, rows });

      expect(lines.length).toBeLessThan(rows);
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
    }
    const text = drawTop(moment, { ...plain, columns: 100, rows: 24 }).join("\n");
    expect(text).toContain("2+ running, 4+ queued · 8 slots, 6 free · workers: 1 online (1 draining), 0 away, 1 lost");
    expect(text).toMatch(/w-1 +online +2\/- +12 %/);
    expect(text).toMatch(/and \d+ more open runs/);
    expect(text).not.toContain("\u001b");
  });

  it("[L33] [L50] is rows in a pipe and one document a look as data; it waits for a scheduler that goes away, not for one it never saw", async () => {
    expect(topRows(moment)[0]).toMatch(/^2026-01-31T12:00:00\.000Z\tfleet\t/);
    expect(topRows(moment)).toHaveLength(1 + 2 + 30 + 1);
    const stopping = new AbortController();
    let looks = 0;
    const stage = openStage(
      {
        getScaling: () => {
          looks += 1;
          if (looks === 2 || looks === 4)
            throw new CliFailure(exitCodes.unreachable, { error: "E.UNREACHABLE", message: "away" });
          if (looks === 3) stopping.abort();
          return moment.scaling;
        },
        listWorkers: { items: moment.workers, nextCursor: null },
        listRuns: { items: moment.runs, nextCursor: null },
        listQueues: { items: moment.queues, asOf: 5 },
      },
      { json: true },
    );

    expect(await showTop({ once: false, everyMs: 1 }, { ...stage.place, signal: stopping.signal })).toBe(130);

    expect(stage.err()).toMatch(/does not answer; reconnecting.*\nconnected again\n$/);
    const told = stage.out().trim().split("\n");
    expect(told).toHaveLength(2);
    expect(JSON.parse(told[0] ?? "")).toMatchObject({ cursor: "5", scaling: { slots: 8 }, runs: { length: 30 } });
    await expect(showTop({ once: false, everyMs: 1 }, stage.place)).rejects.toMatchObject({ exitCode: 5 });
  });
});

describe("one thing", () => {
  it("[L34] a queue is shown by its node type with what it needs and who is kept from it", async () => {
    const blocked = { ...moment.queues[0], workers: { fitting: 0, blocked: { draining: 2 } } };
    const stage = openStage({ listQueues: { items: [blocked], asOf: 1 } });

    await showQueue("demo.t", stage.place);

    expect(stage.out()).toMatch(/node type +demo\.text\n[\s\S]*could take it +0 workers\ncannot take it now:\n +draining +2\n$/);
    expect(stage.err()).toContain("astra workers list --filter package:p");
    await expect(showQueue("demo.txet", stage.place)).rejects.toMatchObject({
      exitCode: 3,
      message: expect.stringContaining('Did you mean "demo.text"?'),
    });
  });

  it("[L34] open prints the address of a run, a worker or a workflow, and the first page where there is none for it", async () => {
    const stage = openStage({
      listRuns: { items: [run(runId)], nextCursor: null },
      listWorkers: { items: [worker("w-1", { instanceId: "i-1" })], nextCursor: null },
      listWorkflows: { items: [{ id: other, metadata: { name: "Welcome" } }], nextCursor: null },
    });
    const opened: string[] = [];
    const place = (isThere: boolean) => ({
      ...stage.place,
      browse: async (url: string) => (opened.push(url), true),
      hasPage: async () => isThere,
    });

    await openPage("1aa3f763", place(true));
    await openPage("w-1", place(true));
    await openPage("welcome", place(false));

    expect(opened).toEqual([`http://s/runs/${runId}`, "http://s/workers/i-1", "http://s/"]);
    expect(stage.out()).toBe(`${opened.join("\n")}\n`);
    expect(stage.err()).toContain(`no page at http://s/workflows/${other}`);
    await expect(openPage("nothing", place(true))).rejects.toMatchObject({ exitCode: 3 });
    await expect(openPage("w", place(true))).rejects.toMatchObject({ exitCode: 2 });
  });

  it("[L23] a bench is one document: its figures where it gives data, its lines where it gives words", () => {
    const end = { exitCode: 0, tookMs: 5 };

    expect(benchDocument(["postgres", "--tasks", "9"], ["load 1", '{"a":1}'], end)).toEqual({
      bench: "postgres",
      words: ["--tasks", "9"],
      node: process.version,
      ...end,
      figures: { a: 1 },
      lines: ["load 1"],
    });
    expect(benchDocument([], ["{ not data"], end)).toMatchObject({ bench: null, figures: null, lines: ["{ not data"] });
  });
});
