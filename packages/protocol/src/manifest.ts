// The package manifest, in the two forms in which packages exist, and the one normalised form everybody else sees.
// The older form binds a node to code by runtime, the newer one by adapter and handler. Signatures are checked where bytes are.

import Type, { type Static } from "typebox";
import { Fault, fault } from "./fault.ts";
import { NodeSchemasSchema, NodeUiSchema, nodeStatuses, roles } from "./node-face.ts";
import { shape } from "./shape.ts";
import { bag, id, type JsonObject, list, map, name, oneOf, optional, text } from "./words.ts";

const path = (description: string) =>
  Type.String({ minLength: 1, maxLength: 1_024, pattern: "^[^\\u0000-\\u001f\\\\]+$", description });
const sha256 = () => Type.String({ maxLength: 128 });
const handler = () => Type.String({ pattern: "^[A-Za-z_$][A-Za-z0-9_$]*$", maxLength: 256 });

const AdapterSchema = Type.Object({
  name: Type.String({ pattern: "^[A-Za-z0-9_.-]+$", maxLength: 256 }),
  runtime: optional(name("Older form: nodes refer to this word.")),
  entrypoint: Type.String({
    pattern: "^[A-Za-z0-9_@.][A-Za-z0-9_@./-]*(?::[A-Za-z_$][A-Za-z0-9_.$]*)?$",
    maxLength: 1_024,
    description: "module:attribute (Python) or a file inside the package, optionally :export (Node).",
  }),
  capabilities: Type.Array(name(), { minItems: 1, maxItems: 10_000 }),
  description: optional(text()),
  idempotency: optional(name()),
  metadata: optional(bag()),
});

const ManifestNodeSchema = Type.Object({
  type: Type.String({ pattern: "^[A-Za-z0-9_.-]+$", maxLength: 256 }),
  role: optional(oneOf(roles)),
  status: oneOf(nodeStatuses),
  category: name(),
  label: name(),
  description: optional(text()),
  tags: optional(list(name(), 1_000)),
  adapter: optional(Type.String({ pattern: "^[A-Za-z0-9_.-]+$", maxLength: 256 })),
  handler: optional(handler()),
  config: optional(bag()),
  runtimes: optional(map(Type.Object({ config: optional(bag()), handler: handler() }))),
  schema: Type.Union([NodeSchemasSchema, Type.Boolean()]),
  ui: optional(NodeUiSchema),
  conditions: optional(bag()),
  extensions: optional(bag()),
  metadata: optional(bag()),
});

const RequirementSchema = Type.Object({
  key: id(),
  type: name(),
  actions: optional(list(name(), 64)),
  required: optional(Type.Boolean()),
  description: optional(text()),
  metadata: optional(bag()),
});

export const ManifestSchema = Type.Object({
  schemaVersion: Type.String({ pattern: "^[0-9]+\\.[0-9]+\\.[0-9]+$", maxLength: 64 }),
  name: Type.String({ pattern: "^[a-z0-9]+([._-][a-z0-9]+)*$", maxLength: 128 }),
  version: Type.String({ pattern: "^[0-9]+\\.[0-9]+\\.[0-9]+(?:[-+][0-9A-Za-z.-]+)?$", maxLength: 64 }),
  description: text(),
  adapters: Type.Array(AdapterSchema, { minItems: 1, maxItems: 1_000 }),
  python: optional(Type.Object({ requires: name(), dependencies: optional(list(name(), 1_000)) })),
  node: optional(
    Type.Object({ requires: name("Range of Node versions."), lockfile: optional(path("Lock file inside the package.")) }),
  ),
  nodes: Type.Array(ManifestNodeSchema, { minItems: 1, maxItems: 1_000 }),
  requirements: optional(Type.Object({ resources: optional(list(RequirementSchema, 1_000)) })),
  resources: optional(list(Type.Object({ path: path("Inside the package."), type: name(), sha256: optional(sha256()) }), 1_000)),
  hooks: optional(
    Type.Object({
      install: optional(list(path("Script inside the package."), 64)),
      uninstall: optional(list(path("Script inside the package."), 64)),
    }),
  ),
  signature: optional(Type.Object({ sha256: optional(sha256()), signedAt: optional(name()), signedBy: optional(name()) })),
});
type Written = Static<typeof ManifestSchema>;
type WrittenNode = Written["nodes"][number];

