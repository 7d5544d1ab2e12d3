// The specification's sample: a page is opened, then clicked, wired by two edges. It is read, checked and run on the real engine as its
// author wrote it, by a worker that brings the package it names.

import { createTokenAuthenticator } from "@astraflow/doors";
import { openWorkflowFixture } from "@astraflow/doors/testing";
import { afterEach, describe, expect, it } from "vitest";
import { Harness } from "./harness.ts";
import { linkTo } from "./rest-link.ts";

const open = "2b2c3fcb-9c18-4ca2-9b5a-8ad4deb1f164";
const click = "8f5dea1f-6a13-4e43-843f-5361c40f8f5a";
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
      id: open,
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
      id: click,
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
      source: { node: open, port: "done" },
      target: { node: click, port: "trigger" },
    },
    { id: "a36f5d7c-4c4d-4c46-9a8f-21d612f0b143", source: { node: open, port: "page" }, target: { node: click, port: "page" } },
  ],
  runtimes: { playwright: { workerHints: { package: "crawlerx_playwright", minVersion: "2025.10.0" } } },
  tags: ["web", "smoke"],
});

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function scene() {
  const world = await new Harness().start();
  ends.push(() => world.engine.stop());
  const engineClient = linkTo(world);
  const authenticate = createTokenAuthenticator([{ token: "ann", tenant: "t1", user: "ann", grants: ["read", "edit", "view"] }]);
  const bench = openWorkflowFixture({ engineClient, reader: world.store, authenticate });
  const start = async (workflow: object) => {
    const told = await bench.callRoute("startRun", { body: { workflow, clientId: "c" } });
    await world.settle();
    return told;
  };
  const join = (version = crawler.version) =>
    world.join("browser", { packages: [{ ...crawler, version, status: "installed" }], runtimes: ["playwright"] });
  return { world, bench, start, join };
}

describe("the sample workflow", () => {
  it("[E108] runs as its author wrote it: each node by its type, parameters untouched, the page handed on along its edge", async () => {
    const { world, bench, start, join } = await scene();
    const worker = await join();
    const { body, status } = await start(sample());
    expect(status).toBe(202);

    expect(worker.last).toMatchObject({
      nodeType: "playwright.open_page",
      packageName: crawler.name,
      packageVersion: crawler.version,
    });
    expect(JSON.parse(worker.last.params)).toEqual({
      url: "https://example.com",
      waitFor: "domcontentloaded",
      timeoutMs: 30_000,
    });
    await worker.done({ status: "SUCCEEDED", page: { handle: 7 }, done: true });
    await world.settle();
    expect(worker.last.nodeType).toBe("playwright.click");
    expect(JSON.parse(worker.last.params)).toEqual({
      selector: "#login-button",
      waitFor: "visible",
      button: "left",
      delay: 0,
      trigger: true,
      page: { handle: 7 },
    });
    await worker.done({ status: "SUCCEEDED", done: true, metadata: { clicks: 1 } });

    const run = (await bench.callRoute("getRun", { params: { runId: body.runId } })).body;
    expect(run).toMatchObject({ status: "succeeded", name: "Playwright Smoke Check" });
    expect(run.nodes[1].result).toEqual({ status: "SUCCEEDED", done: true, metadata: { clicks: 1 } });
    const definition = (await bench.callRoute("getRunDefinition", { params: { runId: body.runId } })).body;
    expect(definition.nodes[1]).toMatchObject({ parameters: sample().nodes[1]?.parameters, state: { stage: "succeeded" } });
  });

  it("[E108] a worker with a newer version takes it, since the hint names the least one only", async () => {
    const { start, join } = await scene();
    const worker = await join("2025.11.3");
    await start(sample());

    expect(worker.last).toMatchObject({ nodeType: "playwright.open_page", packageVersion: "2025.11.3" });
  });

  it("[E108] what its schemas forbid is refused by node and field: a button before the run, a status after it", async () => {
    const { world, bench, start, join } = await scene();
    const worker = await join();
    const refused = await start(sample({ selector: "#x", button: "sideways" }));
    expect(refused).toMatchObject({ status: 400, body: { error: "E.WORKFLOW.INVALID", details: { node: click } } });
    expect(refused.body.message).toContain("button");

    const { body } = await start(sample());
    await worker.done({ status: "SUCCEEDED", page: {}, done: true });
    await world.settle();
    await worker.done({ status: "PERHAPS" });
    const run = (await bench.callRoute("getRun", { params: { runId: body.runId } })).body;
    expect(run).toMatchObject({ status: "failed", error: { code: "E.RESULT.INVALID", details: { node: click } } });
    expect(run.error.message).toContain("status");
  });
});
