// The package that all simulated workers bring: its name, its node types, its manifest and the values its nodes return. Its handlers are in
// worker/simulated-handlers.ts.

import type { JsonObject } from "@astraflow/protocol";

export const simPackage = { name: "sim", version: "1.0.0" } as const;
export const nodeTypes = ["sim.step", "sim.heavy", "sim.light"] as const;
/** Declared as not to be repeated silently: an attempt that may have begun is followed by another one only where the node's policy allows it. */
export const unrepeatableType = "sim.heavy";
/** As a workflow names it, whether or not a worker has sent the manifest yet. */
export const packageOf = (type: string) => (type === unrepeatableType ? { ...simPackage, idempotency: "none" } : simPackage);
/** Middlewares have node types of their own, as the catalogue requires. */
export const middlewareTypeOf = (nodeType: string): string => `${nodeType}-around`;
export const withMiddlewareTypes = (types: readonly string[]): string[] => [...types, ...types.map(middlewareTypeOf)];

export function createManifest(types: readonly string[]): JsonObject {
  return {
    schemaVersion: "1.0.0",
    description: "Behaves as its node's script says.",
    ...simPackage,
    adapters: [
      { name: "main", entrypoint: "main.ts:main", capabilities: withMiddlewareTypes(types) },
      { name: "unrepeatable", entrypoint: "main.ts:main", capabilities: [unrepeatableType], idempotency: "none" },
    ],
    node: { requires: ">=22", lockfile: "package-lock.json" },
    nodes: withMiddlewareTypes(types).map((type) => ({
      type,
      ...(!types.includes(type) && { role: "middleware" }),
      status: "published",
      category: "sim",
      label: type,
      adapter: type === unrepeatableType ? "unrepeatable" : "main",
      handler: "play",
      schema: { parameters: { type: "object" }, results: { type: "object" } },
    })),
  };
}

/** Parameters that say how a handler behaves, where something lies, or who called: no input of the value. */
const isInputParameter = (name: string): boolean => name !== "sim" && name !== "kept" && !name.startsWith("__");

/** A short text that depends on all parameters of a node and on nothing else, so that the workflow alone determines what every node must return. */
export function expectedNodeValue(name: string, params: Readonly<Record<string, unknown>>): string {
  const inputs = Object.keys(params)
    .filter(isInputParameter)
    .sort()
    .map((key) => [key, params[key]]);
  return `${name}:${hashText(JSON.stringify(inputs))}`;
}

/** FNV-1a in 32 bits: enough to tell values apart, and short. */
function hashText(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(36);
}
