// The manifest that the specification shows, read as a package's and used as a catalogue's: what people see of its node, what its schemas
// fill in and what they refuse.

import { findSchemaProblem, withDefaults } from "@astraflow/graph";
import { Fault, readManifest } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";

const portBinding = (path: string, mode: string) => ({ path, mode });

const parameters = {
  type: "object",
  properties: {
    url: { type: "string", format: "uri", description: "Page URL opened by the node.", default: "https://example.com" },
    waitFor: { type: "string", enum: ["domcontentloaded", "load", "networkidle"], default: "domcontentloaded" },
    timeoutMs: { type: "integer", minimum: 0, maximum: 120_000, default: 30_000 },
  },
  required: ["url"],
};

const results = {
  type: "object",
  properties: {
    status: { type: "string", enum: ["PENDING", "RUNNING", "SUCCEEDED", "FAILED"], default: "PENDING" },
    page: { type: "object", default: {} },
    done: { type: "boolean", default: false },
  },
  required: ["status"],
  additionalProperties: true,
};

const openPage = {
  type: "playwright.open_page",
  status: "published",
  category: "Page Actions",
  label: "Open Page",
  description: "Navigate to a specific URL with configurable wait conditions.",
  tags: ["playwright", "navigation"],
  runtimes: { playwright: { config: { navigationStrategy: "default" }, handler: "open_page" } },
  schema: { parameters, results },
  ui: {
    inputPorts: [{ key: "trigger", label: "Trigger", binding: portBinding("parameters.trigger", "write") }],
    widgets: [
      { key: "url", label: "Target URL", component: "string", binding: portBinding("parameters.url", "two_way"), options: {} },
      { key: "page", label: "Page Context", component: "json", binding: portBinding("results.page", "read"), options: {} },
    ],
    outputPorts: [{ key: "done", label: "Done", binding: portBinding("results.done", "read") }],
  },
  conditions: {},
  extensions: { "acme.palette": { pinned: true } },
  metadata: {},
};

const sample = {
  name: "web-automation",
  version: "2025.10.0",
  schemaVersion: "1.0.0",
  description: "Pages",
  adapters: [
    {
      name: "playwright",
      runtime: "playwright",
      entrypoint: "playwright.adapter:PlaywrightAdapter",
      capabilities: ["playwright.open_page"],
    },
  ],
  python: { requires: ">=3.10,<3.12", dependencies: ["playwright==1.47.2"] },
  nodes: [openPage],
};

function nodeOf(manifest: object) {
  const read = readManifest(manifest);
  if (read instanceof Fault) throw read;
  const [node] = read.nodes;
  if (node === undefined) throw new Error("the manifest has no node");
  return node;
}

describe("the manifest of the specification", () => {
  it("[C10] the manifest reader keeps what users see of a node: status, category, label, description and tags", () => {
    const { status, category, label, description, tags } = openPage;

    expect(nodeOf(sample)).toMatchObject({ status, category, label, description, tags });
    for (const missing of ["status", "category", "label"]) {
      const { [missing as "status"]: _left, ...rest } = openPage;
      expect(readManifest({ ...sample, nodes: [rest] })).toMatchObject({ code: "E.MANIFEST.INVALID" });
    }
    expect(readManifest({ ...sample, nodes: [{ ...openPage, status: "retired" }] })).toMatchObject({
      code: "E.MANIFEST.INVALID",
      details: { path: "manifest.nodes.0.status" },
    });
  });

  it("[C10] the manifest reader keeps conditions, extensions and metadata unchanged, empty or not, and requires none of them", () => {
    const { conditions, extensions, metadata, ...bare } = openPage;

    expect(nodeOf(sample)).toMatchObject({ conditions, extensions, metadata });
    expect(nodeOf({ ...sample, nodes: [bare] }).type).toBe(openPage.type);
  });

  it("[C10] the manifest reader keeps whether a port or widget may write its bound value, read it, or both", () => {
    const { ui } = nodeOf(sample);
    const modes = [...(ui?.inputPorts ?? []), ...(ui?.widgets ?? []), ...(ui?.outputPorts ?? [])].map((one) => one.binding.mode);

    expect(modes).toEqual(["write", "two_way", "read", "read"]);
    const wrong = { ...openPage.ui, widgets: [{ ...openPage.ui.widgets[0], binding: portBinding("parameters.url", "both") }] };
    expect(readManifest({ ...sample, nodes: [{ ...openPage, ui: wrong }] })).toMatchObject({ code: "E.MANIFEST.INVALID" });
  });

  it("[G11] parameters and results of a manifest's node are filled with the defaults of its schemas", () => {
    const { schema } = nodeOf(sample);

    expect(withDefaults(schema.parameters, {})).toEqual({
      url: "https://example.com",
      waitFor: "domcontentloaded",
      timeoutMs: 30_000,
    });
    expect(withDefaults(schema.results, {})).toEqual({ status: "PENDING", page: {}, done: false });
  });

  it("[G12] parameters and results that the schemas of a manifest's node forbid are found", () => {
    const { schema } = nodeOf(sample);
    const url = "https://example.com";

    expect(findSchemaProblem(schema.parameters, { url, waitFor: "load", timeoutMs: 0 })).toBeNull();
    for (const wrong of [
      {},
      { url, waitFor: "idle" },
      { url, timeoutMs: 120_001 },
      { url, timeoutMs: -1 },
      { url, timeoutMs: 0.5 },
    ])
      expect(findSchemaProblem(schema.parameters, wrong)).not.toBeNull();
    for (const status of ["PENDING", "RUNNING", "SUCCEEDED", "FAILED"])
      expect(findSchemaProblem(schema.results, { status, page: {}, done: true, more: 1 })).toBeNull();
    for (const wrong of [{}, { status: "DONE" }, { status: "FAILED", page: "p" }, { status: "FAILED", done: "yes" }])
      expect(findSchemaProblem(schema.results, wrong)).not.toBeNull();
  });
});
