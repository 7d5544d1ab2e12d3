import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { afterAll, expect, it } from "vitest";
import { CliFailure } from "../output/cli-failure.ts";
import { startRun } from "../runs/start-command.ts";
import { createCommandFixture } from "../testing/command-fixture.ts";
import {
  diffWorkflow,
  listWorkflows,
  publishWorkflow,
  pullWorkflow,
  pushWorkflow,
  rollbackWorkflow,
  validateWorkflow,
} from "./workflow-commands.ts";

const folder = mkdtempSync(join(tmpdir(), "astra-flows-"));
afterAll(() => rmSync(folder, { recursive: true }));
const id = "22222222-2222-4222-8222-222222222222";
const workflow = {
  id,
  schemaVersion: "2025-10",
  metadata: { name: "Welcome" },
  nodes: [
    {
      id: "11111111-1111-4111-8111-111111111111",
      type: "demo.text",
      label: "Say",
      package: { name: "demo", version: "1.0.0" },
      position: { x: 0, y: 0 },
      parameters: { text: "a" },
    },
  ],
  edges: [],
} as Workflow;
const kept = { ...workflow, revision: 4, createdAt: "x", updatedAt: "2026-01-01T00:00:00Z" };
const draft = { workflowId: id, workflow, revision: 4, latestVersion: 2, problems: [] };
const file = join(folder, "flow.json");
writeFileSync(file, JSON.stringify(workflow));
const found = { listWorkflows: { items: [kept], nextCursor: null, asOf: 1 } };
const fine = { isValid: true, problems: [], asOf: 1 };

it("[L21] a workflow is pulled into a file and pushed back, and push --base replaces only that revision", async () => {
  const fixture = createCommandFixture({
    ...found,
    getDraft: draft,
    validateWorkflow: fine,
    saveWorkflow: { workflowId: id, revision: 5 },
    replaceWorkflow: { workflowId: id, revision: 6 },
  });

  await listWorkflows(fixture.context, { limit: 5 });
  await pullWorkflow(fixture.context, { workflow: "welc", to: join(folder, "pulled.json") });
  await pushWorkflow(fixture.context, { file });
  await pushWorkflow(fixture.context, { file, base: 4 });
  await pushWorkflow(fixture.context, { file, dryRun: true });

  expect(JSON.parse(readFileSync(join(folder, "pulled.json"), "utf8"))).toEqual(workflow);
  expect(fixture.calls.map(([name]) => name)).toEqual([
    ...["listWorkflows", "listWorkflows", "getDraft"],
    ...["validateWorkflow", "saveWorkflow", "validateWorkflow", "replaceWorkflow", "validateWorkflow"],
  ]);
  expect(fixture.stdout()).toContain(`${id} revision 6\n`);
});

it("[L21] workflows validate ends with exit code 1 and the problems of a workflow, and with 2 for a file that is no JSON", async () => {
  const problem = { path: "/nodes/0", code: "E.WORKFLOW.INVALID", message: "no such package", severity: "error" };
  const fixture = createCommandFixture({ validateWorkflow: { isValid: false, problems: [problem], asOf: 1 } });

  expect(await validateWorkflow(fixture.context, { file: [file] })).toBe(1);
  expect(fixture.stdout()).toMatch(/^error \/nodes\/0: no such package \(E\.WORKFLOW\.INVALID\)\n/);
  expect(await validateWorkflow(createCommandFixture({}).context, { file: [file], local: true })).toBe(0);
  writeFileSync(join(folder, "bad.json"), "{");
  await expect(validateWorkflow(fixture.context, { file: [join(folder, "bad.json")] })).rejects.toMatchObject({ exitCode: 2 });
});

it("[L602] workflows validate lists every invalid field of a file, offline as beside a scheduler, and ends with 1", async () => {
  const wrong = join(folder, "wrong.json");
  const [node] = workflow.nodes;
  const body = { ...workflow, nodes: [{ ...node, id: "no uuid", label: 7 }], edges: [{ source: 1 }] };
  writeFileSync(wrong, JSON.stringify(body));
  const local = createCommandFixture({});
  const remote = createCommandFixture({ validateWorkflow: { isValid: false, problems: [], asOf: 1 } });

  expect(await validateWorkflow(local.context, { file: [wrong], local: true })).toBe(1);
  await validateWorkflow(remote.context, { file: [wrong] });

  for (const path of ["/nodes/0/id", "/nodes/0/label", "/edges/0"]) expect(local.stdout()).toContain(`error ${path}`);
  expect(local.stdout().endsWith(`${wrong} cannot run\n`)).toBe(true);
  // The scheduler gets the file as it is, and lists what is wrong itself.
  expect(remote.calls).toEqual([["validateWorkflow", { body }]]);
});

