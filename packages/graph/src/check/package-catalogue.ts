// A workflow against the catalogue of packages: what is not there is named, and what the author left out is filled in from it.
// Where the catalogue comes from is the caller's.

import { closestMatch, type Middleware, type NodeUi, type Workflow, type WorkflowNode } from "@astraflow/protocol";
import { type AuthoredNode, isContainer } from "../plan/container-settings.ts";
import {
  definitionPathOf,
  type IndexedGraph,
  indexWorkflow,
  minVersionFor,
  type NodeEntry,
  type WorkflowIndex,
} from "../plan/workflow-index.ts";
import { compareVersions } from "../values/version-order.ts";
import { type GraphProblem, ProblemList } from "./problem-list.ts";

export interface NodeTypeDescription {
  readonly schema: { readonly parameters?: unknown; readonly results?: unknown };
  readonly ports?: Pick<NodeUi, "inputPorts" | "outputPorts">;
  readonly role?: "node" | "container" | "middleware";
}

export interface PackageCatalogue {
  /** Null: the version has no such type, or there is no such version. */
  node(packageName: string, version: string, type: string): NodeTypeDescription | null;
  /** Empty: no worker has ever sent a manifest of this package. */
  versions(packageName: string): readonly string[];
  /** Packages with manifests. While there are none, no worker has joined yet, so an unknown package is not an error. */
  readonly names: readonly string[];
  /** Some worker lists this package, or this version, without a manifest; or its manifest is not stored yet. */
  isListed(packageName: string, version?: string): boolean;
}

export interface WorkflowCheckOptions {
  /** An unknown package is a warning: its node waits for a worker that has it. */
  readonly allowUnknown?: boolean;
}

/** Bound on the search for similar names, however many unknown names a definition has. */
const suggestionLimits = { lookupsMax: 3, namesMax: 1_000, charsMax: 64 } as const;
/** Of a name in a sentence. */
const shownCharsMax = 80;

/** The scheduler runs these itself, whatever package they name. */
const isBuiltInNode = (node: AuthoredNode): boolean => node.type === "workflow.container";

/** One look at a workflow: what it is held against, and where what is wrong is written. */
interface CatalogueCheck {
  readonly workflowIndex: WorkflowIndex;
  readonly catalogue: PackageCatalogue;
  readonly problems: ProblemList;
  readonly allowUnknown: boolean;
  /** By unknown name, the known one that was perhaps meant; null: none is alike, or enough were looked for. */
  readonly suggestions: Map<string, string | null>;
}

export const startCatalogueCheck = (
  workflowIndex: WorkflowIndex,
  catalogue: PackageCatalogue,
  problems: ProblemList,
  options: WorkflowCheckOptions,
): CatalogueCheck => ({
  workflowIndex,
  catalogue,
  problems,
  allowUnknown: options.allowUnknown ?? false,
  suggestions: new Map(),
});

export function checkAgainstCatalogue(check: CatalogueCheck, graph: IndexedGraph): void {
  for (const entry of graph.entries)
    if (!isBuiltInNode(entry.node) && checkPackageKnown(check, graph, entry)) checkNodeType(check, graph, entry);
}

/** Checks only whether the packages of a workflow are known: the rest was checked when it was published. */
export function checkPackages(
  workflow: Workflow,
  catalogue: PackageCatalogue,
  options: WorkflowCheckOptions = {},
): GraphProblem[] {
  const workflowIndex = indexWorkflow(workflow);
  const check = startCatalogueCheck(workflowIndex, catalogue, new ProblemList(), options);
  for (const graph of workflowIndex.graphs)
    for (const entry of graph.entries) if (!isBuiltInNode(entry.node)) checkPackageKnown(check, graph, entry);
  return check.problems.list;
}

/** False where the package has no manifest that the node could be held against; what that means is written down. */
function checkPackageKnown(check: CatalogueCheck, graph: IndexedGraph, entry: NodeEntry): boolean {
  const { catalogue, problems, allowUnknown } = check;
  const { id, package: wantedPackage } = entry.node;
  if (catalogue.versions(wantedPackage.name).length > 0) return true;
  const at = [...definitionPathOf(entry), "package", "name"];
  const name = truncateName(wantedPackage.name);
  if (catalogue.isListed(wantedPackage.name))
    problems.warning(graph, at, `node ${id}: no worker has sent a manifest of package ${name}, so the node is not checked`, id);
  else if (allowUnknown || catalogue.names.length === 0)
    problems.warning(graph, at, `node ${id}: no worker has registered package ${name} yet; the node waits until one does`, id);
  else {
    const suggestion = suggestPackage(check, wantedPackage.name);
    const hint = suggestion === null ? "" : ` (did you mean ${truncateName(suggestion)}?)`;
    const remedy = "start a worker that has it, or send allowUnknown: true and the node waits for one";
    problems.error(graph, at, `node ${id}: no worker has registered package ${name}${hint}; ${remedy}`, id);
  }
  return false;
}

