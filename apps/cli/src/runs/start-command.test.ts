import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Client } from "../api/api-client.ts";
import { parseJson } from "../api/input-file.ts";
import { CliFailure, describeFailure, exitCodes } from "../output/cli-failure.ts";
import { type CommandFixture, createCommandFixture } from "../testing/command-fixture.ts";
import { startRun, submitRun, toRunRequest } from "./start-command.ts";

const parseRunRequest = (text: string, source: string) => toRunRequest(parseJson(text, source), source);

const nodeId = "11111111-1111-4111-8111-111111111111";
const workflow = (edges: unknown[] = []) => ({
  id: "22222222-2222-4222-8222-222222222222",
  schemaVersion: "2025-10",
  metadata: { name: "One step" },
  nodes: [
    { id: nodeId, type: "demo.noop", label: "Nothing", package: { name: "demo", version: "1.0.0" }, position: { x: 0, y: 0 } },
  ],
  edges,
});

it("[L6] a file for astra run contains a workflow or a whole run request", () => {
  expect(parseRunRequest(JSON.stringify(workflow()), "f").clientId).toBe("astra-cli");
  expect(parseRunRequest(JSON.stringify({ workflow: workflow(), clientId: "me", priority: 2 }), "f")).toMatchObject({
    clientId: "me",
    priority: 2,
  });
});

it("[L910] a file that is not JSON is refused with file, line and column, the line itself and a mark below the place", () => {
  const broken = `{\n  "schemaVersion": "2025-10",\n  "nodes": [\n    {"id": "a" "type": "demo.text"}\n  ]\n}`;
  const refusalOf = (text: string) => {
    try {
      return parseRunRequest(text, "flow.json");
    } catch (failure) {
      return (failure as CliFailure).body;
    }
  };

  expect(refusalOf(broken)).toEqual({
    error: "E.REQUEST.INVALID",
    message: 'flow.json:4:16 is not JSON: expected "," or "}"\n      {"id": "a" "type": "demo.text"}\n                 ^',
    details: { file: "flow.json", line: 4, column: 16 },
  });
  expect(refusalOf("")).toMatchObject({ message: "flow.json:1:1 is not JSON: the text is empty" });
  const long = refusalOf(`{"a": "${"x".repeat(300)}" "\u001b[31m${"y".repeat(300)}": 1}`) as { message: string };
  const [, line = "", mark = ""] = long.message.split("\n");
  expect(long.message).not.toContain("\u001b");
  expect(Math.max(line.length, mark.length)).toBeLessThan(80);
  expect(line.slice(mark.length - 2)).toMatch(/^ " /);
});

it("[L6] astra run refuses a workflow that cannot run, with its problems, before it is sent", () => {
  const edges = [
    { id: "e", source: { node: nodeId, port: "x" }, target: { node: "33333333-3333-4333-8333-333333333333", port: "y" } },
  ];

  expect(() => parseRunRequest("{", "flow.json")).toThrow(/flow\.json:1:2 is not JSON/);
  expect(() => parseRunRequest(`{"nodes": 1}`, "flow.json")).toThrow(/flow\.json: /);
  expect(() => parseRunRequest(JSON.stringify(workflow(edges)), "flow.json")).toThrow(
    /flow\.json cannot run: 1 problem in its graph/,
  );
});

it("[L6] astra run resends a submission whose reply was lost under the same key, and reports that once", async () => {
  const keys: string[] = [];
  const away = (reason: string) =>
    new CliFailure(exitCodes.unreachable, { error: "E.UNREACHABLE", message: "away", details: { reason } });
  const answers = [away("ECONNRESET"), away("ECONNREFUSED")];
  const client = {
    startRun: (_request: unknown, { key }: { key: string }) => {
      keys.push(key);
      const next = answers.shift();
      return next ? Promise.reject(next) : Promise.resolve({ runId: "r" });
    },
  } as unknown as Client;
  const request = parseRunRequest(JSON.stringify(workflow()), "f");
  const logged: string[] = [];
  const manner = { key: "k", log: (line: string) => logged.push(line) };

  expect(await submitRun(client, request, manner)).toEqual({ runId: "r" });
  expect(keys).toEqual(["k", "k", "k"]);
  expect(logged).toEqual([expect.stringMatching(/^not accepted yet: away Trying again/)]);

  answers.push(away("ECONNREFUSED"));
  await expect(submitRun(client, request, manner)).rejects.toThrow("away");
  expect(logged).toHaveLength(1);
});

it("[L83] a signal to stop ends astra run while the scheduler does not answer, with the key that starts the run once at most", async () => {
  const stop = new AbortController();
  const client = {
    startRun: (_request: unknown, { signal }: { signal: AbortSignal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))),
  } as unknown as Client;
  const request = parseRunRequest(JSON.stringify(workflow()), "f");

  const submitted = submitRun(client, request, { key: "k-7", log: () => undefined, signal: stop.signal });
  stop.abort();

  await expect(submitted).rejects.toMatchObject({ exitCode: exitCodes.interrupted, body: { error: "E.INTERRUPTED" } });
  await expect(submitted).rejects.toMatchObject({ suggestedCommand: expect.stringContaining("--key k-7") });
});

