// Everything that is wrong with a package's manifest, for its author: where, what is expected, and how it may look.

import { type Fault, fault, findManifestFaults, isRecord } from "@astraflow/protocol";

/** A small manifest that is right; its parts are the examples. */
export const exampleManifest = {
  schemaVersion: "1.0.0",
  name: "acme.tools",
  version: "1.0.0",
  description: "Tools of Acme",
  adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["acme.greet"] }],
  node: { requires: ">=22" },
  nodes: [
    {
      type: "acme.greet",
      status: "published",
      category: "Text",
      label: "Greet",
      adapter: "main",
      handler: "greet",
      schema: { parameters: { type: "object" }, results: { type: "object" } },
    },
  ],
};

const problemsMax = 20;

export function findManifestProblems(manifest: unknown): Fault[] {
  return findManifestFaults(manifest, problemsMax).map(({ code, message, details }) => {
    const example = findMissing(message) ?? findExample(String(details?.["path"] ?? ""));
    if (example === undefined) return fault(code, message);
    return fault(code, `${message}${message.endsWith("?") ? " For" : ", for"} example ${JSON.stringify(example)}`);
  });
}

/** The fields that a message says are missing, where the manifest itself lacks them: the whole example would bury them. */
function findMissing(message: string): Record<string, unknown> | undefined {
  const names = /^manifest must have ([\w, ]+)(?:;|$)/.exec(message)?.[1]?.split(", ") ?? [];
  const found = Object.entries(exampleManifest).filter(([name]) => names.includes(name));
  return found.length > 0 && found.length === names.length ? Object.fromEntries(found) : undefined;
}

function findExample(at: string): unknown {
  const [, ...keys] = at.split(".");
  let value: unknown = exampleManifest;
  for (const key of keys) {
    if (Array.isArray(value)) value = value[0];
    else value = isRecord(value) ? value[key] : undefined;
  }
  return value;
}
