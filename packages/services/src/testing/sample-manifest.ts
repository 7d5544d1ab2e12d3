// A sample manifest of a small package, as a worker reports it.

import type { JsonObject } from "@astraflow/protocol";

/** Two node types, `<name>.echo` with typed ports and `<name>.each`, a middleware. */
export function sampleManifest(name: string, version: string): JsonObject {
  const binding = (path: string) => ({ path });
  return {
    schemaVersion: "1.0.0",
    name,
    version,
    description: `what ${name} does`,
    adapters: [{ name: "main", entrypoint: "main.js", capabilities: [`${name}.echo`, `${name}.each`] }],
    node: { requires: ">=24" },
    nodes: [
      {
        type: `${name}.echo`,
        status: "published",
        category: "Texts",
        label: "Echo a text",
        description: "Says it again",
        tags: ["voice"],
        adapter: "main",
        handler: "echo",
        schema: {
          parameters: {
            type: "object",
            required: ["text"],
            properties: {
              text: { type: "string" },
              times: { type: ["integer", "null"], default: 1 },
              mode: { enum: ["loud", "soft"] },
              deep: { type: "object", properties: { list: { type: "array", items: { type: "number" } } } },
            },
          },
          results: { type: "object", properties: { said: { anyOf: [{ type: "string" }, { type: "null" }] } } },
        },
        ui: {
          inputPorts: [
            { key: "text", label: "Text", binding: binding("parameters.text") },
            { key: "times", label: "Times", binding: binding("/parameters/times") },
            { key: "mode", label: "Mode", binding: binding("parameters.mode") },
            { key: "first", label: "First", binding: binding("parameters.deep.list.0") },
            { key: "far", label: "Far", binding: { path: "parameters.text", prefix: "#other" } },
            { key: "unknown", label: "Unknown", binding: binding("parameters.nowhere") },
          ],
          outputPorts: [{ key: "said", label: "Said", binding: binding("results.said") }],
        },
      },
      {
        type: `${name}.each`,
        role: "middleware",
        status: "draft",
        category: "Flow",
        label: "Each",
        adapter: "main",
        handler: "each",
        schema: true,
      },
    ],
  };
}
