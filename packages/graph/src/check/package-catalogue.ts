// A workflow against the catalogue of packages: what is not there is named, and what the author left out is filled in from it.

import { closestMatch, type NodeUi, omitUndefined, type SchemaMode, type Workflow, type WorkflowNode } from "@astraflow/protocol";
import { type AuthoredNode, isContainer } from "../plan/container-settings.ts";
import {
  declaredUnrepeatable,
  describeNode,
  type IndexedGraph,
  indexWorkflow,
  minVersionFor,
  type NodeEntry,
  type WorkflowIndex,
} from "../plan/workflow-index.ts";
import { isSameJson } from "../values/canonical-json.ts";
import { compareVersions } from "../values/version-order.ts";
import { type GraphProblem, ProblemList } from "./problem-list.ts";

export interface NodeTypeDescription {
  readonly schema: { readonly parameters?: unknown; readonly results?: unknown };
  readonly ports?: Pick<NodeUi, "inputPorts" | "outputPorts">;
  readonly role?: "node" | "container" | "middleware";
  /** Of the node type, else of its package. */
  readonly schemaMode?: SchemaMode | undefined;
  /** Digest of the manifest that describes it. */
  readonly manifest?: string | undefined;
  /** What the manifest declares for the adapter of the node type. */
  readonly idempotency?: string | undefined;
}

export interface PackageCatalogue {
  /** Null: the version has no such type, or there is no such version. */
  node(packageName: string, version: string, type: string): NodeTypeDescription | null;
  /** Of a version; for the sentence that refuses a type which it has not. */
  nodeTypes?(packageName: string, version: string): readonly string[];
  /** Empty: no worker has ever sent a manifest of this package. */
  versions(packageName: string): readonly string[];
  /** Packages with manifests. While there are none, no worker has joined yet, so an unknown package is not an error. */
  readonly names: readonly string[];
  /** Some worker lists this package, or this version, without a manifest; or its manifest is not stored yet. */
  isListed(packageName: string, version?: string): boolean;
  /** What is set for the tenant; absent: values that do not match a schema are warnings. */
  readonly schemaMode?: SchemaMode | undefined;
}

export interface WorkflowCheckOptions {
  /** An unknown package is a warning: its node waits for a worker that has it. */
  readonly allowUnknown?: boolean;
  /** Steps for the schemas of all nodes together; what needs more is refused as too costly. */
  readonly stepsMax?: number | undefined;
}

/** Bound on the search for similar names, however many unknown names a definition has. */
const suggestionLimits = { lookupsMax: 3, namesMax: 1_000, charsMax: 64 } as const;
const shownCharsMax = 80;
const shownTypesMax = 10;

/** The scheduler runs these itself, whatever package they name. */
const isBuiltInNode = (node: AuthoredNode): boolean => node.type === "workflow.container";

export class CatalogueCheck {
  readonly #index: WorkflowIndex;
  readonly #catalogue: PackageCatalogue;
  readonly #problems: ProblemList;
  readonly #allowsUnknown: boolean;
  /** By what is searched and unknown name, the known one that was perhaps meant; null: none is alike. */
  readonly #suggestions = new Map<string, string | null>();

  constructor(index: WorkflowIndex, catalogue: PackageCatalogue, problems: ProblemList, options: WorkflowCheckOptions) {
    this.#index = index;
    this.#catalogue = catalogue;
    this.#problems = problems;
    this.#allowsUnknown = options.allowUnknown ?? false;
  }

