import { describe, expect, it } from "vitest";
import { change } from "../../fixtures/change.ts";
import byAdapter from "../../fixtures/manifest.by-adapter.json" with { type: "json" };
import byRuntime from "../../fixtures/manifest.by-runtime.json" with { type: "json" };
import nodeManifest from "../../fixtures/manifest.node.json" with { type: "json" };
import refused from "../../fixtures/refused.json" with { type: "json" };
import { Fault } from "../faults/fault.ts";
import { readManifest } from "./manifest.ts";

const fixtures: Record<string, unknown> = {
  "manifest.by-adapter.json": byAdapter,
  "manifest.by-runtime.json": byRuntime,
  "manifest.node.json": nodeManifest,
};

describe("manifest", () => {
  it("[C10] a manifest in the older form binds each node by its runtime", () => {
    expect(readManifest(byRuntime)).toMatchObject({
      name: "documents",
      nodes: [
        {
          type: "documents.fetch",
          role: "node",
          adapter: "documents",
          handler: "fetch",
          config: { strategy: "default" },
          conditions: {},
        },
      ],
      hooks: { install: ["scripts/prepare.sh"] },
      requirements: { resources: [] },
    });
  });

  it("[C10] a manifest in the newer form keeps adapter, handler and config, and gets the defaults", () => {
    expect(readManifest(byAdapter)).toMatchObject({
      nodes: [
        { adapter: "tools", handler: "upper", config: { exec_mode: "inline" }, role: "node" },
        { adapter: "tools", handler: "loop", config: {}, role: "middleware", schema: {} },
      ],
      requirements: {
        resources: [
          { key: "api_key", required: false },
          { key: "list", actions: ["read"], required: true },
        ],
      },
    });
  });

  it("[C10] a manifest may be for Node instead of Python", () => {
    expect(readManifest(nodeManifest)).toMatchObject({
      node: { requires: ">=22", lockfile: "package-lock.json" },
      hooks: { install: [] },
    });
    expect(readManifest({ ...nodeManifest, python: { requires: ">=3.10" } })).not.toBeInstanceOf(Fault);
  });

  it("[C10] a manifest keeps every field that was written, and loses unknown ones", () => {
    const { nodes, ...rest } = byRuntime;
    const read = readManifest({ ...byRuntime, more: 1 });

    expect(read).toMatchObject(rest);
    expect(read).toMatchObject({ nodes: [{ ui: nodes[0]?.ui, schema: nodes[0]?.schema, runtimes: nodes[0]?.runtimes }] });
    expect(read).not.toHaveProperty("more");
  });

  it.each(refused.manifest)("[C10] a manifest is refused with $why", ({ of, at, put, path }) => {
    expect(readManifest(change(fixtures[of], at, put))).toMatchObject({ code: "E.MANIFEST.INVALID", details: { path } });
  });
});
