// Values that do not match the schemas of a manifest, when a workflow is saved: what is refused, and what is only listed.

import type { SchemaMode, WorkflowProblem } from "@astraflow/protocol";
import { ManifestRecorder } from "@astraflow/services";
import { sampleChain, sampleManifest } from "@astraflow/services/testing";
import { expect, it } from "vitest";
import { openWorkflowFixture } from "../../testing/workflow-fixture.ts";

/** A tenant with the package demo, one parameter of which has a default that its own schema refuses. */
async function openWithDemo(schemaMode: SchemaMode = "warn") {
  const bench = openWorkflowFixture({ schemaModeOf: () => schemaMode });
  const manifest = structuredClone(sampleManifest("demo", "1.0.0")) as {
    nodes: { schema: { parameters: { properties: object } } }[];
  };
  Object.assign(manifest.nodes[0]?.schema.parameters.properties ?? {}, { headers: { type: "object", default: "" } });
  const { docs, environment } = bench;
  const recorder = new ManifestRecorder({ ...docs, digest: (text) => text, environment });
  recorder.recordManifests("default", [{ name: "demo", version: "1.0.0", manifest }]);
  await recorder.whenIdle();
  const workflowWith = (parameters: object) => ({
    ...sampleChain,
    nodes: sampleChain.nodes.slice(0, 1).map((node) => ({ ...node, type: "demo.echo", parameters })),
    edges: [],
  });
  const save = (parameters: object, headers: Record<string, string> = {}) =>
    bench.callRoute("saveWorkflow", { body: workflowWith(parameters), headers });
  const replace = (parameters: object) =>
    bench.callRoute("replaceWorkflow", { params: { workflowId: sampleChain.id }, body: workflowWith(parameters) });
  return { save, replace };
}

const pathsOf = (problems: readonly WorkflowProblem[] = []) => problems.map(({ severity, path }) => `${severity} ${path}`);
const dropped = { headers: "", times: 1 };

it("[A405] a workflow whose values do not match their schemas is saved, and the answer lists the warnings", async () => {
  const { save, replace } = await openWithDemo();

  const saved = await save({ text: "hi", mode: "shrill" });
  const replaced = await replace({ text: "{{name}}", times: "{{count}}" });

  expect([saved.status, pathsOf(saved.body.problems)]).toEqual([201, ["warning /nodes/0/parameters/mode"]]);
  expect([replaced.status, replaced.body]).toEqual([200, { workflowId: sampleChain.id, revision: 2 }]);
});

it("[G33] saving and checking a workflow with misspelt fields names each with its path and the nearest name, and keeps them", async () => {
  const bench = openWorkflowFixture();
  const [first, ...others] = sampleChain.nodes;
  const body = { ...sampleChain, nodes: [{ ...first, paramters: { a: 1 } }, ...others], runtime: {}, vendor: null };
  const expected = [
    {
      path: "/nodes/0/paramters",
      message: "paramters is not a known field of nodes.0, so it is kept and has no effect; did you mean parameters?",
    },
    {
      path: "/runtime",
      message: "runtime is not a known field of the workflow, so it is kept and has no effect; did you mean runtimes?",
    },
  ].map((problem) => expect.objectContaining({ ...problem, severity: "warning" }));

  const checked = await bench.callRoute("validateWorkflow", { body });
  const saved = await bench.callRoute("saveWorkflow", { body });
  const stored = await bench.callRoute("getWorkflow", { params: { workflowId: sampleChain.id } });

  expect(checked.body).toMatchObject({ isValid: true, problems: expect.arrayContaining(expected) });
  expect(saved.body).toMatchObject({ problems: expect.arrayContaining(expected) });
  expect(stored.body).toMatchObject({ nodes: [{ paramters: { a: 1 } }, {}, {}].slice(0, body.nodes.length), runtime: {} });
});

it("[A405] a node as it comes out of a palette is saved, though a default of its manifest does not match its own schema", async () => {
  const { save } = await openWithDemo();

  const { status, body } = await save(dropped);

  expect([status, pathsOf(body.problems)]).toEqual([
    201,
    ["warning /nodes/0/parameters/headers", "warning /nodes/0/parameters/text"],
  ]);
});

it("[A405] a literal of the wrong type is refused, and where the tenant enforces schemas every value that does not match", async () => {
  const lenient = await openWithDemo();
  const strict = await openWithDemo("enforce");

  const wrongType = await lenient.save({ text: 7 });
  const forbidden = await strict.save({ text: "hi", mode: "shrill" });
  const absent = await strict.save(dropped);

  expect([wrongType, forbidden, absent].map(({ status, body }) => [status, pathsOf(body.details?.problems)])).toEqual([
    [400, ["error /nodes/0/parameters/text"]],
    [400, ["error /nodes/0/parameters/mode"]],
    [400, ["error /nodes/0/parameters/text"]],
  ]);
});

it("[A405] the answer to a saving with an Idempotency-Key lists no warnings, since it must be the same when it is repeated", async () => {
  const { save } = await openWithDemo();

  const first = await save({ text: "hi", mode: "shrill" }, { "idempotency-key": "k" });
  const again = await save({ text: "hi", mode: "shrill" }, { "idempotency-key": "k" });

  expect(first.body).toEqual({ workflowId: sampleChain.id, revision: 1 });
  expect(again.body).toEqual(first.body);
});
