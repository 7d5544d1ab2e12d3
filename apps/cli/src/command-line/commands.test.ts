import type { Run, Workflow } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createConfirmation } from "../api/confirmation.ts";
import { dismissDeadLetter, listDeadLetters, requeueDeadLetter } from "../history/history-commands.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { cancelRun, rebindRun, replayRun, retryRun, runBulkChange, skipNode } from "../runs/change-commands.ts";
import { diffRuns } from "../runs/diff-command.ts";
import { listRuns, showLogs } from "../runs/inspect-commands.ts";
import { explainRun } from "../runs/why-command.ts";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { listQueues } from "../workers/queue-commands.ts";

const runId = "01a1dfbd-5bc1-7000-bf5a-574d1aa3f763";
const nodeId = "11111111-1111-4111-8111-111111111111";
const ref = {
  runId: "01a1dfbd-0000-7000-8000-000000000000",
  status: "queued",
  definitionHash: "h",
  clientId: "c",
  createdAt: "x",
};
const workflow = {
  id: "22222222-2222-4222-8222-222222222222",
  schemaVersion: "2025-10",
  metadata: { name: "Doomed" },
  nodes: [
    { id: nodeId, type: "demo.fail", label: "Fall over", package: { name: "demo", version: "1.0.0" }, position: { x: 0, y: 0 } },
  ],
  edges: [],
} as Workflow;
const run = (more: Partial<Run> = {}): Run => ({ runId, status: "running", definitionHash: "h", clientId: "c", ...more });
const queued = { nodeId, taskId: `${runId}.0`, status: "queued", label: "Fall over", state: { stage: "ready" } } as const;

describe("steering", () => {
  it("[L18] skip, retry, rebind and replay accept a part of a run id and a node label, and print what was changed", async () => {
    const steered = { runId, tasks: [{ taskId: `${runId}.0`, nodeId, from: "w-1", to: "w-2", sent: "stop", status: "ready" }] };
    const fixture = createCommandFixture({
      listRuns: { items: [run()], nextCursor: null },
      getRunDefinition: workflow,
      skipNode: { runId, tasks: [] },
      retryNode: { runId, tasks: [], newRun: ref },
      rebindRun: steered,
      retryRun: ref,
      replayRun: ref,
    });

    await skipNode(fixture.context, { run: "aa3f763", node: "fall", reason: "late" });
    await retryRun(fixture.context, { run: runId, node: "Fall over" });
    await rebindRun(fixture.context, { run: runId, worker: "w-2", mode: "switch" });
    await retryRun(fixture.context, { run: runId, reason: "again" });
    await replayRun(fixture.context, { run: runId, from: "Fall over", version: "3" });

    expect(fixture.calls.filter(([name]) => !/^list|^get/.test(name))).toEqual([
      ["skipNode", { runId, nodeId, body: { reason: "late" } }],
      ["retryNode", { runId, nodeId, body: {} }],
      ["rebindRun", { runId, body: { mode: "switch", worker: "w-2" } }],
      ["retryRun", { runId, body: { reason: "again" } }],
      ["replayRun", { runId, body: { from: nodeId, version: 3 } }],
    ]);
    expect(fixture.stdout()).toMatch(/TASK +STATUS +FROM +TO +SENT\n.*\.0 +ready +w-1 +w-2 +stop\n/);
    expect(fixture.stderr()).toContain("No task was open; nothing was changed.");
    await expect(replayRun(fixture.context, { run: runId, version: "newest" })).rejects.toMatchObject({ exitCode: 2 });
  });

  it("[L18] a bulk change needs a filter, and changes runs only after confirmation", async () => {
    const bulk = {
      bulkId: "b",
      action: "cancel",
      matched: 3,
      changed: 2,
      unchanged: 0,
      refused: 1,
      refusals: [{ runId, code: "E.X", message: "m" }],
    };
    const fixture = createCommandFixture(
      {
        changeRuns: ({ body }: { body: { dryRun?: boolean } }) => ({ ...bulk, status: body.dryRun ? "planned" : "done" }),
      },
      { confirm: createConfirmation({ isConfirmed: false, promptUser: null }) },
    );

    await expect(runBulkChange(fixture.context, { action: "cancel" })).rejects.toThrow(/Choose runs with --filter/);
    await expect(runBulkChange(fixture.context, { action: "cancel", status: ["failed"] })).rejects.toThrow(
      /would cancel 3 runs\. Repeat with --yes/,
    );
    expect(await runBulkChange(fixture.context, { action: "cancel", status: ["failed"], dryRun: true })).toBe(0);
    expect(fixture.calls.every(([, input]) => (input as { body: { dryRun?: boolean } }).body.dryRun)).toBe(true);
    expect(await runBulkChange(fixture.context, { action: "cancel", status: ["failed"], yes: true })).toBe(1);
    expect(fixture.stdout()).toMatch(/2 changed, 0 unchanged, 1 refused\nrefused 01a1.* E\.X: m\n$/);
  });

  it("[L9] runs cancel of a run that has ended asks for no confirmation and fails with the scheduler's refusal", async () => {
    const refusal = new CliFailure(exitCodes.conflict, { error: "E.RUN.TERMINAL", message: "run x is failed" });
    const fixture = createCommandFixture(
      { getRun: run({ status: "failed" }), cancelRun: () => Promise.reject(refusal) },
      { confirm: () => Promise.reject(new Error("a confirmation was asked for")) },
    );

    await expect(cancelRun(fixture.context, { run: runId })).rejects.toBe(refusal);
    expect(fixture.stdout()).toBe("");
  });
});

