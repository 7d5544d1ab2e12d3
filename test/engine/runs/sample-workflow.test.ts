// The specification's sample: a page is opened, then clicked, wired by two edges. It is read, checked and run on the real engine as its
// author wrote it, by a worker that brings the package it names.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import { afterEach, describe, expect, it } from "vitest";
import { EngineHarness } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";

const openPageId = "2b2c3fcb-9c18-4ca2-9b5a-8ad4deb1f164";
const clickButtonId = "8f5dea1f-6a13-4e43-843f-5361c40f8f5a";
const crawler = { name: "crawlerx_playwright", version: "2025.10.0" };
const statuses = ["PENDING", "RUNNING", "SUCCEEDED", "FAILED"];

const port = (key: string, path: string, mode: "read" | "write") => ({ key, label: key, binding: { path, mode } });
const widget = (key: string, component: string, path: string, mode: "read" | "two_way", options: object) => ({
  key,
  label: key,
  component,
  binding: { path, mode },
  options,
});

const clickParameters = {
  type: "object",
  properties: {
    selector: { type: "string", default: "#login-button" },
    waitFor: { type: "string", enum: ["visible", "attached", "stable", "enabled"], default: "visible" },
    button: { type: "string", enum: ["left", "right", "middle"], default: "left" },
    delay: { type: "integer", minimum: 0, default: 0 },
  },
  required: ["selector"],
};
const clickResults = {
  type: "object",
  properties: {
    status: { type: "string", enum: statuses, default: "PENDING" },
    done: { type: "boolean", default: false },
    metadata: { type: "object", default: {} },
  },
  required: ["status"],
  additionalProperties: true,
};

/** As it is drawn: ports and widgets bound to parameters and, read only, to results. */
const sample = (parameters: object = { selector: "#login-button", waitFor: "visible", button: "left", delay: 0 }) => ({
  id: "ba55c67a-9ad4-4b6f-a719-b84e774c2d11",
  schemaVersion: "2025-10",
  metadata: { name: "Playwright Smoke Check", tags: ["playwright", "smoke-test"], environment: "staging" },
  nodes: [
    {
      id: openPageId,
      type: "playwright.open_page",
      package: crawler,
      label: "Open Base Page",
      position: { x: 100, y: 160 },
      parameters: { url: "https://example.com", waitFor: "domcontentloaded", timeoutMs: 30_000 },
      results: { status: "PENDING", page: {}, done: false },
      ui: {
        inputPorts: [port("trigger", "parameters.trigger", "write")],
        widgets: [
          widget("url", "string", "parameters.url", "two_way", { required: true }),
          widget("pageContext", "json", "results.page", "read", { readOnly: true, collapsed: true }),
        ],
        outputPorts: [port("page", "results.page", "read"), port("done", "results.done", "read")],
      },
    },
    {
      id: clickButtonId,
      type: "playwright.click",
      package: crawler,
      label: "Click Login",
      position: { x: 360, y: 160 },
      parameters,
      results: { status: "PENDING", done: false, metadata: {} },
      schema: { parameters: clickParameters, results: clickResults },
      ui: {
        inputPorts: [port("trigger", "parameters.trigger", "write"), port("page", "parameters.page", "write")],
        widgets: [widget("resultMetadata", "json", "results.metadata", "read", { readOnly: true, collapsed: true })],
        outputPorts: [port("done", "results.done", "read")],
      },
    },
  ],
  edges: [
    {
      id: "d2e8b74f-2a31-4f9f-a8c4-2a88dcb3f7b0",
      source: { node: openPageId, port: "done" },
      target: { node: clickButtonId, port: "trigger" },
    },
    {
      id: "a36f5d7c-4c4d-4c46-9a8f-21d612f0b143",
      source: { node: openPageId, port: "page" },
      target: { node: clickButtonId, port: "page" },
    },
  ],
  runtimes: { playwright: { workerHints: { package: "crawlerx_playwright", minVersion: "2025.10.0" } } },
  tags: ["web", "smoke"],
});

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});