it("[L602] workflows validate checks all files that are named, with one exit code: 2 if one cannot be read, else 1 if one cannot run", async () => {
  const broken = join(folder, "broken.json");
  writeFileSync(broken, "{");
  const wrong = join(folder, "wrong-too.json");
  writeFileSync(wrong, JSON.stringify({ ...workflow, nodes: 1 }));
  const fixture = createCommandFixture({});

  expect(await validateWorkflow(fixture.context, { file: [wrong, file], local: true })).toBe(1);
  expect(await validateWorkflow(fixture.context, { file: [broken, wrong, file], local: true })).toBe(2);
  expect(await validateWorkflow(fixture.context, { file: [file, file], local: true })).toBe(0);

  const verdicts = fixture
    .stdout()
    .split("\n")
    .filter((line) => line.endsWith(" run"));
  expect(verdicts).toEqual([
    `${wrong} cannot run`,
    `${file} can run`,
    `${broken} cannot run`,
    `${wrong} cannot run`,
    `${file} can run`,
    `${file} can run`,
    `${file} can run`,
  ]);
  const asJson = createCommandFixture({}, { json: true });
  await validateWorkflow(asJson.context, { file: [wrong, file], local: true });
  expect(JSON.parse(asJson.stdout())).toMatchObject({
    isValid: false,
    files: [
      { file: wrong, isValid: false },
      { file, isValid: true },
    ],
  });
});

it("[L21] workflow versions are published, compared and rolled back to", async () => {
  const fixture = createCommandFixture({
    ...found,
    publishVersion: { workflowId: id, version: 3 },
    rollbackWorkflow: { workflowId: id, revision: 7 },
    diffWorkflow: {
      workflowId: id,
      from: "1",
      to: "draft",
      edits: [],
      summary: [{ text: "node Say changed: parameters.text" }],
      asOf: 1,
    },
    getDraft: { ...draft, workflow: { ...workflow, nodes: [{ ...workflow.nodes[0], parameters: { text: "b" } }] } },
  });

  await publishWorkflow(fixture.context, { workflow: "Welcome", note: "n" });
  await rollbackWorkflow(fixture.context, { workflow: id, version: 2 });
  await diffWorkflow(fixture.context, { workflow: id, from: "1" });
  await diffWorkflow(fixture.context, { workflow: id, file });

  expect(fixture.calls.filter(([name]) => /^publish|^rollback/.test(name))).toEqual([
    ["publishVersion", { workflowId: id, body: { note: "n" } }],
    ["rollbackWorkflow", { workflowId: id, body: { version: 2 } }],
  ]);
  expect(fixture.stdout().match(/node Say changed: parameters\.text/g)).toHaveLength(2);
});

it("[L16] astra run starts a stored workflow by name, and with --input sends the changed workflow itself", async () => {
  const flags = { detach: true, key: "k", input: [], pin: [], label: [] };
  const ref = { runId: "r", status: "queued", definitionHash: "h", clientId: "c", createdAt: "x" };
  const fixture = createCommandFixture(
    { ...found, getDraft: draft, getVersion: { workflow }, startRun: ref, searchNodes: { items: [] } },
    { json: true },
  );

  await startRun(fixture.context, { workflow: "Welcome", ...flags, version: "draft" });
  await startRun(fixture.context, { workflow: "Welcome", ...flags, input: ["text=b"] });

  const bodies = fixture.calls.filter(([name]) => name === "startRun").map(([, input]) => (input as { body: object }).body);
  expect(bodies).toEqual([
    { clientId: "astra-cli", workflowId: id, version: "draft" },
    {
      clientId: "astra-cli",
      workflow: expect.objectContaining({ nodes: [expect.objectContaining({ parameters: { text: "b" } })] }),
    },
  ]);
});

it("[L16] astra run --dry-run shows what would run, and ends with exit code 1 if there are problems", async () => {
  const plan = {
    dryRun: true,
    nodes: [{ nodeId: "n", label: "Say", action: "run", workers: 0 }],
    problems: [{ path: "/a", code: "E.X", message: "m" }],
  };
  const fixture = createCommandFixture({ startRun: plan });

  expect(await startRun(fixture.context, { workflow: file, dryRun: true, input: [], pin: [], label: [] })).toBe(1);
  expect(fixture.stdout()).toMatch(/Say +run +none yet +n\nerror \/a: m\n$/);
  expect(fixture.calls).toMatchObject([["startRun", { body: { dryRun: true } }]]);
});

it("[L36] a run refused only because no worker has its packages suggests --allow-unknown, other refusals do not", async () => {
  const flags = { detach: true, key: "k", input: [], pin: [], label: [] };
  const refused = (path: string) =>
    new CliFailure(1, { error: "E.WORKFLOW.INVALID", message: "no", details: { problems: [{ path, message: "no" }] } });
  const start = (path: string) => createCommandFixture({ startRun: () => Promise.reject(refused(path)) });
  const allowed = createCommandFixture({ startRun: { runId: "r", status: "queued" } });

  await startRun(allowed.context, { workflow: file, ...flags, allowUnknown: true });

  expect(allowed.calls[0]).toMatchObject(["startRun", { body: { allowUnknown: true } }]);
  await expect(startRun(start("/nodes/0/package/name").context, { workflow: file, ...flags })).rejects.toMatchObject({
    suggestedCommand: `astra run ${file} --allow-unknown`,
  });
  await expect(startRun(start("/nodes/0/parameters").context, { workflow: file, ...flags })).rejects.toMatchObject({
    suggestedCommand: null,
  });
});