describe("looking", () => {
  it("[L14] runs list prints a table, a wide table, ids or the API's own page as JSON", async () => {
    const page = { items: [run({ name: "Doom\u001b[2Jed", startedBy: "ada" })], nextCursor: "n", asOf: 4 };
    const print = async (more: Parameters<typeof createCommandFixture>[1]) => {
      const fixture = createCommandFixture({ listRuns: page }, more);
      await listRuns(fixture.context, { limit: 1, status: "running" });
      return fixture.stdout();
    };

    expect(await print({})).toMatch(/^RUN +STATUS +WORKFLOW +CREATED +TOOK +CLIENT\n01a1\S+ +running +Doom \[2Jed +- +- +c\n$/);
    expect(await print({ output: "wide" })).toMatch(/BY .*\n.* ada /);
    expect(await print({ output: "id" })).toBe(`${runId}\n`);
    expect(JSON.parse(await print({ json: true }))).toEqual(page);
  });

  it("[L19] astra why shows each waiting node's reasons by label and worker name, and the command that would help", async () => {
    const placement = {
      runId,
      nodeId,
      taskId: queued.taskId,
      status: "queued",
      summary: `Fall over waits for ${nodeId}`,
      reasons: [{ code: "queued", facts: { sinceMs: 5 } }],
      workers: [{ workerId: "i", workerName: "w-1", code: "draining", facts: {} }],
      fixes: ["undrain-worker", "add-slots"],
      asOf: 1,
    };
    const unreached = (at: number) => ({ ...queued, taskId: `${runId}.${at}`, state: { stage: "waiting" } });
    const fixture = createCommandFixture({
      getRun: run({ nodes: [queued, unreached(1), unreached(2)] }),
      getPlacement: placement,
    });

    expect(await explainRun(fixture.context, { run: runId })).toBe(0);

    expect(fixture.calls.filter(([name]) => name === "getPlacement")).toHaveLength(1);
    expect(fixture.stdout()).toMatch(/^Fall over \(queued\): Fall over waits for Fall over\n {2}queued {2}in line for 0\.0 s\n/);
    expect(fixture.stdout()).toMatch(/w-1 +draining\n {2}try: astra workers undrain w-1\n {2}try: add slots\n$/);
    expect(fixture.stderr()).toContain("2 more nodes wait for these");
  });

  it("[L19] astra why on a failed run shows the run's error and the node that failed", async () => {
    const error = { code: "E.X", message: "bad" };
    const fixture = createCommandFixture({
      getRun: run({ status: "failed", error, nodes: [{ ...queued, status: "failed", error }] }),
    });

    expect(await explainRun(fixture.context, { run: runId })).toBe(0);
    expect(fixture.stdout()).toBe(`run ${runId} failed: E.X: bad\n  Fall over: E.X: bad\n`);
  });

  it("[L19] queues list shows how many tasks wait, what they need and which workers are blocked", async () => {
    const queue = {
      queue: "q",
      waiting: 7,
      isPartial: true,
      oldestWaitMs: 90_000,
      needs: { package: "demo", version: "1.0.0", nodeType: "demo.text" },
      workers: { fitting: 0, blocked: { draining: 2 } },
    };
    const fixture = createCommandFixture({ listQueues: { items: [queue], asOf: 1 } });

    await listQueues(fixture.context, {});

    expect(fixture.stdout()).toMatch(/\ndemo\.text +demo@1\.0\.0 +7\+ +1 min +0 +draining=2\n$/);
  });

  it("[L18] runs logs reads all pages and prefixes each line with its node's label, and runs diff lists differences by node", async () => {
    const line = (text: string) => ({ nodeId, taskId: "t", line: 0, at: "x", channel: "log", text });
    const other = {
      ...run({ runId: ref.runId, status: "failed" }),
      nodes: [{ ...queued, taskId: `${ref.runId}.0`, status: "failed" }],
    };
    const fixture = createCommandFixture({
      getRun: (input: { runId: string }) =>
        input.runId === runId ? run({ status: "succeeded", nodes: [{ ...queued, status: "succeeded" }] }) : other,
      getRunDefinition: workflow,
      getRunLogs: ({ cursor }: { cursor?: string }) =>
        cursor === undefined
          ? { items: [line("a")], nextCursor: "c", asOf: 1 }
          : { items: [line("b")], nextCursor: null, asOf: 2 },
    });

    await showLogs(fixture.context, { run: runId });
    await diffRuns(fixture.context, { first: runId, second: ref.runId });

    expect(fixture.stdout()).toMatch(/^Fall over: a\nFall over: b\n/);
    expect(fixture.stdout()).toMatch(/Fall over +status +succeeded +failed\n$/);
  });
});

describe("the ledger", () => {
  const deadLetter = {
    taskId: `${runId}.0`,
    runId,
    nodeId,
    label: "Fall over",
    code: "E.X",
    message: "m",
    attempts: 3,
    failures: 1,
    at: "x",
    status: "open",
  };

  it("[L20] dead letters are listed, and are requeued and dismissed by task id or label", async () => {
    const fixture = createCommandFixture({
      listDeadLetters: { items: [deadLetter], nextCursor: null },
      requeueDeadLetter: ref,
      dismissDeadLetter: { ...deadLetter, status: "dismissed" },
    });

    await listDeadLetters(fixture.context, { limit: 10 });
    await requeueDeadLetter(fixture.context, { task: "fall", reason: "fixed" });
    await dismissDeadLetter(fixture.context, { task: `${runId}.0` });

    expect(fixture.calls.slice(2)).toEqual([
      ["requeueDeadLetter", { taskId: deadLetter.taskId, body: { reason: "fixed" } }],
      ["dismissDeadLetter", { taskId: deadLetter.taskId, body: {} }],
    ]);
    expect(fixture.stdout()).toContain(`${deadLetter.taskId} dismissed\n`);
  });
});