  checkGraph(graph: IndexedGraph): void {
    for (const entry of graph.entries)
      if (!isBuiltInNode(entry.node) && this.#isPackageKnown(graph, entry)) this.#checkNodeType(graph, entry);
  }

  checkPackages(): void {
    for (const graph of this.#index.graphs)
      for (const entry of graph.entries) if (!isBuiltInNode(entry.node)) this.#isPackageKnown(graph, entry);
  }

  /** False where the package has no manifest that the node could be held against; what that means is reported. */
  #isPackageKnown(graph: IndexedGraph, entry: NodeEntry): boolean {
    const { package: wanted } = entry.node;
    const named = describeNode(entry.node);
    if (this.#catalogue.versions(wanted.name).length > 0) return true;
    const at = ["package", "name"];
    const name = truncateName(wanted.name);
    if (this.#catalogue.isListed(wanted.name)) this.#problems.nodeWarning(graph, entry, at, missingManifestMessage(named, name));
    else if (this.#allowsUnknown || this.#catalogue.names.length === 0) {
      const message = `${named}: no worker has registered package ${name} yet; the node waits until one does`;
      this.#problems.nodeWarning(graph, entry, at, message);
    } else {
      const hint = formatSuggestion(this.#suggestName("", wanted.name, this.#catalogue.names));
      const remedy =
        "start a worker that has it (one that cannot load it logs why), or send allowUnknown: true and the node waits for one";
      this.#problems.nodeError(graph, entry, at, `${named}: no worker has registered package ${name}${hint}; ${remedy}`);
    }
    return false;
  }

  /** `among` is the package and version whose types are searched; empty for packages. */
  #suggestName(among: string, name: string, known: readonly string[]): string | null {
    const { lookupsMax, namesMax, charsMax } = suggestionLimits;
    const key = `${among} ${name}`;
    const found = this.#suggestions.get(key);
    if (found !== undefined) return found;
    if (name.length > charsMax || this.#suggestions.size >= lookupsMax) return null;
    const candidates = known.slice(0, namesMax).filter((one) => one.length <= charsMax);
    // Without the first part of its name, which is often that of the package, a type is far from itself.
    const closest = candidates.find((one) => one.endsWith(`.${name}`)) ?? closestMatch(name, candidates);
    this.#suggestions.set(key, closest);
    return closest;
  }

  #unknownTypeMessage(node: AuthoredNode, name: string, version: string): string {
    const types = this.#catalogue.nodeTypes?.(name, version) ?? [];
    const hint = formatSuggestion(this.#suggestName(`${name} ${version}`, node.type, types));
    const listed = types.slice(0, shownTypesMax).map(truncateName).join(", ");
    const more = types.length > shownTypesMax ? ` and ${types.length - shownTypesMax} more` : "";
    const known = types.length === 0 ? "" : `; it has ${listed}${more}`;
    return `${describeNode(node)}: package ${name} ${version} has no node type ${truncateName(node.type)}${hint}${known}`;
  }

  #checkNodeType(graph: IndexedGraph, entry: NodeEntry): void {
    const { node } = entry;
    const { name, version } = node.package;
    const report = (at: readonly string[], message: string) => this.#problems.nodeError(graph, entry, at, message);
    const known = this.#catalogue.versions(name);
    const named = describeNode(node);
    if (!versionSetOf(known).has(version) && this.#catalogue.isListed(name, version)) {
      const message = missingManifestMessage(named, `${truncateName(name)} ${version}`);
      return this.#problems.nodeWarning(graph, entry, ["package", "version"], message);
    }
    const used = usableVersion(version, minVersionFor(this.#index, graph, node), known);
    if (used === null) {
      const sorted = [...known].sort(compareVersions);
      const remedy = `start a worker that has ${version} (workers read packages when they start), or use ${sorted.at(-1)}`;
      const message = `package ${name} has no version ${version}; it has ${formatVersions(sorted)}: ${remedy}`;
      return report(["package", "version"], `${named}: ${message}`);
    }
    const found = this.#catalogue.node(name, used, node.type);
    if (found === null) return report(["type"], this.#unknownTypeMessage(node, name, used));
    const isMiddleware = entry.host !== null;
    if (isMiddleware && found.role !== "middleware")
      report(["type"], `middleware ${node.id} (${node.label}): ${node.type} is not a middleware and cannot wrap a node`);
    else if (!isMiddleware && found.role === "middleware")
      report(["type"], `${named}: ${node.type} is a middleware; put it around a node`);
    else if (!isMiddleware && isContainer(node) !== (found.role === "container")) {
      const what = found.role === "container" ? "a container" : "no container";
      report(["role"], `${named}: ${node.type} is ${what}; give it the role ${found.role ?? "node"}`);
    }
  }
}

const truncateName = (name: string): string => (name.length > shownCharsMax ? `${name.slice(0, shownCharsMax)}…` : name);
const formatSuggestion = (name: string | null): string => (name === null ? "" : ` (did you mean ${truncateName(name)}?)`);
const missingManifestMessage = (named: string, what: string): string =>
  `${named}: no worker has sent a manifest of package ${what}, so the node is not checked`;

/** Checks only whether the packages of a workflow are known: the rest was checked when it was published. */
export function checkPackages(
  workflow: Workflow,
  catalogue: PackageCatalogue,
  options: WorkflowCheckOptions = {},
): GraphProblem[] {
  const problems = new ProblemList();
  new CatalogueCheck(indexWorkflow(workflow), catalogue, problems, options).checkPackages();
  return problems.list;
}

const formatVersions = (versions: readonly string[]): string =>
  versions.length > 10 ? `${versions.slice(-10).join(", ")} and ${versions.length - 10} earlier ones` : versions.join(", ");

/** Built once for a list of versions, however many nodes name one of them. */
const versionSets = new WeakMap<readonly string[], { has(version: string): boolean; readonly highest: string | undefined }>();

function versionSetOf(versions: readonly string[]) {
  const known = versionSets.get(versions);
  if (known !== undefined) return known;
  const set = new Set(versions);
  const made = { has: (version: string) => set.has(version), highest: [...versions].sort(compareVersions).at(-1) };
  versionSets.set(versions, made);
  return made;
}

/** The version as authored; else, where a least version is enough, the highest that is. */
function usableVersion(version: string, minVersion: string | null, known: readonly string[]): string | null {
  const { has, highest } = versionSetOf(known);
  if (has(version) || minVersion === null) return has(version) ? version : null;
  return highest !== undefined && compareVersions(highest, minVersion) >= 0 ? highest : null;
}

/**
 * The workflow with schemas, ports, roles and schema modes of the catalogue where the author left them out: what runs then needs no
 * catalogue.
 */
export function resolveFromCatalogue(workflow: Workflow, catalogue: PackageCatalogue): Workflow {
  const filled = fillGraph(workflow, catalogue, undefined);
  return { ...filled, ...omitUndefined({ schemaMode: workflow.schemaMode ?? catalogue.schemaMode }) };
}

/** `mode`: what the author has set around this graph. */
function fillGraph(graph: Workflow, catalogue: PackageCatalogue, mode: SchemaMode | undefined): Workflow {
  const authoredMode = graph.schemaMode ?? mode;
  const nodes = graph.nodes.map((node): WorkflowNode => {
    const middlewares = node.middlewares?.map((middleware) => fillNode(middleware, catalogue, authoredMode));
    return { ...fillNode(node, catalogue, authoredMode), ...(middlewares !== undefined && { middlewares }) };
  });
  const subgraphs = graph.subgraphs?.map((subgraph) => ({
    ...subgraph,
    definition: fillGraph(subgraph.definition, catalogue, authoredMode),
  }));
  return { ...graph, nodes, ...(subgraphs !== undefined && { subgraphs }) };
}

function fillNode<N extends AuthoredNode>(node: N, catalogue: PackageCatalogue, authoredMode: SchemaMode | undefined): N {
  const { name, version } = node.package;
  const used = usableVersion(version, node.policy?.minVersion ?? null, catalogue.versions(name));
  const found = used === null ? null : catalogue.node(name, used, node.type);
  // Only the catalogue says which manifest it is; where it knows none, what was declared once still holds.
  const { manifest: _, ...authored } = node.package;
  if (found === null) return node.package.manifest === undefined ? node : { ...node, package: authored };
  const manifest = hasSchemasOf(node, found) ? found.manifest : undefined;
  const { idempotency: __, ...named } = authored;
  const declared = { manifest, idempotency: declaredUnrepeatable(found.idempotency) };
  const schema = { ...definedFields(found.schema), ...definedFields(node.schema ?? {}) };
  const ui = { ...definedFields(found.ports ?? {}), ...definedFields(node.ui ?? {}) };
  const schemaMode = (node.policy?.schemaMode ?? authoredMode) === undefined ? found.schemaMode : undefined;
  const isRoleMissing = node.role === undefined && found.role !== undefined && found.role !== "node";
  return {
    ...node,
    package: { ...named, ...omitUndefined(declared) },
    ...(Object.keys(schema).length > 0 && { schema }),
    ...(Object.keys(ui).length > 0 && { ui }),
    ...(isRoleMissing && { role: found.role }),
    ...(schemaMode !== undefined && { policy: { ...node.policy, schemaMode } }),
  };
}

/** Whether the author left the schemas out, or copied them from the manifest as editors do. */
const hasSchemasOf = (node: AuthoredNode, found: NodeTypeDescription): boolean =>
  (["parameters", "results"] as const).every((root) => {
    const authored = node.schema?.[root];
    if (authored === undefined) return true;
    const { [root]: described = true } = found.schema;
    return isSameJson(authored, described);
  });

const definedFields = <T extends object>(fields: T): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
