// Packages and node types of the catalogue as the API shows them: pages of them, and a search for node types with their ports.

import { compareVersions, parseBindingPath } from "@astraflow/graph";
import {
  type CatalogNode,
  type CatalogPort,
  fault,
  type JsonValue,
  limits,
  type Manifest,
  type ManifestNode,
  type NodePort,
  omitUndefined,
  type PackageSummary,
} from "@astraflow/protocol";
import { notFound } from "../documents/documents.ts";
import { decodeCursor, encodeCursor, type OptionalTexts } from "../documents/page-cursors.ts";
import type { ManifestConflicts } from "../presentation/manifest-conflicts.ts";
import type { Catalogue, CatalogueCache, CataloguePackage } from "./catalogue.ts";

const catalogLimits = {
  /** A search without a limit answers all there is, up to so many node types: editors of the field know no pages. */
  nodesMax: 2_000,
  /** An answer ends behind the node type that crosses this. */
  charsMax: 8 * 1024 * 1024,
} as const;

export interface CataloguePage {
  readonly cursor: string | undefined;
  readonly limit: number;
}

export async function listPackages(catalogues: CatalogueCache, tenant: string, page: CataloguePage) {
  const catalogue = await catalogues.current(tenant);
  const { items, nextCursor } = pageAfterCursor(catalogue.packages, page, ({ name }) => name);
  return { items: items.map((one) => presentPackage(catalogue, one)), nextCursor, asOf: catalogue.asOf };
}

/** The manifest of one version, the newest by default. */
export async function getPackage(catalogues: CatalogueCache, tenant: string, name: string, wanted: string | undefined) {
  const catalogue = await catalogues.current(tenant);
  const known = catalogue.packages.find((one) => one.name === name);
  if (known === undefined) throw notFound("package", name);
  const version = wanted ?? known.versions[0] ?? "";
  const manifest = catalogue.manifest(name, version);
  const versions = known.versions.slice(0, 20).join(", ");
  if (manifest === null)
    throw fault("E.NOT_FOUND", `package ${name} has no version ${version.slice(0, 100)}; it has ${versions}`);
  const digests = catalogue.digests(name, version);
  const manifestConflict = (await catalogues.findConflicts(tenant)).get(`${name}/${version}`);
  const conflict = omitUndefined({ digest: digests[0], manifestConflict });
  return { name, version, manifest, ...conflict, availableVersions: known.versions, asOf: catalogue.asOf };
}

/** `q`: words that must all occur; `*` or nothing matches everything. */
export type NodeSearch = OptionalTexts<"q" | "packageName" | "cursor"> & { readonly limit?: number | undefined };

export async function searchNodes(catalogues: CatalogueCache, tenant: string, search: NodeSearch) {
  const { q = "", packageName, cursor, limit = catalogLimits.nodesMax } = search;
  const catalogue = await catalogues.current(tenant);
  const words = q.trim() === "*" ? [] : q.toLowerCase().split(/\s+/).filter(Boolean);
  const page = pageAfterCursor(searchNodeTypes(catalogue, packageName, words), { cursor, limit }, nodeTypeKey);
  const conflicts = await catalogues.findConflicts(tenant);
  const items = page.items.map((one) => presentNodeType(one, conflicts));
  const fitting = countFitting(items);
  const last = page.items[fitting - 1];
  const nextCursor = fitting === items.length || last === undefined ? page.nextCursor : encodeCursor(nodeTypeKey(last));
  return { items: items.slice(0, fitting), nextCursor, asOf: catalogue.asOf };
}

/** The part of a list in order behind the last key of the page before. */
function pageAfterCursor<T>(all: readonly T[], { cursor, limit }: CataloguePage, keyOf: (item: T) => string) {
  const after = decodeCursor(cursor, (text) => text !== "" && text.length <= limits.idCharsMax);
  const rest = after === undefined ? all : all.filter((item) => keyOf(item) > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rest.length > items.length && last !== undefined ? encodeCursor(keyOf(last)) : null };
}

/** How many of the first, with the one that crosses the bound, so that a page is never empty. */
function countFitting(items: readonly object[]): number {
  let chars = 0;
  const crossing = items.findIndex((item) => {
    chars += JSON.stringify(item).length;
    return chars > catalogLimits.charsMax;
  });
  return crossing < 0 ? items.length : crossing + 1;
}

/** So many of the newest versions of a node type are shown in full, older ones by name. */
const templatesMax = 20;

const isPreRelease = (version: string): boolean => version.split("+")[0]?.includes("-") ?? false;
const defaultVersionOf = (versions: readonly string[]): string | undefined =>
  versions.find((one) => !isPreRelease(one)) ?? versions[0];

function presentPackage(catalogue: Catalogue, { name, versions }: CataloguePackage): PackageSummary {
  const latest = versions[0];
  const standard = defaultVersionOf(versions);
  const description = latest === undefined ? undefined : catalogue.manifest(name, latest)?.description;
  return {
    name,
    versions: [...versions],
    ...omitUndefined({ description, latestVersion: latest, defaultVersion: standard }),
  };
}

/** A node type of a package in all its versions, newest first. */
export interface CatalogueNodeType {
  readonly packageName: string;
  readonly type: string;
  readonly versions: readonly { readonly version: string; readonly node: ManifestNode }[];
}

/** Package and type in one, in an order that pages can rely on. */
const nodeTypeKey = (node: CatalogueNodeType): string => `${node.packageName} ${node.type}`;