it("[L83] astra run names its run before it waits, also with --json", async () => {
  const folder = mkdtempSync(join(tmpdir(), "astra-run-"));
  const file = join(folder, "flow.json");
  writeFileSync(file, JSON.stringify(workflow()));
  const run = { runId: "r-1", status: "succeeded", definitionHash: "h", clientId: "c", asOf: 1 };
  const seen: string[] = [];
  const fixture: CommandFixture = createCommandFixture(
    { startRun: run, getRunDefinition: workflow(), getRun: () => (seen.push(fixture.stderr()), run) },
    { json: true },
  );

  await startRun(fixture.context, { workflow: file, input: [], pin: [], label: [] });
  rmSync(folder, { recursive: true });

  expect(seen[0]).toBe('run r-1 of "One step" (1 node)\n');
  expect(JSON.parse(fixture.stdout())).toMatchObject({ runId: "r-1" });
});

const withFile = async <T>(use: (file: string) => Promise<T>): Promise<T> => {
  const folder = mkdtempSync(join(tmpdir(), "astra-run-"));
  const file = join(folder, "flow.json");
  writeFileSync(file, JSON.stringify(workflow()));
  return use(file).finally(() => rmSync(folder, { recursive: true }));
};
const warning = { path: "/nodes/0/parameters/tex", code: "E.WORKFLOW.INVALID", message: "no parameter tex", severity: "warning" };

it("[L832] astra run prints the warnings that depend on the catalogue, which the answer to a start with a key leaves out", async () => {
  const run = { runId: "r-1", status: "succeeded", definitionHash: "h", clientId: "c", asOf: 1 };
  const startRunAnswer = ({ body }: { body: { dryRun?: boolean } }) =>
    body.dryRun ? { dryRun: true, nodes: [], problems: [warning] } : run;
  const fixture = createCommandFixture({ startRun: startRunAnswer, getRunDefinition: workflow(), getRun: run });

  await withFile((file) => startRun(fixture.context, { workflow: file, input: [], pin: [], label: [], detach: true }));

  expect(fixture.stderr()).toContain("warning /nodes/0/parameters/tex: no parameter tex\n");
});

it("[L832] a workflow that astra run may not start is refused with all its problems, the warnings among them", async () => {
  const error = { path: "/nodes/0/type", code: "E.WORKFLOW.INVALID", message: "no such type", severity: "error" };
  const refusal = new CliFailure(exitCodes.failed, {
    error: "E.WORKFLOW.INVALID",
    message: "no such type",
    details: { problems: [error] },
  });
  const fixture = createCommandFixture({
    startRun: ({ body }: { body: { dryRun?: boolean } }) =>
      body.dryRun ? { dryRun: true, nodes: [], problems: [error, warning] } : Promise.reject(refusal),
  });

  const refused = withFile((file) => startRun(fixture.context, { workflow: file, input: [], pin: [], label: [] }));

  const failure = await refused.catch((cause: unknown) => cause as CliFailure);
  expect(describeFailure(failure as CliFailure, false)).toMatch(
    /\/nodes\/0\/type: no such type\n.*warning \/nodes\/0\/parameters\/tex: no parameter tex/,
  );
});
