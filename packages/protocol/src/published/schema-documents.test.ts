import { readFileSync } from "node:fs";
import Schema from "typebox/schema";
import { describe, expect, it } from "vitest";
import { change } from "../../fixtures/change.ts";
import byAdapter from "../../fixtures/manifest.by-adapter.json" with { type: "json" };
import byRuntime from "../../fixtures/manifest.by-runtime.json" with { type: "json" };
import nodeManifest from "../../fixtures/manifest.node.json" with { type: "json" };
import payloads from "../../fixtures/payloads.json" with { type: "json" };
import full from "../../fixtures/workflow.full.json" with { type: "json" };
import sample from "../../fixtures/workflow.sample.json" with { type: "json" };
import { buildSchemaDocuments } from "./schema-documents.ts";

type Plain = Record<string, unknown>;

describe("published schemas", () => {
  const documents = buildSchemaDocuments();
  const control = [
    "handshake",
    "register",
    "session.accept",
    "session.resume",
    "session.reset",
    "session.drain",
    "ack",
    "heartbeat",
  ];

  it("[C12] the published schemas have the names that the specification gives them", () => {
    const v1 = "envelope handshake register ack heartbeat cmd.dispatch feedback result error pkg.install pkg.uninstall pkg.event";
    const wanted = [
      ...v1.split(" ").map((name) => `ws/ws.${name}.schema.json`),
      ...["session", "session-first-generation"].flatMap((folder) =>
        ["ws.envelope", ...control].map((name) => `${folder}/${name}.schema.json`),
      ),
      "manifest.json",
      "workflow.json",
      "biz/exec.dispatch.schema.json",
      "biz/exec.cancel.schema.json",
    ];

    expect(wanted.filter((path) => !(path in documents))).toEqual([]);
  });

  it("[C12] the published schemas in the repository are those that the sources generate", () => {
    const kept = Object.fromEntries(
      Object.keys(documents).map((path) => [
        path,
        JSON.parse(readFileSync(new URL(`../../../../docs/schema/${path}`, import.meta.url), "utf8")) as unknown,
      ]),
    );

    expect(kept).toEqual(documents);
  });

  it("[C12] the published schemas, compiled as plain JSON Schema, accept the same samples as the readers", () => {
    const checks: [string, unknown][] = [
      ["manifest.json", byAdapter],
      ["manifest.json", byRuntime],
      ["manifest.json", nodeManifest],
      ["workflow.json", sample],
      ["workflow.json", full],
      ...Object.entries(payloads.v2)
        .filter(([type]) => type.startsWith("biz."))
        .map(([type, payload]): [string, unknown] => [`biz/${type.slice(4)}.schema.json`, payload]),
      ...Object.entries(payloads.v1)
        .filter(([type]) => type !== "command.error")
        .map(([type, payload]): [string, unknown] => [`ws/ws.${type}.schema.json`, payload]),
    ];

    expect(checks.filter(([path, value]) => !Schema.Compile(documents[path] as Plain).Check(value))).toEqual([]);
    expect(
      Schema.Compile(documents["workflow.json"] as Plain).Check(change(full, "subgraphs.0.definition.nodes.0.id", "x")),
    ).toBe(false);
  });

  it("[C12] the published first-generation schemas set additionalProperties on every object that has named fields", () => {
    const open: string[] = [];
    const walk = (node: unknown, at: string): void => {
      if (typeof node !== "object" || node === null) return;
      if ("properties" in node && !("additionalProperties" in node)) open.push(at);
      for (const [key, child] of Object.entries(node)) walk(child, `${at}/${key}`);
    };
    for (const [path, schema] of Object.entries(documents)) if (path.startsWith("session-first")) walk(schema, path);

    expect(open).toEqual([]);
  });
});
