// kill -9 of a real scheduler at each of its named points, under a load of short runs and one run with a chain and a map: after the restart
// every accepted run ends once with the right results, and each call and each iteration counts once.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { expectEachRunEndedOnce, submitUntilAccepted } from "../harness/accepted-runs.ts";
import { SchedulerApi, spawnWorker, startScheduler } from "../harness/installation.ts";
import { pollUntil, repositoryRoot, withTimeout } from "../harness/processes.ts";

/** Each point, and passes that fall into the load: into its beginning and its middle where a turn as a whole is lost. */
const killPoints: readonly (readonly [string, readonly number[]])[] = [
  ["turn.begun", [8, 20]],
  ["turn.decided", [8, 20]],
  ["turn.committed", [6, 16]],
  ["turn.spoken", [6, 16]],
  ["sqlite.begin", [12]],
  ["sqlite.statement", [140]],
  ["sqlite.commit", [14]],
  ["sqlite.committed", [10]],
];

/** On PostgreSQL, where a turn is two calls to a server that lives on. */
const postgresKillPoints: readonly (readonly [string, number])[] = [
  ["postgres.begin", 12],
  ["postgres.begun", 12],
  ["postgres.commit", 8],
  ["postgres.committing", 8],
  ["postgres.committed", 8],
];

const inputWords = Array.from({ length: 12 }, (_, at) => `word ${at}`);
const loopTurns = 3;
const shortRuns = 12;

const example = (name: string): Workflow =>
  JSON.parse(readFileSync(join(repositoryRoot, "docs", "examples", name), "utf8")) as Workflow;

/** The map of the examples over more words, and beside it the loop around an echo. */
function loopAndMapWorkflow(): Workflow {
  const [map, loop] = [example("map.json"), example("loop.json")];
  const [list, ...rest] = map.nodes;
  if (list === undefined) throw new Error("the example has no list");
  const longer = { ...list, parameters: { ...list.parameters, value: JSON.stringify(inputWords) } };
  return { ...map, nodes: [longer, ...rest, ...loop.nodes] };
}

/** Starts all runs, lets the scheduler die at the point, starts it again, and checks how every run has ended. */
async function runAndKillAt(point: string, pass: number, env: Record<string, string>): Promise<string> {
  const first = await startScheduler({ env: { ...env, ASTRA_FAILPOINTS: `${point}=kill@${pass}` } });
  const api = new SchedulerApi(first.http);
  spawnWorker(first.ws, { slots: 2 });
  const workflow = loopAndMapWorkflow();
  const accepted = pollUntil("the run to be accepted", () => api.startRun(workflow, "k"));
  const others = Array.from({ length: shortRuns }, (_, at) => submitUntilAccepted(api, at));

  expect(await withTimeout(first.process.ended, `the kill at ${point}`)).toEqual({ code: null, signal: "SIGKILL" });
  await startScheduler({ env, dataDir: first.dataDir, listen: first.listen });
  const { runId } = await accepted;
  const run = await api.waitForRunEnd(runId);
  await expectEachRunEndedOnce(api, await Promise.all(others), [runId]);

  const resultOf = (type: string) =>
    run.nodes?.find(({ nodeId, taskId }) => isNodeOfType(workflow, nodeId, type) && /\.\d+$/.test(taskId));
  const facts = await api.listRunFacts(runId);
  const count = (type: string, more: (data: Record<string, unknown>) => boolean = () => true) =>
    facts.filter((fact) => fact.type === type && more(fact.data as Record<string, unknown>)).length;
  expect(resultOf("workflow.container")?.result).toMatchObject({
    count: inputWords.length,
    items: inputWords.map((word) => ({ word: word.toUpperCase() })),
  });
  expect(resultOf("example.pkg.echo")).toMatchObject({ status: "succeeded", result: { echo: "again" } });
  expect(resultOf("system.loop_middleware")?.result).toMatchObject({ iterations: loopTurns });
  expect(count("frame.ended", ({ status }) => status === "succeeded")).toBe(inputWords.length);
  expect([count("next.asked"), count("next.answered", ({ code }) => code === null)]).toEqual([loopTurns, loopTurns]);
  expect([count("run.created"), count("run.succeeded")]).toEqual([1, 1]);
  return run.status;
}

describe("kill -9 of the scheduler inside a workflow", () => {
  for (const [point, passes] of killPoints)
    for (const pass of passes)
      it(`[O14] [O85] after kill -9 of the scheduler at pass ${pass} of ${point} each accepted run ends once, and each call and iteration of a chain and a map counts once`, async () => {
        expect(await runAndKillAt(point, pass, {})).toBe("succeeded");
      });
});

describe("kill -9 of the scheduler inside a workflow on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  for (const [point, pass] of postgresKillPoints)
    it(`[O14] [O85] after kill -9 of the scheduler at pass ${pass} of ${point} each accepted run ends once, and each call and iteration of a chain and a map counts once`, async () => {
      const env = { ASTRA_SCHEDULER_STORE: await server.createDatabase() };
      expect(await runAndKillAt(point, pass, env)).toBe("succeeded");
    });
});

function isNodeOfType(workflow: Workflow, node: string, type: string): boolean {
  return workflow.nodes.some((one) => [one, ...(one.middlewares ?? [])].some(({ id, type: has }) => id === node && has === type));
}