async function openFixture() {
  const harness = await new EngineHarness().start();
  cleanups.push(() => harness.engine.stop());
  const engineClient = createHarnessLink(harness);
  const authenticate = createTokenAuthenticator([{ token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view"] }]);
  const bench = openWorkflowFixture({ engineClient, reader: harness.store, authenticate });
  const start = async (workflow: object) => {
    const response = await bench.callRoute("startRun", { body: { workflow, clientId: "c" } });
    await harness.settle();
    return response;
  };
  const join = (version = crawler.version) =>
    harness.joinWorker("browser", { packages: [{ ...crawler, version, status: "installed" }], runtimes: ["playwright"] });
  return { world: harness, bench, start, join };
}

describe("the sample workflow", () => {
  it("[E108] the sample workflow runs as written: each node by its type, parameters unchanged, the page passed along its edge", async () => {
    const { world: harness, bench, start, join } = await openFixture();
    const worker = await join();
    const { body, status } = await start(sample());
    expect(status).toBe(202);

    expect(worker.lastDispatch).toMatchObject({
      nodeType: "playwright.open_page",
      packageName: crawler.name,
      packageVersion: crawler.version,
    });
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({
      url: "https://example.com",
      waitFor: "domcontentloaded",
      timeoutMs: 30_000,
    });
    await worker.succeed({ status: "SUCCEEDED", page: { handle: 7 }, done: true });
    await harness.settle();
    expect(worker.lastDispatch.nodeType).toBe("playwright.click");
    expect(JSON.parse(worker.lastDispatch.params)).toEqual({
      selector: "#login-button",
      waitFor: "visible",
      button: "left",
      delay: 0,
      trigger: true,
      page: { handle: 7 },
    });
    await worker.succeed({ status: "SUCCEEDED", done: true, metadata: { clicks: 1 } });

    const run = (await bench.callRoute("getRun", { params: { runId: body.runId } })).body;
    expect(run).toMatchObject({ status: "succeeded", name: "Playwright Smoke Check" });
    expect(run.nodes[1].result).toEqual({ status: "SUCCEEDED", done: true, metadata: { clicks: 1 } });
    const definition = (await bench.callRoute("getRunDefinition", { params: { runId: body.runId } })).body;
    expect(definition.nodes[1]).toMatchObject({ parameters: sample().nodes[1]?.parameters, state: { stage: "succeeded" } });
  });

  it("[E108] a worker with a newer package version takes the sample workflow, since the hint names only the minimum version", async () => {
    const { start, join } = await openFixture();
    const worker = await join("2025.11.3");
    await start(sample());

    expect(worker.lastDispatch).toMatchObject({ nodeType: "playwright.open_page", packageVersion: "2025.11.3" });
  });

  it("[E108] values that the sample workflow's schemas forbid are named by node and field: a button before the run, a status after it", async () => {
    const { world: harness, bench, start, join } = await openFixture();
    const worker = await join();
    const sideways = sample({ selector: "#x", button: "sideways" });
    const check = (await bench.callRoute("validateWorkflow", { body: sideways as never })).body;
    expect(check.isValid).toBe(true);
    expect(check.problems).toContainEqual(
      expect.objectContaining({ severity: "warning", node: clickButtonId, path: "/nodes/1/parameters/button" }),
    );

    const { body } = await start(sideways);
    await worker.succeed({ status: "SUCCEEDED", page: {}, done: true });
    await harness.settle();
    await worker.succeed({ status: "PERHAPS" });
    const run = (await bench.callRoute("getRun", { params: { runId: body.runId } })).body;
    expect(run.status).toBe("succeeded");
    expect(run.nodes[1].warnings).toMatchObject([
      { code: "E.PARAMS.INVALID", field: "/parameters/button" },
      { code: "E.RESULT.INVALID", field: "/results/status" },
    ]);
  });

  it("[E108] values that the sample workflow's schemas forbid are refused where it enforces them: a button before the run, a status after it", async () => {
    const { world: harness, bench, start, join } = await openFixture();
    const worker = await join();
    const strict = (parameters?: object) => ({ ...sample(parameters), schemaMode: "enforce" });
    const refused = await start(strict({ selector: "#x", button: "sideways" }));
    expect(refused).toMatchObject({ status: 400, body: { error: "E.WORKFLOW.INVALID", details: { node: clickButtonId } } });
    expect(refused.body.message).toContain("button");

    const { body } = await start(strict());
    await worker.succeed({ status: "SUCCEEDED", page: {}, done: true });
    await harness.settle();
    await worker.succeed({ status: "PERHAPS" });
    const run = (await bench.callRoute("getRun", { params: { runId: body.runId } })).body;
    expect(run).toMatchObject({ status: "failed", error: { code: "E.RESULT.INVALID", details: { node: clickButtonId } } });
    expect(run.error.message).toContain("status");
  });
});
