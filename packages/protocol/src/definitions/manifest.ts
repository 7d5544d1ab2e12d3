// The package manifest: the older form (nodes bound by runtime), the newer one (by adapter and handler), and the normalised one.

import type { Static } from "typebox";
import { Fault, fault } from "../faults/fault.ts";
import type { JsonObject } from "../json/json-value.ts";
import * as t from "../schema/field-types.ts";
import { createSchemaReader } from "../schema/schema-reader.ts";
import type { SchemaNode } from "../schema/schema-violations.ts";
import { findUnknownFields, type UnknownField } from "../schema/unknown-fields.ts";
import { describeMisspelling } from "../text/closest-match.ts";
import { NodeSchemasSchema, NodeUiSchema, nodeRoles, nodeStatuses, schemaModes } from "./node-ui.ts";

const packagePath = (description: string) =>
  t.string({ minLength: 1, maxLength: 1_024, pattern: "^[^\\u0000-\\u001f\\\\]+$", description });
const sha256 = () => t.string({ maxLength: 128 });
const handlerName = () => t.string({ pattern: "^[A-Za-z_$][A-Za-z0-9_$]*$", maxLength: 256 });

const AdapterSchema = t.object({
  name: t.string({ pattern: "^[A-Za-z0-9_.-]+$", maxLength: 256 }),
  runtime: t.optional(t.name("Older form: nodes refer to this name.")),
  entrypoint: t.string({
    pattern: "^[A-Za-z0-9_@.][A-Za-z0-9_@./-]*(?::[A-Za-z_$][A-Za-z0-9_.$]*)?$",
    maxLength: 1_024,
    description: "module:attribute (Python) or a file inside the package, optionally :export (Node).",
  }),
  capabilities: t.array(t.name(), { minItems: 1, maxItems: 10_000 }),
  description: t.optional(t.text()),
  idempotency: t.optional(t.name()),
  metadata: t.optional(t.openObject()),
});

const ManifestNodeSchema = t.object({
  type: t.string({ pattern: "^[A-Za-z0-9_.-]+$", maxLength: 256 }),
  role: t.optional(t.oneOf(nodeRoles)),
  status: t.oneOf(nodeStatuses),
  category: t.name(),
  label: t.name(),
  description: t.optional(t.text()),
  tags: t.optional(t.list(t.name(), 1_000)),
  adapter: t.optional(t.string({ pattern: "^[A-Za-z0-9_.-]+$", maxLength: 256 })),
  handler: t.optional(handlerName()),
  config: t.optional(t.openObject()),
  runtimes: t.optional(t.map(t.object({ config: t.optional(t.openObject()), handler: handlerName() }))),
  schema: t.union([NodeSchemasSchema, t.boolean()]),
  schemaMode: t.optional(t.oneOf(schemaModes, "For this node type; absent: that of the package.")),
  ui: t.optional(NodeUiSchema),
  conditions: t.optional(t.openObject()),
  extensions: t.optional(t.openObject()),
  metadata: t.optional(t.openObject()),
});

const RequirementSchema = t.object({
  key: t.id(),
  type: t.name(),
  actions: t.optional(t.list(t.name(), 64)),
  required: t.optional(t.boolean()),
  description: t.optional(t.text()),
  metadata: t.optional(t.openObject()),
});