/** Node types of a package, or of all, in which every word occurs. */
const searchNodeTypes = (catalogue: Catalogue, packageName: string | undefined, words: readonly string[]): CatalogueNodeType[] =>
  listNodeTypes(catalogue, packageName).filter((node) => matchesWords(node, words));

function listNodeTypes(catalogue: Catalogue, packageName: string | undefined): CatalogueNodeType[] {
  const nodes = new Map<string, { packageName: string; type: string; versions: { version: string; node: ManifestNode }[] }>();
  for (const { name, versions } of catalogue.packages) {
    if (packageName !== undefined && name !== packageName) continue;
    for (const manifest of versions.flatMap((version) => catalogue.manifest(name, version) ?? [])) addNodes(manifest);
  }
  return [...nodes.values()].sort((a, b) => (nodeTypeKey(a) < nodeTypeKey(b) ? -1 : 1));

  function addNodes({ name, version, nodes: list }: Manifest): void {
    for (const node of list) {
      const key = `${name} ${node.type}`;
      const known = nodes.get(key) ?? { packageName: name, type: node.type, versions: [] };
      nodes.set(key, known);
      known.versions.push({ version, node });
      known.versions.sort((a, b) => compareVersions(b.version, a.version));
    }
  }
}

/** Whether every word occurs in the texts of the newest version. */
function matchesWords({ packageName, type, versions }: CatalogueNodeType, words: readonly string[]): boolean {
  const node = versions[0]?.node;
  const text = [packageName, type, node?.label, node?.category, node?.description, ...(node?.tags ?? [])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function presentNodeType({ packageName, type, versions }: CatalogueNodeType, conflicts: ManifestConflicts): CatalogNode {
  const [newest] = versions;
  const names = versions.map(({ version }) => version);
  const standard = defaultVersionOf(names);
  return {
    type,
    label: newest?.node.label ?? type,
    packageName,
    versions: versions.map(({ version, node }, index) => ({
      version,
      status: node.status,
      ...conflictField(conflicts.get(`${packageName}/${version}`)),
      ...(index < templatesMax && { template: node, ...portTypesOf(node) }),
    })),
    ...(newest?.node.description !== undefined && { description: newest.node.description }),
    ...(newest !== undefined && { role: newest.node.role, category: newest.node.category, status: newest.node.status }),
    ...omitUndefined({ tags: newest?.node.tags, defaultVersion: standard, latestVersion: names[0] }),
  };
}

const conflictField = (
  holders: ReturnType<ManifestConflicts["get"]>,
): Pick<CatalogNode["versions"][number], "manifestConflict"> => (holders === undefined ? {} : { manifestConflict: [...holders] });

type Schema = Readonly<Record<string, JsonValue>>;

const isSchema = (value: unknown): value is Schema => typeof value === "object" && value !== null && !Array.isArray(value);

function portTypesOf(node: ManifestNode): { inputs: CatalogPort[]; outputs: CatalogPort[] } {
  const view = (ports: readonly NodePort[] = []) => ports.map((port) => portTypeOf(node, port));
  return { inputs: view(node.ui?.inputPorts), outputs: view(node.ui?.outputPorts) };
}

function portTypeOf(node: ManifestNode, { key, label, binding }: NodePort): CatalogPort {
  const path = parseBindingPath(binding.path);
  // A binding into another node or graph has its type there, not here.
  const isElsewhere = binding.prefix !== undefined || (binding.scope !== undefined && binding.scope.kind !== "local");
  if (typeof path === "string" || isElsewhere) return { key, label, path: binding.path, type: "any" };
  const found = schemaAt(node.schema[path.root], path.steps);
  return {
    key,
    label,
    path: binding.path,
    type: found === null ? "any" : jsonTypeOf(found.schema),
    ...(found?.isRequired === true && { isRequired: true }),
    ...(found?.schema["default"] !== undefined && { default: found.schema["default"] }),
  };
}

/** The schema at a path below another; null where it does not say. */
function schemaAt(root: unknown, steps: readonly string[]): { schema: Schema; isRequired: boolean } | null {
  if (!isSchema(root)) return null;
  let schema: Schema = root;
  let isRequired = false;
  for (const step of steps) {
    const { properties, items, required } = schema;
    const next =
      isSchema(properties) && Object.hasOwn(properties, step) ? properties[step] : /^[0-9]+$/.test(step) ? items : undefined;
    if (!isSchema(next)) return null;
    isRequired = Array.isArray(required) && required.includes(step);
    schema = next;
  }
  return { schema, isRequired };
}

/** Its JSON types, joined; read from its values where it lists them. */
function jsonTypeOf(schema: Schema): string {
  const { type, enum: values, const: value, anyOf, oneOf } = schema;
  if (typeof type === "string") return type;
  if (Array.isArray(type)) return joinTypes(type.map(String));
  if (Array.isArray(values)) return joinTypes(values.map(typeOfValue));
  if (value !== undefined) return typeOfValue(value);
  const forms = Array.isArray(anyOf) ? anyOf : Array.isArray(oneOf) ? oneOf : [];
  const types = forms.slice(0, 32).map((form) => (isSchema(form) && typeof form["type"] === "string" ? form["type"] : "any"));
  return types.includes("any") ? "any" : joinTypes(types);
}

const joinTypes = (types: readonly string[]): string => (types.length === 0 ? "any" : [...new Set(types)].join("|"));

function typeOfValue(value: JsonValue): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
