// What the specification prints about packages, from the files that hold it.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject, Workflow } from "@astraflow/protocol";
import { repositoryRoot } from "./processes.ts";

export const readPrintedFile = (name: string): string =>
  readFileSync(join(repositoryRoot, "test/system/worker/printed", name), "utf8");

/** The printed manifest with its ellipses filled in: what stands for more is left out, what stands for a value gets one. */
export function readPrintedManifest(sha256 = "0".repeat(64)): JsonObject {
  const fill = (value: unknown, key = ""): unknown => {
    if (Array.isArray(value))
      return value.filter((one) => !(typeof one === "string" && one.startsWith("..."))).map((one) => fill(one));
    if (typeof value === "object" && value !== null)
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, fill(one, name)]));
    if (value !== "...") return value;
    return key === "sha256" ? sha256 : "filled in";
  };
  return fill(JSON.parse(readPrintedFile("manifest.jsonc"))) as JsonObject;
}

export function oneNode(type: string, packageOf: { name: string; version: string }, parameters: JsonObject = {}): Workflow {
  const ui = { inputPorts: [], outputPorts: [] };
  const node = { id: crypto.randomUUID(), type, label: type, package: packageOf, position: { x: 0, y: 0 }, parameters, ui };
  return { id: crypto.randomUUID(), schemaVersion: "2025-10", metadata: { name: type }, nodes: [node], edges: [] };
}