export const ManifestSchema = t.object({
  schemaVersion: t.string({ pattern: "^[0-9]+\\.[0-9]+\\.[0-9]+$", maxLength: 64 }),
  name: t.string({ pattern: "^[a-z0-9]+([._-][a-z0-9]+)*$", maxLength: 128 }),
  version: t.string({ pattern: "^[0-9]+\\.[0-9]+\\.[0-9]+(?:[-+][0-9A-Za-z.-]+)?$", maxLength: 64 }),
  description: t.text(),
  adapters: t.array(AdapterSchema, { minItems: 1, maxItems: 1_000 }),
  python: t.optionalObject({ requires: t.name(), dependencies: t.optional(t.list(t.name(), 1_000)) }),
  node: t.optionalObject({
    requires: t.name("Range of Node versions."),
    lockfile: t.optional(packagePath("Lock file inside the package.")),
  }),
  schemaMode: t.optional(t.oneOf(schemaModes, "Whether values that do not match a schema are a warning, or fail the task.")),
  nodes: t.array(ManifestNodeSchema, { minItems: 1, maxItems: 1_000 }),
  requirements: t.optionalObject({ resources: t.optional(t.list(RequirementSchema, 1_000)) }),
  resources: t.optional(
    t.list(
      t.object({
        path: packagePath("Inside the package."),
        type: t.name(),
        sha256: t.optional(sha256()),
        url: t.optional(
          t.string({
            format: "uri",
            maxLength: 4_096,
            description: "Absent: the repository has it under the package and version.",
          }),
        ),
      }),
      1_000,
    ),
  ),
  hooks: t.optionalObject({
    install: t.optional(t.list(packagePath("Script inside the package."), 64)),
    uninstall: t.optional(t.list(packagePath("Script inside the package."), 64)),
  }),
  signature: t.optionalObject({ sha256: t.optional(sha256()), signedAt: t.optional(t.name()), signedBy: t.optional(t.name()) }),
});
type AuthoredManifest = Static<typeof ManifestSchema>;
type AuthoredManifestNode = AuthoredManifest["nodes"][number];

/** A normalised node type: always bound to an adapter and a handler. */
export type ManifestNode = Omit<AuthoredManifestNode, "adapter" | "handler" | "config" | "role" | "schema"> & {
  role: (typeof nodeRoles)[number];
  adapter: string;
  handler: string;
  config: JsonObject;
  schema: Static<typeof NodeSchemasSchema>;
};

/** A manifest after reading: lists are never absent, every node names its adapter. */
export interface Manifest extends Omit<AuthoredManifest, "nodes" | "requirements" | "resources" | "hooks"> {
  nodes: ManifestNode[];
  requirements: { resources: (Static<typeof RequirementSchema> & { actions: string[]; required: boolean })[] };
  resources: NonNullable<AuthoredManifest["resources"]>;
  hooks: { install: string[]; uninstall: string[] };
}

const manifestReader = createSchemaReader(ManifestSchema, {
  code: "E.MANIFEST.INVALID",
  subject: "manifest",
  unknownKeys: "drop",
});

/** A manifest in either form, normalised; or a fault that names the field. */
export function readManifest(value: unknown): Manifest | Fault {
  const authored = manifestReader.read(value);
  if (authored instanceof Fault) return authored;
  for (const problem of findContradictions(authored)) return problem;
  const nodes: ManifestNode[] = [];
  for (const [index, node] of authored.nodes.entries()) {
    const resolved = resolveNodeHandler(node, authored, `manifest.nodes.${index}`, writtenNode(value, index));
    if (resolved instanceof Fault) return resolved;
    nodes.push(resolved);
  }
  return {
    ...authored,
    nodes,
    requirements: {
      resources: (authored.requirements?.resources ?? []).map((requirement) => ({
        ...requirement,
        actions: requirement.actions ?? ["read"],
        required: requirement.required ?? true,
      })),
    },
    resources: authored.resources ?? [],
    hooks: { install: authored.hooks?.install ?? [], uninstall: authored.hooks?.uninstall ?? [] },
  };
}

/** Fields of a manifest that nothing reads, up to `max`. */
export function findUnknownManifestFields(value: unknown, max: number): UnknownField[] {
  const found: UnknownField[] = [];
  for (const field of findUnknownFields(ManifestSchema as unknown as SchemaNode, value)) if (found.push(field) >= max) break;
  return found;
}

const manifestFault = (at: string, expected: string) => fault("E.MANIFEST.INVALID", `${at} ${expected}`, { path: at, expected });

