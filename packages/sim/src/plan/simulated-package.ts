// The package that all simulated workers bring: its name, its node types and its manifest. Its handlers are in worker/simulated-handlers.ts.

import type { JsonObject } from "@astraflow/protocol";

export const simPackage = { name: "sim", version: "1.0.0" } as const;
export const nodeTypes = ["sim.step", "sim.heavy", "sim.light"] as const;
/** Middlewares have node types of their own, as the catalogue requires. */
export const middlewareTypeOf = (nodeType: string): string => `${nodeType}-around`;
export const withMiddlewareTypes = (types: readonly string[]): string[] => [...types, ...types.map(middlewareTypeOf)];

export function createManifest(types: readonly string[]): JsonObject {
  return {
    schemaVersion: "1.0.0",
    description: "Behaves as its node's script says.",
    ...simPackage,
    adapters: [{ name: "main", entrypoint: "main.ts:main", capabilities: withMiddlewareTypes(types) }],
    node: { requires: ">=22", lockfile: "package-lock.json" },
    nodes: withMiddlewareTypes(types).map((type) => ({
      type,
      ...(!types.includes(type) && { role: "middleware" }),
      status: "published",
      category: "sim",
      label: type,
      adapter: "main",
      handler: "play",
      schema: { parameters: { type: "object" }, results: { type: "object" } },
    })),
  };
}