/** A node type as the rest of the house sees it: always bound to an adapter and a handler. */
export type ManifestNode = Omit<WrittenNode, "adapter" | "handler" | "config" | "role" | "schema"> & {
  role: (typeof roles)[number];
  adapter: string;
  handler: string;
  config: JsonObject;
  schema: Static<typeof NodeSchemasSchema>;
};

/** A manifest after reading: lists are never absent, every node names its adapter. */
export interface Manifest extends Omit<Written, "nodes" | "requirements" | "resources" | "hooks"> {
  nodes: ManifestNode[];
  requirements: { resources: (Static<typeof RequirementSchema> & { actions: string[]; required: boolean })[] };
  resources: NonNullable<Written["resources"]>;
  hooks: { install: string[]; uninstall: string[] };
}

const manifestShape = shape(ManifestSchema, { code: "E.MANIFEST.INVALID", what: "manifest", unknown: "drop" });

/** A manifest in either form, normalised; or a fault that names the field. */
export function readManifest(value: unknown): Manifest | Fault {
  const written = manifestShape.read(value);
  if (written instanceof Fault) return written;
  const problem = firstProblem(written);
  if (problem) return problem;
  const nodes: ManifestNode[] = [];
  for (const [index, node] of written.nodes.entries()) {
    const bound = bindNode(node, written, `manifest.nodes.${index}`);
    if (bound instanceof Fault) return bound;
    nodes.push(bound);
  }
  return {
    ...written,
    nodes,
    requirements: {
      resources: (written.requirements?.resources ?? []).map((need) => ({
        ...need,
        actions: need.actions ?? ["read"],
        required: need.required ?? true,
      })),
    },
    resources: written.resources ?? [],
    hooks: { install: written.hooks?.install ?? [], uninstall: written.hooks?.uninstall ?? [] },
  };
}

const wrong = (at: string, expected: string) => fault("E.MANIFEST.INVALID", `${at} ${expected}`, { path: at, expected });

function firstProblem(manifest: Written): Fault | undefined {
  if (!manifest.python && !manifest.node) return wrong("manifest", "must have python, node or both");
  const repeatedAdapter = repeated(manifest.adapters.map((adapter) => adapter.name));
  if (repeatedAdapter) return wrong("manifest.adapters", `must not repeat the name ${repeatedAdapter}`);
  const repeatedType = repeated(manifest.nodes.map((node) => node.type));
  if (repeatedType) return wrong("manifest.nodes", `must not repeat the type ${repeatedType}`);
  const paths = [
    ...manifest.adapters.map((adapter) => ["manifest.adapters", adapter.entrypoint]),
    ...(manifest.resources ?? []).map((resource) => ["manifest.resources", resource.path]),
    ...(manifest.hooks?.install ?? []).map((hook) => ["manifest.hooks.install", hook]),
    ...(manifest.hooks?.uninstall ?? []).map((hook) => ["manifest.hooks.uninstall", hook]),
    ...(manifest.node?.lockfile ? [["manifest.node.lockfile", manifest.node.lockfile]] : []),
  ] as [string, string][];
  const escaping = paths.find(([, file]) => leavesPackage(file));
  return escaping && wrong(escaping[0], "must stay inside the package");
}

function repeated(words: readonly string[]): string | undefined {
  return words.find((word, index) => words.indexOf(word) !== index);
}

/** A path that would name something outside the package's own directory. */
function leavesPackage(file: string): boolean {
  return file.startsWith("/") || /^[A-Za-z]:[\\/]/.test(file) || file.split("/").includes("..");
}

/** Finds the adapter and handler of a node, in whichever form the manifest says it. */
function bindNode(node: WrittenNode, manifest: Written, at: string): ManifestNode | Fault {
  const { adapter, handler, config, role, schema, ...rest } = node;
  const bound = {
    ...rest,
    role: role ?? "node",
    schema: typeof schema === "boolean" ? {} : schema,
  } as const;
  if (adapter !== undefined && handler !== undefined) {
    if (!manifest.adapters.some((one) => one.name === adapter)) return wrong(`${at}.adapter`, `must name one of the adapters`);
    return { ...bound, adapter, handler, config: config ?? {} };
  }
  // With several runtimes the first adapter, in the order of the manifest, that serves one of them is the default.
  for (const one of manifest.adapters) {
    const runtime = node.runtimes?.[one.runtime ?? one.name];
    if (runtime) return { ...bound, adapter: one.name, handler: runtime.handler, config: runtime.config ?? {} };
  }
  return wrong(at, "must have adapter and handler, or a runtime that one of the adapters serves");
}