/** Everything that is wrong with a manifest, up to `max`: fields first; what depends on several of them only once each is right. */
export function findManifestFaults(value: unknown, max: number): Fault[] {
  const faults = manifestReader.findFaults(value, max);
  if (faults.length > 0) return faults;
  const authored = manifestReader.read(value) as AuthoredManifest;
  const unresolved = authored.nodes.flatMap((node, index) => {
    const resolved = resolveNodeHandler(node, authored, `manifest.nodes.${index}`, writtenNode(value, index));
    return resolved instanceof Fault ? [resolved] : [];
  });
  return [...findContradictions(authored), ...unresolved].slice(0, max);
}

function* findContradictions(manifest: AuthoredManifest): Generator<Fault> {
  if (!manifest.python && !manifest.node) yield manifestFault("manifest", "must have python, node or both");
  const repeatedAdapter = findDuplicate(manifest.adapters.map((adapter) => adapter.name));
  if (repeatedAdapter) yield manifestFault("manifest.adapters", `must not repeat the name ${repeatedAdapter}`);
  const repeatedType = findDuplicate(manifest.nodes.map((node) => node.type));
  if (repeatedType) yield manifestFault("manifest.nodes", `must not repeat the type ${repeatedType}`);
  const paths = [
    ...manifest.adapters.map((adapter) => ["manifest.adapters", adapter.entrypoint]),
    ...(manifest.resources ?? []).map((resource) => ["manifest.resources", resource.path]),
    ...(manifest.hooks?.install ?? []).map((hook) => ["manifest.hooks.install", hook]),
    ...(manifest.hooks?.uninstall ?? []).map((hook) => ["manifest.hooks.uninstall", hook]),
    ...(manifest.node?.lockfile ? [["manifest.node.lockfile", manifest.node.lockfile]] : []),
  ] as [string, string][];
  for (const [at, file] of paths) if (isOutsidePackage(file)) yield manifestFault(at, "must stay inside the package");
}

function findDuplicate(names: readonly string[]): string | undefined {
  return names.find((name, index) => names.indexOf(name) !== index);
}

function isOutsidePackage(file: string): boolean {
  return file.startsWith("/") || /^[A-Za-z]:[\\/]/.test(file) || file.split("/").includes("..");
}

const writtenNode = (manifest: unknown, index: number): object => (manifest as { nodes: object[] }).nodes[index] ?? {};

/** Finds the adapter and handler of a node, in either form of manifest. */
function resolveNodeHandler(
  node: AuthoredManifestNode,
  manifest: AuthoredManifest,
  at: string,
  /** The node with the fields that the reader has left out. */
  written: object,
): ManifestNode | Fault {
  const { adapter, handler, config, role, schema, ...rest } = node;
  const resolved = { ...rest, role: role ?? "node", schema: typeof schema === "boolean" ? {} : schema } as const;
  if (adapter !== undefined && handler !== undefined) {
    if (!manifest.adapters.some((candidate) => candidate.name === adapter))
      return manifestFault(`${at}.adapter`, `must name one of the adapters`);
    return { ...resolved, adapter, handler, config: config ?? {} };
  }
  // With several runtimes the first adapter, in the order of the manifest, that serves one of them is the default.
  for (const candidate of manifest.adapters) {
    const runtime = node.runtimes?.[candidate.runtime ?? candidate.name];
    if (runtime) return { ...resolved, adapter: candidate.name, handler: runtime.handler, config: runtime.config ?? {} };
  }
  const missing = adapter === undefined ? (handler === undefined ? null : "adapter") : "handler";
  const rule = "must have adapter and handler, or a runtime that one of the adapters serves";
  if (missing === null) return manifestFault(at, rule);
  const other = missing === "adapter" ? "handler" : "adapter";
  const misspelling = describeMisspelling([missing], written, (field) => Object.hasOwn(node, field));
  return manifestFault(at, `must have ${missing} beside ${other}${misspelling}`);
}