const truncateName = (name: string): string => (name.length > shownCharsMax ? `${name.slice(0, shownCharsMax)}…` : name);

function suggestPackage({ catalogue, suggestions }: CatalogueCheck, name: string): string | null {
  const { lookupsMax, namesMax, charsMax } = suggestionLimits;
  const found = suggestions.get(name);
  if (found !== undefined) return found;
  if (name.length > charsMax || suggestions.size >= lookupsMax) return null;
  const closest = closestMatch(
    name,
    catalogue.names.slice(0, namesMax).filter((one) => one.length <= charsMax),
  );
  suggestions.set(name, closest);
  return closest;
}

function checkNodeType({ workflowIndex, catalogue, problems }: CatalogueCheck, graph: IndexedGraph, entry: NodeEntry): void {
  const { node } = entry;
  const { name, version } = node.package;
  const at = definitionPathOf(entry);
  const known = catalogue.versions(name);
  if (!known.includes(version) && catalogue.isListed(name, version)) {
    const message = `node ${node.id}: no worker has sent a manifest of package ${truncateName(name)} ${version}, so the node is not checked`;
    problems.warning(graph, [...at, "package", "version"], message, node.id);
    return;
  }
  const used = usableVersion(version, minVersionFor(workflowIndex, graph, node), known);
  if (used === null) {
    const message = `node ${node.id}: package ${name} has no version ${version}; it has ${formatVersions([...known].sort(compareVersions))}`;
    problems.error(graph, [...at, "package", "version"], message, node.id);
    return;
  }
  const found = catalogue.node(name, used, node.type);
  if (found === null) {
    problems.error(graph, [...at, "type"], `node ${node.id}: package ${name} ${used} has no node type ${node.type}`, node.id);
    return;
  }
  const isMiddleware = entry.host !== null;
  if (isMiddleware !== (found.role === "middleware")) {
    const message = isMiddleware
      ? `middleware ${node.id}: ${node.type} is not a middleware and cannot wrap a node`
      : `node ${node.id}: ${node.type} is a middleware; put it around a node`;
    problems.error(graph, [...at, "type"], message, node.id);
  } else if (!isMiddleware && isContainer(node) !== (found.role === "container")) {
    const message = `node ${node.id}: ${node.type} is ${found.role === "container" ? "a container" : "no container"}; give it the role ${found.role ?? "node"}`;
    problems.error(graph, [...at, "role"], message, node.id);
  }
}

const formatVersions = (versions: readonly string[]): string =>
  versions.length > 10 ? `${versions.slice(-10).join(", ")} and ${versions.length - 10} earlier ones` : versions.join(", ");

/** The version as authored; else, where a least version is enough, the highest that is. */
function usableVersion(version: string, minVersion: string | null, known: readonly string[]): string | null {
  if (known.includes(version) || minVersion === null) return known.includes(version) ? version : null;
  const highest = [...known].sort(compareVersions).at(-1);
  return highest !== undefined && compareVersions(highest, minVersion) >= 0 ? highest : null;
}

/** The workflow with schemas, ports and roles of the catalogue where the author left them out: what runs then needs no catalogue. */
export function resolveFromCatalogue(workflow: Workflow, catalogue: PackageCatalogue): Workflow {
  return {
    ...workflow,
    nodes: workflow.nodes.map((node) => resolveNode(node, catalogue)),
    ...(workflow.subgraphs !== undefined && {
      subgraphs: workflow.subgraphs.map((subgraph) => ({
        ...subgraph,
        definition: resolveFromCatalogue(subgraph.definition, catalogue),
      })),
    }),
  };
}

function resolveNode(node: WorkflowNode, catalogue: PackageCatalogue): WorkflowNode {
  const resolved = fillNode(node, catalogue);
  if (node.middlewares === undefined) return resolved;
  return { ...resolved, middlewares: node.middlewares.map((middleware) => fillNode<Middleware>(middleware, catalogue)) };
}

function fillNode<N extends AuthoredNode>(node: N, catalogue: PackageCatalogue): N {
  const { name, version } = node.package;
  const used = usableVersion(version, node.policy?.minVersion ?? null, catalogue.versions(name));
  const found = used === null ? null : catalogue.node(name, used, node.type);
  if (found === null) return node;
  const schema = { ...definedFields(found.schema), ...definedFields(node.schema ?? {}) };
  const ui = { ...definedFields(found.ports ?? {}), ...definedFields(node.ui ?? {}) };
  const isRoleMissing = node.role === undefined && found.role !== undefined && found.role !== "node";
  return {
    ...node,
    ...(Object.keys(schema).length > 0 && { schema }),
    ...(Object.keys(ui).length > 0 && { ui }),
    ...(isRoleMissing && { role: found.role }),
  };
}

const definedFields = <T extends object>(fields: T): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
